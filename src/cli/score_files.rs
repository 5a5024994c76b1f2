//! The files that `score` and `compare` read: documents with gold, predictions, tags, a schema.
//!
//! [`count`] is the fast way for many documents: lines are parsed and scored in parallel, block by
//! block, and nothing is kept of a document but its counts. Wherever a file is not as it should
//! be, it gives up, and [`read_gold`] and [`read_predictions`] say what is wrong and where.

use super::usage;
use crate::eval::compat::{Pair, Tallies, tags::Tokens};
use crate::eval::{Convention, Rules};
use crate::ie::record::{ExtractionRecord, PredictionRecord};
use crate::ie::{Cost, Document, Extraction, Prediction, Schema, Status};
use anyhow::{Context, anyhow, bail};
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A longer line is refused: one document of text and gold is never 64 MiB.
const LONGEST_LINE: u64 = 64 << 20;

/// Bytes of gold that are scored at once; a longer line is scored alone.
const BLOCK: usize = 16 << 20;

/// Lines counted together before sums are added: fixed, so that sums of fractions do not depend on
/// the number of threads.
const CHUNK: usize = 1024;

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

// ------------------------------------------------------------------------------ the fast way

/// A document without copies of what needs none.
#[derive(serde::Deserialize)]
struct GoldLine<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
    gold: ExtractionRecord,
}

/// A prediction, read with the document it is about.
#[derive(serde::Deserialize)]
struct FoundLine<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    extraction: Option<ExtractionRecord>,
    status: Status,
    #[serde(rename = "error")]
    _error: Option<String>,
    #[serde(rename = "cost")]
    _cost: Option<Cost>,
}

/// The id of a line alone.
#[derive(serde::Deserialize)]
struct IdLine<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

/// Where a document's prediction stands, and whether its document came by.
struct Found {
    line: Range<usize>,
    used: AtomicBool,
}

/// Lines of a block that are not blank.
fn lines(block: &str) -> Vec<&str> {
    block.split('\n').map(str::trim_ascii).filter(|line| !line.is_empty()).collect()
}

/// The id of a line. Where it stands first, as our own files have it, the rest is left to whoever
/// reads the line, and checks that the id stands there once.
fn id_of(line: &str) -> Option<Cow<'_, str>> {
    let first = line.strip_prefix("{\"id\":\"").and_then(|rest| Some(&rest[..rest.find(['"', '\\'])?]));
    match first {
        Some(id) if line.as_bytes().get(7 + id.len()) == Some(&b'"') => Some(Cow::Borrowed(id)),
        _ => Some(serde_json::from_str::<IdLine<'_>>(line).ok()?.id),
    }
}

/// Opens `.jsonl` or `.jsonl.zst` by extension.
fn opened(path: &Path) -> Option<Box<dyn Read>> {
    let name = path.to_str()?;
    let file = File::open(path).ok()?;
    if name.ends_with(".jsonl.zst") {
        Some(Box::new(zstd::Decoder::new(file).ok()?))
    } else if name.ends_with(".jsonl") {
        Some(Box::new(file))
    } else {
        None
    }
}

/// The predictions by document id; `None` where a line is broken or an id repeats.
fn index(text: &str) -> Option<HashMap<Cow<'_, str>, Found>> {
    let start = text.as_ptr() as usize;
    let lines = lines(text.strip_prefix('\u{feff}').unwrap_or(text));
    let ids = lines.par_iter().map(|line| {
        let id = id_of(line)?;
        let at = line.as_ptr() as usize - start;
        Some((id, Found { line: at..at + line.len(), used: AtomicBool::new(false) }))
    });
    let ids = ids.collect::<Option<Vec<_>>>()?;
    let count = ids.len();
    let index: HashMap<_, _> = ids.into_iter().collect();
    (index.len() == count).then_some(index)
}

/// What is counted, and the documents that nobody predicted.
pub(super) type Counted = (Tallies, Vec<String>);

/// Counts a file of documents against a file of predictions; `None` if anything in either is wrong.
pub(super) fn count(
    gold: &Path,
    pred: &Path,
    conventions: &[Convention],
    rules: &Rules,
    tokens: Tokens,
) -> Option<Counted> {
    // Checked once to be UTF-8, not string by string.
    let mut found = String::new();
    opened(pred)?.read_to_string(&mut found).ok()?;
    let index = index(&found)?;
    let mut gold = opened(gold)?;
    let (mut all, mut missing) = (Tallies::new(conventions), Vec::new());
    let (mut block, mut first) = (Vec::new(), true);
    loop {
        let before = block.len();
        gold.by_ref().take((BLOCK + before) as u64).read_to_end(&mut block).ok()?;
        let ended = block.len() == before;
        let whole = match (ended, block.iter().rposition(|&byte| byte == b'\n')) {
            (true, _) => block.len(),
            (false, Some(at)) => at + 1,
            (false, None) if block.len() as u64 > LONGEST_LINE => return None,
            (false, None) => continue,
        };
        let text = std::str::from_utf8(&block[..whole]).ok()?;
        let text = if first { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        first = false;
        let parts = lines(text)
            .par_chunks(CHUNK)
            .map(|lines| count_lines(lines, &found, &index, conventions, rules, tokens))
            .collect::<Option<Vec<_>>>()?;
        for (part, absent) in parts {
            all.add(part);
            missing.extend(absent);
        }
        block.drain(..whole);
        if ended {
            break;
        }
    }
    let mut absent: Vec<&String> = missing.iter().collect();
    absent.sort_unstable();
    let twice = absent.windows(2).any(|pair| pair[0] == pair[1]);
    let strangers = index.values().any(|found| !found.used.load(Ordering::Relaxed));
    (!twice && !strangers).then_some((all, missing))
}

fn count_lines(
    lines: &[&str],
    found: &str,
    index: &HashMap<Cow<'_, str>, Found>,
    conventions: &[Convention],
    rules: &Rules,
    tokens: Tokens,
) -> Option<Counted> {
    let (mut part, mut missing) = (Tallies::new(conventions), Vec::new());
    for line in lines {
        let document: GoldLine<'_> = serde_json::from_str(line).ok()?;
        let gold = document.gold.read(&document.text).ok()?;
        let mut reading: Option<Extraction> = None;
        match index.get(&document.id) {
            Some(at) => {
                if at.used.swap(true, Ordering::Relaxed) {
                    return None;
                }
                let line: FoundLine<'_> = serde_json::from_str(&found[at.line.clone()]).ok()?;
                if line.id != document.id {
                    return None;
                }
                let extraction = line.extraction.unwrap_or_default().read(&document.text).ok()?;
                if line.status == Status::Empty && !extraction.is_empty() {
                    return None;
                }
                reading = matches!(line.status, Status::Ok | Status::Empty).then_some(extraction);
            }
            None => missing.push(document.id.into_owned()),
        }
        let pair = Pair { text: &document.text, gold: &gold, pred: reading.as_ref() };
        part.count(&pair, rules, tokens);
    }
    Some((part, missing))
}

// ------------------------------------------------------------------------------------- tags

/// A sentence of tags, gold and predicted.
pub(super) type Sentence = (Vec<String>, Vec<String>);

/// Reads lines as conlleval does: white space between columns, of which the last two are the gold
/// tag and the predicted one; a blank line, or one that begins with `-X-`, ends a sentence.
///
/// # Errors
/// `file:line: what`, for a line with one column and for a tag with no known prefix.
pub(super) fn read_tags(path: &Path) -> anyhow::Result<Vec<Sentence>> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| shown.clone())?;
    let mut sentences = vec![Sentence::default()];
    for (line, columns) in text.lines().enumerate() {
        let columns: Vec<&str> = columns.split_whitespace().collect();
        match columns.as_slice() {
            [] | ["-X-", ..] => sentences.push(Sentence::default()),
            [.., gold, pred] => {
                for tag in [gold, pred] {
                    let prefix = tag.split('-').next().unwrap_or_default();
                    if !matches!(prefix, "B" | "I" | "O" | "E" | "S") {
                        bail!("{shown}:{}: tag \"{tag}\"; expected O, or B-, I-, E- or S- before a type", line + 1);
                    }
                }
                let last = sentences.last_mut().context("a sentence was begun")?;
                last.0.push((*gold).to_string());
                last.1.push((*pred).to_string());
            }
            [_] => {
                bail!("{shown}:{}: one column; expected the gold tag and the predicted tag as the last two", line + 1)
            }
        }
    }
    sentences.retain(|sentence| !sentence.0.is_empty());
    Ok(sentences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_wherever_it_stands_and_however_it_is_written() {
        for line in [
            r#"{"id":"d1","status":"ok"}"#,
            r#"{ "id" : "d1" }"#,
            r#"{"status":"ok","id":"d1"}"#,
            r#"{"id":"\u00641"}"#,
        ] {
            assert_eq!(id_of(line).as_deref(), Some("d1"), "{line}");
        }
        assert_eq!(id_of(r#"{"id":"d"#), None);
        assert_eq!(id_of(r#"{"id":7}"#), None);
    }

    #[test]
    fn a_line_that_names_two_documents_is_left_to_the_slow_way() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let gold = write("gold.jsonl", "{\"id\":\"a\",\"text\":\"Zo\u{eb}\",\"gold\":{\"entities\":[]}}\n");
        let counted = |pred: &str| {
            let pred = write("pred.jsonl", pred);
            count(&gold, &pred, &[], &Rules::default(), Tokens::default()).map(|found| found.0.scores.documents)
        };
        assert_eq!(counted("{\"id\":\"a\",\"status\":\"empty\"}\n"), Some(1));
        assert_eq!(counted("{\"id\":\"a\",\"status\":\"empty\",\"id\":\"b\"}\n"), None);
        assert_eq!(counted("{\"id\":\"b\",\"status\":\"empty\"}\n"), None);
    }
}
