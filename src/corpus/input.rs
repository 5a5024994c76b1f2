//! Lines and JSON records of files that somebody else wrote, one at a time and of bounded size.

use super::finding::{LONGEST as LONGEST_MESSAGE, short};
use crate::store::{StoreError, open};
use serde::de::DeserializeOwned;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// Longest line or record that is read, in bytes.
const LONGEST: usize = 64 << 20;

/// A text file line by line: without line ends (LF or CRLF) and byte-order mark.
pub(super) struct Lines {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    number: usize,
    buffer: Vec<u8>,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Lines, StoreError> {
        Ok(Lines { path: path.into(), reader: open(path)?, number: 0, buffer: Vec::new() })
    }

    /// The next line with its number, counting from 1.
    pub(super) fn next(&mut self) -> Result<Option<(usize, &str)>, StoreError> {
        self.buffer.clear();
        let mut limited = self.reader.by_ref().take(LONGEST as u64);
        let read = limited.read_until(b'\n', &mut self.buffer).map_err(StoreError::io(&self.path, "reading"))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if read == LONGEST {
            return Err(too_long(&self.path, self.number, "line"));
        }
        let mut bytes = self.buffer.as_slice();
        if self.number == 1 {
            no_utf16(&self.path, bytes)?;
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(&self.path, self.number, &error))?;
        Ok(Some((self.number, text)))
    }
}

/// One JSON value with the line where it begins.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) line: usize,
    bytes: Vec<u8>,
}

impl Record {
    /// Reads the record; an error names the line of the fault, not of the record.
    pub(super) fn parse<T: DeserializeOwned>(&self, path: &Path) -> Result<T, StoreError> {
        serde_json::from_slice(&self.bytes).map_err(|error| {
            let said = error.to_string();
            let said = said.split(" at line ").next().unwrap_or_default();
            StoreError::line(path, self.line + error.line().saturating_sub(1), short(said, LONGEST_MESSAGE))
        })
    }
}

/// How the records of a file stand.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Unknown,
    /// `[record, record]`.
    Array,
    /// One after the other: JSON Lines, or values over several lines each.
    Sequence,
    Ended,
}

/// The records of a JSON array or of JSON Lines; which of the two, the file says.
pub(super) struct Records {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    line: usize,
    layout: Layout,
    /// An opening bracket that turned out to belong to the first record.
    pending: bool,
}

impl Records {
    pub(super) fn open(path: &Path) -> Result<Records, StoreError> {
        let mut reader = open(path)?;
        let start = reader.fill_buf().map_err(StoreError::io(path, "reading"))?;
        no_utf16(path, start)?;
        if start.starts_with(b"\xef\xbb\xbf") {
            reader.consume(3);
        }
        Ok(Records { path: path.into(), reader, line: 1, layout: Layout::Unknown, pending: false })
    }

    /// Whether the file is one JSON array; known after the first record.
    pub(super) fn is_array(&self) -> bool {
        self.layout == Layout::Array
    }

    /// The next byte that is neither white space nor, between records, a comma; it stays unread.
    fn peek(&mut self) -> Result<Option<u8>, StoreError> {
        loop {
            let chunk = self.reader.fill_buf().map_err(StoreError::io(&self.path, "reading"))?;
            let Some(&byte) = chunk.first() else { return Ok(None) };
            if !byte.is_ascii_whitespace() && byte != b',' {
                return Ok(Some(byte));
            }
            self.line += usize::from(byte == b'\n');
            self.reader.consume(1);
        }
    }

    /// The next record.
    pub(super) fn next(&mut self) -> Result<Option<Record>, StoreError> {
        if self.layout == Layout::Unknown {
            self.layout = Layout::Sequence;
            if self.peek()? == Some(b'[') {
                self.reader.consume(1);
                match self.peek()? {
                    Some(b'{' | b'[' | b']') => self.layout = Layout::Array,
                    _ => self.pending = true,
                }
            }
        }
        match self.peek()? {
            _ if self.pending => self.value().map(Some),
            None if self.layout == Layout::Array => Err(StoreError::line(
                &self.path,
                self.line,
                "the file ends inside its JSON array; it was cut, get it again",
            )),
            None => Ok(None),
            Some(b']') if self.layout == Layout::Array => {
                self.reader.consume(1);
                self.layout = Layout::Ended;
                self.next()
            }
            Some(b'{' | b'[') if self.layout != Layout::Ended => self.value().map(Some),
            Some(byte) => Err(StoreError::line(
                &self.path,
                self.line,
                format!("expected a JSON record, found {:?}", char::from(byte)),
            )),
        }
    }

    /// The record that begins here: up to the bracket that closes it.
    fn value(&mut self) -> Result<Record, StoreError> {
        let line = self.line;
        let mut bytes = if std::mem::take(&mut self.pending) { vec![b'['] } else { Vec::new() };
        let (mut depth, mut quoted, mut escaped) = (bytes.len(), false, false);
        loop {
            let chunk = self.reader.fill_buf().map_err(StoreError::io(&self.path, "reading"))?;
            if chunk.is_empty() {
                return Err(StoreError::line(&self.path, line, "the file ends inside the record that begins here"));
            }
            let mut end = None;
            for (at, &byte) in chunk.iter().enumerate() {
                self.line += usize::from(byte == b'\n');
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if quoted => escaped = true,
                    b'"' => quoted = !quoted,
                    b'{' | b'[' if !quoted => depth += 1,
                    b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if depth == 0 {
                    end = Some(at + 1);
                    break;
                }
            }
            let taken = end.unwrap_or(chunk.len());
            bytes.extend_from_slice(&chunk[..taken]);
            self.reader.consume(taken);
            if end.is_some() {
                return Ok(Record { line, bytes });
            }
            if bytes.len() > LONGEST {
                return Err(too_long(&self.path, line, "record"));
            }
        }
    }
}

/// Gives every record of a file to `take`.
pub(super) fn each_record<T: DeserializeOwned>(
    path: &Path,
    mut take: impl FnMut(usize, T) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut records = Records::open(path)?;
    while let Some(record) = records.next()? {
        take(record.line, record.parse(path)?)?;
    }
    Ok(())
}

fn too_long(path: &Path, line: usize, what: &str) -> StoreError {
    StoreError::line(path, line, format!("the {what} is longer than {} MiB", LONGEST >> 20))
}

fn not_utf8(path: &Path, line: usize, error: &std::str::Utf8Error) -> StoreError {
    let column = error.valid_up_to() + 1;
    let way_out = "the file has another encoding; convert it, as with `iconv -f latin1 -t utf-8` or `-f gb18030`";
    StoreError::line(path, line, format!("byte {column} is not UTF-8: {way_out}"))
}

fn no_utf16(path: &Path, start: &[u8]) -> Result<(), StoreError> {
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        let said = "the file is UTF-16, expected UTF-8; convert it with `iconv -f utf-16 -t utf-8`";
        return Err(StoreError::line(path, 1, said));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn records(text: &str) -> Result<Vec<(usize, Value)>, String> {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.json");
        std::fs::write(&path, text).unwrap();
        let mut found = Vec::new();
        let read = each_record(&path, |line, value| {
            found.push((line, value));
            Ok(())
        });
        read.map(|()| found).map_err(|error| error.to_string().rsplit('/').next().unwrap().to_string())
    }

    #[test]
    fn an_array_and_lines_hold_the_same_records() {
        let wanted = vec![(1, json!({"a": "]}\"\\"})), (2, json!({"b": [1, {}]}))];
        let (a, b) = (r#"{"a": "]}\"\\"}"#, r#"{"b": [1, {}]}"#);
        for text in [
            format!("[{a},\n{b}]"),
            format!("{a}\n{b}"),
            format!("\u{feff}{a}\r\n{b}\r\n\r\n"),
            format!("{a} \n{b},\n"),
        ] {
            assert_eq!(records(&text).unwrap(), wanted, "{text}");
        }
        assert_eq!(records("").unwrap(), []);
        assert_eq!(records(" [ ] ").unwrap(), []);
        assert_eq!(records("[\"t\", {\"a\": 1}]\n[\"u\", {}]").unwrap().len(), 2, "tuples, one a line");
        assert_eq!(records("{\n\"a\":\n1}\n{\"a\": 2}").unwrap()[1], (4, json!({"a": 2})));
    }

    #[test]
    fn a_broken_record_is_named_by_its_line() {
        assert_eq!(records("{}\n{\"a\": x}").unwrap_err(), "x.json:2: expected value");
        assert_eq!(records("{\n\"a\":\n x}").unwrap_err(), "x.json:3: expected value");
        assert!(records("[{}").unwrap_err().starts_with("x.json:1: the file ends inside its JSON array"));
        assert!(records("{}\n{\"a\": [1").unwrap_err().starts_with("x.json:2: the file ends inside the record"));
        assert_eq!(records("{}\n7").unwrap_err(), "x.json:2: expected a JSON record, found '7'");
        assert_eq!(records("[{}] {}").unwrap_err(), "x.json:1: expected a JSON record, found '{'");
    }

    #[test]
    fn another_encoding_is_named_with_the_way_out() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.conll");
        for (bytes, said) in [(&b"a O\n\xe9 O\n"[..], "x.conll:2: byte 1 is not UTF-8"), (b"\xff\xfea\0", "UTF-16")] {
            std::fs::write(&path, bytes).unwrap();
            let mut lines = Lines::open(&path).unwrap();
            let error = loop {
                match lines.next() {
                    Ok(line) => assert!(line.is_some()),
                    Err(error) => break error.to_string(),
                }
            };
            assert!(error.contains(said) && error.contains("iconv"), "{error}");
        }
    }
}
