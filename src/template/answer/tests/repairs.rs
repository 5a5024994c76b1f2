//! The ladder of repairs, and places in the raw answer.

use super::super::json::{Notes, Value, read_strict, read_value};
use super::super::{MAX_ANSWER, claims};
use super::*;
use crate::ie::Status;

const TEXT: &str = "Ann O'Hara met \"Bob\" in Oslo.";

#[test]
fn each_slip_is_mended_and_named() {
    for (raw, repair) in [
        (r#"{"LOC":["Oslo",]}"#, "trailing comma"),
        (r#"{"LOC":["Oslo"],}"#, "trailing comma"),
        (r#"{'LOC':['Oslo']}"#, "single quotes (2 times)"),
        (r#"{“LOC”:[“Oslo”]}"#, "typographic quotes for JSON's own (2 times)"),
        (r#"{"LOC":["Oslo”]}"#, "typographic quotes for JSON's own"),
        (r#"{LOC:["Oslo"]}"#, "unquoted key"),
        (r#"{"LOC":["Oslo"] "PER":[]}"#, "missing comma"),
        ("{\"LOC\":[\"Oslo\"\n\"Oslo\"]}", "missing comma"),
        (r#"{"LOC":["Oslo"],,"PER":[]}"#, "doubled comma"),
        (r#"[{"text":"Oslo","type":"LOC"]"#, "missing closing bracket"),
        ("{\"LOC\":[\"Oslo\"] // done\n}", "comment"),
        (r#"{"LOC":["Oslo"],"PER":None}"#, "Python literal"),
        ("{\"LOC\":[\"Oslo\n\"]}", "control character in a string"),
        (r#"{"LOC":["Oslo"],"PER":["O\'Hara"]}"#, "escape that JSON does not have"),
    ] {
        let reading = read(raw, TEXT);
        assert!(found(&reading, TEXT).contains(&("LOC", "Oslo", 24, 28)), "{raw}: {reading:?}");
        assert_eq!(reading.repairs, [repair], "{raw}");
    }
}

#[test]
fn unescaped_quotes_and_apostrophes_inside_strings_stay_inside() {
    for raw in [
        r#"{"PER":[""Bob""],"LOC":["Oslo"]}"#,
        r#"{"entities":[{"text":""Bob"","type":"PER"},{"text":"Oslo","type":"LOC"}]}"#,
        r#"{"entities":[{"type":"PER","text":""Bob""},{"text":"Oslo","type":"LOC"}]}"#,
    ] {
        let reading = read(raw, TEXT);
        assert_eq!(found(&reading, TEXT), [("PER", "\"Bob\"", 15, 20), ("LOC", "Oslo", 24, 28)], "{raw}");
    }
    assert_eq!(found(&read("{'PER': ['Ann O'Hara']}", TEXT), TEXT), [("PER", "Ann O'Hara", 0, 10)]);
}

#[test]
fn broken_json_is_a_failure_that_names_the_place_never_a_part_of_the_answer() {
    let reading = read(r#"{"LOC":["Oslo"] = {"PER":["Ann O'Hara"]}}"#, TEXT);
    assert_eq!((reading.status, reading.extraction.is_empty()), (Status::Failed, true));
    assert_eq!(
        reading.error.unwrap(),
        "the answer's JSON breaks at byte 16: expected \",\" or a closing bracket, found \"= {\\\"PER\\\":[\\\"Ann O'Har\""
    );
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read_strict(&deep(64), 0..128).is_ok());
    assert!(read_strict(&deep(65), 0..130).is_err());
    for raw in [deep(65), deep(100_000), "[".repeat(100_000), "{\"a\":".repeat(100_000)] {
        assert_eq!(read(&raw, TEXT).status, Status::Failed);
    }
    let long = format!("{{\"LOC\":[\"Oslo\"]}}{}", " ".repeat(MAX_ANSWER));
    let reading = read(&long, TEXT);
    assert_eq!(
        (reading.status, reading.error.unwrap()),
        (Status::Failed, "an answer of 1048592 bytes; at most 1048576 are read".into())
    );
}

#[test]
fn hostile_answers_cost_linear_work() {
    for unit in [
        "[\"a\n",
        "\" ,",
        "{\"a\":\"",
        "<think></think>",
        "</think>",
        "[1,",
        "`",
        "\",\"",
        "{'",
        "[[[{",
        "// ",
        "“”",
        "{a:[",
        "\\u",
        "<think>{",
        "\"\n",
    ] {
        for start in ["", "[", "{\"PER\":[\"", "x "] {
            let raw = start.to_owned() + &unit.repeat(100_000 / unit.len());
            let reading = read(&raw, TEXT);
            assert!(reading.extraction.is_empty(), "{unit:?} {start:?}");
        }
    }
}

#[test]
fn every_entity_knows_the_bytes_that_claim_it() {
    for raw in [
        r#"{"LOC":["Oslo"],"PER":["\"Bob\""]}"#,
        r#"<think>Oslo?</think> {"PER":[""Bob""],"LOC":["Oslo"],}"#,
        "```json\n[{'type':'LOC','text':'Oslo'}, {'type':'PER','text':'\"Bob\"'}]\n```",
    ] {
        let reading = read(raw, TEXT);
        let claimed: Vec<&str> = reading.provenance.iter().map(|place| &raw[place.clone().unwrap()]).collect();
        assert_eq!(claimed.len(), 2);
        assert_eq!(claimed[0].replace('\\', ""), "\"Bob\"", "{raw}");
        assert_eq!(claimed[1], "Oslo", "{raw}");
        for claim in claims(raw, Finish::Stop, &schema()).unwrap() {
            assert_eq!(raw[claim.bytes].replace('\\', ""), claim.text);
        }
    }
    assert_eq!(claims("None", Finish::Stop, &schema()), Some(vec![]));
    assert_eq!(claims("{\"LOC\":[", Finish::Stop, &schema()), None);
}

#[test]
fn several_occurrences_share_the_place_of_their_claim() {
    let reading = read(r#"{"LOC":["Oslo"]}"#, "Oslo, Oslo");
    assert_eq!(reading.provenance, [Some(9..13), Some(9..13)]);
}

#[test]
fn a_key_given_twice_is_two_items_in_one_and_dropped() {
    let reading =
        read(r#"[{"text":"Oslo","type":"LOC","text":"Ann","type":"PER"},{"text":"Oslo","type":"LOC"}]"#, TEXT);
    assert_eq!(found(&reading, TEXT).len(), 1);
    assert_eq!(reading.dropped[0].reason, "a key is given twice");
    // Two groups of one label are one.
    assert_eq!(found(&read(r#"{"LOC":["Oslo"],"loc":["Oslo"]}"#, TEXT), TEXT).len(), 1);
}

#[test]
fn repairs_leave_valid_json_as_it_is() {
    let raw = r#"{"a":["x, y","q\"z", "“t”, “u”"],"b":{"c":"d: e","f":[1,-2.5e3,null,true]},"g":""}"#;
    let mut notes = Notes::new();
    assert_eq!(read_value(raw, 0..raw.len(), Some(&mut notes)).unwrap(), read_strict(raw, 0..raw.len()).unwrap());
    assert!(notes.is_empty());
    assert!(matches!(read_strict("1", 0..1).unwrap().value, Value::Number(_)));
}
