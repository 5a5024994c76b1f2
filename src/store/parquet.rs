//! Parquet: rows of texts and numbers, written and read by row groups, so that a file of any length takes
//! the memory of one. What is nested stands in a column as JSON.
//!
//! Documents have the columns `id`, `text`, `gold`, `meta`; conversations `document`, `task`, `system`,
//! `prompt`, `completion`, `confidence`, `meta`. Files of one kind lie side by side as one data set.

use super::StoreError;
use polars::prelude::*;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Rows of a group, if their text is not longer than [`GROUP_BYTES`].
const GROUP: usize = 1 << 16;
/// Bytes of text after which a group is closed.
const GROUP_BYTES: usize = 32 << 20;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text, or JSON as text.
    Text,
    /// 64-bit floats.
    Real,
}

/// One field of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Of a text column.
    Text(String),
    /// Of a column of numbers.
    Real(f64),
    /// Null, of either.
    Nothing,
}

/// The columns of a file, by name.
pub type Columns = &'static [(&'static str, ColumnKind)];

/// The columns of documents.
pub const DOCUMENT_COLUMNS: Columns =
    &[("id", ColumnKind::Text), ("text", ColumnKind::Text), ("gold", ColumnKind::Text), ("meta", ColumnKind::Text)];

/// The columns of a corpus.
pub const CORPUS_COLUMNS: Columns = &[
    ("document", ColumnKind::Text),
    ("task", ColumnKind::Text),
    ("system", ColumnKind::Text),
    ("prompt", ColumnKind::Text),
    ("completion", ColumnKind::Text),
    ("confidence", ColumnKind::Real),
    ("meta", ColumnKind::Text),
];

/// A file in the making that appears whole or not at all.
pub struct RowWriter {
    path: PathBuf,
    neighbour: PathBuf,
    columns: Columns,
    rows: Vec<Vec<Cell>>,
    bytes: usize,
    /// `None` once finished.
    writer: Option<polars::io::parquet::write::BatchedWriter<BufWriter<File>>>,
}

impl RowWriter {
    /// Begins a file beside `path`; what stands at `path` is not touched.
    ///
    /// # Errors
    /// If the directory or the file cannot be made.
    pub fn create(path: &Path, columns: Columns) -> Result<RowWriter, StoreError> {
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).map_err(StoreError::io(parent, "creating the directory"))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let neighbour = parent.join(format!(".{name}.{}.tmp", std::process::id()));
        let file = File::create(&neighbour).map_err(StoreError::io(path, "writing"))?;
        let kind = |kind| if kind == ColumnKind::Text { DataType::String } else { DataType::Float64 };
        let schema = Schema::from_iter(columns.iter().map(|(name, of)| Field::new((*name).into(), kind(*of))));
        let writer = ParquetWriter::new(BufWriter::new(file)).with_row_group_size(Some(GROUP)).batched(&schema);
        let writer = Some(writer.map_err(|error| refused(path, &error))?);
        Ok(RowWriter { path: path.into(), neighbour, columns, rows: Vec::new(), bytes: 0, writer })
    }

    /// Adds a row, a cell for each column.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn row(&mut self, row: Vec<Cell>) -> Result<(), StoreError> {
        debug_assert_eq!(row.len(), self.columns.len());
        self.bytes += row.iter().map(|cell| if let Cell::Text(text) = cell { text.len() } else { 8 }).sum::<usize>();
        self.rows.push(row);
        if self.rows.len() >= GROUP || self.bytes >= GROUP_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let column = |(at, (name, kind)): (usize, &(&str, ColumnKind))| {
            let name = PlSmallStr::from(*name);
            match kind {
                ColumnKind::Text => {
                    let texts =
                        rows.iter().map(|row| if let Cell::Text(text) = &row[at] { Some(text.as_str()) } else { None });
                    Column::from(StringChunked::from_iter_options(name, texts).into_series())
                }
                ColumnKind::Real => {
                    let reals = rows.iter().map(|row| if let Cell::Real(real) = row[at] { Some(real) } else { None });
                    Column::from(Float64Chunked::from_iter_options(name, reals).into_series())
                }
            }
        };
        let columns: Vec<Column> = self.columns.iter().enumerate().map(column).collect();
        let written = DataFrame::new(rows.len(), columns)
            .and_then(|frame| self.writer.as_mut().map_or(Ok(()), |writer| writer.write_batch(&frame)));
        written.map_err(|error| refused(&self.path, &error))
    }

    /// Writes what is left, syncs the file and gives it its name.
    ///
    /// # Errors
    /// If the disk is full; what stood at the path before stands there still.
    pub fn finish(mut self) -> Result<(), StoreError> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let closed = writer.finish().map_err(|error| refused(&self.path, &error));
        drop(writer);
        let named = closed.and_then(|_| {
            let synced = File::open(&self.neighbour).and_then(|file| file.sync_all());
            let named = synced.and_then(|()| std::fs::rename(&self.neighbour, &self.path));
            named.map_err(StoreError::io(&self.path, "writing"))
        });
        if named.is_err() {
            let _ = std::fs::remove_file(&self.neighbour);
        }
        named
    }
}

impl Drop for RowWriter {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            let _ = std::fs::remove_file(&self.neighbour);
        }
    }
}

/// The rows of a file one by one, the columns in the order asked for; other columns are not read.
///
/// # Errors
/// If it cannot be opened, or lacks a column that is asked for.
pub fn each_row(
    path: &Path,
    columns: Columns,
) -> Result<impl Iterator<Item = Result<Vec<Cell>, StoreError>> + use<>, StoreError> {
    let open = |path: &Path| File::open(path).map(ParquetReader::new).map_err(StoreError::io(path, "opening"));
    let all = open(path)?.num_rows().map_err(|error| refused(path, &error))?;
    let (path, mut at) = (path.to_path_buf(), 0);
    let mut group: std::vec::IntoIter<Vec<Cell>> = Vec::new().into_iter();
    let mut next_group = move || -> Result<Option<Vec<Vec<Cell>>>, StoreError> {
        if at >= all {
            return Ok(None);
        }
        let names = columns.iter().map(|(name, _)| name.to_string()).collect();
        let reader = open(&path)?.with_columns(Some(names)).with_slice(Some((at, GROUP)));
        at += GROUP;
        let read = reader.finish().and_then(|frame| rows(&frame, columns));
        read.map(Some).map_err(|error| refused(&path, &error))
    };
    let mut ended = false;
    Ok(std::iter::from_fn(move || {
        loop {
            if let Some(row) = group.next() {
                return Some(Ok(row));
            }
            if ended {
                return None;
            }
            match next_group() {
                Ok(Some(rows)) => group = rows.into_iter(),
                Ok(None) => ended = true,
                Err(error) => {
                    ended = true;
                    return Some(Err(error));
                }
            }
        }
    }))
}

fn rows(frame: &DataFrame, columns: Columns) -> PolarsResult<Vec<Vec<Cell>>> {
    let mut rows = vec![Vec::with_capacity(columns.len()); frame.height()];
    for (name, kind) in columns {
        let column = frame.column(name)?;
        match kind {
            ColumnKind::Text => {
                for (row, text) in rows.iter_mut().zip(column.str()?.iter()) {
                    row.push(text.map_or(Cell::Nothing, |text| Cell::Text(text.to_string())));
                }
            }
            ColumnKind::Real => {
                for (row, real) in rows.iter_mut().zip(column.f64()?.iter()) {
                    row.push(real.map_or(Cell::Nothing, Cell::Real));
                }
            }
        }
    }
    Ok(rows)
}

fn refused(path: &Path, error: &PolarsError) -> StoreError {
    StoreError::file(path, format!("Parquet: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Columns = &[("text", ColumnKind::Text), ("number", ColumnKind::Real)];

    #[test]
    fn rows_of_more_than_one_group_come_back_in_order() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.parquet");
        let row = |at: usize| match at % 3 {
            0 => vec![Cell::Text(format!("李雷 {at}")), Cell::Real(at as f64 / 3.0)],
            1 => vec![Cell::Text(String::new()), Cell::Nothing],
            _ => vec![Cell::Nothing, Cell::Real(-0.0)],
        };
        let mut writer = RowWriter::create(&path, TWO).unwrap();
        (0..GROUP + 5).for_each(|at| writer.row(row(at)).unwrap());
        assert!(!path.exists());
        writer.finish().unwrap();
        let found: Vec<_> = each_row(&path, TWO).unwrap().map(Result::unwrap).collect();
        assert_eq!(found.len(), GROUP + 5);
        assert!(found.iter().enumerate().all(|(at, found)| *found == row(at)));
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_same_rows_give_the_same_bytes_and_no_rows_a_file_without_rows() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, count: usize| {
            let path = home.path().join(name);
            let mut writer = RowWriter::create(&path, TWO).unwrap();
            (0..count).for_each(|at| writer.row(vec![Cell::Text(format!("t{}", at % 7)), Cell::Real(0.5)]).unwrap());
            writer.finish().unwrap();
            std::fs::read(path).unwrap()
        };
        assert!(write("a.parquet", 1000) == write("b.parquet", 1000));
        write("none.parquet", 0);
        assert_eq!(each_row(&home.path().join("none.parquet"), TWO).unwrap().count(), 0);
    }

    #[test]
    fn a_missing_column_and_a_file_that_is_no_parquet_are_told() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.parquet");
        let mut writer = RowWriter::create(&path, &TWO[..1]).unwrap();
        writer.row(vec![Cell::Text("a".into())]).unwrap();
        writer.finish().unwrap();
        let said = each_row(&path, TWO).unwrap().next().unwrap().unwrap_err().to_string();
        assert!(said.contains("a.parquet: Parquet: ") && said.contains("number"), "{said}");
        std::fs::write(&path, "{\"id\": 1}").unwrap();
        assert!(each_row(&path, TWO).is_err());
    }
}
