//! One question in progress: its prompt, its answer, and how much of both was read.

use super::answer::{Answer, Pen};
use super::{Request, Tally, lookup};
use crate::student::error::Result;
use crate::student::fused::{Lane, Piece};
use crate::student::generate::Generated;

pub(super) struct Text {
    number: usize,
    prompt: Vec<u32>,
    /// The prompt's tokens without leading spaces; empty until the first guess.
    plain: Vec<u32>,
    answer: Answer,
    lane: Lane,
    /// Tokens that are known and not read yet: of the prompt, then of the answer.
    todo: Vec<u32>,
    /// What the pass appends: the beginning of `todo`, and behind its end some guesses.
    taken: Vec<u32>,
    guesses: usize,
    /// Share of the passes' time.
    pub seconds: f64,
}

impl Text {
    /// A question of which the lane holds the beginning already.
    pub fn new(number: usize, request: Request, lane: Lane, pen: Pen) -> Text {
        let answer = Answer::new(&request, pen);
        let prompt = request.prompt;
        let todo = [&prompt[lane.tokens().min(prompt.len())..], answer.ids()].concat();
        Text { number, prompt, plain: Vec::new(), answer, lane, todo, taken: Vec::new(), guesses: 0, seconds: 0.0 }
    }

    /// Whether the answer stands.
    pub fn ended(&self) -> bool {
        self.answer.ended()
    }

    /// Known tokens that are not read yet.
    pub fn unread(&self) -> usize {
        self.todo.len()
    }

    /// Whether the prompt was read.
    pub fn writes(&self) -> bool {
        self.lane.tokens() >= self.prompt.len()
    }

    /// Tokens of this pass.
    pub fn taken(&self) -> usize {
        self.taken.len()
    }

    /// Decides what the next pass appends: `count` known tokens, and behind the last of them up to
    /// `guesses` guessed ones.
    pub fn plan(&mut self, count: usize, guesses: usize, pen: Pen) {
        self.taken = self.todo[..count].to_vec();
        self.guesses = 0;
        // The last token that may be written is never read.
        let most = guesses.min(self.answer.room().saturating_sub(1));
        if count == self.todo.len() && most > 0 && !self.answer.ids().is_empty() {
            let plain = |id: &u32| pen.vocabulary.map_or(*id, |vocabulary| vocabulary.plain(*id));
            if self.plain.is_empty() {
                self.plain = self.prompt.iter().map(plain).collect();
            }
            let written = self.answer.ids();
            let tail: Vec<u32> = written[written.len().saturating_sub(lookup::LONGEST)..].iter().map(plain).collect();
            let guessed = lookup::guess(&self.prompt, &self.plain, &tail, most);
            let guessed = self.answer.allowed(guessed, pen);
            self.guesses = guessed.len();
            self.taken.extend(guessed);
        }
    }

    /// What this pass appends, if anything.
    pub fn piece(&mut self) -> Option<Piece<'_>> {
        let scored = self.scored();
        let Text { lane, taken, .. } = self;
        (!taken.is_empty()).then_some(Piece { lane, tokens: taken, scored })
    }

    /// Positions of this pass after which a token is to be chosen.
    pub fn scored(&self) -> usize {
        let known = self.taken.len() - self.guesses;
        if known == self.todo.len() && known > 0 { 1 + self.guesses } else { 0 }
    }

    /// Goes on from the scores of a pass: chooses the next tokens, and checks the guesses by them.
    ///
    /// # Shapes
    /// scores `[scored, vocab]`
    pub fn advance(&mut self, scores: &[f32], vocab: usize, pen: Pen) -> Tally {
        let mut tally = Tally { guessed: self.guesses, ..Tally::default() };
        if scores.is_empty() {
            self.todo.drain(..self.taken.len());
            return tally;
        }
        let guessed = self.taken.split_off(self.todo.len());
        let mut at = 0;
        loop {
            let before = self.answer.ids().len();
            tally.forced += self.answer.advance(&scores[at * vocab..(at + 1) * vocab], pen);
            // What was written may stand in the lane already, as a guess.
            // An answer that was closed may have lost tokens; nothing more of it is read.
            let new = self.answer.ids().get(before..).unwrap_or_default();
            let right = new.iter().zip(&guessed[at..]).take_while(|(id, guess)| id == guess).count();
            tally.right += right;
            at += right;
            if self.answer.ended() || right < new.len() {
                self.todo = new[right..].to_vec();
                self.lane.forget(guessed.len() - at);
                self.taken.extend(guessed);
                return tally;
            }
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// If the tokenizer cannot turn it into text.
    pub fn into_answer(self, pen: Pen) -> Result<(usize, Generated)> {
        let answer = self.answer.into_generated(pen.tokenizer)?;
        Ok((self.number, Generated { seconds: self.seconds, ..answer }))
    }
}
