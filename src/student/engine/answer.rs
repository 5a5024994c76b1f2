//! What has been written of an answer, and how it goes on: by the scores, by its grammar, to its end.

use super::Request;
use crate::student::constrain::{Closed, Guide, Vocabulary, likeliest_of_all};
use crate::student::error::Result;
use crate::student::fused::log_sum;
use crate::student::generate::{Finish, Generated};
use crate::student::tokenizer::ChatTokenizer;

/// What every answer is written with.
#[derive(Clone, Copy)]
pub(crate) struct Pen<'a> {
    pub tokenizer: &'a ChatTokenizer,
    /// `None` where the model's tokens spell no text; then no answer has a grammar.
    pub vocabulary: Option<&'a Vocabulary>,
    /// Whether tokens that the grammar forces are written without asking the model.
    pub force: bool,
}

/// An answer in progress.
pub(crate) struct Answer {
    guide: Option<Guide>,
    ids: Vec<u32>,
    logprobs: Vec<Option<f32>>,
    finish: Option<Finish>,
    /// Whether the grammar ended it where the limit cut it off.
    closed: bool,
    most: usize,
}

impl Answer {
    /// Nothing yet, but for what the grammar forces.
    pub fn new(request: &Request, pen: Pen) -> Answer {
        let mut answer = Answer {
            guide: request.grammar.clone().map(Guide::new),
            ids: Vec::new(),
            logprobs: Vec::new(),
            finish: None,
            closed: false,
            most: request.max_new_tokens,
        };
        if answer.most == 0 || request.prompt.is_empty() {
            answer.cut(pen);
        }
        answer.force(pen);
        answer
    }

    /// Whether it stands.
    pub fn ended(&self) -> bool {
        self.finish.is_some()
    }

    /// Its tokens so far.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Tokens that may still be written.
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.ids.len())
    }

    /// As many of these tokens as the grammar would let pass, one after the other.
    pub fn allowed(&self, guesses: Vec<u32>, pen: Pen) -> Vec<u32> {
        let (Some(guide), Some(vocabulary)) = (&self.guide, pen.vocabulary) else { return guesses };
        let mut guide = guide.clone();
        guesses.into_iter().take_while(|id| guide.push(vocabulary, *id)).collect()
    }

    /// Writes the likeliest token that may stand here, and what the grammar forces behind it;
    /// returns how many were forced.
    ///
    /// # Shapes
    /// scores `[vocab]`
    pub fn advance(&mut self, scores: &[f32], pen: Pen) -> usize {
        let chosen = match (&self.guide, pen.vocabulary) {
            (Some(guide), Some(vocabulary)) => guide.choose(vocabulary, scores, pen.tokenizer.stops()),
            _ => likeliest_of_all(scores),
        };
        match chosen {
            Some(id) => {
                let logprob = scores.get(id as usize).map(|score| score - log_sum(scores));
                self.write(id, logprob, pen);
                self.force(pen)
            }
            // No token of this vocabulary goes on from here.
            None => {
                self.cut(pen);
                0
            }
        }
    }

    fn force(&mut self, pen: Pen) -> usize {
        let mut forced = 0;
        if pen.force
            && self.finish.is_none()
            && let (Some(guide), Some(vocabulary)) = (&self.guide, pen.vocabulary)
        {
            for id in guide.forced(pen.tokenizer, vocabulary) {
                if self.finish.is_none() {
                    self.write(id, None, pen);
                    forced += 1;
                }
            }
        }
        forced
    }

    /// Writes one token and sees whether it is the last.
    fn write(&mut self, id: u32, logprob: Option<f32>, pen: Pen) {
        self.ids.push(id);
        self.logprobs.push(logprob);
        if pen.tokenizer.stops().contains(&id) {
            self.finish = Some(Finish::Stop);
            return;
        }
        if let (Some(guide), Some(vocabulary)) = (&mut self.guide, pen.vocabulary) {
            guide.push(vocabulary, id);
            if guide.finished() {
                self.ids.push(pen.tokenizer.end_of_turn());
                self.logprobs.push(None);
                self.finish = Some(Finish::Stop);
                return;
            }
        }
        if self.ids.len() >= self.most {
            self.cut(pen);
        }
    }

    /// Ends the answer at its limit: as its grammar closes it, or in the middle.
    fn cut(&mut self, pen: Pen) {
        self.finish = Some(Finish::Length);
        let (Some(guide), Some(vocabulary)) = (&mut self.guide, pen.vocabulary) else { return };
        if let Ok(Closed { kept, added }) = guide.close(pen.tokenizer, vocabulary) {
            self.ids.truncate(kept);
            self.logprobs.truncate(kept);
            self.logprobs.extend(added.iter().map(|_| None));
            self.ids.extend(added);
            self.closed = true;
        }
    }

    /// The answer as it stands.
    ///
    /// # Errors
    /// If the tokenizer cannot turn it into text.
    pub fn into_generated(self, tokenizer: &ChatTokenizer) -> Result<Generated> {
        let finish = self.finish.unwrap_or(Finish::Length);
        let shown = self.ids.len() - usize::from(finish == Finish::Stop);
        let text = match &self.guide {
            // Its bytes are those of the document.
            Some(guide) => String::from_utf8_lossy(guide.bytes()).into_owned(),
            None => tokenizer.decode(&self.ids[..shown])?,
        };
        Ok(Generated { ids: self.ids, text, finish, logprobs: self.logprobs, closed: self.closed, seconds: 0.0 })
    }
}
