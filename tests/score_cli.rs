//! `score`, `compare` and `report` as a user calls them: exit codes, JSON, and what errors say.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        Desk(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn lines(&self, name: &str, lines: &[Value]) -> PathBuf {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.raw(name, text.as_bytes())
    }

    fn raw(&self, name: &str, bytes: &[u8]) -> PathBuf {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// Runs the program; exit code, stdout, and stderr with the desk's path cut out.
    fn call(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_understudy"));
        let done = command.args(arguments).current_dir(self.0.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
    }
}

fn ann(start: usize, end: usize, label: &str) -> Value {
    json!({"entities": [{"type": label, "text": &"Ann met Bo"[start..end], "start": start, "end": end}]})
}

fn document(id: &str, gold: Value) -> Value {
    json!({"id": id, "text": "Ann met Bo", "gold": gold})
}

fn prediction(id: &str, found: Value) -> Value {
    json!({"id": id, "status": "ok", "extraction": found, "cost": {"calls": 1, "prompt_tokens": 40, "completion_tokens": 8, "seconds": 0.5}})
}

fn gold(desk: &Desk) {
    let documents: Vec<Value> = (0..4).map(|at| document(&format!("d{at}"), ann(0, 3, "PER"))).collect();
    desk.lines("gold.jsonl", &documents);
}

#[test]
fn score_prints_fractions_and_null_as_json() {
    let desk = Desk::new();
    gold(&desk);
    let failed = json!({"id": "d3", "status": "failed", "error": "timeout"});
    desk.lines("pred.jsonl", &[prediction("d1", ann(0, 3, "PER")), prediction("d0", ann(8, 10, "PER")), failed]);
    let (code, out, said) = desk.call(&["score", "--gold", "gold.jsonl", "--pred", "pred.jsonl", "--json"]);
    assert_eq!((code, said.as_str()), (0, "warning: pred.jsonl has no prediction for \"d2\"; counted as failed\n"));
    let found: Value = serde_json::from_str(&out).unwrap();
    // One of two predictions is right, and one of four gold entities is found.
    assert_eq!(
        found["entities"],
        json!({"tp": 1, "fp": 1, "fn": 3, "precision": 0.5, "recall": 0.25, "f1": 1.0 / 3.0})
    );
    assert_eq!((&found["documents"], &found["failed"]), (&json!(4), &json!(2)));
    assert_eq!(found["relations"]["f1"], Value::Null);
    assert_eq!(found["per_type"]["entities"]["PER"]["tp"], json!(1));
    let keys: Vec<&String> = found.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "documents",
            "failed",
            "entities",
            "relations",
            "relations_boundaries",
            "events",
            "per_type",
            "duplicates",
            "spread"
        ]
    );
    assert_eq!(found["spread"]["entities"]["main"], json!(1.0 / 3.0));
    let bare = desk.call(&["score", "--gold", "gold.jsonl", "--pred", "pred.jsonl", "--json", "--no-spread"]).1;
    assert_eq!(serde_json::from_str::<Value>(&bare).unwrap().get("spread"), None);
}

#[test]
fn other_conventions_have_their_own_figures_and_all_has_every_one() {
    let desk = Desk::new();
    gold(&desk);
    let twice = json!({"entities": [{"type": "PER", "text": "Ann", "start": 0, "end": 3}, {"type": "PER", "text": "Ann", "start": 0, "end": 3}]});
    desk.lines("pred.jsonl", &(0..4).map(|at| prediction(&format!("d{at}"), twice.clone())).collect::<Vec<_>>());
    let call = |more: &[&str]| {
        let (code, out, said) = desk.call(&[&["score", "--gold", "gold.jsonl", "--pred", "pred.jsonl"], more].concat());
        assert_eq!((code, said.as_str()), (0, ""));
        out
    };
    let read = |mode: &str| serde_json::from_str::<Value>(&call(&["--mode", mode, "--json"])).unwrap();
    // IEPile counts a repeated mention as wrong: P 50, R 100, F1 66.67.
    let found = read("iepile");
    assert_eq!(
        found,
        json!({"documents": 4, "failed": 0, "mode": "iepile",
            "entities": {"tp": 4, "fp": 4, "fn": 0, "precision": 0.5, "recall": 1.0, "f1": 66.67 / 100.0}})
    );
    let all = read("all");
    assert_eq!(all["conventions"]["iepile"]["entities"], found["entities"]);
    assert_eq!(all["entities"]["f1"], json!(1.0));
    assert_eq!(all["spread"]["entities"]["min_mode"], json!("nervaluate-strict"));
    let table = call(&["--mode", "all"]);
    for convention in understudy::eval::Convention::ALL {
        assert!(table.lines().any(|line| line.starts_with(convention.name())), "{}", convention.name());
    }
    assert!(table.contains("F1 over conventions") && table.contains("100.00  66.67  nervaluate-strict"), "{table}");
    let table = call(&["--mode", "iepile"]);
    assert!(table.starts_with("documents 4, failed 0\nmode iepile: IEPile, normal"), "{table}");
    assert!(table.contains("entities      50.00  100.00  66.67   4   4   0"), "{table}");
}

#[test]
fn tagged_columns_are_scored_as_conlleval_scores_them() {
    let desk = Desk::new();
    desk.raw("out.conll", b"Ann B-NP I-NP\nLee I-NP I-NP\n\n-X- O O\nBo B-NP O\n");
    let (code, out, said) = desk.call(&["score", "--tags", "out.conll", "--json"]);
    assert_eq!((code, said.as_str()), (0, ""));
    let found: Value = serde_json::from_str(&out).unwrap();
    let f1 = |mode: &str| found["conventions"][mode]["entities"]["f1"].clone();
    // One of one found and of two there; none under strict, where I- opens nothing.
    assert_eq!(
        (f1("seqeval"), f1("conlleval"), f1("seqeval-strict")),
        (json!(2.0 / 3.0), json!(2.0 / 3.0), json!(0.0))
    );
    desk.raw("odd.conll", b"Ann B-NP X-NP\n");
    let (code, _, said) = desk.call(&["score", "--tags", "odd.conll"]);
    assert_eq!(
        (code, said.as_str()),
        (1, "error: odd.conll:1: tag \"X-NP\"; expected O, or B-, I-, E- or S- before a type\n")
    );
    assert_eq!(desk.call(&["score", "--tags", "out.conll", "--mode", "uie"]).0, 2);
}

#[test]
fn counts_of_each_document_are_written_on_demand() {
    let desk = Desk::new();
    gold(&desk);
    desk.lines("pred.jsonl", &[prediction("d2", ann(0, 3, "PER"))]);
    let call = ["score", "--gold", "gold.jsonl", "--pred", "pred.jsonl", "--json", "--per-document", "each.jsonl"];
    assert_eq!(desk.call(&call).0, 0);
    let written = std::fs::read_to_string(desk.path("each.jsonl")).unwrap();
    let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["id"].clone()).collect::<Vec<_>>(), ["d0", "d1", "d2", "d3"]);
    assert_eq!(
        (&lines[2]["entities"]["tp"], &lines[3]["entities"]["fn"], &lines[3]["failed"]),
        (&json!(1), &json!(1), &json!(1))
    );
}

#[test]
fn the_fast_way_and_the_careful_way_count_the_same() {
    let desk = Desk::new();
    let documents: Vec<Value> = (0..3000)
        .map(|at| document(&format!("d{at}"), if at % 7 == 0 { json!({}) } else { ann(0, 3, ["PER", "LOC"][at % 2]) }))
        .collect();
    desk.lines("gold.jsonl", &documents);
    let found = |at: usize| {
        prediction(
            &format!("d{at}"),
            ann(if at.is_multiple_of(5) { 8 } else { 0 }, if at.is_multiple_of(5) { 10 } else { 3 }, "PER"),
        )
    };
    desk.lines("pred.jsonl", &(0..3000).rev().filter(|at| at % 11 != 0).map(found).collect::<Vec<_>>());
    let call = |more: &[&str]| {
        let out = desk.call(
            &[&["score", "--gold", "gold.jsonl", "--pred", "pred.jsonl", "--mode", "all", "--json"], more].concat(),
        );
        assert_eq!(out.0, 0);
        serde_json::from_str::<Value>(&out.1).unwrap()
    };
    let (mut fast, mut careful) = (call(&[]), call(&["--per-document", "each.jsonl"]));
    // Means over documents are sums of fractions in another grouping.
    for found in [&mut fast, &mut careful] {
        for mode in ["per-document", "oneke", "oneke-utf8"] {
            let f1 = found["conventions"][mode]["entities"]["f1"].as_f64().unwrap();
            found["conventions"][mode]["entities"] = json!((f1 * 1e9).round());
        }
        found["spread"] = Value::Null;
    }
    assert_eq!(fast, careful);
}

#[test]
fn score_shows_an_aligned_table_and_the_mode() {
    let desk = Desk::new();
    gold(&desk);
    desk.lines("pred.jsonl", &(0..4).map(|at| prediction(&format!("d{at}"), ann(0, 3, "LOC"))).collect::<Vec<_>>());
    let call = |mode: &str| desk.call(&["score", "--gold", "gold.jsonl", "--pred", "pred.jsonl", "--mode", mode]);
    let (code, out, said) = call("boundaries");
    assert_eq!((code, said.as_str()), (0, ""));
    insta::assert_snapshot!(out);
    let (code, out, said) = call("partial");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(said.contains("scoring mode \"partial\" is not known; known modes: strict, boundaries"), "{said}");
}

#[test]
fn compressed_lines_give_the_same_scores() {
    let desk = Desk::new();
    gold(&desk);
    let pred = desk.lines("pred.jsonl", &[prediction("d1", ann(0, 3, "PER"))]);
    let packed = zstd::encode_all(std::fs::File::open(pred).unwrap(), 3).unwrap();
    desk.raw("pred.jsonl.zst", &packed);
    let of = |pred: &str| desk.call(&["score", "--gold", "gold.jsonl", "--pred", pred, "--json"]).1;
    assert_eq!(of("pred.jsonl.zst"), of("pred.jsonl"));
    assert!(of("pred.jsonl").contains("\"tp\":1"));
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_its_line() {
    let desk = Desk::new();
    gold(&desk);
    desk.lines("bare.jsonl", &[document("d0", ann(0, 3, "PER")), json!({"id": "d1", "text": "x"})]);
    desk.lines("twice.jsonl", &[document("d0", json!({})), document("d0", json!({}))]);
    desk.lines("stranger.jsonl", &[prediction("d1", json!({})), prediction("d9", json!({}))]);
    desk.lines("again.jsonl", &[prediction("d1", json!({})), prediction("d1", json!({}))]);
    desk.lines("empty.jsonl", &[json!({"id": "d1", "status": "empty", "extraction": ann(0, 3, "PER")})]);
    desk.lines(
        "shifted.jsonl",
        &[prediction("d1", json!({"entities": [{"type": "PER", "text": "Ann", "start": 1, "end": 4}]}))],
    );
    desk.raw("broken.jsonl", b"\n{\"id\":\n");
    desk.raw("bytes.jsonl", b"{\"id\":\"\xff\"}\n");
    desk.raw("pred.csv", b"");
    let mut said = String::new();
    for (gold, pred) in [
        ("bare.jsonl", "again.jsonl"),
        ("twice.jsonl", "again.jsonl"),
        ("gold.jsonl", "stranger.jsonl"),
        ("gold.jsonl", "again.jsonl"),
        ("gold.jsonl", "empty.jsonl"),
        ("gold.jsonl", "shifted.jsonl"),
        ("gold.jsonl", "broken.jsonl"),
        ("gold.jsonl", "bytes.jsonl"),
        ("gold.jsonl", "absent.jsonl"),
        ("gold.jsonl", "pred.csv"),
    ] {
        let (code, out, error) = desk.call(&["score", "--gold", gold, "--pred", pred, "--json"]);
        assert_eq!(out, "");
        said += &format!("{code} {error}");
    }
    insta::assert_snapshot!(said);
}

#[test]
fn the_self_test_passes_on_good_gold_and_names_gold_without_a_place() {
    let desk = Desk::new();
    gold(&desk);
    let (code, out, _) = desk.call(&["score", "--gold", "gold.jsonl", "--self-test"]);
    assert_eq!(code, 0);
    assert!(out.ends_with("gold against nothing: 0.00 on every measure\nself-test passed on 4 documents\n"), "{out}");
    desk.lines("pred.jsonl", &[prediction("d1", ann(0, 3, "LOC"))]);
    let (code, out, _) = desk.call(&["score", "--gold", "gold.jsonl", "--pred", "pred.jsonl", "--self-test"]);
    assert_eq!(code, 0);
    assert!(out.contains("predictions doubled and reversed: the same on every measure\n"), "{out}");
    let lost = json!({"entities": [{"type": "PER", "text": "Ann", "start": null, "end": null}]});
    desk.lines("lost.jsonl", &[document("d0", lost)]);
    let (code, _, said) = desk.call(&["score", "--gold", "lost.jsonl", "--self-test"]);
    assert_eq!(code, 1);
    assert!(said.contains("gold against itself gives entities 0.00 instead of 100.00"), "{said}");
}

#[test]
fn the_schema_makes_a_relation_symmetric() {
    let desk = Desk::new();
    let pair = json!([{"type": "PER", "text": "Ann", "start": 0, "end": 3}, {"type": "PER", "text": "Bo", "start": 8, "end": 10}]);
    let met = |head: usize, tail: usize| json!({"entities": pair, "relations": [{"type": "met", "head": head, "tail": tail}]});
    desk.lines("gold.jsonl", &[document("d0", met(0, 1))]);
    desk.lines("pred.jsonl", &[prediction("d0", met(1, 0))]);
    desk.raw("schema.toml", b"[[entities]]\nlabel = \"PER\"\n[[relations]]\nlabel = \"met\"\nsymmetric = true\n");
    desk.raw("bad.toml", b"[[relations]]\nlabel = \"met\"\nhead = [\"GPE\"]\n");
    let call = |more: &[&str]| {
        desk.call(&[&["score", "--gold", "gold.jsonl", "--pred", "pred.jsonl", "--json"], more].concat())
    };
    let tp = |more: &[&str]| serde_json::from_str::<Value>(&call(more).1).unwrap()["relations"]["tp"].clone();
    assert_eq!((tp(&[]), tp(&["--schema", "schema.toml"])), (json!(0), json!(1)));
    let (code, _, said) = call(&["--schema", "bad.toml"]);
    assert_eq!(code, 2);
    assert!(said.starts_with("error: bad.toml: relation \"met\": head names the entity type \"GPE\""), "{said}");
}

#[test]
fn compare_takes_differences_to_the_team_unless_told_otherwise() {
    let desk = Desk::new();
    gold(&desk);
    let all = |label: &str| (0..4).map(|at| prediction(&format!("d{at}"), ann(0, 3, label))).collect::<Vec<_>>();
    desk.lines("student.jsonl", &all("PER"));
    desk.lines("team.jsonl", &all("LOC"));
    let call = |more: &[&str]| {
        desk.call(
            &[&["compare", "--gold", "gold.jsonl", "student.jsonl", "team.jsonl", "--replicates", "100"], more]
                .concat(),
        )
    };
    let (code, out, said) = call(&[]);
    assert_eq!((code, said.as_str()), (0, ""));
    insta::assert_snapshot!(out);
    let found: Value = serde_json::from_str(&call(&["--reference", "student", "--json"]).1).unwrap();
    assert_eq!(found["reference"], json!("student"));
    // All four documents say the same: 1 - 0.025^(1/4) = 0.6024 of the others may not.
    let difference = &found["systems"][1]["entities_difference"];
    assert_eq!((&difference["f1"], &difference["verdict"]), (&json!(-1.0), &json!("worse")));
    assert_eq!(difference["interval"]["low"], json!(-1.0));
    assert!((difference["interval"]["high"].as_f64().unwrap() + 0.3976).abs() < 1e-4, "{difference}");
    let (code, _, said) = call(&["--reference", "judge"]);
    assert_eq!(
        (code, said.as_str()),
        (2, "error: --reference \"judge\" is none of the systems; known: student, team\n")
    );
}

#[test]
fn report_writes_its_pages_from_the_run_report_and_says_what_is_missing() {
    let desk = Desk::new();
    let (code, _, said) = desk.call(&["report", "."]);
    assert_eq!(code, 1);
    assert!(said.contains("run_report.json: a run directory holds this file once its systems were scored"), "{said}");
    desk.raw("run_report.json", br#"{"title":"Sample","training":[{"step":1,"loss":2.0,"lr":1e-4,"grad_norm":1.0}]}"#);
    let (code, out, _) = desk.call(&["report", "."]);
    assert_eq!(code, 0);
    assert_eq!(out, "This run has not been scored yet.\n\n./report.md\n./report.html\n");
    let page = |name: &str| std::fs::read(desk.path(name)).unwrap();
    let first = page("report.html");
    assert!(Path::new(&desk.path("report.md")).exists());
    assert_eq!(desk.call(&["report", "."]).0, 0);
    assert_eq!(page("report.html"), first);
    desk.raw("run_report.json", br#"{"title":"Sample","titel":1}"#);
    let (code, _, said) = desk.call(&["report", "."]);
    assert_eq!(code, 1);
    assert!(said.contains("unknown field `titel`"), "{said}");
}

#[test]
fn help_teaches_with_an_example() {
    let desk = Desk::new();
    let mut all = String::new();
    for verb in ["score", "compare", "report"] {
        let (code, out, _) = desk.call(&[verb, "--help"]);
        assert_eq!(code, 0);
        assert!(out.contains(&format!("Example:\n  understudy {verb} ")), "{out}");
        all += out.find("Example:").map_or("", |at| &out[at..]);
    }
    insta::assert_snapshot!(all);
}
