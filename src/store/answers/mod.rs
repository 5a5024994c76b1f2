//! Answers of LLMs, as they were paid for: one SQLite file a run, a row a request, written before it
//! is used. The cassette (JSON Lines with a header) replays a run offline.
//!
//! Raw answers are kept, parsing is always run again: a better parser re-reads old answers.

mod cassette;
mod database;
mod exchange;
mod filter;
mod group;
mod lock;
mod record;
mod rows;

#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;

pub use exchange::{AnswerStats, Imported, ModelStats, answer_stats, each_answer, export_answers, import_answers};
pub use record::{CassetteHeader, StoredAnswer, StoredRequest, StoredToken, request_key};

use super::StoreError;
use database::{Database, is_database};
use exchange::Copying;
use group::Writer;
use lock::{Lock, beside};
use record::{Key, key_named, key_of};
use rows::Row;
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Answers by request: those of one file that this process writes, and those of others that it reads.
/// None of them is held in memory.
#[derive(Default)]
pub struct AnswerStore {
    header: Option<CassetteHeader>,
    own: Option<Own>,
    /// Files that are read where they stand; the later one counts.
    attached: Vec<Mutex<Database>>,
    /// What was copied from cassettes, and what is kept where there is no file.
    scratch: Mutex<Option<Database>>,
    /// What went wrong first. Nothing is kept from then on.
    fault: Mutex<Option<StoreError>>,
}

/// An answer that is about to be kept.
pub struct Keeping(Ready);

enum Ready {
    /// The request had one already.
    Standing(StoredAnswer),
    Row(Box<Row>),
}

/// What a file held when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// How many answers.
    pub answers: usize,
    /// How many of them were read from the log of version 0.1 beside it, if that was done now.
    pub adopted: Option<usize>,
}

/// The file that this process alone writes. Readers are closed first, so that the writer, the last,
/// leaves one file.
struct Own {
    readers: Vec<Mutex<Database>>,
    /// Whose turn it is.
    next: AtomicUsize,
    writer: Writer,
    /// Transactions that are on the disk; held by the one that waits for it.
    synced: Mutex<u64>,
    _lock: Lock,
}

/// Connections that read the file that is written; each has a cache of 2 MB.
const READERS: usize = 4;

impl AnswerStore {
    /// An empty store without a file.
    pub fn new() -> AnswerStore {
        AnswerStore::default()
    }

    /// Adds the answers of a cassette or of a store's file, which are copied into a temporary one: the
    /// file may be written by others afterwards, from other machines, too. How many it has.
    ///
    /// # Errors
    /// If the file is neither or is damaged, or a process writes it ([`StoreError::Busy`]).
    pub fn load(&mut self, path: &Path) -> Result<usize, StoreError> {
        let scratch = self.scratch.get_mut().expect(UNPOISONED);
        let scratch = match scratch {
            Some(scratch) => scratch,
            None => scratch.insert(Database::scratch()?),
        };
        let (found, header) = exchange::copy(path, scratch, Copying::AnswersAlone)?;
        if scratch.count()? == 0 {
            // A cassette without answers, beside a server: nobody need look there.
            *self.scratch.get_mut().expect(UNPOISONED) = None;
        }
        self.header = header.or(self.header.take());
        Ok(found.read)
    }

    /// Adds the answers of a store's file without copying them, or those of a cassette as
    /// [`AnswerStore::load`] does. How many it has.
    ///
    /// # Errors
    /// If the file is neither or is damaged.
    pub fn attach(&mut self, path: &Path) -> Result<usize, StoreError> {
        if !is_database(path) {
            return self.load(path);
        }
        let Some(database) = Database::open_to_read(path)? else { return Ok(0) };
        let (count, header) = (database.count()?, database.header()?);
        self.header = header.or(self.header.take());
        self.attached.push(Mutex::new(database));
        Ok(count)
    }

    /// Opens (or makes) the file that answers are kept in. It is locked: one process writes it. A log
    /// of version 0.1 beside it (`answers.jsonl` beside `answers.sqlite`) is read into it, once.
    ///
    /// # Errors
    /// If another process writes it ([`StoreError::Busy`]), or it is no store, of another format or
    /// damaged.
    pub fn open_file(&mut self, path: &Path) -> Result<Opened, StoreError> {
        let (database, lock, adopted) = exchange::open(path)?;
        let (answers, header) = (database.count()?, database.header()?);
        let readers = (0..READERS).map(|_| Database::reader(path).map(Mutex::new)).collect::<Result<_, _>>()?;
        let writer = Writer::start(database)?;
        self.header = header.or(self.header.take());
        self.own = Some(Own { readers, next: AtomicUsize::new(0), writer, synced: Mutex::new(0), _lock: lock });
        Ok(Opened { answers, adopted })
    }

    /// The stored answer to exactly this request.
    pub fn get(&self, request: &StoredRequest) -> Option<StoredAnswer> {
        self.answer(&key_of(request))
    }

    /// The stored answer to the request of this key; see [`AnswerStore::fault`] for one that cannot be
    /// read.
    pub fn get_key(&self, key: &str) -> Option<StoredAnswer> {
        self.answer(&key_named(key)?)
    }

    /// Whether the request of this key has an answer.
    pub fn has(&self, key: &str) -> bool {
        key_named(key).is_some_and(|key| {
            let found = self.look(&key, &|database| Ok(database.has(&key)?.then_some(())));
            self.or_fault(found).is_some()
        })
    }

    fn answer(&self, key: &Key) -> Option<StoredAnswer> {
        self.or_fault(self.look(key, &|database| database.find(key)))
    }

    /// Keeps an answer, if the request has none yet.
    ///
    /// # Errors
    /// As [`AnswerStore::keep`].
    pub fn put(&self, request: &StoredRequest, answer: &StoredAnswer) -> Result<(), StoreError> {
        self.keep(&request_key(request), request, answer.clone()).map(drop)
    }

    /// Keeps an answer under the request's key; the answer that stands, which is an earlier one
    /// where there was one. With a file, the row is written before this returns, so that it outlives
    /// the process, and on the disk once [`AnswerStore::settle`] returns, so that it outlives the
    /// machine. Many threads may keep at once: they share a transaction.
    ///
    /// # Errors
    /// If the file cannot be written (a full disk) or could not be read before: nothing is kept then,
    /// and what was kept before is safe.
    pub fn keep(&self, key: &str, request: &StoredRequest, answer: StoredAnswer) -> Result<StoredAnswer, StoreError> {
        self.keep_row(self.row(key, request, answer)?)
    }

    /// Keeps what is ready to be kept, as [`AnswerStore::keep`] does.
    ///
    /// # Errors
    /// As there.
    pub fn keep_row(&self, keeping: Keeping) -> Result<StoredAnswer, StoreError> {
        match (keeping.0, &self.own) {
            (Ready::Standing(answer), _) => Ok(answer),
            (Ready::Row(row), Some(own)) => own.writer.keep(*row),
            (Ready::Row(row), None) => self.keep_here(*row),
        }
    }

    /// An answer, ready to be kept under the request's key.
    ///
    /// # Errors
    /// As [`AnswerStore::keep`].
    pub fn row(&self, key: &str, request: &StoredRequest, answer: StoredAnswer) -> Result<Keeping, StoreError> {
        if let Some(fault) = self.fault() {
            return Err(fault);
        }
        let key = key_named(key).unwrap_or_else(|| key_of(request));
        if let Some(standing) = self.elsewhere(&|database| database.find(&key))? {
            return Ok(Keeping(Ready::Standing(standing)));
        }
        // No model reads or writes 2^63 tokens: what does not fit into the file is not known.
        let known = |count: Option<u64>| count.filter(|count| i64::try_from(*count).is_ok());
        let (prompt_tokens, completion_tokens) = (known(answer.prompt_tokens), known(answer.completion_tokens));
        let answer = StoredAnswer { prompt_tokens, completion_tokens, ..answer };
        let row = if self.own.is_some() { Row::of(key, request, answer) } else { Row::bare(key, answer) };
        Ok(Keeping(Ready::Row(Box::new(row))))
    }

    /// Keeps as [`AnswerStore::keep`] does, but does not wait: `then` hears what stands once its
    /// transaction has ended, in the thread that writes, which it must not hold up.
    pub fn keep_later(&self, keeping: Keeping, then: impl FnOnce(Result<StoredAnswer, StoreError>) + Send + 'static) {
        match (keeping.0, &self.own) {
            (Ready::Standing(answer), _) => then(Ok(answer)),
            (Ready::Row(row), Some(own)) => own.writer.keep_later(*row, Box::new(then)),
            (Ready::Row(row), None) => then(self.keep_here(*row)),
        }
    }

    /// Keeps an answer where there is no file.
    fn keep_here(&self, row: Row) -> Result<StoredAnswer, StoreError> {
        let mut scratch = self.scratch();
        let scratch = match scratch.as_mut() {
            Some(scratch) => scratch,
            None => scratch.insert(Database::scratch()?),
        };
        let earlier = scratch.transact(|scratch| scratch.keep(&row))?;
        Ok(earlier.unwrap_or(row.answer))
    }

    /// Waits until every row is on the disk: at once if somebody has waited since the last was kept.
    ///
    /// # Errors
    /// If the disk says no.
    pub fn settle(&self) -> Result<(), StoreError> {
        let Some(own) = &self.own else { return Ok(()) };
        let mut synced = own.synced.lock().expect(UNPOISONED);
        let written = own.writer.written();
        if *synced < written {
            // Rows stand in SQLite's log until SQLite itself syncs it and writes them into the file.
            let log = beside(own.writer.path(), "-wal");
            match OpenOptions::new().write(true).open(&log).and_then(|log| log.sync_data()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(StoreError::io(&log, "writing to the disk")(error));
                }
                _ => *synced = written,
            }
        }
        Ok(())
    }

    /// Where the loaded answers come from, if a cassette said so.
    pub fn header(&self) -> Option<&CassetteHeader> {
        self.header.as_ref()
    }

    /// Why an answer could not be read. It passes for one that is not there, and nothing is kept from
    /// then on.
    pub fn fault(&self) -> Option<StoreError> {
        self.fault.lock().expect(UNPOISONED).as_ref().map(StoreError::again)
    }

    /// How many answers are there, each request counted once.
    pub fn len(&self) -> usize {
        let counted = || -> Result<usize, StoreError> {
            let own = self.own.as_ref().map(|own| own.reader());
            let attached: Vec<_> = self.attached.iter().map(|database| database.lock().expect(UNPOISONED)).collect();
            let scratch = self.scratch();
            let all: Vec<&Database> =
                own.iter().chain(&attached).map(|guard| &**guard).chain(scratch.as_ref()).collect();
            let mut count = 0;
            for (at, database) in all.iter().enumerate() {
                if at == 0 {
                    count += database.count()?;
                    continue;
                }
                database.each_key(&mut |key| {
                    for before in &all[..at] {
                        if before.has(&key)? {
                            return Ok(());
                        }
                    }
                    count += 1;
                    Ok(())
                })?;
            }
            Ok(count)
        };
        self.or_fault(counted().map(Some)).unwrap_or(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the answers to `requests` as a cassette, in the order given, each once.
    ///
    /// # Errors
    /// If a request has no answer or the file cannot be written.
    pub fn write_cassette(
        &self,
        path: &Path,
        header: &CassetteHeader,
        requests: &[StoredRequest],
    ) -> Result<usize, StoreError> {
        let (mut writer, mut written) = (cassette::Writer::create(path, header)?, HashSet::new());
        for request in requests {
            let key = key_of(request);
            if !written.insert(key) {
                continue;
            }
            let missing = || StoreError::file(path, "an answer of this run is not in the store");
            let answer = self.look(&key, &|database| database.find(&key))?.ok_or_else(missing)?;
            writer.push(request.clone(), answer)?;
        }
        writer.finish()
    }

    /// Looks through all files, the own one first and then from the last that was added.
    fn look<T>(&self, key: &Key, find: Find<T>) -> Result<Option<T>, StoreError> {
        if let Some(own) = &self.own
            && own.writer.may_hold(key)
            && let Some(found) = find(&own.reader())?
        {
            return Ok(Some(found));
        }
        self.elsewhere(find)
    }

    /// Looks through all files but the own one.
    fn elsewhere<T>(&self, find: Find<T>) -> Result<Option<T>, StoreError> {
        for attached in self.attached.iter().rev() {
            if let Some(found) = find(&attached.lock().expect(UNPOISONED))? {
                return Ok(Some(found));
            }
        }
        self.scratch().as_ref().map_or(Ok(None), find)
    }

    fn scratch(&self) -> MutexGuard<'_, Option<Database>> {
        self.scratch.lock().expect(UNPOISONED)
    }

    /// What was found; remembers why, where nothing could be.
    fn or_fault<T>(&self, found: Result<Option<T>, StoreError>) -> Option<T> {
        found.unwrap_or_else(|error| {
            self.fault.lock().expect(UNPOISONED).get_or_insert(error);
            None
        })
    }
}

/// A question to one file.
type Find<'a, T> = &'a dyn Fn(&Database) -> Result<Option<T>, StoreError>;

const UNPOISONED: &str = "no thread panics while it holds the lock";

impl Own {
    /// A connection that reads: one that is free, else the next in turn.
    fn reader(&self) -> MutexGuard<'_, Database> {
        let free = self.readers.iter().find_map(|reader| reader.try_lock().ok());
        free.unwrap_or_else(|| {
            let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.readers.len();
            self.readers[turn].lock().expect(UNPOISONED)
        })
    }
}
