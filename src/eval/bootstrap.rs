//! How far a score can be trusted: 95 % intervals by resampling documents.
//!
//! Documents are drawn with replacement, since items of one document are not independent (Efron
//! and Tibshirani 1993, ch. 13 and 16). Replicate `i` draws from its own ChaCha stream `i`, so the
//! interval depends on the seed alone, never on the number of threads; and because all systems see
//! the same draws, the interval of a difference is paired.
//!
//! The interval is Student's: the standard error is that of the replicates, the quantile that of t
//! with one degree less than documents, for an F1 on the logit scale so that it stays between 0 and
//! one. Percentiles of the replicates, the usual choice, cover too little where documents are few: at
//! twenty of them 89 to 93 of 100, and 81 to 91 for a paired difference (`tests/simulation.rs` holds
//! the worst case). BCa covers the difference no better, and a studentised bootstrap breaks down
//! where few documents differ.
//!
//! Where all documents say the same there is no spread to estimate, and the exact binomial bound
//! for an event that was never seen stands in: of 30 faultless documents, the next has a fault with
//! a chance of up to 11.6 %.

use super::counts::Counts;
use super::distribution::t975;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Replicates unless told otherwise: a standard error from 2000 of them is within 3 %.
pub const REPLICATES: usize = 2000;

/// Ends of a 95 % interval, as fractions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The truth lies below with a chance of 2.5 %.
    pub low: f64,
    /// The truth lies above with a chance of 2.5 %.
    pub high: f64,
}

/// How the resampling is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resampling {
    /// Draws of the whole set; time grows linearly. Default [`REPLICATES`].
    pub replicates: usize,
    /// Seed of all streams.
    pub seed: u64,
}

impl Default for Resampling {
    fn default() -> Resampling {
        Resampling { replicates: REPLICATES, seed: 0 }
    }
}

/// F1 of several sets of counts over the same documents, in every replicate.
pub struct Draws {
    /// Documents in a draw.
    documents: usize,
    /// By set: F1 on the documents as they are.
    points: Vec<Option<f64>>,
    /// By set: documents with anything to count.
    counted: Vec<usize>,
    /// By set, then by replicate; NaN where a draw has nothing to count.
    replicates: Vec<Vec<f64>>,
}

/// Of one document: twice the hits, and hits and faults together, so that F1 is a ratio of sums.
type Share = (u32, u32);

fn share(counts: &Counts) -> Share {
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let hits = counts.tp.saturating_mul(2);
    (narrow(hits), narrow(hits.saturating_add(counts.fp).saturating_add(counts.fn_)))
}

impl Draws {
    /// Resamples all sets by the same draws; sets must be of one length, a document's counts at
    /// the same place in each. Time and memory grow with sets times replicates, time with
    /// documents too.
    pub fn of(sets: &[&[Counts]], how: Resampling) -> Draws {
        let documents = sets.iter().map(|set| set.len()).min().unwrap_or(0);
        let shares: Vec<Vec<Share>> = sets.iter().map(|set| set.iter().map(share).collect()).collect();
        let rows: Vec<Vec<f64>> = (0..how.replicates as u64)
            .into_par_iter()
            .map_init(
                || vec![0u32; documents],
                |weights, replicate| {
                    let mut rng = ChaCha8Rng::seed_from_u64(how.seed);
                    rng.set_stream(replicate);
                    weights.fill(0);
                    (0..documents).for_each(|_| weights[rng.random_range(0..documents)] += 1);
                    shares.iter().map(|set| ratio(set, weights)).collect()
                },
            )
            .collect();
        Draws {
            documents,
            points: sets.iter().map(|set| total(set).f1()).collect(),
            counted: sets.iter().map(|set| set.iter().filter(|counts| !counts.is_empty()).count()).collect(),
            replicates: (0..sets.len()).map(|set| rows.iter().map(|row| row[set]).collect()).collect(),
        }
    }

    /// The interval of the F1 of one set.
    ///
    /// `None` with fewer than two documents (one document says nothing about the next), or where
    /// there is nothing to count.
    pub fn f1(&self, set: usize) -> Option<Interval> {
        let f1 = self.points[set].filter(|_| self.documents > 1)?;
        let error = self.error(self.counted[set], self.replicates[set].iter().copied());
        Some(around(f1, error, self.counted[set]))
    }

    /// The interval of `F1(a) - F1(b)`; `None` as for [`Draws::f1`].
    pub fn difference(&self, a: usize, b: usize) -> Option<Interval> {
        let difference = (self.points[a]? - self.points[b]?).clamp(-1.0, 1.0);
        if self.documents < 2 {
            return None;
        }
        let counted = self.counted[a].max(self.counted[b]);
        let pairs = self.replicates[a].iter().zip(&self.replicates[b]);
        let error = self.error(counted, pairs.map(|(a, b)| a - b));
        let reach = if error == 0.0 { unseen(counted) } else { t975(counted as f64 - 1.0) * error };
        Some(Interval { low: (difference - reach).max(-1.0), high: (difference + reach).min(1.0) })
    }

    /// Standard deviation over the replicates, freed of the bias of a draw from the sample; zero
    /// where it is only rounding.
    fn error(&self, counted: usize, values: impl Iterator<Item = f64> + Clone) -> f64 {
        let values = values.filter(|value| value.is_finite());
        let (count, sum) = values.clone().fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
        if count < 2.0 || counted < 2 {
            return 0.0;
        }
        let mean = sum / count;
        let squares: f64 = values.map(|value| (value - mean) * (value - mean)).sum();
        let error = (squares / (count - 1.0) * counted as f64 / (counted as f64 - 1.0)).sqrt();
        if error < 1e-12 { 0.0 } else { error }
    }
}

/// The interval of an F1 with this standard error, which rests on so many documents.
pub(super) fn around(f1: f64, error: f64, documents: usize) -> Interval {
    if error == 0.0 || f1 <= 0.0 || f1 >= 1.0 {
        let unseen = unseen(documents);
        return Interval { low: (f1 - unseen).max(0.0), high: (f1 + unseen).min(1.0) };
    }
    let logit = (f1 / (1.0 - f1)).ln();
    let reach = t975(documents as f64 - 1.0) * error / (f1 * (1.0 - f1));
    let back = |logit: f64| 1.0 / (1.0 + (-logit).exp());
    Interval { low: back(logit - reach), high: back(logit + reach) }
}

fn total(set: &[Counts]) -> Counts {
    let mut sum = Counts::default();
    set.iter().for_each(|one| sum += one);
    sum
}

/// F1 of a weighted set; NaN where nothing counts.
fn ratio(set: &[Share], weights: &[u32]) -> f64 {
    let (mut hits, mut all) = (0u64, 0u64);
    for (&(own, both), &weight) in set.iter().zip(weights) {
        hits += u64::from(own) * u64::from(weight);
        all += u64::from(both) * u64::from(weight);
    }
    if all == 0 { f64::NAN } else { hits as f64 / all as f64 }
}

/// The largest share of documents that is compatible, at 97.5 %, with none of `documents` having it
/// (Clopper and Pearson 1934).
pub(super) fn unseen(documents: usize) -> f64 {
    1.0 - 0.025f64.powf(1.0 / documents.max(1) as f64)
}

/// The interval of a micro F1, from its counts per document; `None` as for [`Draws::f1`].
pub fn f1_interval(documents: &[Counts], how: Resampling) -> Option<Interval> {
    Draws::of(&[documents], how).f1(0)
}

/// The interval of `F1(a) - F1(b)` of two systems on the same documents, given in the same order.
///
/// `None` as for [`Draws::f1`], and where the two lists differ in length.
pub fn difference_interval(a: &[Counts], b: &[Counts], how: Resampling) -> Option<Interval> {
    if a.len() != b.len() {
        return None;
    }
    Draws::of(&[a, b], how).difference(0, 1)
}

/// The quantile of sorted values, linear between neighbours (type 7, as NumPy and R by default).
pub(super) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * (sorted.len().checked_sub(1)?) as f64;
    let below = sorted[place.floor() as usize];
    let above = sorted[place.ceil() as usize];
    Some(below + (above - below) * (place - place.floor()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents of a population: each holds one to four items, each found with chance `skill`.
    fn sample(documents: usize, skill: f64, rng: &mut ChaCha8Rng) -> Vec<Counts> {
        let one = |_| {
            let gold: u64 = rng.random_range(1..5);
            let tp = (0..gold).filter(|_| rng.random_bool(skill)).count() as u64;
            Counts { tp, fp: gold - tp, fn_: gold - tp }
        };
        (0..documents).map(one).collect()
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        // numpy.quantile([1, 2, 3, 4], [0.025, 0.5, 0.975]) = [1.075, 2.5, 3.925].
        let sorted = [1.0, 2.0, 3.0, 4.0];
        for (share, expected) in [(0.025, 1.075), (0.5, 2.5), (0.975, 3.925)] {
            assert!((quantile(&sorted, share).unwrap() - expected).abs() < 1e-12);
        }
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn the_standard_error_is_that_of_the_linearised_ratio() {
        // Delta method by hand over ten documents: hits 2,4,4,2,6,0,2,4,2,4 of 4,4,6,4,6,2,2,6,4,4
        // give R = 30/42 and sum of (x - R y)^2 = 8.2041, so the error is sqrt(8.2041 * 10/9) / 42
        // = 0.07189; the bootstrap's own is within 10 % of it, the ratio being nearly linear.
        let hits = [2u64, 4, 4, 2, 6, 0, 2, 4, 2, 4];
        let all = [4u64, 4, 6, 4, 6, 2, 2, 6, 4, 4];
        let of = |(hits, all): (&u64, &u64)| Counts { tp: hits / 2, fp: all - hits, fn_: 0 };
        let counts: Vec<Counts> = hits.iter().zip(&all).map(of).collect();
        let ratio = 30.0 / 42.0;
        let residual = |(hits, all): (&u64, &u64)| (*hits as f64 - ratio * *all as f64).powi(2);
        let expected = (hits.iter().zip(&all).map(residual).sum::<f64>() * 10.0 / 9.0).sqrt() / 42.0;
        let draws = Draws::of(&[&counts], Resampling { replicates: 4000, seed: 2 });
        let error = draws.error(10, draws.replicates[0].iter().copied());
        assert!((error / expected - 1.0).abs() < 0.1, "{error} against {expected}");
    }

    #[test]
    fn equal_systems_differ_by_nothing_within_what_was_never_seen_and_unequal_ones_leave_zero() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let good = sample(80, 0.9, &mut rng);
        let poor = sample(80, 0.4, &mut rng);
        let how = Resampling { replicates: 300, seed: 1 };
        // 1 - 0.025^(1/80) = 0.04507, by hand.
        let same = difference_interval(&good, &good, how).unwrap();
        assert!((same.high - 0.04507).abs() < 1e-5 && same.low == -same.high, "{same:?}");
        assert!(difference_interval(&good, &poor, how).unwrap().low > 0.2);
        assert!(difference_interval(&poor, &good, how).unwrap().high < -0.2);
    }

    #[test]
    fn a_faultless_sample_is_no_proof_of_a_faultless_system() {
        // 0.025^(1/30) = 0.8843, by hand.
        let faultless = vec![Counts { tp: 2, fp: 0, fn_: 0 }; 30];
        let found = f1_interval(&faultless, Resampling { replicates: 100, seed: 0 }).unwrap();
        assert!((found.low - 0.8843).abs() < 1e-4 && found.high == 1.0, "{found:?}");
        let hopeless = vec![Counts { tp: 0, fp: 1, fn_: 2 }; 30];
        let found = f1_interval(&hopeless, Resampling { replicates: 100, seed: 0 }).unwrap();
        assert!(found.low == 0.0 && (found.high - 0.1157).abs() < 1e-4, "{found:?}");
    }

    #[test]
    fn every_interval_holds_its_score_and_stays_within_the_possible() {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        for (documents, skill) in [(2, 0.5), (5, 0.02), (9, 0.98), (40, 0.6)] {
            let counts = sample(documents, skill, &mut rng);
            let f1 = total(&counts).f1().unwrap();
            let found = f1_interval(&counts, Resampling { replicates: 200, seed: 1 }).unwrap();
            assert!(0.0 <= found.low && found.low <= f1 && f1 <= found.high && found.high <= 1.0, "{found:?} {f1}");
        }
    }

    #[test]
    fn the_number_of_threads_changes_nothing_and_the_seed_does() {
        let counts = sample(30, 0.6, &mut ChaCha8Rng::seed_from_u64(7));
        let run = |threads: usize, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| f1_interval(&counts, Resampling { replicates: 200, seed }))
        };
        assert_eq!(run(1, 3), run(4, 3));
        assert_ne!(run(1, 3), run(1, 4));
    }

    #[test]
    fn one_document_or_nothing_to_count_gives_no_interval() {
        let how = Resampling { replicates: 10, seed: 0 };
        assert_eq!(f1_interval(&[Counts { tp: 1, fp: 0, fn_: 0 }], how), None);
        assert_eq!(f1_interval(&[Counts::default(); 3], how), None);
    }
}
