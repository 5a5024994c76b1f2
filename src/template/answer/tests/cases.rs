//! Answers that broke other extraction programs; `cNN` is the number of the report.

use super::*;
use crate::ie::Status;

#[test]
fn c01_braces_inside_reasoning_are_never_the_answer() {
    let text = "Ada met Bob.";
    let thought = r#"<think>{"PER":["Bob"]} would be wrong</think>"#;
    assert_eq!(read(&format!("{thought}{{}}"), text).status, Status::Empty);
    let reading = read(&format!("{thought}\n\n{{\"PER\":[\"Ada\"]}}"), text);
    assert_eq!(found(&reading, text), [("PER", "Ada", 0, 3)]);
    assert_eq!(reading.repairs, ["reasoning removed"]);
    // The template gave the opening tag; the answer stands before its reasoning; tags twice.
    for raw in [
        "hm {\"PER\":[\"Bob\"]}</think>{\"PER\":[\"Ada\"]}",
        "{\"PER\":[\"Ada\"]}\n<think>or {\"PER\":[\"Bob\"]}?</think>",
        "<think>a</think><thinking>{\"PER\":[\"Bob\"]}</thinking>{\"PER\":[\"Ada\"]}",
        "Well. <think>{\"PER\":[\"Bob\"]}</think> So: {\"PER\":[\"Ada\"]}",
    ] {
        assert_eq!(found(&read(raw, text), text), [("PER", "Ada", 0, 3)], "{raw}");
    }
    let endless = read(r#"<think>{"PER":["Ada"]}"#, text);
    assert_eq!((endless.status, endless.extraction.is_empty()), (Status::Failed, true));
    // A tag inside a string is data.
    let text = "The tag </think> ends it.";
    assert_eq!(found(&read(r#"{"LOC":["</think>"]}"#, text), text), [("LOC", "</think>", 8, 16)]);
}

#[test]
fn c02_back_ticks_inside_a_string_do_not_end_a_fence() {
    let text = "Ada wrote ```toml blocks at Acme.";
    let body = r#"{"ORG":["```toml","Acme"],"PER":["Ada"]}"#;
    let expected = [("PER", "Ada", 0, 3), ("ORG", "```toml", 10, 17), ("ORG", "Acme", 28, 32)];
    for raw in [
        body.to_owned(),
        format!("```json\n{body}\n```"),
        format!("````\n{body}\n````"),
        format!("~~~\n{body}\n~~~\n"),
        format!("Here it is:\n```json\n{body}\n```\nDone."),
        format!("```json {body} ```"),
    ] {
        assert_eq!(found(&read(&raw, text), text), expected, "{raw}");
    }
}

#[test]
fn c03_an_unescaped_quote_costs_no_neighbour() {
    let text = "Im „Der Standard“ steht Ada aus Wien.";
    let raw = r#"{"entities":[{"text":"„Der Standard"","type":"ORG"},{"text":"Wien","type":"LOC"},]}"#;
    let reading = read(raw, text);
    assert_eq!(found(&reading, text), [("ORG", "„Der Standard“", 3, 17), ("LOC", "Wien", 32, 36)]);
    assert_eq!(reading.repairs, ["trailing comma", "unescaped quote"]);
}

#[test]
fn c04_every_accepted_shape_says_the_same() {
    let text = "Oslo is cold.";
    for raw in [
        r#"{"LOC":["Oslo"]}"#,
        r#"{"loc":[{"text":"Oslo"}]}"#,
        r#"{"LOC":"Oslo"}"#,
        r#"{"entities":{"LOC":["Oslo"]}}"#,
        r#"{"entities":[{"LOC":["Oslo"]}]}"#,
        r#"[{"text":"Oslo","label":"LOC"}]"#,
        r#"{"text":"Oslo","type":"LOC"}"#,
        r#"{"name":"Oslo","entity_type":"LOC","note":"capital"}"#,
        "{\"text\":\"Oslo\",\"type\":\"LOC\"}\n{\"text\":\"Oslo\",\"type\":\"LOC\"}",
        "{\"entities\":[{\"text\":\"Oslo\",\"type\":\"LOC\"}]}\n{\"entities\":[]}",
        r#"{"result":{"entities":[{"text":"Oslo","type":"LOC"}]}}"#,
        r#"{"output":[{"text":"Oslo","type":"LOC"}]}"#,
        r#"{"thoughts":"cold","answer":{"LOC":["Oslo"]}}"#,
        r#"The answer [as asked] is {"LOC":["Oslo"]} - see [1]."#,
        r#"Draft: {"LOC":["cold"]}. Better: {"LOC":["Oslo"]}"#,
    ] {
        let reading = read(raw, text);
        assert_eq!(found(&reading, text), [("LOC", "Oslo", 0, 4)], "{raw}: {reading:?}");
        assert_eq!(dropped(&reading), [], "{raw}");
    }
}

#[test]
fn c04_a_missing_type_never_becomes_a_default() {
    for (raw, item) in [
        (r#"{"entities":[{"name":"Oslo"}]}"#, "Oslo"),
        (r#"{"entities":["Oslo"]}"#, "Oslo"),
        (r#"["Oslo"]"#, "Oslo"),
        (r#"{"text":"Oslo","type":null}"#, "Oslo"),
    ] {
        let reading = read(raw, "Oslo is cold.");
        assert_eq!((reading.status, dropped(&reading)), (Status::Failed, vec![(item, "no type")]), "{raw}");
    }
}

#[test]
fn c05_aliases_touch_the_label_field_only() {
    let text = "Organization Person Ltd hired Ann.";
    let raw = r#"[{"text":"Organization Person Ltd","type":"organization"},{"text":"Ann","type":" PERSON "},{"text":"Ltd","type":"VEHICLE"}]"#;
    let reading = read(raw, text);
    assert_eq!(found(&reading, text), [("ORG", "Organization Person Ltd", 0, 23), ("PER", "Ann", 30, 33)]);
    assert_eq!(dropped(&reading), [("Ltd", "unknown label \"VEHICLE\"")]);
    let grouped = read(r#"{"vehicle":["Ltd"],"person":["Ann"]}"#, text);
    assert_eq!(dropped(&grouped), [("Ltd", "unknown label \"vehicle\"")]);
}

#[test]
fn c05_every_way_to_say_nothing_is_an_empty_success() {
    for raw in [
        "None",
        "NO",
        "No.",
        "null",
        "N/A",
        "\"None\"",
        "[]",
        "{}",
        "[null]",
        "```json\n{}\n```",
        "No entities found.",
        "no named entities",
        "There are no entities in this text.",
        "None found.",
        "I could not find any entities in the text.",
        "I'm sorry, but the text does not mention any entities.",
        r#"{"entities":null}"#,
        r#"{"entities":"none","relations":null,"events":[]}"#,
        r#"{"PER":[],"LOC":null}"#,
        r#"[{"text":"None","type":"NONE"}]"#,
        r#"{"PER":["None"]}"#,
        r#"["none"]"#,
        r#"{"entities":[{"text":"N/A"}]}"#,
        r#"{"PER":[],"explanation":"It speaks of rain."}"#,
        "Here you are: {}",
    ] {
        let reading = read(raw, "It rained on us all.");
        assert_eq!(
            (reading.status, reading.error.as_deref(), dropped(&reading)),
            (Status::Empty, None, vec![]),
            "{raw}"
        );
    }
}

#[test]
fn c05_a_word_for_nothing_is_kept_where_it_is_a_name() {
    let text = "Ann saw None of the Above and met NO at sea, no doubt.";
    assert_eq!(found(&read(r#"{"ORG":["None of the Above"]}"#, text), text), [("ORG", "None of the Above", 8, 25)]);
    assert_eq!(found(&read(r#"{"PER":["NO"]}"#, text), text), [("PER", "NO", 34, 36)]);
    assert_eq!(read(r#"{"PER":["nO"]}"#, text).status, Status::Empty);
}

#[test]
fn c05_words_that_say_something_are_not_nothing() {
    for raw in [
        "",
        "  \n",
        "No problem, the entities are Ann and Bob.",
        "Ann",
        "No entities but Ann.",
        "42",
        "true",
        "{\"count\":3,",
        "PER: Ann",
    ] {
        let reading = read(raw, "Ann came.");
        assert_eq!(reading.status, Status::Failed, "{raw}");
        assert!(reading.error.is_some(), "{raw}");
    }
}

#[test]
fn c06_a_cut_answer_is_failed_before_it_is_parsed() {
    let text = "Oslo and Rome.";
    let whole = r#"{"LOC":["Oslo"]}"#;
    for raw in [r#"{"LOC":["Oslo","Ro"#, &format!("{whole}\n").repeat(3), whole, ""] {
        let reading = read_answer(raw, Finish::Length, text, &schema());
        assert_eq!((reading.status, reading.extraction.is_empty(), reading.repairs.len()), (Status::Failed, true, 0));
        assert!(reading.error.unwrap().starts_with("cut off"));
    }
    // A server that does not say so: what never ends is not taken for whole either.
    for raw in [
        r#"{"LOC":["Oslo","Ro"#,
        r#"{"LOC":["Oslo""#,
        r#"{"LOC":["Oslo"]"#,
        r#"[{"text":"Oslo","type":"LOC"},"#,
        "{\"LOC\":[\"Oslo\"]}\n{\"LOC\":[\"Ro",
    ] {
        let reading = read(raw, text);
        assert_eq!((reading.status, reading.extraction.is_empty()), (Status::Failed, true), "{raw}");
        assert!(reading.error.unwrap().contains("ends before its JSON does"), "{raw}");
    }
    let looped =
        read(&"{\"text\":\"Oslo\",\"type\":\"LOC\"}\n{\"text\":\"Bonn\",\"type\":\"LOC\"}\n".repeat(300), text);
    assert_eq!(found(&looped, text), [("LOC", "Oslo", 0, 4)]);
    assert_eq!(dropped(&looped), [("Bonn", "not in the text")]);
}

#[test]
fn c07_a_refusal_is_neither_empty_nor_failed() {
    for raw in [
        "I can't help with that.",
        "I’m sorry, but I cannot assist with this request.",
        "As an AI, I must not.",
        "Sorry, I am unable to extract entities from this text.",
        "I can't help with this. {}",
        "\"I cannot help.\"",
        "I cannot provide any results for this text.",
    ] {
        let reading = read(raw, "Ann came.");
        assert_eq!((reading.status, reading.extraction.is_empty()), (Status::Refused, true), "{raw}");
        assert!(reading.error.is_some());
    }
    let filtered = read_answer(r#"{"PER":["Ann"]}"#, Finish::ContentFilter, "Ann came.", &schema());
    assert_eq!((filtered.status, filtered.extraction.is_empty()), (Status::Refused, true));
    assert_eq!(read(r#"Sorry for the delay: {"PER":["Ann"]}"#, "Ann came.").status, Status::Ok);
}

#[test]
fn c08_a_name_from_the_prompt_is_dropped_whatever_its_confidence() {
    let text = "The lab opened in Lyon.";
    let raw = r#"{"entities":[{"text":"Grace Hopper","type":"PER","confidence":0.99},{"text":"Lyon","type":"LOC","confidence":0.5}]}"#;
    let reading = read(raw, text);
    assert_eq!(found(&reading, text), [("LOC", "Lyon", 18, 22)]);
    assert_eq!(reading.extraction.entities[0].confidence.unwrap().value(), 0.5);
    assert_eq!(dropped(&reading), [("Grace Hopper", "not in the text")]);
    let alone = read(r#"{"PER":["Grace Hopper"]}"#, text);
    assert_eq!(alone.error.unwrap(), "nothing could be kept: \"Grace Hopper\" was dropped: not in the text");
}

#[test]
fn c12_blank_texts_and_nul_bytes_are_read_like_any_other() {
    for text in ["", "  \t\n", "\u{301}"] {
        assert_eq!(read("{}", text).status, Status::Empty);
        assert_eq!(dropped(&read(r#"{"LOC":["Berlin"]}"#, text)), [("Berlin", "not in the text")]);
    }
    let text = "Berlin\0 is big, Bonn\0too";
    assert_eq!(
        found(&read(r#"{"LOC":["Berlin","Bonn"]}"#, text), text),
        [("LOC", "Berlin", 0, 6), ("LOC", "Bonn", 16, 20)]
    );
}

#[test]
fn c16_confidence_is_read_by_the_table() {
    let text = "Ann came.";
    let known =
        [("0.9", 0.9), ("\"0.9\"", 0.9), ("\"90%\"", 0.9), ("\" 1 \"", 1.0), ("0", 0.0), ("1e-1", 0.1), ("90%", 0.9)];
    let unknown = [
        "\"high\"", "90", "1.2", "-1", "NaN", "\"NaN\"", "true", "[0.9]", "\"\"", "\"120%\"", "\"inf\"", "high",
        "1e999",
    ];
    let at = |written: &str| read(&format!(r#"[{{"text":"Ann","type":"PER","confidence":{written}}}]"#), text);
    for (written, value) in known {
        let reading = at(written);
        assert_eq!(reading.extraction.entities[0].confidence.unwrap().value(), value, "{written}");
        assert!(!reading.repairs.iter().any(|repair| repair.contains("unknown")), "{written}");
    }
    for written in unknown {
        let reading = at(written);
        assert_eq!(reading.extraction.entities[0].confidence, None, "{written}");
        assert!(
            reading.repairs.iter().any(|r| r == "confidence that cannot be read left unknown"),
            "{written}: {:?}",
            reading.repairs
        );
    }
    assert_eq!(at("null").repairs, [] as [&str; 0]);
}

#[test]
fn c17_a_pair_of_surrogates_is_one_character_and_a_lone_one_fails_alone() {
    let text = "🗼 Tower and Ann";
    let pair = read(r#"{"LOC":["\ud83d\uddfc Tower"]}"#, text);
    assert_eq!(found(&pair, text), [("LOC", "🗼 Tower", 0, 7)]);
    for half in [r"\ud83d", r"\uddfc Tower", r"\ud83d\u0041", r"\ud83d\ud83d"] {
        let reading = read(&format!(r#"{{"LOC":["{half}"],"PER":["Ann"]}}"#), text);
        assert_eq!(found(&reading, text), [("PER", "Ann", 12, 15)], "{half}");
        assert_eq!(reading.dropped[0].reason, "half of a surrogate pair", "{half}");
    }
}
