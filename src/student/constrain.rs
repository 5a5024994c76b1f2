//! Constrained decoding: from the bytes of a [`Grammar`] to the tokens of a model.
//!
//! A [`Vocabulary`] knows the bytes of every token, once for a model; a [`Guide`] follows one
//! answer and says which token may come next, which tokens must, and how to end at the limit.
//! Any way of cutting an answer into tokens is allowed, not only the tokenizer's own.

mod vocabulary;

use super::error::Result;
use super::tokenizer::ChatTokenizer;
use crate::template::answer::{Closing, Grammar, State};
use std::cmp::Ordering;
use std::sync::Arc;

pub use vocabulary::Vocabulary;

/// One answer while it is written.
#[derive(Clone)]
pub struct Guide {
    grammar: Arc<Grammar>,
    state: State,
    bytes: Vec<u8>,
    ids: Vec<u32>,
}

/// What [`Guide::close`] did to the tokens of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Tokens of the answer that stay.
    pub kept: usize,
    /// Tokens that follow them; no stop token is among them.
    pub added: Vec<u32>,
}

impl Guide {
    /// An answer of which nothing is written yet.
    pub fn new(grammar: Arc<Grammar>) -> Guide {
        Guide { state: grammar.start(), grammar, bytes: Vec::new(), ids: Vec::new() }
    }

    /// The tokens so far.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// What they spell; may end within a character.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether a whole answer stands: a stop token is all that may follow.
    pub fn finished(&self) -> bool {
        self.grammar.finished(&self.state)
    }

    /// Whether this token may follow; stop tokens and other control tokens never do.
    pub fn allows(&self, vocabulary: &Vocabulary, id: u32) -> bool {
        !vocabulary.token(id).is_empty() && self.after(vocabulary.added(id, self.ids.is_empty())).is_some()
    }

    /// The likeliest token that may follow, the lowest id among equals: a stop token where the
    /// answer is whole, and nowhere else. `None` if the vocabulary has none.
    ///
    /// The likeliest of all is tried first; only where it is refused are the others looked through,
    /// and of these only those whose first bytes the grammar takes.
    pub fn choose(&self, vocabulary: &Vocabulary, scores: &[f32], stops: &[u32]) -> Option<u32> {
        if self.finished() {
            return likeliest(stops.iter().copied(), scores);
        }
        let open = |id: &u32| !stops.contains(id);
        let first = likeliest_of_all(scores)?;
        if open(&first) && self.allows(vocabulary, first) {
            return Some(first);
        }
        likeliest(self.allowed(vocabulary).into_iter().filter(open), scores)
    }

    /// Every token that may follow, in no order.
    fn allowed(&self, vocabulary: &Vocabulary) -> Vec<u32> {
        let mut found = Vec::new();
        let mut take = |id| {
            found.push(id);
            true
        };
        vocabulary.walk(&vocabulary.sorted, 0, &self.grammar, &self.state, &mut take);
        let lead = &vocabulary.lead[..];
        if self.ids.is_empty() && !lead.is_empty() {
            vocabulary.walk(vocabulary.beginning(lead), lead.len(), &self.grammar, &self.state, &mut take);
        }
        found
    }

    /// Writes a token. One that is not allowed changes nothing and gives false; behind a whole
    /// answer a control token, such as the stop token, is kept among the ids.
    pub fn push(&mut self, vocabulary: &Vocabulary, id: u32) -> bool {
        let bytes = vocabulary.added(id, self.ids.is_empty());
        if vocabulary.token(id).is_empty() && !self.finished() {
            return false;
        }
        let Some(state) = self.after(bytes) else { return false };
        self.state = state;
        self.bytes.extend_from_slice(bytes);
        self.ids.push(id);
        true
    }

    /// Tokens that must follow and can be appended without asking the model: those of the
    /// tokenizer's own way of cutting, whatever comes behind them. A token that may yet become
    /// part of another is left out; behind a whole answer the stop token is left to the caller.
    pub fn forced(&self, tokenizer: &ChatTokenizer, vocabulary: &Vocabulary) -> Vec<u32> {
        let forced = self.grammar.forced(&self.state);
        let Some(state) = self.after(&forced).filter(|_| !forced.is_empty()) else { return Vec::new() };
        let bytes = [&self.bytes[..], &forced].concat();
        let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let Ok(mut ids) = tokenizer.encode_text(text) else { return Vec::new() };
        let ends = vocabulary.ends(&ids);
        let seam = ends.iter().rposition(|end| *end == self.bytes.len()).map(|at| at + 1);
        let from = if self.ids.is_empty() { Some(0) } else { seam };
        let Some(from) = from.filter(|_| vocabulary.spell(&ids, text.as_bytes())) else { return Vec::new() };
        if !self.grammar.finished(&state) {
            let (lead, all) = (vocabulary.lead.len(), [&vocabulary.lead[..], &bytes].concat());
            let firm = |count: &usize| !self.bridged(vocabulary, &all, lead + ends[count - 1], &state);
            let count = (from + 1..=ids.len()).rev().find(firm);
            ids.truncate(count.unwrap_or(from));
        }
        ids.split_off(from)
    }

    /// Whether some token can hold the bytes on both sides of `at`, in what is written or in any
    /// way on from there. Where none can, no merge happens over this border, so what is left of it
    /// is cut as if nothing followed; except white space, which some tokenizers cut by what follows.
    fn bridged(&self, vocabulary: &Vocabulary, bytes: &[u8], at: usize, end: &State) -> bool {
        let near = bytes[at.saturating_sub(4)..at].utf8_chunks().last();
        let before =
            near.filter(|chunk| chunk.invalid().is_empty()).and_then(|chunk| chunk.valid().chars().next_back());
        if before.is_some_and(char::is_whitespace) {
            return true;
        }
        (1..=at.min(vocabulary.longest)).any(|length| {
            let mut ids = vocabulary.beginning(&bytes[at - length..at]);
            let mut depth = length;
            for byte in &bytes[at..] {
                ids = &ids[ids.partition_point(|id| vocabulary.token(*id).get(depth) < Some(byte))..];
                ids = &ids[..ids.partition_point(|id| vocabulary.token(*id).get(depth) == Some(byte))];
                depth += 1;
                if ids.first().is_none_or(|id| vocabulary.token(*id).len() == depth) {
                    return !ids.is_empty();
                }
            }
            let longer = &ids[ids.partition_point(|id| vocabulary.token(*id).len() <= depth)..];
            let mut found = false;
            vocabulary.walk(longer, depth, &self.grammar, end, |_| {
                found = true;
                false
            });
            found
        })
    }

    /// Ends the answer where the token limit stops it: every finished item is kept. The tokens
    /// afterwards are the first `kept` of those before and then `added`, cut as the tokenizer cuts.
    ///
    /// # Errors
    /// If the tokenizer cannot encode the answer.
    pub fn close(&mut self, tokenizer: &ChatTokenizer, vocabulary: &Vocabulary) -> Result<Closed> {
        let Closing { back, append } = self.grammar.closing(&self.state);
        let whole = self.bytes.len() - back;
        let bytes = [&self.bytes[..whole], &append].concat();
        let mut ids = tokenizer.encode_text(&String::from_utf8_lossy(&bytes))?;
        let (ours, theirs) = (vocabulary.ends(&self.ids), vocabulary.ends(&ids));
        let spelled = vocabulary.spell(&ids, &bytes);
        // The last border that both ways of cutting have.
        let common =
            ours.iter().enumerate().rev().filter(|(_, end)| **end <= whole && spelled).find_map(|(at, end)| {
                let other = theirs.iter().rposition(|other| other == end)?;
                Some((at + 1, other + 1))
            });
        let (kept, from) = common.unwrap_or((0, 0));
        let added = ids.split_off(from);
        self.ids.truncate(kept);
        self.ids.extend(&added);
        let start = self.grammar.start();
        self.state = step_all(&self.grammar, &start, &bytes).unwrap_or(start);
        self.bytes = bytes;
        Ok(Closed { kept, added })
    }

    fn after(&self, bytes: &[u8]) -> Option<State> {
        step_all(&self.grammar, &self.state, bytes)
    }
}

fn step_all(grammar: &Grammar, state: &State, bytes: &[u8]) -> Option<State> {
    let mut state = state.clone();
    bytes.iter().all(|byte| grammar.advance(&mut state, *byte)).then_some(state)
}

/// [`likeliest`] of all ids. Called for every token of every answer, hence in lanes, which the
/// compiler keeps in vector registers.
pub(super) fn likeliest_of_all(scores: &[f32]) -> Option<u32> {
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (chunks, rest) = scores.as_chunks::<16>();
    for chunk in chunks {
        for (most, score) in lanes.iter_mut().zip(chunk) {
            *most = if *score > *most { *score } else { *most };
        }
    }
    let most = lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |most, score| most.max(*score));
    let at = scores.iter().position(|score| *score == most).unwrap_or(0);
    u32::try_from(at).ok().filter(|_| !scores.is_empty())
}

/// The id with the highest score, the lowest among equals; what is no number counts least.
fn likeliest(ids: impl Iterator<Item = u32>, scores: &[f32]) -> Option<u32> {
    let score = |id: u32| scores.get(id as usize).map(|score| if score.is_nan() { f32::NEG_INFINITY } else { *score });
    let mut best: Option<(u32, f32)> = None;
    for (id, score) in ids.filter_map(|id| Some((id, score(id)?))) {
        let better = best.is_none_or(|(other, most)| match score.partial_cmp(&most) {
            Some(Ordering::Greater) => true,
            Some(Ordering::Equal) => id < other,
            _ => false,
        });
        if better {
            best = Some((id, score));
        }
    }
    best.map(|(id, _)| id)
}
