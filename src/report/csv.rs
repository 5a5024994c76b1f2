//! The comparison as CSV for whoever wants to draw it anew: one row a system, fractions in full,
//! empty where nothing can be said.

use crate::eval::compare::{Difference, Row};
use crate::eval::{Comparison, Interval};
use polars::prelude::*;

/// A comparison that does not fit a table.
#[derive(Debug, thiserror::Error)]
#[error("report.csv: {0}")]
pub struct CsvError(#[from] PolarsError);

/// The comparison as a data frame.
fn frame(comparison: &Comparison) -> PolarsResult<DataFrame> {
    let rows = &comparison.systems;
    let text = |name: &str, pick: &dyn Fn(&Row) -> String| {
        Column::new(name.into(), rows.iter().map(pick).collect::<Vec<String>>())
    };
    let whole =
        |name: &str, pick: &dyn Fn(&Row) -> u64| Column::new(name.into(), rows.iter().map(pick).collect::<Vec<u64>>());
    let real = |name: &str, pick: &dyn Fn(&Row) -> Option<f64>| {
        Column::new(
            name.into(),
            rows.iter().map(|row| pick(row).filter(|value| value.is_finite())).collect::<Vec<Option<f64>>>(),
        )
    };
    let low = |interval: Option<Interval>| interval.map(|interval| interval.low);
    let high = |interval: Option<Interval>| interval.map(|interval| interval.high);
    let between = |difference: Option<Difference>| difference.map(|difference| difference.interval);
    let mut columns = vec![
        text("system", &|row| row.name.clone()),
        whole("documents", &|row| row.scores.documents),
        whole("failed", &|row| row.scores.failed),
    ];
    for (task, pick) in [("ner", true), ("re", false)] {
        let counts = move |row: &Row| if pick { row.scores.entities } else { row.scores.relations };
        let interval = move |row: &Row| if pick { row.entities_interval } else { row.relations_interval };
        let difference = move |row: &Row| if pick { row.entities_difference } else { row.relations_difference };
        columns.extend([
            whole(&format!("{task}_tp"), &|row| counts(row).tp),
            whole(&format!("{task}_fp"), &|row| counts(row).fp),
            whole(&format!("{task}_fn"), &|row| counts(row).fn_),
            real(&format!("{task}_precision"), &|row| counts(row).precision()),
            real(&format!("{task}_recall"), &|row| counts(row).recall()),
            real(&format!("{task}_f1"), &|row| counts(row).f1()),
            real(&format!("{task}_f1_low"), &|row| low(interval(row))),
            real(&format!("{task}_f1_high"), &|row| high(interval(row))),
            real(&format!("{task}_difference"), &|row| difference(row).map(|found| found.f1)),
            real(&format!("{task}_difference_low"), &|row| low(between(difference(row)))),
            real(&format!("{task}_difference_high"), &|row| high(between(difference(row)))),
        ]);
    }
    columns.extend([
        whole("calls", &|row| row.calls),
        real("prompt_tokens_per_document", &|row| row.prompt_tokens),
        real("completion_tokens_per_document", &|row| row.completion_tokens),
        real("seconds_per_document_mean", &|row| row.seconds_mean),
        real("seconds_per_document_p50", &|row| row.seconds_p50),
    ]);
    DataFrame::new(rows.len(), columns)
}

/// Writes the comparison; commas and quotes in a name are quoted.
///
/// # Errors
/// If polars refuses the frame.
pub fn csv(comparison: &Comparison) -> Result<String, CsvError> {
    let mut bytes = Vec::new();
    CsvWriter::new(&mut bytes).include_header(true).finish(&mut frame(comparison)?)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
