//! 1. The corpus: documents of the three splits, read and checked. `texts ─▶ corpus ─▶ team`.
//!
//! Native data sets become documents through [`convert()`]: one file per family of formats, each a
//! reader that gives drafts, and one report of what they hold and what is wrong in them.

mod back;
mod baidu;
mod brat;
mod census;
mod conll;
mod convert;
mod docred;
mod documents;
mod draft;
mod dygie;
mod events;
mod finding;
mod format;
mod gliner;
mod iepile;
mod input;
mod instructuie;
mod join;
mod keyed;
mod ldc;
mod multihead;
mod oneie;
mod ontonotes;
mod pairs;
mod report;
mod schemas;
mod semeval;
mod spert;
mod tagged;
mod tags;
mod tools;
mod triples;
mod uie;
mod universalner;
mod xml;

pub use back::{Target, WayBack};
pub use census::Census;
pub use convert::{Options, Unit, convert};
pub use finding::{Finding, Kind, Weight};
pub use format::{FORMATS, Format, detect, format};
pub use join::Join;
pub use report::{Report, Tally};
pub use schemas::native_schema;
pub use tags::Scheme;

use crate::config::Plan;
use crate::ie::Document;
use crate::store::{StoreError, read_documents};
use std::path::PathBuf;

/// The splits of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Splits {
    /// For the team; gold, where there is some, audits the filter and is never trained on.
    pub train: Vec<Document>,
    /// With gold: chooses the best checkpoint.
    pub dev: Vec<Document>,
    /// With gold: the verdict; nothing is chosen on it.
    pub test: Vec<Document>,
}

/// Why splits cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A file cannot be read, or a document in it does not fit.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A split without documents.
    #[error("E302: {}: the {split} split has no document — fill the file, or point data.{split} at another", path.display())]
    Empty {
        /// Which.
        split: &'static str,
        /// Its file.
        path: PathBuf,
    },
    /// A measured document without gold.
    #[error("E303: {}: document \"{id}\" of the {split} split has no gold; every measured document needs it, if only an empty one", path.display())]
    NoGold {
        /// Which split.
        split: &'static str,
        /// Its file.
        path: PathBuf,
        /// Which document.
        id: String,
    },
}

/// The documents for the team, as many as the plan says.
///
/// # Errors
/// If the file cannot be read or has no document.
pub fn read_train(plan: &Plan) -> Result<Vec<Document>, CorpusError> {
    let data = &plan.config().data;
    let mut documents = read_documents(&data.train)?;
    documents.truncate(data.train_limit.unwrap_or(usize::MAX));
    if documents.is_empty() {
        return Err(CorpusError::Empty { split: "train", path: data.train.clone() });
    }
    Ok(documents)
}

/// All three splits.
///
/// # Errors
/// If a file cannot be read, a split is empty, or a measured document has no gold.
pub fn read_splits(plan: &Plan) -> Result<Splits, CorpusError> {
    let data = &plan.config().data;
    let measured = |split: &'static str, path: &PathBuf| {
        let documents = read_documents(path)?;
        if documents.is_empty() {
            return Err(CorpusError::Empty { split, path: path.clone() });
        }
        match documents.iter().find(|document| document.gold.is_none()) {
            Some(document) => Err(CorpusError::NoGold { split, path: path.clone(), id: document.id.clone() }),
            None => Ok(documents),
        }
    };
    Ok(Splits { train: read_train(plan)?, dev: measured("dev", &data.dev)?, test: measured("test", &data.test)? })
}
