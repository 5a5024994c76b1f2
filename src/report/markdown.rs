//! `report.md`: the page as text, for a terminal, a diff or a pull request.

use super::run::RunReport;
use super::tables::{self, Table};
use super::{error_tables, spread_tables, verdict_tables};
use crate::eval::verdict::Measure;

/// The report as Markdown.
pub fn markdown(report: &RunReport) -> String {
    let mut out = format!("# {}\n\n**{}**\n", text(&report.title), text(&report.headline()));
    if let Some(comparison) = &report.comparison {
        section(&mut out, "Student and team", &[tables::scores(comparison)]);
        out += "\n";
        listed(&mut out, &tables::verdicts(comparison));
        let tables: Vec<Table> =
            [tables::spending(comparison, report.cost.as_ref())].into_iter().chain(tables::once(report)).collect();
        section(&mut out, "What a document takes", &tables);
        let said = [
            verdict_tables::tests(comparison),
            verdict_tables::seeds(comparison),
            verdict_tables::types_apart(comparison),
        ];
        section(&mut out, "What the sample can say", &said.into_iter().flatten().collect::<Vec<_>>());
        let cautions = comparison.cautions();
        if !cautions.is_empty() {
            out += "\n";
        }
        listed(&mut out, &cautions);
        section(&mut out, "Under other conventions", &Vec::from_iter(spread_tables::spread(report)));
        let usage: Vec<Table> = report.economics().iter().map(verdict_tables::usage).collect();
        section(&mut out, "What it is worth", &usage);
    }
    if !report.notes.is_empty() {
        out += "\n## Before you believe a number\n\n";
        listed(&mut out, &report.notes);
    }
    section(&mut out, "By type", &Vec::from_iter(tables::by_type(report)));
    if let Some(analysis) = &report.analysis {
        let wrong = [
            error_tables::errors(analysis),
            error_tables::measured(analysis, Measure::Relations),
            error_tables::measured(analysis, Measure::Triggers),
            error_tables::measured(analysis, Measure::Arguments),
            error_tables::confusions(analysis, &[&report.team, &report.student]),
            error_tables::transitions(analysis),
            error_tables::transition_kinds(analysis),
        ];
        section(&mut out, "What goes wrong", &wrong.into_iter().flatten().collect::<Vec<_>>());
        section(&mut out, "What training did not show", &Vec::from_iter(error_tables::subsets(analysis)));
        section(&mut out, "The hardest documents", &Vec::from_iter(error_tables::hardest(analysis)));
    }
    section(&mut out, "How sure the answers are", &Vec::from_iter(tables::reliability(report)));
    training(&mut out, report);
    let made: Vec<Table> = tables::corpus(report)
        .into_iter()
        .chain(tables::stages(report))
        .chain(tables::kept_and_dropped(report))
        .chain(tables::flows(report))
        .collect();
    section(&mut out, "How the corpus was made", &made);
    if !report.config.is_empty() || !report.hardware.is_empty() {
        out += "\n## Configuration\n\n";
        for fact in &report.config {
            out += &format!("- {}: {}\n", text(&fact.name), text(&fact.value));
        }
        if !report.hardware.is_empty() {
            out += &format!("- hardware: {}\n", text(&report.hardware));
        }
    }
    out
}

fn training(out: &mut String, report: &RunReport) {
    if let Some(said) = super::svg::loss_summary(&report.training) {
        *out += &format!("\n## Training\n\n{said}\n");
    }
}

/// A section of tables; nothing without any.
pub(super) fn section(out: &mut String, name: &str, tables: &[Table]) {
    if tables.is_empty() {
        return;
    }
    *out += &format!("\n## {name}\n");
    for table in tables {
        *out += &format!("\n{}\n\n", text(&table.caption));
        *out += &line(&table.head.iter().map(|one| text(one)).collect::<Vec<_>>());
        let rule = |at: usize| if at == 0 { "---" } else { "---:" }.to_string();
        *out += &line(&(0..table.head.len()).map(rule).collect::<Vec<_>>());
        for row in &table.rows {
            *out += &line(&row.iter().map(|cell| text(cell)).collect::<Vec<_>>());
        }
    }
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Sentences as a list.
pub(super) fn listed(out: &mut String, said: &[String]) {
    for one in said {
        *out += &format!("- {}\n", text(one));
    }
}

/// Text that Markdown takes literally and on one line: names and labels come from outside.
pub(super) fn text(raw: &str) -> String {
    let mut out = String::new();
    for c in raw.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '|' | '[' | ']' | '#' | '<' | '>' | '&' | '~' => {
                // An underscore between letters is literal in every dialect, and names are full of them.
                let inside_word = c == '_' && out.chars().last().is_some_and(char::is_alphanumeric);
                let literal = inside_word || matches!(c, '[' | ']') && !raw.contains("](");
                if !literal {
                    out.push('\\');
                }
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_text() {
        assert_eq!(text("a|b\n<script>"), "a\\|b \\<script\\>");
        assert_eq!(text("[x](http://y)"), "\\[x\\](http://y)");
        assert_eq!(text("type_agents +1 [0, 2]"), "type_agents +1 [0, 2]");
    }
}
