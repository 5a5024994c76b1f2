//! `export` as a user calls it: a run and documents, in every format; what another tool reads is what was
//! taught.

use assert_cmd::Command;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        desk.write(
            "schema.toml",
            "[[entities]]\nlabel = \"person\"\n[[entities]]\nlabel = \"organization\"\n[[relations]]\nlabel = \
             \"works_for\"\nhead = [\"person\"]\ntail = [\"organization\"]\n",
        );
        let named = |kind: &str, text: &str, start: usize| json!({"type": kind, "text": text, "start": start, "end": start + text.len()});
        let gold = json!({"entities": [named("person", "Ann Lee", 0), named("organization", "Acme", 15)],
                          "relations": [{"type": "works_for", "head": 0, "tail": 1}], "events": []});
        let lines = [
            json!({"id": "a", "text": "Ann Lee joined Acme.", "gold": gold}),
            json!({"id": "nobody looked", "text": "Bo left."}),
            json!({"id": "b", "text": "It rained.", "gold": {"entities": [], "relations": [], "events": []}}),
        ];
        desk.write("docs.jsonl", &lines.iter().map(|line| format!("{line}\n")).collect::<String>());
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn call(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
        let done = command.args(arguments).current_dir(self.0.path()).env("COLUMNS", "100").output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
    }

    /// Exports the documents; the bytes that were written.
    fn export(&self, to: &str) -> String {
        let out = format!("{to}.jsonl");
        let (code, _, said) =
            self.call(&["export", "docs.jsonl", "--schema", "schema.toml", "--to", to, "--out", &out]);
        assert_eq!(code, 0, "{to}: {said}");
        std::fs::read_to_string(self.path(&out)).unwrap()
    }
}

fn folder(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_format_of_documents_with_gold() {
    let desk = Desk::new();
    let mut page = String::new();
    for to in [
        "messages",
        "prompt_completion",
        "alpaca",
        "sharegpt",
        "iepile",
        "gliner",
        "instructuie",
        "conll",
        "conll-bioes",
        "spert",
        "documents",
    ] {
        page += &format!("── {to} ──\n{}", desk.export(to));
    }
    insta::assert_snapshot!("formats", page);
    insta::assert_snapshot!("dataset_info", std::fs::read_to_string(desk.path("dataset_info.json")).unwrap());
}

#[test]
fn our_own_readers_read_the_same_from_what_was_exported() {
    let desk = Desk::new();
    for (to, from, relations) in [
        ("sharegpt", "universalner", 0),
        ("iepile", "iepile", 1),
        ("gliner", "gliner", 0),
        ("instructuie", "instructuie", 1),
        ("spert", "spert", 1),
    ] {
        desk.export(to);
        let (code, out, said) =
            desk.call(&["convert", "--from", from, &format!("{to}.jsonl"), "--out", "back.jsonl", "--json"]);
        assert_eq!(code, 0, "{to}: {said}");
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(report["documents"], json!(2), "{to}: {out}");
        let back = std::fs::read_to_string(desk.path("back.jsonl")).unwrap();
        let first: Value = serde_json::from_str(back.lines().next().unwrap()).unwrap();
        assert_eq!(first["gold"]["relations"].as_array().unwrap().len(), relations, "{to}: {first}");
        assert!(first["gold"]["entities"].to_string().contains("Ann Lee"), "{to}: {first}");
    }
}

#[test]
fn parquet_has_parts_of_so_many_rows_and_documents_may_be_one() {
    let desk = Desk::new();
    let call = ["export", "docs.jsonl", "--schema", "schema.toml", "--to", "parquet", "--out", "parts", "--rows", "2"];
    let (code, out, said) = desk.call(&call);
    assert_eq!((code, out.as_str()), (0, "3 records from 2 documents\nwritten: parts\n"), "{said}");
    assert_eq!(folder(&desk.path("parts")), ["part-00000.parquet", "part-00001.parquet"]);
    let (code, _, said) = desk.call(&call);
    assert!(code == 1 && said.contains("there are parts already; take another folder or --prefix"), "{said}");
    // Shards lie together under prefixes of their own.
    let (code, _, said) = desk.call(&[&call[..], &["--prefix", "second"]].concat());
    assert_eq!((code, folder(&desk.path("parts")).len()), (0, 4), "{said}");

    let (code, _, said) = desk.call(&["export", "docs.jsonl", "--to", "documents", "--out", "docs.parquet"]);
    assert_eq!(code, 0, "{said}");
    let (code, _, said) = desk.call(&["export", "docs.parquet", "--to", "documents", "--out", "again.jsonl"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(std::fs::read_to_string(desk.path("again.jsonl")).unwrap(), desk.export("documents"));
}

#[test]
fn what_cannot_be_exported_is_exit_code_2_with_the_way_out() {
    let desk = Desk::new();
    for (arguments, wanted) in [
        (&["export", "docs.jsonl", "--to", "alpaca", "--out", "a.jsonl"][..], "give the schema with --schema FILE"),
        (&["export", "docs.jsonl", "--to", "dpo", "--out", "a.jsonl"], "needs the debates of a run"),
        (&["export", "docs.jsonl", "--to", "conll", "--out", "docs.jsonl"], "is the input; it would be overwritten"),
        (&["export", "docs.jsonl", "--to", "conll", "--out", "a", "--run", "x"], "--run and --set are for a config"),
        (&["export", "docs.jsonl", "--to", "alpacca", "--out", "a"], "a similar value exists: 'alpaca'"),
    ] {
        let (code, _, said) = desk.call(arguments);
        assert!(code == 2 && said.contains(wanted), "{arguments:?}: {code} {said}");
    }
}

/// A run of four documents: one and its copy, one with an e-mail address, one whose debate changed the answer.
fn run_of_four() -> Desk {
    let desk = Desk::new();
    let texts = [
        ("a", "Ann Lee joined Acme."),
        ("copy", " Ann Lee  joined Acme. "),
        ("mail", "Write to bo@acme.example, said Bo Ek of Acme."),
        ("won", "Acme hired Washington, not the city."),
    ];
    let lines = |texts: &[(&str, &str)]| {
        texts.iter().map(|(id, text)| format!("{}\n", json!({"id": id, "text": text}))).collect::<String>()
    };
    desk.write("train.jsonl", &lines(&texts));
    for split in ["dev", "test"] {
        desk.write(
            &format!("{split}.jsonl"),
            &format!("{}\n", json!({"id": split, "text": format!("The {split} split."), "gold": {}})),
        );
    }
    let extraction = |text: &str, names: &[(&str, &str)]| {
        let entity = |(kind, name): &(&str, &str)| {
            let start = text.rfind(name).unwrap();
            json!({"type": kind, "text": name, "start": start, "end": start + name.len()})
        };
        json!({"entities": names.iter().map(entity).collect::<Vec<_>>(), "relations": [], "events": []})
    };
    let trace = |at: usize, names: &[(&str, &str)]| {
        let support = json!({"votes": 2, "voters": 2, "logprob": -0.01, "judged": false});
        json!({"id": texts[at].0, "protocol": "crossagentie", "turns": [], "conflicts": [],
               "extraction": extraction(texts[at].1, names), "entity_support": vec![support; names.len()],
               "relation_support": [], "status": "ok"})
    };
    let (acme, ann) = (("organization", "Acme"), ("person", "Ann Lee"));
    let mut won = trace(3, &[acme, ("person", "Washington")]);
    won["conflicts"] = json!([{"stage": "entities", "options": ["A: person", "B: organization"], "claimants": ["person", "organization"],
                               "outcome": "A", "settled": "consensus", "rounds": 1}]);
    won["snapshots"] = json!([{"stage": "first", "round": 0, "extraction": extraction(texts[3].1, &[acme, ("organization", "Washington")])}]);
    let traces = [trace(0, &[ann, acme]), trace(1, &[ann, acme]), trace(2, &[("person", "Bo Ek"), acme]), won];
    std::fs::create_dir_all(desk.path("out")).unwrap();
    desk.write("out/traces.jsonl", &traces.iter().map(|trace| format!("{trace}\n")).collect::<String>());
    desk.write(
        "tiny.toml",
        "title = 'Tiny'\nbase_model = 'none'\noutput_dir = 'out'\n[data]\nschema = 'schema.toml'\ntrain = 'train.jsonl'\n\
         dev = 'dev.jsonl'\ntest = 'test.jsonl'\nlicense = 'CC-BY-4.0'\n[team]\nprotocol = 'crossagentie'\nmodel = 'm'\n\
         cassette = 'none'\n",
    );
    desk
}

#[test]
fn a_copy_is_left_out_an_address_is_masked_and_both_are_told() {
    let desk = run_of_four();
    let distill = |set: &[&str]| {
        let (code, out, said) = desk.call(&[&["distill", "tiny.toml", "--json"], set].concat());
        assert_eq!(code, 0, "{said}");
        let corpus = std::fs::read_to_string(desk.path("out/corpus/train.jsonl")).unwrap();
        (serde_json::from_str::<Value>(&out).unwrap(), corpus)
    };
    let (told, corpus) = distill(&["--set", "filter.pii=mask"]);
    assert_eq!(told["documents_dropped"], json!({"copy of another document": 1}));
    assert!(
        corpus.contains("Write to xx@xxxx.xxxxxxx, said Bo Ek of Acme.") && !corpus.contains("bo@acme"),
        "{corpus}"
    );
    assert!(corpus.contains(r#"{\"person\":[\"Bo Ek\"],\"organization\":[\"Acme\"]}"#), "{corpus}");
    let readme = std::fs::read_to_string(desk.path("out/corpus/README.md")).unwrap();
    for words in
        ["e-mail address 1; masked", "Licence: CC-BY-4.0 (the documents)", "Provenance: documents of `train.jsonl`"]
    {
        assert!(readme.contains(words), "{words}: {readme}");
    }
    let (told, _) = distill(&["--set", "filter.pii=drop"]);
    assert_eq!(told["documents"], json!(2));
    let (told, corpus) = distill(&["--set", "filter.dedup_threshold=0"]);
    assert_eq!((&told["documents"], corpus.contains("bo@acme.example")), (&json!(4), true));
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(desk.path("out/corpus/manifest.json")).unwrap()).unwrap();
    assert_eq!((&manifest["license"], manifest["inputs"].as_object().unwrap().len()), (&json!("CC-BY-4.0"), 3));
}

#[test]
fn what_was_kept_is_chosen_and_what_stood_before_the_debate_is_rejected() {
    let desk = run_of_four();
    assert_eq!(desk.call(&["distill", "tiny.toml"]).0, 0);
    let export = |to: &str| {
        let (code, _, said) = desk.call(&["export", "tiny.toml", "--to", to, "--out", &format!("{to}.jsonl")]);
        assert_eq!(code, 0, "{to}: {said}");
        std::fs::read_to_string(desk.path(&format!("{to}.jsonl"))).unwrap()
    };
    let pairs: Vec<Value> = export("dpo").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = |role: &str, text: &str| json!([{"role": role, "content": text}]);
    assert_eq!(pairs.len(), 1);
    assert_eq!(pairs[0]["chosen"], said("assistant", r#"{"person":["Washington"],"organization":["Acme"]}"#));
    assert_eq!(pairs[0]["rejected"], said("assistant", r#"{"organization":["Acme","Washington"]}"#));
    assert!(pairs[0]["prompt"][1]["content"].as_str().unwrap().ends_with("Acme hired Washington, not the city."));
    let flat: Value = serde_json::from_str(export("dpo-alpaca").trim()).unwrap();
    assert_eq!(flat["rejected"], r#"{"organization":["Acme","Washington"]}"#);
    let info: Value = serde_json::from_slice(&std::fs::read(desk.path("dataset_info.json")).unwrap()).unwrap();
    assert_eq!(info["dpo-alpaca"]["ranking"], json!(true));
    assert!(info.get("dpo").is_none(), "TRL's form is not LLaMA-Factory's");
    // The corpus itself, read back from the run: the copy is not in it.
    assert_eq!(export("conll").matches("Ann\tB-person\nLee\tI-person\n").count(), 1);
}

#[test]
fn relations_that_nobody_was_asked_for_yet_are_no_worse_answer() {
    let desk = run_of_four();
    let text = "Ann Lee joined Acme.";
    let entity = |kind: &str, name: &str| {
        let start = text.find(name).unwrap();
        json!({"type": kind, "text": name, "start": start, "end": start + name.len()})
    };
    let support = json!({"votes": 2, "voters": 2, "logprob": -0.01, "judged": false});
    let found = json!([entity("person", "Ann Lee"), entity("organization", "Acme")]);
    let related = json!({"entities": found, "relations": [{"type": "works_for", "head": 0, "tail": 1}], "events": []});
    let conflict = json!({"stage": "relations", "options": ["A: works_for", "B: none"], "claimants": ["works_for"],
                          "outcome": "A", "settled": "consensus", "rounds": 1});
    // The first record of this protocol is made of entities, before anybody is asked for relations.
    let trace = json!({"id": "a", "protocol": "crossagentie", "turns": [], "conflicts": [conflict],
                       "snapshots": [{"stage": "first", "round": 0, "extraction": {"entities": found}}],
                       "extraction": related, "entity_support": [support, support], "relation_support": [support], "status": "ok"});
    let traces = std::fs::read_to_string(desk.path("out/traces.jsonl")).unwrap();
    let others: Vec<&str> = traces.lines().skip(1).collect();
    desk.write("out/traces.jsonl", &format!("{trace}\n{}\n", others.join("\n")));
    let (code, _, said) = desk.call(&["distill", "tiny.toml", "--set", "filter.relation_threshold=0"]);
    assert_eq!(code, 0, "{said}");
    let corpus = std::fs::read_to_string(desk.path("out/corpus/train.jsonl")).unwrap();
    assert!(corpus.contains(r#"{\"works_for\":[[\"Ann Lee\",\"Acme\"]]}"#), "{corpus}");
    let (code, _, said) = desk.call(&["export", "tiny.toml", "--to", "dpo", "--out", "dpo.jsonl"]);
    assert_eq!(code, 0, "{said}");
    let pairs = std::fs::read_to_string(desk.path("dpo.jsonl")).unwrap();
    assert!(!pairs.contains("works_for") && pairs.lines().count() == 1, "{pairs}");
}
