//! Relations and events: ends, signatures, choices between mentions, everything dropped.

use super::super::{read_relations, render_relations};
use super::*;
use crate::ie::{Extraction, Status};

/// Relations as label, head and tail with their code-point starts.
fn links(reading: &Reading, text: &str) -> Vec<(String, String, String)> {
    let name = |at: usize| {
        let entity = &reading.extraction.entities[at];
        format!("{}@{}", entity.text, entity.span.unwrap().to_code_points(text).0)
    };
    let relations = reading.extraction.relations.iter();
    relations.map(|relation| (relation.label.clone(), name(relation.head), name(relation.tail))).collect()
}

#[test]
fn c19_relations_without_both_ends_among_the_entities_are_dropped_with_a_reason() {
    let raw = r#"{"entities":[{"text":"Ada","type":"PER"},{"text":"Acme","type":"ORG"}],"relations":[
        {"head":"Ada","type":"works_for","tail":"Acme"},{"head":"Ada","type":"works_for","tail":"Zeta"},
        {"head":"Ada","type":"works_for"},{"tail":"Acme","type":"works_for"},[["x"]],"x",7,
        {"head":"Ada","type":"works_for","tail":"Ada"},{"head":"Acme","type":"works_for","tail":"Ada"},
        {"head":"Ada","type":"admires","tail":"Acme"},{"head":"Ada","tail":"Acme"},{"head":["Ada"],"type":"works_for","tail":"Acme"}]}"#;
    let text = "Ada left Acme.";
    let reading = read(raw, text);
    assert_eq!(links(&reading, text), [("works_for".into(), "Ada@0".into(), "Acme@9".into())]);
    let reasons: Vec<&str> = reading.dropped.iter().map(|dropped| dropped.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "no tail",
            "no head",
            "a list where an item was expected",
            "no type",
            "not an item",
            "unknown label \"admires\"",
            "no type",
            "the head is not a string",
            "the tail \"Zeta\" is not among the entities",
            "head and tail are the same mention",
            "the signature of \"works_for\" does not allow ORG -> PER",
        ]
    );
}

#[test]
fn relations_are_read_in_every_shape() {
    let text = "Ada left Acme.";
    let mentions = r#""entities":[{"text":"Ada","type":"PER"},{"text":"Acme","type":"ORG"}]"#;
    for relations in [
        r#"{"works_for":[["Ada","Acme"]]}"#,
        r#"{"works_for":["Ada","Acme"]}"#,
        r#"{"Works_For":[{"head":"Ada","tail":"Acme"}]}"#,
        r#"[{"type":"works_for","head":"ada","tail":"ACME"}]"#,
        r#"[{"predicate":"works_for","subject":{"text":"Ada","type":"PER"},"object":{"text":"Acme"}}]"#,
        r#"{"type":"works_for","head":"Ada","tail":"Acme"}"#,
    ] {
        let raw = format!("{{{mentions},\"relations\":{relations}}}");
        assert_eq!(
            links(&read(&raw, text), text),
            [("works_for".into(), "Ada@0".into(), "Acme@9".into())],
            "{relations}"
        );
        let given = read(&format!("{{{mentions}}}"), text).extraction.entities;
        let alone = read_relations(relations, Finish::Stop, &schema(), &given);
        assert_eq!((alone.status, alone.relations.len(), alone.dropped.len()), (Status::Ok, 1, 0), "{relations}");
        let place = alone.provenance[0].clone().unwrap();
        assert!(relations[place].to_lowercase().contains("\"acme\""), "{relations}");
    }
    let mixed = r#"{"PER":["Ada"],"ORG":["Acme"],"works_for":[["Ada","Acme"]]}"#;
    assert_eq!(links(&read(mixed, text), text).len(), 1);
}

#[test]
fn the_signature_then_closeness_choose_between_mentions_of_one_name() {
    let text = "Lincoln knew Lincoln. Later Ada, born in Lincoln, met Lincoln.";
    let raw = r#"{"PER":["Lincoln","Ada"],"LOC":["Lincoln"],"born_in":[["Ada","Lincoln"],["Lincoln","Lincoln"]]}"#;
    let reading = read(raw, text);
    // Dealt PER, LOC, PER, PER: the only LOC is the second one.
    assert_eq!(
        links(&reading, text),
        [
            ("born_in".into(), "Ada@28".into(), "Lincoln@13".into()),
            ("born_in".into(), "Lincoln@0".into(), "Lincoln@13".into())
        ]
    );
    let text = "Acme grew. Bob and Acme: Bob left Acme.";
    let near = read(r#"{"PER":["Bob"],"ORG":["Acme"],"works_for":[["Bob","Acme"]]}"#, text);
    assert_eq!(links(&near, text), [("works_for".into(), "Bob@25".into(), "Acme@19".into())]);
}

#[test]
fn a_symmetric_pair_has_one_direction() {
    let text = "Ann wed Bo";
    let there = read(r#"{"PER":["Ann","Bo"],"married_to":[["Ann","Bo"]]}"#, text);
    let both = read(r#"{"PER":["Ann","Bo"],"married_to":[["Bo","Ann"],["Ann","Bo"]]}"#, text);
    assert_eq!(links(&there, text), [("married_to".into(), "Ann@0".into(), "Bo@8".into())]);
    assert_eq!(links(&both, text), links(&there, text));
    let turned = Extraction {
        relations: vec![crate::ie::Relation { head: 1, tail: 0, ..there.extraction.relations[0].clone() }],
        ..there.extraction
    };
    assert_eq!(render_relations(&turned, &schema()), r#"{"married_to":[["Ann","Bo"]]}"#);
}

#[test]
fn pairs_outside_the_question_leave_an_empty_reading_and_unreadable_ones_a_failed_one() {
    let given = read(r#"{"PER":["Ann"],"ORG":["Acme"]}"#, "Ann left Acme").extraction.entities;
    let status = |raw: &str, finish| read_relations(raw, finish, &schema(), &given).status;
    assert_eq!(status("{}", Finish::Stop), Status::Empty);
    assert_eq!(status("None", Finish::Stop), Status::Empty);
    assert_eq!(status(r#"{"works_for":[["Acme","Ann"],["Ann","Zeta"],["Ann","Ann"]]}"#, Finish::Stop), Status::Empty);
    assert_eq!(status(r#"{"works_for":[["Ann"]]}"#, Finish::Stop), Status::Failed);
    assert_eq!(status(r#"{"works_for":[["Ann","Acme"]"#, Finish::Stop), Status::Failed);
    assert_eq!(status(r#"{"works_for":[["Ann","Acme"]]}"#, Finish::Length), Status::Failed);
    assert_eq!(status("I cannot help with that.", Finish::Stop), Status::Refused);
}

#[test]
fn events_take_their_occurrences_in_turn_and_arguments_the_closest() {
    let text = "In Oslo they fired Ann. In Rome they fired Bob. Oslo slept.";
    let raw = r#"{"entities":[{"text":"Ann","type":"PER"},{"text":"Oslo","type":"LOC"}],"events":[
        {"type":"Dismiss","trigger":"fired","arguments":[{"role":"person","text":"Ann"},{"role":"Place","text":"Oslo"}]},
        {"type":"dismiss","trigger":{"text":"FIRED"},"arguments":{"Person":["Bob"],"Place":"Rome"}},
        {"type":"Dismiss","trigger":"hired"},{"type":"Dismiss"},{"type":"Attack","trigger":"fired"},
        {"type":"Dismiss","trigger":"fired","arguments":[{"role":"Person","text":"Oslo"},{"role":"Weapon","text":"Ann"},{"role":"Place","text":"Bonn"},7]}]}"#;
    let reading = read(raw, text);
    let at = |span: Option<crate::ie::Span>| span.unwrap().to_code_points(text).0;
    let events: Vec<(usize, Vec<(&str, usize)>)> = reading
        .extraction
        .events
        .iter()
        .map(|event| (at(event.trigger.span), event.arguments.iter().map(|a| (a.role.as_str(), at(a.span))).collect()))
        .collect();
    assert_eq!(
        events,
        [(13, vec![("Person", 19), ("Place", 3)]), (37, vec![("Person", 43), ("Place", 27)]), (37, vec![])]
    );
    let reasons: Vec<&str> = reading.dropped.iter().map(|dropped| dropped.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "an event needs a trigger",
            "unknown label \"Attack\"",
            "unknown role \"Weapon\"",
            "an argument needs a role and a text",
            "trigger \"hired\": not in the text",
            "role \"Person\": the role does not allow LOC; it asks for PER",
            "role \"Place\": not in the text",
        ]
    );
}
