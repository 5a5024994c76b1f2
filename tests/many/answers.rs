//! Stored answers as a user meets them: what is asked again and what is not, the verb `answers`, and
//! runs of version 0.1.

use crate::desk::{Asked, Desk};
use crate::stub::{Reply, Stub};
use serde_json::Value;

const DOCUMENTS: usize = 12;
const TYPES: usize = 3;

fn team() -> Stub {
    Stub::new(|_, heard| Reply::Send(200, String::new(), Asked::of(heard).answer(TYPES)))
}

fn debate(desk: &Desk, url: &str, more: &[&str]) -> (i32, String, String) {
    let set = format!("team.base_url={url}");
    let mut arguments = vec!["debate", "many.toml", "--set", &set];
    arguments.extend(more);
    desk.call(&arguments)
}

#[test]
fn a_document_that_changes_is_asked_about_and_no_other() {
    let (desk, stub) = (Desk::new(DOCUMENTS, TYPES), team());
    assert_eq!(debate(&desk, &stub.base_url, &[]).0, 0);
    assert_eq!(stub.count(), DOCUMENTS * TYPES);
    let text = desk.read("train.jsonl");
    desk.write("train.jsonl", &text.replacen("is number 7.", "is number 7. It is blue.", 1));
    assert_eq!(debate(&desk, &stub.base_url, &[]).0, 0);
    assert_eq!(stub.count(), (DOCUMENTS + 1) * TYPES);
    desk.write("train.jsonl", &text);
    let (code, _, said) = desk.call(&["debate", "many.toml"]);
    assert_eq!((code, stub.count()), (0, (DOCUMENTS + 1) * TYPES), "without a server, from the store: {said}");
    assert_eq!(desk.answered("out/answers.sqlite").len(), (DOCUMENTS + 1) * TYPES);
}

#[test]
fn a_store_goes_out_as_a_cassette_and_comes_back() {
    let (desk, stub) = (Desk::new(DOCUMENTS, TYPES), team());
    assert_eq!(debate(&desk, &stub.base_url, &["--shard", "1/2"]).0, 0);
    assert_eq!(debate(&desk, &stub.base_url, &["--shard", "2/2"]).0, 0);
    let stores = ["out/answers-001-of-002.sqlite", "out/answers-002-of-002.sqlite"];
    let import = |files: &[&str]| {
        let (code, out, said) = desk.call(&[&["answers", "import", "--into", "all.sqlite"][..], files].concat());
        assert_eq!(code, 0, "{said}");
        out
    };
    assert_eq!(import(&stores), "36 answers read, 36 of them new in all.sqlite\n");
    assert_eq!(import(&stores[1..]).split_once(" of them new").unwrap().0.rsplit(' ').next(), Some("0"));
    let (code, out, said) = desk.call(&["answers", "stats", "all.sqlite"]);
    assert_eq!(code, 0, "{said}");
    assert!(out.starts_with("all.sqlite: 36 answers, "), "{out}");
    assert!(out.contains("\n  m: 36 answers in 36 requests; 1440 tokens read, 324 written; "), "{out}");
    let told: Value = serde_json::from_str(&desk.call(&["answers", "stats", "all.sqlite", "--json"]).1).unwrap();
    assert_eq!((&told["answers"], &told["models"][0]["completion_tokens"]), (&36.into(), &324.into()), "{told}");
    let (code, out, _) =
        desk.call(&["answers", "export", "all.sqlite", "--out", "mine.jsonl.zst", "--date", "2026-01-31", "--json"]);
    assert_eq!((code, out.as_str()), (0, "{\"answers\":36,\"cassette\":\"mine.jsonl.zst\"}\n"));
    let lines: Vec<Value> = understudy::store::read_jsonl(&desk.path("mine.jsonl.zst")).unwrap();
    assert_eq!((&lines[0]["model"], &lines[0]["date"]), (&"m".into(), &"2026-01-31".into()));
    assert_eq!(lines.len(), 1 + TYPES + 36, "a header, each system message once, the answers");
    // Both replay without a server, in a directory that has no answers of its own.
    for cassette in ["mine.jsonl.zst", "all.sqlite"] {
        let set = format!("team.cassette=\"{cassette}\"");
        let (code, _, said) = desk.call(&["debate", "many.toml", "--out", "other", "--set", &set]);
        assert_eq!((code, stub.count()), (0, 36), "{said}");
        assert_eq!(desk.traces("other/traces.jsonl").len(), DOCUMENTS);
    }
    let (code, _, said) = desk.call(&["answers", "stats", "absent"]);
    assert_eq!((code, said.contains("absent: is not there; expected a store of answers")), (2, true), "{said}");
    let (code, _, said) = desk.call(&["answers", "export", "mine.jsonl.zst", "--out", "x.jsonl"]);
    assert_eq!((code, said.contains("mine.jsonl.zst: is no SQLite database")), (1, true), "{said}");
}

#[test]
fn a_run_of_version_0_1_goes_on_with_the_answers_of_its_log() {
    let (desk, stub) = (Desk::new(DOCUMENTS, TYPES), team());
    assert_eq!(debate(&desk, &stub.base_url, &[]).0, 0);
    let traces = desk.traces("out/traces.jsonl");
    desk.write("out/answers.jsonl", desk.exported("out/answers.sqlite").split_once('\n').unwrap().1);
    std::fs::remove_file(desk.path("out/answers.sqlite")).unwrap();
    // A replay reads the log where it is.
    assert_eq!(desk.call(&["debate", "many.toml"]).0, 0);
    assert!(!desk.path("out/answers.sqlite").exists());
    for says in [true, false] {
        let (code, _, said) = debate(&desk, &stub.base_url, &[]);
        assert_eq!((code, stub.count()), (0, DOCUMENTS * TYPES), "{said}");
        let line = "out/answers.jsonl: its 36 answers are in out/answers.sqlite now; it may be removed";
        assert_eq!(said.contains(line), says, "{said}");
    }
    assert_eq!(desk.traces("out/traces.jsonl"), traces);
    std::fs::remove_file(desk.path("out/answers.jsonl")).unwrap();
    assert_eq!(debate(&desk, &stub.base_url, &[]).0, 0);
    assert_eq!(stub.count(), DOCUMENTS * TYPES);
}

#[test]
fn a_damaged_store_stops_a_debate_before_it_asks() {
    let (desk, stub) = (Desk::new(DOCUMENTS, TYPES), team());
    assert_eq!(debate(&desk, &stub.base_url, &[]).0, 0);
    let file = desk.path("out/answers.sqlite");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let (code, _, said) = debate(&desk, &stub.base_url, &[]);
    assert_eq!((code, stub.count()), (1, DOCUMENTS * TYPES), "{said}");
    assert!(said.contains("out/answers.sqlite: is damaged") && said.contains("Move it away"), "{said}");
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(debate(&desk, &stub.base_url, &[]).0, 0);
    assert_eq!(stub.count(), DOCUMENTS * TYPES);
}
