//! Kept facts as training conversations: the same prompts that are asked at inference, the answer
//! as the shared format writes it.

use super::answer::{render_entities, render_relations};
use super::prompt::Prompts;
use crate::ie::{Extraction, Message};
use serde::{Deserialize, Serialize};

/// Which question a conversation asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// All entity types.
    Entities,
    /// All relation types, over the entities found.
    Relations,
}

/// Where a conversation comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Ids of the documents it is about.
    pub documents: Vec<String>,
    /// The question.
    pub task: Task,
    /// The protocol that answered, or `gold`.
    pub protocol: String,
    /// Most rounds that one of its conflicts took; 0 without a debate.
    pub rounds: u32,
    /// `(for, asked)` of each item of the answer.
    pub votes: Vec<(u32, u32)>,
    /// Mean confidence of the answer's items; 1 where nothing is there.
    pub confidence: f64,
    /// SHA-256 of the system message.
    pub prompt: String,
    /// Tokens the team spent on the document, all tasks together.
    pub tokens: Option<u64>,
}

/// One line of a corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Prompt and answer.
    pub messages: Vec<Message>,
    /// Where it comes from.
    pub meta: Provenance,
}

/// The conversations of one document: its entities, and its relations where a signature fits a
/// pair of them.
pub fn conversations(prompts: &Prompts, text: &str, extraction: &Extraction) -> Vec<(Task, Vec<Message>)> {
    let mut all = Vec::new();
    let mut entities = prompts.entities(text);
    entities.push(Message::assistant(render_entities(extraction, prompts.schema())));
    all.push((Task::Entities, entities));
    if let Some(mut relations) = prompts.relations(text, &extraction.entities) {
        relations.push(Message::assistant(render_relations(extraction, prompts.schema())));
        all.push((Task::Relations, relations));
    }
    all
}
