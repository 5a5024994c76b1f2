//! The check before the first step: every item is turned into tokens once, and what would waste
//! a run is refused with a code, the item's place and the way out.

use super::config::{ExcessLength, TrainConfig};
use super::error::Refusal;
use crate::store::hash_bytes;
use crate::student::{ChatTokenizer, Student};
use crate::template::Message;
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
        for TokenizedItem { name, ids, supervised, weight } in &self.items {
            let sizes = [name.len(), ids.len(), supervised.start, supervised.end];
            bytes.extend(sizes.iter().flat_map(|size| (*size as u64).to_le_bytes()));
            bytes.extend(name.bytes());
            bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
            bytes.extend(weight.to_le_bytes());
        }
        hash_bytes(&bytes)
    }
}

/// Turns items into tokens, and refuses what must not be trained on.
///
/// # Errors
/// The first reason to refuse, with its code; see [`Refusal`].
pub fn preflight(student: &Student, items: &[Item], config: &TrainConfig) -> Result<Tokenized, Refusal> {
    let most = config.sequence_len.min(student.model.config().context);
    let mut tokenized = Tokenized::default();
    let mut long: Vec<TokenizedItem> = Vec::new();
    for item in items {
        let item = tokenize(&student.tokenizer, item)?;
        if item.ids.len() > most {
            long.push(item);
            continue;
        }
        tokenized.supervised_tokens += item.supervised.len();
        tokenized.longest = tokenized.longest.max(item.ids.len());
        tokenized.items.push(item);
    }
    if let (Some(first), ExcessLength::Raise) = (long.first(), config.excess_length) {
        return Err(too_long(first, long.len(), items.len(), most, config));
    }
    tokenized.dropped = long.into_iter().map(|item| item.name).collect();
    if tokenized.items.is_empty() {
        let why = match tokenized.dropped.len() {
            0 => "the corpus is empty; did the filter keep anything?".to_owned(),
            count => format!("all {count} are longer than {most} tokens; raise sequence_len"),
        };
        return Err(Refusal::new("E201", format!("there is no item to learn from: {why}")));
    }
    Ok(tokenized)
}

fn too_long(first: &TokenizedItem, count: usize, all: usize, most: usize, config: &TrainConfig) -> Refusal {
    let (length, prompt, answer) = (first.ids.len(), first.supervised.start, first.supervised.len());
    let limit = if most < config.sequence_len { "the model's context" } else { "sequence_len" };
    let message = format!(
        "{}: {length} tokens (prompt {prompt}, answer {answer}) are more than {limit}, {most}; {count} of {all} items \
         are too long — raise the limit, split the documents, or set excess_length = \"drop\"",
        first.name
    );
    Refusal::new("E206", message)
}

fn tokenize(tokenizer: &ChatTokenizer, item: &Item) -> Result<TokenizedItem, Refusal> {
    let Item { name, messages, weight } = item;
    if !(*weight >= 0.0 && weight.is_finite()) {
        return Err(Refusal::new("E208", format!("{name}: its weight is {weight}; expected 0 or a number above")));
    }
    let fail = |error| Refusal::new("E207", format!("{name}: {error}"));
    let example = tokenizer.example(messages).map_err(fail)?;
    let prompt = tokenizer.prompt(&messages[..messages.len() - 1]).map_err(fail)?;
    let found = TokenizedItem { name: name.clone(), ids: example.ids, supervised: example.supervised, weight: *weight };
    check(&found, &prompt, tokenizer.end_of_turn(), |id| is_control(tokenizer, id))?;
    Ok(found)
}

/// Whether decoding leaves this token out, although it is more than white space.
fn is_control(tokenizer: &ChatTokenizer, id: u32) -> bool {
    let written = tokenizer.token(id).unwrap_or_default();
    let blank = written.chars().all(|c| c.is_whitespace() || matches!(c, '▁' | 'Ġ' | 'Ċ'));
    !blank && tokenizer.decode(&[id]).is_ok_and(|text| text.is_empty())
}

/// What must hold of every item, whatever the tokenizer did.
fn check(item: &TokenizedItem, prompt: &[u32], end_of_turn: u32, control: impl Fn(u32) -> bool) -> Result<(), Refusal> {
    let TokenizedItem { name, ids, supervised, .. } = item;
    let refuse = |code, message: String| Err(Refusal::new(code, format!("{name}: {message}")));
    if supervised.is_empty() || supervised.end > ids.len() {
        return refuse("E202", format!("no supervised token among {}; is the answer empty?", ids.len()));
    }
    if supervised.end != ids.len() || ids.last() != Some(&end_of_turn) {
        let last = ids.last().copied().unwrap_or_default();
        return refuse(
            "E203",
            format!(
                "the end of turn, token {end_of_turn}, is not learned (the last token is {last}); the student would \
                 never stop — check the chat template"
            ),
        );
    }
    if let [first, second, ..] = ids[..]
        && first == second
        && control(first)
    {
        let message = format!(
            "it begins with the control token {first} twice; template and tokenizer both add it — remove it from the \
             chat template"
        );
        return refuse("E204", message);
    }
    if supervised.start != prompt.len() || !ids.starts_with(prompt) {
        let same = ids.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let message = format!(
            "the student is asked with {} tokens that differ from the trained ones at token {same}; the answer begins \
             at {} — check that the chat template only appends",
            prompt.len(),
            supervised.start
        );
        return refuse("E205", message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(ids: &[u32], supervised: Range<usize>) -> TokenizedItem {
        TokenizedItem { name: "train.jsonl:12".into(), ids: ids.to_vec(), supervised, weight: 1.0 }
    }

    #[test]
    fn tokens_that_would_waste_a_run_are_refused_with_their_code() {
        // 1 begins a text, 2 ends a turn.
        let check = |ids: &[u32], supervised, prompt: &[u32]| check(&item(ids, supervised), prompt, 2, |id| id < 3);
        check(&[1, 5, 6, 7, 2], 3..5, &[1, 5, 6]).unwrap();
        check(&[5, 5, 6, 7, 2], 3..5, &[5, 5, 6]).unwrap();
        let cases = [
            (check(&[1, 5, 6, 7, 2], 3..3, &[1, 5, 6]), "E202"),
            (check(&[1, 5, 6, 7, 2], 3..6, &[1, 5, 6]), "E202"),
            (check(&[1, 5, 6, 7, 2], 3..4, &[1, 5, 6]), "E203"),
            (check(&[1, 5, 6, 7, 9], 3..5, &[1, 5, 6]), "E203"),
            (check(&[1, 1, 6, 7, 2], 3..5, &[1, 1, 6]), "E204"),
            (check(&[1, 5, 6, 7, 2], 3..5, &[1, 5, 8]), "E205"),
            (check(&[1, 5, 6, 7, 2], 3..5, &[1, 5]), "E205"),
        ];
        for (result, code) in cases {
            let refusal = result.unwrap_err();
            assert_eq!(refusal.code, code, "{refusal}");
            assert!(refusal.to_string().starts_with(&format!("{code}: train.jsonl:12: ")), "{refusal}");
        }
    }
}
