//! Our own documents, read leniently: so that a file that somebody else wrote in this format can be
//! checked, and its offsets put right.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::format::{Format, Sample};
use super::input::each_record;
use crate::ie::Span;
use crate::ie::record::ExtractionRecord;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;

pub(super) const DOCUMENTS: Format =
    Format { name: "documents", about: "understudy's own: id, text, gold", fits, read };

#[derive(Deserialize)]
struct Row {
    id: Value,
    text: String,
    gold: Option<ExtractionRecord>,
    #[serde(default)]
    meta: Map<String, Value>,
}

fn fits(sample: &Sample) -> Option<String> {
    let gold = sample.field("gold")?;
    let known = ["entities", "relations", "events"];
    let ours = gold.as_object().is_some_and(|gold| gold.keys().all(|key| known.contains(&key.as_str())));
    (ours && sample.has(&["id", "text"])).then(|| "id, text and gold".into())
}

/// A place as a record gives it: moved, found or absent.
fn place(
    draft: &mut Draft,
    what: &str,
    surface: &str,
    start: Option<usize>,
    end: Option<usize>,
) -> (bool, Option<Span>) {
    match (start, end) {
        (Some(start), Some(end)) => {
            let surface = (!surface.is_empty()).then_some(surface);
            let span = draft.point_span(what, surface, start as i64, end as i64);
            (span.is_some(), span)
        }
        _ => (true, None),
    }
}

fn read(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: Row| {
        let mut draft = Draft::of_text(line, row.text);
        draft.id = Some(row.id.as_str().map_or_else(|| row.id.to_string(), str::to_string));
        draft.meta = row.meta;
        let Some(gold) = row.gold else { return sink(draft.without_gold()) };
        let mut places = Vec::new();
        for entity in &gold.entities {
            let (kept, span) = place(&mut draft, &entity.label, &entity.text, entity.start, entity.end);
            places.push(kept.then(|| draft.entity(&entity.label, span, &entity.text)));
        }
        for relation in &gold.relations {
            let end = |at: usize| (at, places.get(at).copied().flatten());
            draft.relation_between(&relation.label, end(relation.head), end(relation.tail));
        }
        for event in &gold.events {
            let trigger = &event.trigger;
            let (kept, span) = place(&mut draft, &event.label, &trigger.text, trigger.start, trigger.end);
            if !kept {
                continue;
            }
            let at = draft.event(&event.label, span, &trigger.text);
            for argument in &event.arguments {
                let (kept, span) = place(&mut draft, &argument.role, &argument.text, argument.start, argument.end);
                if kept {
                    draft.argument(at, &argument.role, span, &argument.text);
                }
            }
        }
        sink(draft)
    })
}
