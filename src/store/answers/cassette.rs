//! Answers as JSON Lines: a cassette (with a header), or the log of answers of version 0.1. System
//! messages stand once, in lines of their own. Read and written line by line.

use super::record::{CassetteHeader, StoredAnswer, StoredRequest};
use crate::ie::{Message, Speaker};
use crate::store::jsonl::{LONGEST_LINE, open};
use crate::store::{LineWriter, StoreError, hash_bytes};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Read};
use std::path::Path;

/// A header, a shared system message, or an answer that refers to one.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Answer(Box<AnswerLine>),
    System { system: String, content: String },
    Header(CassetteHeader),
}

#[derive(Serialize, Deserialize)]
struct AnswerLine {
    system: Option<String>,
    request: StoredRequest,
    answer: StoredAnswer,
}

/// Hears the answers of a cassette one by one.
pub(super) type Each<'a> = &'a mut dyn FnMut(StoredRequest, StoredAnswer) -> Result<(), StoreError>;

/// Reads a cassette or log, `.zst` by extension: how many answers it has, and its header. A torn
/// last line (a kill while it was written) is left out; any other broken line is an error.
///
/// # Errors
/// If the file cannot be read, a line is not what it should be, or `each` says no.
pub(super) fn read(path: &Path, each: Each) -> Result<(usize, Option<CassetteHeader>), StoreError> {
    let mut file = open(path)?.take(LARGEST);
    let (mut systems, mut header): (HashMap<String, String>, _) = (HashMap::new(), None);
    let (mut bytes, mut number, mut count) = (Vec::new(), 0, 0);
    loop {
        bytes.clear();
        let read =
            (&mut file).take(LONGEST_LINE).read_until(b'\n', &mut bytes).map_err(StoreError::io(path, "reading"))?;
        if read == 0 {
            break;
        }
        number += 1;
        let whole = bytes.last() == Some(&b'\n');
        if !whole && read as u64 == LONGEST_LINE {
            return Err(StoreError::line(path, number, format!("longer than {} MiB", LONGEST_LINE >> 20)));
        }
        let text = bytes.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match serde_json::from_slice::<Line>(text) {
            Ok(Line::Header(found)) => header = Some(found),
            Ok(Line::System { system, content }) => {
                systems.insert(system, content);
            }
            Ok(Line::Answer(line)) => {
                let (request, answer) = joined(*line, &systems, path, number)?;
                each(request, answer)?;
                count += 1;
            }
            Err(_) if !whole && file.limit() > 0 => {}
            Err(_) => {
                let message = "not a line of a cassette (header, system message or answer)";
                return Err(StoreError::line(path, number, message));
            }
        }
    }
    match file.limit() {
        0 => Err(StoreError::file(path, format!("larger than {} GiB unpacked; split it", LARGEST >> 30))),
        _ => Ok((count, header)),
    }
}

/// The request of a line with its system message in front again.
fn joined(
    line: AnswerLine,
    systems: &HashMap<String, String>,
    path: &Path,
    number: usize,
) -> Result<(StoredRequest, StoredAnswer), StoreError> {
    let AnswerLine { system, mut request, answer } = line;
    if let Some(id) = system {
        let content = systems.get(&id).ok_or_else(|| {
            let message = format!("refers to the system message \"{id}\", which no line before it gives");
            StoreError::line(path, number, message)
        })?;
        request.messages.insert(0, Message::system(content.clone()));
    }
    Ok((request, answer))
}

/// A cassette in the making; it appears whole or not at all.
pub(super) struct Writer {
    out: LineWriter,
    /// System messages that it has given.
    given: HashSet<String>,
    count: usize,
}

impl Writer {
    /// Begins a cassette, packed where its name ends in `.zst`.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(path: &Path, header: &CassetteHeader) -> Result<Writer, StoreError> {
        let mut out = LineWriter::create(path)?;
        out.write(&line_of(header))?;
        Ok(Writer { out, given: HashSet::new(), count: 0 })
    }

    /// Adds an answer, and before it the system message that it is the first to need.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn push(&mut self, mut request: StoredRequest, answer: StoredAnswer) -> Result<(), StoreError> {
        let leads = request.messages.first().is_some_and(|message| message.role == Speaker::System);
        let system = leads.then(|| {
            let content = request.messages.remove(0).content;
            (hash_bytes(content.as_bytes())[..12].to_string(), content)
        });
        let id = system.as_ref().map(|(id, _)| id.clone());
        if let Some((system, content)) = system
            && self.given.insert(system.clone())
        {
            self.out.write(&line_of(&Line::System { system, content }))?;
        }
        self.count += 1;
        self.out.write(&line_of(&Line::Answer(Box::new(AnswerLine { system: id, request, answer }))))
    }

    /// Gives the file its name; how many answers it has.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn finish(self) -> Result<usize, StoreError> {
        self.out.finish()?;
        Ok(self.count)
    }
}

fn line_of(line: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).expect("a line is JSON");
    bytes.push(b'\n');
    bytes
}

/// Largest cassette that is read, in bytes once unpacked: what it fills is disk, not memory.
const LARGEST: u64 = 64 << 30;
