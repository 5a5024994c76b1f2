//! Lines as they stand, for readers that understand them side by side; and where the line of an id
//! is, for files whose order is not the one that is wanted.

use super::jsonl::{open, read_line};
use super::{StoreError, hash_bytes};
use serde::{Deserialize, de::DeserializeOwned};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A line and its number, counting from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawLine {
    /// Its number.
    pub number: usize,
    /// Without white space at its ends.
    pub text: String,
}

impl RawLine {
    /// The value that the line holds.
    ///
    /// # Errors
    /// By file and number, if it holds none.
    pub fn parse<T: DeserializeOwned>(&self, path: &Path) -> Result<T, StoreError> {
        serde_json::from_str(&self.text).map_err(|error| StoreError::line(path, self.number, error.to_string()))
    }
}

/// The lines of `.jsonl` or `.jsonl.zst` that are not blank, one by one, not yet understood.
pub struct RawLines {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    buffer: Vec<u8>,
    number: usize,
}

impl RawLines {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<RawLines, StoreError> {
        Ok(RawLines { path: path.into(), reader: open(path)?, buffer: Vec::new(), number: 0 })
    }

    /// The next line; `None` behind the last.
    ///
    /// # Errors
    /// If the line is no UTF-8 or too long, or the disk fails.
    pub fn read(&mut self) -> Result<Option<RawLine>, StoreError> {
        loop {
            self.number += 1;
            match read_line(self.reader.as_mut(), &mut self.buffer, &self.path, self.number)? {
                None => return Ok(None),
                Some("") => {}
                Some(text) => return Ok(Some(RawLine { number: self.number, text: text.to_owned() })),
            }
        }
    }
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

/// The id that a line of JSON names.
///
/// # Errors
/// By file and number, if it names none.
pub fn id_of(line: &RawLine, path: &Path) -> Result<String, StoreError> {
    Ok(line.parse::<Named>(path)?.id)
}

/// Where the line of each id stands in a plain file; 32 bytes of memory a line.
pub struct LineIndex {
    path: PathBuf,
    file: BufReader<File>,
    /// Hash of the id, offset, number; in order of the hash.
    places: Vec<(u64, u64, u64)>,
}

impl LineIndex {
    /// Reads through a file.
    ///
    /// # Errors
    /// If a line has no id, or two have the same.
    pub fn of(path: &Path) -> Result<LineIndex, StoreError> {
        let file = File::open(path).map_err(StoreError::io(path, "opening"))?;
        let mut index = LineIndex { path: path.into(), file: BufReader::new(file), places: Vec::new() };
        let (mut buffer, mut offset, mut number) = (Vec::new(), 0, 0);
        loop {
            buffer.clear();
            let read = index.file.read_until(b'\n', &mut buffer).map_err(StoreError::io(path, "reading"))?;
            if read == 0 {
                break;
            }
            number += 1;
            let text = String::from_utf8_lossy(&buffer).trim().trim_start_matches('\u{feff}').to_owned();
            if !text.is_empty() {
                let id = id_of(&RawLine { number, text }, path)?;
                index.places.push((lot(&id), offset, number as u64));
            }
            offset += read as u64;
        }
        index.places.sort_unstable();
        if let Some(twice) = index.places.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let number = twice[0].2.max(twice[1].2);
            let message = format!("its id stands in line {} too; ids must be unique", twice[0].2.min(twice[1].2));
            return Err(StoreError::line(path, number as usize, message));
        }
        Ok(index)
    }

    /// The line of an id; `None` if there is none.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn get(&mut self, id: &str) -> Result<Option<RawLine>, StoreError> {
        let lot = lot(id);
        let Ok(at) = self.places.binary_search_by_key(&lot, |place| place.0) else { return Ok(None) };
        let (_, offset, number) = self.places[at];
        let mut bytes = Vec::new();
        let read =
            self.file.seek(SeekFrom::Start(offset)).and_then(|_| self.file.by_ref().read_until(b'\n', &mut bytes));
        read.map_err(StoreError::io(&self.path, "reading"))?;
        let text = String::from_utf8_lossy(&bytes).trim().trim_start_matches('\u{feff}').to_owned();
        let line = RawLine { number: number as usize, text };
        Ok((id_of(&line, &self.path)? == id).then_some(line))
    }
}

/// A number that an id decides, evenly spread: what draws lots, the same every time.
pub fn lot(id: &str) -> u64 {
    u64::from_str_radix(&hash_bytes(id.as_bytes())[..16], 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_its_id_in_any_order() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        std::fs::write(&path, "{\"id\":\"b\",\"x\":1}\n\n{\"id\":\"a\",\"x\":2}\r\n{\"id\":\"ü\"}").unwrap();
        let mut index = LineIndex::of(&path).unwrap();
        assert_eq!(index.get("a").unwrap().unwrap(), RawLine { number: 3, text: "{\"id\":\"a\",\"x\":2}".into() });
        assert_eq!(index.get("ü").unwrap().unwrap().number, 4);
        assert_eq!(index.get("b").unwrap().unwrap().number, 1);
        assert_eq!(index.get("c").unwrap(), None);
        let mut lines = RawLines::open(&path).unwrap();
        let numbers: Vec<usize> = std::iter::from_fn(|| lines.read().unwrap()).map(|line| line.number).collect();
        assert_eq!(numbers, [1, 3, 4]);
        std::fs::write(&path, "{\"id\":\"b\"}\n{\"id\":\"b\"}\n").unwrap();
        let said = LineIndex::of(&path).err().unwrap().to_string();
        assert!(said.ends_with("a.jsonl:2: its id stands in line 1 too; ids must be unique"), "{said}");
    }
}
