//! The only file formats: JSON Lines (plain or zstd), Parquet, answers of LLMs (SQLite), manifests, hashes,
//! and the atomic write that files share. Deliberately absent: algorithms.

mod answers;
mod atomic;
mod documents;
mod hash;
mod jsonl;
mod lines;
mod manifest;
mod overflow;
mod parquet;
mod scratch;
mod shards;
mod spill;
mod writer;

pub use answers::{
    AnswerStats, AnswerStore, CassetteHeader, Imported, ModelStats, Opened, StoredAnswer, StoredRequest, StoredToken,
    answer_stats, each_answer, export_answers, import_answers, request_key,
};
pub use atomic::write_atomic;
pub use documents::{
    DocumentLine, DocumentWriter, document_line, each_document, read_documents, read_predictions, write_documents,
    write_predictions,
};
pub use hash::{digest, hash_bytes, hash_file};
pub use jsonl::{each_line, open, read_jsonl, to_jsonl, write_jsonl};
pub use lines::{LineIndex, RawLine, RawLines, id_of, lot};
pub use manifest::{Manifest, is_done};
pub use overflow::Overflow;
pub use parquet::{CORPUS_COLUMNS, Cell, ColumnKind, Columns, DOCUMENT_COLUMNS, RowWriter, each_row};
pub use scratch::Scratch;
pub use shards::{Shard, answer_files, find_shards};
pub use spill::Spill;
pub use writer::LineWriter;

use std::path::{Path, PathBuf};

/// What went wrong with a file: the message says where, what was expected and what was found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("{}: {action} failed: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A line does not hold what it should.
    #[error("{}:{line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counting from 1.
        line: usize,
        /// Expected and found.
        message: String,
    },
    /// A store of answers that another process writes.
    #[error(
        "{}: another process writes it; wait for its end, or give this one its own part (debate --shard I/N) or run directory (--out)",
        path.display()
    )]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file as a whole is not what it should be.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Expected, found and the way out.
        message: String,
    },
}

impl StoreError {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> StoreError {
        let path = path.to_path_buf();
        move |source| StoreError::Io { path, action, source }
    }

    /// The same error once more, for everybody whom it concerns.
    pub(crate) fn again(&self) -> StoreError {
        match self {
            StoreError::Io { path, action, source } => StoreError::Io {
                path: path.clone(),
                action,
                source: std::io::Error::new(source.kind(), source.to_string()),
            },
            StoreError::Line { path, line, message } => StoreError::line(path, *line, message.clone()),
            StoreError::Busy { path } => StoreError::Busy { path: path.clone() },
            StoreError::File { path, message } => StoreError::file(path, message.clone()),
        }
    }

    pub(crate) fn line(path: &Path, line: usize, message: impl Into<String>) -> StoreError {
        StoreError::Line { path: path.to_path_buf(), line, message: message.into() }
    }

    pub(crate) fn file(path: &Path, message: impl Into<String>) -> StoreError {
        StoreError::File { path: path.to_path_buf(), message: message.into() }
    }
}
