//! The check before the first step: every item is turned into tokens once, and what would waste
//! a run is refused with a code, the item's place and the way out.

mod check;
mod inspect;

pub use check::check_targets;
pub use inspect::{Inspection, Part, SeenToken, inspect};

use super::config::{ExcessLength, TrainConfig};
use super::error::Refusal;
use crate::store::hash_bytes;
use crate::student::Student;
use crate::template::Message;
use check::tokenize;
use rayon::prelude::*;
use std::ops::Range;

/// One conversation to learn from; its last message is the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Where it stands: `train.jsonl:12`.
    pub name: String,
    /// The question and the answer.
    pub messages: Vec<Message>,
    /// Factor on its losses. Usually 1.
    pub weight: f32,
    /// Bytes of the answer that are not learned; usually none. A token that touches one of them is not.
    pub unlearned: Vec<Range<usize>>,
}

/// An item as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenizedItem {
    /// Where it stands.
    pub name: String,
    /// Prompt, answer, end of turn.
    pub ids: Vec<u32>,
    /// The answer and the end of turn.
    pub supervised: Range<usize>,
    /// Factor on its losses.
    pub weight: f32,
    /// Tokens of `supervised` that are read and not learned.
    pub unlearned: Vec<Range<usize>>,
}

impl TokenizedItem {
    /// Tokens that are learned.
    pub fn learned(&self) -> usize {
        self.supervised.len() - self.unlearned.iter().map(Range::len).sum::<usize>()
    }
}

/// What a run learns from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tokenized {
    /// The items that fit, in the order given.
    pub items: Vec<TokenizedItem>,
    /// Names of those that were left out as too long.
    pub dropped: Vec<String>,
    /// Tokens that are learned in one epoch.
    pub supervised_tokens: usize,
    /// Tokens of the longest item that fits.
    pub longest: usize,
}

impl Tokenized {
    /// A hash of everything that is learned from.
    pub(super) fn hash(&self) -> String {
        let mut bytes = Vec::new();
        for TokenizedItem { name, ids, supervised, weight, unlearned } in &self.items {
            let sizes = [name.len(), ids.len(), supervised.start, supervised.end];
            bytes.extend(sizes.iter().flat_map(|size| (*size as u64).to_le_bytes()));
            bytes.extend(name.bytes());
            bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
            bytes.extend(weight.to_le_bytes());
            bytes.extend(
                unlearned
                    .iter()
                    .flat_map(|range| [range.start, range.end])
                    .flat_map(|place| (place as u64).to_le_bytes()),
            );
        }
        hash_bytes(&bytes)
    }
}

/// Turns items into tokens, and refuses what must not be trained on.
///
/// # Errors
/// The first reason to refuse, with its code; see [`Refusal`].
pub fn preflight(student: &Student, items: &[Item], config: &TrainConfig) -> Result<Tokenized, Refusal> {
    check_targets(student.model.config(), &config.lora.targets)?;
    let most = config.sequence_len.min(student.model.config().context);
    // Side by side, but judged in order: the first refusal is the same every time.
    let found: Vec<Result<TokenizedItem, Refusal>> =
        items.par_iter().map(|item| tokenize(&student.tokenizer, item)).collect();
    let mut tokenized = Tokenized::default();
    let mut long: Vec<TokenizedItem> = Vec::new();
    for item in found {
        let item = item?;
        if item.ids.len() > most {
            long.push(item);
            continue;
        }
        tokenized.supervised_tokens += item.learned();
        tokenized.longest = tokenized.longest.max(item.ids.len());
        tokenized.items.push(item);
    }
    if let (Some(first), ExcessLength::Raise) = (long.first(), config.excess_length) {
        let limit = if most < config.sequence_len { "the model's context" } else { "train.sequence_len" };
        return Err(too_long(first, limit, most, &format!("{} of {} items are too long", long.len(), items.len())));
    }
    tokenized.dropped = long.into_iter().map(|item| item.name).collect();
    if tokenized.items.is_empty() {
        let why = match tokenized.dropped.len() {
            0 => "the corpus is empty; did the filter keep anything?".to_owned(),
            count => format!("all {count} are longer than {most} tokens; raise train.sequence_len"),
        };
        return Err(Refusal::new("E201", format!("there is no item to learn from: {why}")));
    }
    Ok(tokenized)
}

fn too_long(item: &TokenizedItem, limit: &str, most: usize, count: &str) -> Refusal {
    let (length, prompt, answer) = (item.ids.len(), item.supervised.start, item.supervised.len());
    let message = format!(
        "{}: {length} tokens (prompt {prompt}, answer {answer}) are more than {limit}, {most}; {count} — raise the \
         limit, split the documents, or leave such items out with train.excess_length_strategy = \"drop\"; nothing is \
         ever cut, as half an answer teaches half an answer",
        item.name
    );
    Refusal::new("E206", message)
}
