//! A corpus as Parquet in parts of a folder: one data set for whatever reads the folder. Parts of several
//! runs lie together once they are moved together, under prefixes of their own.

use crate::store::{CORPUS_COLUMNS, Cell, RowWriter, StoreError};
use crate::template::Speaker;
use crate::template::corpus::{Line, Task};
use anyhow::{Result, anyhow};
use std::path::{Path, PathBuf};

/// Parts in the making.
pub struct Parts {
    folder: PathBuf,
    prefix: String,
    rows: usize,
    /// Rows of the part that is open.
    written: usize,
    open: Option<RowWriter>,
    pub count: usize,
}

impl Parts {
    /// Parts of so many rows in a folder, which holds none of this prefix yet.
    pub fn within(folder: &Path, prefix: &str, rows: usize) -> Result<Parts> {
        let parts = Parts { folder: folder.into(), prefix: prefix.into(), rows, written: 0, open: None, count: 0 };
        let old = parts.path(0);
        if old.exists() {
            return Err(anyhow!("{}: there are parts already; take another folder or --prefix", old.display()));
        }
        Ok(parts)
    }

    fn path(&self, part: usize) -> PathBuf {
        self.folder.join(format!("{}-{part:05}.parquet", self.prefix))
    }

    /// Adds a conversation.
    pub fn write(&mut self, line: &Line) -> Result<()> {
        if self.written == self.rows {
            self.finish()?;
        }
        let row = row(line)?;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                self.count += 1;
                RowWriter::create(&self.path(self.count - 1), CORPUS_COLUMNS)?
            }
        };
        open.row(row)?;
        self.written += 1;
        self.open = Some(open);
        Ok(())
    }

    /// Closes the part that is open.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        self.written = 0;
        self.open.take().map_or(Ok(()), RowWriter::finish)
    }
}

/// A conversation in the columns of a corpus.
fn row(line: &Line) -> Result<Vec<Cell>> {
    let (system, rest) = match line.messages.split_first() {
        Some((first, rest)) if first.role == Speaker::System => (Cell::Text(first.content.clone()), rest),
        _ => (Cell::Nothing, line.messages.as_slice()),
    };
    let [asked, answer] = rest else {
        return Err(anyhow!("Parquet holds one question and its answer a row, found {} messages", rest.len()));
    };
    let task = match line.meta.task {
        Task::Entities => "entities",
        Task::Relations => "relations",
    };
    Ok(vec![
        Cell::Text(line.meta.documents.join("\n")),
        Cell::Text(task.into()),
        system,
        Cell::Text(asked.content.clone()),
        Cell::Text(answer.content.clone()),
        Cell::Real(line.meta.confidence),
        Cell::Text(serde_json::to_string(&line.meta)?),
    ])
}
