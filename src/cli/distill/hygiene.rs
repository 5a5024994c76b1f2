//! Beside what the team said: texts that repeat earlier ones, numbers and addresses of people, and whose
//! rights these are.

use crate::config::Plan;
use crate::filter::{Cause, Deduper, Likeness, PiiKind, Sift, Sketch, Sketcher, masked, pii};
use crate::ie::Document;
use crate::store::StoreError;
use crate::trace::Trace;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What is told of people, by kind.
pub type People = BTreeMap<PiiKind, usize>;

/// What hygiene sees of one document; made side by side.
pub struct Seen {
    sketch: Option<Sketch>,
    people: Vec<PiiKind>,
}

/// Copies and people, over all documents.
pub struct Hygiene {
    deduper: Option<Deduper>,
    drops_people: bool,
    with_people: Vec<usize>,
    people: People,
}

impl Hygiene {
    /// As the plan says.
    ///
    /// # Errors
    /// If temporary files cannot be made.
    pub fn of(plan: &Plan) -> Result<Hygiene, StoreError> {
        let filter = &plan.config().filter;
        let deduper =
            (filter.dedup_threshold > 0.0).then(|| Deduper::new(filter.dedup_threshold, &std::env::temp_dir()));
        let drops_people = filter.pii == "drop";
        Ok(Hygiene { deduper: deduper.transpose()?, drops_people, with_people: vec![], people: People::new() })
    }

    /// What looks at documents side by side, while this notes what was seen.
    pub fn eye(&self) -> Eye {
        Eye(self.deduper.as_ref().map(Deduper::sketcher))
    }

    /// Notes what was seen of the next document.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn note(&mut self, document: usize, seen: Seen) -> Result<(), StoreError> {
        if !seen.people.is_empty() {
            self.with_people.push(document);
        }
        seen.people.into_iter().for_each(|kind| *self.people.entry(kind).or_default() += 1);
        match (&mut self.deduper, seen.sketch) {
            (Some(deduper), Some(sketch)) => deduper.add(document as u32, sketch),
            _ => Ok(()),
        }
    }

    /// Rules out copies and, where asked, documents with people; gives what is to be told of people.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn rule_out(self, sift: &mut Sift<'_>) -> Result<People, StoreError> {
        for copy in self.deduper.map_or(Ok(vec![]), Deduper::duplicates)? {
            let cause = if copy.likeness == Likeness::Exact { Cause::Copy } else { Cause::NearCopy };
            sift.rule_out(copy.dropped as usize, cause);
        }
        if self.drops_people {
            self.with_people.into_iter().for_each(|document| sift.rule_out(document, Cause::People));
        }
        Ok(self.people)
    }
}

/// Looks at documents.
pub struct Eye(Option<Sketcher>);

impl Eye {
    /// Looks at a document. Only one that the team read as a whole may stand for its copies.
    pub fn look(&self, document: &Document, trace: &Trace) -> Seen {
        let sketch = self.0.as_ref().filter(|_| trace.is_whole()).map(|sketcher| sketcher.sketch(&document.text));
        Seen { sketch, people: pii(&document.text).into_iter().map(|(_, kind)| kind).collect() }
    }
}

/// Whether numbers and addresses of people are masked.
pub fn masks(plan: &Plan) -> bool {
    plan.config().filter.pii == "mask"
}

/// Masks what is found of people in a document, and in what the team found in it.
pub fn mask(document: &mut Document, trace: &mut Trace) {
    let found = pii(&document.text);
    if found.is_empty() {
        return;
    }
    document.text = masked(&document.text, &found);
    // The gold's names are those of the text as it was.
    document.gold = None;
    let points: Vec<char> = document.text.chars().collect();
    let slice = |of: &mut String, start: Option<usize>, end: Option<usize>| {
        if let Some(part) = start.zip(end).and_then(|(start, end)| points.get(start..end)) {
            *of = part.iter().collect();
        }
    };
    for entity in &mut trace.extraction.entities {
        slice(&mut entity.text, entity.start, entity.end);
    }
    for event in &mut trace.extraction.events {
        slice(&mut event.trigger.text, event.trigger.start, event.trigger.end);
        for argument in &mut event.arguments {
            slice(&mut argument.text, argument.start, argument.end);
        }
    }
}

/// What the README of a corpus says of people and of rights.
pub fn told(plan: &Plan, people: &People, source: &str) -> String {
    let data = &plan.config().data;
    let mut text = String::new();
    let kinds: Vec<String> = people.iter().map(|(kind, count)| format!("{} {count}", kind.name())).collect();
    if !kinds.is_empty() {
        let done = match plan.config().filter.pii.as_str() {
            "drop" => "left out with their documents",
            "mask" => "masked",
            _ => "kept",
        };
        let _ = writeln!(
            text,
            "Numbers and addresses of people in the documents, by their form: {}; {done}.\n",
            kinds.join(", ")
        );
    }
    let _ = writeln!(text, "Provenance: documents of `{}`; {source}.\n", data.train.display());
    let license = data.license.as_deref().map_or_else(
        || "that of the documents, which data.license does not name".to_string(),
        |license| format!("{license} (the documents)"),
    );
    let _ = writeln!(text, "Licence: {license}, and the terms of the model that answered.");
    text
}
