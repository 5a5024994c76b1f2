//! F1 of what the team would have answered after each stage and round of its debate.

use super::{Scale, WIDTH, dot, figure, fitted, label, path, rows, stroke, ticks};
use crate::eval::analysis::{Analysis, SystemErrors};
use crate::eval::verdict::Measure;
use crate::report::number::{percent, scored};

const LEFT: f64 = 34.0;
const RIGHT: f64 = WIDTH - 30.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 216.0;
/// Entities, relations, triggers, arguments: class, name, and how far beside the stage it is drawn.
const SERIES: [(Measure, &str, &str, f64); 4] = [
    (Measure::Entities, "s0", "Entities", -6.0),
    (Measure::Relations, "s1", "Relations", -2.0),
    (Measure::Triggers, "s2", "Triggers", 2.0),
    (Measure::Arguments, "s3", "Arguments", 6.0),
];

/// The stages of a team in their order, by what a label says, its outcome last.
fn stages<'a>(analysis: &'a Analysis, team: &str) -> Vec<(&'a str, &'a SystemErrors)> {
    let before = format!("{team}: ");
    let stage = |one: &'a SystemErrors| Some((one.name.strip_prefix(&before)?, one));
    let outcome = analysis.systems.iter().find(|one| one.name == team).map(|one| ("outcome", one));
    analysis.systems.iter().filter_map(stage).chain(outcome).collect()
}

/// The curves; `None` where the debate left no stages behind.
pub fn rounds(analysis: &Analysis, team: &str) -> Option<String> {
    let stages = stages(analysis, team);
    if stages.len() < 2 {
        return None;
    }
    let apart = (RIGHT - LEFT - 24.0) / (stages.len() - 1) as f64;
    let x = |at: usize| LEFT + 12.0 + apart * at as f64;
    let f1 = |one: &SystemErrors, measure: Measure| one.counts(measure).and_then(|counts| counts.f1());
    let drawn: Vec<_> =
        SERIES.iter().filter(|one| stages.iter().any(|(_, stage)| f1(stage, one.0).is_some())).collect();
    let ends = drawn.iter().flat_map(|one| stages.iter().map(move |(_, stage)| (stage, one.0))).filter_map(
        |(stage, measure)| {
            let value = f1(stage, measure)?;
            Some(
                stage
                    .interval(measure)
                    .map_or([value, value], |within| [within.low.min(value), within.high.max(value)]),
            )
        },
    );
    let (low, high) = ends.flatten().fold((1.0, 0.0), |(low, high), one: f64| (one.min(low), one.max(high)));
    let margin = f64::max((high - low) * 0.08, 0.02);
    let y = Scale::new(((low - margin).max(0.0) * 100.0, (high + margin).min(1.0) * 100.0), (BOTTOM, TOP));
    let mut out = String::new();
    label(&mut out, 0.0, TOP - 12.0, "start", "name", "F1, percent");
    rows(&mut out, &ticks(y.from.0, y.from.1, 5), y, LEFT, RIGHT);
    for (at, (name, _)) in stages.iter().enumerate() {
        // The first and the last keep to the plot.
        let (anchor, place) = match at {
            0 => ("start", LEFT),
            _ if at + 1 == stages.len() => ("end", WIDTH),
            _ => ("middle", x(at)),
        };
        label(&mut out, place, BOTTOM + 18.0, anchor, "tick", &fitted(name, apart - 4.0));
    }
    for (order, (measure, class, title, beside)) in drawn.iter().enumerate() {
        let left = LEFT + 84.0 * order as f64;
        stroke(&mut out, &format!("line-{class}"), (left, 8.0), (left + 14.0, 8.0));
        label(&mut out, left + 19.0, 12.0, "start", "name", title);
        let points: Vec<(f64, f64)> = stages
            .iter()
            .enumerate()
            .filter_map(|(at, (_, stage))| Some((x(at) + beside, y.at(f1(stage, *measure)? * 100.0))))
            .collect();
        path(&mut out, &format!("line-{class}"), &points);
        for (at, (_, stage)) in stages.iter().enumerate() {
            let Some(value) = f1(stage, *measure) else { continue };
            if let Some(within) = stage.interval(*measure) {
                let end = |value: f64| (x(at) + beside, y.at(value * 100.0));
                stroke(&mut out, &format!("whisker-{class}"), end(within.low), end(within.high));
            }
            dot(&mut out, &format!("dot-{class}"), (x(at) + beside, y.at(value * 100.0)), 4.0);
        }
        if let Some((place, value)) = points.last().zip(stages.last().and_then(|(_, stage)| f1(stage, *measure))) {
            label(&mut out, place.0 + 8.0, place.1 + 4.0, "start", "value", &percent(Some(value)));
        }
    }
    let description = described(&stages, &drawn.iter().map(|one| (one.0, one.2)).collect::<Vec<_>>());
    Some(figure("plot-rounds", BOTTOM + 28.0, "F1 after each stage of the debate", &description, &out))
}

fn described(stages: &[(&str, &SystemErrors)], measures: &[(Measure, &str)]) -> String {
    let one = |(name, stage): &(&str, &SystemErrors)| {
        let figures = measures.iter().map(|(measure, title)| {
            let f1 = stage.counts(*measure).and_then(|counts| counts.f1());
            format!("{} {}", title.to_lowercase(), scored(f1, stage.interval(*measure)))
        });
        format!("{name}: {}", figures.collect::<Vec<_>>().join(", "))
    };
    let all: Vec<String> = stages.iter().map(one).collect();
    format!("Whiskers are 95 % intervals. {}.", all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::errors::Errors;

    fn one(name: &str, right: u64) -> SystemErrors {
        let errors = Errors { right, missing: 10 - right, ..Errors::default() };
        SystemErrors { name: name.into(), errors, labels: vec![], interval: None, others: vec![] }
    }

    #[test]
    fn stages_are_drawn_in_order_up_to_the_outcome() {
        let systems = vec![one("t: first", 4), one("t: <b> 1", 5), one("t", 6), one("other", 9)];
        let drawn = rounds(&Analysis { systems, ..Analysis::default() }, "t").unwrap();
        // F1 of 4 of 10 found: 8 / 14; of 6: 12 / 16.
        assert!(drawn.contains("first: entities 57.1; ") && drawn.contains("outcome: entities 75.0."), "{drawn}");
        assert!(!drawn.contains("<b>") && !drawn.contains("other") && !drawn.contains("NaN"));
        let lone = Analysis { systems: vec![one("t", 6)], ..Analysis::default() };
        assert_eq!(rounds(&lone, "t"), None);
    }
}
