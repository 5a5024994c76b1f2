//! 7. One page per run: what it cost, what it found, and whether the student can stand in.
//!
//! A [`RunReport`] is a value and a file ([`RUN_REPORT`]); [`pages`] writes it as Markdown, as one
//! self-contained HTML page, as CSV and as the student's model card, [`harness`] as the results and
//! samples of an evaluation harness. Deliberately absent: the disk, the clock, the model.

mod calibration;
mod card;
mod csv;
mod error_tables;
mod flow;
mod hardest;
pub mod harness;
mod html;
mod markdown;
mod number;
mod run;
mod spread_tables;
mod stages;
mod svg;
mod tables;
mod text;
mod verdict_tables;

pub use crate::eval::economics::{CostModel, OneOff, Price};
pub use calibration::Calibration;
pub use card::Card;
pub use csv::CsvError;
pub use flow::Flow;
pub use run::{Fact, RunReport, Split, Stage, TrainingPoint};
pub use stages::{readings, stages};
pub use text::text;

/// The serialised [`RunReport`] in a run directory.
pub const RUN_REPORT: &str = "run_report.json";

/// The student's model card in a run directory; the adapter stands beside it.
pub const MODEL_CARD: &str = "adapter/README.md";

/// A file of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its name in the run directory.
    pub name: &'static str,
    /// Its whole text.
    pub text: String,
}

/// Every page of a report; equal reports give equal bytes.
///
/// # Errors
/// If the comparison does not fit a table.
pub fn pages(report: &RunReport) -> Result<Vec<Page>, CsvError> {
    let mut pages = vec![
        Page { name: "report.md", text: markdown::markdown(report) },
        Page { name: "report.html", text: html::html(report) },
    ];
    if let Some(of) = &report.card {
        pages.push(Page { name: MODEL_CARD, text: card::card(report, of) });
    }
    if let Some(comparison) = &report.comparison {
        pages.push(Page { name: "report.csv", text: csv::csv(comparison)? });
    }
    Ok(pages)
}

#[cfg(test)]
mod tests;
