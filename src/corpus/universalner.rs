//! UniversalNER's conversations (Zhou et al., 2024): "Text: …", then for each type "What describes X
//! in the text?" and a JSON list of words. Words have no offsets: they are looked for.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::shown;
use super::format::{Format, Sample};
use super::input::each_record;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

pub(super) const UNIVERSALNER: Format =
    Format { name: "universalner", about: "UniversalNER conversations: \"What describes X in the text?\"", fits, read };

#[derive(Deserialize)]
struct Row {
    id: Option<Value>,
    conversations: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    from: String,
    value: String,
}

fn fits(sample: &Sample) -> Option<String> {
    let turn = sample.field("conversations")?.as_array()?.first()?;
    let opens = turn.get("value")?.as_str()?.starts_with("Text:");
    opens.then(|| "conversations that begin with \"Text:\"".into())
}

/// The type that a question asks for.
fn asked(question: &str) -> Option<&str> {
    question.trim().strip_prefix("What describes ")?.strip_suffix(" in the text?")
}

fn read(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: Row| {
        let refused = |said: String| StoreError::line(path, line, said);
        let text = row.conversations.first().and_then(|turn| turn.value.strip_prefix("Text:"));
        let Some(text) = text.map(|text| text.strip_prefix(' ').unwrap_or(text)) else {
            return Err(refused("expected a first turn that begins with \"Text:\"".into()));
        };
        let mut draft = Draft::of_text(line, text);
        draft.id = row.id.as_ref().map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_string));
        let mut labels = Vec::new();
        for pair in row.conversations.windows(2) {
            let [question, answer] = pair else { continue };
            let Some(label) = asked(&question.value).filter(|_| question.from == "human") else { continue };
            let words: Vec<String> = serde_json::from_str(&answer.value).map_err(|_| {
                refused(format!("expected a JSON list of words for {}, found {}", shown(label), shown(&answer.value)))
            })?;
            labels.push(label);
            for word in &words {
                draft.listed_entity(label, word);
            }
        }
        draft.meta.insert("asked".into(), json!(labels));
        sink(if labels.is_empty() { draft.without_gold() } else { draft })
    })
}
