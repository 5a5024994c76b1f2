//! Whether intervals cover what they say and tests err as often as they say, on populations whose
//! truth is known by construction.
//!
//! The short form draws 400 samples a population; `UNDERSTUDY_SIMULATIONS=10000` draws as many, and
//! then the promise is held to one point: intervals cover 95 ± 1 of 100, the test rejects 5 ± 1 of
//! 100 pairs that are alike (fewer where hardly any document differs, as an exact test must).
//! `cargo test --test simulation -- --nocapture` prints the table; `checkpoints/LOG.md` holds a
//! long one.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use understudy::eval::Counts;
use understudy::eval::bootstrap::{Draws, Resampling};
use understudy::eval::randomisation::p_value;

/// A pair of systems and the documents that they read.
#[derive(Clone, Copy)]
struct Population {
    name: &'static str,
    /// Gold items a document: 1 to `2 * items - 1`, each as likely.
    items: u64,
    /// Chance that an item is found, on average over documents, by either system.
    skill: [f64; 2],
    /// Wrong answers for every gold item.
    spurious: [f64; 2],
    /// By how much documents differ: the chance of a document lies within this of the average.
    spread: f64,
    /// Share of documents in which both give the same answer; the two must be alike otherwise.
    same: f64,
}

const POPULATIONS: [Population; 6] = [
    Population { name: "usual", items: 3, skill: [0.7, 0.7], spurious: [0.2, 0.2], spread: 0.3, same: 0.0 },
    // A student answers as its team in most documents.
    Population { name: "alike", items: 3, skill: [0.7, 0.7], spurious: [0.2, 0.2], spread: 0.3, same: 0.7 },
    Population { name: "good", items: 3, skill: [0.95, 0.95], spurious: [0.04, 0.04], spread: 0.05, same: 0.4 },
    Population { name: "poor", items: 2, skill: [0.2, 0.2], spurious: [0.5, 0.5], spread: 0.2, same: 0.2 },
    Population { name: "long", items: 15, skill: [0.6, 0.6], spurious: [0.3, 0.3], spread: 0.4, same: 0.0 },
    // One F1, 1.2 / 1.65 = 1.7 / 2.3375, by two balances of precision and recall.
    Population { name: "balance", items: 3, skill: [0.6, 0.85], spurious: [0.05, 0.4875], spread: 0.15, same: 0.0 },
];

/// Two systems that are not alike: F1 0.7368 and 0.6486.
const APART: Population =
    Population { name: "apart", items: 3, skill: [0.7, 0.6], spurious: [0.2, 0.25], spread: 0.3, same: 0.0 };

impl Population {
    /// Micro F1 of the population: hits, answers and gold items are proportional to items, and
    /// the spread is even about the average.
    fn truth(&self, system: usize) -> f64 {
        2.0 * self.skill[system] / (self.skill[system] + self.spurious[system] + 1.0)
    }

    fn draw(&self, documents: usize, rng: &mut ChaCha8Rng) -> [Vec<Counts>; 2] {
        let mut sample = [Vec::with_capacity(documents), Vec::with_capacity(documents)];
        for _ in 0..documents {
            let gold: u64 = rng.random_range(1..2 * self.items);
            let easy = rng.random_range(-self.spread..self.spread);
            let mut read = |system: usize| {
                let tp = (0..gold).filter(|_| rng.random_bool(self.skill[system] + easy)).count() as u64;
                let fp = (0..gold).filter(|_| rng.random_bool(self.spurious[system])).count() as u64;
                Counts { tp, fp, fn_: gold - tp }
            };
            let first = read(0);
            let second = read(1);
            sample[0].push(first);
            sample[1].push(if rng.random_bool(self.same) { first } else { second });
        }
        sample
    }
}

/// What was seen over many samples, in percent.
struct Seen {
    f1: f64,
    difference: f64,
    rejected: f64,
}

fn simulate(population: Population, documents: usize, samples: usize) -> Seen {
    let truth = [population.truth(0), population.truth(1)];
    let replicates = if samples > 1000 { 1000 } else { 300 };
    let one = |sample: usize| {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        rng.set_stream(sample as u64);
        let [a, b] = population.draw(documents, &mut rng);
        let how = Resampling { replicates, seed: sample as u64 };
        let draws = Draws::of(&[&a, &b], how);
        let holds = |found: Option<understudy::eval::Interval>, truth: f64| {
            usize::from(found.is_some_and(|found| found.low - 1e-12 <= truth && truth <= found.high + 1e-12))
        };
        let p = p_value(&a, &b, 999, sample as u64).unwrap_or(1.0);
        [holds(draws.f1(0), truth[0]), holds(draws.difference(0, 1), truth[0] - truth[1]), usize::from(p <= 0.05)]
    };
    let sum = |a: [usize; 3], b: [usize; 3]| [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
    let all = (0..samples).into_par_iter().map(one).reduce(|| [0; 3], sum);
    let [f1, difference, rejected] = all.map(|count| 100.0 * count as f64 / samples as f64);
    println!(
        "{:8} {documents:4} documents, {samples} samples: F1 covered {f1:5.2}, difference {difference:5.2}, rejected {rejected:5.2}",
        population.name
    );
    Seen { f1, difference, rejected }
}

/// Samples of a population, and the Monte Carlo error of a share in percent, three times.
fn effort(share: f64) -> (usize, f64) {
    let samples = std::env::var("UNDERSTUDY_SIMULATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(400usize);
    (samples, 300.0 * (share * (1.0 - share) / samples as f64).sqrt())
}

#[test]
fn intervals_cover_the_truth_95_times_in_100() {
    let (samples, noise) = effort(0.95);
    for population in POPULATIONS.into_iter().chain([APART]) {
        for documents in [50, 200] {
            let seen = simulate(population, documents, samples);
            for (what, covered) in [("F1", seen.f1), ("difference", seen.difference)] {
                let off = (covered - 95.0).abs();
                assert!(off <= 1.0 + noise, "{} {documents} {what}: {covered}", population.name);
            }
        }
    }
}

#[test]
fn from_twenty_documents_on_intervals_cover_hardly_too_little() {
    // Too wide is allowed here: where two systems differ in five documents of twenty, a difference
    // takes few values.
    let (samples, noise) = effort(0.95);
    for population in POPULATIONS.into_iter().chain([APART]) {
        let seen = simulate(population, 20, samples);
        for (what, covered) in [("F1", seen.f1), ("difference", seen.difference)] {
            assert!(covered >= 93.5 - noise, "{} {what}: {covered}", population.name);
        }
    }
}

#[test]
fn the_test_rejects_systems_of_one_f1_5_times_in_100() {
    let (samples, noise) = effort(0.05);
    for population in POPULATIONS {
        for documents in [20, 50, 200] {
            let seen = simulate(population, documents, samples);
            assert!(seen.rejected <= 6.0 + noise, "{} {documents}: {}", population.name, seen.rejected);
            // With 200 documents there are enough that differ for a p near 0.05.
            assert!(documents < 200 || seen.rejected >= 4.0 - noise, "{}: {}", population.name, seen.rejected);
        }
    }
}

#[test]
fn the_test_finds_systems_that_differ() {
    // Nine points of F1 over 200 documents of three items: the difference has a standard error of
    // about 2.1 points, so that four of them are seen nearly always.
    let (samples, noise) = effort(0.95);
    let seen = simulate(APART, 200, samples);
    assert!(seen.rejected >= 95.0 - noise, "{}", seen.rejected);
}

fn f1(set: &[Counts]) -> f64 {
    let mut sum = Counts::default();
    set.iter().for_each(|one| sum += one);
    sum.f1().unwrap_or(0.0)
}

/// Share of samples, in percent, in which `holds` is true of the two systems' counts.
fn share(
    population: Population,
    documents: usize,
    holds: impl Fn(&[Vec<Counts>; 2], &mut ChaCha8Rng) -> bool + Sync,
) -> f64 {
    let samples = effort(0.5).0.min(2000);
    let one = |sample: &usize| {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        rng.set_stream(*sample as u64);
        let sample = population.draw(documents, &mut rng);
        holds(&sample, &mut rng)
    };
    100.0 * (0..samples).into_par_iter().filter(one).count() as f64 / samples as f64
}

#[test]
fn percentiles_of_the_replicates_cover_too_little_where_documents_are_few() {
    // Why the intervals are not the usual ones: 20 documents, difference of two systems that agree
    // in most of them.
    let covered = share(POPULATIONS[1], 20, |[a, b], rng| {
        let mut found: Vec<f64> = (0..400)
            .map(|_| {
                let drawn: Vec<usize> = (0..20).map(|_| rng.random_range(0..20)).collect();
                let of = |set: &[Counts]| f1(&drawn.iter().map(|&at| set[at]).collect::<Vec<_>>());
                of(a) - of(b)
            })
            .collect();
        found.sort_by(f64::total_cmp);
        found[10] <= 0.0 && 0.0 <= found[389]
    });
    println!("percentiles, alike, 20 documents: difference covered {covered:.1}");
    assert!(covered < 93.0, "{covered}");
}

#[test]
fn swapping_bare_counts_rejects_too_often_where_precision_and_recall_are_balanced_otherwise() {
    // Why a shuffle swaps contributions: the usual form on "balance", whose F1 is the same.
    let rejected = share(POPULATIONS[5], 100, |[a, b], rng| {
        let seen = (f1(a) - f1(b)).abs();
        let reached = (0..199).filter(|_| {
            let (mut a, mut b) = (a.clone(), b.clone());
            for (a, b) in a.iter_mut().zip(&mut b) {
                if rng.random_bool(0.5) {
                    std::mem::swap(a, b);
                }
            }
            (f1(&a) - f1(&b)).abs() >= seen - 1e-12
        });
        reached.count() < 10
    });
    println!("bare counts, balance, 100 documents: rejected {rejected:.1}");
    assert!(rejected > 5.0, "{rejected}");
}

#[test]
fn a_hundred_thousand_documents_are_within_reach() {
    // Bounded work, not a time: the sums must neither overflow nor lose a document.
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let [a, b] = APART.draw(100_000, &mut rng);
    let draws = Draws::of(&[&a, &b], Resampling { replicates: 100, seed: 1 });
    let interval = draws.difference(0, 1).expect("two systems that were counted");
    let truth = APART.truth(0) - APART.truth(1);
    assert!((interval.low - truth).abs() < 0.006 && (interval.high - truth).abs() < 0.006, "{interval:?} {truth}");
    assert_eq!(p_value(&a, &b, 99, 1), Some(0.01));
}
