//! One JSON record a document, or a few: GLiNER, InstructUIE, UniversalNER's conversations, the
//! instructions of IEPile and OneKE.

use crate::ie::{Document, Entity, Event, Extraction, Schema, Span};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Labels that one IEPile question asks for: entity types, and relation or event types.
const SPLIT: (usize, usize) = (6, 4);
/// A role without a filler.
const ABSENT: &str = "NAN";
const SOURCE: &str = "understudy";

/// InstructUIE's record: items by name and code points.
pub(super) fn instructuie(document: &Document, related: bool) -> Value {
    let gold = document.gold.clone().unwrap_or_default();
    let pos = |span: Option<Span>| {
        let at = span.map(|span| span.to_code_points(&document.text));
        at.map_or_else(|| json!([]), |(start, end)| json!([start, end]))
    };
    let named = |entity: &Entity| json!({"name": entity.text, "type": entity.label, "pos": pos(entity.span)});
    let entities: Vec<Value> = gold.entities.iter().map(named).collect();
    let link = |relation: &crate::ie::Relation| json!({"type": relation.label, "head": entities[relation.head], "tail": entities[relation.tail]});
    let relations: Vec<Value> = gold.relations.iter().map(link).collect();
    let mut record = json!({"id": document.id, "sentence": document.text, "entities": entities});
    if related {
        record["relations"] = json!(relations);
    }
    if !gold.events.is_empty() {
        let happening = |event: &Event| {
            let filler = |one: &crate::ie::Argument| json!({"name": one.text, "role": one.role, "pos": pos(one.span)});
            let arguments: Vec<Value> = event.arguments.iter().map(filler).collect();
            json!({"trigger": event.trigger.text, "type": event.label, "pos": pos(event.trigger.span), "arguments": arguments})
        };
        record["events"] = gold.events.iter().map(happening).collect();
    }
    record
}

/// UniversalNER's conversation: the text, then one question for each type, also for those that are not there.
pub(super) fn universalner(document: &Document, schema: &Schema) -> Value {
    let gold = document.gold.clone().unwrap_or_default();
    let turn = |from: &str, value: String| json!({"from": from, "value": value});
    let mut turns = vec![turn("human", format!("Text: {}", document.text)), turn("gpt", "I've read this text.".into())];
    for kind in &schema.entities {
        turns.push(turn("human", format!("What describes {} in the text?", kind.label)));
        turns.push(turn("gpt", json!(surfaces(&gold, &kind.label)).to_string()));
    }
    json!({"id": document.id, "conversations": turns})
}

/// IEPile's records: a few labels a question, the answer by label; relations are asked for if they
/// were looked for.
pub(super) fn iepile(document: &Document, schema: &Schema, related: bool) -> Vec<Value> {
    let gold = document.gold.clone().unwrap_or_default();
    let mut records = Vec::new();
    let mut ask = |task: &str, told: &str, schema: Value, output: Map<String, Value>| {
        let instruction = json!({"instruction": told, "schema": schema, "input": document.text}).to_string();
        let output = Value::Object(output).to_string();
        records.push(json!({"task": task, "source": SOURCE, "instruction": instruction, "output": output}));
    };
    for part in schema.entities.chunks(SPLIT.0) {
        let labels: Vec<&str> = part.iter().map(|kind| kind.label.as_str()).collect();
        let output = labels.iter().map(|label| ((*label).into(), json!(surfaces(&gold, label)))).collect();
        ask("NER", ENTITIES, json!(labels), output);
    }
    let relations = if related { schema.relations.as_slice() } else { &[] };
    for part in relations.chunks(SPLIT.1) {
        let labels: Vec<&str> = part.iter().map(|kind| kind.label.as_str()).collect();
        let output = labels.iter().map(|label| ((*label).into(), pairs(&gold, label))).collect();
        ask("RE", RELATIONS, json!(labels), output);
    }
    for part in schema.events.chunks(SPLIT.1) {
        let asked = part.iter().map(|kind| {
            let roles: Vec<&str> = kind.roles.iter().map(|role| role.label.as_str()).collect();
            json!({"event_type": kind.label, "trigger": true, "arguments": roles})
        });
        let output = part.iter().map(|kind| {
            let roles: Vec<&str> = kind.roles.iter().map(|role| role.label.as_str()).collect();
            let of = gold.events.iter().filter(|event| event.label == kind.label);
            (kind.label.clone(), of.map(|event| happening(event, &roles)).collect())
        });
        ask("EE", EVENTS, asked.collect(), output.collect());
    }
    records
}

const ENTITIES: &str = "You find named entities. List the entities of each type of the schema in the input; a type \
                        without any gets an empty list. Answer with a JSON object.";
const RELATIONS: &str = "You find relations. List subject and object of each relation of the schema in the input; a \
                         relation without any gets an empty list. Answer with a JSON object.";
const EVENTS: &str = "You find events. List the events of each type of the schema in the input; a type without any gets \
                      an empty list, a role without a filler NAN, one with several a list. Answer with a JSON object.";

/// The names of one type, each once, in text order.
fn surfaces<'g>(gold: &'g Extraction, label: &str) -> Vec<&'g str> {
    let mut of: Vec<&Entity> = gold.entities.iter().filter(|entity| entity.label == label).collect();
    of.sort_by_key(|entity| (entity.span.is_none(), entity.span));
    let mut seen = BTreeSet::new();
    of.into_iter().map(|entity| entity.text.as_str()).filter(|text| seen.insert(*text)).collect()
}

fn pairs(gold: &Extraction, label: &str) -> Value {
    let mut seen = BTreeSet::new();
    let of = gold.relations.iter().filter(|relation| relation.label == label);
    let ends =
        of.map(|relation| (gold.entities[relation.head].text.as_str(), gold.entities[relation.tail].text.as_str()));
    ends.filter(|pair| seen.insert(*pair)).map(|(head, tail)| json!({"subject": head, "object": tail})).collect()
}

fn happening(event: &Event, roles: &[&str]) -> Value {
    let fillers = |role: &str| {
        let mut texts =
            event.arguments.iter().filter(|one| one.role == role).map(|one| one.text.as_str()).collect::<Vec<_>>();
        match texts.len() {
            0 => json!(ABSENT),
            1 => json!(texts.remove(0)),
            _ => json!(texts),
        }
    };
    let arguments: Map<String, Value> = roles.iter().map(|role| ((*role).to_string(), fillers(role))).collect();
    json!({"trigger": event.trigger.text, "arguments": arguments})
}

#[cfg(test)]
mod tests {
    use super::super::{Target, WayBack};
    use crate::corpus::{Options, convert, format};
    use crate::ie::record::{EntityRecord, ExtractionRecord, RelationRecord};
    use crate::ie::{Document, EntityType, RelationType, Schema};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Eight entity and five relation types: more than one question of IEPile asks.
    fn schema() -> Schema {
        let entity = |at: usize| EntityType {
            label: format!("type {at}"),
            definition: String::new(),
            aliases: vec![],
            examples: vec![],
        };
        let relation = |at: usize| RelationType {
            label: format!("link {at}"),
            definition: String::new(),
            head: vec![],
            tail: vec![],
            symmetric: false,
            aliases: vec![],
        };
        Schema { entities: (0..8).map(entity).collect(), relations: (0..5).map(relation).collect(), events: vec![] }
    }

    /// A text of different words, some of them mentions and some mentions linked.
    fn document() -> impl Strategy<Value = Document> {
        let word =
            prop::sample::select(vec!["Ann", "Köln", "\"Q\"", "王芳", "C:\\x", "O'Hara", "🗼", "Zoe\u{308}", "a"]);
        let words = prop::collection::vec((word, 0usize..16), 1..12);
        (words, prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0usize..5), 0..5))
            .prop_map(|(words, links)| {
                let (mut text, mut entities) = (String::new(), Vec::new());
                for (at, (word, label)) in words.iter().enumerate() {
                    let surface = format!("{word}{at}");
                    let start = text.chars().count();
                    text += &format!("{surface} ");
                    // Half of the words are no mentions.
                    if *label < 8 {
                        let end = Some(start + surface.chars().count());
                        let (label, start) = (format!("type {label}"), Some(start));
                        entities.push(EntityRecord {
                            label,
                            text: surface,
                            start,
                            end,
                            confidence: None,
                            confidence_source: None,
                        });
                    }
                }
                let relation =
                    |(head, tail, label): &(prop::sample::Index, prop::sample::Index, usize)| RelationRecord {
                        label: format!("link {label}"),
                        head: head.index(entities.len()),
                        tail: tail.index(entities.len()),
                        confidence: None,
                        confidence_source: None,
                    };
                let relations = if entities.is_empty() {
                    vec![]
                } else {
                    links.iter().map(relation).filter(|one| one.head != one.tail).collect()
                };
                let text = text.trim_end().to_string();
                let gold = ExtractionRecord { entities, relations, events: vec![] }.read(&text).unwrap();
                Document { gold: Some(gold), ..Document::new("d", text) }
            })
    }

    fn back(target: Target, name: &str, document: &Document) -> Document {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.json");
        let mut writer = WayBack::new(target, true).asking(schema());
        let mut bytes = writer.document(document, &[]);
        bytes.extend(writer.end());
        std::fs::write(&path, &bytes).unwrap();
        let mut found = Vec::new();
        let read = convert(&[(path, format(name).unwrap())], &Options::default(), &mut |document, _| {
            found.push(document.clone());
            Ok(())
        });
        read.unwrap_or_else(|error| panic!("{name}: {error}\n{}", String::from_utf8_lossy(&bytes)));
        assert_eq!(found.len(), 1, "{name}");
        found.remove(0)
    }

    type Facts = (BTreeSet<(String, String)>, BTreeSet<(String, String, String)>);

    fn facts(document: &Document) -> Facts {
        let gold = document.gold.clone().unwrap_or_default();
        let name = |at: usize| gold.entities[at].text.clone();
        let typed =
            gold.entities.iter().filter(|one| one.label != "entity").map(|one| (one.label.clone(), one.text.clone()));
        (
            typed.collect(),
            gold.relations.iter().map(|one| (one.label.clone(), name(one.head), name(one.tail))).collect(),
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_our_own_readers_read(document in document()) {
            let found = back(Target::InstructUie, "instructuie", &document);
            prop_assert_eq!(&found.text, &document.text);
            prop_assert_eq!(found.gold.as_ref().unwrap(), document.gold.as_ref().unwrap());

            let (typed, links) = facts(&document);
            let found = back(Target::IePile, "iepile", &document);
            prop_assert_eq!((&found.text, facts(&found)), (&document.text, (typed.clone(), links)));
            let found = back(Target::UniversalNer, "universalner", &document);
            prop_assert_eq!((&found.text, facts(&found).0), (&document.text, typed.clone()));
            // Words alone make the text: white space alone ends a token here, as in the source.
            let found = back(Target::Gliner, "gliner", &document);
            prop_assert_eq!(facts(&found).0, typed);
        }
    }

    #[test]
    fn a_question_of_iepile_asks_for_six_types_or_four_relations_at_most() {
        let document = Document { gold: Some(Default::default()), ..Document::new("d", "Ann") };
        let records = super::iepile(&document, &schema(), true);
        let asked = |record: &serde_json::Value| {
            let inner: serde_json::Value = serde_json::from_str(record["instruction"].as_str().unwrap()).unwrap();
            (record["task"].as_str().unwrap().to_string(), inner["schema"].as_array().unwrap().len())
        };
        let asked: Vec<(String, usize)> = records.iter().map(asked).collect();
        assert_eq!(asked, [("NER".into(), 6), ("NER".into(), 2), ("RE".into(), 4), ("RE".into(), 1)]);
    }
}
