//! An extraction as team and student write it: compact JSON grouped by type.

use crate::ie::{Entity, Event, EventType, Extraction, Schema};
use std::collections::HashSet;
use std::ops::Range;

/// An answer, and which of its bytes are not to be learned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The whole answer.
    pub text: String,
    /// Byte ranges, in order: of an item with the comma before it, or of a type without another item.
    pub unlearned: Vec<Range<usize>>,
}

/// The entities: `{"person":["Ada Lovelace","Bob"],"location":["Paris"]}`. Keys in schema order,
/// types without a mention left out, each surface once per type in text order; `{}` for none.
/// Labels that the schema does not have are not written.
pub fn render_entities(extraction: &Extraction, schema: &Schema) -> String {
    write_entities(extraction, schema, |_| true).text
}

/// The same, where only the entities of some ordinals are to be learned; a surface is, if one of its
/// mentions is.
pub fn write_entities(extraction: &Extraction, schema: &Schema, learned: impl Fn(usize) -> bool) -> Written {
    let mut order: Vec<(usize, &Entity)> = extraction.entities.iter().enumerate().collect();
    order.sort_by_key(|(_, entity)| (entity.span.is_none(), entity.span));
    let groups = schema.entities.iter().map(|kind| {
        let mut items: Vec<(&str, bool)> = Vec::new();
        for (at, entity) in order.iter().filter(|(_, entity)| entity.label == kind.label) {
            match items.iter_mut().find(|(text, _)| *text == entity.text) {
                Some((_, known)) => *known |= learned(*at),
                None => items.push((&entity.text, learned(*at))),
            }
        }
        (kind.label.as_str(), items.into_iter().map(|(text, learned)| (quoted(text), learned)).collect())
    });
    written(groups)
}

/// The relations: `{"works_for":[["Ada Lovelace","Acme"]]}`, pairs of head and tail in text
/// order, each once; of a symmetric pair the earlier mention is the head.
pub fn render_relations(extraction: &Extraction, schema: &Schema) -> String {
    write_relations(extraction, schema, |_| true).text
}

/// The same, where only the relations of some ordinals are to be learned.
pub fn write_relations(extraction: &Extraction, schema: &Schema, learned: impl Fn(usize) -> bool) -> Written {
    let place = |entity: &Entity| (entity.span.is_none(), entity.span);
    let groups = schema.relations.iter().map(|kind| {
        let mut pairs: Vec<(&Entity, &Entity, bool)> = extraction
            .relations
            .iter()
            .enumerate()
            .filter(|(_, relation)| relation.label == kind.label)
            .filter_map(|(at, relation)| {
                let (head, tail) = (extraction.entities.get(relation.head)?, extraction.entities.get(relation.tail)?);
                let (head, tail) =
                    if kind.symmetric && place(tail) < place(head) { (tail, head) } else { (head, tail) };
                Some((head, tail, learned(at)))
            })
            .collect();
        pairs.sort_by_key(|(head, tail, _)| (place(head), place(tail)));
        let mut items: Vec<((&str, &str), bool)> = Vec::new();
        for (head, tail, learned) in pairs {
            let names = (head.text.as_str(), tail.text.as_str());
            match items.iter_mut().find(|(known, _)| *known == names) {
                Some((_, known)) => *known |= learned,
                None => items.push((names, learned)),
            }
        }
        let pair =
            |((head, tail), learned): ((&str, &str), bool)| (format!("[{},{}]", quoted(head), quoted(tail)), learned);
        (kind.label.as_str(), items.into_iter().map(pair).collect())
    });
    written(groups)
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

/// An object whose items are learned or not.
fn written<'a>(groups: impl Iterator<Item = (&'a str, Vec<(String, bool)>)>) -> Written {
    let mut answer = Written { text: "{".into(), unlearned: Vec::new() };
    for (label, items) in groups.filter(|(_, items)| !items.is_empty()) {
        let from = answer.text.len();
        if from > 1 {
            answer.text.push(',');
        }
        answer.text += &format!("{}:[", quoted(label));
        let alone = !items.iter().any(|(_, learned)| *learned);
        for (at, (item, learned)) in items.into_iter().enumerate() {
            let from = answer.text.len();
            if at > 0 {
                answer.text.push(',');
            }
            answer.text += &item;
            if !learned && !alone {
                answer.unlearned.push(from..answer.text.len());
            }
        }
        answer.text.push(']');
        if alone {
            answer.unlearned.push(from..answer.text.len());
        }
    }
    answer.text.push('}');
    answer
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ie::{EntityType, Relation, RelationType, Span};

    const TEXT: &str = "Ann and Bo met Cé in Bern";

    fn schema() -> Schema {
        let kind = |label: &str| EntityType {
            label: label.into(),
            definition: String::new(),
            aliases: vec![],
            examples: vec![],
        };
        let relation = RelationType {
            label: "knows".into(),
            definition: String::new(),
            head: vec![],
            tail: vec![],
            symmetric: false,
            aliases: vec![],
        };
        Schema { entities: ["person", "place"].map(kind).to_vec(), relations: vec![relation], events: vec![] }
    }

    fn found() -> Extraction {
        let entity = |(label, text): (&str, &str)| {
            let start = TEXT.find(text).unwrap();
            let span = Span::new(TEXT, start..start + text.len()).ok();
            Entity { label: label.into(), text: text.into(), span, confidence: None }
        };
        let link = |head, tail| Relation { label: "knows".into(), head, tail, confidence: None };
        let entities = [("person", "Ann"), ("person", "Bo"), ("person", "Cé"), ("place", "Bern")].map(entity).to_vec();
        Extraction { entities, relations: vec![link(0, 1), link(1, 2)], events: vec![] }
    }

    /// The answer with what is not learned in brackets of its own.
    fn shown(written: &Written) -> String {
        let mut shown = written.text.clone();
        for range in written.unlearned.iter().rev() {
            shown.insert(range.end, '⟩');
            shown.insert(range.start, '⟨');
        }
        shown
    }

    #[test]
    fn an_item_that_is_not_learned_takes_the_comma_before_it_along() {
        let without = |gone: &[usize]| shown(&write_entities(&found(), &schema(), |at| !gone.contains(&at)));
        assert_eq!(without(&[]), r#"{"person":["Ann","Bo","Cé"],"place":["Bern"]}"#);
        assert_eq!(without(&[1]), r#"{"person":["Ann"⟨,"Bo"⟩,"Cé"],"place":["Bern"]}"#);
        assert_eq!(without(&[0, 2]), r#"{"person":[⟨"Ann"⟩,"Bo"⟨,"Cé"⟩],"place":["Bern"]}"#);
        assert_eq!(without(&[3]), r#"{"person":["Ann","Bo","Cé"]⟨,"place":["Bern"]⟩}"#);
        assert_eq!(without(&[0, 1, 2]), r#"{⟨"person":["Ann","Bo","Cé"]⟩,"place":["Bern"]}"#);
        let links = |gone: usize| shown(&write_relations(&found(), &schema(), |at| at != gone));
        assert_eq!(links(1), r#"{"knows":[["Ann","Bo"]⟨,["Bo","Cé"]⟩]}"#);
    }

    #[test]
    fn a_surface_is_learned_if_one_of_its_mentions_is() {
        let mut twice = found();
        twice.entities.push(Entity { span: None, ..twice.entities[0].clone() });
        let answer = |gone: &[usize]| write_entities(&twice, &schema(), |at| !gone.contains(&at));
        assert!(answer(&[0]).unlearned.is_empty() && answer(&[4]).unlearned.is_empty());
        assert_eq!(answer(&[0, 4]).unlearned.len(), 1);
    }
}
