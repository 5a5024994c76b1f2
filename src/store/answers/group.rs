//! One thread writes; whoever keeps an answer waits for it, or is told. What waits while a transaction
//! is written is the next transaction, so that hundreds of callers share the price of one.

use super::database::Database;
use super::filter::Filter;
use super::record::{Key, StoredAnswer};
use super::rows::Row;
use crate::store::StoreError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most rows of a transaction.
const MOST: usize = 512;

/// How long it waits for more, for each row of the transaction before, where several callers keep at
/// once: a transaction costs as much as the rows of half a dozen answers. What waits is lost to a kill.
const PAUSE_A_ROW: Duration = Duration::from_micros(50);

/// Rows beyond which a pause grows no longer: 4 ms.
const MOST_PAUSED: u32 = 80;

/// Hears the answer that stands, or why none could be kept.
pub(super) type Heard = Box<dyn FnOnce(Result<StoredAnswer, StoreError>) + Send>;

/// A row, and who waits for it.
struct Job {
    row: Row,
    heard: Heard,
}

/// The thread that writes a file.
pub(super) struct Writer {
    path: PathBuf,
    /// `None` once it is told to end.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    written: Arc<AtomicU64>,
    filter: Arc<Filter>,
}

impl Writer {
    /// Starts it.
    ///
    /// # Errors
    /// If there are no threads left.
    pub fn start(database: Database) -> Result<Writer, StoreError> {
        let (path, written) = (database.path().to_path_buf(), Arc::new(AtomicU64::new(0)));
        let (filter, (jobs, queue)) = (Arc::new(Filter::new()), channel());
        database.each_key(&mut |key| {
            filter.add(&key);
            Ok(())
        })?;
        let (count, held) = (Arc::clone(&written), Arc::clone(&filter));
        let thread = std::thread::Builder::new().name("answers".into());
        let thread = thread.spawn(move || work(database, &queue, &count, &held));
        let thread = thread.map_err(StoreError::io(&path, "writing"))?;
        Ok(Writer { path, jobs: Some(jobs), thread: Some(thread), written, filter })
    }

    /// Writes a row; returns once its transaction has ended, with the answer that stands.
    ///
    /// # Errors
    /// If it could not be written, as on a full disk.
    pub fn keep(&self, row: Row) -> Result<StoredAnswer, StoreError> {
        let (heard, answer) = sync_channel(1);
        self.keep_later(row, Box::new(move |kept| drop(heard.send(kept))));
        answer.recv().unwrap_or_else(|_| Err(self.ended()))
    }

    /// Writes a row; `heard` is called once its transaction has ended, in the thread that writes.
    pub fn keep_later(&self, row: Row, heard: Heard) {
        let Some(jobs) = &self.jobs else { return heard(Err(self.ended())) };
        if let Err(unsent) = jobs.send(Job { row, heard }) {
            (unsent.0.heard)(Err(self.ended()));
        }
    }

    fn ended(&self) -> StoreError {
        StoreError::file(&self.path, "the thread that writes it has ended; run the same command again")
    }

    /// Transactions that were written so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Whether the file may hold a key: if not, nobody need look.
    pub fn may_hold(&self, key: &Key) -> bool {
        self.filter.may_hold(key)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes until nobody is left who could ask for it; the file is closed then.
fn work(mut database: Database, queue: &Receiver<Job>, written: &AtomicU64, filter: &Filter) {
    let mut before = 1;
    while let Ok(first) = queue.recv() {
        if before > 1 {
            std::thread::sleep(PAUSE_A_ROW * before.min(MOST_PAUSED));
        }
        let mut jobs = vec![first];
        jobs.extend(queue.try_iter().take(MOST - 1));
        before = jobs.len() as u32;
        let kept = database.transact(|database| {
            jobs.iter().map(|job| database.keep(&job.row)).collect::<Result<Vec<_>, StoreError>>()
        });
        match kept {
            Ok(earlier) => {
                written.fetch_add(1, Ordering::Release);
                for (Job { row, heard }, earlier) in jobs.into_iter().zip(earlier) {
                    filter.add(row.key());
                    heard(Ok(earlier.unwrap_or(row.answer)));
                }
            }
            Err(error) => jobs.into_iter().for_each(|job| (job.heard)(Err(error.again()))),
        }
    }
}
