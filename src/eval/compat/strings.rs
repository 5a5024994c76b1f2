//! The conventions that compare answers as normalised strings: InstructUIE, UniversalNER, OneKE.
//!
//! Each is given what its own prompt would have made of the extraction: gold and reading are
//! written as that project writes answers, and go through its parser.

use super::count::Sum;
use super::figures::{Measure, harmonic};
use super::{Pair, Tally, text};
use crate::ie::Extraction;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Sets of strings of one document, under any key.
fn sets<T: Ord>(gold: &BTreeSet<T>, pred: &BTreeSet<T>) -> Sum {
    Sum::even(gold.intersection(pred).count(), pred.len(), gold.len())
}

/// Triples `(label, head, tail)` as they stand.
fn triples(of: &Extraction) -> impl Iterator<Item = [&str; 3]> {
    of.relations.iter().filter_map(|relation| {
        let (head, tail) = (of.entities.get(relation.head)?, of.entities.get(relation.tail)?);
        Some([relation.label.as_str(), head.text.as_str(), tail.text.as_str()])
    })
}

// ---------------------------------------------------------------------------------- InstructUIE

/// ` type: name; type: name`, or ` None`; types that are empty or `NA` are no entities.
fn written_entities(of: &Extraction) -> String {
    let items: Vec<String> = of
        .entities
        .iter()
        .filter(|one| !matches!(one.label.as_str(), "" | "NA"))
        .map(|one| format!("{}: {}", one.label, one.text))
        .collect();
    if items.is_empty() { " None".into() } else { format!(" {}", items.join("; ")) }
}

fn written_relations(of: &Extraction) -> String {
    let items: Vec<String> = triples(of)
        .map(|[label, head, tail]| format!("{}: {head}, {tail}", if label.is_empty() { "NA" } else { label }))
        .collect();
    if items.is_empty() { " None".into() } else { format!(" {}", items.join("; ")) }
}

/// ` ( type: trigger,  name: role, name: role) `, one behind the other.
fn written_events(of: &Extraction) -> String {
    let mut items = Vec::new();
    for event in of.events.iter().filter(|one| !matches!(one.label.as_str(), "" | "NA")) {
        let arguments: Vec<String> = event.arguments.iter().map(|one| format!(" {}: {}", one.text, one.role)).collect();
        let arguments = if arguments.is_empty() { "None".to_string() } else { arguments.join(",") };
        items.push(format!(" ( {}: {}, {arguments}) ", event.label, event.trigger.text));
    }
    if items.is_empty() { " None".into() } else { items.join(",") }
}

/// The parts of an answer between semicolons; where `colon`, only those with a colon.
fn parts(answer: &str, colon: bool) -> BTreeSet<String> {
    let whole = text::instructuie(answer);
    whole.split(';').map(text::instructuie).filter(|part| !colon || part.contains(':')).collect()
}

/// What stands in outermost brackets; one missing bracket at either end is forgiven.
fn brackets(answer: &str) -> Vec<String> {
    let chars: Vec<char> = answer.chars().collect();
    let slice = |from: usize, to: usize| chars[from..to].iter().collect::<String>();
    let (mut found, mut level, mut opened): (Vec<String>, i64, Option<usize>) = (Vec::new(), 0, None);
    for (at, c) in chars.iter().enumerate() {
        match c {
            '(' => {
                if level == 0 {
                    opened = Some(at);
                }
                level += 1;
            }
            ')' => {
                if opened.is_none() && found.is_empty() && at != 0 {
                    found.push(slice(0, at));
                }
                if let (1, Some(opened)) = (level, opened)
                    && opened + 1 != at
                {
                    found.push(slice(opened + 1, at));
                }
                level = (level - 1).max(0);
            }
            _ => {}
        }
    }
    if let (1, Some(opened)) = (level, opened)
        && opened + 1 != chars.len()
    {
        found.push(slice(opened + 1, chars.len()));
    }
    found
}

/// Parts between commas outside brackets; empty ones are passed over, as far as the original does.
fn commas(event: &str) -> Vec<String> {
    let chars: Vec<char> = event.chars().collect();
    let (mut parts, mut level, mut from) = (Vec::new(), 0_i64, 0);
    for (at, c) in chars.iter().enumerate() {
        match c {
            '(' => level += 1,
            ')' => level -= 1,
            // Directly behind another comma it is not even passed: the next part begins with it.
            ',' if level == 0 && from != at => {
                parts.push(chars[from..at].iter().collect());
                from = at + 1;
            }
            _ => {}
        }
    }
    if from != chars.len() {
        parts.push(chars[from..].iter().collect());
    }
    parts
}

fn events(answer: &str) -> BTreeSet<String> {
    let sorted = |event: String| {
        let mut elements = commas(&text::instructuie(&event).replace("arguments:", ""));
        elements.sort();
        elements.join(",")
    };
    brackets(answer).into_iter().map(sorted).collect()
}

/// InstructUIE: entities and relations by sets of parts, events by equality of the whole document.
///
/// A document that failed has an empty answer, which is not the answer ` None`. Its rule for
/// relations with `,na,` inside an item is not here: its own data never write one.
pub(super) fn instructuie(pair: &Pair<'_>, tally: &mut Tally) {
    let written = |write: fn(&Extraction) -> String| pair.pred.map(write).unwrap_or_default();
    let (gold, pred) = (written_entities(pair.gold), written(written_entities));
    tally.sum(Measure::Entities, &sets(&parts(&gold, false), &parts(&pred, false)));
    let (gold, pred) = (written_relations(pair.gold), written(written_relations));
    tally.sum(Measure::Relations, &sets(&parts(&gold, true), &parts(&pred, true)));
    let same = f64::from(u8::from(events(&written_events(pair.gold)) == events(&written(written_events))));
    tally.means.entry(Measure::Events).or_default().take(same, same, same);
    tally.sum(Measure::Events, &Sum::even(0, pair.found().events.len(), pair.gold.events.len()));
}

// --------------------------------------------------------------------------------- UniversalNER

/// The answers of one document, one for each type: a list that holds a `]` inside is cut there,
/// so is no JSON, and counts as empty.
fn uniner_answers(of: &Extraction) -> BTreeSet<(&str, String)> {
    let lost: BTreeSet<&str> =
        of.entities.iter().filter(|one| one.text.contains(']')).map(|one| one.label.as_str()).collect();
    let kept = of.entities.iter().filter(|one| !lost.contains(one.label.as_str()));
    kept.map(|one| (one.label.as_str(), text::uniner(&one.text))).collect()
}

/// UniversalNER: one question for each type and document, the answer a JSON list of strings.
pub(super) fn uniner(pair: &Pair<'_>, tally: &mut Tally) {
    tally.sum(Measure::Entities, &sets(&uniner_answers(pair.gold), &uniner_answers(pair.found())));
}

// ---------------------------------------------------------------------------------------- OneKE

/// An answer as OneKE's model writes it.
fn oneke_answer(of: &Extraction, relations: bool) -> Vec<Value> {
    if relations {
        return triples(of).map(|[label, head, tail]| json!({"head": head, "tail": tail, "relation": label})).collect();
    }
    of.entities.iter().map(|one| json!({"name": one.text, "type": one.label})).collect()
}

/// The values of each item, normalised; an item with a value that is no string ends the list.
fn oneke_set(items: &[Value]) -> BTreeSet<Vec<String>> {
    let mut set = BTreeSet::new();
    for item in items {
        let values: Option<Vec<&str>> = item.as_object().and_then(|item| item.values().map(Value::as_str).collect());
        match values {
            Some(values) => drop(set.insert(values.into_iter().map(text::plain).collect())),
            None => break,
        }
    }
    set
}

/// The answer through OneKE's reader: the last object of the text, its bytes taken as Latin-1,
/// empty values dropped.
fn reread(items: Vec<Value>, key: &str) -> Vec<Value> {
    let answer = json!({key: items}).to_string();
    let read = text::last_object(&answer).and_then(text::unicode_escape);
    let Some(Value::Object(mut answer)) = read.and_then(|text| serde_json::from_str(&text).ok()) else {
        return vec![];
    };
    let Some(Value::Array(items)) = answer.remove(key) else { return vec![] };
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let mut kept = Vec::new();
    for item in items.into_iter().filter(|item| !empty(item)) {
        kept.push(match item {
            Value::Object(fields) => {
                Value::Object(fields.into_iter().filter(|(_, value)| !empty(value)).collect::<Map<_, _>>())
            }
            other => other,
        });
    }
    kept
}

/// OneKE: P, R and F1 of each document by sets, then their mean; a document with nothing on
/// either side is 0 and stays in the mean.
pub(super) fn oneke(pair: &Pair<'_>, garble: bool, tally: &mut Tally) {
    for (measure, key) in [(Measure::Entities, "entity_list"), (Measure::Relations, "relation_list")] {
        let relations = measure == Measure::Relations;
        let gold = oneke_set(&oneke_answer(pair.gold, relations));
        let answer = oneke_answer(pair.found(), relations);
        let pred = oneke_set(&if garble { reread(answer, key) } else { answer });
        let sum = sets(&gold, &pred);
        let (precision, recall) = (sum.precision(), sum.recall());
        tally.means.entry(measure).or_default().take(precision, recall, harmonic(precision, recall));
        tally.sum(measure, &sum);
    }
}
