//! Strict micro precision, recall and F1 of a set of predictions against gold documents.
//!
//! Counts are summed over all documents before anything is divided (micro), and a document that
//! a system failed to read stays in as misses: what cannot be read was not found.

use super::align::{Rules, align};
use super::counts::Scores;
use crate::ie::{Document, Prediction, Status};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The counts of a system over a set of documents.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// All documents together.
    pub total: Scores,
    /// Each document, in the order of the gold: what the bootstrap resamples.
    pub documents: Vec<Scores>,
    /// Gold documents that nobody predicted; counted as failed.
    pub missing: Vec<String>,
}

/// Why documents and predictions cannot be scored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScoreError {
    /// Nobody annotated the document.
    #[error(
        "document {0:?} has no gold to score against; leave it out or annotate it (an empty \"gold\" says that nothing is there)"
    )]
    NoGold(String),
    /// The same id twice among the gold documents.
    #[error("document id {0:?} is given twice in the gold; ids must be unique")]
    DocumentTwice(String),
    /// A prediction about no gold document.
    #[error("prediction for {0:?}, which is no document of the gold; score against the file that was read")]
    UnknownDocument(String),
    /// Two predictions about the same document.
    #[error("document {0:?} is predicted twice; keep one prediction a document")]
    PredictedTwice(String),
}

/// Scores predictions against the gold of the documents.
///
/// Items are matched as sets within each document (see the table of keys in `align.rs`); a
/// document whose prediction failed, was refused or is absent counts as missed throughout.
///
/// # Errors
/// If a document has no gold, if an id repeats, or if a prediction is about no document.
pub fn score(documents: &[Document], predictions: &[Prediction], rules: &Rules) -> Result<Scored, ScoreError> {
    let mut known = BTreeSet::new();
    if let Some(twice) = documents.iter().find(|document| !known.insert(document.id.as_str())) {
        return Err(ScoreError::DocumentTwice(twice.id.clone()));
    }
    let mut readings = BTreeMap::new();
    for prediction in predictions {
        if !known.contains(prediction.id.as_str()) {
            return Err(ScoreError::UnknownDocument(prediction.id.clone()));
        }
        if readings.insert(prediction.id.as_str(), prediction).is_some() {
            return Err(ScoreError::PredictedTwice(prediction.id.clone()));
        }
    }
    let each = documents.par_iter().map(|document| {
        let gold = document.gold.as_ref().ok_or_else(|| ScoreError::NoGold(document.id.clone()))?;
        let reading = readings.get(document.id.as_str()).filter(|reading| is_usable(reading.status));
        Ok(align(&document.text, gold, reading.map(|reading| &reading.extraction), rules))
    });
    let documents_scored = each.collect::<Result<Vec<Scores>, ScoreError>>()?;
    let mut total = Scores::default();
    for scores in &documents_scored {
        total += scores;
    }
    let missing = documents.iter().filter(|document| !readings.contains_key(document.id.as_str()));
    let missing = missing.map(|document| document.id.clone()).collect();
    Ok(Scored { total, documents: documents_scored, missing })
}

/// Whether a reading counts as one: what failed or was refused does not.
pub(super) fn is_usable(status: Status) -> bool {
    matches!(status, Status::Ok | Status::Empty)
}

#[cfg(test)]
#[path = "score_tests.rs"]
mod tests;
