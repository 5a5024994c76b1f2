//! Render and read are inverse; hostile bytes never panic; the reader agrees with serde_json.

use super::super::fold::boundary;
use super::super::json::{Node, Notes, Value, read_strict, read_value};
use super::super::{read_relations, render_entities, render_relations};
use super::*;
use crate::ie::{Entity, Extraction, Relation, Span, Status};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Words that test borders: prefixes of each other, other scripts, marks, quotes, escapes.
const WORDS: [&str; 18] = [
    "Ann",
    "Anna",
    "Bo",
    "New",
    "York",
    "Köln",
    "Zoe\u{308}",
    "王芳",
    "北京",
    "서울",
    "O'Hara",
    "\"Q\"",
    "„Zeit“",
    "C:\\x",
    "a-b",
    "🗼",
    "No",
    "x\u{0}y",
];

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        (prop::sample::select(WORDS.to_vec()), prop::sample::select(vec![" ", " ", "  ", ", ", "", "\n"])),
        1..30,
    )
    .prop_map(|pieces| pieces.into_iter().flat_map(|(word, gap)| [word, gap]).collect())
}

/// What the rule says, written the slow way: every whole-word occurrence of every string, minus
/// those inside a longer one, minus those that overlap an earlier one of the same string.
fn slow(text: &str, listed: &BTreeMap<String, usize>) -> Vec<(Span, usize)> {
    let mut all: Vec<(Span, usize)> = Vec::new();
    for (surface, &label) in listed {
        for at in 0..text.len() {
            if text[..].is_char_boundary(at)
                && text[at..].starts_with(surface.as_str())
                && boundary(text, at, at + surface.len())
            {
                all.push((Span::new(text, at..at + surface.len()).unwrap(), label));
            }
        }
    }
    let outside: Vec<_> = all
        .iter()
        .copied()
        .filter(|(span, _)| !all.iter().any(|(other, _)| other != span && other.contains(span)))
        .collect();
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    let mut kept = Vec::new();
    let mut sorted = outside;
    sorted.sort();
    for (span, label) in sorted {
        let end = ends.entry(span.slice(text)).or_default();
        if *end <= span.start() {
            *end = span.end();
            kept.push((span, label));
        }
    }
    kept
}

/// A text and an extraction that marks everything its own strings mark.
fn saturated() -> impl Strategy<Value = (String, Extraction)> {
    (text(), prop::collection::vec((any::<prop::sample::Index>(), 1usize..12, 0usize..3), 0..6)).prop_map(
        |(text, picks)| {
            let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let mut listed = BTreeMap::new();
            for (at, length, label) in picks {
                let start = at.index(borders.len());
                let end = (start + length).min(borders.len() - 1);
                let surface = text[borders[start]..borders[end]].trim();
                if !surface.is_empty() {
                    listed.insert(surface.to_owned(), label);
                }
            }
            let labels = ["PER", "ORG", "LOC"];
            let entities = slow(&text, &listed).into_iter().map(|(span, label)| Entity {
                label: labels[label].into(),
                text: span.slice(&text).to_owned(),
                span: Some(span),
                confidence: None,
            });
            let extraction = Extraction { entities: entities.collect(), ..Extraction::default() };
            (text, extraction)
        },
    )
}

fn as_serde(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Number(written) => serde_json::from_str(written).unwrap(),
        Value::Text(text) => text.content.clone().into(),
        Value::Word(_) => unreachable!("strict reading knows no bare words"),
        Value::List(items) => items.iter().map(as_serde).collect(),
        Value::Map(pairs) => {
            serde_json::Value::Object(pairs.iter().map(|(key, node)| (key.content.clone(), as_serde(node))).collect())
        }
    }
}

/// JSON and near-JSON.
fn jsonish() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "'",
        "\\",
        "\\u00e9",
        "\\n",
        "null",
        "true",
        "1",
        "-0.5e3",
        "01",
        ".",
        " ",
        "\n",
        "a",
        "é",
        "“",
        "”",
        "\"PER\"",
        "\"text\":\"Ann\"",
        "\"type\":\"PER\"",
        "{\"PER\":[\"Ann\"]}",
        "<think>",
        "</think>",
        "```",
        "None",
        "\\ud83d",
        "NaN",
        "%",
        "//",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn reading_what_was_rendered_gives_the_same_extraction((text, extraction) in saturated()) {
        let raw = render_entities(&extraction, &schema());
        let reading = read(&raw, &text);
        let expected = if extraction.is_empty() { Status::Empty } else { Status::Ok };
        prop_assert_eq!((reading.status, &reading.dropped[..], &reading.repairs[..]), (expected, &[][..], &[][..]), "{}", raw);
        prop_assert_eq!(&reading.extraction, &extraction, "{}", raw);
        prop_assert_eq!(render_entities(&reading.extraction, &schema()), raw);
    }

    #[test]
    fn rendered_relations_among_names_that_occur_once_come_back(order in Just((0..6).collect::<Vec<usize>>()).prop_shuffle(), picks in prop::collection::btree_set((0usize..2, 0usize..3, 0usize..3), 0..6)) {
        let names = ["Ann", "Zoë", "王芳", "Acme \"A\"", "New York Inc", "北京"];
        let mut text = String::new();
        let mut entities: Vec<Entity> = Vec::new();
        for at in order {
            let start = text.len();
            text.push_str(names[at]);
            let span = Span::new(&text, start..text.len()).ok();
            let label = if at < 3 { "PER" } else { "ORG" };
            entities.push(Entity { label: label.into(), text: names[at].into(), span, confidence: None });
            text.push_str(", ");
        }
        let of = |label: &str, at: usize| entities.iter().enumerate().filter(|(_, e)| e.label == label).nth(at).unwrap().0;
        let relations = picks.into_iter().filter_map(|(kind, head, tail)| match kind {
            0 => Some(Relation { label: "works_for".into(), head: of("PER", head), tail: of("ORG", tail), confidence: None }),
            _ if head < tail => Some(Relation { label: "married_to".into(), head: of("PER", head), tail: of("PER", tail), confidence: None }),
            _ => None,
        });
        let extraction = Extraction { relations: relations.collect(), entities: entities.clone(), events: vec![] };
        let raw = render_relations(&extraction, &schema());
        let reading = read_relations(&raw, Finish::Stop, &schema(), &entities);
        prop_assert_eq!(reading.dropped, vec![]);
        let back = Extraction { relations: reading.relations, entities, events: vec![] };
        prop_assert_eq!(back.sorted(), extraction.sorted());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in text()) {
        let raw = String::from_utf8_lossy(&bytes);
        let reading = read(&raw, &text);
        found(&reading, &text);
        prop_assert_eq!(reading.provenance.len(), reading.extraction.entities.len());
    }

    #[test]
    fn near_json_never_panics_and_what_is_kept_stands_in_the_text(raw in jsonish(), text in text()) {
        let reading = read(&raw, &text);
        for (_, surface, _, _) in found(&reading, &text) {
            prop_assert!(text.contains(surface));
        }
        prop_assert_eq!(reading.error.is_some(), matches!(reading.status, Status::Failed | Status::Refused));
        prop_assert_eq!(reading.status == Status::Ok, !reading.extraction.is_empty());
        let labels: Vec<Entity> = reading.extraction.entities;
        read_relations(&raw, Finish::Stop, &schema(), &labels);
    }

    #[test]
    fn strict_reading_accepts_what_serde_json_accepts(raw in jsonish()) {
        let ours = read_strict(&raw, 0..raw.len());
        match serde_json::from_str::<serde_json::Value>(&raw) {
            Ok(value) => {
                prop_assert_eq!(as_serde(&ours.unwrap()), value);
                let mut notes = Notes::new();
                prop_assert_eq!(as_serde(&read_value(&raw, 0..raw.len(), Some(&mut notes)).unwrap()), serde_json::from_str::<serde_json::Value>(&raw).unwrap());
                prop_assert!(notes.is_empty());
            }
            // A number is kept as it is written; one beyond an f64 is JSON all the same.
            Err(error) if error.to_string().starts_with("number out of range") => {}
            Err(error) => prop_assert!(ours.is_err() || raw.contains("\\ud83d"), "{}: {}", raw, error),
        }
    }
}
