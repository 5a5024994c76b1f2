//! The student answering: many questions in progress at once, each as far as it has come.
//!
//! `requests ─▶ engine ─▶ answers`, greedily: the likeliest token each time, the lowest id among
//! equals. On the CPU
//! - what prompts begin with in common is read once and held ([`shared`]);
//! - a question starts as soon as another ends, and prompts are read in the same passes that write
//!   answers (continuous batching: Yu et al. 2022, OSDI, section 4.1);
//! - an answer that has a grammar cannot leave it, and what the grammar forces is appended without
//!   a pass of its own ([`super::constrain`]);
//! - while few questions are in progress, the next tokens are guessed from the prompt and checked in
//!   one pass ([`lookup`]); a guess never changes the answer.
//!
//! Other devices answer in whole batches ([`super::generate`]), by the same grammar.

mod answer;
mod lookup;
mod shared;
#[cfg(test)]
mod tests;
mod text;

use super::constrain::Vocabulary;
use super::error::Result;
use super::fused::{Decoder, Piece};
use super::generate::{Generated, decode};
use super::model::Model;
use super::tokenizer::ChatTokenizer;
use crate::template::answer::Grammar;
pub(super) use answer::{Answer, Pen};
use rayon::prelude::*;
use shared::Shared;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use text::Text;

/// A question.
#[derive(Clone)]
pub struct Request {
    /// At least one token.
    pub prompt: Vec<u32>,
    /// What the answer may be; anything if there is none.
    pub grammar: Option<Arc<Grammar>>,
    /// Tokens after which the answer ends at the latest.
    pub max_new_tokens: usize,
}

/// Where questions come from and answers go.
pub trait Work {
    /// The next question with a number of the caller's; `None` if there is none now. While `idle`
    /// nothing is in progress: then `None` ends the run, and an implementation that may still get
    /// questions waits for one.
    ///
    /// # Errors
    /// End the run.
    fn next(&mut self, idle: bool) -> Result<Option<(usize, Request)>>;

    /// Takes an answer; [`Work::next`] may ask more because of it.
    ///
    /// # Errors
    /// End the run.
    fn done(&mut self, number: usize, answer: Generated) -> Result<()>;
}

/// How an engine works. Every setting gives the same answers, up to the order of float sums.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Questions in progress at once; memory for keys and values grows linearly. Default 64.
    pub lanes: usize,
    /// Tokens of one pass; more make its products more efficient, and its buffers larger. Default 256.
    pub tokens: usize,
    /// Whether common beginnings are held. Default true.
    pub share: bool,
    /// Whether tokens that a grammar forces are appended without a pass of their own. Default true.
    pub force: bool,
    /// Passes of fewer tokens are filled up to this many with guesses; 0 for none. Default 8: up to
    /// there a pass takes as long as reading the weights does.
    pub guess: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { lanes: 64, tokens: 256, share: true, force: true, guess: 8 }
    }
}

/// What an engine did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Passes through the model.
    pub passes: usize,
    /// Tokens that went through it.
    pub tokens: usize,
    /// Prompt tokens that did not have to, being held.
    pub held: usize,
    /// Answer tokens that the grammar forced.
    pub forced: usize,
    /// Tokens guessed.
    pub guessed: usize,
    /// Of these, right ones.
    pub right: usize,
    /// Answers that were closed at their limit.
    pub closed: usize,
}

/// A model that answers.
pub struct Engine<'a> {
    model: Model,
    tokenizer: &'a ChatTokenizer,
    /// `None` where the model's tokens spell no text.
    vocabulary: Option<Arc<Vocabulary>>,
    /// `None` on other devices than the CPU.
    decoder: Option<Decoder>,
    shared: Shared,
    settings: Settings,
    tally: Tally,
}

/// Questions that wait for their turn, and among which common beginnings are found.
const AHEAD: usize = 64;

impl<'a> Engine<'a> {
    /// An engine; adapters count, and cost less if they are merged.
    ///
    /// # Errors
    /// If a weight is in no form that the device computes with.
    pub fn new(model: &Model, tokenizer: &'a ChatTokenizer, settings: Settings) -> Result<Engine<'a>> {
        let model = model.untracked();
        let (decoder, vocabulary) = (Decoder::of(&model)?, Vocabulary::of(tokenizer).ok().map(Arc::new));
        Ok(Engine {
            model,
            tokenizer,
            vocabulary,
            decoder,
            shared: Shared::default(),
            settings,
            tally: Tally::default(),
        })
    }

    /// The tokens' bytes, which a grammar needs.
    ///
    /// # Errors
    /// If the tokens spell no text.
    pub fn vocabulary(&self) -> Result<Arc<Vocabulary>> {
        match &self.vocabulary {
            Some(vocabulary) => Ok(vocabulary.clone()),
            None => Vocabulary::of(self.tokenizer).map(Arc::new),
        }
    }

    /// What was done so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Answers until there is nothing more to ask.
    ///
    /// # Errors
    /// Those of the work, and of the device.
    pub fn run(&mut self, work: &mut dyn Work) -> Result<()> {
        match self.decoder.take() {
            Some(decoder) => {
                let ended = self.continuously(&decoder, work);
                self.decoder = Some(decoder);
                ended
            }
            None => self.in_batches(work),
        }
    }

    fn continuously(&mut self, decoder: &Decoder, work: &mut dyn Work) -> Result<()> {
        let (mut waiting, mut active) = (VecDeque::new(), Vec::new());
        loop {
            while waiting.len() < AHEAD
                && let Some(question) = work.next(waiting.is_empty() && active.is_empty())?
            {
                waiting.push_back(question);
            }
            if waiting.is_empty() && active.is_empty() {
                return Ok(());
            }
            if waiting.iter().any(|(_, request)| request.grammar.is_some()) {
                self.vocabulary()?;
            }
            self.admit(decoder, &mut waiting, &mut active);
            if active.iter().any(|text| !text.ended()) {
                self.pass(decoder, &mut active);
            }
            let (ended, going) = active.into_iter().partition(Text::ended);
            active = going;
            for text in ended {
                let (number, answer) = text.into_answer(self.pen())?;
                self.tally.closed += usize::from(answer.closed);
                work.done(number, answer)?;
            }
        }
    }

    fn pen(&self) -> Pen<'_> {
        Pen { tokenizer: self.tokenizer, vocabulary: self.vocabulary.as_deref(), force: self.settings.force }
    }

    /// Starts questions while there is room in the next pass.
    fn admit(&mut self, decoder: &Decoder, waiting: &mut VecDeque<(usize, Request)>, active: &mut Vec<Text>) {
        let mut planned: usize = active.iter().map(Text::unread).sum();
        while active.len() < self.settings.lanes.max(1)
            && planned < self.settings.tokens
            && let Some((number, request)) = waiting.pop_front()
        {
            let start = Instant::now();
            let shared = match self.settings.share {
                true => self.shared.find(decoder, &request.prompt, waiting, &mut self.tally),
                false => None,
            };
            let lane = decoder.lane(shared);
            self.tally.held += lane.tokens();
            let mut text = Text::new(number, request, lane, self.pen());
            text.seconds += start.elapsed().as_secs_f64();
            planned += text.unread();
            active.push(text);
        }
    }

    /// One pass: every answer in progress goes on, and what room is left reads prompts.
    fn pass(&mut self, decoder: &Decoder, active: &mut [Text]) {
        let start = Instant::now();
        let known: usize = active.iter().map(Text::unread).sum();
        let guesses = self.settings.guess.saturating_sub(known) / active.len();
        // Those that write come first: they hold memory, and go on by few tokens.
        let mut room = self.settings.tokens.max(1);
        let mut order: Vec<usize> = (0..active.len()).filter(|at| !active[*at].ended()).collect();
        order.sort_by_key(|at| !active[*at].writes());
        for at in order {
            let count = active[at].unread().min(room);
            room -= count;
            active[at].plan(count, guesses, self.pen());
        }
        let mut pieces: Vec<Piece> = active.iter_mut().filter_map(Text::piece).collect();
        let tokens: usize = pieces.iter().map(|piece| piece.tokens.len()).sum();
        let scores = decoder.forward(&mut pieces);

        let vocab = decoder.vocab();
        let mut rest = &scores[..];
        let scored = active.iter().map(|text| {
            let (own, behind) = rest.split_at(text.scored() * vocab);
            rest = behind;
            own
        });
        let scored: Vec<&[f32]> = scored.collect();
        let pen = self.pen();
        let tallies: Vec<Tally> =
            active.par_iter_mut().zip(scored).map(|(text, scores)| text.advance(scores, vocab, pen)).collect();
        self.tally.passes += 1;
        self.tally.tokens += tokens;
        for tally in tallies {
            self.tally.forced += tally.forced;
            self.tally.guessed += tally.guessed;
            self.tally.right += tally.right;
        }
        let share = start.elapsed().as_secs_f64() / tokens.max(1) as f64;
        active.iter_mut().for_each(|text| text.seconds += share * text.taken() as f64);
    }

    /// For devices whose passes are composed of burn's operations.
    fn in_batches(&mut self, work: &mut dyn Work) -> Result<()> {
        loop {
            let mut batch = Vec::new();
            while batch.len() < self.settings.lanes.max(1)
                && let Some(question) = work.next(batch.is_empty())?
            {
                batch.push(question);
            }
            if batch.is_empty() {
                return Ok(());
            }
            if batch.iter().any(|(_, request)| request.grammar.is_some()) {
                self.vocabulary()?;
            }
            let start = Instant::now();
            let (numbers, requests): (Vec<usize>, Vec<Request>) = batch.into_iter().unzip();
            let answers = decode(&self.model, self.pen(), &requests)?;
            let seconds = start.elapsed().as_secs_f64() / requests.len() as f64;
            for (number, answer) in numbers.into_iter().zip(answers) {
                self.tally.closed += usize::from(answer.closed);
                work.done(number, Generated { seconds, ..answer })?;
            }
        }
    }
}

/// A list of questions, answered in its order.
struct Listed {
    requests: VecDeque<(usize, Request)>,
    answers: Vec<Option<Generated>>,
}

impl Work for Listed {
    fn next(&mut self, _: bool) -> Result<Option<(usize, Request)>> {
        Ok(self.requests.pop_front())
    }

    fn done(&mut self, number: usize, answer: Generated) -> Result<()> {
        self.answers[number] = Some(answer);
        Ok(())
    }
}

impl Engine<'_> {
    /// Answers every question, in the order given.
    ///
    /// # Errors
    /// Those of the device.
    pub fn answer(&mut self, requests: Vec<Request>) -> Result<Vec<Generated>> {
        let answers = requests.iter().map(|_| None).collect();
        let mut listed = Listed { requests: requests.into_iter().enumerate().collect(), answers };
        self.run(&mut listed)?;
        Ok(listed.answers.into_iter().flatten().collect())
    }
}
