//! `score`: predictions against gold, and the files that `score` and `compare` read.

use super::{Common, Outcome, usage};
use crate::eval::{Counts, Mode, Rules, Scores, score, table};
use crate::ie::record::{ExtractionRecord, PredictionRecord};
use crate::ie::{Cost, Document, Extraction, Prediction, Schema, Status};
use anyhow::{Context, anyhow, bail};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A longer line is refused: one document of text and gold is never 64 MiB.
const LONGEST_LINE: u64 = 64 << 20;

/// Missing documents named in the warning; the rest is a number.
const NAMED: usize = 10;

/// Arguments of `score`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  understudy score --gold data/test.jsonl --pred run/predictions/student.jsonl --schema schema.toml

gold, one document a line (offsets count code points, end exclusive):
  {\"id\":\"d1\",\"text\":\"Ann left.\",\"gold\":{\"entities\":[{\"type\":\"PER\",\"text\":\"Ann\",\"start\":0,\"end\":3}]}}
prediction, one a line, in any order:
  {\"id\":\"d1\",\"status\":\"ok\",\"extraction\":{\"entities\":[{\"type\":\"PER\",\"text\":\"Ann\",\"start\":0,\"end\":3}]}}

An item is right if its key stands in the gold of the same document:
  entities                   span, type
  relations                  label, span and type of head, span and type of tail
  relations, boundaries      label, span of head, span of tail
  triggers, identification   trigger span
  triggers, classification   trigger span, event type
  arguments, identification  event type, argument span
  arguments, classification  event type, trigger span, role, argument span

Repeated items count once. White space at the edges of a span does not count. A document that
failed, was refused or is not predicted counts as missed. Fractions are null (a dash in the table)
where there is neither gold nor prediction.")]
pub struct Args {
    /// Documents with gold (.jsonl or .jsonl.zst)
    #[arg(long, value_name = "FILE")]
    pub gold: PathBuf,
    /// Predictions of one system (.jsonl or .jsonl.zst)
    #[arg(long, value_name = "FILE", required_unless_present = "self_test")]
    pub pred: Option<PathBuf>,
    /// Schema (.toml or .json); says which relations are symmetric
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// What makes two entities the same: strict (span and type) or boundaries (span)
    #[arg(long, default_value = "strict", value_parser = parse_mode)]
    pub mode: Mode,
    /// Score the gold against itself, reversed and doubled: all must be 100
    #[arg(long, conflicts_with = "pred")]
    pub self_test: bool,
}

/// Reads a mode as clap wants it.
fn parse_mode(name: &str) -> Result<Mode, String> {
    name.parse().map_err(|error: crate::eval::UnknownMode| error.to_string())
}

/// Scores, or tests the scorer on the gold.
///
/// # Errors
/// If a file cannot be read or does not fit the others; each error names file and line.
pub fn run(args: &Args, common: &Common) -> anyhow::Result<Outcome> {
    let schema = args.schema.as_deref().map(read_schema).transpose()?;
    let rules = Rules::new(args.mode, schema.as_ref());
    let documents = read_gold(&args.gold)?;
    let Some(pred) = &args.pred else {
        return self_test(&documents, &rules);
    };
    let predictions = read_predictions(pred, &documents)?;
    let scored = score(&documents, &predictions, &rules)?;
    warn_of_missing(&scored.missing, pred);
    if common.json {
        print!("{}", as_json(&scored.total, args.mode)?);
    } else {
        print!("{}", table::scores(&scored.total, args.mode));
    }
    Ok(Outcome::Done)
}

/// The scores as one line; a mode other than strict says so, that nobody mistakes the numbers.
fn as_json(scores: &Scores, mode: Mode) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(scores)?;
    if let (Some(fields), true) = (value.as_object_mut(), mode != Mode::Strict) {
        fields.insert("mode".into(), mode.name().into());
    }
    Ok(format!("{value}\n"))
}

/// A way to write the same facts differently.
type Change = fn(&mut Extraction);

/// Gold read as a prediction must score 100, in any order and however often it is repeated.
fn self_test(documents: &[Document], rules: &Rules) -> anyhow::Result<Outcome> {
    let changes: [(&str, Change); 3] = [("itself", |_| ()), ("itself reversed", reverse), ("itself doubled", double)];
    for (name, change) in changes {
        let read = documents.iter().map(|document| {
            let mut found = document.gold.clone().unwrap_or_default();
            change(&mut found);
            Prediction::read(document.id.clone(), found, Cost::default())
        });
        let total = score(documents, &read.collect::<Vec<_>>(), rules)?.total;
        if let Some((measure, counts)) = measures(&total).into_iter().find(|(_, counts)| counts.fp + counts.fn_ > 0) {
            bail!(
                "self-test: gold against {name} gives {measure} {} instead of 100.00 (tp {}, fp {}, fn {}); gold items without start and end never count as right",
                table::percent(counts.f1()),
                counts.tp,
                counts.fp,
                counts.fn_
            );
        }
        println!("gold against {name}: 100.00 on every measure");
    }
    println!("self-test passed on {} documents", documents.len());
    Ok(Outcome::Done)
}

fn reverse(found: &mut Extraction) {
    found.entities.reverse();
    let last = found.entities.len().saturating_sub(1);
    for relation in &mut found.relations {
        (relation.head, relation.tail) = (last - relation.head, last - relation.tail);
    }
    found.relations.reverse();
    found.events.reverse();
}

fn double(found: &mut Extraction) {
    found.entities.extend_from_within(..);
    found.relations.extend_from_within(..);
    found.events.extend_from_within(..);
}

fn measures(scores: &Scores) -> [(&'static str, Counts); 7] {
    [
        ("entities", scores.entities),
        ("relations", scores.relations),
        ("relations_boundaries", scores.relations_boundaries),
        ("trigger_identification", scores.events.trigger_identification),
        ("trigger_classification", scores.events.trigger_classification),
        ("argument_identification", scores.events.argument_identification),
        ("argument_classification", scores.events.argument_classification),
    ]
}

/// Says which documents nobody predicted.
pub(super) fn warn_of_missing(missing: &[String], pred: &Path) {
    if missing.is_empty() {
        return;
    }
    let mut names = missing.iter().take(NAMED).map(|id| format!("{id:?}")).collect::<Vec<_>>().join(", ");
    if missing.len() > NAMED {
        names += &format!(" and {} more", missing.len() - NAMED);
    }
    eprintln!("warning: {} has no prediction for {names}; counted as failed", pred.display());
}

/// A gold document as it stands in a file.
#[derive(serde::Deserialize)]
struct DocumentLine {
    id: String,
    text: String,
    gold: Option<ExtractionRecord>,
}

/// A prediction as it stands in a file; a failed one may leave out its extraction.
#[derive(serde::Deserialize)]
struct PredictionLine {
    id: String,
    extraction: Option<ExtractionRecord>,
    status: Status,
    error: Option<String>,
    cost: Option<Cost>,
}

/// Reads documents that all have gold.
///
/// # Errors
/// `file:line: what`, for a broken line, a repeated id, a document without gold.
pub(super) fn read_gold(path: &Path) -> anyhow::Result<Vec<Document>> {
    let mut lines = BTreeMap::new();
    let mut documents = Vec::new();
    read_lines(path, |line, document: DocumentLine| {
        let id = document.id;
        if let Some(first) = lines.insert(id.clone(), line) {
            bail!("document id {id:?} stands already on line {first}; ids must be unique");
        }
        let Some(gold) = document.gold else {
            bail!(
                "document {id:?} has no \"gold\" to score against; annotate it or leave it out (an empty \"gold\" says that nothing is there)"
            );
        };
        let gold = gold.read(&document.text).with_context(|| format!("document {id:?}"))?;
        documents.push(Document { gold: Some(gold), ..Document::new(id, document.text) });
        Ok(())
    })?;
    Ok(documents)
}

/// Reads one system's predictions about the documents.
///
/// # Errors
/// `file:line: what`, for a broken line, an unknown or repeated id, an item that does not fit the text.
pub(super) fn read_predictions(path: &Path, documents: &[Document]) -> anyhow::Result<Vec<Prediction>> {
    let texts: BTreeMap<&str, &str> = documents.iter().map(|one| (one.id.as_str(), one.text.as_str())).collect();
    let mut lines = BTreeMap::new();
    let mut predictions = Vec::new();
    read_lines(path, |line, prediction: PredictionLine| {
        let id = prediction.id;
        let Some(text) = texts.get(id.as_str()) else {
            bail!("prediction for {id:?}, which is no document of the gold; score against the file that was read");
        };
        if let Some(first) = lines.insert(id.clone(), line) {
            bail!("document {id:?} is predicted already on line {first}; keep one prediction a document");
        }
        let record = PredictionRecord {
            extraction: prediction.extraction.unwrap_or_default(),
            status: prediction.status,
            error: prediction.error,
            cost: prediction.cost,
            id,
        };
        let id = record.id.clone();
        let read = record.read(text).with_context(|| format!("document {id:?}"))?;
        if read.status == Status::Empty && !read.extraction.is_empty() {
            bail!("document {id:?} has status \"empty\", but its extraction is not; write status \"ok\"");
        }
        predictions.push(read);
        Ok(())
    })?;
    Ok(predictions)
}

/// Reads a schema by extension.
///
/// # Errors
/// Exit code 2: the schema is part of the configuration.
pub(super) fn read_schema(path: &Path) -> anyhow::Result<Schema> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| usage(format!("{shown}: {error}")))?;
    let schema: Schema = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => toml::from_str(&text).map_err(|error| usage(format!("{shown}: {error}")))?,
        Some("json") => serde_json::from_str(&text).map_err(|error| usage(format!("{shown}: {error}")))?,
        _ => return Err(usage(format!("{shown}: a schema is read from .toml or .json"))),
    };
    schema.check().map_err(|error| usage(format!("{shown}: {error}")))?;
    Ok(schema)
}

/// What serde says of one line, without its own count of lines.
fn unreadable(error: &serde_json::Error) -> anyhow::Error {
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    anyhow!("column {}: {said}", error.column())
}

/// Reads JSON Lines by extension, one record at a time; blank lines are skipped.
fn read_lines<T: DeserializeOwned>(
    path: &Path,
    mut take: impl FnMut(usize, T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let shown = path.display().to_string();
    let file = File::open(path).with_context(|| shown.clone())?;
    let mut reader: Box<dyn BufRead> = if shown.ends_with(".jsonl.zst") {
        Box::new(BufReader::new(zstd::Decoder::new(file).with_context(|| shown.clone())?))
    } else if shown.ends_with(".jsonl") {
        Box::new(BufReader::new(file))
    } else {
        return Err(usage(format!("{shown}: documents and predictions are read from .jsonl or .jsonl.zst")));
    };
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let at = || format!("{shown}:{line}");
        if reader.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut bytes).with_context(at)? == 0 {
            break;
        }
        if bytes.len() as u64 > LONGEST_LINE {
            return Err(anyhow!("the line is longer than {} MiB; give one document a line", LONGEST_LINE >> 20))
                .with_context(at);
        }
        let record = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes).trim_ascii();
        if record.is_empty() {
            continue;
        }
        let record = serde_json::from_slice(record).map_err(|error| unreadable(&error)).with_context(at)?;
        take(line, record).with_context(at)?;
    }
    Ok(())
}
