//! Constrained decoding: from the bytes of a [`Grammar`] to the tokens of a model.
//!
//! A [`Vocabulary`] knows the bytes of every token, once for a model; a [`Guide`] follows one
//! answer and says which token may come next, which tokens must, and how to end at the limit.
//! Any way of cutting an answer into tokens is allowed, not only the tokenizer's own.

use super::error::{Result, StudentError};
use super::tokenizer::ChatTokenizer;
use crate::template::answer::{Closing, Grammar, State};
use std::cmp::Ordering;
use std::sync::Arc;

/// A vocabulary with more ids than this is refused; the largest in use have a quarter million.
const MAX_TOKENS: usize = 1 << 22;

/// Spelled by every vocabulary that can write an answer.
const PROBE: &str = r#"{"a b":["c"]}"#;

/// The bytes of every token; control tokens have none.
pub struct Vocabulary {
    /// Of all tokens, one behind the other.
    bytes: Vec<u8>,
    /// Where those of each token begin, and where those of the last end.
    starts: Vec<usize>,
    /// Tokens that have bytes, in the order of these.
    sorted: Vec<u32>,
    /// Bytes of the longest token.
    longest: usize,
    /// What encoding puts in front of a text and decoding takes away: sentencepiece's space.
    lead: Vec<u8>,
}

impl Vocabulary {
    /// Reads the tokens of a byte-level or sentencepiece vocabulary.
    ///
    /// # Errors
    /// If the tokens of a text do not spell it, as where each is a word: such a model cannot be
    /// constrained. If there are more than four million ids.
    pub fn of(tokenizer: &ChatTokenizer) -> Result<Vocabulary> {
        let count = tokenizer.vocab();
        if count > MAX_TOKENS {
            return Err(StudentError::chat("this vocabulary", format!("{count} ids; at most {MAX_TOKENS} are read")));
        }
        let (mut bytes, mut starts) = (Vec::new(), vec![0]);
        for id in (0..count as u32).map(|id| (!tokenizer.is_control(id)).then_some(id)) {
            bytes.extend(id.map(|id| tokenizer.bytes_of(id)).unwrap_or_default());
            starts.push(bytes.len());
        }
        let mut vocabulary = Vocabulary { bytes, starts, sorted: Vec::new(), longest: 0, lead: Vec::new() };
        let mut sorted: Vec<u32> = (0..count as u32).filter(|id| !vocabulary.token(*id).is_empty()).collect();
        sorted.sort_by_key(|id| (vocabulary.token(*id), *id));
        vocabulary.longest = sorted.iter().map(|id| vocabulary.token(*id).len()).max().unwrap_or(0);
        vocabulary.sorted = sorted;
        let spelled = vocabulary.joined(&tokenizer.encode_text(PROBE)?);
        match spelled.strip_suffix(PROBE.as_bytes()).filter(|lead| lead.iter().all(|byte| *byte == b' ')) {
            Some(lead) => vocabulary.lead = lead.to_vec(),
            None => {
                let spelled = String::from_utf8_lossy(&spelled).into_owned();
                let cause = format!(
                    "its tokens spell {spelled:?} where {PROBE:?} is encoded; only byte-level and sentencepiece \
                     vocabularies can be constrained"
                );
                return Err(StudentError::chat("this vocabulary", cause));
            }
        }
        Ok(vocabulary)
    }

    /// The bytes of a token; none for control tokens and ids that are not there.
    pub fn token(&self, id: u32) -> &[u8] {
        let at = id as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(start), Some(end)) => &self.bytes[*start..*end],
            _ => &[],
        }
    }

    /// A text as the model reads it, for the grammar of a document: a tokenizer that normalises
    /// (Qwen2's composes accents) has no tokens for what it never keeps. The reader finds composed
    /// answers in decomposed texts.
    ///
    /// # Errors
    /// If the text cannot be encoded.
    pub fn spelled(&self, tokenizer: &ChatTokenizer, text: &str) -> Result<String> {
        let bytes = self.joined(&tokenizer.encode_text(text)?);
        let spelled = bytes.strip_prefix(&self.lead[..]).unwrap_or(&bytes);
        Ok(std::str::from_utf8(spelled).unwrap_or(text).to_owned())
    }

    fn joined(&self, ids: &[u32]) -> Vec<u8> {
        ids.iter().flat_map(|id| self.token(*id)).copied().collect()
    }

    /// What a token adds to an answer: the first of one loses the leading space.
    fn added(&self, id: u32, first: bool) -> &[u8] {
        let bytes = self.token(id);
        if first { bytes.strip_prefix(&self.lead[..]).unwrap_or(bytes) } else { bytes }
    }

    /// Where each token of an answer ends in its text.
    fn ends(&self, ids: &[u32]) -> Vec<usize> {
        let mut end = 0;
        let ends = ids.iter().enumerate().map(|(at, id)| {
            end += self.added(*id, at == 0).len();
            end
        });
        ends.collect()
    }

    /// Whether these tokens are this text.
    fn spell(&self, ids: &[u32], text: &[u8]) -> bool {
        let added = ids.iter().enumerate().flat_map(|(at, id)| self.added(*id, at == 0));
        added.eq(text)
    }

    /// The tokens among `sorted` that begin with these bytes.
    fn beginning(&self, bytes: &[u8]) -> &[u32] {
        let from = self.sorted.partition_point(|id| self.token(*id) < bytes);
        let length = self.sorted[from..].partition_point(|id| self.token(*id).starts_with(bytes));
        &self.sorted[from..from + length]
    }

    /// Of tokens that share their first `depth` bytes those whose other bytes the grammar takes,
    /// each given to `found` until it says that this is enough.
    fn walk(&self, ids: &[u32], depth: usize, grammar: &Grammar, state: &State, mut found: impl FnMut(u32) -> bool) {
        let mut open = vec![(ids, depth, state.clone())];
        while let Some((ids, depth, state)) = open.pop() {
            let (ended, mut rest) = ids.split_at(ids.partition_point(|id| self.token(*id).len() <= depth));
            if ended.iter().any(|id| !found(*id)) {
                return;
            }
            if rest.is_empty() {
                continue;
            }
            let candidates = grammar.candidates(&state);
            while let Some(byte) = rest.first().map(|id| self.token(*id)[depth]) {
                let (same, others) = rest.split_at(rest.partition_point(|id| self.token(*id)[depth] == byte));
                rest = others;
                let next = candidates[usize::from(byte)].then(|| grammar.step(&state, byte)).flatten();
                open.extend(next.map(|next| (same, depth + 1, next)));
            }
        }
    }
}

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
        let first = likeliest(0..scores.len().try_into().unwrap_or(u32::MAX), scores)?;
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
            let firm = |count: &usize| !self.bridged(vocabulary, &bytes, ends[count - 1], &state);
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
