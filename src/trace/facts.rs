//! Items of an extraction as written, by what makes two of them one: type and place. The scorer
//! of `eval` compares the same way, and says what kind of mistake each is; here a trace is looked at
//! without the text of its document.

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
