//! Scores and comparisons as aligned plain text: percents to two decimals, a dash where nothing
//! can be said.

use super::compare::{Comparison, Row};
use super::counts::{Counts, Scores};
use super::{Interval, Mode};
use std::collections::BTreeMap;

/// What stands where there is no number.
pub const NOTHING: &str = "–";

/// A fraction as percent with two decimals.
pub fn percent(fraction: Option<f64>) -> String {
    fraction.map_or_else(|| NOTHING.to_string(), |fraction| plain(fraction * 100.0, 2))
}

/// A number with a true minus sign, and no sign on a zero.
pub fn plain(value: f64, decimals: usize) -> String {
    let written = format!("{value:.decimals$}");
    match written.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_string(),
        Some(rest) => format!("−{rest}"),
        None => written,
    }
}

/// As [`plain`], with a plus where it is above zero.
pub fn signed(value: f64, decimals: usize) -> String {
    let written = plain(value, decimals);
    let is_zero = written.chars().all(|c| matches!(c, '0' | '.'));
    if is_zero || written.starts_with('−') { written } else { format!("+{written}") }
}

/// An interval in percent: `[61.20, 74.90]`.
pub fn interval(of: Option<Interval>) -> String {
    of.map_or_else(String::new, |of| format!("[{}, {}]", plain(of.low * 100.0, 2), plain(of.high * 100.0, 2)))
}

/// Columns that a terminal gives the text; East Asian wide characters take two.
fn width(text: &str) -> usize {
    let wide = |c: char| matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}' | '\u{1f300}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}');
    text.chars().map(|c| if wide(c) { 2 } else { 1 }).sum()
}

/// Control characters of a hostile label, made visible: a table is one line a row.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Aligns rows into columns: the first to the left, the others to the right.
pub fn align(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let fill = " ".repeat(widths[column] - width(cell));
            if column == 0 {
                line += &format!("{cell}{fill}");
            } else {
                line += &format!("  {fill}{cell}");
            }
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

fn counted(name: String, counts: &Counts) -> Vec<String> {
    vec![
        name,
        percent(counts.precision()),
        percent(counts.recall()),
        percent(counts.f1()),
        counts.tp.to_string(),
        counts.fp.to_string(),
        counts.fn_.to_string(),
    ]
}

/// The table of `score`: every measure, then the same by type.
pub fn scores(scores: &Scores, mode: Mode) -> String {
    let row = |cells: [&str; 7]| cells.map(String::from).to_vec();
    let mut rows = vec![row(["", "precision", "recall", "F1", "tp", "fp", "fn"])];
    let events = &scores.events;
    let entities = if mode == Mode::Strict { "entities" } else { "entities, boundaries" };
    for (name, counts) in [
        (entities, &scores.entities),
        ("relations", &scores.relations),
        ("relations, boundaries", &scores.relations_boundaries),
        ("triggers, identification", &events.trigger_identification),
        ("triggers, classification", &events.trigger_classification),
        ("arguments, identification", &events.argument_identification),
        ("arguments, classification", &events.argument_classification),
    ] {
        rows.push(counted(name.to_string(), counts));
    }
    let mut by_type = |name: &str, types: &BTreeMap<String, Counts>| {
        if !types.is_empty() {
            rows.push(vec![]);
            rows.push(vec![format!("{name} by type")]);
        }
        rows.extend(types.iter().map(|(label, counts)| counted(format!("  {label}"), counts)));
    };
    by_type(entities, &scores.per_type.entities);
    by_type("relations", &scores.per_type.relations);
    by_type("triggers", &scores.per_type.events);
    format!(
        "documents {}, failed {}, mode {}; duplicates collapsed: {} gold, {} predicted\n\n{}",
        scores.documents,
        scores.failed,
        mode.name(),
        scores.duplicates.gold,
        scores.duplicates.pred,
        align(&rows)
    )
}

/// The table of `compare`, and its verdicts.
pub fn comparison(comparison: &Comparison) -> String {
    let head = ["", "NER F1", "95 %", "RE F1", "95 %", "calls/doc", "tokens/doc", "s/doc mean", "p50", "failed"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(comparison.systems.iter().map(compared));
    let mut out = format!(
        "documents {}, reference {}, intervals from {} resamples (seed {})\n\n{}",
        comparison.documents,
        printable(&comparison.reference),
        comparison.resampling.replicates,
        comparison.resampling.seed,
        align(&rows)
    );
    let verdicts = comparison.verdicts();
    if !verdicts.is_empty() {
        out.push('\n');
    }
    for verdict in verdicts {
        out += &printable(&verdict);
        out.push('\n');
    }
    out
}

fn compared(row: &Row) -> Vec<String> {
    let number =
        |value: Option<f64>, decimals| value.map_or_else(|| NOTHING.to_string(), |value| plain(value, decimals));
    vec![
        row.name.clone(),
        percent(row.scores.entities.f1()),
        interval(row.entities_interval),
        percent(row.scores.relations.f1()),
        interval(row.relations_interval),
        plain(row.calls_per_document(), 1),
        number(row.tokens(), 0),
        number(row.seconds_mean, 2),
        number(row.seconds_p50, 2),
        row.scores.failed.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minus_zero_has_no_sign_and_gains_have_one() {
        assert_eq!([plain(-0.04, 1), plain(-1.25, 1), plain(2.0, 1)], ["0.0", "−1.2", "2.0"]);
        assert_eq!(
            [signed(0.0, 1), signed(-0.01, 1), signed(3.06, 1), signed(-3.0, 1)],
            ["0.0", "0.0", "+3.1", "−3.0"]
        );
    }

    #[test]
    fn wide_labels_keep_the_columns_and_control_characters_stay_on_their_line() {
        let rows = [["人物", "1"], ["a\nb", "22"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(align(&rows), "人物   1\na\u{fffd}b   22\n");
    }
}
