//! Whether two systems differ at all: approximate randomisation (Noreen 1989; Yeh 2000), and Holm's
//! correction where several questions are asked of one sample.
//!
//! If the systems are alike, it does not matter which of the two answers of a document came from
//! which; so the answers of every document are swapped by a coin, again and again, and p is the
//! share of shuffles that differ at least as much as the systems did. What is swapped is a
//! document's contribution to the difference, each system's measured against that system's own
//! total: swapping bare counts as well holds the test to systems of one precision and one recall,
//! and rejects up to 8 of 100 pairs whose F1 is the same by another balance of the two
//! (`tests/simulation.rs`, "balance").
//!
//! Documents of equal contribution are tossed together: their swapped number is binomial, which is
//! a count of bits in random words.

use super::counts::Counts;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Shuffles for every bootstrap replicate: a p below 0.05 must survive Holm over some dozens of
/// tests, so its own grain must be finer than an interval's.
pub const SHUFFLES_PER_REPLICATE: usize = 5;

/// Added to the seed, so that shuffles and bootstrap draws share no stream.
const APART: u64 = 0x9e37_79b9_7f4a_7c15;

/// The chance of a difference in F1 at least as large, either way, if the systems were alike:
/// `(1 + shuffles that reach it) / (1 + shuffles)`, never zero.
///
/// `None` where the lists differ in length or either system has nothing to count.
pub fn p_value(a: &[Counts], b: &[Counts], shuffles: usize, seed: u64) -> Option<f64> {
    if a.len() != b.len() {
        return None;
    }
    let mut alike: BTreeMap<[u64; 4], u64> = BTreeMap::new();
    let mut sums = [0.0; 4];
    for (a, b) in a.iter().zip(b) {
        let [(own, both), (other, other_both)] = [terms(a), terms(b)];
        let all = [own, both, other, other_both];
        sums.iter_mut().zip(all).for_each(|(sum, term)| *sum += term as f64);
        *alike.entry(all).or_default() += 1;
    }
    let [own, both, other, other_both] = sums;
    if both == 0.0 || other_both == 0.0 {
        return None;
    }
    // ── each document's part of the difference; the parts add up to it ──
    let pooled = (own + other) / (both + other_both);
    let part = |(all, documents): ([u64; 4], u64)| {
        let [own, whole, theirs, their_whole] = all.map(|term| term as f64);
        ((own - pooled * whole) / both - (theirs - pooled * their_whole) / other_both, documents)
    };
    let parts: Vec<(f64, u64)> = alike.into_iter().map(part).filter(|(part, _)| *part != 0.0).collect();
    let seen = own / both - other / other_both;
    // ── a swap turns a part's sign ──
    let reached = (0..shuffles as u64).into_par_iter().filter(|&shuffle| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(APART));
        rng.set_stream(shuffle);
        let turned: f64 = parts.iter().map(|&(part, documents)| part * heads(documents, &mut rng) as f64).sum();
        // What is equal but for rounding counts as reached.
        (seen - 2.0 * turned).abs() >= seen.abs() - 1e-12
    });
    Some((1 + reached.count()) as f64 / (1 + shuffles) as f64)
}

/// Twice the hits, and hits and faults together.
fn terms(counts: &Counts) -> (u64, u64) {
    let hits = counts.tp.saturating_mul(2);
    (hits, hits.saturating_add(counts.fp).saturating_add(counts.fn_))
}

/// How many of `coins` fall on one side.
fn heads(coins: u64, rng: &mut ChaCha8Rng) -> u64 {
    let whole: u64 = (0..coins / 64).map(|_| u64::from(rng.next_u64().count_ones())).sum();
    let rest = coins % 64;
    let last = if rest == 0 { 0 } else { (rng.next_u64() >> (64 - rest)).count_ones() };
    whole + u64::from(last)
}

/// Holm's step-down correction (1979): the p-values of several tests, each raised so that the
/// chance of one false alarm among all of them keeps to the level. In the order given.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]).then(a.cmp(&b)));
    let mut raised = vec![0.0; p.len()];
    let mut least = 0.0f64;
    for (rank, &at) in order.iter().enumerate() {
        least = least.max(p[at] * (p.len() - rank) as f64).min(1.0);
        raised[at] = least;
    }
    raised
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(tp: u64, fp: u64, fn_: u64) -> Counts {
        Counts { tp, fp, fn_ }
    }

    #[test]
    fn p_is_that_of_all_swaps_counted_out() {
        // Four documents, 16 ways to swap. Scores of a: 1 of 1 each; of b: 0 of 1 each. Only all
        // swapped and none swapped reach the difference of 1: p = 2/16.
        let (a, b) = (vec![counts(1, 0, 0); 4], vec![counts(0, 1, 1); 4]);
        let p = p_value(&a, &b, 40_000, 3).unwrap();
        // 40 000 shuffles: s.d. 0.00165; four of them.
        assert!((p - 0.125).abs() < 0.0066, "{p}");
    }

    #[test]
    fn systems_that_never_differ_have_p_one_and_a_clear_case_the_least_there_is() {
        let same = vec![counts(2, 1, 0); 50];
        assert_eq!(p_value(&same, &same, 999, 1), Some(1.0));
        let worse = vec![counts(0, 1, 2); 50];
        assert_eq!(p_value(&same, &worse, 999, 1), Some(0.001));
        assert_eq!(p_value(&worse, &same, 999, 1), Some(0.001));
    }

    #[test]
    fn nothing_to_count_or_lists_of_two_lengths_give_no_p() {
        assert_eq!(p_value(&[Counts::default(); 3], &[Counts::default(); 3], 99, 1), None);
        assert_eq!(p_value(&[counts(1, 0, 0)], &[], 99, 1), None);
    }

    #[test]
    fn threads_change_nothing() {
        let a: Vec<Counts> = (0..200).map(|at| counts(at % 3, at % 2, at % 5)).collect();
        let b: Vec<Counts> = (0..200).map(|at| counts(at % 4, at % 3, at % 2)).collect();
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| p_value(&a, &b, 500, 9))
        };
        assert_eq!(run(1), run(4));
    }

    #[test]
    fn coins_fall_evenly_in_words_of_any_length() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        assert_eq!(heads(0, &mut rng), 0);
        for coins in [1u64, 63, 64, 65, 200] {
            let total: u64 = (0..4000).map(|_| heads(coins, &mut rng)).sum();
            let (mean, sd) = (coins as f64 / 2.0, (coins as f64 / 4.0 / 4000.0).sqrt());
            assert!((total as f64 / 4000.0 - mean).abs() < 5.0 * sd, "{coins}");
        }
    }

    #[test]
    fn holm_gives_the_numbers_of_r() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") = 0.03 0.06 0.06 0.02.
        let raised = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in raised.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{raised:?}");
        }
        assert_eq!(holm(&[0.6, 0.9]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
