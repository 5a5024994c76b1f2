//! Bytes that are too many for the memory and needed only for a while: a file without a name, which
//! whatever ends the process leaves nothing of.

use super::StoreError;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes are handed to the operating system once there are that many of them.
const BLOCK: usize = 1 << 18;

/// Appended to first, read from any place afterwards.
#[derive(Debug)]
pub struct Overflow {
    folder: PathBuf,
    file: File,
    block: Vec<u8>,
}

impl Overflow {
    /// Begins in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// If the folder or a file in it cannot be made.
    pub fn within(folder: &Path) -> Result<Overflow, StoreError> {
        std::fs::create_dir_all(folder).map_err(StoreError::io(folder, "creating the directory"))?;
        let file = tempfile::tempfile_in(folder).map_err(StoreError::io(folder, "making a temporary file"))?;
        Ok(Overflow { folder: folder.into(), file, block: Vec::new() })
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.block.extend_from_slice(bytes);
        if self.block.len() >= BLOCK { self.flush() } else { Ok(()) }
    }

    /// Fills `bytes` from an offset; nothing is appended afterwards.
    ///
    /// # Errors
    /// If there are fewer bytes.
    pub fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), StoreError> {
        self.flush()?;
        let read = self.file.seek(SeekFrom::Start(offset)).and_then(|_| self.file.read_exact(bytes));
        read.map_err(StoreError::io(&self.folder, "reading a temporary file"))
    }

    /// Gives all records of `N` bytes, in the order they were appended.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn each<const N: usize>(&mut self, mut take: impl FnMut([u8; N])) -> Result<(), StoreError> {
        self.flush()?;
        let failed = StoreError::io(&self.folder, "reading a temporary file");
        let mut read = || -> std::io::Result<()> {
            self.file.seek(SeekFrom::Start(0))?;
            let mut rest = std::io::BufReader::with_capacity(BLOCK, &self.file);
            let mut record = [0; N];
            while !std::io::BufRead::fill_buf(&mut rest)?.is_empty() {
                rest.read_exact(&mut record)?;
                take(record);
            }
            Ok(())
        };
        read().map_err(failed)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.block);
        self.block.clear();
        written.map_err(StoreError::io(&self.folder, "writing a temporary file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_in_order_and_from_any_place_and_no_file_is_left() {
        let home = tempfile::tempdir().unwrap();
        let mut overflow = Overflow::within(home.path()).unwrap();
        // More than one block.
        let count = (BLOCK / 4 + 10) as u32;
        (0..count).for_each(|at| overflow.append(&at.to_le_bytes()).unwrap());
        let mut next = 0;
        overflow
            .each(|record: [u8; 4]| {
                assert_eq!(u32::from_le_bytes(record), next);
                next += 1;
            })
            .unwrap();
        assert_eq!(next, count);
        let mut record = [0; 4];
        overflow.read_at(4 * 777, &mut record).unwrap();
        assert_eq!(u32::from_le_bytes(record), 777);
        assert!(overflow.read_at(4 * u64::from(count), &mut record).is_err());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
