//! The sample corpus as the library reads it: every offset, ordinal and signature.
//! `scripts/check_sample.py` checks the same files without the library, and more.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use understudy::ie::record::ExtractionRecord;
use understudy::ie::{Extraction, Schema};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: String,
    text: String,
    gold: Option<ExtractionRecord>,
    meta: serde_json::Map<String, serde_json::Value>,
}

fn sample(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample").join(file)
}

fn schema() -> Schema {
    toml::from_str(&std::fs::read_to_string(sample("schema.toml")).unwrap()).unwrap()
}

/// The split's documents; gold is read through the library, which checks offsets and ordinals.
fn split(name: &str) -> Vec<(Line, Option<Extraction>)> {
    let text = std::fs::read_to_string(sample(&format!("{name}.jsonl"))).unwrap();
    let read = |(at, row): (usize, &str)| {
        let mut line: Line =
            serde_json::from_str(row).unwrap_or_else(|error| panic!("{name}.jsonl:{}: {error}", at + 1));
        let gold = line.gold.take();
        let gold = gold.map(|gold| gold.read(&line.text).unwrap_or_else(|error| panic!("{}: {error}", line.id)));
        (line, gold)
    };
    text.lines().enumerate().map(read).collect()
}

#[test]
fn the_schema_is_sound_and_every_type_is_defined() {
    let schema = schema();
    schema.check().unwrap();
    assert_eq!((schema.entities.len(), schema.relations.len(), schema.events.len()), (5, 5, 3));
    assert!(schema.entities.iter().all(|t| !t.definition.is_empty() && t.examples.len() >= 2));
    assert!(schema.relations.iter().all(|t| !t.definition.is_empty() && !t.head.is_empty() && !t.tail.is_empty()));
    assert!(
        schema.events.iter().all(|t| !t.definition.is_empty() && t.roles.iter().all(|role| !role.types.is_empty()))
    );
    // An alias that is also another type's name would turn one type into another.
    let mut names = BTreeSet::new();
    for entity in &schema.entities {
        for name in entity.aliases.iter().chain([&entity.label]) {
            assert!(names.insert(name.to_lowercase()), "{name} names two entity types");
        }
    }
}

#[test]
fn the_splits_have_their_sizes_and_dev_and_test_are_annotated() {
    // 240 / 30 / 70, as data/README.md states; 64 of train are annotated.
    for (name, texts, annotated) in [("train", 240, 64), ("dev", 30, 30), ("test", 70, 70)] {
        let documents = split(name);
        assert_eq!(documents.len(), texts, "{name}");
        let gold: Vec<&Extraction> = documents.iter().filter_map(|(_, gold)| gold.as_ref()).collect();
        assert_eq!(gold.len(), annotated, "{name}");
        let silent = gold.iter().filter(|gold| gold.entities.is_empty()).count();
        assert!(silent * 100 >= 15 * annotated, "{name}: {silent} of {annotated} annotated texts have no entity");
        assert!(documents.iter().all(|(line, _)| line.meta.contains_key("domain")), "{name}");
    }
}

#[test]
fn ids_and_texts_are_unique_over_all_splits() {
    let (mut ids, mut texts) = (BTreeSet::new(), BTreeSet::new());
    for (line, _) in ["train", "dev", "test"].into_iter().flat_map(split) {
        assert!(texts.insert(line.text.to_lowercase()), "{}: text given twice", line.id);
        assert!(ids.insert(line.id.clone()), "{}: id given twice", line.id);
    }
    assert_eq!(ids.len(), 340);
}

#[test]
fn every_mention_is_located_typed_flat_and_in_text_order() {
    let schema = schema();
    for (line, gold) in ["train", "dev", "test"].into_iter().flat_map(split) {
        let mut end = 0;
        for entity in gold.iter().flat_map(|gold| &gold.entities) {
            let span = entity.span.unwrap_or_else(|| panic!("{}: {} is not located", line.id, entity.text));
            assert_eq!(span.slice(&line.text), entity.text, "{}", line.id);
            assert!(schema.entity(&entity.label).is_some(), "{}: type {}", line.id, entity.label);
            assert!(span.start() >= end, "{}: {} overlaps or is out of order", line.id, entity.text);
            end = span.end();
        }
    }
}

#[test]
fn every_relation_fits_its_signature_and_stands_once() {
    let schema = schema();
    let mut seen = 0;
    for (line, gold) in ["train", "dev", "test"].into_iter().flat_map(split) {
        let Some(gold) = gold else { continue };
        let mut pairs = BTreeSet::new();
        for relation in &gold.relations {
            let known = schema.relation(&relation.label).unwrap_or_else(|| panic!("{}: {}", line.id, relation.label));
            let (head, tail) = (&gold.entities[relation.head], &gold.entities[relation.tail]);
            let said = format!("{}: {}({}, {})", line.id, relation.label, head.text, tail.text);
            assert!(known.allows(&head.label, &tail.label) && relation.head != relation.tail, "{said}");
            assert!(pairs.insert((&relation.label, relation.head, relation.tail)), "{said} is given twice");
            seen += 1;
        }
    }
    assert!(seen >= 100, "{seen} relations");
}

#[test]
fn every_event_argument_is_an_entity_that_its_role_allows() {
    let schema = schema();
    let mut seen = 0;
    for (line, gold) in ["train", "dev", "test"].into_iter().flat_map(split) {
        let Some(gold) = gold else { continue };
        for event in &gold.events {
            let known = schema.events.iter().find(|known| known.label == event.label);
            let known = known.unwrap_or_else(|| panic!("{}: {}", line.id, event.label));
            assert!(event.trigger.span.is_some(), "{}: trigger {}", line.id, event.trigger.text);
            for argument in &event.arguments {
                let said = format!("{}: {}.{} = {}", line.id, event.label, argument.role, argument.text);
                let role = known.roles.iter().find(|role| role.label == argument.role);
                let filler = gold.entities.iter().find(|entity| entity.span == argument.span);
                let (Some(role), Some(filler)) = (role, filler) else {
                    panic!("{said}: no such role or no such entity")
                };
                assert!(role.types.contains(&filler.label), "{said}: a {}", filler.label);
                seen += 1;
            }
        }
    }
    assert!(seen >= 100, "{seen} arguments");
}

#[test]
fn a_gold_extraction_survives_the_round_trip_through_records() {
    for (line, gold) in ["train", "dev", "test"].into_iter().flat_map(split) {
        let Some(gold) = gold else { continue };
        let record = ExtractionRecord::of(&gold, &line.text);
        assert_eq!(record.read(&line.text).unwrap(), gold, "{}", line.id);
    }
}
