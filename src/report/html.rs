//! `report.html`: one file that needs no network and no script, on a phone as on a desk.

use super::number::{count, factor_digits, interval, percent, times};
use super::run::RunReport;
use super::svg::{self, escape};
use super::tables::{self, Table};
use super::{error_tables, hardest, spread_tables, verdict_tables};
use crate::eval::verdict::Measure;

const STYLE: &str = include_str!("page.css");
/// Tables with more columns are set tighter.
const WIDE: usize = 8;
/// Debates that are drawn, by the ids of their plots.
const FLOWS: [&str; 2] = ["plot-flow", "plot-flow-2"];
const SORTING: &str = include_str!("sort.js");

/// The report as one HTML page.
pub fn html(report: &RunReport) -> String {
    let mut body = String::new();
    head(&mut body, report);
    systems(&mut body, report);
    let notes = report.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect::<String>();
    section(&mut body, "notes", "Before you believe a number", &wrapped("<ul>", &notes, "</ul>"));
    verdict(&mut body, report);
    conventions(&mut body, report);
    economics(&mut body, report);
    by_type(&mut body, report);
    errors(&mut body, report);
    unseen(&mut body, report);
    hard(&mut body, report);
    sure(&mut body, report);
    training(&mut body, report);
    debate(&mut body, report);
    corpus(&mut body, report);
    configuration(&mut body, report);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>{} — understudy</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the results</a>\n{body}</main>\n<script>\n{SORTING}</script>\n</body>\n</html>\n",
        escape(&report.title)
    )
}

fn head(out: &mut String, report: &RunReport) {
    *out += &format!(
        "<header>\n<p class=\"run\">understudy run report</p>\n<h1>{}</h1>\n<p class=\"verdict\">{}</p>\n{}</header>\n<main id=\"main\">\n",
        escape(&report.title),
        escape(&report.headline()),
        key_numbers(report)
    );
}

/// Four numbers at most, each with what it means.
fn key_numbers(report: &RunReport) -> String {
    let (Some(student), Some(team)) = (report.student_row(), report.team_row()) else { return String::new() };
    let mut tiles = vec![
        (
            "student",
            "Student NER F1".to_string(),
            percent(student.scores.entities.f1()),
            interval(student.entities_interval),
        ),
        ("team", "Team NER F1".to_string(), percent(team.scores.entities.f1()), interval(team.entities_interval)),
    ];
    if let Some(factor) = times(team.tokens(), student.tokens()) {
        let (factor, what) = if factor >= 1.0 { (factor, "fewer") } else { (1.0 / factor, "more") };
        tiles.push((
            "plain",
            format!("{what} tokens per document"),
            format!("{}×", factor_digits(factor)),
            "student against team".into(),
        ));
    }
    if let Some(documents) = report.break_even() {
        tiles.push((
            "plain",
            "documents to break even".into(),
            count(documents),
            "money saved covers the training".into(),
        ));
    } else if let Some(factor) = times(team.seconds_mean, student.seconds_mean) {
        let (factor, what) = if factor >= 1.0 { (factor, "less") } else { (1.0 / factor, "more") };
        tiles.push((
            "plain",
            format!("{what} time per document"),
            format!("{}×", factor_digits(factor)),
            "student against team".into(),
        ));
    }
    let tile = |(class, name, value, more): (&str, String, String, String)| {
        format!(
            "<div class=\"key-{class}\"><dt>{}</dt><dd>{}</dd><dd class=\"more\">{}</dd></div>",
            escape(&name),
            escape(&value),
            escape(&more)
        )
    };
    format!("<dl class=\"keys\">{}</dl>\n", tiles.into_iter().map(tile).collect::<String>())
}

fn systems(out: &mut String, report: &RunReport) {
    let Some(comparison) = &report.comparison else { return };
    let plot = svg::scatter(comparison, &report.team, &report.student, report.cost.as_ref());
    let caption = "What a system finds over what a document takes it. Up and to the left is better; whiskers are 95 % intervals, and the line joins the systems that no other beats for less.";
    let verdicts =
        tables::verdicts(comparison).iter().map(|said| format!("<li>{}</li>", escape(said))).collect::<String>();
    let mut parts = beside(&figure(plot, caption), &wrapped("<ul>", &verdicts, "</ul>"));
    parts += &table(&tables::scores(comparison));
    parts += &table(&tables::spending(comparison, report.cost.as_ref()));
    parts += &tables::once(report).map(|once| table(&once)).unwrap_or_default();
    section(out, "systems", "Student and team", &parts);
}

/// What can be said of every system, and what cannot.
fn verdict(out: &mut String, report: &RunReport) {
    let Some(comparison) = &report.comparison else { return };
    let cautions = comparison.cautions();
    let cautions = cautions.iter().map(|said| format!("<li>{}</li>", escape(said))).collect::<String>();
    let mut parts = verdict_tables::tests(comparison).map(|one| table(&one)).unwrap_or_default();
    parts += &wrapped("<ul>", &cautions, "</ul>");
    parts += &verdict_tables::seeds(comparison).map(|one| table(&one)).unwrap_or_default();
    parts += &verdict_tables::types_apart(comparison).map(|one| table(&one)).unwrap_or_default();
    section(out, "verdict", "What the sample can say", &parts);
}

/// The main figure beside what others would print.
fn conventions(out: &mut String, report: &RunReport) {
    let mut parts = spread_tables::spread(report).map(|one| table(&one)).unwrap_or_default();
    let all: String = spread_tables::conventions(report).iter().map(table).collect();
    parts += &wrapped("<details class=\"hard\"><summary>Every convention</summary>", &all, "</details>");
    section(out, "conventions", "Under other conventions", &parts);
}

/// Whether confidences hold.
fn sure(out: &mut String, report: &RunReport) {
    let caption = "Share of right items over confidence; on the dashed diagonal both agree, below it the system is too \
                   sure. A larger dot stands for more items.";
    let said = tables::reliability(report).map(|one| table(&one)).unwrap_or_default();
    section(out, "sure", "How sure the answers are", &beside(&figure(svg::reliability(report), caption), &said));
}

/// What debating changed, and how conflicts ended.
fn debate(out: &mut String, report: &RunReport) {
    let rounds = report.analysis.as_ref().and_then(|analysis| svg::rounds(analysis, &report.team));
    let caption = "F1 of what the team would have answered after each stage of its debate on the test documents.";
    let flows: Vec<String> = (report.flows.iter().take(FLOWS.len()).zip(FLOWS))
        .map(|(flow, id)| figure(Some(svg::flow(flow, id)), &format!("What became of the conflicts: {}.", flow.name)))
        .collect();
    let [first, second] = [0, 1].map(|at| flows.get(at).map_or("", String::as_str));
    let mut parts = beside(first, second) + &figure(rounds, caption);
    parts += &tables::flows(report).map(|one| table(&one)).unwrap_or_default();
    section(out, "debate", "What the debate did", &parts);
}

fn economics(out: &mut String, report: &RunReport) {
    let parts = report.economics().map(|found| table(&verdict_tables::usage(&found))).unwrap_or_default();
    section(out, "economics", "What it is worth", &parts);
}

fn errors(out: &mut String, report: &RunReport) {
    let Some(analysis) = &report.analysis else { return };
    let caption = "Entity errors by kind, for every system and every stage of the debate.";
    let mut parts = beside(
        &figure(svg::kinds(analysis), caption),
        &error_tables::confusions(analysis, &[&report.team, &report.student])
            .map(|one| table(&one))
            .unwrap_or_default(),
    );
    let tables = [
        error_tables::errors(analysis),
        error_tables::measured(analysis, Measure::Relations),
        error_tables::measured(analysis, Measure::Triggers),
        error_tables::measured(analysis, Measure::Arguments),
        error_tables::transitions(analysis),
        error_tables::transition_kinds(analysis),
    ];
    parts += &tables.iter().flatten().map(table).collect::<String>();
    section(out, "errors-made", "What goes wrong", &parts);
}

fn unseen(out: &mut String, report: &RunReport) {
    let parts = report.analysis.as_ref().and_then(error_tables::subsets).map(|one| table(&one)).unwrap_or_default();
    section(out, "unseen", "What training did not show", &parts);
}

fn hard(out: &mut String, report: &RunReport) {
    let parts = report.analysis.as_ref().map(hardest::hardest).unwrap_or_default();
    section(out, "hardest", "The hardest documents", &parts);
}

fn training(out: &mut String, report: &RunReport) {
    let curve = svg::loss(&report.training);
    let said = svg::loss_summary(&report.training).map(|said| format!("<p>{}</p>", escape(&said))).unwrap_or_default();
    let caption = "Mean loss per supervised token, and entity F1 on the validation split, by optimiser step.";
    section(out, "training", "Training", &beside(&figure(curve, caption), &said));
}

fn corpus(out: &mut String, report: &RunReport) {
    let whole = tables::corpus(report).into_iter().chain(tables::stages(report));
    let whole = whole.map(|one| table(&one)).collect::<String>();
    let parts: Vec<String> = tables::kept_and_dropped(report).iter().map(table).collect();
    let [kept, dropped] = [0, 1].map(|at| parts.get(at).map_or("", String::as_str));
    section(out, "corpus-made", "How the corpus was made", &(whole + &beside(kept, dropped)));
}

fn by_type(out: &mut String, report: &RunReport) {
    let types = tables::types(report);
    let plot = svg::bars(&types);
    let caption = "F1 by entity type, most frequent type first; whiskers are 95 % intervals. A type with few gold items \
                   moves by chance.";
    let scores = tables::by_type(report).map(|one| table(&one)).unwrap_or_default();
    let kept = "Items of a type that the student was taught, and F1 on it; whiskers are 95 % intervals.";
    let plots = beside(&figure(plot, caption), &figure(svg::cases(report), kept));
    section(out, "types", "By type", &(plots + &scores));
}

fn configuration(out: &mut String, report: &RunReport) {
    let fact = |name: &str, value: &str| format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
    let mut facts = report.config.iter().map(|one| fact(&one.name, &one.value)).collect::<String>();
    if !report.hardware.is_empty() {
        facts += &fact("hardware", &report.hardware);
    }
    section(out, "configuration", "Configuration", &wrapped("<dl class=\"facts\">", &facts, "</dl>"));
}

/// `inner` between two tags; nothing if there is nothing inside.
fn wrapped(open: &str, inner: &str, close: &str) -> String {
    if inner.is_empty() { String::new() } else { format!("{open}{inner}{close}\n") }
}

/// Two parts side by side where there is room, else one below the other.
fn beside(first: &str, second: &str) -> String {
    let parts = wrapped("<div>", first, "</div>") + &wrapped("<div>", second, "</div>");
    wrapped("<div class=\"beside\">", &parts, "</div>")
}

fn section(out: &mut String, id: &str, name: &str, parts: &str) {
    if !parts.is_empty() {
        *out += &format!("<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{name}</h2>\n{parts}</section>\n");
    }
}

fn figure(plot: Option<String>, caption: &str) -> String {
    plot.map_or_else(String::new, |plot| {
        format!("<figure>{plot}<figcaption>{}</figcaption></figure>\n", escape(caption))
    })
}

/// A table that scrolls sideways in its own frame, reachable by keyboard.
fn table(of: &Table) -> String {
    let id = of.id;
    let head = of.head.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name))).collect::<String>();
    let row = |cells: &Vec<String>| {
        let cell = |(at, cell): (usize, &String)| match at {
            0 => format!("<th scope=\"row\">{}</th>", escape(cell)),
            _ => format!("<td>{}</td>", escape(cell)),
        };
        format!("<tr>{}</tr>\n", cells.iter().enumerate().map(cell).collect::<String>())
    };
    let rows = of.rows.iter().map(row).collect::<String>();
    let class = if of.head.len() > WIDE { " class=\"wide\"" } else { "" };
    format!(
        "<div class=\"scroll\" role=\"region\" aria-labelledby=\"caption-{id}\" tabindex=\"0\"><table{class}>\n<caption id=\"caption-{id}\"><span>{}</span></caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n",
        escape(&of.caption)
    )
}
