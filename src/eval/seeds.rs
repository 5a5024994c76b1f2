//! Several trainings of one system: what is left of a score over seeds.
//!
//! Systems named `student@1`, `student@2`, … are one system, trained anew. Their mean F1 varies
//! for two reasons, the documents that were drawn and the seeds that were; its variance is the sum
//! of both (the documents' by linearising, all seeds on the same documents; the seeds' own divided
//! by their number), and t takes Satterthwaite's degrees of freedom. What seeds and documents do
//! together is in both terms, so the interval is rather too wide than too narrow.

use super::bootstrap::Interval;
use super::compare::{Difference, Verdict};
use super::counts::Counts;
use super::distribution::t975;
use super::score::Scored;
use super::verdict::{Measure, NonInferiority, sum};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One system over its seeds, by one measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seeds {
    /// What stands before the `@`.
    pub name: String,
    /// Systems in it, two at least.
    pub systems: Vec<String>,
    /// What is counted.
    pub measure: Measure,
    /// Mean F1.
    pub mean: f64,
    /// Standard deviation of F1 over the seeds, with one degree less than seeds.
    pub deviation: f64,
    /// The poorest seed.
    pub least: f64,
    /// The best seed: no number to report alone.
    pub most: f64,
    /// 95 % interval of the mean, over documents and seeds.
    pub interval: Option<Interval>,
    /// Mean F1 minus that of the reference; `None` where the reference is one of the seeds.
    pub difference: Option<Difference>,
    /// Whether the mean loses less than delta to the reference.
    pub non_inferiority: Option<NonInferiority>,
}

/// What stands before the last `@` of a name with something on both sides.
pub fn stem(name: &str) -> Option<&str> {
    let (stem, seed) = name.rsplit_once('@')?;
    (!stem.is_empty() && !seed.is_empty()).then_some(stem)
}

/// Every system that was trained more than once, by every measure that has anything to count.
pub(super) fn groups(names: &[&str], scored: &[Scored], base: usize, delta: f64) -> Vec<Seeds> {
    let mut by_stem: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, name) in names.iter().enumerate() {
        if let Some(stem) = stem(name) {
            by_stem.entry(stem).or_default().push(at);
        }
    }
    by_stem.retain(|_, seeds| seeds.len() > 1);
    let each = by_stem.into_iter().flat_map(|(name, seeds)| {
        Measure::ALL.into_iter().filter_map(move |measure| {
            let counts = |at: usize| scored[at].documents.iter().map(|one| measure.counts(one)).collect::<Vec<_>>();
            let own: Vec<Vec<Counts>> = seeds.iter().map(|&at| counts(at)).collect();
            let reference = (!seeds.contains(&base)).then(|| counts(base));
            let systems = seeds.iter().map(|&at| names[at].to_string()).collect();
            group(name, systems, measure, &own, reference.as_deref(), delta)
        })
    });
    each.collect()
}

fn group(
    name: &str,
    systems: Vec<String>,
    measure: Measure,
    own: &[Vec<Counts>],
    reference: Option<&[Counts]>,
    delta: f64,
) -> Option<Seeds> {
    let scores = own.iter().map(|counts| sum(counts).f1()).collect::<Option<Vec<f64>>>()?;
    let seeds = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / seeds;
    let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / (seeds - 1.0);
    let spread = |reference: Option<&[Counts]>| {
        let (documents, counted) = documents_variance(own, reference)?;
        let (documents_freedom, of_seeds) = (counted as f64 - 1.0, variance / seeds);
        let both = documents + of_seeds;
        let freedom = both * both / (documents * documents / documents_freedom + of_seeds * of_seeds / (seeds - 1.0));
        (both > 0.0).then(|| t975(freedom) * both.sqrt())
    };
    let within = |middle: f64, reach: f64, least: f64| Interval {
        low: (middle - reach).max(least),
        high: (middle + reach).min(1.0),
    };
    let difference = reference.and_then(|reference| {
        let f1 = mean - sum(reference).f1()?;
        let interval = within(f1, spread(Some(reference))?, -1.0);
        Some(Difference { f1, interval, verdict: Verdict::of(interval) })
    });
    Some(Seeds {
        name: name.to_string(),
        systems,
        measure,
        mean,
        deviation: variance.sqrt(),
        least: scores.iter().copied().fold(f64::INFINITY, f64::min),
        most: scores.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        interval: spread(None).map(|reach| within(mean, reach, 0.0)),
        non_inferiority: difference.map(|found| NonInferiority::of(found.interval, delta)),
        difference,
    })
}

/// Variance, over documents, of the mean F1 of the seeds less that of the reference, and the
/// documents that it rests on.
fn documents_variance(own: &[Vec<Counts>], reference: Option<&[Counts]>) -> Option<(f64, usize)> {
    let parts = |counts: &[Counts], weight: f64, into: &mut [f64]| -> Option<()> {
        let total = sum(counts);
        let f1 = total.f1()?;
        let whole = |one: &Counts| 2.0 * one.tp as f64 + one.fp as f64 + one.fn_ as f64;
        for (part, one) in into.iter_mut().zip(counts) {
            *part += weight * (2.0 * one.tp as f64 - f1 * whole(one)) / whole(&total);
        }
        Some(())
    };
    let documents = own.first()?.len();
    let mut sums = vec![0.0; documents];
    for counts in own {
        parts(counts, 1.0 / own.len() as f64, &mut sums)?;
    }
    if let Some(reference) = reference {
        parts(reference, -1.0, &mut sums)?;
    }
    let all = || own.iter().map(Vec::as_slice).chain(reference);
    let counted = (0..documents).filter(|&at| all().any(|counts| !counts[at].is_empty())).count();
    let squares: f64 = sums.iter().map(|part| part * part).sum();
    (counted > 1).then(|| (squares * counted as f64 / (counted as f64 - 1.0), counted))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One item a document, found in the first `right` of ten.
    fn found(right: usize) -> Vec<Counts> {
        let of = |at: usize| {
            let hit = u64::from(at < right);
            Counts { tp: hit, fp: 1 - hit, fn_: 1 - hit }
        };
        (0..10).map(of).collect()
    }

    #[test]
    fn a_name_with_a_seed_has_a_stem() {
        assert_eq!(stem("student@13"), Some("student"));
        assert_eq!(stem("a@b@2"), Some("a@b"));
        assert_eq!([stem("student"), stem("@1"), stem("student@")], [None, None, None]);
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_seeds_and_the_interval_holds_both_variances() {
        // F1 0.6, 0.7 and 0.8: mean 0.7, deviation 0.1, variance of the mean over seeds 0.01/3.
        // Documents: the mean answer is 1 for six of them, 2/3, 1/3 and twice 0; parts are those less
        // 0.7, over ten: squares sum to 0.54 + 0.0011 + 0.1344 + 0.98 = 1.6556 of hundredths, times
        // 10/9. Freedom by Satterthwaite.
        let own = [found(6), found(7), found(8)];
        let group = group("student", vec![], Measure::Entities, &own, Some(&found(5)), 0.02).unwrap();
        assert!((group.mean - 0.7).abs() < 1e-12 && (group.deviation - 0.1).abs() < 1e-12);
        assert!((group.least - 0.6).abs() < 1e-12 && (group.most - 0.8).abs() < 1e-12);
        let answers = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0f64];
        let documents = answers.iter().map(|one| (one - 0.7f64).powi(2)).sum::<f64>() / 100.0 * 10.0 / 9.0;
        let seeds = 0.01 / 3.0;
        let freedom = (documents + seeds).powi(2) / (documents.powi(2) / 9.0 + seeds.powi(2) / 2.0);
        let reach = t975(freedom) * (documents + seeds).sqrt();
        let interval = group.interval.unwrap();
        assert!((interval.low - (0.7 - reach)).abs() < 1e-9, "{interval:?} {reach}");
        assert!((group.difference.unwrap().f1 - 0.2).abs() < 1e-12);
    }

    #[test]
    fn seeds_that_agree_on_everything_have_no_interval_to_give() {
        let own = [found(10), found(10)];
        let group = group("student", vec![], Measure::Entities, &own, None, 0.02).unwrap();
        assert_eq!((group.deviation, group.interval, group.difference), (0.0, None, None));
    }

    #[test]
    fn the_interval_of_a_mean_covers_the_mean_of_all_seeds_and_documents() {
        // Seeds find an item with a chance of 0.7, give or take 0.04 evenly; faults equal misses, so
        // that F1 is the share found and the truth 0.7. 95 of 100 is the promise; what seeds and
        // documents do together is counted twice, so that rather more are covered. 400 samples:
        // four standard deviations of 95 % are 4.4 points.
        use rand::{RngExt, SeedableRng};
        let mut covered = 0;
        for sample in 0..400u64 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(sample);
            let items: Vec<u64> = (0..60).map(|_| rng.random_range(1..6)).collect();
            let mut seed = || {
                let skill = rng.random_range(0.66..0.74);
                let read = |&items: &u64| {
                    let tp = (0..items).filter(|_| rng.random_bool(skill)).count() as u64;
                    Counts { tp, fp: items - tp, fn_: items - tp }
                };
                items.iter().map(read).collect::<Vec<Counts>>()
            };
            let own = [seed(), seed(), seed()];
            let found = group("student", vec![], Measure::Entities, &own, None, 0.02).unwrap().interval.unwrap();
            covered += u64::from(found.low <= 0.7 && 0.7 <= found.high);
        }
        assert!((363..=400).contains(&covered), "{covered} of 400");
    }
}
