//! The main figure beside those of the published conventions: how much of a difference between two
//! papers may be one of counting.

use super::number::{count, percent};
use super::run::RunReport;
use super::tables::{Table, names};
use crate::eval::compat::{Measure, SystemSpread};

/// The main figure of every system, and the smallest and largest of the conventions.
pub fn spread(report: &RunReport) -> Option<Table> {
    let row = |one: &SystemSpread| {
        vec![
            one.system.clone(),
            one.measure.title().to_string(),
            percent(one.spread.main),
            percent(Some(one.spread.min)),
            one.spread.min_mode.clone(),
            percent(Some(one.spread.max)),
            one.spread.max_mode.clone(),
            count(one.spread.modes as u64),
        ]
    };
    let shown = report.spread.iter().filter(|one| shown(one.measure));
    let rows: Vec<Vec<String>> = shown.map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: "spread",
        caption: "The same predictions under every published convention of counting: the main figure (strict), and the \
                  least and the largest F1 with the convention that prints it. Compare with a paper only under its own."
            .into(),
        head: names(&["System", "Measure", "Main", "Least", "by", "Largest", "by", "Conventions"]),
        rows,
    })
}

/// Arguments and triggers have few conventions; they stand in `score --mode all`.
fn shown(measure: Measure) -> bool {
    matches!(measure, Measure::Entities | Measure::Relations | Measure::Events)
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
    measures.into_iter().filter_map(|(measure, id)| of(measure, id)).collect()
}
