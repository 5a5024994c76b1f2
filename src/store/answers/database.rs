//! One SQLite file of answers: its tables, how it is opened and checked, and its rows.
//!
//! Texts that many requests share (system messages, documents, JSON schemas) stand once, by hash.

use super::lock::beside;
use super::record::Key;
use super::rows::Text;
use crate::store::StoreError;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What `PRAGMA application_id` says of our files: "unds".
const APPLICATION: i64 = 0x756e_6473;
/// What `PRAGMA user_version` says: the format, counting from 1.
const FORMAT: i64 = 1;

/// The tables, by name. `settings` is a request without its messages, `messages` who says which text;
/// both are missing where only answers are wanted.
const TABLES: [(&str, &str); 3] = [
    (
        "answer",
        "CREATE TABLE answer (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, settings INTEGER REFERENCES text, \
         messages TEXT, prompt_tokens INTEGER, completion_tokens INTEGER, seconds REAL NOT NULL, attempts INTEGER NOT NULL, \
         finish TEXT NOT NULL, content TEXT NOT NULL, refusal TEXT, tokens BLOB) STRICT",
    ),
    ("note", "CREATE TABLE note (name TEXT PRIMARY KEY, content TEXT NOT NULL) STRICT"),
    ("text", "CREATE TABLE text (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, content TEXT NOT NULL) STRICT"),
];

/// Pages of 4 KiB in the log before it is written back into the file: 16 MiB.
const CHECKPOINT: i64 = 4096;
/// Longest value that is read, in bytes: as the longest line of a cassette.
const LONGEST_VALUE: i32 = 64 << 20;
/// Ids of texts that are remembered.
const REMEMBERED: usize = 4096;
/// An open file of answers.
pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
    /// Ids of texts that were needed lately.
    texts: HashMap<Key, i64>,
}

/// What a file turned out to hold.
#[derive(PartialEq)]
enum Found {
    Nothing,
    Answers,
}

impl Database {
    /// A place for answers that ends with the process: in memory as long as it is small, in a
    /// temporary file otherwise.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn scratch() -> Result<Database, StoreError> {
        let path = Path::new("(temporary answers)");
        let connection = Connection::open("").map_err(|error| said(path, &error))?;
        let mut database = Database::of(connection, path)?;
        database.set("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA cache_size = -16384")?;
        database.create()?;
        Ok(database)
    }

    /// Opens a file to write answers, and makes it if it is not there.
    ///
    /// # Errors
    /// If it is anything but answers of this format, or is damaged.
    pub fn open_to_write(path: &Path) -> Result<Database, StoreError> {
        sniff(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|error| said(path, &error))?;
        let mut database = Database::of(connection, path)?;
        let found = database.identify()?;
        database.set(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = {CHECKPOINT}; \
             PRAGMA cache_size = -16384"
        ))?;
        match found {
            Found::Nothing => database.create()?,
            Found::Answers => database.check()?,
        }
        Ok(database)
    }

    /// Opens a file to read answers, wherever it may stand; `None` if nothing is in it yet.
    ///
    /// # Errors
    /// If it is anything but answers of this format, or is damaged.
    pub fn open_to_read(path: &Path) -> Result<Option<Database>, StoreError> {
        let database = Database::reader(path)?;
        match database.identify()? {
            Found::Nothing => Ok(None),
            Found::Answers => database.check().map(|()| Some(database)),
        }
    }

    /// Opens a file that was checked before.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn reader(path: &Path) -> Result<Database, StoreError> {
        sniff(path)?;
        let refused = |error| said(path, &error);
        // Not SQLite's read-only mode: its last reader would leave the log's files behind.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(path, flags).and_then(|connection| {
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok(connection)
        });
        let connection = match opened {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) && path.is_file() => {
                still(path).map_err(refused)?
            }
            opened => opened.map_err(refused)?,
        };
        let mut database = Database::of(connection, path)?;
        database.set("PRAGMA query_only = ON")?;
        Ok(database)
    }

    fn of(connection: Connection, path: &Path) -> Result<Database, StoreError> {
        let refused = |error| said(path, &error);
        connection.busy_timeout(Duration::from_secs(10)).map_err(refused)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE).map_err(refused)?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(Database { connection, path: path.to_path_buf(), texts: HashMap::new() })
    }

    fn set(&mut self, pragmas: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(pragmas).map_err(|error| said(&self.path, &error))
    }

    /// What is in the file. Nothing is written before this is known.
    fn identify(&self) -> Result<Found, StoreError> {
        let refused = |error| said(&self.path, &error);
        let number = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(refused);
        let (application, format) = (number("application_id")?, number("user_version")?);
        let tables = "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name LIMIT 9";
        let mut tables = self.connection.prepare(tables).map_err(refused)?;
        let tables: Vec<(String, String)> =
            tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect).map_err(refused)?;
        if tables.is_empty() && (application, format) == (0, 0) {
            return Ok(Found::Nothing);
        }
        if application != APPLICATION {
            let message = format!(
                "is an SQLite database of another program (application id {application}, expected {APPLICATION}); give \
                 the answers.sqlite of a run directory"
            );
            return Err(StoreError::file(&self.path, message));
        }
        if format != FORMAT {
            let message = format!(
                "holds answers in format {format}; this version of understudy reads format {FORMAT} — use the version that \
                 wrote it, or export them there and import the cassette here (understudy answers --help)"
            );
            return Err(StoreError::file(&self.path, message));
        }
        let ours = tables.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).eq(TABLES);
        match ours {
            true => Ok(Found::Answers),
            false => Err(damaged(&self.path, "its tables are not those of format 1")),
        }
    }

    fn create(&mut self) -> Result<(), StoreError> {
        let tables: String = TABLES.iter().map(|(_, sql)| format!("{sql};")).collect();
        self.set(&format!(
            "BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; {tables} COMMIT"
        ))
    }

    /// Reads the whole file once, so that a damaged one is known before anybody is asked.
    fn check(&self) -> Result<(), StoreError> {
        let found: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| said(&self.path, &error))?;
        match found.as_str() {
            "ok" => Ok(()),
            found => Err(damaged(&self.path, found)),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The connection, for queries.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What a query came to, or what is wrong with this file.
    pub(super) fn heard<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| said(&self.path, &error))
    }

    /// One transaction: all of it or nothing.
    ///
    /// # Errors
    /// If `work` says no or the disk is full.
    pub fn transact<T>(&mut self, work: impl FnOnce(&mut Database) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.set("BEGIN IMMEDIATE")?;
        let ended = work(self).and_then(|value| self.set("COMMIT").map(|()| value));
        if ended.is_err() {
            // Some errors, such as a full disk, have ended the transaction already.
            if !self.connection.is_autocommit() {
                let _ = self.set("ROLLBACK");
            }
            self.texts.clear();
        }
        ended
    }

    /// Waits until all that was written is on the disk.
    ///
    /// # Errors
    /// If the disk says no.
    pub fn settle(&mut self) -> Result<(), StoreError> {
        self.set("PRAGMA wal_checkpoint(PASSIVE)")
    }

    /// The id of a text, which is written if it is new.
    pub(super) fn text(&mut self, text: &Text) -> Result<i64, StoreError> {
        if let Some(id) = self.texts.get(&text.hash) {
            return Ok(*id);
        }
        let id =
            self.heard(self.connection.prepare_cached("SELECT id FROM text WHERE hash = ?1").and_then(|mut known| {
                match known.query_row(params![text.hash], |row| row.get(0)).optional()? {
                    Some(id) => Ok(id),
                    None => self
                        .connection
                        .prepare_cached("INSERT INTO text (hash, content) VALUES (?1, ?2)")?
                        .insert(params![text.hash, text.content]),
                }
            }))?;
        if self.texts.len() >= REMEMBERED {
            self.texts.clear();
        }
        self.texts.insert(text.hash, id);
        Ok(id)
    }
}

/// Opens a file in a directory that may only be read. Nobody can write it there, so that SQLite need
/// not keep its own files beside it.
pub(super) fn still(path: &Path) -> rusqlite::Result<Connection> {
    let log = beside(path, "-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        // What was written last stands in the log, and cannot be read without writing.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        return Ok(connection);
    }
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut address = String::from("file:");
    for byte in whole.to_string_lossy().bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => address.push(char::from(byte)),
            byte => address += &format!("%{byte:02X}"),
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(address + "?immutable=1", flags)
}

/// Whether a file begins as SQLite's do.
pub(super) fn is_database(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == MAGIC
}

/// The first bytes of every SQLite file.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";

/// Refuses a file that is no database, before SQLite touches it.
fn sniff(path: &Path) -> Result<(), StoreError> {
    let empty = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            return Err(StoreError::file(path, "is a directory; give the answers.sqlite in it"));
        }
        Ok(found) => found.len() == 0,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    match empty || is_database(path) {
        true => Ok(()),
        false => Err(StoreError::file(
            path,
            "is no SQLite database; expected the answers.sqlite of a run. A cassette or an answers.jsonl becomes one by \
             `understudy answers import FILE --into STORE`",
        )),
    }
}

/// What SQLite says about a file, and the way out.
pub(super) fn said(path: &Path, error: &rusqlite::Error) -> StoreError {
    let message = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            "the disk is full; what was kept before is safe. Make room and run the same command again".into()
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => return damaged(path, &error.to_string()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("another program has locked it ({error}); close that and run the same command again")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            format!("may not be written here ({error}); give another run directory (--out)")
        }
        Some(ErrorCode::CannotOpen) => {
            format!("cannot be opened ({error}); expected a file in a directory that may be written")
        }
        _ => error.to_string(),
    };
    StoreError::file(path, message)
}

/// What to do with a file that is not what was written.
pub(super) fn damaged(path: &Path, found: &str) -> StoreError {
    StoreError::file(
        path,
        format!(
            "is damaged: {found}. Move it away (with its -wal file) and run again: what it held is asked for again, but for \
             what `sqlite3 FILE .recover` or an exported cassette gives back"
        ),
    )
}
