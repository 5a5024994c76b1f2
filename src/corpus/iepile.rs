//! The instruction records of IEPile and OneKE (Gui et al., 2024): the instruction is JSON inside a
//! string (asked labels and the text), and so is the answer, in one of two shapes; and the plain
//! records that their converter starts from.
//!
//! A text is asked in several records with a few labels each. Records of one text that stand one
//! behind the other become one document; which labels were asked stands in its `meta.asked`.
//! Words have no offsets: they are looked for.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::shown;
use super::format::{Format, Sample};
use super::input::each_record;
use crate::store::StoreError;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub(super) const IEPILE: Format = Format {
    name: "iepile",
    about: "IEPile, OneKE: instruction with output or label; text with entity, relation, event",
    fits,
    read,
};

/// The type of ends of relations that have none.
const UNTYPED: &str = "entity";

fn fits(sample: &Sample) -> Option<String> {
    if let Some(instruction) = sample.field("instruction").and_then(Value::as_str) {
        let asked: Value = serde_json::from_str(instruction).ok()?;
        return (asked.get("schema").is_some() && asked.get("input").is_some())
            .then(|| "an instruction with schema and input".into());
    }
    let first = |name: &str, key: &str| {
        sample
            .field(name)
            .and_then(Value::as_array)
            .is_some_and(|list| list.first().is_none_or(|item| item.get(key).is_some()))
    };
    let listed = first("entity", "entity_type") || first("relation", "relation") || first("event", "event_type");
    (listed && sample.field("text")?.is_string() && !sample.has(&["tokens"]))
        .then(|| "text with entity, relation or event".into())
}

/// One text with all answers about it.
struct Open {
    text: String,
    asked: BTreeSet<String>,
    /// Subject and object types by predicate.
    signatures: BTreeMap<String, (String, String)>,
    /// Whether the whole gold was read already: `label` repeats it in every record.
    whole: bool,
    annotated: bool,
    draft: Draft,
}

impl Open {
    fn close(self) -> Draft {
        let mut draft = self.draft;
        if !self.asked.is_empty() {
            draft.meta.insert("asked".into(), json!(self.asked));
        }
        if self.annotated { draft } else { draft.without_gold() }
    }
}

fn read(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut open: Option<Open> = None;
    each_record(path, |line, row: Map<String, Value>| {
        let refused = |said: String| StoreError::line(path, line, said);
        let Some(instruction) = row.get("instruction").and_then(Value::as_str) else {
            if let Some(done) = open.take() {
                sink(done.close())?;
            }
            return sink(plain(&row, line).map_err(refused)?);
        };
        let instruction: Value = inner(instruction, "instruction").map_err(refused)?;
        let Some(text) = instruction.get("input").and_then(Value::as_str) else {
            return Err(refused("the instruction has no \"input\" with the text".into()));
        };
        if open.as_ref().is_some_and(|open| open.text != text)
            && let Some(done) = open.take()
        {
            sink(done.close())?;
        }
        let here = open.get_or_insert_with(|| Open {
            text: text.into(),
            asked: BTreeSet::new(),
            signatures: BTreeMap::new(),
            whole: false,
            annotated: false,
            draft: Draft::of_text(line, text),
        });
        let fresh = ask(here, instruction.get("schema").unwrap_or(&Value::Null));
        let answer = |name: &str| row.get(name).and_then(Value::as_str).filter(|answer| !answer.is_empty());
        // Words alone are mentions, or triggers where a record asks for those.
        let told = instruction.get("instruction").and_then(Value::as_str).unwrap_or_default();
        let triggers = match row.get("task").and_then(Value::as_str) {
            Some(task) => task == "EET",
            None => told.contains("触发词") || told.contains("trigger"),
        };
        if let Some(output) = answer("output") {
            here.annotated = true;
            for (label, said) in inner::<Map<String, Value>>(output, "output").map_err(refused)? {
                // A label that an earlier record asked is answered already.
                if fresh.contains(&label) {
                    by_label(here, &label, &said, triggers);
                }
            }
        } else if let Some(label) = answer("label") {
            here.annotated = true;
            let items: Vec<Value> = inner(label, "label").map_err(refused)?;
            if !std::mem::replace(&mut here.whole, true) {
                items.iter().for_each(|item| itemised(&mut here.draft, item));
            }
        }
        Ok(())
    })?;
    open.map_or(Ok(()), |done| sink(done.close()))
}

fn inner<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("the {what} is no JSON: {error}; it begins with {}", shown(text)))
}

/// Adds what this record asks; returns the labels that no record before it asked.
fn ask(open: &mut Open, schema: &Value) -> BTreeSet<String> {
    let mut fresh = BTreeSet::new();
    for item in schema.as_array().into_iter().flatten() {
        let field = |name: &str| item.get(name).and_then(Value::as_str);
        let label =
            item.as_str().or(field("event_type")).or(field("predicate")).or(field("relation")).or(field("entity_type"));
        let Some(label) = label else { continue };
        if let (Some(subject), Some(object)) = (field("subject_type"), field("object_type")) {
            open.signatures.insert(label.into(), (subject.into(), object.into()));
        }
        if open.asked.insert(label.into()) {
            fresh.insert(label.into());
        }
    }
    fresh
}

/// Words of a value that is one word, a list of them, or nothing; `NAN` is nothing.
fn words(value: &Value) -> Vec<&str> {
    let all: Vec<&Value> = value.as_array().map_or_else(|| vec![value], |list| list.iter().collect());
    all.into_iter().filter_map(Value::as_str).filter(|word| !word.is_empty() && *word != "NAN").collect()
}

/// What a record says about one label, in the shape of `output`.
fn by_label(open: &mut Open, label: &str, said: &Value, triggers: bool) {
    let draft = &mut open.draft;
    if let Some(entities) = said.as_object() {
        // A knowledge graph: {entity: {attribute: value}}.
        for (name, attributes) in entities {
            for (attribute, values) in attributes.as_object().into_iter().flatten() {
                for value in words(values) {
                    draft.triple((label, name), attribute, (UNTYPED, value));
                }
            }
        }
        return;
    }
    for item in said.as_array().into_iter().flatten() {
        let field = |names: [&str; 2]| names.iter().find_map(|name| item.get(name)).and_then(Value::as_str);
        match (item.as_str(), field(["subject", "head"]), field(["object", "tail"])) {
            (Some(word), ..) if triggers => {
                let span = draft.find(label, word, 0, None);
                draft.event(label, span, word);
            }
            (Some(word), ..) => {
                draft.listed_entity(label, word);
            }
            (_, Some(subject), Some(object)) => {
                let untyped = (UNTYPED.to_string(), UNTYPED.to_string());
                let (head, tail) = open.signatures.get(label).cloned().unwrap_or(untyped);
                draft.triple((&head, subject), label, (&tail, object));
            }
            _ if item.get("trigger").is_some() || item.get("arguments").is_some() => event(draft, label, item),
            _ => {}
        }
    }
}

fn event(draft: &mut Draft, label: &str, item: &Value) {
    let trigger = item.get("trigger").or_else(|| item.get("event_trigger")).map(words).unwrap_or_default();
    let trigger = trigger.first().copied().unwrap_or_default();
    let span = if trigger.is_empty() { None } else { draft.find(label, trigger, 0, None) };
    let at = draft.event(label, span, trigger);
    let mut fill = |role: &str, word: &str| {
        let span = draft.find(role, word, 0, None);
        draft.argument(at, role, span, word);
    };
    match item.get("arguments") {
        Some(Value::Object(roles)) => {
            for (role, values) in roles {
                words(values).into_iter().for_each(|word| fill(role, word));
            }
        }
        Some(Value::Array(fillers)) => {
            for filler in fillers {
                let field = |name: &str| filler.get(name).and_then(Value::as_str);
                if let (Some(role), Some(word)) = (field("role"), field("argument")) {
                    fill(role, word);
                }
            }
        }
        _ => {}
    }
}

/// One item in the shape of `label`: it says itself what it is.
fn itemised(draft: &mut Draft, item: &Value) {
    let field = |name: &str| item.get(name).and_then(Value::as_str);
    if let (Some(head), Some(relation), Some(tail)) = (field("head"), field("relation"), field("tail")) {
        let (first, second) = (field("head_type").unwrap_or(UNTYPED), field("tail_type").unwrap_or(UNTYPED));
        draft.triple((first, head), relation, (second, tail));
    } else if let (Some(entity), Some(label)) = (field("entity"), field("entity_type")) {
        draft.listed_entity(label, entity);
    } else if let Some(label) = field("event_type") {
        event(draft, label, item);
    }
}

/// A record of the converter's input: a text with lists.
fn plain(row: &Map<String, Value>, line: usize) -> Result<Draft, String> {
    let Some(text) = row.get("text").and_then(Value::as_str) else {
        let keys: Vec<&str> = row.keys().map(String::as_str).collect();
        return Err(format!("expected \"instruction\" or \"text\", found the fields {}", shown(&keys.join(", "))));
    };
    let mut draft = Draft::of_text(line, text);
    draft.id = row.get("id").map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_string));
    let lists: Vec<&Value> = ["entity", "relation", "event"].iter().filter_map(|name| row.get(*name)).collect();
    for item in lists.iter().filter_map(|list| list.as_array()).flatten() {
        itemised(&mut draft, item);
    }
    Ok(if lists.is_empty() { draft.without_gold() } else { draft })
}
