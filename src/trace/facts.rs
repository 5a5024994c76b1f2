//! Items of an extraction as written, by what makes two of them one: type and place. The scorer
//! of `eval` compares the same way; here a trace is looked at without the text of its document.

use crate::ie::record::ExtractionRecord;
use std::collections::BTreeMap;

/// One item of an extraction, as a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// `person "Ann"`, `works_for "Ann" → "Acme"`, `Dismiss "left" (Person "Ann")`.
    pub line: String,
    /// What it is about, its type left out: two facts that differ in type alone are equal in this.
    pub place: String,
    /// First and last place in the text, in code points, where it is an entity that has one.
    pub span: Option<(usize, usize)>,
}

/// The facts of an extraction by identity, in text order where they have a place.
pub fn facts(extraction: &ExtractionRecord) -> BTreeMap<String, Fact> {
    let mut all = BTreeMap::new();
    let at = |start: Option<usize>, end: Option<usize>, text: &str| match (start, end) {
        (Some(start), Some(end)) => format!("{start:09}-{end:09}"),
        _ => format!("nowhere {text}"),
    };
    for entity in &extraction.entities {
        let place = format!("0 {}", at(entity.start, entity.end, &entity.text));
        let line = format!("{} \"{}\"", entity.label, entity.text);
        let span = entity.start.zip(entity.end);
        all.insert(format!("{place} {}", entity.label), Fact { line, place, span });
    }
    for relation in &extraction.relations {
        let end = |ordinal: usize| extraction.entities.get(ordinal);
        let (Some(head), Some(tail)) = (end(relation.head), end(relation.tail)) else { continue };
        let place = format!("1 {} {}", at(head.start, head.end, &head.text), at(tail.start, tail.end, &tail.text));
        let line = format!("{} \"{}\" → \"{}\"", relation.label, head.text, tail.text);
        let key = format!("{place} {} {} {}", relation.label, head.label, tail.label);
        all.insert(key, Fact { line, place, span: None });
    }
    for event in &extraction.events {
        let trigger = &event.trigger;
        let place = format!("2 {}", at(trigger.start, trigger.end, &trigger.text));
        let arguments: Vec<String> =
            event.arguments.iter().map(|argument| format!("{} \"{}\"", argument.role, argument.text)).collect();
        let line = format!("{} \"{}\" ({})", event.label, trigger.text, arguments.join(", "));
        all.insert(format!("{place} {} {}", event.label, arguments.join(",")), Fact { line, place, span: None });
    }
    all
}

/// The four ways in which entities miss the gold, and how many were right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Kinds {
    /// Span and type are the gold's.
    pub right: u64,
    /// The gold's span under another type.
    pub wrong_type: u64,
    /// Overlaps a gold span that it is not.
    pub boundary: u64,
    /// Overlaps nothing.
    pub spurious: u64,
    /// Gold that nothing touches.
    pub missing: u64,
}

impl Kinds {
    /// Compares the entities of an extraction with the gold's.
    pub fn of(found: &ExtractionRecord, gold: &ExtractionRecord) -> Kinds {
        let entities = |of: &ExtractionRecord| -> Vec<(usize, usize, String)> {
            let placed = of.entities.iter();
            let mut all: Vec<_> =
                placed.filter_map(|entity| Some((entity.start?, entity.end?, entity.label.clone()))).collect();
            all.sort();
            all.dedup();
            all
        };
        let (found, gold) = (entities(found), entities(gold));
        let overlaps = |a: &(usize, usize, String), b: &(usize, usize, String)| a.0 < b.1 && b.0 < a.1;
        let mut kinds = Kinds::default();
        for item in &found {
            if gold.binary_search(item).is_ok() {
                kinds.right += 1;
            } else if gold.iter().any(|other| (other.0, other.1) == (item.0, item.1)) {
                kinds.wrong_type += 1;
            } else if gold.iter().any(|other| overlaps(item, other)) {
                kinds.boundary += 1;
            } else {
                kinds.spurious += 1;
            }
        }
        kinds.missing = gold.iter().filter(|item| !found.iter().any(|other| overlaps(item, other))).count() as u64;
        kinds
    }

    /// Adds another document's.
    pub fn add(&mut self, other: Kinds) {
        self.right += other.right;
        self.wrong_type += other.wrong_type;
        self.boundary += other.boundary;
        self.spurious += other.spurious;
        self.missing += other.missing;
    }
}
