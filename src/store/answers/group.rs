//! One thread writes; whoever keeps an answer waits for it. What waits while a transaction is written
//! is the next transaction, so that hundreds of callers share the price of one.

use super::database::Database;
use super::record::StoredAnswer;
use super::rows::Row;
use crate::store::StoreError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Most rows of a transaction.
const MOST: usize = 512;

/// A row, and who waits for it.
struct Job {
    row: Row,
    heard: SyncSender<Result<StoredAnswer, StoreError>>,
}

/// The thread that writes a file.
pub(super) struct Writer {
    path: PathBuf,
    /// `None` once it is told to end.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    written: Arc<AtomicU64>,
}

impl Writer {
    /// Starts it.
    ///
    /// # Errors
    /// If there are no threads left.
    pub fn start(database: Database) -> Result<Writer, StoreError> {
        let (path, written) = (database.path().to_path_buf(), Arc::new(AtomicU64::new(0)));
        let ((jobs, queue), count) = (channel(), Arc::clone(&written));
        let thread = std::thread::Builder::new().name("answers".into());
        let thread = thread.spawn(move || work(database, &queue, &count)).map_err(StoreError::io(&path, "writing"))?;
        Ok(Writer { path, jobs: Some(jobs), thread: Some(thread), written })
    }

    /// Writes a row; returns once its transaction has ended, with the answer that stands.
    ///
    /// # Errors
    /// If it could not be written, as on a full disk.
    pub fn keep(&self, row: Row) -> Result<StoredAnswer, StoreError> {
        let (heard, answer) = sync_channel(1);
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(Job { row, heard }).is_ok());
        let ended = || StoreError::file(&self.path, "the thread that writes it has ended; run the same command again");
        match sent {
            true => answer.recv().unwrap_or_else(|_| Err(ended())),
            false => Err(ended()),
        }
    }

    /// Transactions that were written so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
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
fn work(mut database: Database, queue: &Receiver<Job>, written: &AtomicU64) {
    while let Ok(first) = queue.recv() {
        let mut jobs = vec![first];
        jobs.extend(queue.try_iter().take(MOST - 1));
        let kept = database.transact(|database| {
            jobs.iter().map(|job| database.keep(&job.row)).collect::<Result<Vec<_>, StoreError>>()
        });
        match kept {
            Ok(earlier) => {
                written.fetch_add(1, Ordering::Release);
                for (job, earlier) in jobs.into_iter().zip(earlier) {
                    // Nobody is left to hear it where the caller's thread has ended.
                    let _ = job.heard.send(Ok(earlier.unwrap_or(job.row.answer)));
                }
            }
            Err(error) => {
                for job in jobs {
                    let _ = job.heard.send(Err(error.again()));
                }
            }
        }
    }
}
