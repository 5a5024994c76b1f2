//! What a sample says of a system against the reference, over all types and type by type: the
//! difference with its interval, p, Holm's p, and whether the system stands in for the reference.

use super::bootstrap::{Interval, Resampling, around, unseen};
use super::compare::{Difference, Verdict};
use super::counts::{Counts, Scores};
use super::distribution::t975;
use super::randomisation::{SHUFFLES_PER_REPLICATE, holm, p_value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A loss of F1 that is still "as good", as a fraction, unless told otherwise: two points.
pub const DELTA: f64 = 0.02;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Span and type.
    Entities,
    /// Label, direction and both typed ends.
    Relations,
    /// Trigger span and event type.
    Triggers,
    /// Event type, trigger, role and span.
    Arguments,
}

impl Measure {
    /// Every measure.
    pub const ALL: [Measure; 4] = [Measure::Entities, Measure::Relations, Measure::Triggers, Measure::Arguments];

    /// One of them, as it stands before "F1".
    pub fn word(&self) -> &'static str {
        match self {
            Measure::Entities => "entity",
            Measure::Relations => "relation",
            Measure::Triggers => "trigger",
            Measure::Arguments => "argument",
        }
    }

    /// Its counts, all types together.
    pub fn counts(&self, scores: &Scores) -> Counts {
        match self {
            Measure::Entities => scores.entities,
            Measure::Relations => scores.relations,
            Measure::Triggers => scores.events.trigger_classification,
            Measure::Arguments => scores.events.argument_classification,
        }
    }

    /// Its counts by type; arguments have none.
    pub fn types<'a>(&self, scores: &'a Scores) -> Option<&'a BTreeMap<String, Counts>> {
        match self {
            Measure::Entities => Some(&scores.per_type.entities),
            Measure::Relations => Some(&scores.per_type.relations),
            Measure::Triggers => Some(&scores.per_type.events),
            Measure::Arguments => None,
        }
    }
}

/// Whether a system loses less than delta to the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonInferiority {
    /// The whole interval lies above minus delta.
    Shown,
    /// The whole interval lies below minus delta.
    Refuted,
    /// Minus delta lies inside: more documents are needed.
    Undecided,
}

impl NonInferiority {
    /// From the interval of the difference: its lower end is a one-sided bound at 97.5 %.
    pub fn of(interval: Interval, delta: f64) -> NonInferiority {
        match interval {
            Interval { low, .. } if low > -delta => NonInferiority::Shown,
            Interval { high, .. } if high < -delta => NonInferiority::Refuted,
            _ => NonInferiority::Undecided,
        }
    }
}

/// One question to the sample, and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tested {
    /// What is counted.
    pub measure: Measure,
    /// The one type that is counted; `None` for all together.
    #[serde(default)]
    pub label: Option<String>,
    /// Gold items.
    pub gold: u64,
    /// F1 of the system.
    pub f1: f64,
    /// F1 of the reference.
    pub reference_f1: f64,
    /// Their difference, paired.
    pub difference: Difference,
    /// Chance of such a difference between systems that are alike, by approximate randomisation.
    pub p: f64,
    /// As `p`, corrected for the other tests of its family: all systems and measures together, or
    /// all systems and types.
    pub p_holm: f64,
    /// Whether the system loses less than delta.
    pub non_inferiority: NonInferiority,
    /// Documents at which an interval of this spread would be as narrow as delta, either way;
    /// `None` where it is now, or no number would do.
    #[serde(default)]
    pub documents_needed: Option<u64>,
}

impl Tested {
    /// Whether the sample says neither that the system differs nor that it stands in.
    pub fn cannot_decide(&self) -> bool {
        self.difference.verdict == Verdict::CannotTell && self.non_inferiority == NonInferiority::Undecided
    }
}

/// A question before Holm.
pub(super) struct Question<'a> {
    pub measure: Measure,
    pub label: Option<&'a str>,
    pub own: Vec<Counts>,
    pub reference: Vec<Counts>,
    /// The difference's interval, where the bootstrap made one; else it is linearised here.
    pub interval: Option<Interval>,
}

impl Question<'_> {
    /// `None` where either F1 says nothing, or one document is all there is.
    pub fn answer(&self, how: Resampling, delta: f64) -> Option<Tested> {
        let [own, reference] = [&self.own, &self.reference].map(|set| sum(set));
        let (f1, reference_f1) = (own.f1()?, reference.f1()?);
        let interval = self.interval.or_else(|| linearised(&self.own, &self.reference))?;
        let p = p_value(&self.own, &self.reference, SHUFFLES_PER_REPLICATE * how.replicates, how.seed)?;
        Some(Tested {
            measure: self.measure,
            label: self.label.map(str::to_string),
            gold: own.tp + own.fn_,
            f1,
            reference_f1,
            difference: Difference { f1: f1 - reference_f1, interval, verdict: Verdict::of(interval) },
            p,
            p_holm: p,
            non_inferiority: NonInferiority::of(interval, delta),
            documents_needed: needed(self.own.len(), interval, delta),
        })
    }
}

/// Writes Holm's p into every test of one family.
pub(super) fn correct(family: Vec<&mut Tested>) {
    let raised = holm(&family.iter().map(|test| test.p).collect::<Vec<_>>());
    family.into_iter().zip(raised).for_each(|(test, raised)| test.p_holm = raised);
}

pub(super) fn sum(set: &[Counts]) -> Counts {
    let mut sum = Counts::default();
    set.iter().for_each(|one| sum += one);
    sum
}

/// The standard error of `F1(a) - F1(b)` by linearising both ratios, and the documents that it
/// rests on. Where the bootstrap's error is within its noise the same (`tests/simulation.rs`), this
/// takes one pass.
pub(super) fn linear_error(a: &[Counts], b: &[Counts]) -> Option<(f64, usize)> {
    let [own, other] = [a, b].map(sum);
    let (f1, other_f1) = (own.f1()?, other.f1()?);
    let whole = |counts: &Counts| 2.0 * counts.tp as f64 + counts.fp as f64 + counts.fn_ as f64;
    let part = |counts: &Counts, f1: f64, sum: &Counts| (2.0 * counts.tp as f64 - f1 * whole(counts)) / whole(sum);
    let counted = a.iter().zip(b).filter(|(a, b)| !a.is_empty() || !b.is_empty()).count();
    let parts = a.iter().zip(b).map(|(a, b)| part(a, f1, &own) - part(b, other_f1, &other));
    let squares: f64 = parts.map(|part| part * part).sum();
    (counted > 1).then(|| ((squares * counted as f64 / (counted as f64 - 1.0)).sqrt(), counted))
}

/// The standard error of one micro F1, by linearising the ratio; `None` as for its interval.
pub fn standard_error(set: &[Counts]) -> Option<f64> {
    let right: Vec<Counts> = set.iter().map(|one| Counts { tp: u64::from(!one.is_empty()), fp: 0, fn_: 0 }).collect();
    // Against a reference that is right throughout, the error of the difference is that of the F1.
    linear_error(set, &right).map(|(error, _)| error)
}

/// The interval of one F1, its error by linearising the ratio; `None` where fewer than two
/// documents have anything to count.
pub(super) fn linear_f1(set: &[Counts]) -> Option<Interval> {
    let f1 = sum(set).f1()?;
    let error = standard_error(set)?;
    let counted = set.iter().filter(|one| !one.is_empty()).count();
    Some(around(f1, if error < 1e-12 { 0.0 } else { error }, counted))
}

fn linearised(a: &[Counts], b: &[Counts]) -> Option<Interval> {
    let (error, counted) = linear_error(a, b)?;
    let difference = sum(a).f1()? - sum(b).f1()?;
    let reach = if error < 1e-12 { unseen(counted) } else { t975(counted as f64 - 1.0) * error };
    Some(Interval { low: (difference - reach).max(-1.0), high: (difference + reach).min(1.0) })
}

/// An interval narrows with the root of the documents.
fn needed(documents: usize, interval: Interval, delta: f64) -> Option<u64> {
    let reach = (interval.high - interval.low) / 2.0;
    let needed = (documents as f64 * (reach / delta).powi(2)).ceil();
    (reach > delta && needed.is_finite() && needed < 1e15).then_some(needed as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        Interval { low, high }
    }

    #[test]
    fn non_inferiority_is_read_off_the_lower_end() {
        for (low, high, expected) in [
            (-0.01, 0.05, NonInferiority::Shown),
            (-0.03, 0.05, NonInferiority::Undecided),
            (-0.09, -0.03, NonInferiority::Refuted),
            // Surely worse, and surely by less than delta.
            (-0.019, -0.001, NonInferiority::Shown),
        ] {
            assert_eq!(NonInferiority::of(interval(low, high), DELTA), expected, "{low} {high}");
        }
    }

    #[test]
    fn four_times_the_documents_halve_an_interval() {
        assert_eq!(needed(70, interval(-0.04, 0.04), 0.02), Some(280));
        assert_eq!(needed(70, interval(-0.01, 0.02), 0.02), None);
        assert_eq!(needed(70, interval(-0.04, 0.04), 0.0), None);
    }

    #[test]
    fn the_linearised_interval_of_an_f1_is_the_bootstraps() {
        // The bootstrap's own error is within 3 % at 4000 draws, and the ratio is nearly linear.
        let of = |at: u64| Counts { tp: 1 + at % 3, fp: u64::from(at.is_multiple_of(4)), fn_: at % 2 };
        let set: Vec<Counts> = (0..60).map(of).collect();
        let drawn = super::super::bootstrap::f1_interval(&set, Resampling { replicates: 4000, seed: 3 }).unwrap();
        let found = linear_f1(&set).unwrap();
        let [wide, narrow] = [drawn, found].map(|one| one.high - one.low);
        assert!((wide / narrow - 1.0).abs() < 0.1, "{drawn:?} {found:?}");
        assert!((drawn.low + drawn.high - found.low - found.high).abs() < 0.01);
        assert_eq!(linear_f1(&set[..1]), None);
    }

    #[test]
    fn the_linearised_error_is_that_of_a_mean_where_every_document_weighs_the_same() {
        // Every document holds one item. a finds 3 of 5, b 1 of 5, never both: the difference is
        // a mean of 1, 1, 1, -1, 0 (2 of 5 by hand), its variance 0.8 (sum of squares 4 - 5 * 0.16
        // = 3.2 over 4), its error sqrt(0.8 / 5) = 0.4.
        let of = |hit: bool| Counts { tp: u64::from(hit), fp: u64::from(!hit), fn_: u64::from(!hit) };
        let a: Vec<Counts> = [true, true, true, false, false].map(of).to_vec();
        let b: Vec<Counts> = [false, false, false, true, false].map(of).to_vec();
        let (error, counted) = linear_error(&a, &b).unwrap();
        assert!((error - 0.4).abs() < 1e-12 && counted == 5, "{error}");
    }
}
