//! What kind of mistake each wrong answer is. For entities: wrong type, boundary (contains,
//! contained, overlaps), missing, spurious; these are the kinds of Table 8 of the paper that the
//! debates follow, with spurious mentions and the three shapes of a boundary set apart. Relations
//! can also be reversed or have the right pair under a wrong label, arguments a wrong role or event.
//!
//! Items are the scorer's own keys (`align.rs`), paired one to one: equal ones first, then the
//! nearest mistake before the farther (`pairing.rs`). What is left is missing on the gold side and
//! spurious on the other. So the kinds add up: an item that was paired wrongly is one false positive
//! and one miss of the scorer, a missing one a miss, a spurious one a false positive.

mod pairing;

pub(super) use pairing::{Aligned, align};

use super::align::{Keyed, Rules};
use super::counts::Counts;
use super::verdict::Measure;
use crate::ie::Extraction;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// How an answer that is not right misses what is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The gold's place under another type; of a relation, its label and pair with another type of
    /// an end.
    WrongType,
    /// A span that holds the gold one and more.
    Contains,
    /// A part of the gold span.
    Contained,
    /// A span that shares a part with the gold one.
    Overlaps,
    /// The gold's pair in its direction, or in the other, under another label.
    WrongLabel,
    /// The gold's label and pair, head and tail exchanged.
    Reversed,
    /// Of a relation: both ends touch the gold's ends, and one has other edges. Of an argument: the
    /// gold's event, and a span that touches the gold's.
    Boundary,
    /// The gold's event and argument in another role.
    WrongRole,
    /// The gold's argument, in an event of another type or with another trigger.
    WrongEvent,
    /// A gold item that no answer was paired with.
    Missing,
    /// An answer that no gold item was paired with.
    Spurious,
}

impl Kind {
    /// Every kind, in the order of tables.
    pub const ALL: [Kind; 11] = [
        Kind::WrongType,
        Kind::Contains,
        Kind::Contained,
        Kind::Overlaps,
        Kind::WrongLabel,
        Kind::Reversed,
        Kind::Boundary,
        Kind::WrongRole,
        Kind::WrongEvent,
        Kind::Missing,
        Kind::Spurious,
    ];

    /// The kinds that a measure knows, in the order of tables.
    pub fn of(measure: Measure) -> &'static [Kind] {
        match measure {
            Measure::Entities | Measure::Triggers => {
                &[Kind::WrongType, Kind::Contains, Kind::Contained, Kind::Overlaps, Kind::Missing, Kind::Spurious]
            }
            Measure::Relations => {
                &[Kind::WrongLabel, Kind::Reversed, Kind::WrongType, Kind::Boundary, Kind::Missing, Kind::Spurious]
            }
            Measure::Arguments => &[Kind::WrongRole, Kind::WrongEvent, Kind::Boundary, Kind::Missing, Kind::Spurious],
        }
    }

    /// As a column names it.
    pub fn words(&self) -> &'static str {
        match self {
            Kind::WrongType => "wrong type",
            Kind::Contains => "contains",
            Kind::Contained => "contained",
            Kind::Overlaps => "overlaps",
            Kind::WrongLabel => "wrong label",
            Kind::Reversed => "reversed",
            Kind::Boundary => "boundary",
            Kind::WrongRole => "wrong role",
            Kind::WrongEvent => "wrong event",
            Kind::Missing => "missing",
            Kind::Spurious => "spurious",
        }
    }
}

/// Items of one measure, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Right by the scorer's key.
    pub right: u64,
    /// Mistakes; a kind that did not occur is left out.
    pub kinds: BTreeMap<Kind, u64>,
    /// Of those whose edges are wrong: the type, label or role is wrong as well.
    pub edges_and_label: u64,
}

impl Tally {
    /// How many of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.kinds.get(&kind).copied().unwrap_or(0)
    }

    /// All mistakes.
    pub fn total(&self) -> u64 {
        self.kinds.values().sum()
    }

    /// The scorer's counts of the same items.
    pub fn counts(&self) -> Counts {
        let paired = self.total() - self.of(Kind::Missing) - self.of(Kind::Spurious);
        Counts { tp: self.right, fp: paired + self.of(Kind::Spurious), fn_: paired + self.of(Kind::Missing) }
    }
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        self.right += other.right;
        self.edges_and_label += other.edges_and_label;
        other.kinds.iter().for_each(|(kind, count)| *self.kinds.entry(*kind).or_default() += count);
    }
}

/// Entity answers of a system, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Span and type right.
    pub right: u64,
    /// The gold span under another type.
    pub wrong_type: u64,
    /// The three shapes of a boundary error together.
    pub boundary: u64,
    /// Of these: the answer holds the gold span and more.
    pub contains: u64,
    /// Of these: the answer is a part of the gold span.
    pub contained: u64,
    /// Of these: the two share a part.
    pub overlaps: u64,
    /// Of the boundary errors: those whose type is wrong as well.
    pub boundary_and_type: u64,
    /// Gold items that nothing touches.
    pub missing: u64,
    /// Answers that touch no gold item, those without a place in the text among them.
    pub spurious: u64,
}

impl Errors {
    /// All mistakes.
    pub fn total(&self) -> u64 {
        self.wrong_type + self.boundary + self.missing + self.spurious
    }
}

impl From<&Tally> for Errors {
    fn from(tally: &Tally) -> Errors {
        let [contains, contained, overlaps] =
            [Kind::Contains, Kind::Contained, Kind::Overlaps].map(|kind| tally.of(kind));
        Errors {
            right: tally.right,
            wrong_type: tally.of(Kind::WrongType),
            boundary: contains + contained + overlaps,
            contains,
            contained,
            overlaps,
            boundary_and_type: tally.edges_and_label,
            missing: tally.of(Kind::Missing),
            spurious: tally.of(Kind::Spurious),
        }
    }
}

impl AddAssign<&Errors> for Errors {
    fn add_assign(&mut self, other: &Errors) {
        self.right += other.right;
        self.wrong_type += other.wrong_type;
        self.boundary += other.boundary;
        self.contains += other.contains;
        self.contained += other.contained;
        self.overlaps += other.overlaps;
        self.boundary_and_type += other.boundary_and_type;
        self.missing += other.missing;
        self.spurious += other.spurious;
    }
}

/// What became of the entities of one document.
pub fn entities(text: &str, gold: &Extraction, answer: &Extraction) -> Errors {
    let rules = Rules::default();
    let [gold, answer] = [gold, answer].map(|one| Keyed::of(one, text, &rules));
    Errors::from(&align(Measure::Entities, &gold, &answer).tally)
}

#[cfg(test)]
mod tests;
