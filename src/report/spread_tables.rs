//! The main figure beside those of the published conventions: how much of a difference between two
//! papers may be one of counting.

use super::number::{count, percent};
use super::run::RunReport;
use super::tables::{Table, names};
use crate::eval::compat::{Measure, SystemSpread};

/// The main figure of every system, and the smallest and largest of the conventions.
pub fn spread(report: &RunReport) -> Option<Table> {
    // A convention that rounds may print what strict prints.
    let by = |one: &SystemSpread, f1: f64, mode: &str| {
        let same = percent(Some(f1)) == percent(one.spread.main);
        if same { "strict".to_string() } else { mode.to_string() }
    };
    let row = |one: &SystemSpread| {
        vec![
            one.system.clone(),
            one.measure.title().to_string(),
            percent(one.spread.main),
            percent(Some(one.spread.min)),
            by(one, one.spread.min, &one.spread.min_mode),
            percent(Some(one.spread.max)),
            by(one, one.spread.max, &one.spread.max_mode),
            count(one.spread.modes as u64),
        ]
    };
    let shown = report.spread.iter().filter(|one| shown(report, one.measure));
    let rows: Vec<Vec<String>> = shown.map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: "spread",
        caption:
            "The same predictions under every published convention of counting: the main figure (strict), and the \
                  least and the largest F1 with the convention that prints it. Compare with a paper only under its own."
                .into(),
        head: names(&["System", "Measure", "Main", "Least", "by", "Largest", "by", "Conventions"]),
        rows,
    })
}

/// Entities, and relations and events where any system was made for them; parts of events have few
/// conventions and stand in `score --mode all`.
fn shown(report: &RunReport, measure: Measure) -> bool {
    let found = || report.spread.iter().any(|one| one.measure == measure && one.spread.main > Some(0.0));
    match measure {
        Measure::Entities => true,
        Measure::Relations | Measure::Events => found(),
        _ => false,
    }
}

/// F1 of a measure under every convention, a column a system.
pub fn conventions(report: &RunReport) -> Vec<Table> {
    let of = |measure: Measure, id: &'static str| {
        let columns: Vec<&SystemSpread> = report.spread.iter().filter(|one| one.measure == measure).collect();
        let f1 = |one: &SystemSpread, name: &str| one.figures.iter().find(|figure| figure.0 == name).map(|one| one.1);
        let mut rows: Vec<Vec<String>> = Vec::new();
        // In the order of the conventions, which every column keeps.
        for (name, _) in columns.iter().flat_map(|one| &one.figures) {
            if !rows.iter().any(|row| row[0] == *name) {
                let cells = columns.iter().map(|one| percent(f1(one, name)));
                rows.push([name.clone()].into_iter().chain(cells).collect());
            }
        }
        let mut head = names(&["Convention"]);
        head.extend(columns.iter().map(|one| one.system.clone()));
        let caption = format!("F1 of {} under every convention that counts them, in percent.", measure.title());
        (!rows.is_empty()).then_some(Table { id, caption, head, rows })
    };
    let measures = [
        (Measure::Entities, "conventions-entities"),
        (Measure::Relations, "conventions-relations"),
        (Measure::Events, "conventions-events"),
    ];
    let asked = measures.into_iter().filter(|(measure, _)| shown(report, *measure));
    asked.filter_map(|(measure, id)| of(measure, id)).collect()
}
