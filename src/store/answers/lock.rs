//! Who may write a store: one process at a time, on whatever machine, by a lock on a file beside it.
//!
//! SQLite's own locks let several processes write one file. Two that ask the same questions would pay
//! twice, so the second is refused at once. A third kind of visitor only copies what is there; it
//! holds the lock with others of its kind, and a writer waits for it.

use crate::store::StoreError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the lock file holds while a process writes the store; empty while others copy it.
const WRITER: &[u8] = b"writer";

/// How often a writer looks whether those that copy have ended, and how many times at most: ten
/// minutes.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSES: usize = 30_000;

/// Held until it is dropped; a kill drops it, too.
pub(super) struct Lock {
    file: File,
    /// Whether it keeps everybody out.
    alone: bool,
}

impl Lock {
    /// For the one that writes.
    ///
    /// # Errors
    /// If another process writes the store.
    pub fn to_write(store: &Path) -> Result<Lock, StoreError> {
        let path = beside(store, "-lock");
        let mut file = opened(&path).map_err(StoreError::io(&path, "opening"))?;
        for _ in 0..PAUSES {
            match file.try_lock() {
                Ok(()) => {
                    mark(&mut file, WRITER).map_err(StoreError::io(&path, "writing"))?;
                    return Ok(Lock { file, alone: true });
                }
                Err(TryLockError::WouldBlock) if marked(&mut file) => break,
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                // A file system without locks: whoever shares a store there does so at their own risk.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                    return Ok(Lock { file, alone: false });
                }
                Err(TryLockError::Error(error)) => return Err(StoreError::io(&path, "locking")(error)),
            }
        }
        Err(StoreError::Busy { path: store.to_path_buf() })
    }

    /// For those that copy; `None` where nothing can be locked, as in a directory that may only be
    /// read.
    ///
    /// # Errors
    /// If a process writes the store.
    pub fn to_copy(store: &Path) -> Result<Option<Lock>, StoreError> {
        let Ok(mut file) = opened(&beside(store, "-lock")) else { return Ok(None) };
        match file.try_lock_shared() {
            Ok(()) => {
                // What a writer left that was killed.
                let _ = mark(&mut file, b"");
                Ok(Some(Lock { file, alone: false }))
            }
            Err(TryLockError::WouldBlock) => Err(StoreError::Busy { path: store.to_path_buf() }),
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.alone {
            let _ = mark(&mut self.file, b"");
        }
    }
}

/// A neighbour of a store, by what its name has more.
pub(super) fn beside(store: &Path, more: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

fn opened(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).read(true).write(true).truncate(false).open(path)
}

fn mark(file: &mut File, bytes: &[u8]) -> std::io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(bytes)
}

fn marked(file: &mut File) -> bool {
    let mut found = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(16).read_to_end(&mut found));
    read.is_ok() && found == WRITER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writes_or_several_copy() {
        let home = tempfile::tempdir().unwrap();
        let store = home.path().join("answers.sqlite");
        let writer = Lock::to_write(&store).unwrap();
        for said in [Lock::to_write(&store).err(), Lock::to_copy(&store).err()] {
            let said = said.unwrap().to_string();
            assert!(said.contains("answers.sqlite: another process writes it; wait for its end"), "{said}");
        }
        drop(writer);
        let copies = [Lock::to_copy(&store).unwrap(), Lock::to_copy(&store).unwrap()];
        assert!(copies.iter().all(Option::is_some));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Lock::to_write(&store).map(drop));
            drop(copies);
            waiting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn the_mark_of_a_writer_that_was_killed_refuses_nobody() {
        let home = tempfile::tempdir().unwrap();
        let store = home.path().join("answers.sqlite");
        std::fs::write(beside(&store, "-lock"), WRITER).unwrap();
        let copy = Lock::to_copy(&store).unwrap();
        assert_eq!(std::fs::read(beside(&store, "-lock")).unwrap(), b"");
        drop(copy);
        std::fs::write(beside(&store, "-lock"), WRITER).unwrap();
        Lock::to_write(&store).unwrap();
    }
}
