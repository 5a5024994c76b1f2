//! What is written is read back: every writer against the reader of its format.

use super::{Target, WayBack, tokenised};
use crate::corpus::{Options, Scheme, convert, format};
use crate::ie::{Document, Entity, EntityType, Extraction, Relation, RelationType, Schema, Span};
use proptest::prelude::*;
use std::ops::Range;

const LABELS: [&str; 3] = ["person", "organisation", "地点"];

fn schema() -> Schema {
    let kind = |label: &str| EntityType {
        label: label.into(),
        definition: String::new(),
        aliases: Vec::new(),
        examples: Vec::new(),
    };
    let link = |label: &str| RelationType {
        label: label.into(),
        definition: String::new(),
        head: Vec::new(),
        tail: Vec::new(),
        symmetric: false,
        aliases: Vec::new(),
    };
    Schema {
        entities: LABELS.into_iter().map(kind).collect(),
        relations: vec![link("works for"), link("lives in")],
        events: Vec::new(),
    }
}

/// A text of tokens, and where they stand.
#[derive(Clone, Debug)]
struct Sample {
    document: Document,
    tokens: Vec<Range<usize>>,
}

/// Documents in one script: words with spaces between them, or characters without. Mentions may be
/// nested, cross each other, and begin or end inside a word.
fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let mention = (0..100usize, 1..4usize, 0..LABELS.len(), prop::bool::weighted(0.2));
    let link = (0..100usize, 0..100usize, 0..2usize);
    let document = (
        prop::collection::vec(0..8usize, 1..14),
        prop::collection::vec(mention, 0..7),
        prop::collection::vec(link, 0..4),
    );
    (any::<bool>(), prop::collection::vec(document, 1..4)).prop_map(|(spaced, documents)| {
        let made = documents.into_iter().enumerate();
        made.map(|(at, (words, mentions, links))| sample(at, spaced, &words, &mentions, &links)).collect()
    })
}

fn sample(
    at: usize,
    spaced: bool,
    words: &[usize],
    mentions: &[(usize, usize, usize, bool)],
    links: &[(usize, usize, usize)],
) -> Sample {
    let vocabulary: [&str; 8] = if spaced {
        ["Ann", "Anna", "runs", "Acme", "in", "Bern", "Zürich", "1999"]
    } else {
        ["李", "雷", "在", "北", "京", "大", "学", "工"]
    };
    // The first word tells documents apart: IEPile has no ids, and takes one text for one document.
    let mut text = if spaced { format!("d{at}") } else { "一二三四".chars().skip(at).take(1).collect() };
    let first = 0..text.len();
    let mut tokens = vec![first];
    for word in words {
        text.push_str(if spaced { " " } else { "" });
        tokens.push(text.len()..text.len() + vocabulary[*word].len());
        text.push_str(vocabulary[*word]);
    }
    let mut gold = Extraction::default();
    for (first, length, label, inside) in mentions {
        let first = first % tokens.len();
        let last = (first + length).min(tokens.len()) - 1;
        let shift = text[tokens[first].start..].chars().next().map_or(0, char::len_utf8);
        let start = tokens[first].start + if *inside && spaced { shift } else { 0 };
        if let Ok(span) = Span::new(&text, start..tokens[last].end) {
            let (label, words) = (LABELS[*label].to_string(), span.slice(&text).to_string());
            gold.entities.push(Entity { label, text: words, span: Some(span), confidence: None });
        }
    }
    for (head, tail, label) in links.iter().filter(|_| !gold.entities.is_empty()) {
        let label = ["works for", "lives in"][*label].to_string();
        let count = gold.entities.len();
        gold.relations.push(Relation { label, head: head % count, tail: tail % count, confidence: None });
    }
    let id = format!("d{at}");
    Sample { document: Document { id, text, gold: Some(gold.sorted()), meta: String::new() }, tokens }
}

fn gold(document: &Document) -> Extraction {
    document.gold.clone().unwrap().sorted()
}

/// What the reader of a format says of these bytes.
fn read(name: &str, bytes: &[u8]) -> Vec<Document> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    // A relation between two mentions of the same words looks like one from a mention to itself.
    let options = Options { scheme: Some(Scheme::Iob2), check: true, ..Options::default() };
    let mut found = Vec::new();
    convert(&[(path, format(name).unwrap())], &options, &mut |document, _| {
        found.push(document.clone());
        Ok(())
    })
    .unwrap();
    found
}

/// Writes and reads again.
fn there_and_back(samples: &[Sample], target: Target, name: &str) -> (WayBack, Vec<Document>) {
    let mut writer = WayBack::new(target, false).asking(schema());
    let mut bytes: Vec<u8> = samples.iter().flat_map(|sample| writer.document(&sample.document, &[])).collect();
    bytes.extend(writer.end());
    let found = read(name, &bytes);
    assert_eq!(writer.items + lost(&writer), counted(samples), "what is not written is counted");
    (writer, found)
}

/// The mentions that begin and end where tokens do, and the relations between them.
fn aligned(sample: &Sample) -> Extraction {
    let mut gold = gold(&sample.document);
    let starts = |at: usize| sample.tokens.iter().any(|token| token.start == at);
    gold.retain_entities(|entity| entity.span.is_some_and(|span| starts(span.start())));
    gold.sorted()
}

fn lost(writer: &WayBack) -> usize {
    writer.left_out.values().map(|(count, _)| count).sum()
}

/// All mentions and relations.
fn counted(samples: &[Sample]) -> usize {
    samples.iter().map(|sample| gold(&sample.document)).map(|gold| gold.entities.len() + gold.relations.len()).sum()
}

/// Label and words of every mention, each once.
fn named(found: &Extraction) -> Vec<(String, String)> {
    let mut all: Vec<_> = found.entities.iter().map(|entity| (entity.label.clone(), entity.text.clone())).collect();
    all.sort();
    all.dedup();
    all
}

/// Label and the words of both ends of every relation.
fn linked(found: &Extraction) -> Vec<(String, String, String)> {
    let name = |at: usize| found.entities[at].text.clone();
    let links = found.relations.iter().map(|link| (link.label.clone(), name(link.head), name(link.tail)));
    let mut all: Vec<_> = links.collect();
    all.sort();
    all.dedup();
    all
}

proptest! {
    #[test]
    fn gliner_holds_every_mention_of_whole_words(samples in samples()) {
        let (_, found) = there_and_back(&samples, Target::Gliner, "gliner");
        prop_assert_eq!(found.len(), samples.len());
        for (sample, found) in samples.iter().zip(&found) {
            prop_assert_eq!(&sample.document.text, &found.text);
            prop_assert_eq!(&sample.document.id, &found.id);
            prop_assert_eq!(aligned(sample).entities, gold(found).entities);
        }
    }

    #[test]
    fn spert_holds_every_mention_of_whole_words_and_the_relations_between_them(samples in samples()) {
        let (_, found) = there_and_back(&samples, Target::Spert, "spert");
        for (sample, found) in samples.iter().zip(&found) {
            prop_assert_eq!(&sample.document.text, &found.text);
            prop_assert_eq!(aligned(sample), gold(found));
        }
    }

    #[test]
    fn conll_holds_mentions_that_do_not_overlap_and_counts_the_others(samples in samples()) {
        let (writer, found) = there_and_back(&samples, Target::Conll, "conll");
        let mut kept = 0;
        for (sample, found) in samples.iter().zip(&found) {
            prop_assert_eq!(&sample.document.text, &found.text);
            let (whole, found) = (aligned(sample).entities, gold(found).entities);
            kept += found.len();
            prop_assert!(found.iter().all(|entity| whole.contains(entity)), "{:?} in {:?}", found, whole);
            // Nothing is left out without need: it overlaps something that is there.
            for entity in &whole {
                let span = entity.span.unwrap();
                prop_assert!(found.iter().any(|other| other == entity || other.span.unwrap().overlaps(&span)));
            }
        }
        prop_assert_eq!(kept, writer.items);
    }

    #[test]
    fn instructuie_holds_everything(samples in samples()) {
        let (writer, found) = there_and_back(&samples, Target::InstructUie, "instructuie");
        for (sample, found) in samples.iter().zip(&found) {
            prop_assert_eq!(&sample.document.text, &found.text);
            prop_assert_eq!(gold(&sample.document), gold(found));
        }
        prop_assert_eq!((lost(&writer), writer.moved), (0, 0));
    }

    #[test]
    fn universalner_holds_the_words_of_every_mention_and_counts_lost_places(samples in samples()) {
        let (writer, found) = there_and_back(&samples, Target::UniversalNer, "universalner");
        let mut moved = 0;
        for (sample, found) in samples.iter().zip(&found) {
            prop_assert_eq!(&sample.document.text, &found.text);
            let (wanted, read) = (gold(&sample.document), found.gold.clone().unwrap());
            prop_assert_eq!(named(&wanted), named(&read));
            for entity in &read.entities {
                let same = |other: &&Entity| other.label == entity.label && other.text == entity.text;
                // The mentions of `wanted` are in the order of the text.
                moved += usize::from(wanted.entities.iter().find(same).unwrap().span != entity.span);
            }
        }
        prop_assert_eq!(moved, writer.moved);
    }

    #[test]
    fn iepile_holds_the_words_of_every_mention_and_relation(samples in samples()) {
        let (_, found) = there_and_back(&samples, Target::IePile, "iepile");
        prop_assert_eq!(found.len(), samples.len());
        for (sample, found) in samples.iter().zip(&found) {
            prop_assert_eq!(&sample.document.text, &found.text);
            let (wanted, mut read) = (gold(&sample.document), found.gold.clone().unwrap());
            prop_assert_eq!(linked(&wanted), linked(&read));
            // The reader gives the ends of relations a type of their own.
            read.retain_entities(|entity| entity.label != "entity");
            prop_assert_eq!(named(&wanted), named(&read));
        }
    }
}

#[test]
fn what_a_format_has_no_place_for_is_counted_with_an_example() {
    let text = "NAN met Ann; Ann left";
    let entity = |label: &str, start: usize, end: usize| Entity {
        label: label.into(),
        text: text[start..end].into(),
        span: Span::new(text, start..end).ok(),
        confidence: None,
    };
    let relation = |label: &str, head: usize| Relation { label: label.into(), head, tail: 1, confidence: None };
    let gold = Extraction {
        entities: vec![
            entity("person", 0, 3),
            entity("person", 8, 11),
            entity("person", 13, 16),
            entity("stranger", 4, 7),
            entity("organisation", 13, 16),
        ],
        relations: vec![relation("works for", 0), relation("owns", 1), relation("lives in", 2)],
        events: Vec::new(),
    };
    let document = Document { id: "a".into(), text: text.into(), gold: Some(gold), meta: String::new() };
    let mut writer = WayBack::new(Target::IePile, false).asking(schema());
    writer.looked_for_relations(true);
    writer.document(&document, &[]);
    let told: Vec<(&str, usize, &str)> =
        writer.left_out.iter().map(|(what, (count, example))| (*what, *count, example.as_str())).collect();
    assert_eq!(
        told,
        [
            ("mentions of the word that stands for nothing", 1, "a: \"NAN\""),
            ("mentions whose label the schema does not have", 1, "a: \"met\""),
            ("mentions whose words are listed already", 1, "a: \"Ann\""),
            ("relations whose ends were left out", 1, "a: \"works for\""),
            ("relations whose label the schema does not have", 1, "a: \"owns\""),
        ]
    );
    // Two names and one relation; the organisation is read at the first "Ann".
    assert_eq!((writer.items, writer.moved, writer.records), (3, 1, 2));
}

#[test]
fn of_relations_that_nobody_looked_for_nothing_is_said() {
    let document = Document { gold: Some(Extraction::default()), ..Document::new("a", "Ann") };
    for (target, asked, silent) in [(Target::InstructUie, "relations", 1), (Target::IePile, "works for", 1)] {
        let mut writer = WayBack::new(target, false).asking(schema());
        let mut text = || String::from_utf8(writer.document(&document, &[])).unwrap();
        assert!(text().contains(asked));
        let mut writer = WayBack::new(target, false).asking(schema());
        writer.looked_for_relations(false);
        let quiet = String::from_utf8(writer.document(&document, &[])).unwrap();
        assert!(!quiet.contains(asked), "{quiet}");
        assert_eq!(writer.records, silent);
    }
}

#[test]
fn tokens_end_at_spaces_signs_and_characters_without_spaces() {
    let words = |text: &'static str, by_space| -> Vec<&str> {
        tokenised(text, by_space).into_iter().map(|range| &text[range]).collect()
    };
    assert_eq!(words("Ann's 3rd dog, 李雷。", false), ["Ann", "'", "s", "3rd", "dog", ",", "李", "雷", "。"]);
    assert_eq!(words(" Ann's\u{3000}dog, 李雷 ", true), ["Ann's", "dog,", "李雷"]);
    assert_eq!(words("", false), [""; 0]);
}
