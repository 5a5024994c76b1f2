//! `trace show` and `trace stats` as a user calls them: on the debates of the recorded cassette, on
//! one with rounds in Chinese and Korean, and on files that are none.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        Desk(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.0.path().join(name), text).unwrap();
        self.0.path().join(name)
    }

    /// Runs the program in the desk; exit code, stdout and stderr.
    fn call(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_understudy"));
        let done = command.args(arguments).current_dir(self.0.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
    }

    /// The debates of the quickstart, replayed. The cassette holds no questions about events, so
    /// that they are asked of the schema without its events.
    fn recorded(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let schema = std::fs::read_to_string(sample("schema.toml")).unwrap();
        let schema = self.write("schema.toml", schema.split("[[events]]").next().unwrap());
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_understudy"));
        let (out, schema) = (self.0.path().to_str().unwrap(), format!("data.schema={}", schema.to_str().unwrap()));
        command.args(["debate", "configs/quickstart.toml", "--out", out, "--set", &schema]);
        command.current_dir(root).assert().success();
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let (code, out, said) = self.call(arguments);
        assert_eq!(code, 0, "{said}");
        out
    }
}

fn sample(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample").join(name).to_str().unwrap().to_owned()
}

fn turn(stage: &str, agent: &str, round: u32, found: &[&str]) -> Value {
    json!({"stage": stage, "agent": agent, "round": round, "request": "0", "raw": format!("raw of {agent} {round}"),
        "status": "ok", "found": found, "cost": {"calls": 1, "prompt_tokens": 100, "completion_tokens": 10, "seconds": 0.5}})
}

fn entity(label: &str, text: &str, start: usize) -> Value {
    json!({"type": label, "text": text, "start": start, "end": start + text.chars().count()})
}

const TEXT: &str = "王芳在北京大学工作。김민수는 삼성전자에서 일한다.";

/// Three agents, three rounds; the second round retypes one mention, adds one and takes one out.
fn rounds() -> (String, String) {
    let (person, school, firm) =
        (entity("인물", "김민수", 10), entity("组织", "北京大学", 3), entity("조직", "삼성전자", 15));
    let mut failed = turn("collaboration", "NER", 2, &[]);
    failed["status"] = "failed".into();
    failed["error"] = "the answer is blank".into();
    let mut mended = turn("collaboration", "NER", 1, &["组织 \"北京大学\"", "인물 \"김민수\""]);
    mended["asked_again"] = true.into();
    mended["retries"] = 2.into();
    mended["repairs"] = json!(["full-width punctuation (3 times)"]);
    mended["dropped"] = json!([["李雷", "not in the text"]]);
    let mut vote = turn("debate", "NER", 1, &["A"]);
    (vote["conflict"], vote["confidence"], vote["reason"]) = (0.into(), 0.9.into(), "大学是组织".into());
    let mut other = turn("debate", "RE", 1, &["B"]);
    other["conflict"] = 0.into();
    let mut changed = turn("debate", "RE", 2, &["A"]);
    (changed["conflict"], changed["reason"]) = (0.into(), "맞습니다".into());
    let support = json!({"votes": 2, "voters": 2, "logprob": -0.1, "judged": false});
    let trace = json!({"id": "d1", "protocol": "cooperkgc",
        "turns": [turn("collaboration", "NER", 0, &["地点 \"北京大学\"", "人物 \"王芳\""]),
            turn("relations", "RE", 0, &["소속 \"김민수\" → \"삼성전자\""]),
            mended, vote, other, changed, failed],
        "superseded": [turn("collaboration", "NER", 1, &[])],
        "conflicts": [{"stage": "entities", "options": ["A: 组织 \"北京大学\"", "B: 地点 \"北京大学\""],
            "claimants": ["NER", "RE"], "outcome": "组织 \"北京大学\"", "settled": "consensus", "rounds": 2}],
        "snapshots": [
            {"stage": "collaboration", "round": 0, "extraction": {"entities": [entity("地点", "北京大学", 3), entity("人物", "王芳", 0)]}, "delta": 3},
            {"stage": "collaboration", "round": 1, "extraction": {"entities": [school, person]}, "delta": 1}],
        "extraction": {"entities": [school, person, firm], "relations": [{"type": "소속", "head": 1, "tail": 2}]},
        "entity_support": [support, support, support], "relation_support": [support], "status": "ok"});
    let gold = json!({"id": "d1", "text": TEXT, "gold": {"entities": [entity("人物", "王芳", 0), school, person]}});
    (format!("{trace}\n"), format!("{gold}\n"))
}

#[test]
fn a_debate_is_shown_round_by_round_with_what_changed() {
    let desk = Desk::new();
    let (trace, gold) = rounds();
    desk.write("t.jsonl", &trace);
    desk.write("gold.jsonl", &gold);
    let shown = desk.ok(&["trace", "show", "t.jsonl", "--gold", "gold.jsonl", "--width", "90"]);
    insta::assert_snapshot!("show_rounds", shown);
    assert!(!shown.contains('\u{1b}'), "colour on a terminal only");
    let raw = desk.ok(&["trace", "show", "t.jsonl", "--raw"]);
    assert!(raw.contains("raw: raw of NER 0") && !shown.contains("raw of"));
    let told: Value =
        serde_json::from_str(&desk.ok(&["trace", "show", "t.jsonl", "--json", "--gold", "gold.jsonl"])).unwrap();
    assert_eq!(
        told["turns"][2]["items"][0],
        json!({"item": "组织 \"北京大学\"", "change": "retyped", "was": "地点", "right": true})
    );
    assert_eq!(told["stands"][1]["delta"], 1);
    assert_eq!(told["missed"], json!(["人物 \"王芳\""]));
}

#[test]
fn the_counts_of_a_debate_are_those_of_a_count_by_hand() {
    let desk = Desk::new();
    let (trace, gold) = rounds();
    desk.write("t.jsonl", &trace);
    desk.write("gold.jsonl", &gold);
    let told = desk.ok(&["trace", "stats", "t.jsonl", "--gold", "gold.jsonl", "--price", "1,10", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    // Round 1: 北京大学 as 地点 goes (wrong removed) and comes as 组织; 王芳 goes (right); 김민수 comes.
    let flips = json!({"documents": 1, "right_to_wrong": 1, "wrong_to_right": 2, "wrong_added": 0, "wrong_removed": 1, "stage": "collaboration 1"});
    let mut first = told["flips"][0].clone();
    for scores in ["entities", "relations", "events"] {
        first.as_object_mut().unwrap().remove(scores);
    }
    assert_eq!(first, flips);
    let kinds = &told["stages"][0]["kinds"];
    let counted = ["right", "wrong_type", "boundary", "missing", "spurious"].map(|kind| kinds[kind].as_u64().unwrap());
    assert_eq!(counted, [1, 1, 0, 1, 0]);
    // 2 right of 2 found, 3 in the gold: F1 = 4/5.
    assert_eq!(told["stages"][1]["entities"]["f1"], 0.8);
    // 8 turns of 100 and 10 tokens: 8 (100 · 1 + 10 · 10) / 10^6.
    assert_eq!(told["spent"]["money"], 0.0016);
    assert_eq!(told["per_accepted_fact"]["tokens"], 220.0);
    // Round 1: one pair, apart, of two options: (0 - 1/2) / (1 - 1/2).
    assert_eq!(
        (&told["ballots"]["1"]["agreement"], &told["ballots"]["1"]["beyond_chance"]),
        (&json!(0.0), &json!(-1.0))
    );
    assert_eq!(told["ballots"]["2"]["changed"], 1);
    assert_eq!(told["one_turn"], json!({"share": 0.0, "crossagentie": 0.775}));
}

#[test]
fn recorded_debates_are_shown_and_counted() {
    let desk = Desk::new();
    desk.recorded();
    let gold = sample("train.jsonl");
    let shown = desk.ok(&["trace", "show", "traces.jsonl", "--gold", &gold, "--width", "110"]);
    insta::assert_snapshot!("show_recorded", shown);
    let schema = sample("schema.toml");
    let counted =
        desk.ok(&["trace", "stats", "traces.jsonl", "--gold", &gold, "--schema", &schema, "--price", "0.15,0.6"]);
    insta::assert_snapshot!("stats_recorded", counted);
    // Packed by the store's own extension, the same debates give the same words.
    let packed = zstd::encode_all(&std::fs::read(desk.0.path().join("traces.jsonl")).unwrap()[..], 1).unwrap();
    std::fs::write(desk.0.path().join("z.jsonl.zst"), packed).unwrap();
    assert_eq!(desk.ok(&["trace", "show", "z.jsonl.zst", "--gold", &gold, "--width", "110"]), shown);
}

#[test]
fn errors_name_file_line_and_near_ids() {
    let desk = Desk::new();
    let (trace, _) = rounds();
    desk.write("t.jsonl", &trace);
    let (code, _, said) = desk.call(&["trace", "show", "t.jsonl", "--id", "d2"]);
    assert_eq!((code, said.contains("no trace of document \"d2\"; near it: \"d1\"")), (2, true), "{said}");
    desk.write("bad.jsonl", &format!("{trace}{{\"id\":\"d2\",\"turns\":7}}\n"));
    for verb in ["show", "stats"] {
        let mut arguments = vec!["trace", verb, "bad.jsonl"];
        arguments.extend(["--id", "d9"].into_iter().filter(|_| verb == "show"));
        let (code, _, said) = desk.call(&arguments);
        assert_eq!((code, said.contains("bad.jsonl:2")), (1, true), "{said}");
    }
    desk.write("empty.jsonl", "\n");
    for verb in ["show", "stats"] {
        assert_eq!(desk.call(&["trace", verb, "empty.jsonl"]).0, 2);
    }
    assert_eq!(desk.call(&["trace", "stats", "t.jsonl", "--price", "1"]).0, 2);
    let hostile = trace
        .replace("cooperkgc", "\\u001b[2J\\u202e")
        .replace("\"conflict\":0", "\"conflict\":99")
        .replace("\"head\":1", "\"head\":77");
    desk.write("hostile.jsonl", &hostile);
    let shown = desk.ok(&["trace", "show", "hostile.jsonl"]);
    assert!(!shown.contains(['\u{1b}', '\u{202e}']));
    desk.ok(&["trace", "stats", "hostile.jsonl"]);
}
