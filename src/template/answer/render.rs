//! An extraction as team and student write it: compact JSON grouped by type.

use crate::ie::{Entity, Event, EventType, Extraction, Schema};
use std::collections::HashSet;

/// The entities: `{"person":["Ada Lovelace","Bob"],"location":["Paris"]}`. Keys in schema order,
/// types without a mention left out, each surface once per type in text order; `{}` for none.
/// Labels that the schema does not have are not written.
pub fn render_entities(extraction: &Extraction, schema: &Schema) -> String {
    let mut order: Vec<&Entity> = extraction.entities.iter().collect();
    order.sort_by_key(|entity| (entity.span.is_none(), entity.span));
    let groups = schema.entities.iter().map(|kind| {
        let mut seen = HashSet::new();
        let of = order.iter().filter(|entity| entity.label == kind.label && seen.insert(entity.text.as_str()));
        (kind.label.as_str(), of.map(|entity| quoted(&entity.text)).collect())
    });
    object(groups)
}

/// The relations: `{"works_for":[["Ada Lovelace","Acme"]]}`, pairs of head and tail in text
/// order, each once; of a symmetric pair the earlier mention is the head.
pub fn render_relations(extraction: &Extraction, schema: &Schema) -> String {
    let place = |entity: &Entity| (entity.span.is_none(), entity.span);
    let groups = schema.relations.iter().map(|kind| {
        let mut pairs: Vec<(&Entity, &Entity)> = extraction
            .relations
            .iter()
            .filter(|relation| relation.label == kind.label)
            .filter_map(|relation| {
                let (head, tail) = (extraction.entities.get(relation.head)?, extraction.entities.get(relation.tail)?);
                Some(if kind.symmetric && place(tail) < place(head) { (tail, head) } else { (head, tail) })
            })
            .collect();
        pairs.sort_by_key(|(head, tail)| (place(head), place(tail)));
        let mut seen = HashSet::new();
        pairs.retain(|(head, tail)| seen.insert((head.text.as_str(), tail.text.as_str())));
        let written = pairs.iter().map(|(head, tail)| format!("[{},{}]", quoted(&head.text), quoted(&tail.text)));
        (kind.label.as_str(), written.collect())
    });
    object(groups)
}

/// The events: `{"attack":[{"trigger":"seized","arguments":{"attacker":["troops"]}}]}`. Types and
/// roles in schema order, events in the order of their triggers, each once; fillers in text order.
pub fn render_events(extraction: &Extraction, schema: &Schema) -> String {
    let groups = schema.events.iter().map(|kind| {
        let mut order: Vec<&Event> = extraction.events.iter().filter(|event| event.label == kind.label).collect();
        order.sort_by_key(|event| (event.trigger.span.is_none(), event.trigger.span));
        let mut written: Vec<String> = order.into_iter().map(|event| happening(event, kind)).collect();
        let mut seen = HashSet::new();
        written.retain(|event| seen.insert(event.clone()));
        (kind.label.as_str(), written)
    });
    object(groups)
}

fn happening(event: &Event, kind: &EventType) -> String {
    let roles = kind.roles.iter().map(|role| {
        let mut fillers: Vec<_> = event.arguments.iter().filter(|argument| argument.role == role.label).collect();
        fillers.sort_by_key(|argument| (argument.span.is_none(), argument.span));
        let mut seen = HashSet::new();
        let fillers = fillers.into_iter().filter(|argument| seen.insert(argument.text.as_str()));
        (role.label.as_str(), fillers.map(|argument| quoted(&argument.text)).collect())
    });
    format!("{{\"trigger\":{},\"arguments\":{}}}", quoted(&event.trigger.text), object(roles))
}

fn object<'a>(groups: impl Iterator<Item = (&'a str, Vec<String>)>) -> String {
    let members: Vec<String> = groups
        .filter(|(_, items)| !items.is_empty())
        .map(|(label, items)| format!("{}:[{}]", quoted(label), items.join(",")))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
