//! Lines that come in any order and stand in theirs: they wait in a file, not in memory.

use super::{LineWriter, StoreError};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Lines are handed to the operating system once there are that many bytes of them.
const BLOCK: usize = 1 << 18;

/// Lines in the making. 16 bytes of memory for each line, whatever its length.
pub struct Spill {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: File,
    block: Vec<u8>,
    length: u64,
    /// Where each line stands: offset and length.
    places: Vec<Option<(u64, u32)>>,
}

impl Spill {
    /// Begins beside `path`; what stands there is not touched.
    ///
    /// # Errors
    /// If the directory or a temporary file in it cannot be made.
    pub fn beside(path: &Path) -> Result<Spill, StoreError> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).map_err(StoreError::io(parent, "creating the directory"))?;
        // Without a name: whatever ends the process, nothing is left of it.
        let file = tempfile::tempfile_in(parent).map_err(StoreError::io(path, "writing"))?;
        let state = State { file, block: Vec::new(), length: 0, places: Vec::new() };
        Ok(Spill { path: path.into(), state: Mutex::new(state) })
    }

    /// Puts the line of this ordinal, without its end of line.
    ///
    /// # Errors
    /// If the disk is full, or the line is longer than 4 GiB.
    pub fn put(&self, ordinal: usize, line: &[u8]) -> Result<(), StoreError> {
        let length =
            u32::try_from(line.len()).map_err(|_| StoreError::file(&self.path, "a line of more than 4 GiB"))?;
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if state.places.len() <= ordinal {
            state.places.resize(ordinal + 1, None);
        }
        state.places[ordinal] = Some((state.length, length));
        state.length += u64::from(length);
        state.block.extend_from_slice(line);
        if state.block.len() >= BLOCK { state.flush(&self.path) } else { Ok(()) }
    }

    /// Writes the lines in the order of their ordinals; those that were never put are left out.
    ///
    /// # Errors
    /// If the disk is full; what stood at the path before stands there still.
    pub fn finish(self) -> Result<(), StoreError> {
        let mut state = self.state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.flush(&self.path)?;
        let mut writer = LineWriter::create(&self.path)?;
        let failed = StoreError::io(&self.path, "reading what was written so far");
        let (mut at, mut line) = (0, Vec::new());
        let mut file = BufReader::with_capacity(1 << 16, &state.file);
        let mut read = || -> std::io::Result<Option<StoreError>> {
            file.seek(SeekFrom::Start(0))?;
            for (offset, length) in state.places.iter().flatten() {
                // Mostly the next line, and then it is in the buffer.
                file.seek_relative(*offset as i64 - at as i64)?;
                line.resize(*length as usize, 0);
                file.read_exact(&mut line)?;
                at = offset + u64::from(*length);
                line.push(b'\n');
                if let Err(error) = writer.write(&line) {
                    return Ok(Some(error));
                }
            }
            Ok(None)
        };
        match read() {
            Err(error) => Err(failed(error)),
            Ok(Some(error)) => Err(error),
            Ok(None) => writer.finish(),
        }
    }
}

impl State {
    fn flush(&mut self, path: &Path) -> Result<(), StoreError> {
        let written = self.file.write_all(&self.block).map_err(StoreError::io(path, "writing"));
        self.block.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_put_in_any_order_stand_in_theirs_and_nothing_else_is_left() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lines.jsonl");
        std::fs::write(&path, "old").unwrap();
        let spill = Spill::beside(&path).unwrap();
        let line = |at: usize| format!("{at}:{}", "x".repeat(at * 7919 % 3000));
        let order = (0..500).map(|at| at * 211 % 500);
        order.filter(|at| *at != 77).for_each(|at| spill.put(at, line(at).as_bytes()).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        spill.finish().unwrap();
        let expected: String = (0..500).filter(|at| *at != 77).map(|at| line(at) + "\n").collect();
        assert!(std::fs::read_to_string(&path).unwrap() == expected);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
