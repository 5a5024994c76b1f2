//! The stages of a debate as systems: what would have been answered after each.

use crate::eval::System;
use crate::ie::{Document, Extraction, Status};
use crate::trace::Trace;
use std::collections::BTreeMap;

/// What every system found, document by document, in the order of the documents; a document that
/// was not read is an empty extraction.
pub fn readings(documents: &[Document], systems: &[System]) -> Vec<(String, Vec<Extraction>)> {
    let read = |system: &System| {
        let usable = system.predictions.iter().filter(|one| matches!(one.status, Status::Ok | Status::Empty));
        let by_id: BTreeMap<&str, &Extraction> = usable.map(|one| (one.id.as_str(), &one.extraction)).collect();
        let found = documents.iter().map(|one| by_id.get(one.id.as_str()).map(|found| (*found).clone()));
        (system.name.clone(), found.map(Option::unwrap_or_default).collect())
    };
    systems.iter().map(read).collect()
}

/// The readings after every stage and round of a debate that any document went through, in the
/// order of the protocol. A document that skipped a stage, for want of conflicts, keeps what it had
/// before; the outcome itself is the system, and not among them.
pub fn stages(name: &str, traces: &[Trace], documents: &[Document]) -> Vec<(String, Vec<Extraction>)> {
    let mut order: Vec<(&str, u32)> = Vec::new();
    for trace in traces {
        // A stage stands behind the last of its document's stages that is known already.
        let mut place = 0;
        for snapshot in &trace.snapshots {
            let stage = (snapshot.stage.as_str(), snapshot.round);
            match order.iter().position(|one| *one == stage) {
                Some(at) => place = at + 1,
                None => {
                    order.insert(place, stage);
                    place += 1;
                }
            }
        }
    }
    let by_id: BTreeMap<&str, &Trace> = traces.iter().map(|trace| (trace.id.as_str(), trace)).collect();
    let rounds = |stage: &str| order.iter().filter(|(one, _)| *one == stage).count();
    let mut standing = vec![Extraction::default(); documents.len()];
    let mut found = Vec::new();
    for &(stage, round) in &order {
        for (document, standing) in documents.iter().zip(&mut standing) {
            let Some(trace) = by_id.get(document.id.as_str()) else { continue };
            let snapshot = trace.snapshots.iter().find(|one| one.stage == stage && one.round == round);
            // A record that does not fit its text was no answer.
            if let Some(snapshot) = snapshot {
                *standing = snapshot.extraction.clone().read(&document.text).unwrap_or_default();
            }
        }
        let title = if rounds(stage) > 1 { format!("{name}: {stage} {round}") } else { format!("{name}: {stage}") };
        found.push((title, standing.clone()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ie::record::{EntityRecord, ExtractionRecord};
    use crate::trace::Snapshot;

    fn snapshot(stage: &str, round: u32, names: usize) -> Snapshot {
        let entity = EntityRecord {
            label: "PER".into(),
            text: "Ann".into(),
            start: Some(0),
            end: Some(3),
            confidence: None,
            confidence_source: None,
        };
        let extraction = ExtractionRecord { entities: vec![entity; names], ..ExtractionRecord::default() };
        Snapshot { stage: stage.into(), round, extraction, delta: None }
    }

    fn trace(id: &str, snapshots: Vec<Snapshot>) -> Trace {
        Trace { snapshots, ..Trace::opened(id, "crossagentie") }
    }

    #[test]
    fn stages_stand_in_order_and_a_document_that_skips_one_keeps_what_it_had() {
        let documents = ["a", "b", "c"].map(|id| Document::new(id, "Ann left"));
        let traces = [
            trace("a", vec![snapshot("first", 0, 1), snapshot("feedback", 0, 3)]),
            trace(
                "b",
                vec![
                    snapshot("first", 0, 1),
                    snapshot("debate", 1, 2),
                    snapshot("debate", 2, 0),
                    snapshot("feedback", 0, 1),
                ],
            ),
        ];
        let found = stages("team", &traces, &documents);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["team: first", "team: debate 1", "team: debate 2", "team: feedback"]);
        let counts = |at: usize| found[at].1.iter().map(|one| one.entities.len()).collect::<Vec<_>>();
        assert_eq!([counts(0), counts(1), counts(2), counts(3)], [[1, 1, 0], [1, 2, 0], [1, 0, 0], [3, 1, 0]]);
    }

    #[test]
    fn a_trace_without_snapshots_has_no_stages() {
        assert!(stages("team", &[trace("a", vec![])], &[Document::new("a", "Ann")]).is_empty());
    }
}
