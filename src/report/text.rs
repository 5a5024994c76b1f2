//! Tables for a terminal: what `compare` says beneath its scores.

use super::run::RunReport;
use super::tables::Table;
use super::{error_tables, spread_tables, tables, verdict_tables};
use crate::eval::table::align;
use crate::eval::verdict::Measure;

/// Columns of a caption, as wide as a terminal is as a rule.
const COLUMNS: usize = 100;

/// Tests, cautions, economics and errors of a comparison; what a report does not hold is left out.
pub fn text(report: &RunReport) -> String {
    let mut out = String::new();
    let mut add = |of: Option<Table>| {
        if let Some(of) = of {
            let rows: Vec<Vec<String>> = [of.head].into_iter().chain(of.rows).collect();
            out += &format!("\n{}\n{}", wrapped(&of.caption), align(&rows));
        }
    };
    if let Some(comparison) = &report.comparison {
        add(verdict_tables::tests(comparison));
        add(verdict_tables::seeds(comparison));
        add(verdict_tables::types_apart(comparison).filter(|table| !table.rows.is_empty()));
        add(spread_tables::spread(report));
        add(report.economics().map(|found| verdict_tables::usage(&found)));
    }
    if let Some(analysis) = &report.analysis {
        add(error_tables::errors(analysis));
        for measure in [Measure::Relations, Measure::Triggers, Measure::Arguments] {
            add(error_tables::measured(analysis, measure));
        }
        add(error_tables::confusions(analysis, &[&report.team, &report.student]));
        add(error_tables::transitions(analysis));
        add(error_tables::transition_kinds(analysis));
        add(error_tables::subsets(analysis));
        add(error_tables::hardest(analysis));
    }
    add(tables::reliability(report));
    let cautions = report.comparison.as_ref().map(|comparison| comparison.cautions()).unwrap_or_default();
    for caution in cautions {
        out += &format!("\n{}", wrapped(&format!("warning: {caution}")));
    }
    out
}

/// Broken between words.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let long = word.chars().count();
        if used > 0 && used + 1 + long > COLUMNS {
            out.push('\n');
            used = 0;
        }
        if used > 0 {
            out.push(' ');
            used += 1;
        }
        out += word;
        used += long;
    }
    out.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect::<String>() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_a_long_word_stays_whole() {
        let long = "x".repeat(120);
        let text = wrapped(&format!("a {long} {}", "word ".repeat(30)));
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS || line == long), "{text}");
        assert_eq!(text.lines().next(), Some("a"));
    }
}
