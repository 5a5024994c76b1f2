//! The program as a user calls it: help screens, exit codes, and the arrow from a recorded debate
//! to a corpus.

use assert_cmd::Command;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use understudy::cli::session;
use understudy::config::Plan;
use understudy::ie::Document;
use understudy::store::{AnswerStore, CassetteHeader, StoredAnswer, StoredRequest, read_documents};
use understudy::team::{Client, Protocol, Team};

const VERBS: [&str; 19] = [
    "run",
    "convert",
    "debate",
    "trace",
    "distill",
    "export",
    "train",
    "extract",
    "answer",
    "answers",
    "tokens",
    "score",
    "compare",
    "report",
    "merge",
    "model",
    "doctor",
    "schema",
    "completions",
];

const SCHEMA: &str = r#"
[[entities]]
label = "person"
[[entities]]
label = "organization"
[[entities]]
label = "location"
[[relations]]
label = "works_for"
head = ["person"]
tail = ["organization"]
"#;

/// A folder with an experiment of two training documents, and a third that no agent can read.
struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        let ann = json!({"entities": [{"type": "person", "text": "Ann", "start": 0, "end": 3}]});
        desk.lines(
            "train.jsonl",
            &[
                json!({"id": "d1", "text": "Ann Lee joined Acme in Bern."}),
                json!({"id": "d2", "text": "Washington was calm when Bo left."}),
            ],
        );
        desk.lines("junk.jsonl", &[json!({"id": "d3", "text": "Nobody reads this."})]);
        desk.lines("dev.jsonl", &[json!({"id": "v1", "text": "Ann slept.", "gold": ann})]);
        desk.lines("test.jsonl", &[json!({"id": "t1", "text": "Ann swam.", "gold": ann})]);
        desk.write("schema.toml", SCHEMA);
        let at = |name: &str| format!("'{}'", desk.path(name).display());
        let config = format!(
            "title = 'Tiny'\nbase_model = 'none'\noutput_dir = {}\n\
             [data]\nschema = {}\ntrain = {}\ndev = {}\ntest = {}\n\
             [team]\nprotocol = 'crossagentie'\nmodel = 'm'\nreask = false\ncassette = {}\n",
            at("out"),
            at("schema.toml"),
            at("train.jsonl"),
            at("dev.jsonl"),
            at("test.jsonl"),
            at("cassette.jsonl.zst")
        );
        desk.write("tiny.toml", &config);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn lines(&self, name: &str, lines: &[Value]) {
        self.write(name, &lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs the program; exit code, stdout, stderr.
    fn call(&self, arguments: &[&str]) -> (i32, String, String) {
        call_in(self.0.path(), arguments)
    }

    /// Records what the team is asked about all three documents, with the answers of [`answer`].
    fn record(&self) {
        let plan = Plan::read(&self.path("tiny.toml"), &[]).unwrap();
        let mut documents: Vec<Document> = read_documents(&self.path("train.jsonl")).unwrap();
        documents.extend(read_documents(&self.path("junk.jsonl")).unwrap());
        let client = Client::replay(AnswerStore::new());
        let requests = loop {
            let sampling = session::sampling(&plan);
            let team = Team::new(Protocol::Crossagentie, plan.schema().clone(), &client, sampling)
                .working(session::working(&plan))
                .recording();
            team.debate(&documents);
            let requests = team.requests();
            let open: Vec<&StoredRequest> =
                requests.iter().filter(|request| client.store().get(request).is_none()).collect();
            if open.is_empty() {
                break requests;
            }
            for request in open {
                client.store().put(request, &answer(request)).unwrap();
            }
        };
        let header = CassetteHeader { cassette: 1, model: "m".into(), ..CassetteHeader::default() };
        client.store().write_cassette(&self.path("cassette.jsonl.zst"), &header, &requests).unwrap();
    }
}

fn call_in(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    let done = command.args(arguments).current_dir(folder).env("COLUMNS", "100").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

/// What the played team says; about the third document nobody says anything that can be read.
fn answer(request: &StoredRequest) -> StoredAnswer {
    let (system, question) = (&request.messages[0].content, &request.messages[1].content);
    let agent = system.strip_prefix("You are the ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let (first, second) = (question.contains("Ann Lee"), question.contains("Washington"));
    let content = match agent {
        _ if system.contains("disagrees about") => {
            let option = question.lines().find(|line| line.ends_with("is a location")).unwrap();
            format!(r#"{{"choice":"{}","confidence":0.9,"reason":"it was calm"}}"#, &option[..1])
        }
        _ if question.contains("Nobody") => "I would rather talk about the weather today.".into(),
        "person" if first => r#"{"person":["Ann Lee"]}"#.into(),
        "person" if second => r#"{"person":["Washington","Bo"]}"#.into(),
        "organization" if first => r#"{"organization":["Acme"]}"#.into(),
        "location" if first => r#"{"location":["Bern"]}"#.into(),
        "location" if second => r#"{"location":["Washington"]}"#.into(),
        _ if system.contains("works_for") => r#"{"works_for":[["Ann Lee","Acme"]]}"#.into(),
        _ => "{}".into(),
    };
    StoredAnswer {
        content,
        finish: "stop".into(),
        refusal: None,
        tokens: None,
        prompt_tokens: Some(20),
        completion_tokens: Some(5),
        seconds: 0.1,
        attempts: 1,
    }
}

/// A help screen before and after the flags that every verb takes, and these.
fn parts(help: &str) -> (String, String) {
    let (own, rest) = help.split_once("Common flags:\n").unwrap();
    let (common, after) = rest.split_at(rest.find("\nExample").unwrap_or(rest.len()));
    (format!("{}\n{after}", own.trim_end()).trim_end().to_string() + "\n", common.trim_end().to_string())
}

#[test]
fn every_verb_has_a_help_screen() {
    let home = tempfile::tempdir().unwrap();
    let (code, top, _) = call_in(home.path(), &["--help"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!("help", top);
    let listed = top.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  ").map(|(verb, _)| verb));
    assert_eq!(listed.take(VERBS.len()).collect::<Vec<_>>(), VERBS, "the order of the arrow");
    let common = parts(&top).1;
    for flag in ["--json", "--progress", "--seed", "--threads", "--device", "--offline", "--verbose"] {
        assert!(common.contains(flag), "{flag} is no common flag");
    }
    for verb in VERBS {
        let (code, help, _) = call_in(home.path(), &[verb, "--help"]);
        assert_eq!(code, 0);
        let (own, theirs) = parts(&help);
        assert_eq!(theirs.split_whitespace().collect::<String>(), common.split_whitespace().collect::<String>());
        insta::assert_snapshot!(format!("help_{verb}"), own);
    }
}

#[test]
fn a_wrong_command_line_is_exit_code_2_with_the_way_out() {
    let desk = Desk::new();
    let (code, _, said) = desk.call(&["debat", "tiny.toml"]);
    assert_eq!(code, 2);
    assert!(said.contains("unrecognized subcommand 'debat'") && said.contains("'debate'"), "{said}");
    let (code, _, said) = desk.call(&["debate", "tiny.toml", "--set", "train.lerning_rate=1e-4"]);
    assert_eq!(code, 2);
    assert!(said.contains("unknown field `lerning_rate`") && said.contains("did you mean `learning_rate`?"), "{said}");
    let (code, _, said) = desk.call(&["debate", "tiny.toml", "--set", "team.protocol=crossagent"]);
    assert_eq!(code, 2);
    assert!(said.contains("did you mean crossagentie?"), "{said}");
    let (code, _, said) = desk.call(&["debate", "tiny.toml", "--shard", "5/4"]);
    assert_eq!((code, said.contains("expected I/N with I from 1 to N")), (2, true), "{said}");
    let (code, _, said) = desk.call(&["debate", "absent.toml"]);
    assert_eq!((code, said.contains("absent.toml")), (2, true), "a config that cannot be read: {said}");
}

#[test]
fn a_missing_file_is_exit_code_1_and_named() {
    let desk = Desk::new();
    let (code, _, said) = desk.call(&["debate", "tiny.toml"]);
    assert_eq!(code, 1);
    assert!(said.contains("reading team.cassette") && said.contains("cassette.jsonl.zst"), "{said}");
    desk.record();
    let (code, _, said) = desk.call(&["debate", "tiny.toml", "--data", "absent.jsonl"]);
    assert_eq!((code, said.contains("absent.jsonl")), (1, true), "{said}");
    let (code, _, said) = desk.call(&["distill", "tiny.toml"]);
    assert_eq!(code, 1);
    assert!(said.contains("the debate has to run first"), "{said}");
}

#[test]
fn a_training_text_that_is_measured_is_refused_before_any_work() {
    // Case C21: the same words with other spaces are the same text.
    let desk = Desk::new();
    desk.lines("test.jsonl", &[json!({"id": "t1", "text": " Ann Lee joined  Acme in Bern. ", "gold": {}})]);
    let (code, out, said) = desk.call(&["run", "tiny.toml"]);
    assert_eq!((code, out.as_str()), (4, ""));
    assert!(said.contains("E301") && said.contains("\"d1\"") && said.contains("\"t1\""), "{said}");
    assert!(!desk.path("out").exists());
}

#[test]
fn a_measured_document_without_gold_is_refused() {
    let desk = Desk::new();
    desk.lines("dev.jsonl", &[json!({"id": "v1", "text": "Ann slept."})]);
    let (code, _, said) = desk.call(&["run", "tiny.toml"]);
    assert_eq!(code, 4);
    assert!(said.contains("E303") && said.contains("\"v1\""), "{said}");
}

#[test]
fn a_dry_run_prints_the_calls_and_runs_nothing() {
    let desk = Desk::new();
    let (code, out, said) = desk.call(&["run", "tiny.toml", "--dry-run", "--set", "eval.systems=[\"base\",\"aeio\"]"]);
    assert_eq!((code, said.as_str()), (0, ""));
    // Three entity types times two documents; then the all-in-one prompts of one test document.
    assert!(out.contains("2. team crossagentie (m), 2 training documents: 6 calls or more"), "{out}");
    assert!(out.contains("6. base over 1 test documents: no calls"), "{out}");
    assert!(out.contains("6. aeio over 1 test documents: 1 to 2 calls"), "{out}");
    assert!(out.contains("replay of"), "{out}");
    assert!(!desk.path("out").exists());
}

#[test]
fn a_recorded_debate_is_distilled_to_the_same_bytes_every_time() {
    let desk = Desk::new();
    desk.record();
    let (code, out, said) = desk.call(&["debate", "tiny.toml"]);
    assert_eq!(code, 0, "{said}");
    assert!(out.contains("2 documents: 2 with findings, 0 empty, 0 failed, 0 refused"), "{out}");
    assert!(out.contains("1 conflicts: 1 settled by consensus (1 in one round)"), "{out}");
    let traces = desk.read("out/traces.jsonl");
    assert_eq!(desk.call(&["debate", "tiny.toml"]).0, 0);
    assert_eq!(desk.read("out/traces.jsonl"), traces);

    let files = ["train.jsonl", "valid.jsonl", "dataset_info.json", "README.md", "manifest.json"];
    let corpus = || files.map(|file| desk.read(&format!("out/corpus/{file}")));
    let (code, out, said) = desk.call(&["distill", "tiny.toml", "--json", "--progress", "none"]);
    assert_eq!((code, said.as_str()), (0, ""));
    let told: Value = serde_json::from_str(&out).unwrap();
    // Two conversations about entities; relations are asked of the first document alone.
    assert_eq!((&told["lines"], &told["documents"]), (&json!(3), &json!(2)));
    assert_eq!(told["per_type"], json!({"person": 2, "organization": 1, "location": 2, "works_for": 1}));
    let first = corpus();
    assert_eq!(desk.call(&["distill", "tiny.toml"]).0, 0);
    assert_eq!(corpus(), first);

    let lines: Vec<Value> = first[0].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answers: Vec<&str> = lines.iter().map(|line| line["messages"][2]["content"].as_str().unwrap()).collect();
    assert_eq!(
        answers,
        [
            r#"{"person":["Ann Lee"],"organization":["Acme"],"location":["Bern"]}"#,
            r#"{"works_for":[["Ann Lee","Acme"]]}"#,
            r#"{"person":["Bo"],"location":["Washington"]}"#
        ]
    );
    assert_eq!(lines[2]["meta"]["votes"], json!([[2, 2], [1, 1]]));
    assert_eq!(first[1].lines().count(), 1, "the gold of the dev split, which has one document");
}

#[test]
fn failed_documents_above_the_limit_are_exit_code_3() {
    let desk = Desk::new();
    desk.record();
    let call = |most: &str| {
        desk.call(&[
            "debate",
            "tiny.toml",
            "--data",
            "junk.jsonl",
            "--traces",
            "junk-traces.jsonl",
            "--max-failures",
            most,
            "--json",
        ])
    };
    let (code, out, _) = call("0");
    assert_eq!(code, 3);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&told["failed"], &told["failed_turns"], &told["empty"]), (&json!(1), &json!(3), &json!(0)));
    assert_eq!(call("1").0, 0);
}

#[test]
fn a_request_that_was_not_recorded_is_an_error_with_the_way_out() {
    let desk = Desk::new();
    desk.record();
    let (code, _, said) = desk.call(&["debate", "tiny.toml", "--seed", "7"]);
    assert_eq!(code, 1);
    assert!(said.contains("6 of 6 requests of crossagentie are not in the cassette"), "{said}");
    assert!(said.contains("--set team.base_url=URL"), "{said}");
    assert!(!desk.path("out/traces.jsonl").exists());
}

#[test]
fn offline_forbids_a_server_that_is_not_on_this_machine() {
    let desk = Desk::new();
    desk.record();
    let url = "team.base_url=https://api.example.com/v1";
    let (code, _, said) = desk.call(&["debate", "tiny.toml", "--offline", "--set", url]);
    assert_eq!((code, said.contains("--offline forbids")), (2, true), "{said}");
}
