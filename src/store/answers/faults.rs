//! Tests: files that are not what they should be, and disks that are full.

use super::database::{Database, MAGIC, still};
use super::record::key_of;
use super::rows::Row;
use super::*;
use crate::ie::Message;
use rusqlite::Connection;
use std::path::PathBuf;

fn request(at: usize) -> StoredRequest {
    StoredRequest { messages: vec![Message::user(at.to_string())], ..StoredRequest::default() }
}

/// An answer of 8 KB that no page cache of a few pages holds.
fn answer(at: usize) -> StoredAnswer {
    StoredAnswer { content: format!("{at:08}").repeat(1000), ..StoredAnswer::default() }
}

/// A store of as many answers.
fn filled(count: usize) -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("answers.sqlite");
    let mut store = AnswerStore::new();
    store.open_file(&path).unwrap();
    (0..count).for_each(|at| store.put(&request(at), &answer(at)).unwrap());
    drop(store);
    (home, path)
}

/// What each way of opening a file says; the file is not touched.
fn refusals(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    let mut said = vec![AnswerStore::new().open_file(path).unwrap_err().to_string()];
    said.push(answer_stats(path).unwrap_err().to_string());
    said.push(import_answers(&[], path).unwrap_err().to_string());
    if database::is_database(path) {
        said.push(AnswerStore::new().attach(path).unwrap_err().to_string());
        said.push(AnswerStore::new().load(path).unwrap_err().to_string());
    }
    assert!(std::fs::read(path).unwrap() == bytes, "a file that is refused stays as it is");
    said
}

#[test]
fn a_file_that_is_no_store_is_refused_with_what_it_is_and_the_way_out() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("answers.sqlite");
    let says = |parts: &[&str]| {
        for said in refusals(&path) {
            assert!(parts.iter().all(|part| said.contains(part)) && said.contains("answers.sqlite: "), "{said}");
        }
    };
    std::fs::write(&path, "{\"cassette\":1}\n").unwrap();
    says(&["is no SQLite database", "understudy answers import FILE --into STORE"]);
    std::fs::write(&path, [MAGIC, &[7u8; 4096][..]].concat()).unwrap();
    says(&["is damaged", "Move it away"]);
    std::fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE answer (id INTEGER)").unwrap();
    says(&["is an SQLite database of another program (application id 0, expected 1970168947)"]);
    let (_home, ours) = filled(3);
    let changed = |sql: &str| {
        std::fs::copy(&ours, &path).unwrap();
        Connection::open(&path)
            .unwrap()
            .execute_batch(&format!("PRAGMA journal_mode = DELETE; PRAGMA foreign_keys = OFF; {sql}"))
            .unwrap();
    };
    changed("PRAGMA user_version = 2");
    says(&["holds answers in format 2; this version of understudy reads format 1"]);
    changed("CREATE VIEW more AS SELECT 1");
    says(&["is damaged: its tables are not those of format 1"]);
    changed("DROP TABLE text; CREATE TABLE text (id INTEGER PRIMARY KEY, hash BLOB, content TEXT)");
    says(&["is damaged: its tables are not those of format 1"]);
    let folder = home.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let said = AnswerStore::new().open_file(&folder).unwrap_err().to_string();
    assert!(said.contains("is a directory; give the answers.sqlite in it"), "{said}");
}

#[test]
fn a_damaged_store_is_known_before_anything_is_asked() {
    let (_home, path) = filled(300);
    let whole = std::fs::read(&path).unwrap();
    assert!(whole.len() > 2 << 20);
    let damages: [(&str, Vec<u8>); 3] = [
        ("cut", whole[..whole.len() / 2].to_vec()),
        ("cut inside a page", whole[..whole.len() - 100].to_vec()),
        ("zeros", [&whole[..8192], &vec![0; 8192], &whole[16384..]].concat()),
    ];
    for (what, bytes) in damages {
        std::fs::write(&path, bytes).unwrap();
        for said in refusals(&path) {
            assert!(said.contains("is damaged") && said.contains("asked for again"), "{what}: {said}");
        }
    }
}

#[test]
fn a_request_that_is_not_the_one_of_its_key_is_no_answer() {
    let (home, path) = filled(3);
    Connection::open(&path).unwrap().execute("UPDATE text SET content = '7' WHERE content = '1'", []).unwrap();
    let out = home.path().join("c.jsonl");
    let said = export_answers(&path, &out, &CassetteHeader::default()).unwrap_err().to_string();
    assert!(said.contains("is damaged: a request is not the one of its key"), "{said}");
    assert!(!out.exists());
}

#[test]
fn a_store_that_can_no_longer_be_read_keeps_nothing_and_says_why() {
    let (_home, path) = filled(600);
    let mut store = AnswerStore::new();
    store.attach(&path).unwrap();
    assert_eq!(store.get(&request(0)), Some(answer(0)));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&bytes[..4096], &vec![7; bytes.len() - 4096]].concat()).unwrap();
    let found = (0..600).filter(|at| store.has(&request_key(&request(*at)))).count();
    let read = (0..600).filter(|at| store.get(&request(*at)).is_some()).count();
    assert!(found + read < 1200 && store.fault().is_some(), "{found} {read}");
    let said = store.put(&request(1000), &answer(0)).unwrap_err().to_string();
    assert!(said.contains("answers.sqlite: is damaged"), "{said}");
}

#[test]
fn a_full_disk_is_an_error_and_what_was_kept_before_is_safe() {
    let (_home, path) = filled(20);
    let full = || {
        let database = Database::open_to_write(&path).unwrap();
        // SQLite answers as on a full disk where a file may have no more pages.
        database.connection().execute_batch("PRAGMA max_page_count = 70").unwrap();
        database
    };
    let row = |at: usize| Row::of(key_of(&request(at)), &request(at), answer(at));
    let writer = Writer::start(full()).unwrap();
    let ended: Vec<_> = (20..60).map(|at| writer.keep(row(at))).collect();
    let said = ended.last().unwrap().as_ref().unwrap_err().to_string();
    assert!(said.contains("the disk is full; what was kept before is safe. Make room"), "{said}");
    drop(writer);
    let mut store = AnswerStore::new();
    let there = store.open_file(&path).unwrap().answers;
    let kept = ended.iter().filter(|kept| kept.is_ok()).count();
    assert!(there == 20 + kept && kept > 0, "{there} {kept}");
    for at in 0..20 + kept {
        assert_eq!(store.get(&request(at)), Some(answer(at)));
    }
    // With room again, the same answers are kept.
    (20..60).for_each(|at| store.put(&request(at), &answer(at)).unwrap());
    assert_eq!(store.len(), 60);
}

#[test]
fn a_store_is_read_where_nothing_may_be_written() {
    let (home, path) = filled(3);
    let odd = home.path().join("a ?b#c%41");
    std::fs::create_dir(&odd).unwrap();
    let there = odd.join("answers.sqlite");
    std::fs::copy(&path, &there).unwrap();
    let connection = still(&there).unwrap();
    let count: i64 = connection.query_row("SELECT count(*) FROM answer", [], |row| row.get(0)).unwrap();
    assert_eq!((count, std::fs::read_dir(&odd).unwrap().count()), (3, 1), "and no file is left beside it");
}

#[test]
fn an_empty_file_is_a_store_without_answers() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("answers.sqlite");
    std::fs::write(&path, "").unwrap();
    assert_eq!(answer_stats(&path).unwrap().models, []);
    let mut store = AnswerStore::new();
    assert_eq!(store.open_file(&path).unwrap(), Opened { answers: 0, adopted: None });
    store.put(&request(1), &answer(1)).unwrap();
    assert_eq!(store.len(), 1);
}
