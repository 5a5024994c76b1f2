//! `distill` as a user calls it: the corpus of the recorded debates, what is told before it is
//! written, why a fact is kept or dropped, what is masked and what only some labels are asked for.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The experiment of the quickstart with the debates of its cassette, or with traces made by hand.
struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        Desk(tempfile::tempdir().unwrap())
    }

    fn recorded() -> Desk {
        let desk = Desk::new();
        let (code, _, said) = desk.call(&["debate", "configs/quickstart.toml"], &[]);
        assert_eq!(code, 0, "{said}");
        desk
    }

    /// Runs the program in the repository, its output in the desk; exit code, stdout and stderr.
    fn call(&self, arguments: &[&str], sets: &[&str]) -> (i32, String, String) {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_understudy"));
        command.args(arguments).args(["--out", self.0.path().to_str().unwrap()]);
        for set in sets {
            command.args(["--set", set]);
        }
        let done = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
    }

    fn distil(&self, sets: &[&str], more: &[&str]) -> String {
        let (code, out, said) = self.call(&[&["distill", "configs/quickstart.toml"], more].concat(), sets);
        assert_eq!(code, 0, "{said}");
        out
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.at("corpus/train.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Without gold for all, or the audit would be on nothing else than what calibrated.
const CALIBRATED: [&str; 2] = ["filter.calibration=isotonic", "filter.calibration_documents=40"];

#[test]
fn the_recorded_debates_give_the_corpus_that_they_always_gave() {
    let desk = Desk::recorded();
    let told = desk.distil(&[], &[]);
    let told = told.replace(desk.0.path().to_str().unwrap(), "OUT");
    insta::assert_snapshot!("quickstart", told);
    let text = std::fs::read_to_string(desk.at("corpus/train.jsonl")).unwrap();
    // The first corpus that was filtered in one piece, in memory: 235 lines and these bytes.
    assert_eq!(text.lines().count(), 235);
    let sha256 = "8a2e520f32d46ef242a5f0dbf3b73f752d5a0989a7ee1561b40077d30f9c6cce";
    let manifest: Value = serde_json::from_slice(&std::fs::read(desk.at("corpus/manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["sha256"]["train.jsonl"], sha256);
    assert_eq!(manifest["calibration"], Value::Null, "nothing was calibrated");
}

#[test]
fn traces_in_another_order_give_the_same_corpus_and_a_missing_one_is_named() {
    let desk = Desk::recorded();
    desk.distil(&[], &[]);
    let (first, traces) = (std::fs::read(desk.at("corpus/train.jsonl")).unwrap(), desk.at("traces.jsonl"));
    let text = std::fs::read_to_string(&traces).unwrap();
    let backwards: String = text.lines().rev().map(|line| format!("{line}\n")).collect();
    std::fs::write(&traces, backwards).unwrap();
    desk.distil(&[], &[]);
    assert!(std::fs::read(desk.at("corpus/train.jsonl")).unwrap() == first);
    let fewer: String = text.lines().skip(1).map(|line| format!("{line}\n")).collect();
    std::fs::write(&traces, fewer).unwrap();
    let (code, _, said) = desk.call(&["distill", "configs/quickstart.toml"], &[]);
    assert_eq!(code, 1);
    let id: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert!(said.contains(&format!("traces.jsonl has no trace of {}; run the debate again", id["id"])), "{said}");
}

#[test]
fn what_is_expected_is_told_before_anything_is_written() {
    let desk = Desk::recorded();
    let told = desk.distil(&CALIBRATED, &["--dry-run"]);
    insta::assert_snapshot!("dry_run", told);
    assert!(!desk.at("corpus").exists(), "nothing is written");
    let said: Value = serde_json::from_str(&desk.distil(&CALIBRATED, &["--dry-run", "--json"])).unwrap();
    let entities = &said["expected"]["entities"];
    assert!(told.contains(&format!("{} entities at", entities["items"])));
    // Calibrated on left-out documents, the probabilities are nearer to the truth than the scores were.
    let table = &said["calibration"]["entities"];
    assert!(table["after"]["ece"].as_f64() < table["before"]["ece"].as_f64(), "{table}");
    let (code, _, said) =
        desk.call(&["distill", "configs/quickstart.toml", "--dry-run"], &["filter.target_precision=0.9"]);
    assert_eq!(code, 2);
    assert!(said.contains("filter.calibration is \"none\"") || said.contains("remove the first"), "{said}");
}

#[test]
fn each_fact_of_a_document_is_explained() {
    let desk = Desk::recorded();
    let documents =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample/train.jsonl")).unwrap();
    let ids: Vec<String> = documents
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    let said =
        |id: &str| -> Value { serde_json::from_str(&desk.distil(&CALIBRATED, &["--explain", id, "--json"])).unwrap() };
    // The first document of which something is kept and something dropped.
    let id = ids.iter().find(|id| {
        let fates: Vec<String> =
            said(id)["items"].as_array().unwrap().iter().map(|item| item["fate"].to_string()).collect();
        fates.contains(&"\"kept\"".into()) && fates.contains(&"\"dropped\"".into())
    });
    let id = id.expect("one of 240");
    insta::assert_snapshot!("explained", desk.distil(&CALIBRATED, &["--explain", id]));
    for item in said(id)["items"].as_array().unwrap() {
        assert_eq!(item["reason"].is_null(), item["fate"] != "dropped", "{item}");
        assert!(item["votes"].is_u64() && item["threshold"].is_f64() && item["source"].is_string(), "{item}");
    }
    let (code, _, error) = desk.call(&["distill", "configs/quickstart.toml", "--explain", &format!("{id}x")], &[]);
    assert_eq!(code, 2);
    assert!(
        error.contains("no document has this id; the nearest are") && error.contains(&format!("\"{id}\"")),
        "{error}"
    );
}

#[test]
fn masked_items_stand_in_the_answer_and_are_marked() {
    let desk = Desk::recorded();
    let sets = ["filter.unsure_item=mask", "filter.threshold=0.8", "filter.max_dropped_share=1"];
    desk.distil(&sets, &[]);
    let lines = desk.lines();
    let marked: Vec<&Value> = lines.iter().filter(|line| line["unlearned"].is_array()).collect();
    assert!(!marked.is_empty());
    for line in &marked {
        let answer: Vec<char> =
            line["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().chars().collect();
        for range in line["unlearned"].as_array().unwrap() {
            let place = |at: usize| range[at].as_u64().unwrap() as usize;
            let part: String = answer[place(0)..place(1)].iter().collect();
            assert!(part.trim_start_matches(',').starts_with(['"', '[']) && part.ends_with(['"', ']']), "{part}");
        }
    }
    let masked: usize = marked.iter().map(|line| line["unlearned"].as_array().unwrap().len()).sum();
    desk.distil(&["filter.threshold=0.8", "filter.max_dropped_share=1"], &[]);
    assert!(desk.lines().iter().all(|line| line["unlearned"].is_null()));
    assert!(masked > 10, "{masked}");
}

#[test]
fn some_conversations_ask_for_some_labels_only_and_their_answers_keep_to_them() {
    let desk = Desk::recorded();
    desk.distil(&["filter.subset_share=0.5"], &[]);
    let lines = desk.lines();
    let some: Vec<&Value> = lines.iter().filter(|line| line["meta"]["asked"].is_array()).collect();
    assert!(some.len() * 4 > lines.len() && some.len() * 4 < 3 * lines.len(), "{} of {}", some.len(), lines.len());
    for line in some {
        let messages = line["messages"].as_array().unwrap();
        let answer: serde_json::Map<String, Value> =
            serde_json::from_str(messages[2]["content"].as_str().unwrap()).unwrap();
        let asked: Vec<&str> =
            line["meta"]["asked"].as_array().unwrap().iter().map(|label| label.as_str().unwrap()).collect();
        assert!(answer.keys().all(|label| asked.contains(&label.as_str())), "{asked:?} {answer:?}");
        assert!(asked.iter().all(|label| messages[0]["content"].as_str().unwrap().contains(label)));
        assert_ne!(line["meta"]["prompt"], json!(null));
    }
}
