//! How far a score can be trusted: 95 % percentile intervals by resampling documents.
//!
//! Documents are drawn with replacement, since items of one document are not independent (Efron
//! and Tibshirani 1993, ch. 13 and 16). Replicate `i` draws from its own ChaCha stream `i`, so the
//! interval depends on the seed alone, never on the number of threads; and because two systems see
//! the same draws, the interval of their difference is paired.

use super::counts::Counts;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Replicates unless told otherwise: the 2.5 % tail then rests on 50 of them.
pub const REPLICATES: usize = 2000;

/// Ends of a 95 % interval, as fractions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// 2.5 % of the replicates lie below.
    pub low: f64,
    /// 2.5 % of the replicates lie above.
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

/// The interval of a micro F1, from its counts per document.
///
/// `None` with fewer than two documents (one document says nothing about the next), or where no
/// replicate has anything to count.
pub fn f1_interval(documents: &[Counts], how: Resampling) -> Option<Interval> {
    interval(documents.len(), how, |drawn| sum(documents, drawn).f1())
}

/// The interval of `F1(a) - F1(b)` of two systems on the same documents, given in the same order.
///
/// `None` as for [`f1_interval`], and where the two lists differ in length.
pub fn difference_interval(a: &[Counts], b: &[Counts], how: Resampling) -> Option<Interval> {
    if a.len() != b.len() {
        return None;
    }
    interval(a.len(), how, |drawn| Some(sum(a, drawn).f1()? - sum(b, drawn).f1()?))
}

fn sum(documents: &[Counts], drawn: &[usize]) -> Counts {
    let mut total = Counts::default();
    for &at in drawn {
        total += &documents[at];
    }
    total
}

fn interval(documents: usize, how: Resampling, statistic: impl Fn(&[usize]) -> Option<f64> + Sync) -> Option<Interval> {
    if documents < 2 {
        return None;
    }
    let replicates = (0..how.replicates as u64).into_par_iter().map(|replicate| {
        let mut rng = ChaCha8Rng::seed_from_u64(how.seed);
        rng.set_stream(replicate);
        let drawn: Vec<usize> = (0..documents).map(|_| rng.random_range(0..documents)).collect();
        statistic(&drawn)
    });
    let mut values: Vec<f64> = replicates.collect::<Vec<_>>().into_iter().flatten().collect();
    values.sort_by(f64::total_cmp);
    Some(Interval { low: quantile(&values, 0.025)?, high: quantile(&values, 0.975)? })
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
    fn the_interval_covers_the_true_f1_about_95_times_in_100() {
        // With tp = gold - fn and fp = fn, micro F1 is the share found, so the truth is `skill`.
        // Binomial(400, 0.95): mean 380, s.d. 4.4; four s.d. below is 362. The percentile
        // interval over 60 documents covers a little less than nominal, hence 355.
        let skill = 0.7;
        let how = Resampling { replicates: 300, seed: 11 };
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let covered = (0..400).filter(|_| {
            let found = f1_interval(&sample(60, skill, &mut rng), how).unwrap();
            found.low <= skill && skill <= found.high
        });
        let covered = covered.count();
        assert!((355..=396).contains(&covered), "{covered} of 400");
    }

    #[test]
    fn the_paired_interval_of_equal_systems_is_zero_and_of_unequal_ones_leaves_it() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let good = sample(80, 0.9, &mut rng);
        let poor = sample(80, 0.4, &mut rng);
        let how = Resampling { replicates: 300, seed: 1 };
        assert_eq!(difference_interval(&good, &good, how), Some(Interval { low: 0.0, high: 0.0 }));
        assert!(difference_interval(&good, &poor, how).unwrap().low > 0.2);
        assert!(difference_interval(&poor, &good, how).unwrap().high < -0.2);
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
