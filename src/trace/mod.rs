//! The record of a debate: every turn that was spoken, every conflict and how it ended, and what
//! stands behind each item of the outcome. Deliberately absent: clients.

pub mod facts;
pub mod show;
pub mod stats;

use crate::ie::record::ExtractionRecord;
use crate::ie::{Cost, Document, Prediction, Status};
use serde::{Deserialize, Serialize};

/// One answer of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// What was asked of the agent: `entities`, `relations`, `events`, `debate`, `summary`.
    pub stage: String,
    /// The agent: a label of the schema, `all-in-one` or `summarizer`.
    pub agent: String,
    /// 0 for the first answer, then the round of the debate.
    pub round: u32,
    /// The conflict that is debated, as an ordinal in [`Trace::conflicts`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<usize>,
    /// SHA-256 of the request.
    pub request: String,
    /// The answer as it came.
    pub raw: String,
    /// How the turn ended; a failed turn is an abstention, never an empty answer.
    pub status: Status,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was read from it: `person "Ann"`, `works_for "Ann" → "Acme"`, or the chosen option.
    pub found: Vec<String>,
    /// What was not kept, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<(String, String)>,
    /// What it took to read the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
    /// Names that it relates and that are not among the entities it was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// The agent's reason, in a debate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The agent's own confidence, in a debate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Whether this answers the question a second time, the first answer being unreadable.
    #[serde(default, skip_serializing_if = "is_false")]
    pub asked_again: bool,
    /// Attempts that failed before the server answered.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Tokens, seconds; the one call of this turn.
    pub cost: Cost,
}

/// How a conflict ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Settled {
    /// All claimants chose the same option.
    Consensus,
    /// The summarizer decided.
    Summarizer,
    /// The summarizer gave no usable answer: the last round's majority stands, but the document is
    /// no training data.
    Majority,
    /// Nobody gave a usable answer: no label, and the document is no training data.
    Failed,
}

/// Mentions that two or more agents claim differently.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conflict {
    /// `entities`, `relations` or `events`.
    pub stage: String,
    /// The readings, by letter.
    pub options: Vec<String>,
    /// Agents that claimed one.
    pub claimants: Vec<String>,
    /// The option that won.
    pub outcome: Option<String>,
    /// How.
    pub settled: Settled,
    /// Rounds of debate that it took.
    pub rounds: u32,
}

/// What stands behind one item of the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Support {
    /// Agents that stand behind it in the end.
    pub votes: u32,
    /// Agents that were asked about it; one that failed stays in.
    pub voters: u32,
    /// Mean log-probability of the tokens of its surface; `None` where the server gave none.
    pub logprob: Option<f64>,
    /// Whether the summarizer had to decide.
    pub judged: bool,
    /// Lowest log-probability among those tokens; traces of before 0.2 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// Log-probability of the first of them: where the answer could have gone elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<f64>,
    /// The debate that decided it; none where nobody disputed it, or the trace does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debate: Option<Course>,
}

/// How a debate went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// Rounds that it took.
    pub rounds: u32,
    /// How it ended.
    pub settled: Settled,
}

/// How the extraction stood after a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The stage: `first`, `debate`, `feedback`, `collaboration`, ….
    pub stage: String,
    /// Its round.
    pub round: u32,
    /// What the team would have answered.
    pub extraction: ExtractionRecord,
    /// Δ(A, B), the entities that one of the two tasks has and the other lacks (CROSSAGENTIE,
    /// section 3.4), where the protocol has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<u32>,
}

/// Everything that was said about one document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Document id.
    pub id: String,
    /// The protocol that ran.
    pub protocol: String,
    /// In the order spoken.
    pub turns: Vec<Turn>,
    /// First answers that could not be read and were asked for again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<Turn>,
    /// In text order.
    pub conflicts: Vec<Conflict>,
    /// Claims that were withdrawn because they contradict what another task confirmed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withdrawn: Vec<String>,
    /// How the extraction stood after each stage, the last one excepted where it is the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<Snapshot>,
    /// The outcome.
    pub extraction: ExtractionRecord,
    /// What stands behind each entity of the outcome, in the same order.
    pub entity_support: Vec<Support>,
    /// What stands behind each relation of the outcome, in the same order.
    pub relation_support: Vec<Support>,
    /// What stands behind each event of the outcome, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event_support: Vec<Support>,
    /// How the reading ended.
    pub status: Status,
    /// Why, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl Trace {
    /// A trace in which nothing was said yet.
    pub fn opened(id: &str, protocol: &str) -> Trace {
        Trace {
            id: id.into(),
            protocol: protocol.into(),
            turns: vec![],
            superseded: vec![],
            conflicts: vec![],
            withdrawn: vec![],
            snapshots: vec![],
            extraction: ExtractionRecord::default(),
            entity_support: vec![],
            relation_support: vec![],
            event_support: vec![],
            status: Status::Empty,
            error: None,
        }
    }

    /// The trace of a document that was never opened: an interruption or a limit came before.
    pub fn unread(id: &str, protocol: &str) -> Trace {
        Trace { status: Status::Failed, error: Some("not read: stopped before".into()), ..Trace::opened(id, protocol) }
    }

    /// Tokens and seconds of all turns.
    pub fn cost(&self) -> Cost {
        self.superseded.iter().chain(&self.turns).fold(Cost::default(), |sum, turn| sum.plus(turn.cost))
    }

    /// Turns without a usable answer.
    pub fn failed_turns(&self) -> usize {
        self.turns.iter().filter(|turn| matches!(turn.status, Status::Failed | Status::Refused)).count()
    }

    /// Whether every agent gave a usable answer and every conflict was settled: only then may the
    /// document become training data.
    pub fn is_whole(&self) -> bool {
        let heard = |turn: &Turn| turn.stage == "debate" || !matches!(turn.status, Status::Failed | Status::Refused);
        matches!(self.status, Status::Ok | Status::Empty)
            && self.turns.iter().all(heard)
            && self.conflicts.iter().all(|conflict| conflict.settled != Settled::Failed)
    }

    /// The outcome as a prediction about `document`.
    pub fn prediction(&self, document: &Document) -> Prediction {
        let read = self.extraction.clone().read(&document.text);
        match (self.status, read) {
            (Status::Ok | Status::Empty, Ok(extraction)) => Prediction::read(&self.id, extraction, self.cost()),
            (Status::Ok | Status::Empty, Err(error)) => {
                Prediction::failed(&self.id, Status::Failed, error.to_string(), self.cost())
            }
            (status, _) => Prediction::failed(&self.id, status, self.error.clone().unwrap_or_default(), self.cost()),
        }
    }
}
