//! Answers of LLMs, as they were paid for: an append-only log that survives a kill, and the
//! cassette (the same lines with a header) that replays a run offline.
//!
//! Raw answers are kept, parsing is always run again: a better parser re-reads old answers.

use super::{StoreError, hash_bytes, write_atomic};
use crate::ie::{Message, Speaker};
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Everything that decides an answer; its canonical JSON is what the key hashes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredRequest {
    /// The model's name as the server knows it.
    pub model: String,
    /// The chat so far.
    pub messages: Vec<Message>,
    /// Sampling temperature.
    pub temperature: f64,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// Penalty on repeated tokens, as OpenAI defines it.
    pub frequency_penalty: f64,
    /// Sampling seed.
    pub seed: u64,
    /// Whether token log-probabilities were asked for.
    pub logprobs: bool,
    /// The JSON Schema that the server holds the answer to, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<serde_json::Value>,
}

/// One token of an answer with its log-probability; `None` where the server gave a sentinel or null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredToken(
    /// The token's text; pieces of one character share it as the server sent them.
    pub String,
    /// Natural logarithm of its probability.
    pub Option<f64>,
);

/// What came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// The answer's text.
    pub content: String,
    /// Why it ended: `stop`, `length`, `content_filter`, …
    pub finish: String,
    /// The server's own refusal field, where it sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Tokens with log-probabilities, where the server gives them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Vec<StoredToken>>,
    /// Tokens read; unknown is not zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Tokens written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Seconds from request to answer, as measured then.
    pub seconds: f64,
}

/// The first line of a cassette: where its answers come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CassetteHeader {
    /// Format version: 1.
    pub cassette: u32,
    /// The model, its quantisation and licence.
    pub model: String,
    /// The server.
    pub server: String,
    /// Temperature, penalties, seed.
    pub sampling: String,
    /// Day of the recording.
    pub date: String,
}

/// A line of the log: a header, a shared system message, or an answer that refers to one.
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

/// The key of a request: SHA-256 of its canonical JSON. The model is part of it.
pub fn request_key(request: &StoredRequest) -> String {
    hash_bytes(&serde_json::to_vec(request).expect("a request is JSON"))
}

/// Answers by request, in memory, with a log behind them.
pub struct AnswerStore {
    header: Option<CassetteHeader>,
    answers: Mutex<HashMap<String, StoredAnswer>>,
    log: Option<Log>,
}

/// The log that this process alone appends to.
struct Log {
    file: File,
    path: PathBuf,
    tail: Mutex<Tail>,
    /// Bytes that are on the disk; held by the one that waits for it, and everybody else goes on.
    synced: Mutex<u64>,
}

/// What the log ends with.
struct Tail {
    /// System messages that it has given.
    systems: HashSet<String>,
    /// Its length in bytes, up to the last whole line.
    length: u64,
}

impl AnswerStore {
    /// An empty store without a log.
    pub fn new() -> AnswerStore {
        AnswerStore { header: None, answers: Mutex::default(), log: None }
    }

    /// Adds the answers of a cassette or log. A torn last line (a kill while it was written) is
    /// left out; any other broken line is an error.
    ///
    /// # Errors
    /// If the file cannot be read or a line is not what it should be.
    pub fn load(&mut self, path: &Path) -> Result<usize, StoreError> {
        let (text, whole) = read_text(path)?;
        let mut systems: HashMap<String, String> = HashMap::new();
        let mut count = 0;
        let answers = self.answers.get_mut().expect("no thread panics while it holds the lock");
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str::<Line>(line) {
                Ok(Line::Header(header)) => self.header = Some(header),
                Ok(Line::System { system, content }) => {
                    systems.insert(system, content);
                }
                Ok(Line::Answer(line)) => {
                    let AnswerLine { system, mut request, answer } = *line;
                    if let Some(id) = system {
                        let content = systems.get(&id).ok_or_else(|| {
                            StoreError::line(
                                path,
                                at + 1,
                                format!("refers to the system message \"{id}\", which no line before it gives"),
                            )
                        })?;
                        request.messages.insert(0, Message::system(content.clone()));
                    }
                    answers.insert(request_key(&request), answer);
                    count += 1;
                }
                Err(_) if at + 1 == lines.len() && !whole => {}
                Err(_) => {
                    return Err(StoreError::line(
                        path,
                        at + 1,
                        "not a line of a cassette (header, system message or answer)",
                    ));
                }
            }
        }
        Ok(count)
    }

    /// Opens (or makes) the log behind the store and loads what is in it; a torn last line is cut.
    /// The log is locked: one process writes it.
    ///
    /// # Errors
    /// If the log cannot be read or opened for appending, or another process writes it.
    pub fn open_log(&mut self, path: &Path) -> Result<usize, StoreError> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(StoreError::io(parent, "creating the directory"))?;
        }
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .map_err(StoreError::io(path, "opening"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::file(
                    path,
                    "another process writes it; wait for its end, or give this one its own part (debate --shard I/N) or run directory (--out)",
                ));
            }
            // A file system without locks: whoever shares a log there does so at their own risk.
            Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(StoreError::io(path, "locking")(error)),
        }
        let length = cut_torn_line(path, &file)?;
        let count = self.load(path)?;
        let tail = Mutex::new(Tail { systems: HashSet::new(), length });
        self.log = Some(Log { file, path: path.to_path_buf(), tail, synced: Mutex::new(length) });
        Ok(count)
    }

    /// The stored answer to exactly this request.
    pub fn get(&self, request: &StoredRequest) -> Option<StoredAnswer> {
        self.get_key(&request_key(request))
    }

    /// The stored answer to the request of this key.
    pub fn get_key(&self, key: &str) -> Option<StoredAnswer> {
        self.answers.lock().expect("no thread panics while it holds the lock").get(key).cloned()
    }

    /// Whether the request of this key has an answer.
    pub fn has(&self, key: &str) -> bool {
        self.answers.lock().expect("no thread panics while it holds the lock").contains_key(key)
    }

    /// Keeps an answer, if the request has none yet.
    ///
    /// # Errors
    /// As [`AnswerStore::keep`].
    pub fn put(&self, request: &StoredRequest, answer: &StoredAnswer) -> Result<(), StoreError> {
        self.keep(&request_key(request), request, answer.clone()).map(drop)
    }

    /// Keeps an answer under the request's key; the answer that stands, which is an earlier one
    /// where there was one. With a log, the line is written before this returns, so that it outlives
    /// the process, and on the disk once [`AnswerStore::settle`] returns, so that it outlives the
    /// machine: whoever finds the disk idle waits for it, everybody else goes on.
    ///
    /// # Errors
    /// If the log cannot be written (a full disk): the answer is kept in memory all the same.
    pub fn keep(&self, key: &str, request: &StoredRequest, answer: StoredAnswer) -> Result<StoredAnswer, StoreError> {
        match self.answers.lock().expect("no thread panics while it holds the lock").entry(key.to_string()) {
            Entry::Occupied(earlier) => return Ok(earlier.get().clone()),
            Entry::Vacant(place) => drop(place.insert(answer.clone())),
        }
        if let Some(log) = &self.log {
            log.append(request, &answer)?;
            if let Ok(mut synced) = log.synced.try_lock() {
                log.sync(&mut synced)?;
            }
        }
        Ok(answer)
    }

    /// Waits until every line of the log is on the disk.
    ///
    /// # Errors
    /// If the disk says no.
    pub fn settle(&self) -> Result<(), StoreError> {
        let Some(log) = &self.log else { return Ok(()) };
        log.sync(&mut log.synced.lock().expect("no thread panics while it holds the lock"))
    }

    /// Where the loaded answers come from, if a cassette said so.
    pub fn header(&self) -> Option<&CassetteHeader> {
        self.header.as_ref()
    }

    /// How many answers are there.
    pub fn len(&self) -> usize {
        self.answers.lock().expect("no thread panics while it holds the lock").len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the answers to `requests` as a cassette, in the order given, each once.
    ///
    /// # Errors
    /// If a request has no answer or the file cannot be written.
    pub fn write_cassette(
        &self,
        path: &Path,
        header: &CassetteHeader,
        requests: &[StoredRequest],
    ) -> Result<usize, StoreError> {
        let mut bytes = serde_json::to_vec(header).expect("a header is JSON");
        bytes.push(b'\n');
        let (mut systems, mut written) = (HashSet::new(), BTreeMap::new());
        for request in requests {
            if written.insert(request_key(request), ()).is_some() {
                continue;
            }
            let answer =
                self.get(request).ok_or_else(|| StoreError::file(path, "an answer of this run is not in the store"))?;
            let (system, line) = lines(request, &answer);
            push_lines(&mut bytes, &mut systems, system, line);
        }
        let packed = if path.to_string_lossy().ends_with(".zst") {
            zstd::encode_all(bytes.as_slice(), 19).map_err(StoreError::io(path, "compressing"))?
        } else {
            bytes
        };
        write_atomic(path, &packed)?;
        Ok(written.len())
    }
}

impl Default for AnswerStore {
    fn default() -> AnswerStore {
        AnswerStore::new()
    }
}

impl Log {
    /// Appends an answer in one write; a line that did not fit on the disk is taken back.
    fn append(&self, request: &StoredRequest, answer: &StoredAnswer) -> Result<(), StoreError> {
        let (system, line) = lines(request, answer);
        let mut tail = self.tail.lock().expect("no thread panics while it holds the lock");
        let mut bytes = Vec::new();
        push_lines(&mut bytes, &mut tail.systems, system, line);
        if let Err(error) = (&self.file).write_all(&bytes) {
            tail.systems.clear();
            let _ = self.file.set_len(tail.length);
            return Err(StoreError::io(&self.path, "appending")(error));
        }
        tail.length += bytes.len() as u64;
        Ok(())
    }

    /// Waits for the disk, unless somebody has by now.
    fn sync(&self, synced: &mut u64) -> Result<(), StoreError> {
        let length = self.tail.lock().expect("no thread panics while it holds the lock").length;
        if *synced < length {
            self.file.sync_data().map_err(StoreError::io(&self.path, "writing to the disk"))?;
            *synced = length;
        }
        Ok(())
    }
}

/// The system message of a request by its short hash, and the line of the answer that refers to it.
fn lines(request: &StoredRequest, answer: &StoredAnswer) -> (Option<(String, String)>, Vec<u8>) {
    let mut request = request.clone();
    let leads = request.messages.first().is_some_and(|m| m.role == Speaker::System);
    let system = leads.then(|| {
        let content = request.messages.remove(0).content;
        (hash_bytes(content.as_bytes())[..12].to_string(), content)
    });
    let id = system.as_ref().map(|(id, _)| id.clone());
    (system, line_of(&Line::Answer(Box::new(AnswerLine { system: id, request, answer: answer.clone() }))))
}

/// Appends the answer's line, and before it the system message if these bytes' file has not given
/// it yet.
fn push_lines(bytes: &mut Vec<u8>, given: &mut HashSet<String>, system: Option<(String, String)>, line: Vec<u8>) {
    if let Some((system, content)) = system
        && given.insert(system.clone())
    {
        bytes.extend(line_of(&Line::System { system, content }));
    }
    bytes.extend(line);
}

fn line_of(line: &Line) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).expect("a line is JSON");
    bytes.push(b'\n');
    bytes
}

/// The text of a log or cassette, and whether its last line is closed.
fn read_text(path: &Path) -> Result<(String, bool), StoreError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(StoreError::io(path, "opening"))?;
    if path.to_string_lossy().ends_with(".zst") {
        let unpacked = zstd::Decoder::new(file).map_err(StoreError::io(path, "decompressing"))?;
        unpacked.take(LARGEST).read_to_end(&mut bytes).map_err(StoreError::io(path, "decompressing"))?;
    } else {
        file.take(LARGEST).read_to_end(&mut bytes).map_err(StoreError::io(path, "reading"))?;
    }
    if bytes.len() as u64 == LARGEST {
        return Err(StoreError::file(path, "larger than 4 GiB unpacked; split it"));
    }
    let whole = bytes.last().is_none_or(|&last| last == b'\n');
    let text = String::from_utf8(bytes).map_err(|error| StoreError::file(path, format!("not UTF-8: {error}")))?;
    Ok((text, whole))
}

/// Largest cassette that is read, in bytes once unpacked.
const LARGEST: u64 = 4 << 30;

/// Cuts what stands behind the last line end; the length that is left.
fn cut_torn_line(path: &Path, file: &File) -> Result<u64, StoreError> {
    let bytes = std::fs::read(path).map_err(StoreError::io(path, "reading"))?;
    let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1) as u64;
    if end < bytes.len() as u64 {
        file.set_len(end).map_err(StoreError::io(path, "cutting the torn last line of"))?;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> StoredRequest {
        StoredRequest {
            model: "m".into(),
            messages: vec![Message::system("Read."), Message::user(text)],
            temperature: 0.0,
            max_tokens: 8,
            frequency_penalty: 0.0,
            seed: 1,
            logprobs: true,
            schema: None,
        }
    }

    fn answer(content: &str) -> StoredAnswer {
        StoredAnswer {
            content: content.into(),
            finish: "stop".into(),
            refusal: None,
            tokens: Some(vec![StoredToken("{".into(), Some(-0.5)), StoredToken("}".into(), None)]),
            prompt_tokens: Some(3),
            completion_tokens: None,
            seconds: 0.25,
        }
    }

    #[test]
    fn a_kill_inside_the_last_line_loses_that_line_only() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("answers.jsonl");
        let mut store = AnswerStore::new();
        store.open_log(&path).unwrap();
        store.put(&request("a"), &answer("1")).unwrap();
        store.put(&request("b"), &answer("2")).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let said = AnswerStore::new().open_log(&path).unwrap_err().to_string();
        assert!(said.contains("another process writes it"), "{said}");
        drop(store);
        for cut in 1..40 {
            std::fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
            let mut again = AnswerStore::new();
            assert_eq!(again.open_log(&path).unwrap(), 1, "cut {cut}");
            assert_eq!(again.get(&request("a")), Some(answer("1")));
            again.put(&request("b"), &answer("2")).unwrap();
            again.put(&request("b"), &answer("3")).unwrap();
            again.settle().unwrap();
            drop(again);
            let mut third = AnswerStore::new();
            assert_eq!(third.open_log(&path).unwrap(), 2);
            assert_eq!(third.get(&request("b")), Some(answer("2")), "the first answer stands");
        }
    }

    #[test]
    fn the_model_is_part_of_the_key() {
        let mut other = request("a");
        other.model = "n".into();
        assert_ne!(request_key(&request("a")), request_key(&other));
    }

    #[test]
    fn a_cassette_holds_each_asked_answer_once_and_replays_it() {
        let home = tempfile::tempdir().unwrap();
        let store = AnswerStore::new();
        store.put(&request("a"), &answer("李雷")).unwrap();
        store.put(&request("b"), &answer("2")).unwrap();
        for name in ["c.jsonl", "c.jsonl.zst"] {
            let path = home.path().join(name);
            let header = CassetteHeader { cassette: 1, model: "m".into(), ..CassetteHeader::default() };
            assert_eq!(store.write_cassette(&path, &header, &[request("a"), request("a")]).unwrap(), 1);
            let mut replayed = AnswerStore::new();
            assert_eq!(replayed.load(&path).unwrap(), 1);
            assert_eq!(replayed.header(), Some(&header));
            assert_eq!(replayed.get(&request("a")), Some(answer("李雷")));
            assert_eq!(replayed.get(&request("b")), None);
        }
    }

    #[test]
    fn a_broken_line_in_the_middle_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c.jsonl");
        std::fs::write(&path, "{\"cassette\":1}\nnonsense\n\n").unwrap();
        let said = AnswerStore::new().load(&path).unwrap_err().to_string();
        assert!(said.contains("c.jsonl:1") || said.contains("c.jsonl:2"), "{said}");
    }
}
