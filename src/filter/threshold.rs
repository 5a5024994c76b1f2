//! Which score is the least that is kept: the largest set whose precision is as asked, the surest
//! share, or a fixed probability.

use super::calibrate::Judged;

/// One-sided 95 %.
const Z: f64 = 1.644_853_626_951_472_7;

/// How sure it must be that the precision is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The estimate itself: as often above as below.
    Estimate,
    /// The lower end of Wilson's interval (1927), one-sided at 95 %: mostly above.
    Wilson,
}

/// The least that is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Least {
    /// By probability (or by the score, where nothing was fitted).
    Probability(f64),
    /// By score: many scores may have one probability, and a cut between them is finer.
    Score(f64),
}

/// A cut and what of the judged items is at it or above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    /// The lowest score that is kept.
    pub score: f64,
    /// Judged items at it or above.
    pub items: usize,
    /// Those that are right.
    pub right: usize,
}

impl Cut {
    /// The share of right ones, or its lower bound.
    pub fn precision(&self, bound: Bound) -> f64 {
        match bound {
            Bound::Estimate => self.right as f64 / self.items.max(1) as f64,
            Bound::Wilson => wilson(self.right, self.items).0,
        }
    }
}

/// The largest set of the surest judged items that is precise enough. Equal scores are kept or
/// dropped together. The curve has no say in it: it was fitted on the same items.
///
/// # Errors
/// The most precise set there is, where none is precise enough; `None` without items.
pub fn precise(judged: &[Judged], target: f64, bound: Bound) -> Result<Cut, Option<Cut>> {
    let mut order: Vec<&Judged> = judged.iter().collect();
    order.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut right = 0;
    let (mut found, mut best): (Option<Cut>, Option<Cut>) = (None, None);
    for (place, item) in order.iter().enumerate() {
        right += usize::from(item.right);
        if order.get(place + 1).is_some_and(|next| next.score == item.score) {
            continue;
        }
        let cut = Cut { score: item.score, items: place + 1, right };
        if cut.precision(bound) >= target {
            found = Some(cut);
        }
        if best.is_none_or(|best| cut.precision(bound) > best.precision(bound)) {
            best = Some(cut);
        }
    }
    found.ok_or(best)
}

/// What the choice is worth on items that it was not made on: each fold is cut where the others
/// say. `(right, kept)` over all folds; a fold for which no set is precise enough keeps nothing.
pub fn held_out(judged: &[Judged], folds: u64, target: f64, bound: Bound) -> (usize, usize) {
    (0..folds).fold((0, 0), |(right, kept), fold| {
        let in_fold = |item: &&Judged| item.group % folds == fold;
        let others: Vec<Judged> = judged.iter().filter(|item| !in_fold(item)).copied().collect();
        let Ok(cut) = precise(&others, target, bound) else { return (right, kept) };
        let own = judged.iter().filter(|item| in_fold(item) && item.score >= cut.score);
        own.fold((right, kept), |(right, kept), item| (right + usize::from(item.right), kept + 1))
    })
}

/// The score of the last of the surest `share` of items; `None` without items. Equal scores are
/// kept together.
pub fn surest(scores: &mut [f64], share: f64) -> Option<f64> {
    let keep = (share * scores.len() as f64).round() as usize;
    if scores.is_empty() {
        return None;
    }
    if keep == 0 {
        return Some(f64::INFINITY);
    }
    let (_, score, _) = scores.select_nth_unstable_by(keep - 1, |a, b| b.total_cmp(a));
    Some(*score)
}

/// Wilson's interval of a share: its ends, one-sided at 95 % each (90 % between them).
pub fn wilson(right: usize, items: usize) -> (f64, f64) {
    if items == 0 {
        return (0.0, 1.0);
    }
    let (n, p, z2) = (items as f64, right as f64 / items as f64, Z * Z);
    let centre = p + z2 / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z2 / n;
    (((centre - half) / scale).max(0.0), ((centre + half) / scale).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(items: &[(f64, bool)]) -> Vec<Judged> {
        items.iter().enumerate().map(|(at, &(score, right))| Judged { score, right, group: at as u64 }).collect()
    }

    #[test]
    fn the_largest_set_that_is_precise_enough_is_kept() {
        let items = judged(&[(0.9, true), (0.8, true), (0.7, false), (0.6, true), (0.5, false), (0.4, false)]);
        // Shares of right ones among the surest 1, 2, …: 1, 1, .67, .75, .6, .5.
        let cut = precise(&items, 0.7, Bound::Estimate).unwrap();
        assert_eq!((cut.score, cut.items, cut.right), (0.6, 4, 3));
        let best = precise(&items[2..], 0.9, Bound::Estimate).unwrap_err().unwrap();
        assert_eq!((best.score, best.items, best.right), (0.6, 2, 1));
        assert_eq!(precise(&[], 0.5, Bound::Estimate), Err(None));
    }

    #[test]
    fn equal_scores_stay_together() {
        let items = judged(&[(0.9, true), (0.5, true), (0.5, false), (0.5, false)]);
        // After the second item alone all would be right.
        let cut = precise(&items, 0.9, Bound::Estimate).unwrap();
        assert_eq!((cut.score, cut.items), (0.9, 1));
        assert_eq!(surest(&mut [0.5, 0.9, 0.5, 0.5], 0.5), Some(0.5));
    }

    #[test]
    fn a_bound_asks_for_more_than_an_estimate() {
        let items = judged(&(0..100).map(|at| (1.0 - f64::from(at) / 100.0, at < 90)).collect::<Vec<_>>());
        assert_eq!(precise(&items, 0.9, Bound::Estimate).unwrap().items, 100);
        // 90 of 94: Wilson's lower end is 0.9085; 90 of 95: 0.8958.
        assert_eq!(precise(&items, 0.9, Bound::Wilson).unwrap().items, 94);
    }

    #[test]
    fn a_choice_is_worth_what_it_is_on_other_items() {
        // Group 0 alone has right items above 0.5; the others say that 0.5 and above is wrong.
        let one = |group: u64, score: f64, right: bool| Judged { score, right, group };
        let items = [one(0, 0.9, true), one(1, 0.9, false), one(1, 0.4, true), one(0, 0.4, true)];
        // Fold 0 is cut by group 1: half right at 0.4. Fold 1 by group 0: all right.
        assert_eq!(held_out(&items, 2, 0.5, Bound::Estimate), (3, 4));
        assert_eq!(held_out(&items, 2, 0.9, Bound::Estimate), (1, 2));
    }

    #[test]
    fn the_surest_share_is_counted_in_items() {
        let mut scores: Vec<f64> = (0..10).map(f64::from).collect();
        assert_eq!(surest(&mut scores, 0.3), Some(7.0));
        assert_eq!(surest(&mut scores, 1.0), Some(0.0));
        assert_eq!(surest(&mut scores, 0.0), Some(f64::INFINITY));
        assert_eq!(surest(&mut [], 0.5), None);
    }
}
