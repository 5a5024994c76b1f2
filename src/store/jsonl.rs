//! JSON Lines, plain or zstd by extension: one value a line, errors with file and line.

use super::{StoreError, write_atomic};
use serde::{Serialize, de::DeserializeOwned};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line that is read, in bytes; a longer one is refused instead of filling the memory.
pub(super) const LONGEST_LINE: u64 = 64 << 20;

/// Reads every line of `.jsonl` or `.jsonl.zst`. Blank lines, a byte-order mark, CRLF line ends
/// and a missing final newline are accepted.
///
/// # Errors
/// The first line that does not parse, by file and number.
pub fn read_jsonl<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, StoreError> {
    each_line(path)?.collect()
}

/// The values of [`read_jsonl`] one by one; ends behind the first error.
///
/// # Errors
/// If the file cannot be opened.
pub fn each_line<T: DeserializeOwned>(
    path: &Path,
) -> Result<impl Iterator<Item = Result<T, StoreError>> + use<T>, StoreError> {
    let (mut lines, path) = (open(path)?, path.to_owned());
    let (mut line, mut number, mut ended) = (Vec::new(), 0, false);
    Ok(std::iter::from_fn(move || {
        while !ended {
            number += 1;
            match read_line(&mut lines, &mut line, &path, number) {
                Ok(None) => ended = true,
                Ok(Some("")) => {}
                Ok(Some(text)) => {
                    let value = serde_json::from_str(text);
                    ended = value.is_err();
                    return Some(value.map_err(|error| StoreError::line(&path, number, error.to_string())));
                }
                Err(error) => {
                    ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }))
}

/// The next line without white space at its ends; `None` behind the last.
pub(super) fn read_line<'l>(
    lines: &mut dyn BufRead,
    line: &'l mut Vec<u8>,
    path: &Path,
    number: usize,
) -> Result<Option<&'l str>, StoreError> {
    line.clear();
    let read = lines.take(LONGEST_LINE).read_until(b'\n', line).map_err(StoreError::io(path, "reading"))?;
    if read == 0 {
        return Ok(None);
    }
    if read as u64 == LONGEST_LINE {
        return Err(StoreError::line(path, number, format!("the line is longer than {} MiB", LONGEST_LINE >> 20)));
    }
    let text =
        std::str::from_utf8(line).map_err(|error| StoreError::line(path, number, format!("not UTF-8: {error}")))?;
    let text = if number == 1 { text.trim_start_matches('\u{feff}') } else { text };
    Ok(Some(text.trim()))
}

/// One line a value, each closed by a newline.
pub fn to_jsonl<T: Serialize>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        let line = serde_json::to_vec(value).expect("our own records have string keys and finite numbers");
        bytes.extend(line);
        bytes.push(b'\n');
    }
    bytes
}

/// Writes `.jsonl` or `.jsonl.zst`, atomically.
///
/// # Errors
/// If the extension is neither or the file cannot be written.
pub fn write_jsonl<T: Serialize>(path: &Path, values: &[T]) -> Result<(), StoreError> {
    let bytes = to_jsonl(values);
    let name = path.to_string_lossy();
    if name.ends_with(".zst") {
        let packed = zstd::encode_all(bytes.as_slice(), 19).map_err(StoreError::io(path, "compressing"))?;
        return write_atomic(path, &packed);
    }
    if name.ends_with(".parquet") {
        return Err(StoreError::file(path, "only documents are written as Parquet; use .jsonl or .jsonl.zst"));
    }
    write_atomic(path, &bytes)
}

/// Opens a file for reading, unpacked where its name ends in `.zst`.
///
/// # Errors
/// If the file cannot be opened, or is a format that this version does not read.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, StoreError> {
    if path.to_string_lossy().ends_with(".parquet") {
        return Err(StoreError::file(path, "only documents are read from Parquet; use .jsonl or .jsonl.zst"));
    }
    let file = File::open(path).map_err(StoreError::io(path, "opening"))?;
    if path.to_string_lossy().ends_with(".zst") {
        let unpacked = zstd::Decoder::new(file).map_err(StoreError::io(path, "decompressing"))?;
        return Ok(Box::new(BufReader::new(unpacked)));
    }
    Ok(Box::new(BufReader::new(file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn bom_crlf_blank_lines_and_a_missing_last_newline_change_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        fs::write(&path, "\u{feff}{\"a\":1}\r\n\r\n  \n{\"a\":2}").unwrap();
        let values: Vec<serde_json::Value> = read_jsonl(&path).unwrap();
        assert_eq!(values, [serde_json::json!({"a": 1}), serde_json::json!({"a": 2})]);
    }

    #[test]
    fn a_broken_line_is_named() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        fs::write(&path, "{}\n{\"a\":").unwrap();
        let said = read_jsonl::<serde_json::Value>(&path).unwrap_err().to_string();
        assert!(said.contains("a.jsonl:2: EOF while parsing"), "{said}");
    }

    #[test]
    fn compressed_lines_come_back() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl.zst");
        write_jsonl(&path, &["李雷", "🗼"]).unwrap();
        assert_eq!(read_jsonl::<String>(&path).unwrap(), ["李雷", "🗼"]);
    }
}
