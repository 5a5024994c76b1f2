//! Documents and predictions as JSON Lines.

use super::jsonl::Lines;
use super::{Lasting, StoreError, read_jsonl, to_jsonl, write_jsonl};
use crate::ie::record::{ExtractionRecord, PredictionRecord};
use crate::ie::{Document, Prediction};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

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
    Documents::open(path)?.collect()
}

/// The documents of a file, checked and read as they are asked for; of those before, only the ids are
/// kept.
pub struct Documents {
    path: PathBuf,
    records: Lines<DocumentRecord>,
    seen: HashMap<String, usize>,
}

impl Documents {
    /// Opens `.jsonl` or `.jsonl.zst`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(path: &Path) -> Result<Documents, StoreError> {
        Ok(Documents { path: path.to_path_buf(), records: Lines::open(path)?, seen: HashMap::new() })
    }

    fn checked(&mut self, record: DocumentRecord) -> Result<Document, StoreError> {
        let (path, at) = (&self.path, self.seen.len() + 1);
        if let Some(first) = self.seen.insert(record.id.clone(), at) {
            let message =
                format!("document {at}: the id \"{}\" is taken by document {first}; ids must be unique", record.id);
            return Err(StoreError::file(path, message));
        }
        let gold = record.gold.map(|gold| gold.read(&record.text)).transpose();
        let gold = gold.map_err(|error| StoreError::file(path, format!("document \"{}\": gold {error}", record.id)))?;
        let meta =
            if record.meta.is_empty() { String::new() } else { serde_json::Value::Object(record.meta).to_string() };
        Ok(Document { id: record.id, text: record.text, gold, meta })
    }
}

impl Iterator for Documents {
    type Item = Result<Document, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.records.next()?.and_then(|record| self.checked(record)))
    }
}

/// Writes documents, atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn write_documents(path: &Path, documents: &[Document]) -> Result<(), StoreError> {
    let records = documents.iter().map(|document| DocumentRecord {
        id: document.id.clone(),
        text: document.text.clone(),
        gold: document.gold.as_ref().map(|gold| ExtractionRecord::of(gold, &document.text)),
        meta: serde_json::from_str(&document.meta).unwrap_or_default(),
    });
    write_jsonl(path, &records.collect::<Vec<_>>())
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
    let mut file = PredictionWriter::create(path)?;
    file.write(predictions, documents)?;
    file.finish()
}

/// Predictions, written as they come; the file has its name only when all are there.
pub struct PredictionWriter {
    file: Lasting,
    packed: Option<zstd::Encoder<'static, Vec<u8>>>,
}

impl PredictionWriter {
    /// Begins a `.jsonl` or `.jsonl.zst`.
    ///
    /// # Errors
    /// If the directory cannot be written to, or the extension is that of another format.
    pub fn create(path: &Path) -> Result<PredictionWriter, StoreError> {
        let name = path.to_string_lossy();
        if name.ends_with(".parquet") {
            return Err(StoreError::file(path, "Parquet is not written by this version; use .jsonl or .jsonl.zst"));
        }
        let fail = StoreError::io(path, "compressing");
        let packed = name.ends_with(".zst").then(|| zstd::Encoder::new(Vec::new(), 19)).transpose().map_err(fail)?;
        Ok(PredictionWriter { file: Lasting::create(path)?, packed })
    }

    /// Adds predictions about `documents`, in the same order.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn write(&mut self, predictions: &[Prediction], documents: &[Document]) -> Result<(), StoreError> {
        let bytes = predictions_jsonl(predictions, documents);
        let Some(packed) = &mut self.packed else { return self.file.write(&bytes) };
        packed.write_all(&bytes).map_err(StoreError::io(self.file.path(), "compressing"))?;
        self.file.write(&std::mem::take(packed.get_mut()))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If the disk is full; what stood there is untouched then.
    pub fn finish(mut self) -> Result<(), StoreError> {
        if let Some(packed) = self.packed.take() {
            let rest = packed.finish().map_err(StoreError::io(self.file.path(), "compressing"))?;
            self.file.write(&rest)?;
        }
        self.file.finish()
    }
}

/// Predictions about `documents` as lines.
pub fn predictions_jsonl(predictions: &[Prediction], documents: &[Document]) -> Vec<u8> {
    let records: Vec<_> = predictions.iter().zip(documents).map(|(p, d)| PredictionRecord::of(p, d)).collect();
    to_jsonl(&records)
}
