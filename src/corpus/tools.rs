//! What annotation tools export: Doccano, Label Studio, spaCy and Prodigy, as JSON Lines or arrays.
//! Code points, end exclusive.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::{Format, Sample};
use super::input::each_record;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;

pub(super) const DOCCANO: Format = Format {
    name: "doccano",
    about: "Doccano JSONL: text with entities and relations, or label",
    fits: fits_doccano,
    read: read_doccano,
};

pub(super) const LABEL_STUDIO: Format = Format {
    name: "labelstudio",
    about: "Label Studio JSON: data.text with annotations",
    fits: fits_label_studio,
    read: read_label_studio,
};

pub(super) const SPACY: Format = Format {
    name: "spacy",
    about: "spaCy tuples, {text, entities}; Prodigy {text, spans}",
    fits: fits_spacy,
    read: read_spacy,
};

fn word(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_string)
}

/// A mention as `[start, end, label]`, wherever it stands.
fn triple(value: &Value) -> Option<(i64, i64, &str)> {
    Some((value.get(0)?.as_i64()?, value.get(1)?.as_i64()?, value.get(2)?.as_str()?))
}

// ──────────────────────────────────────── Doccano ────────────────────────────────────────

#[derive(Deserialize)]
struct DoccanoRow {
    #[serde(alias = "data")]
    text: String,
    id: Option<Value>,
    entities: Option<Vec<DoccanoMention>>,
    #[serde(default)]
    relations: Vec<DoccanoLink>,
    #[serde(alias = "labels")]
    label: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct DoccanoMention {
    id: Value,
    start_offset: i64,
    end_offset: i64,
    label: String,
}

#[derive(Deserialize)]
struct DoccanoLink {
    from_id: Value,
    to_id: Value,
    #[serde(rename = "type")]
    label: String,
}

fn fits_doccano(sample: &Sample) -> Option<String> {
    sample.field("text").or(sample.field("data"))?.as_str()?;
    let first = |name: &str| sample.field(name).and_then(Value::as_array).map(|list| list.first());
    if let Some(mention) = first("entities") {
        let known = mention.is_some_and(|mention| mention.get("start_offset").is_some());
        let linked = mention.is_none() && sample.has(&["relations"]);
        return (known || linked).then(|| "text with entities by start_offset".into());
    }
    let labels = first("label").or_else(|| first("labels"))?;
    labels.is_none_or(|label| triple(label).is_some()).then(|| "text with labels as [start, end, name]".into())
}

fn read_doccano(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: DoccanoRow| {
        let mut draft = Draft::of_text(line, row.text);
        draft.id = row.id.as_ref().map(word);
        if row.entities.is_none() && row.label.is_none() {
            draft = draft.without_gold();
        }
        let mut places = HashMap::new();
        for mention in row.entities.iter().flatten() {
            let span = draft.point_span(&mention.label, None, mention.start_offset, mention.end_offset);
            if let Some(span) = span {
                places.insert(word(&mention.id), draft.entity(&mention.label, Some(span), ""));
            }
        }
        for link in &row.relations {
            let end = |id: &Value| (word(id), places.get(&word(id)).copied());
            draft.relation_between(&link.label, end(&link.from_id), end(&link.to_id));
        }
        for label in row.label.iter().flatten() {
            add_triple(&mut draft, label);
        }
        sink(draft)
    })
}

fn add_triple(draft: &mut Draft, value: &Value) {
    let Some((start, end, label)) = triple(value) else {
        draft.say(Kind::Outside, format!("expected [start, end, label], found {}", shown(&value.to_string())));
        return;
    };
    if let Some(span) = draft.point_span(label, None, start, end) {
        draft.entity(label, Some(span), "");
    }
}

// ────────────────────────────────────── Label Studio ──────────────────────────────────────

#[derive(Deserialize)]
struct StudioRow {
    id: Option<Value>,
    data: Map<String, Value>,
    #[serde(alias = "completions")]
    annotations: Option<Vec<StudioAnnotation>>,
}

#[derive(Deserialize)]
struct StudioAnnotation {
    #[serde(default)]
    result: Vec<Map<String, Value>>,
    #[serde(default)]
    was_cancelled: bool,
}

fn fits_label_studio(sample: &Sample) -> Option<String> {
    let listed = sample.field("annotations").or_else(|| sample.field("completions"))?.is_array();
    (listed && sample.field("data")?.is_object()).then(|| "data with annotations".into())
}

fn read_label_studio(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: StudioRow| {
        let text = row.data.get("text").or_else(|| row.data.values().find(|value| value.is_string()));
        let Some(text) = text.and_then(Value::as_str) else {
            return Err(StoreError::line(path, line, "expected a text in data.text; other media cannot be converted"));
        };
        let mut draft = Draft::of_text(line, text);
        draft.id = row.id.as_ref().map(word);
        let mut kept = row.annotations.iter().flatten().filter(|annotation| !annotation.was_cancelled);
        let Some(first) = kept.next() else { return sink(draft.without_gold()) };
        let others = kept.count();
        if others > 0 {
            draft.say(Kind::LeftOut, format!("{others} annotations of other people; the first is read"));
        }
        let mut places: HashMap<String, usize> = HashMap::new();
        for item in &first.result {
            studio_mention(&mut draft, item, &mut places);
        }
        for item in first.result.iter().filter(|item| item.get("type").and_then(Value::as_str) == Some("relation")) {
            studio_relation(&mut draft, item, &places);
        }
        sink(draft)
    })
}

fn studio_mention(draft: &mut Draft, item: &Map<String, Value>, places: &mut HashMap<String, usize>) {
    let Some(value) = item.get("value").filter(|value| value.get("start").is_some()) else { return };
    let labels = value.get("labels").or_else(|| value.get("hypertextlabels")).and_then(Value::as_array);
    let label = labels.and_then(|labels| labels.first()).and_then(Value::as_str).unwrap_or("unlabelled");
    // Older exports write numbers as strings.
    let number = |name: &str| value.get(name).and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()));
    let (Some(start), Some(end)) = (number("start"), number("end")) else {
        draft.say(Kind::Outside, format!("{label}: start and end are no numbers"));
        return;
    };
    let surface = value.get("text").and_then(Value::as_str);
    if let Some(span) = draft.point_span(label, surface, start, end) {
        let at = draft.entity(label, Some(span), "");
        for more in labels.into_iter().flatten().skip(1).filter_map(Value::as_str) {
            draft.entity(more, Some(span), "");
        }
        if let Some(id) = item.get("id") {
            places.insert(word(id), at);
        }
    }
}

fn studio_relation(draft: &mut Draft, item: &Map<String, Value>, places: &HashMap<String, usize>) {
    let labels = item.get("labels").and_then(Value::as_array);
    let label = labels.and_then(|labels| labels.first()).and_then(Value::as_str).unwrap_or("related");
    let end = |name: &str| {
        let id = item.get(name).map(word).unwrap_or_default();
        let place = places.get(&id).copied();
        (shown(&id), place)
    };
    let (mut head, mut tail) = (end("from_id"), end("to_id"));
    if item.get("direction").and_then(Value::as_str) == Some("left") {
        std::mem::swap(&mut head, &mut tail);
    }
    draft.relation_between(label, head, tail);
}

// ───────────────────────────────────── spaCy, Prodigy ─────────────────────────────────────

fn fits_spacy(sample: &Sample) -> Option<String> {
    let Sample::Json { first, .. } = sample else { return None };
    if let Some([text, told, ..]) = first.as_array().map(Vec::as_slice) {
        return (text.is_string() && told.get("entities").is_some())
            .then(|| "tuples of a text and its entities".into());
    }
    sample.field("text")?.as_str()?;
    if let Some(spans) = sample.field("spans").and_then(Value::as_array) {
        let span = spans.first().is_none_or(|span| span.get("start").is_some() && span.get("label").is_some());
        return span.then(|| "text with spans".into());
    }
    let entities = sample.field("entities")?.as_array()?;
    let known =
        |entity: &Value| triple(entity).is_some() || entity.get("label").is_some() && entity.get("start").is_some();
    entities.first().is_some_and(known).then(|| "text with entities as [start, end, label]".into())
}

fn read_spacy(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: Value| {
        let (text, told) = match row.as_array().map(Vec::as_slice) {
            Some([text, told, ..]) => (text.as_str(), told),
            _ => (row.get("text").and_then(Value::as_str), &row),
        };
        let Some(text) = text else {
            let said = format!("expected a text with entities or spans, found {}", shown(&row.to_string()));
            return Err(StoreError::line(path, line, said));
        };
        let mut draft = Draft::of_text(line, text);
        draft.id = told.get("id").or_else(|| told.get("meta")?.get("id")).map(word);
        let lists: Vec<&Value> = ["entities", "spans"].iter().filter_map(|name| told.get(*name)).collect();
        // Prodigy names both ends of a relation by their last tokens.
        let mut by_token: HashMap<i64, usize> = HashMap::new();
        for item in lists.iter().filter_map(|list| list.as_array()).flatten() {
            if item.is_array() {
                add_triple(&mut draft, item);
                continue;
            }
            let number = |name: &str| item.get(name).and_then(Value::as_i64);
            let label = item.get("label").and_then(Value::as_str).unwrap_or("unlabelled");
            let (start, end) = (number("start").unwrap_or(-1), number("end").unwrap_or(-1));
            if let Some(span) = draft.point_span(label, None, start, end) {
                let at = draft.entity(label, Some(span), "");
                by_token.extend(number("token_end").map(|token| (token, at)));
            }
        }
        for link in told.get("relations").and_then(Value::as_array).into_iter().flatten() {
            let end = |name: &str| {
                let token = link.get(name).and_then(Value::as_i64).unwrap_or(-1);
                (format!("at token {token}"), by_token.get(&token).copied())
            };
            let label = link.get("label").and_then(Value::as_str).unwrap_or("related");
            draft.relation_between(label, end("head"), end("child"));
        }
        let skipped = told.get("answer").and_then(Value::as_str).is_some_and(|answer| answer != "accept");
        sink(if lists.is_empty() || skipped { draft.without_gold() } else { draft })
    })
}
