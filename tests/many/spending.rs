//! Calls and money: what is needed is told before, and a limit ends a call that goes on later.

use crate::desk::{Asked, Desk};
use crate::stub::{Reply, Stub, completion, nobody, says};
use serde_json::json;

const DOCUMENTS: usize = 20;
const TYPES: usize = 2;

fn team() -> Stub {
    Stub::new(|_, heard| Reply::Send(200, String::new(), Asked::of(heard).answer(TYPES)))
}

fn debate(desk: &Desk, url: &str, more: &[&str]) -> (i32, String, String) {
    let set = format!("team.base_url={url}");
    let mut arguments = vec!["debate", "many.toml", "--set", &set];
    arguments.extend(more);
    desk.call(&arguments)
}

const PRICED: [&str; 4] = ["--set", "team.price.prompt=1.0", "--set", "team.price.completion=10.0"];

#[test]
fn a_limit_of_calls_ends_the_call_and_the_next_goes_on() {
    let (desk, stub) = (Desk::new(DOCUMENTS, TYPES), team());
    for (calls, code) in [(15, 1), (30, 1), (40, 0)] {
        let (ended, _, said) = debate(&desk, &stub.base_url, &["--max-calls", "15", "--set", "team.in_flight=4"]);
        assert_eq!((ended, stub.count()), (code, calls), "{said}");
        assert_eq!(desk.answered("out/answers.sqlite").len(), calls);
        if code == 1 {
            assert!(
                said.contains("stopped at --max-calls 15. This call: 15 requests, 600 tokens read, 135 written."),
                "{said}"
            );
            assert!(
                said.contains(&format!("{calls} answers are stored; the same command goes on from there")),
                "{said}"
            );
            assert!(!desk.path("out/traces.jsonl").exists(), "half a debate is no debate");
        }
    }
    let (whole, other) = (desk.traces("out/traces.jsonl"), Desk::new(DOCUMENTS, TYPES));
    assert_eq!(debate(&other, &stub.base_url, &[]).0, 0);
    assert_eq!(other.traces("out/traces.jsonl"), whole);
}

#[test]
fn a_limit_of_money_is_never_exceeded() {
    let (desk, stub) = (Desk::new(DOCUMENTS, TYPES), team());
    // Each answer: 40 tokens at 1 and 9 at 10 a million; a request is admitted if it fits with the
    // 50 tokens that its answer may have.
    let limit = 0.004;
    let arguments = [&PRICED[..], &["--max-cost", "0.004", "--set", "team.in_flight=2"]].concat();
    let (code, _, said) = debate(&desk, &stub.base_url, &arguments);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("stopped at --max-cost 0.004: the next request could exceed it"), "{said}");
    let spent = stub.count() as f64 * (40.0 * 1.0 + 9.0 * 10.0) / 1e6;
    assert!(spent <= limit && stub.count() > 5, "{} calls, {spent}", stub.count());
    assert!(said.contains(&format!("cost {spent:.4}")), "{said}");
    assert_eq!(debate(&desk, &stub.base_url, &PRICED).0, 0);
    assert_eq!(stub.count(), DOCUMENTS * TYPES);
}

#[test]
fn a_limit_of_money_needs_prices_and_prices_are_numbers() {
    let desk = Desk::new(2, TYPES);
    let (code, _, said) = debate(&desk, &nobody(), &["--max-cost", "1"]);
    assert_eq!((code, said.contains("--max-cost needs prices")), (2, true), "{said}");
    for (set, says) in [
        ("team.price.prompt=-1.0", "team.price.prompt is -1; expected 0 or more"),
        ("team.price.promt=1.0", "did you mean `prompt`?"),
    ] {
        let (code, _, said) = debate(&desk, &nobody(), &["--set", set, "--set", "team.price.completion=1.0"]);
        assert_eq!((code, said.contains(says)), (2, true), "{said}");
    }
    let (code, _, said) = debate(&desk, &nobody(), &[&PRICED[..], &["--max-cost=-1"]].concat());
    assert_eq!((code, said.contains("--max-cost -1: expected 0 or more")), (2, true), "{said}");
}

#[test]
fn a_dry_run_counts_what_is_missing_and_asks_nothing() {
    let (desk, stub) = (Desk::new(DOCUMENTS, TYPES), team());
    let dry = |more: &[&str]| debate(&desk, &stub.base_url, &[&["--dry-run"][..], more].concat());
    let (code, out, said) = dry(&[]);
    assert_eq!((code, said.as_str(), stub.count(), desk.path("out").exists()), (0, "", 0, false));
    assert!(out.starts_with("type_agents over 20 documents: 40 calls to ask now (0 answers are stored)"), "{out}");
    assert!(out.contains("at most 2000 to write") && out.contains("cost: unknown; [team.price]"), "{out}");
    assert_eq!(debate(&desk, &stub.base_url, &["--max-calls", "10"]).0, 1);
    let (_, out, _) = dry(&PRICED);
    // 40 tokens read and 9 written for each of thirty, as the ten before; 50 is the most.
    assert!(out.contains("30 calls to ask now (10 answers are stored)"), "{out}");
    assert!(out.contains("about 270 and at most 1500 to write"), "{out}");
    let told: serde_json::Value = serde_json::from_str(&dry(&[&PRICED[..], &["--json"]].concat()).1).unwrap();
    assert_eq!((&told["calls"], &told["completion_tokens"]), (&30.into(), &270.0.into()), "{told}");
    assert_eq!(debate(&desk, &stub.base_url, &[]).0, 0);
    assert!(dry(&[]).1.contains("nothing to ask: 40 answers are stored"));
    assert_eq!(stub.count(), 40);
}

#[test]
fn progress_tells_calls_tokens_and_money() {
    let (desk, stub) = (Desk::new(DOCUMENTS, TYPES), team());
    let (_, _, said) = debate(&desk, &stub.base_url, &PRICED);
    assert!(said.contains("  type_agents documents: 20/20, 40 calls, 1960 tokens, cost 0.0052\n"), "{said}");
    let (_, _, said) = debate(&desk, &stub.base_url, &[&PRICED[..], &["--progress", "json"]].concat());
    assert!(said.contains(r#"{"what":"type_agents documents","done":20,"all":20}"#), "replayed: {said}");
}

#[test]
fn a_key_from_a_file_is_sent_and_stands_nowhere() {
    let key = "sk-f1le-0123456789";
    let desk = Desk::new(3, TYPES);
    let stub = Stub::new(move |at, heard| {
        assert!(heard.head.contains(&format!("Bearer {key}")), "{}", heard.head);
        match at {
            0 => Reply::Send(500, String::new(), format!("who is {key}?")),
            1 => says(&format!("{{\"kind_00\":[\"{key}\"]}}")),
            _ => Reply::Send(200, String::new(), Asked::of(heard).answer(TYPES)),
        }
    });
    desk.write("key.txt", &format!("{key}\n"));
    let arguments = ["--set", "team.api_key_file=key.txt", "--cassette-out", "mine.jsonl", "-v", "--progress", "json"];
    let (code, out, said) = debate(&desk, &stub.base_url, &arguments);
    assert_eq!(code, 0, "{said}");
    let mut files = vec![out, said, desk.read("mine.jsonl")];
    let bytes = std::fs::read(desk.path("out/answers.sqlite")).unwrap();
    assert!(!bytes.windows(key.len()).any(|part| part == key.as_bytes()));
    files.extend([desk.exported("out/answers.sqlite"), desk.read("out/traces.jsonl")]);
    assert!(files.iter().all(|text| !text.contains(key)));
    assert!(files[3].contains("[key]"), "what was said stays, without the key");
    // An environment variable of another name, too; and a key that is no line of text is refused.
    for (content, says) in [("", "is empty"), ("two lines\nof text", "expected one line")] {
        desk.write("key.txt", content);
        let (code, _, said) = debate(&desk, &stub.base_url, &arguments);
        assert_eq!((code, said.contains(says), said.contains("of text")), (2, true, false), "{said}");
    }
}

#[test]
fn addresses_are_one_or_several_and_hold_no_secret() {
    let desk = Desk::new(2, TYPES);
    let refused = |sets: &[&str], says: &str| {
        let mut arguments = vec!["debate", "many.toml", "--dry-run"];
        sets.iter().for_each(|set| arguments.extend(["--set", set]));
        let (code, _, said) = desk.call(&arguments);
        assert_eq!((code, said.contains(says)), (2, true), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    };
    refused(&["team.base_url=http://a/v1", "team.base_urls=[\"http://b/v1\"]"], "both given; keep one of the two");
    refused(&["team.base_urls=[\"http://a/v1\", \"http://a/v1/\"]"], "team.base_urls[1] is team.base_urls[0] again");
    refused(&["team.base_urls=[\"http://a/v1\", \"b\"]"], "team.base_urls[1] is \"b\"; expected an address");
    refused(&["team.base_url=http://me:hunter2@a/v1"], "holds a user name or password");
    refused(
        &["team.base_url=http://a/v1", "team.constrained_output=yes"],
        "team.constrained_output is \"yes\"; expected none, auto",
    );
}

#[test]
fn a_server_that_cannot_hold_answers_to_a_schema_is_refused_before_it_is_asked() {
    let desk = Desk::new(3, TYPES);
    let plain = team_that_is_probed(false);
    let (code, _, said) = debate(&desk, &plain.base_url, &["--set", "team.constrained_output=auto"]);
    assert_eq!(code, 4);
    assert!(said.contains("E401") && said.contains("set team.constrained_output = \"none\""), "{said}");
    let able = team_that_is_probed(true);
    for calls in [1 + 3 * TYPES, 1 + 3 * TYPES] {
        // The second time what was seen is noted, and all answers are stored.
        let (code, _, said) = debate(&desk, &able.base_url, &["--set", "team.constrained_output=auto"]);
        assert_eq!((code, able.count()), (0, calls), "{said}");
    }
    assert!(desk.exported("out/answers.sqlite").contains("\"additionalProperties\":false"));
}

#[test]
fn a_server_without_log_probabilities_is_refused_where_they_are_asked_for() {
    let desk = Desk::new(3, TYPES);
    let answering = |able: bool| {
        Stub::new(move |_, heard| {
            let asks = heard.body.contains("\"logprobs\":true");
            if !heard.body.contains("You are the kind_") {
                let mut body: serde_json::Value = serde_json::from_str(&completion("yes")).unwrap();
                if able && asks {
                    body["choices"][0]["logprobs"] = json!({"content": [{"token": "yes", "logprob": -0.1}]});
                }
                return Reply::Send(200, String::new(), body.to_string());
            }
            Reply::Send(200, String::new(), Asked::of(heard).answer(TYPES))
        })
    };
    let plain = answering(false);
    let (code, _, said) = debate(&desk, &plain.base_url, &["--set", "team.logprobs=true"]);
    assert_eq!(code, 4);
    assert!(said.contains("E402") && said.contains("set team.logprobs = false to go by votes alone"), "{said}");
    assert_eq!(plain.count(), 2, "with and without: no agent was asked");
    let able = answering(true);
    for calls in [1 + 3 * TYPES, 1 + 3 * TYPES] {
        let (code, _, said) = debate(&desk, &able.base_url, &["--set", "team.logprobs=true"]);
        assert_eq!((code, able.count()), (0, calls), "{said}");
    }
}

#[test]
fn doctor_looks_at_every_server_and_at_the_schema_that_is_asked_for() {
    let (desk, able) = (Desk::new(2, TYPES), team_that_is_probed(true));
    let urls = format!("team.base_urls=[\"{}\", \"{}\"]", able.base_url, nobody());
    let set = ["--json", "--set", &urls, "--set", "team.constrained_output=auto"];
    let (code, out, said) = desk.call(&[&["doctor", "many.toml"][..], &set].concat());
    assert_eq!(code, 4, "{said}");
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    let rows = |what: &str, state: &str, found: &str| {
        let fits = |row: &&serde_json::Value| {
            row["what"] == what && row["state"] == state && row["found"].as_str().unwrap().starts_with(found)
        };
        told["checks"].as_array().unwrap().iter().filter(fits).count()
    };
    assert_eq!(rows("server", "ok", &format!("{}: answers as m", able.base_url)), 1, "{out}");
    assert_eq!(rows("constrained", "ok", &format!("{}: by response_format", able.base_url)), 1, "{out}");
    assert_eq!(rows("server", "missing", &format!("{}: ", nobody())), 1, "{out}");
}

/// Answers in prose where a schema is asked for that nobody would keep to by chance; or keeps it.
fn team_that_is_probed(able: bool) -> Stub {
    Stub::new(move |_, heard| match heard.body.contains("Say hello") {
        true if able => says(r#"{"understudy_city":"Bern"}"#),
        true => says("Hello."),
        false if !heard.body.contains("You are the kind_") => says("yes"),
        false => {
            assert!(heard.body.contains("response_format"), "{}", heard.body);
            Reply::Send(200, String::new(), Asked::of(heard).answer(TYPES))
        }
    })
}
