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
#[command(after_help = "\
Example:
  echo '{\"person\":[\"Ann\"]}' | understudy answer --schema data/sample/schema.toml --text 'Ann left.'")]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ie::{EntityType, RelationType, Schema};

    fn schema() -> Schema {
        let entity = |label: &str| EntityType {
            label: label.into(),
            definition: String::new(),
            aliases: vec![],
            examples: vec![],
        };
        let works_for = RelationType {
            label: "works_for".into(),
            definition: String::new(),
            head: vec!["PER".into()],
            tail: vec!["ORG".into()],
            symmetric: false,
            aliases: vec![],
        };
        Schema { entities: vec![entity("PER"), entity("ORG")], relations: vec![works_for], events: vec![] }
    }

    const TEXT: &str = "Zoë left Acme.";
    const RAW: &str = r#"{"entities":[{"text":"Zoë","type":"PER","confidence":0.8},{"text":"Acme","type":"ORG"},{"text":"Bonn","type":"LOC"}],
        "relations":[{"type":"works_for","head":"Zoë","tail":"Acme"}],}"#;

    #[test]
    fn the_listing_names_everything_kept_mended_and_dropped() {
        let reading = read_bytes(RAW.as_bytes(), FinishReason::Stop, TEXT, &schema());
        let expected = "ok\n  entity    PER  Zoë  0..3  0.80\n  entity    ORG  Acme  9..13\n  relation  works_for  Zoë -> Acme\n  repair    trailing comma\n  dropped   Bonn: unknown label \"LOC\"\n";
        assert_eq!(as_listing(&reading, TEXT), expected);
        let cut = read_bytes(RAW.as_bytes(), FinishReason::Length, TEXT, &schema());
        assert_eq!(as_listing(&cut, TEXT), "failed: cut off: the model ran into its token limit\n");
    }

    #[test]
    fn the_json_has_code_points_and_no_error_where_there_is_none() {
        let reading = read_bytes(br#"{"ORG":["Acme"]}"#, FinishReason::Stop, TEXT, &schema());
        let expected = r#"{"status":"ok","extraction":{"entities":[{"type":"ORG","text":"Acme","start":9,"end":13}],"relations":[],"events":[]},"repairs":[],"dropped":[]}"#;
        assert_eq!(as_json(reading, TEXT).unwrap(), expected.to_owned() + "\n");
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_replaced_and_noted() {
        let reading = read_bytes(b"{\"PER\":[\"Zo\xff\"],\"ORG\":[\"Acme\"]}", FinishReason::Stop, TEXT, &schema());
        assert_eq!(reading.repairs, ["bytes that are not UTF-8 replaced"]);
        assert_eq!((reading.provenance, reading.dropped.len()), (vec![None], 1));
    }
}
