//! One corpus in parts: each by a process of its own, together what one process alone would give.

use crate::desk::{Asked, Desk};
use crate::stub::{Reply, Stub};
use std::collections::BTreeSet;

const DOCUMENTS: usize = 40;
const TYPES: usize = 3;

fn team() -> Stub {
    Stub::new(|_, heard| Reply::Send(200, String::new(), Asked::of(heard).answer(TYPES)))
}

fn debate(desk: &Desk, url: &str, more: &[&str]) -> (i32, String, String) {
    let set = format!("team.base_url={url}");
    let mut arguments = vec!["debate", "many.toml", "--set", &set, "--set", "team.in_flight=4"];
    arguments.extend(more);
    desk.call(&arguments)
}

#[test]
fn shards_together_are_the_unsharded_traces_byte_for_byte() {
    let (desk, stub) = (Desk::new(DOCUMENTS, TYPES), team());
    // Two shards at once, in one run directory.
    let set = format!("team.base_url={}", stub.base_url);
    let together = ["1/4", "2/4"].map(|shard| {
        desk.command(&["debate", "many.toml", "--set", &set, "--set", "team.in_flight=4", "--shard", shard])
            .spawn()
            .unwrap()
    });
    for child in together {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    let (code, _, said) = desk.call(&["distill", "many.toml"]);
    assert_eq!(code, 1);
    assert!(
        said.contains("2 of 4 parts of traces are missing: 3/4, 4/4; run `understudy debate CONFIG --shard 3/4`"),
        "{said}"
    );
    for shard in ["3/4", "4/4"] {
        let (code, out, said) = debate(&desk, &stub.base_url, &["--shard", shard]);
        assert_eq!(code, 0, "{said}");
        assert!(out.contains(&format!("traces-00{}-of-004.jsonl", &shard[..1])), "{out}");
    }
    assert_eq!(stub.count(), DOCUMENTS * TYPES, "no document is read twice");
    assert_eq!(desk.call(&["distill", "many.toml"]).0, 0);
    let (joined, corpus) = (desk.read("out/traces.jsonl"), desk.read("out/corpus/train.jsonl"));
    let parts: Vec<String> = (1..=4).map(|part| desk.read(&format!("out/traces-00{part}-of-004.jsonl"))).collect();
    let lines: BTreeSet<&str> = parts.iter().flat_map(|part| part.lines()).collect();
    assert_eq!(lines.len(), DOCUMENTS, "none lost");
    assert_eq!(parts.iter().map(|part| part.lines().count()).sum::<usize>(), DOCUMENTS, "none doubled");
    assert!(parts.iter().all(|part| !part.is_empty()), "each has its share");
    // The unsharded debate takes all answers from the stores of the shards, and leaves one file.
    let (code, _, said) = debate(&desk, &stub.base_url, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("4 traces of shards, now out of date, were removed"), "{said}");
    assert_eq!(stub.count(), DOCUMENTS * TYPES);
    assert_eq!(desk.read("out/traces.jsonl"), joined);
    assert!(!desk.path("out/traces-001-of-004.jsonl").exists());
    assert_eq!(desk.call(&["distill", "many.toml"]).0, 0);
    assert_eq!(desk.read("out/corpus/train.jsonl"), corpus);
}

#[test]
fn a_shard_of_another_config_or_of_other_documents_is_not_joined() {
    let (desk, stub) = (Desk::new(DOCUMENTS, TYPES), team());
    for shard in ["1/2", "2/2"] {
        assert_eq!(debate(&desk, &stub.base_url, &["--shard", shard]).0, 0);
    }
    let distill = |more: &[&str]| desk.call(&[&["distill", "many.toml"][..], more].concat());
    assert_eq!(distill(&[]).0, 0);
    let (code, _, said) = distill(&["--set", "team.temperature=0.5"]);
    assert_eq!(code, 1);
    assert!(said.contains("traces-001-of-002.jsonl: not made with this config"), "{said}");
    // More documents: the shards are read again, and only what is new is asked.
    desk.documents(DOCUMENTS + 10);
    assert_eq!(distill(&[]).0, 1);
    let before = stub.count();
    for shard in ["1/2", "2/2"] {
        assert_eq!(debate(&desk, &stub.base_url, &["--shard", shard]).0, 0);
    }
    assert_eq!(stub.count() - before, 10 * TYPES);
    assert_eq!(distill(&[]).0, 0);
    assert_eq!(desk.read("out/traces.jsonl").lines().count(), DOCUMENTS + 10);
    // A part that was tampered with, or one of a whole of another size.
    let part = desk.read("out/traces-002-of-002.jsonl");
    desk.write("out/traces-002-of-002.jsonl", part.split_once('\n').unwrap().1);
    assert!(distill(&[]).2.contains("traces-002-of-002.jsonl: not made with"));
    desk.write("out/traces-001-of-003.jsonl", "");
    assert!(distill(&[]).2.contains("a part of another whole than those of 3"));
}

#[test]
fn what_is_no_shard_is_exit_code_2_and_a_shard_without_documents_is_one() {
    let (desk, stub) = (Desk::new(2, TYPES), team());
    for wrong in ["0/4", "5/4", "x", "1", "1/0", "-1/2", "1/2/3"] {
        let (code, _, said) = desk.call(&["debate", "many.toml", &format!("--shard={wrong}")]);
        assert_eq!(code, 2, "{wrong}: {said}");
        assert!(said.contains(&format!("--shard {wrong}: expected I/N with I from 1 to N")), "{said}");
    }
    for part in 1..=5 {
        assert_eq!(
            debate(&desk, &stub.base_url, &["--shard", &format!("{part}/5")]).0,
            0,
            "{part} of 5, with two documents"
        );
    }
    assert_eq!(desk.call(&["distill", "many.toml"]).0, 0);
    assert_eq!(desk.read("out/traces.jsonl").lines().count(), 2);
}

#[test]
fn a_store_has_one_writer() {
    let (desk, stub) = (Desk::new(DOCUMENTS, TYPES), team());
    stub.hold_after(5);
    let set = format!("team.base_url={}", stub.base_url);
    let child = desk.command(&["debate", "many.toml", "--set", &set, "--set", "team.in_flight=8"]).spawn().unwrap();
    stub.wait_for_held();
    let (code, _, said) = debate(&desk, &stub.base_url, &[]);
    assert_eq!(code, 1);
    assert!(said.contains("answers.sqlite: another process writes it; wait for its end"), "{said}");
    stub.release();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(stub.count(), DOCUMENTS * TYPES);
}
