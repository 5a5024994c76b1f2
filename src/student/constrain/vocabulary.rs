//! The bytes of a model's tokens, and those among them that a grammar takes.

use super::super::error::{Result, StudentError};
use super::super::tokenizer::ChatTokenizer;
use crate::template::answer::{Grammar, State};

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
    pub(super) sorted: Vec<u32>,
    /// Bytes of the longest token.
    pub(super) longest: usize,
    /// What encoding puts in front of a text and decoding takes away: sentencepiece's space.
    pub(super) lead: Vec<u8>,
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
                     vocabularies can be constrained; eval.constrained = false lets it write freely"
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

    /// The token without this one's leading space, where there is one: what a word is inside quotes.
    pub fn plain(&self, id: u32) -> u32 {
        let Some(bare) = self.token(id).strip_prefix(b" ").filter(|bare| !bare.is_empty()) else { return id };
        self.beginning(bare).first().copied().filter(|found| self.token(*found) == bare).unwrap_or(id)
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
    pub(super) fn added(&self, id: u32, first: bool) -> &[u8] {
        let bytes = self.token(id);
        if first { bytes.strip_prefix(&self.lead[..]).unwrap_or(bytes) } else { bytes }
    }

    /// Where each token of an answer ends in its text.
    pub(super) fn ends(&self, ids: &[u32]) -> Vec<usize> {
        let mut end = 0;
        let ends = ids.iter().enumerate().map(|(at, id)| {
            end += self.added(*id, at == 0).len();
            end
        });
        ends.collect()
    }

    /// Whether these tokens are this text.
    pub(super) fn spell(&self, ids: &[u32], text: &[u8]) -> bool {
        let added = ids.iter().enumerate().flat_map(|(at, id)| self.added(*id, at == 0));
        added.eq(text)
    }

    /// The tokens among `sorted` that begin with these bytes.
    pub(super) fn beginning(&self, bytes: &[u8]) -> &[u32] {
        let from = self.sorted.partition_point(|id| self.token(*id) < bytes);
        let length = self.sorted[from..].partition_point(|id| self.token(*id).starts_with(bytes));
        &self.sorted[from..from + length]
    }

    /// Of tokens that share their first `depth` bytes those whose other bytes the grammar takes,
    /// each given to `found` until it says that this is enough.
    pub(super) fn walk(
        &self,
        ids: &[u32],
        depth: usize,
        grammar: &Grammar,
        state: &State,
        mut found: impl FnMut(u32) -> bool,
    ) {
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
