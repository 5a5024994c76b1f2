//! Where one document is read: what the team asks about it, hears, and writes down.
//!
//! A protocol is an `async` function over one room. It asks several agents at once and goes on when
//! all have answered; in the meantime others read other documents ([`super::hall`]). What it writes
//! depends on the document and the answers alone, never on who answered first.

use super::ClientError;
use super::client::shape;
use super::floor::Team;
use crate::ie::record::ExtractionRecord;
use crate::ie::{Cost, Document, Extraction, Message, Schema, Status};
use crate::store::{StoredAnswer, StoredRequest};
use crate::template::answer::Finish;
use crate::template::prompt::Prompts;
use crate::trace::{Snapshot, Trace, Turn};
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::Poll;

/// A question to an agent.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// What is asked: `entities`, `relations`, `events`, `debate`, `summary`.
    pub stage: &'static str,
    /// The agent.
    pub agent: String,
    /// 0 for the first answer.
    pub round: u32,
    /// The conflict, in a debate.
    pub conflict: Option<usize>,
    /// What is asked.
    pub messages: Vec<Message>,
}

impl Question {
    /// A first question.
    pub fn first(stage: &'static str, agent: &str, messages: Vec<Message>) -> Question {
        Question { stage, agent: agent.into(), round: 0, conflict: None, messages }
    }

    /// The same in a later round.
    pub fn in_round(self, round: u32) -> Question {
        Question { round, ..self }
    }
}

/// An outcome of the client.
pub(super) type Outcome = Result<StoredAnswer, ClientError>;

/// What became of a request, by its key.
pub(super) type Told = (String, Outcome);

/// One document, and everything that was said about it.
pub(super) struct Room<'a> {
    team: &'a Team<'a>,
    /// What is read.
    pub document: Document,
    state: Mutex<State>,
}

struct State {
    trace: Trace,
    /// Asked and not answered yet, for the hall to take.
    wish: Vec<StoredRequest>,
    /// What the hall heard, in the order of the wish.
    heard: Option<Vec<Told>>,
    /// Every request, where the team records them.
    asked: Vec<StoredRequest>,
}

impl<'a> Room<'a> {
    /// A room in which nothing was said yet.
    pub fn new(team: &'a Team<'a>, document: Document) -> Room<'a> {
        let trace = Trace::opened(&document.id, team.protocol.name());
        let state = State { trace, wish: vec![], heard: None, asked: vec![] };
        Room { team, document, state: Mutex::new(state) }
    }

    /// The text that is read.
    pub fn text(&self) -> &str {
        &self.document.text
    }

    /// What the team asks for.
    pub fn schema(&self) -> &'a Schema {
        self.team.schema()
    }

    /// How the team asks.
    pub fn prompts(&self) -> &'a Prompts {
        &self.team.prompts
    }

    /// The team.
    pub fn team(&self) -> &'a Team<'a> {
        self.team
    }

    /// Writes into the trace.
    pub fn write<T>(&self, change: impl FnOnce(&mut Trace) -> T) -> T {
        change(&mut self.state().trace)
    }

    /// Notes how the extraction stands after a stage.
    pub fn note(&self, stage: &str, round: u32, extraction: &Extraction, delta: Option<u32>) {
        let extraction = ExtractionRecord::of(extraction, self.text());
        self.write(|trace| trace.snapshots.push(Snapshot { stage: stage.into(), round, extraction, delta }));
    }

    /// Asks the questions at once and writes a turn for each answer, in the order of the questions;
    /// `read` says what is in an answer. An answer that could not be read is asked for once more,
    /// with the error named. `None` where the turn failed in the end.
    pub async fn ask<T>(
        &self,
        questions: Vec<Question>,
        read: impl Fn(&Question, &StoredAnswer, &mut Turn) -> Option<T>,
    ) -> Vec<Option<T>> {
        let told = self.answers(&questions).await;
        let read_all = |questions: &[Question], told: &[Told]| {
            let all = questions.iter().zip(told);
            all.map(|(question, (key, outcome))| heard(question, key, outcome, &read)).collect::<Vec<_>>()
        };
        let mut turns = read_all(&questions, &told);
        let unread =
            |at: &usize| matches!((&turns[*at], &told[*at].1), ((turn, None), Ok(_)) if turn.status == Status::Failed);
        let again: Vec<usize> = (0..turns.len()).filter(|_| self.team.reasks()).filter(unread).collect();
        if !again.is_empty() {
            let asked = again.iter().map(|&at| {
                let error = turns[at].0.error.as_deref().unwrap_or_default();
                let messages = self.prompts().again(&questions[at].messages, &turns[at].0.raw, error);
                Question { messages, ..questions[at].clone() }
            });
            let questions: Vec<Question> = asked.collect();
            let told = self.answers(&questions).await;
            for (at, mut second) in again.into_iter().zip(read_all(&questions, &told)) {
                second.0.asked_again = true;
                let (first, _) = std::mem::replace(&mut turns[at], second);
                self.write(|trace| trace.superseded.push(first));
            }
        }
        let mut state = self.state();
        turns
            .into_iter()
            .map(|(turn, found)| {
                state.trace.turns.push(turn);
                found
            })
            .collect()
    }

    /// Writes a failed turn for a question that could not be asked.
    pub fn unasked(&self, question: &Question, why: String) {
        let turn = spoken(question, "", &Err(ClientError::Halted(why)));
        self.write(|trace| trace.turns.push(turn));
    }

    async fn answers(&self, questions: &[Question]) -> Vec<Told> {
        if questions.is_empty() {
            return Vec::new();
        }
        let requests: Vec<StoredRequest> = questions.iter().map(|question| self.request(question)).collect();
        {
            let mut state = self.state();
            if self.team.records() {
                state.asked.extend(requests.iter().cloned());
            }
            state.wish = requests;
        }
        poll_fn(|_| match self.state().heard.take() {
            Some(heard) => Poll::Ready(heard),
            None => Poll::Pending,
        })
        .await
    }

    /// What is asked and was not taken yet.
    pub fn wish(&self) -> Vec<StoredRequest> {
        std::mem::take(&mut self.state().wish)
    }

    /// Brings the answers to a wish.
    pub fn bring(&self, told: Vec<Told>) {
        self.state().heard = Some(told);
    }

    /// The trace, closed, and the recorded requests.
    pub fn leave(&self) -> (Trace, Vec<StoredRequest>) {
        let mut state = self.state();
        let blank = Trace::opened(&self.document.id, self.team.protocol.name());
        let mut trace = std::mem::replace(&mut state.trace, blank);
        close(&mut trace, &self.document);
        (trace, std::mem::take(&mut state.asked))
    }

    fn request(&self, question: &Question) -> StoredRequest {
        let sampling = &self.team.sampling;
        let ballot = matches!(question.stage, "debate" | "summary");
        let expert = self.team.expert(&question.agent);
        let schema = match (self.team.is_constrained(), expert) {
            (false, _) => None,
            (true, None) => shape::of(question.stage, &question.agent, self.schema()),
            (true, Some(expert)) => {
                let schema = expert.schema.as_ref().unwrap_or(self.schema());
                Some(shape::expert(expert.task, schema, question.round > 0))
            }
        };
        StoredRequest {
            model: sampling.model.clone(),
            messages: question.messages.clone(),
            temperature: sampling.temperature,
            max_tokens: if ballot { sampling.debate_max_tokens } else { sampling.max_tokens },
            frequency_penalty: sampling.frequency_penalty,
            seed: sampling.seed.wrapping_add(expert.map_or(0, |expert| expert.seed)),
            // A ballot's confidence is its own; log-probabilities are asked for where items are read.
            logprobs: sampling.logprobs && !ballot,
            schema,
            ..StoredRequest::default()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The turn of an answer, and what was read from it.
fn heard<T>(
    question: &Question,
    key: &str,
    outcome: &Outcome,
    read: &impl Fn(&Question, &StoredAnswer, &mut Turn) -> Option<T>,
) -> (Turn, Option<T>) {
    let mut turn = spoken(question, key, outcome);
    let found = match outcome {
        Ok(answer) => read(question, answer, &mut turn),
        Err(_) => None,
    };
    (turn, found)
}

fn spoken(question: &Question, key: &str, outcome: &Outcome) -> Turn {
    let mut turn = Turn {
        stage: question.stage.into(),
        agent: question.agent.clone(),
        round: question.round,
        conflict: question.conflict,
        request: key.into(),
        raw: String::new(),
        status: Status::Failed,
        error: None,
        found: vec![],
        dropped: vec![],
        repairs: vec![],
        absent: vec![],
        reason: None,
        confidence: None,
        asked_again: false,
        retries: 0,
        cost: Cost::default(),
    };
    match outcome {
        Ok(answer) => {
            turn.raw.clone_from(&answer.content);
            turn.retries = answer.attempts.saturating_sub(1);
            turn.cost = Cost {
                calls: 1,
                prompt_tokens: answer.prompt_tokens,
                completion_tokens: answer.completion_tokens,
                seconds: answer.seconds,
            };
            if let Some(refusal) = &answer.refusal {
                turn.status = Status::Refused;
                turn.error = Some(refusal.clone());
            }
        }
        Err(error) => turn.error = Some(error.to_string()),
    }
    turn
}

/// The server's finish reason as the parser knows it.
pub(super) fn finish(answer: &StoredAnswer) -> Finish {
    match answer.finish.as_str() {
        "length" => Finish::Length,
        "content_filter" => Finish::ContentFilter,
        _ => Finish::Stop,
    }
}

/// Log-probabilities of the tokens of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Logprobs {
    pub mean: Option<f64>,
    pub least: Option<f64>,
    pub first: Option<f64>,
}

/// Those of the tokens that touch these bytes of the answer; none if the server gave none, or a
/// sentinel for one of them.
pub(super) fn logprobs(answer: &StoredAnswer, bytes: Option<&std::ops::Range<usize>>) -> Logprobs {
    let touching = || {
        let (tokens, bytes) = (answer.tokens.as_ref()?, bytes?);
        let (mut at, mut found) = (0, Vec::new());
        for token in tokens {
            let next = at + token.0.len();
            if at < bytes.end && bytes.start < next {
                found.push(token.1?);
            }
            at = next;
        }
        Some(found)
    };
    let found: Vec<f64> = touching().unwrap_or_default();
    Logprobs {
        mean: (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64),
        least: found.iter().copied().reduce(f64::min),
        first: found.first().copied(),
    }
}

/// A document of which no agent gave a usable answer is failed or refused, never empty; so is one
/// whose protocol says why there is no outcome.
fn close(trace: &mut Trace, document: &Document) {
    let first: Vec<&Turn> = trace.turns.iter().filter(|turn| turn.round == 0).collect();
    let silent = |turn: &&Turn| matches!(turn.status, Status::Failed | Status::Refused);
    let unheard = !first.is_empty() && trace.turns.iter().all(|turn| silent(&turn));
    if !document.is_blank() && (unheard || trace.error.is_some()) {
        let refused = first.iter().all(|turn| turn.status == Status::Refused);
        trace.status = if refused { Status::Refused } else { Status::Failed };
        let error = trace.error.take();
        trace.error = error.or_else(|| first.first().and_then(|turn| turn.error.clone()));
        trace.extraction = ExtractionRecord::default();
        trace.snapshots.clear();
        trace.entity_support.clear();
        trace.relation_support.clear();
        trace.event_support.clear();
        return;
    }
    let found = &trace.extraction;
    let nothing = found.entities.is_empty() && found.relations.is_empty() && found.events.is_empty();
    trace.status = if nothing { Status::Empty } else { Status::Ok };
}
