//! `compare` as a user calls it, beneath its table of scores: tests, seeds, prices, errors, what
//! training did not show.

use serde_json::{Value, json};
use tempfile::TempDir;

const TEXT: &str = "Ann met Bo in Rome";

struct Desk(TempDir);

impl Desk {
    /// Forty documents of two names and a place, a team and students that find some of them.
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        let gold = |at: usize| json!({"id": format!("d{at}"), "text": TEXT, "gold": read(&["PER 0 3", "PER 8 10", "LOC 14 18"])});
        desk.lines("gold.jsonl", (0..40).map(gold).collect());
        // The team loses Bo in every fourth document; students take Rome for an organisation in
        // every fifth or sixth.
        desk.system(
            "team",
            |at| if at % 4 == 0 { vec!["PER 0 3", "LOC 14 18"] } else { vec!["PER 0 3", "PER 8 10", "LOC 14 18"] },
            12,
            9.0,
        );
        for (name, every) in [("student@1", 5), ("student@2", 6)] {
            let found = move |at: usize| {
                vec!["PER 0 3", "PER 8 10", if at.is_multiple_of(every) { "ORG 14 18" } else { "LOC 14 18" }]
            };
            desk.system(name, found, 1, 0.5);
        }
        desk
    }

    fn system(&self, name: &str, found: impl Fn(usize) -> Vec<&'static str>, calls: u64, seconds: f64) {
        let line = |at: usize| {
            json!({"id": format!("d{at}"), "status": "ok", "extraction": read(&found(at)),
                "cost": {"calls": calls, "prompt_tokens": 100 * calls, "completion_tokens": 10 * calls, "seconds": seconds}})
        };
        self.lines(&format!("{name}.jsonl"), (0..40).map(line).collect());
    }

    fn lines(&self, name: &str, lines: Vec<Value>) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn call(&self, more: &[&str]) -> (i32, String, String) {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_understudy"));
        let fixed = [
            "compare",
            "--gold",
            "gold.jsonl",
            "team.jsonl",
            "student@1.jsonl",
            "student@2.jsonl",
            "--replicates",
            "200",
        ];
        let done = command.args(fixed).args(more).current_dir(self.0.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
    }

    fn json(&self, more: &[&str]) -> Value {
        let (code, out, said) = self.call(&[more, &["--json"]].concat());
        assert_eq!((code, said.as_str()), (0, ""));
        serde_json::from_str(&out).unwrap()
    }
}

/// `LABEL start end` of each entity.
fn read(of: &[&str]) -> Value {
    let entity = |one: &&str| {
        let [label, start, end] = one.split(' ').collect::<Vec<_>>()[..] else { panic!("{one}") };
        let [start, end] = [start, end].map(|at| at.parse::<usize>().unwrap());
        json!({"type": label, "text": &TEXT[start..end], "start": start, "end": end})
    };
    json!({"entities": of.iter().map(entity).collect::<Vec<_>>()})
}

#[test]
fn the_whole_text_says_what_the_sample_can_and_cannot_decide() {
    let (code, out, said) = Desk::new().call(&["--price", "team=1,2", "--price", "student@1=0,0,0.36", "--once", "2"]);
    assert_eq!((code, said.as_str()), (0, ""));
    insta::assert_snapshot!(out);
}

#[test]
fn json_keeps_its_keys_and_adds_tests_seeds_economics_and_analysis() {
    let found = Desk::new().json(&[]);
    let keys: Vec<&str> = found.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "documents",
        "reference",
        "resampling",
        "delta",
        "systems",
        "seeds",
        "economics",
        "analysis",
        "spread",
        "cautions",
    ];
    assert_eq!(keys, expected);
    for key in [
        "name",
        "scores",
        "entities_interval",
        "entities_difference",
        "relations_difference",
        "calls",
        "prompt_tokens",
        "seconds_mean",
        "seconds_p50",
        "seconds_p95",
        "seconds_p99",
    ] {
        assert!(found["systems"][1].get(key).is_some(), "{key}");
    }
    let tests = found["systems"][1]["tests"].as_array().unwrap();
    let labels: Vec<&Value> = tests.iter().map(|test| &test["label"]).collect();
    // The team never says ORG, and none is there: nothing to compare.
    assert_eq!(labels, [&Value::Null, &json!("LOC"), &json!("PER")]);
    let first = &tests[0];
    assert!(first["p_holm"].as_f64() >= first["p"].as_f64() && first["p"].as_f64().unwrap() > 0.05, "{first}");
    assert_eq!(first["non_inferiority"], json!("undecided"));
    assert!(found["cautions"][0].as_str().unwrap().starts_with("40 documents are too few to say"), "{found}");
}

#[test]
fn seeds_are_one_system_and_errors_are_told_by_kind() {
    let found = Desk::new().json(&[]);
    let seeds = &found["seeds"][0];
    // 112 and 113 of 120 right with as many wrong: F1 0.9333 and 0.9417, mean 0.9375, by hand.
    assert_eq!((&seeds["name"], &seeds["measure"]), (&json!("student"), &json!("entities")));
    assert!((seeds["mean"].as_f64().unwrap() - 0.9375).abs() < 1e-9, "{seeds}");
    let errors = |at: usize| &found["analysis"]["systems"][at]["errors"];
    assert_eq!((&errors(0)["missing"], &errors(0)["wrong_type"]), (&json!(10), &json!(0)));
    assert_eq!((&errors(1)["missing"], &errors(1)["wrong_type"]), (&json!(0), &json!(8)));
    let transition = &found["analysis"]["transitions"][0];
    assert_eq!(transition["fixed"], json!({"missing": 10}));
    assert_eq!(transition["lost"], json!({"wrong_type": 8}));
    // Documents 0 and 20 are wrong for both.
    assert_eq!(found["analysis"]["hardest"][0]["id"], json!("d0"));
    assert_eq!(found["analysis"]["hardest"][1]["id"], json!("d20"));
}

#[test]
fn a_wider_delta_shows_what_a_narrow_one_leaves_open() {
    let desk = Desk::new();
    let shown = |delta: &str| desk.json(&["--delta", delta])["systems"][1]["tests"][0]["non_inferiority"].clone();
    assert_eq!((shown("2"), shown("15")), (json!("undecided"), json!("shown")));
    for bad in ["-1", "101", "NaN"] {
        let (code, _, said) = desk.call(&[&format!("--delta={bad}")]);
        assert_eq!(code, 2);
        assert!(said.contains("expected points of F1, 0 to 100"), "{said}");
    }
}

#[test]
fn prices_give_a_break_even_and_broken_ones_are_refused() {
    let desk = Desk::new();
    let found = desk.json(&["--price", "team=1,2", "--price", "student@1=0,0,0.36", "--once", "2"]);
    let economics = &found["economics"];
    // Team: 1200 read at 1 and 120 written at 2 a million = 0.00144 a document; student: half a
    // second of 0.36 an hour = 0.00005; 2 / 0.00139 = 1438.8, rounded up.
    assert_eq!((&economics["student"], &economics["break_even"]), (&json!("student@1"), &json!(1439)));
    assert!((economics["systems"][1]["latency_ratio"].as_f64().unwrap() - 0.5 / 9.0).abs() < 1e-9);
    // The second student has no price, so that the frontier is over tokens.
    assert_eq!(
        (&economics["frontier_unit"], &economics["frontier"]),
        (&json!("tokens"), &json!(["student@2", "team"]))
    );
    for (bad, expected) in [
        ("team=1", "expected NAME=READ,WRITTEN"),
        ("team=1,-2", "expected NAME=READ,WRITTEN"),
        ("team=1,2,3,4", "expected NAME=READ,WRITTEN"),
        ("judge=1,2", "names none of the systems; known: team, student@1, student@2"),
    ] {
        let (code, _, said) = desk.call(&["--price", bad]);
        assert_eq!(code, 2, "{bad}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn training_documents_set_apart_what_they_did_not_show() {
    let desk = Desk::new();
    let other = json!({"id": "t", "text": "In Rome it rained all day long and nobody came", "gold": {"entities": [{"type": "LOC", "text": "Rome", "start": 3, "end": 7}]}});
    desk.lines("train.jsonl", vec![other]);
    let found = desk.json(&["--train", "train.jsonl"]);
    let subsets = found["analysis"]["subsets"].as_array().unwrap();
    let gold: Vec<(&str, u64)> =
        subsets.iter().map(|one| (one["name"].as_str().unwrap(), one["gold"].as_u64().unwrap())).collect();
    assert_eq!(gold, [("names that training did not show", 80), ("names that training showed", 40)]);
    // Names: the team loses ten of eighty, the students none.
    assert_eq!(subsets[0]["systems"][0]["entities"]["fn"], json!(10));
    assert_eq!(subsets[0]["systems"][1]["entities"]["f1"], json!(1.0));
}

#[test]
fn the_same_call_gives_the_same_bytes_on_any_number_of_threads() {
    let desk = Desk::new();
    let of = |threads: &str| desk.call(&["--json", "--threads", threads]).1;
    assert_eq!(of("1"), of("4"));
}
