//! GLiNER's training JSON (Zaratiana et al., 2024): tokens and mentions by token index, inclusive.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::format::Format;
use super::input::each_record;
use super::join::Joiner;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

pub(super) const GLINER: Format = Format {
    name: "gliner",
    about: "GLiNER: tokenized_text, ner",
    fits: |sample| {
        (sample.field("tokenized_text")?.is_array() && sample.has(&["ner"])).then(|| "tokenized_text and ner".into())
    },
    read,
};

#[derive(Deserialize)]
struct Row {
    tokenized_text: Vec<String>,
    ner: Option<Vec<(i64, i64, String)>>,
    id: Option<Value>,
}

fn read(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, row: Row| {
        let mut draft = Draft::of_tokens(line, &row.tokenized_text, joiner.join(&row.tokenized_text));
        draft.id = row.id.map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_string));
        let Some(mentions) = row.ner else { return sink(draft.without_gold()) };
        for (first, last, label) in mentions {
            if let Some(span) = draft.token_span(&label, first, last.saturating_add(1)) {
                draft.entity(&label, Some(span), "");
            }
        }
        sink(draft)
    })
}
