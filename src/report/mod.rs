//! 7. One page per run: what it cost, what it found, and whether the student can stand in.
//!
//! A [`RunReport`] is a value and a file ([`RUN_REPORT`]); [`pages`] writes it as Markdown, as one
//! self-contained HTML page and as CSV. Deliberately absent: the disk, the clock, the model.

mod csv;
mod error_tables;
mod hardest;
mod html;
mod markdown;
mod number;
mod run;
mod stages;
mod svg;
mod tables;
mod text;
mod verdict_tables;

pub use crate::eval::economics::{CostModel, OneOff, Price};
pub use csv::CsvError;
pub use run::{Fact, RunReport, Split, Stage, TrainingPoint};
pub use stages::{readings, stages};
pub use text::text;

/// The serialised [`RunReport`] in a run directory.
pub const RUN_REPORT: &str = "run_report.json";

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
    if let Some(comparison) = &report.comparison {
        pages.push(Page { name: "report.csv", text: csv::csv(comparison)? });
    }
    Ok(pages)
}

#[cfg(test)]
mod tests;
