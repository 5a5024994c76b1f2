//! Documents and predictions as JSON Lines.

use super::jsonl::each_line;
use super::{StoreError, read_jsonl, to_jsonl, write_jsonl};
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
    Ok(each_line::<DocumentRecord>(path)?.enumerate().map(read))
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
    write_jsonl(path, &documents.iter().map(record_of).collect::<Vec<_>>())
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
