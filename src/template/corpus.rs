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

impl Line {
    /// A conversation from annotations; `hash` gives the SHA-256 of its system message.
    pub fn of_gold(document: &str, task: Task, messages: Vec<Message>, hash: impl Fn(&[u8]) -> String) -> Line {
        let prompt = messages.first().map_or_else(String::new, |first| hash(first.content.as_bytes()));
        let meta = Provenance {
            documents: vec![document.into()],
            task,
            protocol: "gold".into(),
            rounds: 0,
            votes: vec![],
            confidence: 1.0,
            prompt,
            tokens: None,
        };
        Line { messages, meta }
    }
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

/// Keeps at most `share` of a task's conversations with an empty answer; which ones is decided by
/// `rank`, so that equal corpora give equal bytes. Returns how many were left out.
pub fn cap_empty(lines: &mut Vec<Line>, task: Task, share: f64, rank: impl Fn(&Line) -> String) -> usize {
    let is_empty =
        |line: &Line| line.meta.task == task && line.messages.last().is_some_and(|answer| answer.content == "{}");
    let full = lines.iter().filter(|line| line.meta.task == task && !is_empty(line)).count() as f64;
    let room = if share >= 1.0 { usize::MAX } else { (full * share / (1.0 - share)).floor() as usize };
    let mut empty: Vec<(String, usize)> =
        lines.iter().enumerate().filter(|(_, line)| is_empty(line)).map(|(at, line)| (rank(line), at)).collect();
    empty.sort();
    let spare: std::collections::BTreeSet<usize> = empty.into_iter().skip(room).map(|(_, at)| at).collect();
    let mut at = 0;
    lines.retain(|_| {
        at += 1;
        !spare.contains(&(at - 1))
    });
    spare.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_answers_of_one_task_are_capped_and_the_other_task_is_left_alone() {
        let line = |id: &str, task: Task, answer: &str| Line {
            messages: vec![Message::user(id), Message::assistant(answer)],
            meta: Provenance {
                documents: vec![id.into()],
                task,
                protocol: "gold".into(),
                rounds: 0,
                votes: vec![],
                confidence: 1.0,
                prompt: String::new(),
                tokens: None,
            },
        };
        let mut lines = vec![
            line("a", Task::Relations, "{\"r\":[[\"x\",\"y\"]]}"),
            line("b", Task::Relations, "{}"),
            line("c", Task::Relations, "{}"),
            line("d", Task::Entities, "{}"),
        ];
        assert_eq!(cap_empty(&mut lines, Task::Relations, 0.5, |line| line.meta.documents[0].clone()), 1);
        let left: Vec<&str> = lines.iter().map(|line| line.meta.documents[0].as_str()).collect();
        assert_eq!(left, ["a", "b", "d"]);
    }
}
