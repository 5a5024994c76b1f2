//! DuIE and DuEE (Baidu): JSON Lines of a text with triples, or with events whose offsets are start
//! code points alone.
//!
//! An object of DuIE 2.0 has slots; `@value` is the tail of the relation, and any other slot hangs
//! on that tail as a relation `predicate.slot`, so that no slot is lost. DuIE 1.0 looks alike and
//! has plain strings.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::Format;
use super::input::each_record;
use crate::ie::Span;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;

pub(super) const DUIE: Format = Format {
    name: "duie",
    about: "DuIE 1.0 and 2.0, CMeIE: text, spo_list; more slots are relations `predicate.slot`",
    fits: |sample| {
        (sample.field("text")?.is_string() && sample.field("spo_list")?.is_array()).then(|| "text and spo_list".into())
    },
    read: read_duie,
};

pub(super) const DUEE: Format = Format {
    name: "duee",
    about: "DuEE 1.0 and DuEE-fin: text, event_list",
    fits: |sample| {
        (sample.field("text")?.is_string() && sample.field("event_list")?.is_array())
            .then(|| "text and event_list".into())
    },
    read: read_duee,
};

#[derive(Deserialize)]
struct DuieRow {
    text: String,
    id: Option<Value>,
    spo_list: Option<Vec<Triple>>,
}

#[derive(Deserialize)]
struct Triple {
    predicate: String,
    subject_type: String,
    subject: String,
    object_type: Slots,
    object: Slots,
}

/// A plain string, or one for each slot.
#[derive(Deserialize)]
#[serde(untagged)]
enum Slots {
    Plain(String),
    Each(Map<String, Value>),
}

impl Slots {
    fn get(&self, slot: &str) -> Option<&str> {
        match self {
            Slots::Plain(value) if slot == "@value" => Some(value),
            Slots::Plain(_) => None,
            Slots::Each(slots) => slots.get(slot).and_then(Value::as_str),
        }
    }

    fn others(&self) -> impl Iterator<Item = &str> {
        let slots = match self {
            Slots::Plain(_) => None,
            Slots::Each(slots) => Some(slots.keys().map(String::as_str).filter(|slot| *slot != "@value")),
        };
        slots.into_iter().flatten()
    }
}

fn word(id: Option<Value>) -> Option<String> {
    id.map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_string))
}

fn read_duie(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: DuieRow| {
        let mut draft = Draft::of_text(line, row.text);
        draft.id = word(row.id);
        let Some(triples) = row.spo_list else { return sink(draft.without_gold()) };
        for triple in &triples {
            let Some(value) = triple.object.get("@value") else {
                let said = format!("{}: the object has no slot @value", shown(&triple.predicate));
                draft.say(Kind::MissingEnd, said);
                continue;
            };
            let kind = triple.object_type.get("@value").unwrap_or("entity");
            let subject = (triple.subject_type.as_str(), triple.subject.as_str());
            let relation = draft.triple(subject, &triple.predicate, (kind, value));
            let Some(tail) = draft.tail_of(relation) else { continue };
            for slot in triple.object.others() {
                let Some(value) = triple.object.get(slot).filter(|value| !value.trim().is_empty()) else { continue };
                let kind = triple.object_type.get(slot).unwrap_or("entity");
                let span = draft.find(kind, value, 0, None);
                let filler = draft.entity_once(kind, span, value);
                draft.relation(&format!("{}.{slot}", triple.predicate), tail, filler);
            }
        }
        sink(draft)
    })
}

#[derive(Deserialize)]
struct DueeRow {
    text: String,
    id: Option<Value>,
    event_list: Option<Vec<Happening>>,
}

#[derive(Deserialize)]
struct Happening {
    event_type: String,
    #[serde(default)]
    trigger: String,
    trigger_start_index: Option<i64>,
    #[serde(default)]
    arguments: Vec<Filler>,
}

#[derive(Deserialize)]
struct Filler {
    role: String,
    argument: String,
    argument_start_index: Option<i64>,
    #[serde(default)]
    alias: Vec<Value>,
}

/// The span of words whose start is known; `None` in front means that they cannot be kept.
fn from_start(draft: &mut Draft, what: &str, words: &str, start: Option<i64>) -> Option<Option<Span>> {
    match start {
        Some(start) => {
            let end = start.saturating_add(words.chars().count() as i64);
            draft.point_span(what, Some(words), start, end).map(Some)
        }
        None if words.is_empty() => Some(None),
        None => Some(draft.find(what, words, 0, None)),
    }
}

fn read_duee(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: DueeRow| {
        let mut draft = Draft::of_text(line, row.text);
        draft.id = word(row.id);
        let Some(events) = row.event_list else { return sink(draft.without_gold()) };
        for event in &events {
            let place = from_start(&mut draft, &event.event_type, &event.trigger, event.trigger_start_index);
            let Some(span) = place else { continue };
            let at = draft.event(&event.event_type, span, &event.trigger);
            for argument in &event.arguments {
                let place = from_start(&mut draft, &argument.role, &argument.argument, argument.argument_start_index);
                if let Some(span) = place {
                    draft.argument(at, &argument.role, span, &argument.argument);
                }
                if !argument.alias.is_empty() {
                    let said = format!("{} other names of {}", argument.alias.len(), shown(&argument.argument));
                    draft.say(Kind::LeftOut, said);
                }
            }
        }
        sink(draft)
    })
}
