//! nervaluate's four schemes: each prediction, in file order, takes the first gold mention that
//! is still free and fits; so the order of a file can change the figures.
//!
//! Offsets are code points with the last one inside, as nervaluate wants them. A mention without
//! a place is spurious or missed.

use super::count::Sum;
use super::{Convention, Measure, Pair, Tally};
use crate::ie::Extraction;

/// A mention: label and the code points of its first and last character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mention<'a> {
    /// Type.
    pub label: &'a str,
    /// First and last code point; `None` where it was not found.
    pub place: Option<(usize, usize)>,
}

/// Outcomes of one scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Right.
    pub correct: u64,
    /// Overlaps a gold mention that it was then paired with, and is wrong.
    pub incorrect: u64,
    /// Half right (`nervaluate-partial`).
    pub partial: u64,
    /// Gold mentions that nothing was paired with.
    pub missed: u64,
    /// Predictions that were paired with nothing.
    pub spurious: u64,
}

/// Whether the two share at least one hundredth of the gold mention.
fn overlap(pred: (usize, usize), gold: (usize, usize)) -> bool {
    if pred.0 > gold.1 || pred.1 < gold.0 {
        return false;
    }
    let shared = pred.1.min(gold.1) - pred.0.max(gold.0) + 1;
    (shared as f64 / (gold.1 - gold.0 + 1) as f64) * 100.0 >= 1.0
}

/// What a prediction was paired with.
enum Pairing {
    Correct(usize),
    Second(usize),
    Nothing,
}

fn pair(scheme: Convention, mention: &Mention<'_>, gold: &[Mention<'_>], taken: &[bool]) -> Pairing {
    let Some(here) = mention.place else { return Pairing::Nothing };
    let mut second = None;
    let mut nearest: Option<(usize, usize)> = None;
    for (at, other) in gold.iter().enumerate().filter(|(at, _)| !taken[*at]) {
        let Some(there) = other.place else { continue };
        let same_label = other.label == mention.label;
        let overlaps = overlap(here, there);
        match scheme {
            Convention::NervaluateType => {
                let distance = here.0.abs_diff(there.0) + here.1.abs_diff(there.1);
                if overlaps && same_label && nearest.is_none_or(|(least, _)| distance < least) {
                    nearest = Some((distance, at));
                }
                if overlaps && !same_label {
                    second = second.or(Some(at));
                }
            }
            _ => {
                if here == there && (same_label || scheme != Convention::NervaluateStrict) {
                    return Pairing::Correct(at);
                }
                if overlaps {
                    second = second.or(Some(at));
                }
            }
        }
    }
    match (nearest, second) {
        (Some((_, at)), _) => Pairing::Correct(at),
        (None, Some(at)) => Pairing::Second(at),
        (None, None) => Pairing::Nothing,
    }
}

/// Pairs the mentions of one document.
pub fn outcomes(scheme: Convention, gold: &[Mention<'_>], pred: &[Mention<'_>]) -> Outcomes {
    let mut taken = vec![false; gold.len()];
    let mut outcomes = Outcomes::default();
    for mention in pred {
        match pair(scheme, mention, gold, &taken) {
            Pairing::Correct(at) => {
                taken[at] = true;
                outcomes.correct += 1;
            }
            Pairing::Second(at) => {
                taken[at] = true;
                if scheme == Convention::NervaluatePartial {
                    outcomes.partial += 1;
                } else {
                    outcomes.incorrect += 1;
                }
            }
            Pairing::Nothing => outcomes.spurious += 1,
        }
    }
    outcomes.missed = taken.iter().filter(|taken| !**taken).count() as u64;
    outcomes
}

fn mentions<'a>(of: &'a Extraction, text: &str) -> Vec<Mention<'a>> {
    let ascii = text.is_ascii();
    let mut mentions = Vec::with_capacity(of.entities.len());
    for entity in &of.entities {
        let place = entity.span.map(|span| {
            let (start, end) = if ascii { (span.start(), span.end()) } else { span.to_code_points(text) };
            (start, end - 1)
        });
        mentions.push(Mention { label: &entity.label, place });
    }
    mentions
}

/// Counts one document under one scheme.
pub(super) fn count(scheme: Convention, pair: &Pair<'_>, tally: &mut Tally) {
    let (gold, pred) = (mentions(pair.gold, pair.text), mentions(pair.found(), pair.text));
    let found = outcomes(scheme, &gold, &pred);
    let paired = found.correct + found.incorrect + found.partial;
    let credit = found.correct as f64 + 0.5 * found.partial as f64;
    let sum = Sum {
        hit: credit,
        pred: (paired + found.spurious) as f64,
        hit_gold: credit,
        gold: (paired + found.missed) as f64,
    };
    tally.sum(Measure::Entities, &sum);
}
