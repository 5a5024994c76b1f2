//! From a score to the probability of being right, fitted on items that somebody judged: isotonic
//! regression by pool-adjacent-violators (Zadrozny & Elkan 2002), or a sigmoid (Platt 1999, fitted
//! as in Lin, Lin & Weng 2007).
//!
//! Both curves never fall, so a higher score is never less probable, and an order by score is an
//! order by probability.

/// Newton steps of a sigmoid; it has settled after some ten.
const STEPS: usize = 100;
/// Ridge on the Hessian, as Lin, Lin & Weng give it.
const RIDGE: f64 = 1e-12;

/// Which family of curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Any curve that does not fall. Follows every shape; needs some hundred judged items.
    Isotonic,
    /// Two numbers. Right with few judged items where the curve is S-shaped.
    Platt,
}

/// An item whose truth is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// What the team's evidence comes to.
    pub score: f64,
    /// Whether the gold has it.
    pub right: bool,
    /// Items of one group, a document, are in one fold: they err together.
    pub group: u64,
}

/// Scores from `low` to `high` with one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// Lowest score.
    pub low: f64,
    /// Highest score.
    pub high: f64,
    /// Share of right ones.
    pub value: f64,
    /// Judged items.
    pub items: usize,
}

/// A fitted curve.
#[derive(Clone, Debug, PartialEq)]
pub enum Curve {
    /// Blocks in ascending order; between two of them the value rises in a straight line.
    Isotonic(Vec<Block>),
    /// `1 / (1 + exp(-(slope · score + intercept)))`.
    Platt {
        /// Never below 0.
        slope: f64,
        /// The log-odds at score 0.
        intercept: f64,
    },
}

impl Curve {
    /// Fits a curve; `None` without items.
    pub fn fit(method: Method, judged: &[Judged]) -> Option<Curve> {
        if judged.is_empty() {
            return None;
        }
        Some(match method {
            Method::Isotonic => Curve::Isotonic(pooled(judged)),
            Method::Platt => sigmoid(judged),
        })
    }

    /// The probability at a score, in `0..=1`.
    pub fn at(&self, score: f64) -> f64 {
        match self {
            Curve::Isotonic(blocks) => {
                let next = blocks.partition_point(|block| block.high < score);
                match (next.checked_sub(1).and_then(|at| blocks.get(at)), blocks.get(next)) {
                    (_, Some(block)) if block.low <= score => block.value,
                    (Some(before), Some(block)) => {
                        let way = (score - before.high) / (block.low - before.high);
                        before.value + way * (block.value - before.value)
                    }
                    (None, Some(block)) | (Some(block), None) => block.value,
                    (None, None) => f64::NAN,
                }
            }
            Curve::Platt { slope, intercept } => 1.0 / (1.0 + (-(slope * score + intercept)).exp()),
        }
    }
}

/// Every item's probability by a curve that was fitted without its fold: what the curve is worth on
/// items that it has not seen. Folds are by group; where a fold is all there is, `None`.
pub fn cross_fitted(method: Method, judged: &[Judged], folds: u64) -> Option<Vec<f64>> {
    let curves: Vec<Option<Curve>> = (0..folds)
        .map(|fold| {
            let others: Vec<Judged> = judged.iter().copied().filter(|item| item.group % folds != fold).collect();
            Curve::fit(method, &others)
        })
        .collect();
    judged.iter().map(|item| Some(curves[(item.group % folds) as usize].as_ref()?.at(item.score))).collect()
}

/// Pool-adjacent-violators. Equal scores are one block from the start.
fn pooled(judged: &[Judged]) -> Vec<Block> {
    let mut order: Vec<&Judged> = judged.iter().collect();
    order.sort_by(|a, b| a.score.total_cmp(&b.score));
    let mut blocks: Vec<(Block, f64)> = Vec::new();
    let mut at = 0;
    while at < order.len() {
        let score = order[at].score;
        let same = order[at..].iter().take_while(|item| item.score == score).count();
        let right = order[at..at + same].iter().filter(|item| item.right).count() as f64;
        at += same;
        let mut block = (Block { low: score, high: score, value: right / same as f64, items: same }, right);
        while let Some((before, hits)) = blocks.last().filter(|(before, _)| before.value >= block.0.value) {
            let (items, right) = (before.items + block.0.items, hits + block.1);
            let low = before.low;
            block = (Block { low, high: block.0.high, value: right / items as f64, items }, right);
            blocks.pop();
        }
        blocks.push(block);
    }
    blocks.into_iter().map(|(block, _)| block).collect()
}

/// Newton's method with backtracking on the regularised targets. A slope below 0, a score that says
/// the contrary of what it should, becomes 0: the share of right ones, whatever the score.
fn sigmoid(judged: &[Judged]) -> Curve {
    let right = judged.iter().filter(|item| item.right).count() as f64;
    let wrong = judged.len() as f64 - right;
    let (high, low) = ((right + 1.0) / (right + 2.0), 1.0 / (wrong + 2.0));
    let target = |item: &Judged| if item.right { high } else { low };
    // Cross-entropy without overflow.
    let loss = |slope: f64, intercept: f64| -> f64 {
        let of = |item: &Judged| {
            let odds = slope * item.score + intercept;
            (1.0 - target(item)) * odds + (-odds).max(0.0) + (-odds.abs()).exp().ln_1p()
        };
        judged.iter().map(of).sum()
    };
    let (mut slope, mut intercept) = (0.0, ((right + 1.0) / (wrong + 1.0)).ln());
    let mut now = loss(slope, intercept);
    for _ in 0..STEPS {
        let (mut h11, mut h22, mut h21, mut g1, mut g2) = (RIDGE, RIDGE, 0.0, 0.0, 0.0);
        for item in judged {
            let p = 1.0 / (1.0 + (-(slope * item.score + intercept)).exp());
            let (bend, miss) = (p * (1.0 - p), p - target(item));
            h11 += item.score * item.score * bend;
            h22 += bend;
            h21 += item.score * bend;
            g1 += item.score * miss;
            g2 += miss;
        }
        if g1.abs() < 1e-7 && g2.abs() < 1e-7 {
            break;
        }
        let determinant = h11 * h22 - h21 * h21;
        if determinant.abs() < 1e-30 {
            break;
        }
        let (d1, d2) = (-(h22 * g1 - h21 * g2) / determinant, -(h11 * g2 - h21 * g1) / determinant);
        let downhill = g1 * d1 + g2 * d2;
        let mut step = 1.0;
        while step > 1e-10 {
            let then = loss(slope + step * d1, intercept + step * d2);
            if then < now + 1e-4 * step * downhill {
                (slope, intercept, now) = (slope + step * d1, intercept + step * d2, then);
                break;
            }
            step /= 2.0;
        }
        if step <= 1e-10 {
            break;
        }
    }
    if slope < 0.0 {
        return Curve::Platt { slope: 0.0, intercept: ((right + 1.0) / (wrong + 1.0)).ln() };
    }
    Curve::Platt { slope, intercept }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEMS: [(f64, bool); 16] = [
        (0.1, false),
        (0.2, true),
        (0.2, false),
        (0.3, false),
        (0.35, false),
        (0.4, true),
        (0.5, false),
        (0.55, true),
        (0.6, false),
        (0.6, true),
        (0.7, true),
        (0.8, false),
        (0.85, true),
        (0.9, true),
        (0.95, true),
        (1.0, true),
    ];

    fn judged(items: &[(f64, bool)]) -> Vec<Judged> {
        items.iter().enumerate().map(|(at, &(score, right))| Judged { score, right, group: at as u64 }).collect()
    }

    #[test]
    fn isotonic_and_platt_are_those_of_other_algorithms() {
        // scripts/golden/calibration.py
        let isotonic = Curve::fit(Method::Isotonic, &judged(&ITEMS)).unwrap();
        let values = [0.0, 0.25, 0.25, 0.25, 0.5, 0.5, 0.6, 0.6, 0.6, 0.6, 1.0, 1.0, 1.0, 1.0];
        let places = [0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0];
        for (score, value) in places.into_iter().zip(values) {
            assert!((isotonic.at(score) - value).abs() < 1e-10, "{score}: {}", isotonic.at(score));
        }
        let Curve::Platt { slope, intercept } = Curve::fit(Method::Platt, &judged(&ITEMS)).unwrap() else {
            panic!("asked for Platt")
        };
        // The search of the script ends where the loss no longer changes in double precision.
        assert!((slope - 3.157_587).abs() < 1e-4 && (intercept + 1.491_152).abs() < 1e-4, "{slope} {intercept}");
    }

    #[test]
    fn a_curve_rises_in_a_straight_line_between_its_blocks_and_ends_flat() {
        let curve = Curve::fit(Method::Isotonic, &judged(&[(0.2, false), (0.6, true)])).unwrap();
        for (score, value) in [(0.0, 0.0), (0.2, 0.0), (0.3, 0.25), (0.5, 0.75), (0.6, 1.0), (2.0, 1.0)] {
            assert!((curve.at(score) - value).abs() < 1e-12, "{score}");
        }
    }

    #[test]
    fn a_score_that_says_the_contrary_says_nothing() {
        let items: Vec<(f64, bool)> = (0..100).map(|at| (f64::from(at) / 100.0, at < 30)).collect();
        for method in [Method::Isotonic, Method::Platt] {
            let curve = Curve::fit(method, &judged(&items)).unwrap();
            assert_eq!(curve.at(0.1), curve.at(0.9), "{method:?}");
            assert!((curve.at(0.5) - 0.3).abs() < 0.01, "{method:?}: {}", curve.at(0.5));
        }
    }

    #[test]
    fn one_outcome_alone_makes_no_certainty_of_a_sigmoid() {
        let items = judged(&[(0.5, true), (0.7, true), (0.9, true)]);
        let value = Curve::fit(Method::Platt, &items).unwrap().at(0.9);
        // Platt's targets for three right ones are 4/5.
        assert!((value - 0.8).abs() < 1e-3, "{value}");
        assert_eq!(Curve::fit(Method::Platt, &[]), None);
    }

    #[test]
    fn no_item_is_fitted_by_a_curve_that_has_seen_its_group() {
        // Each group has a score of its own and one outcome: a curve that had seen it would give 0 or 1.
        let mut items = Vec::new();
        for group in 0..10 {
            items.extend((0..5).map(|_| Judged { score: 0.5, right: group % 2 == 0, group }));
        }
        let fitted = cross_fitted(Method::Isotonic, &items, 5).unwrap();
        // Without fold 0 (groups 0 and 5) there remain four of each kind.
        assert!(fitted.iter().all(|p| (p - 0.5).abs() < 1e-12), "{fitted:?}");
        let alone: Vec<Judged> = items.iter().copied().filter(|item| item.group == 0).collect();
        assert_eq!(cross_fitted(Method::Isotonic, &alone, 5), None);
    }
}
