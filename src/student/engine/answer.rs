//! What has been written of an answer, and how it goes on: by the scores, by its grammar, to its end.

use super::Request;
use crate::student::constrain::{Guide, Vocabulary};
use crate::student::error::Result;
use crate::student::fused::log_sum;
use crate::student::generate::{Finish, Generated};
use crate::student::tokenizer::ChatTokenizer;

/// What every answer is written with.
#[derive(Clone, Copy)]
pub(crate) struct Pen<'a> {
    pub tokenizer: &'a ChatTokenizer,
    pub vocabulary: &'a Vocabulary,
    /// Whether tokens that the grammar forces are written without asking the model.
    pub force: bool,
}

/// An answer in progress.
pub(crate) struct Answer {
    guide: Option<Guide>,
    ids: Vec<u32>,
    logprobs: Vec<Option<f32>>,
    finish: Option<Finish>,
    /// How the grammar ends it where the limit cut it off.
    closed: Option<String>,
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
            closed: None,
            most: request.max_new_tokens,
        };
        if answer.most == 0 || request.prompt.is_empty() {
            answer.cut();
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
    pub fn allowed(&self, guesses: Vec<u32>, vocabulary: &Vocabulary) -> Vec<u32> {
        let Some(guide) = &self.guide else { return guesses };
        let mut guide = guide.clone();
        let passes = |id: &u32| {
            let passes = guide.allows(vocabulary, *id);
            if passes {
                guide.push(vocabulary, *id);
            }
            passes
        };
        guesses.into_iter().take_while(passes).collect()
    }

    /// Writes the likeliest token that may stand here, and what the grammar forces behind it;
    /// returns how many were forced.
    ///
    /// # Shapes
    /// scores `[vocab]`
    pub fn advance(&mut self, scores: &[f32], pen: Pen) -> usize {
        let chosen = match &self.guide {
            Some(guide) => guide.choose(pen.vocabulary, scores, pen.tokenizer.stops()),
            None => Some(likeliest(scores)),
        };
        match chosen {
            Some(id) => {
                let logprob = scores.get(id as usize).map(|score| score - log_sum(scores));
                self.write(id, logprob, pen);
                self.force(pen)
            }
            // No token of this vocabulary goes on from here.
            None => {
                self.cut();
                0
            }
        }
    }

    fn force(&mut self, pen: Pen) -> usize {
        let before = self.ids.len();
        if pen.force
            && self.finish.is_none()
            && let Some(guide) = &self.guide
        {
            for id in guide.forced(pen.tokenizer, pen.vocabulary) {
                if self.finish.is_none() {
                    self.write(id, None, pen);
                }
            }
        }
        self.ids.len() - before
    }

    /// Writes one token and sees whether it is the last.
    fn write(&mut self, id: u32, logprob: Option<f32>, pen: Pen) {
        self.ids.push(id);
        self.logprobs.push(logprob);
        if pen.tokenizer.stops().contains(&id) {
            self.finish = Some(Finish::Stop);
            return;
        }
        if let Some(guide) = &mut self.guide {
            guide.push(pen.vocabulary, id);
            if guide.whole() {
                self.ids.push(pen.tokenizer.end_of_turn());
                self.logprobs.push(None);
                self.finish = Some(Finish::Stop);
                return;
            }
        }
        if self.ids.len() >= self.most {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.finish = Some(Finish::Length);
        self.closed = self.guide.as_ref().map(Guide::closed);
    }

    /// The answer as it stands.
    ///
    /// # Errors
    /// If the tokenizer cannot turn it into text.
    pub fn into_generated(self, tokenizer: &ChatTokenizer) -> Result<Generated> {
        let finish = self.finish.unwrap_or(Finish::Length);
        let closed = self.closed.is_some();
        let text = match self.closed {
            Some(text) => text,
            None if finish == Finish::Stop => tokenizer.decode(&self.ids[..self.ids.len() - 1])?,
            None => tokenizer.decode(&self.ids)?,
        };
        Ok(Generated { ids: self.ids, text, finish, logprobs: self.logprobs, closed, seconds: 0.0 })
    }
}

/// The token with the highest score, the lowest id among equals.
fn likeliest(scores: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (id, score) in scores.iter().enumerate() {
        if *score > best.1 {
            best = (id, *score);
        }
    }
    best.0 as u32
}
