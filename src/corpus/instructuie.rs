//! The JSON of InstructUIE (Wang et al., 2023) and G&O: a sentence with named items and their code
//! points, end exclusive. Sentences may begin with a space, which counts; `pos` may be empty.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::format::{Format, Sample};
use super::input::each_record;
use crate::ie::Span;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

pub(super) const INSTRUCTUIE: Format = Format {
    name: "instructuie",
    about: "InstructUIE, G&O: sentence, entities, relations with name, type, pos (NYT11)",
    fits,
    read,
};

#[derive(Deserialize)]
struct Row {
    sentence: String,
    entities: Option<Vec<Named>>,
    relations: Option<Vec<Link>>,
    events: Option<Vec<Happening>>,
    id: Option<Value>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(rename = "type", default)]
    label: String,
    #[serde(default)]
    pos: Vec<i64>,
}

#[derive(Deserialize)]
struct Link {
    head: Named,
    #[serde(rename = "type")]
    label: String,
    tail: Named,
}

#[derive(Deserialize)]
struct Happening {
    trigger: String,
    #[serde(rename = "type")]
    label: String,
    #[serde(default)]
    pos: Vec<i64>,
    #[serde(default)]
    arguments: Vec<Filler>,
}

#[derive(Deserialize)]
struct Filler {
    name: String,
    role: String,
    #[serde(default)]
    pos: Vec<i64>,
}

fn fits(sample: &Sample) -> Option<String> {
    let listed = ["entities", "relations", "events"].iter().any(|name| sample.field(name).is_some_and(Value::is_array));
    (sample.field("sentence")?.is_string() && listed && !sample.has(&["tokens"]))
        .then(|| "sentence with named entities, relations or events".into())
}

/// Where a name stands: under its offsets, or found. `None` in front means that it cannot be kept.
fn place(draft: &mut Draft, what: &str, name: &str, pos: &[i64]) -> Option<Option<Span>> {
    match pos {
        [start, end] => draft.point_span(what, Some(name), *start, *end).map(Some),
        _ => Some(draft.find(what, name, 0, None)),
    }
}

fn read(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: Row| {
        let mut draft = Draft::of_text(line, row.sentence);
        draft.id = row.id.map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_string));
        let annotated = row.entities.is_some() || row.relations.is_some() || row.events.is_some();
        for entity in row.entities.iter().flatten() {
            let label = named(&entity.label);
            if entity.pos.is_empty() {
                draft.listed_entity(label, &entity.name);
            } else if let Some(span) = place(&mut draft, label, &entity.name, &entity.pos) {
                draft.entity(label, span, &entity.name);
            }
        }
        for link in row.relations.iter().flatten() {
            let (head, tail) = (named(&link.head.label), named(&link.tail.label));
            if link.head.pos.is_empty() && link.tail.pos.is_empty() {
                draft.triple((head, &link.head.name), &link.label, (tail, &link.tail.name));
                continue;
            }
            let first = place(&mut draft, head, &link.head.name, &link.head.pos);
            let first = first.map(|span| draft.entity_once(head, span, &link.head.name));
            let second = place(&mut draft, tail, &link.tail.name, &link.tail.pos);
            let second = second.map(|span| draft.entity_once(tail, span, &link.tail.name));
            draft.relation_between(&link.label, (&link.head.name, first), (&link.tail.name, second));
        }
        for event in row.events.iter().flatten() {
            let Some(span) = place(&mut draft, &event.label, &event.trigger, &event.pos) else { continue };
            let at = draft.event(&event.label, span, &event.trigger);
            for argument in &event.arguments {
                if let Some(span) = place(&mut draft, &argument.role, &argument.name, &argument.pos) {
                    draft.argument(at, &argument.role, span, &argument.name);
                }
            }
        }
        sink(if annotated { draft } else { draft.without_gold() })
    })
}

/// A type that is empty or not given gets a name: a label cannot be empty.
fn named(label: &str) -> &str {
    if label.is_empty() { "entity" } else { label }
}
