//! Answers from file to file: cassettes and stores into a store, a store into a cassette, and what a
//! store holds.

use super::cassette;
use super::database::{Database, damaged, is_database};
use super::lock::{Lock, beside};
use super::record::{CassetteHeader, StoredAnswer, StoredRequest, key_of};
use super::rows::Row;
use crate::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// What an import came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Answers that were read.
    pub read: usize,
    /// Those among them that the store did not have.
    pub new: usize,
}

/// What a store holds.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerStats {
    /// Where its answers come from, if a cassette said so.
    pub header: Option<CassetteHeader>,
    /// By model and class of endpoint, in this order.
    pub models: Vec<ModelStats>,
    /// Bytes of its files.
    pub bytes: u64,
}

/// The answers of one model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelStats {
    /// The model's name as the server knows it.
    pub model: String,
    /// What kind of endpoint was asked.
    pub class: String,
    /// How many answers.
    pub answers: u64,
    /// Requests that were sent for them.
    pub attempts: u64,
    /// Answers of which the tokens are known.
    pub counted: u64,
    /// Tokens read, of those.
    pub prompt_tokens: u64,
    /// Tokens written, of those.
    pub completion_tokens: u64,
    /// Seconds from request to answer, all together.
    pub seconds: f64,
}

/// Reads cassettes, logs of version 0.1 and stores into a store, which is made if it is not there. An
/// answer that stands is not replaced; the first header that is met is kept.
///
/// # Errors
/// If a file is none of these, or another process writes the store.
pub fn import_answers(files: &[PathBuf], into: &Path) -> Result<Imported, StoreError> {
    let (mut database, _lock, _) = open(into)?;
    let mut sum = Imported::default();
    let place = std::fs::canonicalize(into).ok();
    for file in files {
        if std::fs::canonicalize(file).ok().is_some_and(|file| Some(file) == place) {
            return Err(StoreError::file(file, "is the store itself; give another file to import or another --into"));
        }
        let (found, header) = copy(file, &mut database, Copying::WithRequests)?;
        sum = Imported { read: sum.read + found.read, new: sum.new + found.new };
        if let Some(header) = header
            && database.header()?.is_none()
        {
            database.set_header(&header)?;
        }
    }
    database.settle()?;
    Ok(sum)
}

/// Writes all answers of a store as a cassette, in the order of their keys: the same answers give the
/// same bytes, in whatever order they came. How many there are.
///
/// # Errors
/// If the store cannot be read or the cassette cannot be written; what stood there stands still.
pub fn export_answers(store: &Path, out: &Path, header: &CassetteHeader) -> Result<usize, StoreError> {
    let mut writer = cassette::Writer::create(out, header)?;
    each_answer(store, &mut |request, answer| writer.push(request, answer))?;
    writer.finish()
}

/// Every request with its answer: of a store in the order of the keys, of a cassette in its own.
///
/// # Errors
/// If the file is neither or cannot be read, or `each` says no.
pub fn each_answer(
    path: &Path,
    each: &mut dyn FnMut(StoredRequest, StoredAnswer) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if !is_database(path) && path.is_file() {
        return cassette::read(path, each).map(drop);
    }
    match Database::open_to_read(path)? {
        Some(database) => database.each_row(each),
        None => Ok(()),
    }
}

/// What a store holds, without reading an answer's text.
///
/// # Errors
/// If it cannot be read.
pub fn answer_stats(store: &Path) -> Result<AnswerStats, StoreError> {
    let mut models: BTreeMap<(String, String), ModelStats> = BTreeMap::new();
    let mut header = None;
    if let Some(database) = Database::open_to_read(store)? {
        header = database.header()?;
        database.each_settings(&mut |settings, part| {
            let request: StoredRequest =
                serde_json::from_str(settings).map_err(|_| damaged(store, "the settings of a request are no JSON"))?;
            let sum = models.entry((request.model, request.class)).or_default();
            sum.answers += part.answers;
            sum.attempts += part.attempts;
            sum.counted += part.counted;
            sum.prompt_tokens += part.prompt_tokens;
            sum.completion_tokens += part.completion_tokens;
            sum.seconds += part.seconds;
            Ok(())
        })?;
    }
    let named = |((model, class), stats)| ModelStats { model, class, ..stats };
    let bytes = [store.to_path_buf(), beside(store, "-wal")];
    let bytes = bytes.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|found| found.len()).sum();
    Ok(AnswerStats { header, models: models.into_iter().map(named).collect(), bytes })
}

impl AnswerStats {
    /// The header that a cassette of these answers is given where nobody says otherwise: the one that
    /// was imported, or what the requests say.
    pub fn suggested_header(&self) -> CassetteHeader {
        let models: BTreeSet<&str> = self.models.iter().map(|stats| stats.model.as_str()).collect();
        self.header.clone().unwrap_or_else(|| CassetteHeader {
            cassette: 1,
            model: models.into_iter().collect::<Vec<_>>().join(", "),
            server: "OpenAI-compatible chat completions".into(),
            ..CassetteHeader::default()
        })
    }
}

/// Opens a store to write it, with the answers of the log of version 0.1 beside it; how many these
/// were, where it was not read before.
pub(super) fn open(path: &Path) -> Result<(Database, Lock, Option<usize>), StoreError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(StoreError::io(parent, "creating the directory"))?;
    let lock = Lock::to_write(path)?;
    let mut database = Database::open_to_write(path)?;
    let adopted = adopt(&path.with_extension("jsonl"), &mut database)?;
    // The new file's name must survive a power cut; file systems that cannot sync a directory say so.
    if let Ok(directory) = File::open(parent) {
        let _ = directory.sync_all();
    }
    Ok((database, lock, adopted))
}

/// Reads the log of version 0.1 into the store that takes its place: all of it or nothing, and once,
/// unless it has grown since.
fn adopt(log: &Path, database: &mut Database) -> Result<Option<usize>, StoreError> {
    let Ok(file) = File::open(log) else { return Ok(None) };
    let length = file.metadata().map_err(StoreError::io(log, "reading"))?.len().to_string();
    let name = format!("log {}", log.file_name().unwrap_or_default().to_string_lossy());
    if database.note(&name)?.is_some_and(|noted| noted == length) {
        return Ok(None);
    }
    if let Err(TryLockError::WouldBlock) = file.try_lock_shared() {
        return Err(StoreError::Busy { path: log.to_path_buf() });
    }
    let count = database.transact(|database| {
        let (count, _) = cassette::read(log, &mut |request, answer| {
            database.keep(&Row::of(key_of(&request), &request, answer)).map(drop)
        })?;
        database.set_note(&name, &length)?;
        Ok(count)
    })?;
    Ok(Some(count))
}

/// What is copied.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Copying {
    /// Requests and answers; an answer that stands is not replaced.
    WithRequests,
    /// Answers by key; the later one counts.
    AnswersAlone,
}

/// Copies a cassette or a store into a database.
pub(super) fn copy(
    from: &Path,
    into: &mut Database,
    what: Copying,
) -> Result<(Imported, Option<CassetteHeader>), StoreError> {
    let mut filling = Filling { into, rows: Vec::new(), what, sum: Imported::default() };
    let header = if is_database(from) {
        let _lock = Lock::to_copy(from)?;
        match (Database::open_to_read(from)?, what) {
            (None, _) => None,
            (Some(database), Copying::AnswersAlone) => {
                database.each_answer(&mut |key, answer| filling.push(Row::bare(key, answer)))?;
                database.header()?
            }
            (Some(database), Copying::WithRequests) => {
                database.each_row(&mut |request, answer| filling.push(Row::of(key_of(&request), &request, answer)))?;
                database.header()?
            }
        }
    } else {
        let (_, header) = cassette::read(from, &mut |request, answer| {
            let key = key_of(&request);
            filling.push(match what {
                Copying::WithRequests => Row::of(key, &request, answer),
                Copying::AnswersAlone => Row::bare(key, answer),
            })
        })?;
        header
    };
    filling.flush()?;
    Ok((filling.sum, header))
}

/// Rows on their way into a database, many to a transaction.
struct Filling<'a> {
    into: &'a mut Database,
    rows: Vec<Row>,
    what: Copying,
    sum: Imported,
}

/// Rows of a transaction.
const ROWS: usize = 1024;

impl Filling<'_> {
    fn push(&mut self, row: Row) -> Result<(), StoreError> {
        self.rows.push(row);
        match self.rows.len() >= ROWS {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let Filling { into, rows, what, sum } = self;
        let new = into.transact(|into| {
            let mut new = 0;
            for row in rows.iter() {
                if *what == Copying::AnswersAlone {
                    into.forget(row.key())?;
                }
                new += usize::from(into.keep(row)?.is_none());
            }
            Ok(new)
        })?;
        *sum = Imported { read: sum.read + rows.len(), new: sum.new + new };
        rows.clear();
        Ok(())
    }
}
