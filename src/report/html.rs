//! `report.html`: one file that needs no network and no script, on a phone as on a desk.

use super::number::{count, factor_digits, interval, percent, times};
use super::run::RunReport;
use super::svg::{self, escape};
use super::tables::{self, Table};

const STYLE: &str = include_str!("page.css");
const SORTING: &str = include_str!("sort.js");

/// The report as one HTML page.
pub fn html(report: &RunReport) -> String {
    let mut body = String::new();
    head(&mut body, report);
    if let Some(comparison) = &report.comparison {
        let plot = svg::scatter(comparison, &report.team, &report.student);
        let caption = "What a system finds over what a document takes it. Up and to the left is better; whiskers are 95 % intervals.";
        let mut parts = figure(plot, caption);
        parts += &table(&tables::scores(comparison));
        let verdicts =
            comparison.verdicts().iter().map(|said| format!("<li>{}</li>", escape(said))).collect::<String>();
        if !verdicts.is_empty() {
            parts += &format!("<ul>{verdicts}</ul>");
        }
        parts += &table(&tables::spending(comparison, report.cost.as_ref()));
        parts += &tables::once(report).map(|once| table(&once)).unwrap_or_default();
        section(&mut body, "systems", "Student and team", &parts);
    }
    let notes = report.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect::<String>();
    section(&mut body, "notes", "Before you believe a number", &wrapped("<ul>", &notes, "</ul>"));
    by_type(&mut body, report);
    let curve = svg::loss(&report.training);
    let said = svg::loss_summary(&report.training).unwrap_or_default();
    section(&mut body, "training", "Training", &figure(curve, &said));
    let made =
        tables::corpus(report).into_iter().chain(tables::stages(report)).map(|one| table(&one)).collect::<String>();
    let pair = tables::kept_and_dropped(report).iter().map(table).collect::<String>();
    section(
        &mut body,
        "corpus-made",
        "How the corpus was made",
        &(made + &wrapped("<div class=\"pair\">", &pair, "</div>")),
    );
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

fn by_type(out: &mut String, report: &RunReport) {
    let types = tables::types(report);
    let plot = svg::bars(&types);
    let caption = "F1 by entity type, most frequent type first. A type with few gold items moves by chance.";
    let parts = figure(plot, caption) + &tables::by_type(report).map(|one| table(&one)).unwrap_or_default();
    section(out, "types", "By type", &parts);
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
    format!(
        "<div class=\"scroll\" role=\"region\" aria-labelledby=\"caption-{id}\" tabindex=\"0\"><table>\n<caption id=\"caption-{id}\">{}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n",
        escape(&of.caption)
    )
}
