//! Kept facts as training conversations: the same prompts that are asked at inference, the answer
//! as the shared format writes it.

use super::answer::{Written, write_entities, write_relations};
use super::prompt::Prompts;
use crate::ie::{Extraction, Message};
use serde::{Deserialize, Serialize};
use std::ops::Range;

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
    /// The labels that are asked, where they are not all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
}

/// One line of a corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Prompt and answer.
    pub messages: Vec<Message>,
    /// Parts of the answer that are not learned: `[start, end)` in code points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlearned: Vec<[usize; 2]>,
    /// Where it comes from.
    pub meta: Provenance,
}

impl Line {
    /// A conversation from annotations; `hash` gives the SHA-256 of its system message.
    pub fn of_gold(document: &str, conversation: Conversation, hash: impl Fn(&[u8]) -> String) -> Line {
        let Conversation { task, messages, unlearned } = conversation;
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
            asked: vec![],
        };
        Line { messages, unlearned, meta }
    }
}

/// A conversation in the making.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// The question.
    pub task: Task,
    /// Prompt and answer.
    pub messages: Vec<Message>,
    /// Parts of the answer that are not learned: `[start, end)` in code points.
    pub unlearned: Vec<[usize; 2]>,
}

impl Conversation {
    fn new(task: Task, mut messages: Vec<Message>, answer: Written) -> Conversation {
        let points = |byte: usize| answer.text[..byte].chars().count();
        let unlearned = answer.unlearned.iter().map(|range| [points(range.start), points(range.end)]).collect();
        messages.push(Message::assistant(answer.text));
        Conversation { task, messages, unlearned }
    }
}

/// Code points of a text as bytes; `None` if a range does not lie in it, in order.
pub fn in_bytes(text: &str, ranges: &[[usize; 2]]) -> Option<Vec<Range<usize>>> {
    let mut places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    places.push(text.len());
    let mut end = 0;
    let range = |[from, to]: &[usize; 2]| {
        let (from, to) = (*places.get(*from)?, *places.get(*to)?);
        let fits = end <= from && from < to;
        end = to;
        fits.then_some(from..to)
    };
    ranges.iter().map(range).collect()
}

/// The question about entities; those of some ordinals alone are learned.
pub fn about_entities(
    prompts: &Prompts,
    text: &str,
    found: &Extraction,
    learned: impl Fn(usize) -> bool,
) -> Conversation {
    Conversation::new(Task::Entities, prompts.entities(text), write_entities(found, prompts.schema(), learned))
}

/// The question about relations, where a signature fits a pair of entities; the relations of some
/// ordinals alone are learned.
pub fn about_relations(
    prompts: &Prompts,
    text: &str,
    found: &Extraction,
    learned: impl Fn(usize) -> bool,
) -> Option<Conversation> {
    let asked = prompts.relations(text, &found.entities)?;
    Some(Conversation::new(Task::Relations, asked, write_relations(found, prompts.schema(), learned)))
}

/// The conversations of one document: its entities, and its relations where a signature fits a
/// pair of them.
pub fn conversations(prompts: &Prompts, text: &str, extraction: &Extraction) -> Vec<Conversation> {
    let entities = about_entities(prompts, text, extraction, |_| true);
    std::iter::once(entities).chain(about_relations(prompts, text, extraction, |_| true)).collect()
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
    fn ranges_of_code_points_are_bytes_inside_and_nothing_outside() {
        assert_eq!(in_bytes("é,李b", &[[0, 1], [2, 4]]), Some(vec![0..2, 3..7]));
        for outside in [[[2, 5]].as_slice(), &[[1, 1]], &[[2, 3], [0, 1]], &[[3, 2]]] {
            assert_eq!(in_bytes("é,李b", outside), None, "{outside:?}");
        }
    }

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
                asked: vec![],
            },
            unlearned: vec![],
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
