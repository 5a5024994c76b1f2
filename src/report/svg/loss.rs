//! The loss curve, and below it, on the same steps, the entity F1 on the validation split.

use super::{Scale, WIDTH, dot, figure, label, path, rows, stroke, tick_text, ticks};
use crate::eval::table::plain;
use crate::report::number::{amount, count};
use crate::report::run::TrainingPoint;

/// More points than this are averaged in runs: a screen cannot show them.
const POINTS: usize = 400;

const LEFT: f64 = 34.0;
const RIGHT: f64 = WIDTH - 14.0;
/// Top and bottom of the two panels.
const LOSS: (f64, f64) = (26.0, 176.0);
const F1: (f64, f64) = (216.0, 306.0);

/// What the curve says, in a sentence; `None` without a finite loss.
pub fn loss_summary(log: &[TrainingPoint]) -> Option<String> {
    let finite: Vec<&TrainingPoint> = log.iter().filter(|point| point.loss.is_finite()).collect();
    let (first, last) = (finite.first()?, finite.last()?);
    let mut said = format!(
        "The loss went from {} at step {} to {} at step {}.",
        amount(first.loss),
        count(first.step),
        amount(last.loss),
        count(last.step)
    );
    let best = log.iter().filter_map(|point| Some((point.dev_f1.filter(|f1| f1.is_finite())?, point.step)));
    if let Some((f1, step)) = best.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))) {
        said += &format!(" The best validation F1, {}, was measured at step {}.", plain(f1 * 100.0, 1), count(step));
    }
    let skipped = log.len() - finite.len();
    if skipped > 0 {
        said += &format!(
            " {} of {} logged losses were not finite and are not drawn.",
            count(skipped as u64),
            count(log.len() as u64)
        );
    }
    Some(said)
}

/// The curve; `None` without a finite loss.
pub fn loss(log: &[TrainingPoint]) -> Option<String> {
    let description = loss_summary(log)?;
    let mut points: Vec<(f64, f64)> =
        log.iter().filter(|point| point.loss.is_finite()).map(|point| (point.step as f64, point.loss)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let steps = (points.first()?.0, points.last()?.0);
    let measured =
        log.iter().filter_map(|point| Some((point.step as f64, point.dev_f1.filter(|f1| f1.is_finite())? * 100.0)));
    let mut measured: Vec<(f64, f64)> = measured.collect();
    measured.sort_by(|a, b| a.0.total_cmp(&b.0));
    let steps = (steps.0, measured.last().map_or(steps.1, |last| last.0.max(steps.1)));
    let x = Scale::new(steps, (LEFT, RIGHT));
    let mut out = String::new();
    panel(&mut out, "Training loss", LOSS, x, &thinned(&points), "line-loss", 0.0);
    let bottom = if measured.is_empty() {
        LOSS.1
    } else {
        panel(&mut out, "Validation F1", F1, x, &measured, "line-student", 100.0);
        for &(step, f1) in thinned(&measured).iter() {
            dot(&mut out, "dot-student", (x.at(step), f1_scale(&measured, F1, 100.0).at(f1)), 3.0);
        }
        F1.1
    };
    steps_axis(&mut out, steps, x, bottom);
    Some(figure("plot-loss", bottom + 40.0, "Loss by training step", &description, &out))
}

/// The scale of a panel: a loss starts at zero, an F1 uses the range that it has.
fn f1_scale(points: &[(f64, f64)], (top, bottom): (f64, f64), most: f64) -> Scale {
    let low = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    if most > 0.0 {
        let margin = ((high - low) * 0.15).max(1.0);
        Scale::new(((low - margin).max(0.0), (high + margin).min(most)), (bottom, top))
    } else {
        Scale::new((low.min(0.0), high * 1.04), (bottom, top))
    }
}

fn panel(out: &mut String, name: &str, edges: (f64, f64), x: Scale, points: &[(f64, f64)], class: &str, most: f64) {
    let y = f1_scale(points, edges, most);
    label(out, 0.0, edges.0 - 12.0, "start", "name", name);
    rows(out, &ticks(y.from.0, y.from.1, if most > 0.0 { 3 } else { 4 }), y, LEFT, RIGHT);
    let places: Vec<(f64, f64)> = points.iter().map(|&(step, value)| (x.at(step), y.at(value))).collect();
    path(out, class, &places);
    if let (Some(&place), Some(last)) = (places.last(), points.last()) {
        let text = if most > 0.0 { plain(last.1, 1) } else { amount(last.1) };
        label(out, place.0, (place.1 - 8.0).max(edges.0 - 2.0), "end", "value", &text);
    }
}

fn steps_axis(out: &mut String, steps: (f64, f64), x: Scale, bottom: f64) {
    stroke(out, "axis", (LEFT, bottom), (RIGHT, bottom));
    let marks = ticks(steps.0, steps.1, 5);
    let step = marks.windows(2).map(|pair| pair[1] - pair[0]).next().unwrap_or(1.0).max(1.0);
    for mark in marks.into_iter().filter(|mark| mark.fract() == 0.0) {
        stroke(out, "axis", (x.at(mark), bottom), (x.at(mark), bottom + 4.0));
        label(out, x.at(mark), bottom + 17.0, "middle", "tick", &tick_text(mark, step));
    }
    label(out, (LEFT + RIGHT) / 2.0, bottom + 34.0, "middle", "tick", "optimiser step");
}

/// At most [`POINTS`] points, each the mean of a run.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let run = points.len().div_ceil(POINTS).max(1);
    let mean = |of: &[(f64, f64)]| {
        let (x, y) = of.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (x / of.len() as f64, y / of.len() as f64)
    };
    points.chunks(run).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(step: u64, loss: f64, dev_f1: Option<f64>) -> TrainingPoint {
        TrainingPoint { step, loss, lr: 1e-4, grad_norm: 1.0, dev_f1 }
    }

    #[test]
    fn a_loss_that_is_not_finite_is_counted_and_never_drawn() {
        let log =
            [point(1, 2.0, None), point(2, f64::NAN, None), point(3, 1.0, Some(0.5)), point(4, f64::INFINITY, None)];
        let drawn = loss(&log).unwrap();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        assert_eq!(
            loss_summary(&log).unwrap(),
            "The loss went from 2.00 at step 1 to 1.00 at step 3. The best validation F1, 50.0, was measured at step 3. 2 of 4 logged losses were not finite and are not drawn."
        );
        assert_eq!(loss(&[point(1, f64::NAN, None)]), None);
    }

    #[test]
    fn a_long_log_is_thinned_and_one_point_is_enough() {
        let log: Vec<_> = (1..=10_000).map(|step| point(step, 2.0, None)).collect();
        assert!(loss(&log).unwrap().len() < 20_000);
        let one = loss(&[point(5, 0.7, Some(0.1))]).unwrap();
        assert!(one.contains("dot-student") && !one.contains("NaN"), "{one}");
    }
}
