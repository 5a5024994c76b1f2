//! Documents as JSON Lines or Parquet, by extension, and predictions as JSON Lines.

use super::jsonl::each_line;
use super::{Cell, DOCUMENT_COLUMNS, LineWriter, RowWriter, StoreError, each_row, read_jsonl, to_jsonl, write_jsonl};
use crate::ie::record::{ExtractionRecord, PredictionRecord};
use crate::ie::{Document, Prediction};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::Path;

/// A document as written.
#[derive(Debug, Serialize, Deserialize)]
struct DocumentRecord {
    id: String,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gold: Option<ExtractionRecord>,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    meta: serde_json::Map<String, serde_json::Value>,
}

/// Reads documents and checks ids, offsets and ordinals.
///
/// # Errors
/// The first document that does not fit, by file and ordinal.
pub fn read_documents(path: &Path) -> Result<Vec<Document>, StoreError> {
    each_document(path)?.collect()
}

/// The documents of [`read_documents`] one by one. Of those behind only a hash of the id is held.
///
/// # Errors
/// If the file cannot be opened.
pub fn each_document(path: &Path) -> Result<impl Iterator<Item = Result<Document, StoreError>> + use<>, StoreError> {
    let (mut seen, shown) = (HashMap::new(), path.to_owned());
    let read = move |(at, record): (usize, Result<DocumentRecord, StoreError>)| {
        let record = record?;
        let id = &record.id;
        let digest: [u8; 16] = std::array::from_fn({
            let digest = Sha256::digest(id.as_bytes());
            move |place| digest[place]
        });
        if let Some(first) = seen.insert(digest, at + 1) {
            let message =
                format!("document {}: the id \"{id}\" is taken by document {first}; ids must be unique", at + 1);
            return Err(StoreError::file(&shown, message));
        }
        DocumentLine(record).read(&shown)
    };
    Ok(each_record(path)?.enumerate().map(read))
}

type Records = Box<dyn Iterator<Item = Result<DocumentRecord, StoreError>>>;

fn each_record(path: &Path) -> Result<Records, StoreError> {
    if !is_parquet(path) {
        return Ok(Box::new(each_line::<DocumentRecord>(path)?));
    }
    let shown = path.to_owned();
    let read = move |(at, row): (usize, Result<Vec<Cell>, StoreError>)| {
        let broken = |said: String| StoreError::file(&shown, format!("document {}: {said}", at + 1));
        let Ok([id, text, gold, meta]) = <[Cell; 4]>::try_from(row?) else {
            return Err(broken("expected the columns id, text, gold, meta".into()));
        };
        let (Cell::Text(id), Cell::Text(text)) = (id, text) else { return Err(broken("id or text is null".into())) };
        let json = |cell: Cell| if let Cell::Text(json) = cell { json } else { "null".into() };
        let gold = serde_json::from_str(&json(gold)).map_err(|error| broken(format!("gold: {error}")))?;
        let meta: Option<_> = serde_json::from_str(&json(meta)).map_err(|error| broken(format!("meta: {error}")))?;
        Ok(DocumentRecord { id, text, gold, meta: meta.unwrap_or_default() })
    };
    Ok(Box::new(each_row(path, DOCUMENT_COLUMNS)?.enumerate().map(read)))
}

fn is_parquet(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".parquet")
}

/// A document as it stands in a line, not yet checked.
#[derive(Debug, Deserialize)]
pub struct DocumentLine(DocumentRecord);

impl DocumentLine {
    /// The document, its offsets and ordinals checked; that its id is unique is for the reader of all lines.
    ///
    /// # Errors
    /// If its gold does not fit its text.
    pub fn read(self, path: &Path) -> Result<Document, StoreError> {
        let DocumentRecord { id, text, gold, meta } = self.0;
        let gold = gold.map(|gold| gold.read(&text)).transpose();
        let gold = gold.map_err(|error| StoreError::file(path, format!("document \"{id}\": gold {error}")))?;
        let meta = if meta.is_empty() { String::new() } else { serde_json::Value::Object(meta).to_string() };
        Ok(Document { id, text, gold, meta })
    }
}

/// Writes documents, atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn write_documents(path: &Path, documents: &[Document]) -> Result<(), StoreError> {
    let mut writer = DocumentWriter::create(path)?;
    documents.iter().try_for_each(|document| writer.write(document))?;
    writer.finish()
}

/// Documents written one by one into a file that appears whole or not at all: JSON Lines, plain or
/// zstd, or Parquet, by extension.
pub enum DocumentWriter {
    /// JSON Lines.
    Lines(LineWriter),
    /// Parquet.
    Rows(Box<RowWriter>),
}

impl DocumentWriter {
    /// Begins a file beside `path`.
    ///
    /// # Errors
    /// If the directory or the file cannot be made.
    pub fn create(path: &Path) -> Result<DocumentWriter, StoreError> {
        Ok(match is_parquet(path) {
            true => DocumentWriter::Rows(Box::new(RowWriter::create(path, DOCUMENT_COLUMNS)?)),
            false => DocumentWriter::Lines(LineWriter::create(path)?),
        })
    }

    /// Adds a document.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn write(&mut self, document: &Document) -> Result<(), StoreError> {
        match self {
            DocumentWriter::Lines(writer) => writer.write(&document_line(document)),
            DocumentWriter::Rows(writer) => {
                let gold = document.gold.as_ref().map(|gold| ExtractionRecord::of(gold, &document.text));
                let gold = gold.and_then(|gold| serde_json::to_string(&gold).ok());
                let meta = Some(document.meta.clone()).filter(|meta| !meta.is_empty());
                let [gold, meta] = [gold, meta].map(|json| json.map_or(Cell::Nothing, Cell::Text));
                writer.row(vec![Cell::Text(document.id.clone()), Cell::Text(document.text.clone()), gold, meta])
            }
        }
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn finish(self) -> Result<(), StoreError> {
        match self {
            DocumentWriter::Lines(writer) => writer.finish(),
            DocumentWriter::Rows(writer) => writer.finish(),
        }
    }
}

/// A document as one line of a file, closed by a newline.
pub fn document_line(document: &Document) -> Vec<u8> {
    to_jsonl(&[record_of(document)])
}

fn record_of(document: &Document) -> DocumentRecord {
    DocumentRecord {
        id: document.id.clone(),
        text: document.text.clone(),
        gold: document.gold.as_ref().map(|gold| ExtractionRecord::of(gold, &document.text)),
        meta: serde_json::from_str(&document.meta).unwrap_or_default(),
    }
}

/// Reads the predictions about `documents`, in the documents' order.
///
/// # Errors
/// A prediction about a document that is not there, one of two about the same document, a missing
/// one, or one whose offsets do not fit.
pub fn read_predictions(path: &Path, documents: &[Document]) -> Result<Vec<Prediction>, StoreError> {
    let place: HashMap<&str, usize> = documents.iter().enumerate().map(|(at, d)| (d.id.as_str(), at)).collect();
    let mut found: Vec<Option<Prediction>> = vec![None; documents.len()];
    for record in read_jsonl::<PredictionRecord>(path)? {
        let id = record.id.clone();
        let at = *place
            .get(id.as_str())
            .ok_or_else(|| StoreError::file(path, format!("prediction \"{id}\" names no known document")))?;
        let read = record
            .read(&documents[at].text)
            .map_err(|error| StoreError::file(path, format!("prediction \"{id}\": {error}")))?;
        if found[at].replace(read).is_some() {
            return Err(StoreError::file(path, format!("two predictions for \"{id}\"")));
        }
    }
    let complete: Option<Vec<Prediction>> = found.iter().cloned().collect();
    complete.ok_or_else(|| {
        let missing = documents.iter().zip(&found).find(|(_, found)| found.is_none()).map(|(d, _)| d.id.as_str());
        StoreError::file(path, format!("no prediction for \"{}\"", missing.unwrap_or_default()))
    })
}

/// Writes predictions about `documents`, in the same order, atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn write_predictions(path: &Path, predictions: &[Prediction], documents: &[Document]) -> Result<(), StoreError> {
    let records: Vec<_> = predictions.iter().zip(documents).map(|(p, d)| PredictionRecord::of(p, d)).collect();
    write_jsonl(path, &records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_the_same_whatever_the_extension() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        let lines = r#"{"id":"a","text":"Zoë met 李雷.","gold":{"entities":[{"type":"PER","text":"李雷","start":8,"end":10}],"relations":[],"events":[]},"meta":{"x":[1]}}
{"id":"b","text":"","gold":{}}
{"id":"c","text":"Nobody looked."}
"#;
        std::fs::write(&path, lines).unwrap();
        let documents = read_documents(&path).unwrap();
        for name in ["b.parquet", "b.jsonl", "b.jsonl.zst"] {
            let other = home.path().join(name);
            write_documents(&other, &documents).unwrap();
            assert_eq!(read_documents(&other).unwrap(), documents, "{name}");
        }
        write_documents(&home.path().join("c.parquet"), &[documents[0].clone(), documents[0].clone()]).unwrap();
        let said = read_documents(&home.path().join("c.parquet")).unwrap_err().to_string();
        assert!(said.contains("the id \"a\" is taken by document 1"), "{said}");
    }
}
