//! Claims about the answer format, by the part that they are about.

#![cfg(test)]

mod cases;
mod grammar;
mod grounding;
mod languages;
mod links;
mod properties;
mod repairs;

use super::{Finish, Reading, read_answer};
use crate::ie::{EntityType, EventType, RelationType, Role, Schema};

/// A type with one alias or none.
fn entity(label: &str, alias: &str) -> EntityType {
    let aliases = if alias.is_empty() { vec![] } else { vec![alias.to_owned()] };
    EntityType { label: label.into(), definition: String::new(), aliases, examples: vec![] }
}

/// PER (person), ORG (organization), LOC; works_for PER -> ORG, born_in PER -> LOC, married_to
/// (symmetric) PER -> PER; Dismiss with Person: PER and Place: any.
fn schema() -> Schema {
    let relation = |label: &str, head: &str, tail: &str, symmetric| RelationType {
        label: label.into(),
        definition: String::new(),
        head: vec![head.into()],
        tail: vec![tail.into()],
        symmetric,
        aliases: vec![],
    };
    let role = |label: &str, types: &[&str]| Role {
        label: label.into(),
        types: types.iter().map(|&t| t.to_owned()).collect(),
        definition: String::new(),
    };
    Schema {
        entities: vec![entity("PER", "person"), entity("ORG", "organization"), entity("LOC", "")],
        relations: vec![
            relation("works_for", "PER", "ORG", false),
            relation("born_in", "PER", "LOC", false),
            relation("married_to", "PER", "PER", true),
        ],
        events: vec![EventType {
            label: "Dismiss".into(),
            definition: String::new(),
            roles: vec![role("Person", &["PER"]), role("Place", &[])],
        }],
    }
}

fn read(raw: &str, text: &str) -> Reading {
    read_answer(raw, Finish::Stop, text, &schema())
}

/// Label, surface, code points.
type Found<'a> = (&'a str, &'a str, usize, usize);

/// The entities of a reading; panics where a surface is not what stands at its offsets.
fn found<'a>(reading: &'a Reading, text: &str) -> Vec<Found<'a>> {
    let entities = reading.extraction.entities.iter();
    entities
        .map(|entity| {
            let span = entity.span.unwrap();
            assert_eq!(span.slice(text), entity.text);
            let (start, end) = span.to_code_points(text);
            (entity.label.as_str(), entity.text.as_str(), start, end)
        })
        .collect()
}

/// The items dropped and why.
fn dropped(reading: &Reading) -> Vec<(&str, &str)> {
    reading.dropped.iter().map(|dropped| (dropped.item.as_str(), dropped.reason.as_str())).collect()
}
