//! One thread writes; whoever keeps an answer waits for it. What waits while a transaction is written
//! is the next transaction, so that hundreds of callers share the price of one.

use super::database::Database;
use super::filter::Filter;
use super::record::{Key, StoredAnswer};
use super::rows::Row;
use crate::store::StoreError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most rows of a transaction.
const MOST: usize = 512;

/// How long it waits for more where several callers keep at once: a transaction costs as much as the
/// rows of half a dozen answers.
const PAUSE: Duration = Duration::from_micros(500);

/// Rows, and who waits for them.
struct Job {
    rows: Vec<Row>,
    heard: SyncSender<Result<Vec<StoredAnswer>, StoreError>>,
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

    /// Writes rows; returns once their transaction has ended, with the answers that stand.
    ///
    /// # Errors
    /// If they could not be written, as on a full disk.
    pub fn keep(&self, rows: Vec<Row>) -> Result<Vec<StoredAnswer>, StoreError> {
        let (heard, answer) = sync_channel(1);
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(Job { rows, heard }).is_ok());
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
    let mut several = false;
    while let Ok(first) = queue.recv() {
        if several {
            std::thread::sleep(PAUSE);
        }
        let mut jobs = vec![first];
        jobs.extend(queue.try_iter().take(MOST - 1));
        several = jobs.len() > 1;
        let kept = database.transact(|database| {
            let rows = jobs.iter().flat_map(|job| &job.rows);
            rows.map(|row| database.keep(row)).collect::<Result<Vec<_>, StoreError>>()
        });
        match kept {
            Ok(earlier) => {
                written.fetch_add(1, Ordering::Release);
                let mut earlier = earlier.into_iter();
                for Job { rows, heard } in jobs {
                    rows.iter().for_each(|row| filter.add(row.key()));
                    let answers = rows.into_iter().zip(earlier.by_ref());
                    let answers = answers.map(|(row, earlier)| earlier.unwrap_or(row.answer)).collect();
                    // Nobody is left to hear it where the caller's thread has ended.
                    let _ = heard.send(Ok(answers));
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
