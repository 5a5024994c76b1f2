//! Documents and predictions as JSON Lines.

use super::{StoreError, read_jsonl, to_jsonl, write_jsonl};
use crate::ie::record::{ExtractionRecord, PredictionRecord};
use crate::ie::{Document, Prediction};
use serde::{Deserialize, Serialize};
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
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut documents = Vec::new();
    for (at, record) in read_jsonl::<DocumentRecord>(path)?.into_iter().enumerate() {
        if let Some(first) = seen.insert(record.id.clone(), at + 1) {
            let message = format!(
                "document {}: the id \"{}\" is taken by document {first}; ids must be unique",
                at + 1,
                record.id
            );
            return Err(StoreError::file(path, message));
        }
        let gold = record.gold.map(|gold| gold.read(&record.text)).transpose();
        let gold = gold.map_err(|error| StoreError::file(path, format!("document \"{}\": gold {error}", record.id)))?;
        let meta =
            if record.meta.is_empty() { String::new() } else { serde_json::Value::Object(record.meta).to_string() };
        documents.push(Document { id: record.id, text: record.text, gold, meta });
    }
    Ok(documents)
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
