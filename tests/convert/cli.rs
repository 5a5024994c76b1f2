//! The verb as a user calls it: what it writes, what it says, how it ends.

use super::Desk;
use assert_cmd::Command;
use serde_json::{Value, json};

fn call(desk: &Desk, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    let done = command.args(arguments).current_dir(desk.path("")).env("COLUMNS", "100").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

const SPERT: &str = r#"[{"tokens": ["Ann", "Lee", "works", "for", "Zürich", "Re", "."],
  "entities": [{"type": "Peop", "start": 0, "end": 2}, {"type": "Org", "start": 4, "end": 6}],
  "relations": [{"type": "Work_For", "head": 0, "tail": 1}], "orig_id": 7},
 {"tokens": ["It", "rained", "."], "entities": [], "relations": [], "orig_id": 8}]"#;

#[test]
fn documents_and_the_implied_schema_are_written() {
    let desk = Desk::new();
    desk.write("train.json", SPERT);
    let arguments = ["convert", "train.json", "--out", "docs.jsonl", "--schema-out", "schema.toml"];
    let (code, out, said) = call(&desk, &arguments);
    assert_eq!(code, 0, "{said}");
    assert_eq!(said, "train.json: taken for spert (tokens with mentions by token index)\n");
    assert_eq!(
        out,
        "2 documents, 1 with nothing annotated\nentities         2  Org 1, Peop 1\nrelations        1  Work_For 1\n\
         written: docs.jsonl, schema.toml\n"
    );
    let lines = std::fs::read_to_string(desk.path("docs.jsonl")).unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        first,
        json!({"id": "7", "text": "Ann Lee works for Zürich Re .", "gold": {
            "entities": [
                {"type": "Peop", "text": "Ann Lee", "start": 0, "end": 7},
                {"type": "Org", "text": "Zürich Re", "start": 18, "end": 27}
            ],
            "relations": [{"type": "Work_For", "head": 0, "tail": 1}],
            "events": []
        }})
    );
    let schema = understudy::config::schema_file::read_schema(&desk.path("schema.toml")).unwrap();
    assert!(schema.relation("Work_For").unwrap().allows("Peop", "Org"));
    assert!(!schema.relation("Work_For").unwrap().allows("Org", "Peop"));

    // What was written is what our own reader takes, and it is sound under its own schema.
    let (code, _, said) = call(&desk, &["convert", "--check", "--schema", "schema.toml", "docs.jsonl"]);
    assert_eq!(code, 0, "{said}");
    let (code, out, _) = call(&desk, &["convert", "train.json", "--out", "-"]);
    assert_eq!((code, out), (0, lines));
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    let desk = Desk::new();
    desk.write("docs.jsonl", r#"{"id": "a", "text": "Ann", "gold": {"entities": []}}"#);
    for (arguments, wanted) in [
        (vec!["docs.jsonl"], "nothing is asked for"),
        (vec!["docs.jsonl", "--out", "docs.jsonl"], "it would be overwritten"),
        (vec!["docs.jsonl", "--out", "x.csv"], "written as .jsonl, .jsonl.zst or .parquet"),
        (vec!["docs.jsonl", "--out", "-", "--json"], "both write to standard output"),
        (vec!["docs.jsonl", "--check", "--from", "colnl"], "did you mean conll?"),
        (vec!["docs.jsonl", "--check", "--tag-column", "0"], "counts from 1"),
        (vec!["docs.jsonl", "--schema-out", "x.yaml"], "written as .toml or .json"),
        (vec!["--check"], "<IN>"),
    ] {
        let (code, _, said) = call(&desk, &[&["convert"], arguments.as_slice()].concat());
        assert_eq!((code, said.contains(wanted)), (2, true), "{arguments:?}: {said}");
    }
}

#[test]
fn unreadable_input_is_exit_code_1_with_file_and_line() {
    let desk = Desk::new();
    desk.write("cut.json", &SPERT[..SPERT.len() - 30]);
    desk.write("short.json", SPERT.replace("\"end\": 6", "\"end\": 60"));
    desk.write("empty.txt", "\n");
    desk.write("prose.txt", "Once upon a time.\nThe end.\n");
    for (arguments, wanted) in [
        (vec!["absent.json", "--check"], "absent.json: no such file"),
        (vec!["cut.json", "--check"], "cut.json:4: the file ends inside the record that begins here"),
        (vec!["short.json", "--out", "x.jsonl"], "short.json:1: Org: tokens 4..60 of 7 (end exclusive) — `--check`"),
        (vec!["empty.txt", "--check"], "the file is empty"),
        (vec!["empty.txt", "--from", "conll", "--check"], "empty.txt: no document was found"),
        (vec!["prose.txt", "--check"], "no known format: text that begins with \"Once upon a time.\" — pass --from"),
    ] {
        let (code, _, said) = call(&desk, &[&["convert"], arguments.as_slice()].concat());
        assert_eq!((code, said.contains(wanted)), (1, true), "{arguments:?}: {said}");
    }
    assert!(!desk.path("x.jsonl").exists(), "half a conversion was left");
}

#[test]
fn check_finds_what_was_broken_on_the_way_and_drop_broken_leaves_it_out() {
    let desk = Desk::new();
    let entity = |label: &str, text: &str, start: usize, end: usize| json!({"type": label, "text": text, "start": start, "end": end});
    let rows = [
        // Offsets too small by one, as in a set in circulation; a relation to a mention that is not there.
        json!({"id": "a", "text": "So Ann left Bern.", "gold": {
            "entities": [entity("PER", "Ann", 2, 5), entity("LOC", "Bern", 12, 16)],
            "relations": [{"type": "left", "head": 0, "tail": 2}, {"type": "left", "head": 0, "tail": 1}]
        }}),
        // The same id; a surface that stands nowhere; a mention that cuts a word; one with two types.
        json!({"id": "a", "text": "Berner Bo", "gold": {
            "entities": [entity("LOC", "Rome", 0, 4), entity("LOC", "Bern", 0, 4),
                         entity("PER", "Bo", 7, 9), entity("ORG", "Bo", 7, 9)],
            "relations": [{"type": "is", "head": 2, "tail": 2}]
        }}),
        json!({"id": "b", "text": "Berner Bo", "gold": {"entities": [entity("PER", "Bo", 70, 72)]}}),
    ];
    desk.write("docs.jsonl", rows.map(|row| row.to_string()).join("\n"));
    desk.write(
        "schema.json",
        r#"{"entities": [{"label": "PER"}, {"label": "LOC"}],
        "relations": [{"label": "left", "head": ["LOC"], "tail": ["LOC"]}]}"#,
    );
    let (code, out, said) = call(&desk, &["convert", "--check", "--schema", "schema.json", "docs.jsonl", "--json"]);
    assert_eq!(code, 1);
    assert!(said.ends_with("error: the check found 6 broken and 3 repaired items\n"), "{said}");
    let told: Value = serde_json::from_str(&out).unwrap();
    let counts = |name: &str| told["findings"][name]["count"].as_u64().unwrap_or(0);
    // The relation of the second document leads from Bo to Bo: 1 of 2 relations of the set.
    for (name, wanted) in [
        ("text_mismatch", 1),
        ("missing_end", 1),
        ("unknown_label", 2),
        ("signature", 1),
        ("collapsed_relations", 1),
        ("offsets_moved", 2),
        ("duplicate_id", 1),
        ("cuts_word", 1),
        ("two_types", 1),
        ("duplicate_text", 1),
        ("self_relation", 1),
    ] {
        assert_eq!(counts(name), wanted, "{name}: {told:#}");
    }
    assert_eq!(
        told["findings"]["offsets_moved"]["examples"],
        json!([
            "docs.jsonl:1: PER: \"Ann\" stood at 2..5, moved by +1",
            "docs.jsonl:3: PER: \"Bo\" stood at 70..72, moved by -63"
        ])
    );
    let arguments = ["convert", "docs.jsonl", "--schema", "schema.json", "--drop-broken", "--out", "sound.jsonl"];
    assert_eq!(call(&desk, &arguments).0, 0);
    let (code, out, said) = call(&desk, &["convert", "--check", "--schema", "schema.json", "sound.jsonl"]);
    assert_eq!(code, 0, "{out}{said}");
    assert!(out.contains("entities         5  PER 3, LOC 2\n"), "{out}");
}
