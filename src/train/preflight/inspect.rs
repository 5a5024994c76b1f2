//! One item, token by token: what is asked, what is learned, and what pre-flight says of it.

use super::check::{agree, check, encode};
use super::{Item, Refusal, too_long};
use crate::student::ChatTokenizer;
use serde::Serialize;

/// What training does with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Asked with; no loss.
    Prompt,
    /// Learned.
    Label,
    /// Read, never asked with and not learned: what the corpus says is unsure.
    Masked,
}

/// One place of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenToken {
    /// From 0.
    pub position: usize,
    /// The token as trained.
    pub id: Option<u32>,
    /// The token as prompted; none behind the prompt.
    pub prompted: Option<u32>,
    /// What training does with it.
    pub part: Part,
    /// What it stands for: a control token as it is written, text in quotes with escapes.
    pub text: String,
}

/// An item as training and inference see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// Where it stands.
    pub example: String,
    /// Every place, in order.
    pub tokens: Vec<SeenToken>,
    /// Tokens in all, as trained.
    pub length: usize,
    /// The most that fit.
    pub sequence_len: usize,
    /// Tokens it is asked with.
    pub prompt_tokens: usize,
    /// Tokens that are learned, the end of turn among them.
    pub supervised_tokens: usize,
    /// Whether the end of turn is learned.
    pub end_trained: bool,
    /// The first place where the prompted ids are not the trained ones; none if they are a prefix.
    pub parts_at: Option<usize>,
    /// Why `train` would refuse it.
    pub refusal: Option<Refusal>,
}

/// Looks at one item; `most` is the longest that fits, in tokens.
///
/// # Errors
/// `E207` and `E208`: there are no tokens to look at. Any other refusal is part of the answer.
pub fn inspect(tokenizer: &ChatTokenizer, item: &Item, most: usize) -> Result<Inspection, Refusal> {
    let (found, prompt) = encode(tokenizer, item)?;
    let verdict = check(&found, &prompt, tokenizer.end_of_turn(), |id| tokenizer.is_control(id))
        .and_then(|()| agree(tokenizer, item))
        .and_then(|()| match found.ids.len() > most {
            true => Err(too_long(&found, "what fits", most, "train would stop here")),
            false => Ok(()),
        });
    let (ids, supervised) = (&found.ids, &found.supervised);
    let same = ids.iter().zip(&prompt).take_while(|(trained, asked)| trained == asked).count();
    let token = |position: usize| {
        let (id, prompted) = (ids.get(position).copied(), prompt.get(position).copied());
        let part = match position {
            _ if found.unlearned.iter().any(|range| range.contains(&position)) => Part::Masked,
            _ if supervised.contains(&position) => Part::Label,
            _ if position < supervised.start => Part::Prompt,
            _ => Part::Masked,
        };
        let text = id.or(prompted).map(|id| tokenizer.shown(id)).unwrap_or_default();
        SeenToken { position, id, prompted, part, text }
    };
    Ok(Inspection {
        example: found.name.clone(),
        tokens: (0..ids.len().max(prompt.len())).map(token).collect(),
        length: ids.len(),
        sequence_len: most,
        prompt_tokens: prompt.len(),
        supervised_tokens: found.learned(),
        end_trained: supervised.end == ids.len() && ids.last() == Some(&tokenizer.end_of_turn()),
        parts_at: (same < prompt.len()).then_some(same),
        refusal: verdict.err(),
    })
}
