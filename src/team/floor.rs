//! Where agents are given the floor: one agent, many documents, every answer a turn in the trace.

use super::client::shape;
use super::{Client, ClientError, Protocol, protocol};
use crate::ie::record::ExtractionRecord;
use crate::ie::{Cost, Document, Extractor, Message, Prediction, Schema, Status};
use crate::store::{StoredAnswer, StoredRequest, request_key};
use crate::template::answer::Finish;
use crate::template::prompt::Prompts;
use crate::trace::{Trace, Turn};
use std::sync::Mutex;

/// How answers are sampled, and how long a debate may last.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// The model's name as the server knows it.
    pub model: String,
    /// 0 is greedy; the paper uses 0.9.
    pub temperature: f64,
    /// Most tokens of an answer.
    pub max_tokens: u32,
    /// Most tokens of a turn in a debate: the choice comes first, a reason that is cut still counts.
    pub debate_max_tokens: u32,
    /// As OpenAI defines it; the paper uses 0.1.
    pub frequency_penalty: f64,
    /// Decides sampling where the server honours it, and the speaking order of debates.
    pub seed: u64,
    /// Whether to ask for token log-probabilities.
    pub logprobs: bool,
    /// Most rounds of a debate; the paper uses 2.
    pub max_rounds: u32,
}

/// Hears `(stage, agent, done, all)` while requests are answered.
pub type Progress<'a> = &'a (dyn Fn(&str, &str, usize, usize) + Sync);

/// A protocol, ready to read.
pub struct Team<'a> {
    pub(super) protocol: Protocol,
    pub(super) prompts: Prompts,
    pub(super) client: &'a Client,
    pub(super) sampling: Sampling,
    pub(super) progress: Progress<'a>,
    constrained: bool,
    asked: Mutex<Vec<StoredRequest>>,
}

/// A question to an agent about one document.
pub(super) struct Question {
    /// Ordinal of the document.
    pub document: usize,
    /// The conflict, in a debate.
    pub conflict: Option<usize>,
    /// What is asked.
    pub messages: Vec<Message>,
}

/// Who is given the floor.
#[derive(Clone, Copy)]
pub(super) struct Floor<'a> {
    pub stage: &'a str,
    pub agent: &'a str,
    pub round: u32,
}

impl<'a> Team<'a> {
    /// A team that speaks through `client`.
    pub fn new(
        protocol: Protocol,
        schema: Schema,
        client: &'a Client,
        sampling: Sampling,
        progress: Progress<'a>,
    ) -> Team<'a> {
        let prompts = Prompts::new(schema);
        Team { protocol, prompts, client, sampling, progress, constrained: false, asked: Mutex::default() }
    }

    /// The same team; where `yes`, each request carries the schema of its answer.
    pub fn constrained(self, yes: bool) -> Team<'a> {
        Team { constrained: yes, ..self }
    }

    /// Reads and debates every document; one trace each, in the order given. A blank document is
    /// answered without a call.
    pub fn debate(&self, documents: &[Document]) -> Vec<Trace> {
        let mut traces: Vec<Trace> = documents.iter().map(|document| opened(document, self.protocol.name())).collect();
        match self.protocol {
            Protocol::Aeio => protocol::aeio::run(self, documents, &mut traces),
            Protocol::TypeAgents => protocol::type_agents::run(self, documents, &mut traces),
            Protocol::Crossagentie => protocol::crossagentie::run(self, documents, &mut traces),
        }
        for (trace, document) in traces.iter_mut().zip(documents) {
            close(trace, document);
        }
        traces
    }

    /// Every request that was made so far, in order: what a cassette of this run must hold.
    pub fn requests(&self) -> Vec<StoredRequest> {
        self.asked.lock().expect("no thread panics while it holds the lock").clone()
    }

    pub(super) fn schema(&self) -> &Schema {
        self.prompts.schema()
    }

    /// Asks the questions and writes a turn for each answer; `read` says what is in an answer.
    /// Returns what was read, in the order of the questions; `None` where the turn failed.
    pub(super) fn ask<T>(
        &self,
        floor: Floor,
        questions: Vec<Question>,
        traces: &mut [Trace],
        read: impl Fn(&Question, &StoredAnswer, &mut Turn) -> Option<T>,
    ) -> Vec<(usize, Option<T>)> {
        let requests: Vec<StoredRequest> =
            questions.iter().map(|question| self.request(floor, &question.messages)).collect();
        let all = requests.len();
        let answers = self.client.ask_all(&requests, &|done| (self.progress)(floor.stage, floor.agent, done, all));
        let mut heard = Vec::with_capacity(all);
        for ((question, request), answer) in questions.iter().zip(&requests).zip(answers) {
            let mut turn = spoken(floor, question, request, &answer);
            let found = match &answer {
                Ok(answer) => read(question, answer, &mut turn),
                Err(_) => None,
            };
            traces[question.document].turns.push(turn);
            heard.push((question.document, found));
        }
        self.asked.lock().expect("no thread panics while it holds the lock").extend(requests);
        heard
    }

    fn request(&self, floor: Floor, messages: &[Message]) -> StoredRequest {
        let Sampling { model, temperature, max_tokens, debate_max_tokens, frequency_penalty, seed, logprobs, .. } =
            self.sampling.clone();
        let ballot = matches!(floor.stage, "debate" | "summary");
        let max_tokens = if ballot { debate_max_tokens } else { max_tokens };
        // A ballot's confidence is its own; log-probabilities are asked for where items are read.
        let logprobs = logprobs && !ballot;
        let schema = if self.constrained { shape::of(floor.stage, floor.agent, self.prompts.schema()) } else { None };
        let messages = messages.to_vec();
        StoredRequest { model, messages, temperature, max_tokens, frequency_penalty, seed, logprobs, schema }
    }
}

impl Extractor for Team<'_> {
    fn name(&self) -> &str {
        self.protocol.name()
    }

    fn extract(&self, documents: &[Document]) -> Vec<Prediction> {
        self.debate(documents).iter().zip(documents).map(|(trace, document)| trace.prediction(document)).collect()
    }
}

/// The server's finish reason as the parser knows it.
pub(super) fn finish(answer: &StoredAnswer) -> Finish {
    match answer.finish.as_str() {
        "length" => Finish::Length,
        "content_filter" => Finish::ContentFilter,
        _ => Finish::Stop,
    }
}

/// Mean log-probability of the tokens that touch these bytes of the answer; `None` if the server
/// gave none, or a sentinel for one of them.
pub(super) fn mean_logprob(answer: &StoredAnswer, bytes: Option<&std::ops::Range<usize>>) -> Option<f64> {
    let (tokens, bytes) = (answer.tokens.as_ref()?, bytes?);
    let (mut at, mut sum, mut count) = (0, 0.0, 0);
    for token in tokens {
        let next = at + token.0.len();
        if at < bytes.end && bytes.start < next {
            sum += token.1?;
            count += 1;
        }
        at = next;
    }
    (count > 0).then(|| sum / f64::from(count))
}

fn opened(document: &Document, protocol: &str) -> Trace {
    Trace {
        id: document.id.clone(),
        protocol: protocol.into(),
        turns: vec![],
        conflicts: vec![],
        extraction: ExtractionRecord::default(),
        entity_support: vec![],
        relation_support: vec![],
        status: Status::Empty,
        error: None,
    }
}

/// A document of which no agent gave a usable answer is failed or refused, never empty.
fn close(trace: &mut Trace, document: &Document) {
    let first: Vec<&Turn> = trace.turns.iter().filter(|turn| turn.round == 0).collect();
    let silent = |turn: &&Turn| matches!(turn.status, Status::Failed | Status::Refused);
    if !document.is_blank() && !first.is_empty() && first.iter().all(silent) {
        trace.status =
            if first.iter().all(|turn| turn.status == Status::Refused) { Status::Refused } else { Status::Failed };
        trace.error = first.first().and_then(|turn| turn.error.clone());
        trace.extraction = ExtractionRecord::default();
        trace.entity_support.clear();
        trace.relation_support.clear();
        return;
    }
    let nothing = trace.extraction.entities.is_empty() && trace.extraction.relations.is_empty();
    trace.status = if nothing { Status::Empty } else { Status::Ok };
}

fn spoken(
    floor: Floor,
    question: &Question,
    request: &StoredRequest,
    answer: &Result<StoredAnswer, ClientError>,
) -> Turn {
    let mut turn = Turn {
        stage: floor.stage.into(),
        agent: floor.agent.into(),
        round: floor.round,
        conflict: question.conflict,
        request: request_key(request),
        raw: String::new(),
        status: Status::Failed,
        error: None,
        found: vec![],
        dropped: vec![],
        repairs: vec![],
        reason: None,
        confidence: None,
        cost: Cost::default(),
    };
    match answer {
        Ok(answer) => {
            turn.raw.clone_from(&answer.content);
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
