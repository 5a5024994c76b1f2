//! From scores to decisions, for each kind of item: the curve that makes a probability of a score,
//! the least that is kept, and what both are worth by the gold.

use super::calibrate::{Curve, Judged, cross_fitted};
use super::item::Kind;
use super::reliability::Reliability;
use super::rules::Rules;
use super::threshold::{Cut, Least, held_out, precise, surest};

/// Fewest judged items that a curve is fitted on.
const FEWEST: usize = 30;
/// Parts of the gold, each of which is once left out.
const FOLDS: u64 = 5;

/// How the items of one kind are decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    /// From score to probability; without one, the score is taken as it is.
    pub curve: Option<Curve>,
    /// The least that is kept.
    pub least: Least,
}

impl Gauge {
    /// The probability of a score.
    pub fn probability(&self, score: f64) -> f64 {
        self.curve.as_ref().map_or(score, |curve| curve.at(score))
    }

    /// Whether an item with this score is kept.
    pub fn keeps(&self, score: f64) -> bool {
        match self.least {
            Least::Probability(least) => self.probability(score) >= least,
            Least::Score(least) => score >= least,
        }
    }

    /// The threshold as a probability.
    pub fn threshold(&self) -> f64 {
        match self.least {
            Least::Probability(least) => least,
            // A cut above every score keeps nothing.
            Least::Score(score) => {
                if score.is_finite() {
                    self.probability(score)
                } else {
                    1.0
                }
            }
        }
    }
}

/// What the gold says of one kind's scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Which kind.
    pub kind: Kind,
    /// Judged items.
    pub items: usize,
    /// The scores as they are.
    pub before: Reliability,
    /// The probabilities, each by a curve that has not seen its document; `None` where there were too
    /// few items for a curve.
    pub after: Option<Reliability>,
    /// The cut that the target precision chose, on all judged items.
    pub cut: Option<Cut>,
    /// `(right, kept)` where each fifth of the documents is cut as the others say.
    pub held_out: Option<(usize, usize)>,
    /// Whether no set is as precise as asked: nothing of this kind is kept.
    pub out_of_reach: bool,
}

/// The gauges, and what was found out on the way. `scores` are those of the whole corpus, where a
/// share of them is to be kept.
///
/// # Errors
/// `E305`, where nothing can be calibrated or no cut of the entities is precise enough.
pub fn gauges(
    rules: &Rules,
    judged: &[Vec<Judged>; 3],
    scores: &mut [Vec<f64>; 3],
) -> Result<([Gauge; 3], Vec<Calibration>), String> {
    let fixed = |at: usize| Gauge { curve: None, least: Least::Probability(rules.thresholds[at]) };
    let mut gauges = [fixed(0), fixed(1), fixed(2)];
    let mut found = Vec::new();
    for (at, kind) in Kind::ALL.into_iter().enumerate() {
        if let Some(method) = rules.calibration.filter(|_| !judged[at].is_empty()) {
            let items = &judged[at];
            let said = |of: &dyn Fn(usize) -> f64| -> Vec<(f64, bool)> {
                items.iter().enumerate().map(|(at, item)| (of(at), item.right)).collect()
            };
            let before = Reliability::of(&said(&|at| items[at].score));
            let fitted = cross_fitted(method, items, FOLDS).filter(|_| items.len() >= FEWEST);
            let after = fitted.map(|fitted| Reliability::of(&said(&|at| fitted[at])));
            let mut one =
                Calibration { kind, items: items.len(), before, after, cut: None, held_out: None, out_of_reach: false };
            if one.after.is_some() {
                gauges[at].curve = Curve::fit(method, items);
                if let Some(target) = rules.target_precision {
                    match precise(items, target, rules.bound) {
                        Ok(cut) => {
                            gauges[at].least = Least::Score(cut.score);
                            one.cut = Some(cut);
                            one.held_out = Some(held_out(items, FOLDS, target, rules.bound));
                        }
                        // Without an entity there is nothing to teach; without relations there is.
                        Err(best) if kind == Kind::Entity => return Err(out_of_reach(target, rules, best)),
                        Err(_) => {
                            gauges[at].least = Least::Score(f64::INFINITY);
                            one.out_of_reach = true;
                        }
                    }
                }
            }
            found.push(one);
        }
        if let Some(share) = rules.share_kept
            && let Some(least) = surest(&mut scores[at], share)
        {
            gauges[at].least = Least::Score(least);
        }
    }
    if rules.calibration.is_some() && found.iter().all(|one| one.after.is_none()) {
        let count: usize = found.iter().map(|one| one.items).sum();
        return Err(format!(
            "E305: filter.calibration needs items that the gold of data.train judges: there are {count}, and a kind needs \
             {FEWEST} of them in documents of more than one fifth — annotate more training documents, or set calibration to \"none\""
        ));
    }
    Ok((gauges, found))
}

fn out_of_reach(target: f64, rules: &Rules, best: Option<Cut>) -> String {
    let reached = best.map_or_else(String::new, |best| {
        format!(
            "; at most {:.3} is, by the surest {} ({} of them right)",
            best.precision(rules.bound),
            best.items,
            best.right
        )
    });
    format!(
        "E305: filter.target_precision {target} is not reached by the entities on the gold{reached} — lower the target, or set \
         precision_bound to \"estimate\""
    )
}
