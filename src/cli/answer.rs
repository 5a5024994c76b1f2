//! `answer`: reads one raw model answer on stdin as the pipeline would.

use super::{Common, Outcome, usage};
use crate::config::schema_file::read_schema;
use crate::ie::Status;
use crate::ie::record::ExtractionRecord;
use crate::template::answer::{Dropped, Finish, MAX_ANSWER, Reading, read_answer};
use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use std::io::{Read, Write};
use std::path::PathBuf;

/// What is read, and of which text.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The asked labels, TOML or JSON
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
    /// The text that the answer is about
    #[arg(long, required_unless_present = "text_file", conflicts_with = "text_file")]
    text: Option<String>,
    /// The same from a UTF-8 file, as is
    #[arg(long, value_name = "FILE")]
    text_file: Option<PathBuf>,
    /// Why the model stopped, as the server said
    #[arg(long, value_enum, default_value_t = FinishReason::Stop, value_name = "REASON")]
    finish_reason: FinishReason,
}

/// A server's finish reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum FinishReason {
    /// By itself
    Stop,
    /// At the token limit
    Length,
    /// By the server's filter
    ContentFilter,
}

/// The result as printed with `--json`.
#[derive(Serialize)]
struct Printed {
    status: Status,
    extraction: ExtractionRecord,
    repairs: Vec<String>,
    dropped: Vec<Dropped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Reads the answer and prints what it comes to; a failed answer is a result, not an error.
///
/// # Errors
/// If the schema, the text or stdin cannot be read.
pub fn run(args: &Args, common: &Common) -> anyhow::Result<Outcome> {
    let schema = read_schema(&args.schema).map_err(|error| usage(error.to_string()))?;
    let text = match (&args.text, &args.text_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => {
            std::fs::read_to_string(path).map_err(|error| usage(format!("{}: {error}", path.display())))?
        }
        (None, None) => return Err(usage("give --text or --text-file")),
    };
    let mut bytes = Vec::new();
    let most = MAX_ANSWER as u64 + 1; // one more than is read, so that longer answers are known as such
    std::io::stdin().lock().take(most).read_to_end(&mut bytes).context("stdin: the answer cannot be read")?;
    let reading = read_bytes(&bytes, args.finish_reason, &text, &schema);
    let printed = if common.json { as_json(reading, &text)? } else { as_listing(&reading, &text) };
    std::io::stdout().lock().write_all(printed.as_bytes()).context("stdout: the reading cannot be printed")?;
    Ok(Outcome::Done)
}

fn read_bytes(bytes: &[u8], finish: FinishReason, text: &str, schema: &crate::ie::Schema) -> Reading {
    let finish = match finish {
        FinishReason::Stop => Finish::Stop,
        FinishReason::Length => Finish::Length,
        FinishReason::ContentFilter => Finish::ContentFilter,
    };
    let raw = String::from_utf8_lossy(bytes);
    let mut reading = read_answer(&raw, finish, text, schema);
    if matches!(raw, std::borrow::Cow::Owned(_)) {
        reading.provenance.fill(None);
        reading.repairs.insert(0, "bytes that are not UTF-8 replaced".into());
    }
    reading
}

fn as_json(reading: Reading, text: &str) -> anyhow::Result<String> {
    let Reading { status, extraction, repairs, dropped, error, .. } = reading;
    let printed = Printed { status, extraction: ExtractionRecord::of(&extraction, text), repairs, dropped, error };
    Ok(serde_json::to_string(&printed)? + "\n")
}

fn as_listing(reading: &Reading, text: &str) -> String {
    let status = match reading.status {
        Status::Ok => "ok",
        Status::Empty => "empty",
        Status::Failed => "failed",
        Status::Refused => "refused",
    };
    let mut lines = vec![match &reading.error {
        Some(error) => format!("{status}: {error}"),
        None => status.to_owned(),
    }];
    let place = |span: Option<crate::ie::Span>| match span.map(|span| span.to_code_points(text)) {
        Some((start, end)) => format!("{start}..{end}"),
        None => "nowhere".into(),
    };
    let found = &reading.extraction;
    let name = |at: usize| found.entities.get(at).map_or("?", |entity| entity.text.as_str());
    for entity in &found.entities {
        let sure = entity.confidence.map(|c| format!("  {:.2}", c.value())).unwrap_or_default();
        lines.push(format!("  entity    {}  {}  {}{sure}", entity.label, entity.text, place(entity.span)));
    }
    for relation in &found.relations {
        lines.push(format!("  relation  {}  {} -> {}", relation.label, name(relation.head), name(relation.tail)));
    }
    for event in &found.events {
        lines.push(format!("  event     {}  {}  {}", event.label, event.trigger.text, place(event.trigger.span)));
        for argument in &event.arguments {
            lines.push(format!("    {}  {}  {}", argument.role, argument.text, place(argument.span)));
        }
    }
    lines.extend(reading.repairs.iter().map(|repair| format!("  repair    {repair}")));
    lines.extend(reading.dropped.iter().map(|dropped| format!("  dropped   {}: {}", dropped.item, dropped.reason)));
    lines.join("\n") + "\n"
}
