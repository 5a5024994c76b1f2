//! The rows of a file of answers: how a request and its answer become one, and come back.

use super::database::{Database, damaged};
use super::exchange::ModelStats;
use super::record::{CassetteHeader, Key, StoredAnswer, StoredRequest, StoredToken, key_of};
use crate::ie::{Message, Speaker};
use crate::store::StoreError;
use crate::store::hash::digest;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, params};
use std::io::Read;

/// A text that many requests may share.
pub(super) struct Text {
    pub hash: Key,
    pub content: String,
}

/// An answer with its request, ready to be written.
pub(super) struct Row {
    key: Key,
    /// The request without its messages, and who says what.
    question: Option<(Text, Vec<(Speaker, Text)>)>,
    /// What came back.
    pub answer: StoredAnswer,
}

impl Text {
    fn of(content: String) -> Text {
        Text { hash: digest(content.as_bytes()), content }
    }
}

impl Row {
    /// A row of an answer and of all that was asked.
    pub fn of(key: Key, request: &StoredRequest, answer: StoredAnswer) -> Row {
        let settings = StoredRequest {
            model: request.model.clone(),
            messages: Vec::new(),
            temperature: request.temperature,
            max_tokens: request.max_tokens,
            frequency_penalty: request.frequency_penalty,
            seed: request.seed,
            logprobs: request.logprobs,
            schema: request.schema.clone(),
            class: request.class.clone(),
            sample: request.sample,
        };
        let settings = Text::of(serde_json::to_string(&settings).expect("a request is JSON"));
        let spoken = |message: &Message| (message.role, Text::of(message.content.clone()));
        Row { key, question: Some((settings, request.messages.iter().map(spoken).collect())), answer }
    }

    /// A row of an answer alone.
    pub fn bare(key: Key, answer: StoredAnswer) -> Row {
        Row { key, question: None, answer }
    }

    /// The request's key.
    pub fn key(&self) -> &Key {
        &self.key
    }
}

/// The columns of an answer, in the order of [`answer_of`].
macro_rules! answer {
    () => {
        "content, finish, refusal, tokens, prompt_tokens, completion_tokens, seconds, attempts"
    };
}

const FIND: &str = concat!("SELECT ", answer!(), " FROM answer WHERE key = ?1");
const EACH: &str = concat!("SELECT ", answer!(), ", key, settings, messages FROM answer ORDER BY key");
const KEEP: &str = concat!(
    "INSERT INTO answer (",
    answer!(),
    ", key, settings, messages) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (key) DO NOTHING"
);
// total() is a float, which does not overflow: counts come from servers.
const SETTINGS: &str = "SELECT text.content, total(1), total(attempts), \
    total(prompt_tokens IS NOT NULL AND completion_tokens IS NOT NULL), total(prompt_tokens), total(completion_tokens), \
    total(seconds) FROM answer JOIN text ON text.id = answer.settings GROUP BY answer.settings ORDER BY answer.settings";

impl Database {
    /// How many answers are there.
    pub fn count(&self) -> Result<usize, StoreError> {
        let count = self.connection().query_row("SELECT count(*) FROM answer", [], |row| row.get::<_, i64>(0));
        Ok(usize::try_from(self.heard(count)?).unwrap_or(0))
    }

    /// Whether a key has an answer.
    pub fn has(&self, key: &Key) -> Result<bool, StoreError> {
        let query = self.connection().prepare_cached("SELECT 1 FROM answer WHERE key = ?1");
        self.heard(query.and_then(|mut query| query.exists(params![key])))
    }

    /// The answer of a key.
    pub fn find(&self, key: &Key) -> Result<Option<StoredAnswer>, StoreError> {
        let query = self.connection().prepare_cached(FIND);
        self.heard(query.and_then(|mut query| query.query_row(params![key], answer_of).optional()))
    }

    /// Writes a row, within a transaction; the answer that stood before, where there was one.
    pub fn keep(&mut self, row: &Row) -> Result<Option<StoredAnswer>, StoreError> {
        let (settings, messages) = match &row.question {
            None => (None, None),
            Some((settings, spoken)) => {
                let mut messages = Vec::with_capacity(spoken.len());
                for (speaker, text) in spoken {
                    messages.push((*speaker, self.text(text)?));
                }
                let messages = serde_json::to_string(&messages).expect("names and numbers are JSON");
                (Some(self.text(settings)?), Some(messages))
            }
        };
        let StoredAnswer { content, finish, refusal, tokens, prompt_tokens, completion_tokens, seconds, attempts } =
            &row.answer;
        let tokens = tokens.as_ref().map(|tokens| pack(tokens)).transpose();
        let tokens = tokens.map_err(StoreError::io(self.path(), "compressing a row of"))?;
        let count = |count: &Option<u64>| count.and_then(|count| i64::try_from(count).ok());
        let (read, written) = (count(prompt_tokens), count(completion_tokens));
        let kept = self.connection().prepare_cached(KEEP).and_then(|mut query| {
            query.execute(params![
                content, finish, refusal, tokens, read, written, seconds, attempts, row.key, settings, messages
            ])
        });
        match self.heard(kept)? {
            // The texts of one that was there are there, too.
            0 => self.find(&row.key),
            _ => Ok(None),
        }
    }

    /// Takes an answer away, so that another can stand there.
    pub fn forget(&mut self, key: &Key) -> Result<(), StoreError> {
        let query = self.connection().prepare_cached("DELETE FROM answer WHERE key = ?1");
        self.heard(query.and_then(|mut query| query.execute(params![key]))).map(drop)
    }

    /// Every key, in order, until `each` says no.
    pub fn each_key(&self, each: &mut dyn FnMut(Key) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut query = self.heard(self.connection().prepare("SELECT key FROM answer ORDER BY key"))?;
        let mut rows = self.heard(query.query([]))?;
        while let Some(row) = self.heard(rows.next())? {
            each(self.heard(row.get(0))?)?;
        }
        Ok(())
    }

    /// Every answer without its request, in the order of the keys.
    pub fn each_answer(
        &self,
        each: &mut dyn FnMut(Key, StoredAnswer) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut query = self.heard(self.connection().prepare(EACH))?;
        let mut rows = self.heard(query.query([]))?;
        while let Some(row) = self.heard(rows.next())? {
            each(self.heard(row.get(8))?, self.heard(answer_of(row))?)?;
        }
        Ok(())
    }

    /// Every request with its answer, in the order of the keys.
    pub fn each_row(
        &self,
        each: &mut dyn FnMut(StoredRequest, StoredAnswer) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut query = self.heard(self.connection().prepare(EACH))?;
        let mut rows = self.heard(query.query([]))?;
        while let Some(row) = self.heard(rows.next())? {
            let (key, settings, messages): (Key, Option<i64>, Option<String>) =
                self.heard(row.get(8).and_then(|key| Ok((key, row.get(9)?, row.get(10)?))))?;
            let request = self.request(settings, messages.as_deref())?;
            if key_of(&request) != key {
                return Err(damaged(self.path(), "a request is not the one of its key"));
            }
            each(request, self.heard(answer_of(row))?)?;
        }
        Ok(())
    }

    /// The settings that requests have in common, with the sums of their answers.
    pub fn each_settings(
        &self,
        each: &mut dyn FnMut(&str, ModelStats) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut query = self.heard(self.connection().prepare(SETTINGS))?;
        let mut rows = self.heard(query.query([]))?;
        while let Some(row) = self.heard(rows.next())? {
            let sum = |at| row.get::<_, f64>(at).map(|sum| sum as u64);
            let read = || {
                Ok(ModelStats {
                    answers: sum(1)?,
                    attempts: sum(2)?,
                    counted: sum(3)?,
                    prompt_tokens: sum(4)?,
                    completion_tokens: sum(5)?,
                    seconds: row.get(6)?,
                    ..ModelStats::default()
                })
            };
            let settings: String = self.heard(row.get(0))?;
            each(&settings, self.heard(read())?)?;
        }
        Ok(())
    }

    /// A request, put together again.
    fn request(&self, settings: Option<i64>, messages: Option<&str>) -> Result<StoredRequest, StoreError> {
        let wrong = |what: &str| damaged(self.path(), what);
        let (Some(settings), Some(messages)) = (settings, messages) else {
            return Err(wrong("an answer has no request"));
        };
        let content = |id: i64| -> Result<String, StoreError> {
            let query = self.connection().prepare_cached("SELECT content FROM text WHERE id = ?1");
            let found = self.heard(query.and_then(|mut query| query.query_row([id], |row| row.get(0)).optional()))?;
            found.ok_or_else(|| wrong("a text of a request is missing"))
        };
        let mut request: StoredRequest =
            serde_json::from_str(&content(settings)?).map_err(|_| wrong("the settings of a request are no JSON"))?;
        let messages: Vec<(Speaker, i64)> =
            serde_json::from_str(messages).map_err(|_| wrong("the messages of a request are no JSON"))?;
        for (role, id) in messages {
            request.messages.push(Message { role, content: content(id)? });
        }
        Ok(request)
    }

    /// What was noted under a name.
    pub fn note(&self, name: &str) -> Result<Option<String>, StoreError> {
        let query = self.connection().prepare_cached("SELECT content FROM note WHERE name = ?1");
        self.heard(query.and_then(|mut query| query.query_row([name], |row| row.get(0)).optional()))
    }

    /// Notes something under a name.
    pub fn set_note(&mut self, name: &str, content: &str) -> Result<(), StoreError> {
        let query = self.connection().prepare_cached("INSERT OR REPLACE INTO note (name, content) VALUES (?1, ?2)");
        self.heard(query.and_then(|mut query| query.execute([name, content]))).map(drop)
    }

    /// Where the answers come from, if a cassette said so.
    pub fn header(&self) -> Result<Option<CassetteHeader>, StoreError> {
        let noted = self.note(HEADER)?;
        let read =
            |text: String| serde_json::from_str(&text).map_err(|_| damaged(self.path(), "its header is no JSON"));
        noted.map(read).transpose()
    }

    /// Notes where the answers come from.
    pub fn set_header(&mut self, header: &CassetteHeader) -> Result<(), StoreError> {
        self.set_note(HEADER, &serde_json::to_string(header).expect("a header is JSON"))
    }
}

/// The name under which a header is noted.
const HEADER: &str = "header";

/// The first eight columns of a row.
fn answer_of(row: &rusqlite::Row) -> rusqlite::Result<StoredAnswer> {
    let count = |at| row.get::<_, Option<i64>>(at).map(|count| count.and_then(|count| u64::try_from(count).ok()));
    let tokens: Option<Vec<u8>> = row.get(3)?;
    let broken = |error| rusqlite::Error::FromSqlConversionFailure(3, Type::Blob, error);
    Ok(StoredAnswer {
        content: row.get(0)?,
        finish: row.get(1)?,
        refusal: row.get(2)?,
        tokens: tokens.map(|tokens| unpack(&tokens).map_err(broken)).transpose()?,
        prompt_tokens: count(4)?,
        completion_tokens: count(5)?,
        seconds: row.get(6)?,
        attempts: row.get(7)?,
    })
}

/// Tokens as JSON, packed: they repeat the answer piece by piece.
fn pack(tokens: &[StoredToken]) -> std::io::Result<Vec<u8>> {
    zstd::encode_all(serde_json::to_vec(tokens).expect("tokens are JSON").as_slice(), 1)
}

fn unpack(packed: &[u8]) -> Result<Vec<StoredToken>, Box<dyn std::error::Error + Send + Sync>> {
    let mut text = Vec::new();
    zstd::Decoder::new(packed)?.take(LARGEST_TOKENS).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Largest list of tokens that is read, in bytes once unpacked; a longer one is cut, and is no JSON.
const LARGEST_TOKENS: u64 = 64 << 20;
