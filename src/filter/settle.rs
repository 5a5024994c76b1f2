//! One document's decision, once the gauges are known: what becomes of every item, and whether the
//! document can be taught. What the corpus as a whole asks for comes after it.

use super::gauge::Gauge;
use super::item::{Cause, Kind, NO_LABEL, Reason, Weighed};
use super::rules::{Rules, Unsure};
use super::subset;
use crate::ie::Schema;

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is taught.
    Kept,
    /// It is written and not learned.
    Masked,
    /// It is left out.
    Dropped(Reason),
}

/// What becomes of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// Of every item, in the order of [`Weighed::items`].
    pub fates: Vec<Fate>,
    /// Its probability, or its score where nothing was calibrated.
    pub values: Vec<Option<f64>>,
    /// The mean over the kept entities, 1 if there are none; or why the document is left out.
    pub document: Result<f64, Cause>,
}

impl Settled {
    /// Decides about a document by itself.
    pub fn of(weighed: &Weighed, gauges: &[Gauge; 3], rules: &Rules) -> Settled {
        let items = &weighed.items;
        let gauge = |at: usize| &gauges[items[at].kind as usize];
        let values: Vec<Option<f64>> =
            (0..items.len()).map(|at| Some(gauge(at).probability(items[at].score?))).collect();
        let mut fates: Vec<Fate> = Vec::with_capacity(items.len());
        let (mut entities, mut unsure, mut any) = (0, 0, false);
        for (at, item) in items.iter().enumerate() {
            let sure = item.score.is_some_and(|score| gauge(at).keeps(score));
            let is_entity = item.kind == Kind::Entity;
            entities += usize::from(is_entity);
            let orphan = item.kind == Kind::Relation
                && item.ends.iter().any(|&end| fates.get(end as usize).is_none_or(|fate| *fate != Fate::Kept));
            let open = item.ruled_out.or(orphan.then_some(Reason::Orphan));
            unsure += usize::from(is_entity && !sure && open.is_none());
            any |= !sure && open.is_none();
            fates.push(match open {
                Some(reason) => Fate::Dropped(reason),
                None if sure => Fate::Kept,
                None if rules.unsure == Unsure::Mask && item.kind != Kind::Event => Fate::Masked,
                None if item.score.is_none() => Fate::Dropped(Reason::Unknown),
                None => Fate::Dropped(
                    [Reason::EntityUnsure, Reason::RelationUnsure, Reason::EventUnsure][item.kind as usize],
                ),
            });
        }
        let too_unsure =
            entities > 0 && f64::from(unsure as u32) / f64::from(entities as u32) > rules.max_dropped_share;
        let cause = weighed.cause.or(if too_unsure {
            Some(Cause::TooUnsure)
        } else {
            (any && rules.unsure == Unsure::Document).then_some(Cause::Unsure)
        });
        let kept = weighed.of(Kind::Entity).filter(|(at, _)| fates[*at] == Fate::Kept);
        let kept: Vec<f64> = kept.filter_map(|(at, _)| values[at]).collect();
        let mean = if kept.is_empty() { 1.0 } else { kept.iter().sum::<f64>() / kept.len() as f64 };
        Settled { document: cause.map_or(Ok(mean), Err), fates, values }
    }

    /// Whether an item is taught.
    pub fn keeps(&self, at: usize) -> bool {
        self.fates[at] == Fate::Kept
    }

    /// Whether an item is written, learned or not.
    pub fn writes(&self, at: usize) -> bool {
        matches!(self.fates[at], Fate::Kept | Fate::Masked)
    }

    /// Whether nothing is taught of the document but that there is nothing.
    pub fn is_empty(&self) -> bool {
        !self.fates.contains(&Fate::Kept)
    }

    /// Whether the answer about entities says that there is nothing.
    pub(super) fn has_no_entity(&self, weighed: &Weighed, schema: &Schema, rules: &Rules) -> bool {
        let asked = subset::entities(weighed.lot, schema, rules);
        !weighed.of(Kind::Entity).any(|(at, item)| self.writes(at) && subset::is_asked(asked.as_deref(), item.label))
    }

    /// Whether there is a question about relations, and whether its answer says something: a question
    /// is asked where a signature fits two kept entities with different texts.
    pub(super) fn relations(&self, weighed: &Weighed, schema: &Schema, rules: &Rules) -> Option<bool> {
        let asked = subset::relations(weighed.lot, schema, rules);
        let kept: Vec<_> = weighed.of(Kind::Entity).filter(|(at, _)| self.keeps(*at)).map(|(_, item)| item).collect();
        let label = |at: u16| schema.entities.get(usize::from(at)).map_or("", |kind| kind.label.as_str());
        let kinds = schema.relations.iter().enumerate();
        let mut kinds = kinds.filter(|(at, _)| subset::is_asked(asked.as_deref(), *at as u16));
        let is_question = kinds.any(|(_, kind)| {
            kept.iter().any(|head| {
                kept.iter().any(|tail| head.ends != tail.ends && kind.allows(label(head.label), label(tail.label)))
            })
        });
        let says = |(at, label): (usize, u16)| {
            self.writes(at) && label != NO_LABEL && subset::is_asked(asked.as_deref(), label)
        };
        is_question.then(|| weighed.of(Kind::Relation).any(|(at, item)| says((at, item.label))))
    }
}
