//! Training cases of each type beside what the student reaches on it: whether what is rare in the
//! corpus is what goes wrong.

use super::{LINE, Scale, WIDTH, block, dot, figure, fitted, label, stroke};
use crate::eval::verdict::Measure;
use crate::report::number::{count, scored};
use crate::report::run::RunReport;
use crate::report::tables::{TypeScore, types_of};

/// More types than this stand in the tables only.
const TYPES: usize = 20;

const NAMES: f64 = 108.0;
/// Where the bars of cases end, and where the F1 begins.
const BARS: f64 = 200.0;
const F1: f64 = 238.0;
const RIGHT: f64 = WIDTH - 10.0;
const TOP: f64 = 44.0;
const ROW: f64 = 24.0;

/// A type with its cases and scores.
struct Line {
    cases: u64,
    score: TypeScore,
}

/// Types by falling number of cases.
fn lines(report: &RunReport) -> Vec<Line> {
    let Some(filter) = report.stages.iter().find(|stage| stage.name == "filter") else { return vec![] };
    let measures = [Measure::Entities, Measure::Relations, Measure::Triggers];
    // Events that neither was made for are nothing to compare.
    let asked = |scores: &Vec<TypeScore>| scores.iter().any(|one| one.team.tp + one.student.tp > 0);
    let scores = measures.map(|one| types_of(report, one)).into_iter().filter(asked).flatten();
    let cases = |label: &String| filter.kept.get(label).copied().unwrap_or(0);
    let mut lines: Vec<Line> = scores.map(|score| Line { cases: cases(&score.label), score }).collect();
    lines.retain(|line| line.cases + line.score.gold > 0);
    lines.sort_by(|a, b| b.cases.cmp(&a.cases).then_with(|| a.score.label.cmp(&b.score.label)));
    lines.truncate(TYPES);
    lines
}

/// The picture; `None` without a corpus or scores.
pub fn cases(report: &RunReport) -> Option<String> {
    let lines = lines(report);
    let most = lines.iter().map(|line| line.cases).max().filter(|&most| most > 0)?;
    let (wide, f1) = (Scale::new((0.0, most as f64), (NAMES, BARS)), Scale::new((0.0, 1.0), (F1, RIGHT)));
    let bottom = TOP + ROW * lines.len() as f64;
    let mut out = String::new();
    label(&mut out, NAMES, 12.0, "start", "name", "Training cases");
    label(&mut out, F1, 12.0, "start", "name", "F1:");
    for (class, name, at) in [("team", "team", F1 + 30.0), ("student", "student", F1 + 80.0)] {
        dot(&mut out, &format!("dot-{class}"), (at, 8.0), 4.5);
        label(&mut out, at + 9.0, 12.0, "start", "name", name);
    }
    stroke(&mut out, "axis", (NAMES, TOP - 4.0), (NAMES, bottom));
    for tick in [0.0, 0.5, 1.0] {
        stroke(&mut out, if tick == 0.0 { "axis" } else { "grid" }, (f1.at(tick), TOP - 4.0), (f1.at(tick), bottom));
        label(&mut out, f1.at(tick), bottom + 16.0, "middle", "tick", &format!("{:.0}", tick * 100.0));
    }
    for (at, line) in lines.iter().enumerate() {
        let middle = TOP + ROW * at as f64 + ROW / 2.0;
        label(&mut out, NAMES - 8.0, middle + 4.0, "end", "name", &fitted(&line.score.label, NAMES - 10.0));
        let width = wide.at(line.cases as f64) - NAMES;
        block(&mut out, "fill-other", [NAMES, middle - 5.0, width, 10.0]);
        label(&mut out, NAMES + width + 5.0, middle + 4.0, "start", "value", &count(line.cases));
        let score = &line.score;
        for (class, counts, within, beside) in
            [("team", score.team, score.intervals[0], -4.0), ("student", score.student, score.intervals[1], 4.0)]
        {
            let Some(value) = counts.f1() else { continue };
            if let Some(within) = within {
                let ends = [within.low, within.high].map(|end| (f1.at(end), middle + beside));
                stroke(&mut out, &format!("whisker-{class}"), ends[0], ends[1]);
            }
            dot(&mut out, &format!("dot-{class}"), (f1.at(value), middle + beside), 4.5);
        }
    }
    let one = |line: &Line| {
        let score = &line.score;
        let [team, student] =
            [(score.team, 0), (score.student, 1)].map(|(counts, at)| scored(counts.f1(), score.intervals[at]));
        format!("{}: {} cases, team {team}, student {student}", score.label, count(line.cases))
    };
    let description = lines.iter().map(one).collect::<Vec<_>>().join("; ") + ".";
    Some(figure("plot-cases", bottom + LINE + 12.0, "Training cases and F1 by type", &description, &out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::compare::Row;
    use crate::eval::{Comparison, Counts};
    use crate::report::Stage;
    use std::collections::BTreeMap;

    #[test]
    fn types_stand_by_their_cases_with_both_scores() {
        let row = |name: &str, tp: u64| {
            let mut row = Row { name: name.into(), ..Row::default() };
            for (label, more) in [("<A>", 0), ("B", 2)] {
                row.scores.per_type.entities.insert(label.into(), Counts { tp: tp + more, fp: 0, fn_: 4 });
            }
            row
        };
        let comparison = Comparison {
            documents: 1,
            reference: "t".into(),
            resampling: Default::default(),
            delta: 0.02,
            systems: vec![row("t", 4), row("s", 2)],
            seeds: vec![],
        };
        let kept = BTreeMap::from([("<A>".to_string(), 3), ("B".to_string(), 40)]);
        let stages = vec![Stage { name: "filter".into(), kept, ..Stage::default() }];
        let report = RunReport {
            team: "t".into(),
            student: "s".into(),
            comparison: Some(comparison),
            stages,
            ..RunReport::default()
        };
        let drawn = cases(&report).unwrap();
        // B: 6 of 10 and 4 of 8 found, nothing wrong: F1 12/16 and 8/12; A: 8/12 and 4/8.
        assert!(
            drawn.contains("B: 40 cases, team 75.0, student 66.7; &lt;A&gt;: 3 cases, team 66.7, student 50.0."),
            "{drawn}"
        );
        assert!(!drawn.contains("<A>") && !drawn.contains("NaN"));
        assert_eq!(cases(&RunReport { stages: vec![], ..report }), None);
    }
}
