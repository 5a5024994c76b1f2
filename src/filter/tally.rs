//! What the filter did, in numbers.

use super::item::{Cause, Kind, NO_LABEL, Weighed};
use super::settle::{Fate, Settled};
use crate::ie::Schema;
use std::collections::{BTreeMap, BTreeSet};

/// Kept and dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Kept documents.
    pub documents: usize,
    /// Conversations that they make.
    pub lines: usize,
    /// Kept documents of which the answer about entities says that there is nothing.
    pub empty_answers: usize,
    /// Relation questions with an empty answer that are left out, beyond their share.
    pub capped: usize,
    /// Documents left out, by reason.
    pub documents_dropped: BTreeMap<String, usize>,
    /// Items left out of documents that were looked at, by reason.
    pub items_dropped: BTreeMap<String, usize>,
    /// Items that are written and not learned.
    pub items_masked: usize,
    /// Kept items by label.
    pub per_type: BTreeMap<String, usize>,
    /// Kept documents by label.
    pub documents_per_type: BTreeMap<String, usize>,
    /// Kept items by kind, and the sum of their probabilities.
    pub expected: [(usize, f64); 3],
    /// Kept entities against the gold.
    pub audit: Option<Audit>,
}

/// The filter, checked on training documents that carry gold; the gold is never trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Audit {
    /// Kept documents with gold.
    pub documents: usize,
    /// Their kept entities.
    pub kept: usize,
    /// Those that are right.
    pub right: usize,
    /// Their gold entities.
    pub gold: usize,
    /// Entities of all documents with gold before the filter.
    pub said: usize,
    /// Those that are right.
    pub said_right: usize,
    /// Whether these documents are those that the calibration was fitted on.
    pub fitted: bool,
}

impl Audit {
    pub(super) fn add(&mut self, weighed: &Weighed, settled: &Settled, cause: Option<Cause>) {
        let Some(gold) = weighed.gold else { return };
        for (at, item) in weighed.of(Kind::Entity) {
            let right = usize::from(item.right == Some(true));
            self.said += 1;
            self.said_right += right;
            if cause.is_none() && settled.keeps(at) {
                self.kept += 1;
                self.right += right;
            }
        }
        if cause.is_none() {
            self.documents += 1;
            self.gold += gold as usize;
        }
    }
}

impl Tally {
    pub(super) fn add(&mut self, schema: &Schema, weighed: &Weighed, settled: &Settled, cause: Option<Cause>) {
        // Of documents that are no use as a whole, nobody looked at the items.
        if settled.document.is_ok() {
            for fate in &settled.fates {
                if let Fate::Dropped(reason) = fate {
                    *self.items_dropped.entry(reason.to_string()).or_default() += 1;
                }
            }
        }
        if let Some(cause) = cause {
            *self.documents_dropped.entry(cause.to_string()).or_default() += 1;
            return;
        }
        self.documents += 1;
        let mut types = BTreeSet::new();
        for (at, item) in weighed.items.iter().enumerate() {
            self.items_masked += usize::from(settled.fates[at] == Fate::Masked);
            if settled.keeps(at) {
                let (count, sum) = &mut self.expected[item.kind as usize];
                *count += 1;
                *sum += settled.values[at].unwrap_or(0.0);
                let label = label(schema, item.kind, item.label);
                *self.per_type.entry(label.clone()).or_default() += 1;
                types.insert(label);
            }
        }
        types.into_iter().for_each(|label| *self.documents_per_type.entry(label).or_default() += 1);
    }

    /// Refuses a corpus with too few documents of a type that it has.
    pub(super) fn check(&self, fewest: usize) -> Result<(), String> {
        let few: Vec<String> = (self.documents_per_type.iter())
            .filter(|(_, count)| **count < fewest)
            .map(|(label, count)| format!("{label} {count}"))
            .collect();
        if few.is_empty() {
            return Ok(());
        }
        Err(format!(
            "E306: filter.min_documents_per_type is {fewest}, and some types have fewer documents: {} — add documents, lower \
             the thresholds or the minimum, or take the types out of the schema",
            few.join(", ")
        ))
    }
}

/// The schema's label of an ordinal.
fn label(schema: &Schema, kind: Kind, at: u16) -> String {
    let at = usize::from(at);
    let known = match kind {
        Kind::Entity => schema.entities.get(at).map(|kind| &kind.label),
        Kind::Relation => schema.relations.get(at).map(|kind| &kind.label),
        Kind::Event => schema.events.get(at).map(|kind| &kind.label),
    };
    debug_assert!(known.is_some() || at == usize::from(NO_LABEL));
    known.cloned().unwrap_or_default()
}
