//! What the scorer counts, for one document or for many: counts add, scores are read off the sum.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// True positives, false positives and misses of one kind of item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CountsRecord", into = "CountsRecord")]
pub struct Counts {
    /// Predicted and in the gold.
    pub tp: u64,
    /// Predicted, not in the gold.
    pub fp: u64,
    /// In the gold, not predicted.
    pub fn_: u64,
}

/// Counts as written: the three fractions are derived, and null where nothing can be said.
#[derive(Serialize, Deserialize)]
struct CountsRecord {
    tp: u64,
    fp: u64,
    #[serde(rename = "fn")]
    fn_: u64,
    #[serde(default)]
    precision: Option<f64>,
    #[serde(default)]
    recall: Option<f64>,
    #[serde(default)]
    f1: Option<f64>,
}

impl From<CountsRecord> for Counts {
    fn from(record: CountsRecord) -> Counts {
        Counts { tp: record.tp, fp: record.fp, fn_: record.fn_ }
    }
}

impl From<Counts> for CountsRecord {
    fn from(counts: Counts) -> CountsRecord {
        CountsRecord {
            tp: counts.tp,
            fp: counts.fp,
            fn_: counts.fn_,
            precision: counts.precision(),
            recall: counts.recall(),
            f1: counts.f1(),
        }
    }
}

impl Counts {
    /// Whether there was neither gold nor prediction.
    pub fn is_empty(&self) -> bool {
        self.tp == 0 && self.fp == 0 && self.fn_ == 0
    }

    /// Share of the predictions that are right, in `0..=1`. With gold but no prediction it is 0;
    /// with neither, `None`.
    pub fn precision(&self) -> Option<f64> {
        self.share(self.tp.saturating_add(self.fp))
    }

    /// Share of the gold that was found, in `0..=1`. With predictions but no gold it is 0; with
    /// neither, `None`.
    pub fn recall(&self) -> Option<f64> {
        self.share(self.tp.saturating_add(self.fn_))
    }

    /// Harmonic mean of the two, `2 tp / (2 tp + fp + fn)`; `None` with neither gold nor prediction.
    pub fn f1(&self) -> Option<f64> {
        let all = 2.0 * self.tp as f64 + self.fp as f64 + self.fn_ as f64;
        (all > 0.0).then(|| 2.0 * self.tp as f64 / all)
    }

    fn share(&self, of: u64) -> Option<f64> {
        match (self.is_empty(), of) {
            (true, _) => None,
            (false, 0) => Some(0.0),
            (false, of) => Some(self.tp as f64 / of as f64),
        }
    }
}

impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, other: &Counts) {
        self.tp = self.tp.saturating_add(other.tp);
        self.fp = self.fp.saturating_add(other.fp);
        self.fn_ = self.fn_.saturating_add(other.fn_);
    }
}

/// The four usual readings of an event; the module page of the scorer names their keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventCounts {
    /// Trigger span.
    pub trigger_identification: Counts,
    /// Trigger span and event type.
    pub trigger_classification: Counts,
    /// Event type and argument span.
    pub argument_identification: Counts,
    /// Event type, trigger span, role and argument span.
    pub argument_classification: Counts,
}

impl EventCounts {
    /// Triggers and arguments, both classified, counted together: events in one number, as papers
    /// give it.
    pub fn together(&self) -> Counts {
        let mut sum = self.trigger_classification;
        sum += &self.argument_classification;
        sum
    }
}

/// Counts per label; events by trigger classification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PerType {
    /// By entity type.
    pub entities: BTreeMap<String, Counts>,
    /// By relation type, strict.
    pub relations: BTreeMap<String, Counts>,
    /// By event type, trigger classification.
    pub events: BTreeMap<String, Counts>,
}

/// Items given more than once in a document; each was counted as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicates {
    /// In the gold.
    pub gold: u64,
    /// In the predictions.
    pub pred: u64,
}

/// Everything that is counted, over one document or many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Gold documents.
    pub documents: u64,
    /// Of these: without a usable reading (failed, refused, or no prediction at all).
    pub failed: u64,
    /// Document, span and type.
    pub entities: Counts,
    /// Label, direction, and span and type of both arguments.
    pub relations: Counts,
    /// As `relations`, argument types ignored.
    pub relations_boundaries: Counts,
    /// The four readings of events.
    pub events: EventCounts,
    /// The same by label.
    pub per_type: PerType,
    /// What was given more than once.
    pub duplicates: Duplicates,
}

impl AddAssign<&Scores> for Scores {
    fn add_assign(&mut self, other: &Scores) {
        self.documents += other.documents;
        self.failed += other.failed;
        self.entities += &other.entities;
        self.relations += &other.relations;
        self.relations_boundaries += &other.relations_boundaries;
        self.events.trigger_identification += &other.events.trigger_identification;
        self.events.trigger_classification += &other.events.trigger_classification;
        self.events.argument_identification += &other.events.argument_identification;
        self.events.argument_classification += &other.events.argument_classification;
        let types = [
            (&mut self.per_type.entities, &other.per_type.entities),
            (&mut self.per_type.relations, &other.per_type.relations),
            (&mut self.per_type.events, &other.per_type.events),
        ];
        for (sum, part) in types {
            for (label, counts) in part {
                *sum.entry(label.clone()).or_default() += counts;
            }
        }
        self.duplicates.gold += other.duplicates.gold;
        self.duplicates.pred += other.duplicates.pred;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_on_both_sides_is_null_and_one_side_is_zero() {
        // case C41 (a), (b), (c).
        let none = serde_json::to_string(&Counts::default()).unwrap();
        assert_eq!(none, r#"{"tp":0,"fp":0,"fn":0,"precision":null,"recall":null,"f1":null}"#);
        for counts in [Counts { fp: 1, ..Counts::default() }, Counts { fn_: 1, ..Counts::default() }] {
            assert_eq!((counts.precision(), counts.recall(), counts.f1()), (Some(0.0), Some(0.0), Some(0.0)));
        }
    }

    #[test]
    fn counts_survive_the_round_trip_and_written_fractions_are_not_believed() {
        let read: Counts = serde_json::from_str(r#"{"tp":2,"fp":1,"fn":0,"f1":0.1}"#).unwrap();
        assert_eq!(read, Counts { tp: 2, fp: 1, fn_: 0 });
        // P = 2/3, R = 1, F1 = 4/5 by hand.
        assert_eq!((read.precision(), read.recall(), read.f1()), (Some(2.0 / 3.0), Some(1.0), Some(0.8)));
    }
}
