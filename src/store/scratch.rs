//! Records that are written once and read again, more often than memory would hold them: an unnamed
//! file, of which nothing is left whatever ends the process.

use super::StoreError;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Records in the order in which they were put.
pub struct Scratch {
    path: PathBuf,
    file: BufWriter<File>,
    count: usize,
}

impl Scratch {
    /// An empty one in a directory, which is made if it is not there; in the system's temporary
    /// directory where none is given.
    ///
    /// # Errors
    /// If no file can be made there.
    pub fn within(directory: Option<&Path>) -> Result<Scratch, StoreError> {
        let path = directory.map_or_else(std::env::temp_dir, Path::to_path_buf);
        std::fs::create_dir_all(&path).map_err(StoreError::io(&path, "creating the directory"))?;
        let file = tempfile::tempfile_in(&path).map_err(StoreError::io(&path, "writing"))?;
        Ok(Scratch { path, file: BufWriter::with_capacity(1 << 18, file), count: 0 })
    }

    /// Puts a record behind the others.
    ///
    /// # Errors
    /// If the disk is full, or the record has more than 4 GiB.
    pub fn put(&mut self, record: &[u8]) -> Result<(), StoreError> {
        let length =
            u32::try_from(record.len()).map_err(|_| StoreError::file(&self.path, "a record of more than 4 GiB"))?;
        let written = self.file.write_all(&length.to_le_bytes()).and_then(|()| self.file.write_all(record));
        self.count += 1;
        written.map_err(StoreError::io(&self.path, "writing"))
    }

    /// Gives every record to `take`, in order.
    ///
    /// # Errors
    /// If the disk fails, or `take` says so.
    pub fn each<E: From<StoreError>>(&mut self, mut take: impl FnMut(usize, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let failed = |error| E::from(StoreError::io(&self.path, "reading what was put aside")(error));
        self.file.flush().map_err(failed)?;
        let mut file = self.file.get_ref();
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut reader = BufReader::with_capacity(1 << 18, file);
        let mut record = Vec::new();
        for ordinal in 0..self.count {
            let mut length = [0; 4];
            reader.read_exact(&mut length).map_err(failed)?;
            record.resize(u32::from_le_bytes(length) as usize, 0);
            reader.read_exact(&mut record).map_err(failed)?;
            take(ordinal, &record)?;
        }
        let mut file = self.file.get_ref();
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_often_as_asked_and_leave_no_file() {
        let home = tempfile::tempdir().unwrap();
        let mut scratch = Scratch::within(Some(home.path())).unwrap();
        let record = |at: usize| vec![at as u8; at * 7 % 300];
        (0..500).for_each(|at| scratch.put(&record(at)).unwrap());
        for _ in 0..2 {
            let mut seen = 0;
            let take = |ordinal: usize, bytes: &[u8]| -> Result<(), StoreError> {
                assert_eq!(bytes, record(ordinal));
                seen += 1;
                Ok(())
            };
            scratch.each(take).unwrap();
            assert_eq!(seen, 500);
        }
        scratch.put(b"one more").unwrap();
        let mut last = Vec::new();
        let keep = |_: usize, bytes: &[u8]| -> Result<(), StoreError> {
            last = bytes.to_vec();
            Ok(())
        };
        scratch.each(keep).unwrap();
        assert_eq!(last, b"one more");
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
