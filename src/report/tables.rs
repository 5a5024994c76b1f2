//! What the pages tabulate, once for Markdown and HTML alike.

use super::number::{amount, count, difference, maybe, percent, scored};
use super::run::RunReport;
use crate::eval::compare::{Difference, Row, Verdict};
use crate::eval::economics::CostModel;
use crate::eval::table::{NOTHING, plain};
use crate::eval::verdict::Measure;
use crate::eval::{Comparison, Counts, Interval};
use std::collections::BTreeMap;

/// A table: the first column names the row, the others are numbers or short words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Unique on the page; letters and hyphens.
    pub id: &'static str,
    /// What it shows, in one sentence.
    pub caption: String,
    /// Column names.
    pub head: Vec<String>,
    /// Cells, as many as `head` in every row.
    pub rows: Vec<Vec<String>>,
}

/// Column names.
pub fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|name| name.to_string()).collect()
}

/// Scores of every system.
pub fn scores(comparison: &Comparison) -> Table {
    let row = |row: &Row| {
        let (ner, re) = (&row.scores.entities, &row.scores.relations);
        vec![
            row.name.clone(),
            scored(ner.f1(), row.entities_interval),
            percent(ner.precision()),
            percent(ner.recall()),
            difference(row.entities_difference),
            scored(re.f1(), row.relations_interval),
            difference(row.relations_difference),
            count(row.scores.failed),
        ]
    };
    Table {
        id: "scores",
        caption: format!(
            "Strict micro F1 on {} documents, in percent. Brackets are 95 % intervals from {} resampled sets of documents; Δ is the paired difference to {}. A failed document counts as missed.",
            count(comparison.documents),
            count(comparison.resampling.replicates as u64),
            comparison.reference
        ),
        head: names(&["System", "NER F1", "P", "R", "NER Δ", "RE F1", "RE Δ", "Failed"]),
        rows: comparison.systems.iter().map(row).collect(),
    }
}

/// What one document takes, by system; money only where prices are known.
pub fn spending(comparison: &Comparison, cost: Option<&CostModel>) -> Table {
    let row = |row: &Row| {
        let mut cells = vec![
            row.name.clone(),
            plain(row.calls_per_document(), 1),
            maybe(row.prompt_tokens),
            maybe(row.completion_tokens),
            maybe(row.seconds_mean),
            maybe(row.seconds_p50),
        ];
        if let Some(cost) = cost {
            cells.push(cost.per_document(row).map_or_else(|| NOTHING.into(), |one| money(cost, one * 1000.0)));
        }
        cells
    };
    let mut head = names(&["System", "Calls", "Tokens read", "Tokens written", "Seconds, mean", "Seconds, median"]);
    if cost.is_some() {
        head.push("Per 1000 documents".into());
    }
    let caption =
        "Mean over the documents, the median of the seconds beside it. A dash means that it was not reported."
            .to_string();
    Table { id: "spending", caption, head, rows: comparison.systems.iter().map(row).collect() }
}

/// An amount of money: cents, or three digits where cents say nothing.
fn money(cost: &CostModel, value: f64) -> String {
    let cents = (0.045..1000.0).contains(&value);
    format!("{}{}", cost.currency, if cents { plain(value, 2) } else { amount(value) })
}

/// What is paid once, and when it is earned back.
pub fn once(report: &RunReport) -> Option<Table> {
    let cost = report.cost.as_ref().filter(|cost| !cost.once.is_empty())?;
    let mut rows: Vec<Vec<String>> =
        cost.once.iter().map(|one| vec![one.what.clone(), money(cost, one.amount)]).collect();
    if rows.len() > 1 {
        rows.push(vec!["Together".into(), money(cost, cost.once())]);
    }
    let caption = match report.break_even() {
        Some(documents) => format!("Paid once. The student has earned it back after {} documents.", count(documents)),
        None => "Paid once. No number of documents earns it back at these prices, or a price is unknown.".into(),
    };
    Some(Table { id: "once", caption, head: names(&["What", "Amount"]), rows })
}

/// A label with the gold items and the two counts of it.
pub struct TypeScore {
    /// The label.
    pub label: String,
    /// Gold items of it.
    pub gold: u64,
    /// The team's counts.
    pub team: Counts,
    /// The student's counts.
    pub student: Counts,
    /// 95 % intervals of the team's F1 and of the student's.
    pub intervals: [Option<Interval>; 2],
}

/// Entity types by falling number of gold items, then by label.
pub fn types(report: &RunReport) -> Vec<TypeScore> {
    types_of(report, Measure::Entities)
}

/// The types of a measure in the same order.
pub fn types_of(report: &RunReport, measure: Measure) -> Vec<TypeScore> {
    let (Some(team_row), Some(student_row)) = (report.team_row(), report.student_row()) else { return vec![] };
    let pair = [team_row, student_row].map(|row| measure.types(&row.scores));
    let [Some(team), Some(student)] = pair else { return vec![] };
    let within =
        |row: &Row, label: &String| row.type_intervals.get(&measure).and_then(|types| types.get(label)).copied();
    let labels: BTreeMap<&String, ()> = team.keys().chain(student.keys()).map(|label| (label, ())).collect();
    let of = |counts: &BTreeMap<String, Counts>, label: &String| counts.get(label).copied().unwrap_or_default();
    let each = labels.into_keys().map(|label| {
        let (team, student) = (of(team, label), of(student, label));
        let gold = (team.tp + team.fn_).max(student.tp + student.fn_);
        let intervals = [team_row, student_row].map(|row| within(row, label));
        TypeScore { label: label.clone(), gold, team, student, intervals }
    });
    let mut types: Vec<TypeScore> = each.collect();
    types.sort_by(|a, b| b.gold.cmp(&a.gold).then_with(|| a.label.cmp(&b.label)));
    types
}

/// Scores by entity type.
pub fn by_type(report: &RunReport) -> Option<Table> {
    let rows: Vec<Vec<String>> = types(report)
        .into_iter()
        .map(|one| {
            let [team, student] = [&one.team, &one.student];
            vec![
                one.label.clone(),
                count(one.gold),
                scored(team.f1(), one.intervals[0]),
                scored(student.f1(), one.intervals[1]),
                percent(student.precision()),
                percent(student.recall()),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        id: "by-type",
        caption:
            "Entity F1 by type, in percent with 95 % intervals, most frequent type first; P and R are the student’s."
                .into(),
        head: names(&["Type", "Gold", "Team", "Student", "P", "R"]),
        rows,
    })
}

/// Documents and gold items by split.
pub fn corpus(report: &RunReport) -> Option<Table> {
    let row = |split: &super::Split| {
        let numbers = [split.documents, split.entities, split.relations, split.events];
        [split.name.clone()].into_iter().chain(numbers.map(count)).collect()
    };
    let rows: Vec<Vec<String>> = report.corpus.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: "corpus",
        caption: "Documents, and the items that annotators found in them.".into(),
        head: names(&["Split", "Documents", "Entities", "Relations", "Events"]),
        rows,
    })
}

/// Every stage in one row.
pub fn stages(report: &RunReport) -> Option<Table> {
    let whole = |value: Option<u64>| value.map_or_else(|| NOTHING.to_string(), count);
    let row = |stage: &super::Stage| {
        vec![
            stage.name.clone(),
            count(stage.documents),
            count(stage.calls),
            whole(stage.tokens),
            whole(stage.conflicts),
            count(stage.kept.values().sum()),
            count(stage.dropped.values().sum()),
        ]
    };
    let rows: Vec<Vec<String>> = report.stages.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: "stages",
        caption: "What every stage did, in the order of the run. Calls include answers that were stored.".into(),
        head: names(&["Stage", "Documents", "Calls", "Tokens", "Conflicts", "Kept", "Dropped"]),
        rows,
    })
}

/// Kept items by type, and dropped ones by reason, of every stage that says.
pub fn kept_and_dropped(report: &RunReport) -> Vec<Table> {
    let rows = |pick: fn(&super::Stage) -> &BTreeMap<String, u64>| -> Vec<Vec<String>> {
        let of = |stage: &super::Stage| {
            let line = |(what, number): (&String, &u64)| vec![what.clone(), stage.name.clone(), count(*number)];
            pick(stage).iter().map(line).collect::<Vec<_>>()
        };
        report.stages.iter().flat_map(of).collect()
    };
    let tables = [
        Table {
            id: "kept",
            caption: "Items that went on, by type.".into(),
            head: names(&["Type", "Stage", "Items"]),
            rows: rows(|stage| &stage.kept),
        },
        Table {
            id: "dropped",
            caption: "Items that did not, by reason.".into(),
            head: names(&["Reason", "Stage", "Items"]),
            rows: rows(|stage| &stage.dropped),
        },
    ];
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Whether confidences hold, by system.
pub fn reliability(report: &RunReport) -> Option<Table> {
    let row = |one: &crate::eval::reliability::Reliability| {
        let what = if one.measure == Measure::Relations { "relations" } else { "entities" };
        let numbers = [count(one.items), count(one.without), percent(Some(one.ece)), plain(one.brier, 3)];
        [one.system.clone(), what.into()].into_iter().chain(numbers).collect()
    };
    let rows: Vec<Vec<String>> = report.reliability.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: "reliability",
        caption:
            "Confidences against the gold. The error is the expected calibration error over ten bins, in percent: how \
                  far the share of right items lies from the confidence. Items without a confidence are in no bin."
                .into(),
        head: names(&["System", "Of", "Items", "Without", "Error", "Brier"]),
        rows,
    })
}

/// What became of the conflicts of every debate.
pub fn flows(report: &RunReport) -> Option<Table> {
    let rounds: std::collections::BTreeSet<u32> =
        report.flows.iter().flat_map(|one| one.consensus.keys().copied()).collect();
    let row = |one: &super::Flow| {
        let settled = rounds.iter().map(|round| one.consensus.get(round).copied().unwrap_or(0));
        let numbers = [one.conflicts()].into_iter().chain(settled).chain([one.summarizer, one.majority, one.failed]);
        [one.name.clone()].into_iter().chain(numbers.map(count)).collect()
    };
    let rows: Vec<Vec<String>> = report.flows.iter().map(row).collect();
    let mut head = names(&["Debate", "Conflicts"]);
    head.extend(rounds.iter().map(|round| if *round == 0 { "At once".into() } else { format!("Round {round}") }));
    head.extend(names(&["Summarizer", "Majority", "Failed"]));
    (!rows.is_empty()).then_some(Table {
        id: "flows",
        caption: "What became of the conflicts: settled by consensus in a round of debate, or left in the end.".into(),
        head,
        rows,
    })
}

/// The difference of one task in a row.
type Pick = fn(&Row) -> Option<Difference>;

/// What the sample says of every system against the reference: one sentence per task.
pub fn verdicts(comparison: &Comparison) -> Vec<String> {
    let others = || comparison.systems.iter().filter(|row| row.name != comparison.reference);
    let tasks: [(&str, Pick); 2] =
        [("entities", |row| row.entities_difference), ("relations", |row| row.relations_difference)];
    let said = tasks.into_iter().filter_map(|(task, pick)| {
        let named = |verdict: Verdict| {
            let names = others().filter(|row| pick(row).is_some_and(|found| found.verdict == verdict));
            names.map(|row| row.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let groups = [
            ("better", named(Verdict::Better)),
            ("worse", named(Verdict::Worse)),
            ("the sample cannot tell", named(Verdict::CannotTell)),
        ];
        let groups: Vec<String> = groups
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(verdict, names)| format!("{verdict}: {names}"))
            .collect();
        (!groups.is_empty()).then(|| format!("On {task}, against {} — {}.", comparison.reference, groups.join("; ")))
    });
    said.collect()
}
