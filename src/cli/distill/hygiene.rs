//! Before it is weighed what the team said: texts that repeat earlier ones, and numbers and addresses
//! of people.

use crate::config::Plan;
use crate::filter::{Deduper, Likeness, masked, pii};
use crate::ie::Document;
use crate::store::StoreError;
use crate::trace::Trace;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Texts that are sketched side by side.
const BLOCK: usize = 4096;

/// What is left, and why the rest is not.
pub struct Cleaned {
    pub documents: Vec<Document>,
    pub traces: Vec<Trace>,
    /// Documents left out, by reason.
    pub dropped: BTreeMap<String, usize>,
    /// What was found of people, by kind, in documents that were not left out before.
    pub pii: BTreeMap<&'static str, usize>,
}

/// Leaves out what the plan says. Of equal texts the first that the team read as a whole stays.
///
/// # Errors
/// If the disk is full.
pub fn clean(plan: &Plan, documents: &[Document], traces: Vec<Trace>) -> Result<Cleaned, StoreError> {
    let filter = &plan.config().filter;
    let mut reasons: Vec<Option<&str>> = vec![None; documents.len()];
    if filter.dedup_threshold > 0.0 {
        let mut deduper = Deduper::new(filter.dedup_threshold, plan.output_dir())?;
        let whole: Vec<usize> = (0..documents.len()).filter(|at| traces[*at].is_whole()).collect();
        for block in whole.chunks(BLOCK) {
            let sketches: Vec<_> = block.par_iter().map(|at| deduper.sketch(&documents[*at].text)).collect();
            block.iter().zip(sketches).try_for_each(|(at, sketch)| deduper.add(*at as u32, sketch))?;
        }
        for copy in deduper.duplicates()? {
            reasons[copy.dropped as usize] = Some(match copy.likeness {
                Likeness::Exact => "exact copy of an earlier text",
                Likeness::Near(_) => "near copy of an earlier text",
            });
        }
    }
    let mut cleaned = Cleaned { documents: vec![], traces: vec![], dropped: BTreeMap::new(), pii: BTreeMap::new() };
    for ((document, mut trace), mut reason) in documents.iter().zip(traces).zip(reasons) {
        let mut document = document.clone();
        if reason.is_none() {
            let found = pii(&document.text);
            found.iter().for_each(|(_, kind)| *cleaned.pii.entry(kind.name()).or_default() += 1);
            match filter.pii.as_str() {
                "drop" if !found.is_empty() => reason = Some("numbers or addresses of people"),
                "mask" if !found.is_empty() => {
                    document.text = masked(&document.text, &found);
                    resliced(&mut trace, &document.text);
                    document.gold = None;
                }
                _ => {}
            }
        }
        match reason {
            Some(reason) => *cleaned.dropped.entry(reason.into()).or_default() += 1,
            None => {
                cleaned.documents.push(document);
                cleaned.traces.push(trace);
            }
        }
    }
    Ok(cleaned)
}

/// The items of an outcome as they are written in the masked text.
fn resliced(trace: &mut Trace, text: &str) {
    let points: Vec<char> = text.chars().collect();
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
pub fn told(plan: &Plan, found: &BTreeMap<&'static str, usize>, source: &str) -> String {
    let data = &plan.config().data;
    let mut text = String::new();
    let kinds: Vec<String> = found.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    if !kinds.is_empty() {
        let done = match plan.config().filter.pii.as_str() {
            "drop" => "left out with their documents",
            "mask" => "masked",
            _ => "kept",
        };
        let _ = writeln!(text, "Numbers and addresses of people, by their form: {}; {done}.\n", kinds.join(", "));
    }
    let _ = writeln!(text, "Provenance: documents of `{}`; {source}.\n", data.train.display());
    let license = data.license.as_deref().map_or_else(
        || "that of the documents, which data.license does not name".to_string(),
        |license| format!("{license} (the documents)"),
    );
    let _ = writeln!(text, "Licence: {license}, and the terms of the model that answered.");
    text
}
