//! What an answer claims, in any accepted shape, before its text is looked at.
//!
//! Labels are resolved by the schema (exact label, then alias, without case or edge space) and
//! the label field alone is touched, never the surface. An unknown label or a missing one drops
//! the item with a count; nothing ever gets a default or a neighbour's label.

use super::Dropped;
use super::item::{Pairs, is_field};
use super::json::{Node, Notes, Text, Value};
use super::words::is_placeholder;
use crate::ie::Schema;
use std::collections::HashMap;
use std::ops::Range;

/// A mention that the answer claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// A label of the schema.
    pub label: String,
    /// The surface as written.
    pub text: String,
    /// In `0..=1`, if the answer gave one that can be read.
    pub confidence: Option<f64>,
    /// Bytes of the surface in the raw answer, without its quotes.
    pub bytes: Range<usize>,
}

/// One end of a claimed relation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct End {
    pub text: String,
    /// A label of the schema, where the answer gives one.
    pub label: Option<String>,
}

/// A link that the answer claims.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    pub label: String,
    pub head: End,
    pub tail: End,
    pub confidence: Option<f64>,
    pub bytes: Range<usize>,
}

/// A happening that the answer claims.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Happening {
    pub label: String,
    pub trigger: String,
    /// Role as in the schema, and surface.
    pub arguments: Vec<(String, String)>,
    pub confidence: Option<f64>,
    pub item: String,
}

/// Everything that one answer claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub entities: Vec<Claim>,
    pub links: Vec<Link>,
    pub happenings: Vec<Happening>,
    pub dropped: Vec<Dropped>,
    /// Items that stand for "nothing".
    pub placeholders: usize,
}

/// Which kind of item a key groups.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Section {
    Entities,
    Relations,
    Events,
}

/// Collects the claims of every value of an answer.
pub(super) fn collect(raw: &str, values: &[Node], schema: &Schema, notes: &mut Notes) -> Claims {
    let mut collector = Collector { raw, schema, notes, claims: Claims::default(), labels: HashMap::new() };
    for value in values {
        collector.answer(value);
    }
    collector.claims
}

/// Gathers claims while it walks through the shapes.
pub(super) struct Collector<'a> {
    pub raw: &'a str,
    pub schema: &'a Schema,
    notes: &'a mut Notes,
    pub claims: Claims,
    /// Labels resolved before, by spelling and section.
    labels: HashMap<(u8, String), Option<String>>,
}

impl Collector<'_> {
    pub fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }

    pub fn drop(&mut self, item: &str, reason: impl Into<String>) {
        self.claims.dropped.push(Dropped::new(item, reason));
    }

    pub fn drop_node(&mut self, node: &Node, reason: impl Into<String>) {
        let raw = self.raw;
        self.drop(&raw[node.bytes.clone()], reason);
    }

    pub fn label(&mut self, section: Section, written: &str) -> Option<String> {
        let key = (section as u8, written.to_owned());
        if let Some(known) = self.labels.get(&key) {
            return known.clone();
        }
        let label = match section {
            Section::Entities => self.schema.entity_label(written).map(str::to_owned),
            Section::Relations => self.schema.relation_label(written).map(str::to_owned),
            Section::Events => {
                let same = |label: &&str| label.trim().to_lowercase() == written.trim().to_lowercase();
                self.schema.events.iter().map(|t| t.label.as_str()).find(same).map(str::to_owned)
            }
        };
        self.labels.insert(key, label.clone());
        label
    }

    pub fn is_label(&mut self, written: &str) -> bool {
        [Section::Entities, Section::Relations, Section::Events]
            .into_iter()
            .any(|section| self.label(section, written).is_some())
    }

    fn section(&mut self, key: &str) -> Option<Section> {
        if self.is_label(key) {
            return None;
        }
        match key.trim().to_lowercase().as_str() {
            "entities" | "named_entities" | "实体" | "实体列表" | "命名实体" | "개체" | "개체명" | "개체 목록"
            | "엔티티" | "엔터티" => Some(Section::Entities),
            "relations" | "relationships" | "triples" | "triplets" | "关系" | "关系列表" | "三元组" | "관계"
            | "관계 목록" => Some(Section::Relations),
            "events" | "事件" | "事件列表" | "이벤트" | "사건" => Some(Section::Events),
            _ => None,
        }
    }

    fn answer(&mut self, node: &Node) {
        match &node.value {
            Value::Null => {}
            Value::List(items) => items.iter().for_each(|item| self.loose(item)),
            _ => self.loose(node),
        }
    }

    /// A value that stands outside any section.
    fn loose(&mut self, node: &Node) {
        match &node.value {
            Value::Null => {}
            Value::Map(pairs) => self.map(pairs, node),
            Value::Text(text) if is_placeholder(&text.content) => self.claims.placeholders += 1,
            Value::Text(text) => self.drop(&text.content, "no type"),
            Value::List(items) => self.tuple(items, node),
            _ => self.drop_node(node, "not an item"),
        }
    }

    fn map(&mut self, pairs: &Pairs, node: &Node) {
        if let Some(section) = self.item_kind(pairs) {
            return self.item(section, pairs, node, None);
        }
        let sections: Vec<Option<Section>> = pairs.iter().map(|(key, _)| self.section(&key.content)).collect();
        let labels: Vec<bool> = pairs.iter().map(|(key, _)| self.is_label(&key.content)).collect();
        if sections.iter().any(Option::is_some) {
            for (((key, value), section), label) in pairs.iter().zip(sections).zip(labels) {
                match section {
                    Some(section) => self.within(section, value),
                    None if label => self.grouped(None, key, value),
                    None => self.note("key that is not part of an answer ignored"),
                }
            }
            return;
        }
        if !labels.contains(&true)
            && let Some(inner) = wrapped(pairs)
        {
            self.note("wrapper key removed");
            return self.answer(inner);
        }
        for ((key, value), label) in pairs.iter().zip(&labels) {
            let remark = !label && labels.contains(&true) && !matches!(value.value, Value::List(_) | Value::Map(_));
            if remark {
                self.note("key that is not part of an answer ignored"); // an explanation beside the labels
            } else {
                self.grouped(None, key, value);
            }
        }
    }

    /// The value of `entities`, `relations` or `events`.
    fn within(&mut self, section: Section, node: &Node) {
        match &node.value {
            Value::Null => {}
            Value::List(items) => {
                for item in items {
                    match &item.value {
                        Value::Map(pairs) if self.is_item(pairs) => self.item(section, pairs, item, None),
                        Value::Map(pairs) => {
                            pairs.iter().for_each(|(key, value)| self.grouped(Some(section), key, value))
                        }
                        _ => self.loose(item),
                    }
                }
            }
            Value::Map(pairs) if self.is_item(pairs) => {
                self.note("one item in place of a list");
                self.item(section, pairs, node, None);
            }
            Value::Map(pairs) => pairs.iter().for_each(|(key, value)| self.grouped(Some(section), key, value)),
            _ => self.loose(node),
        }
    }

    /// The items under one label.
    fn grouped(&mut self, section: Option<Section>, key: &Text, node: &Node) {
        let of = |wanted: Section| section.is_none_or(|section| section == wanted);
        let relation = of(Section::Relations).then(|| self.label(Section::Relations, &key.content)).flatten();
        let entity = of(Section::Entities).then(|| self.label(Section::Entities, &key.content)).flatten();
        let event = of(Section::Events).then(|| self.label(Section::Events, &key.content)).flatten();
        let Value::List(items) = &node.value else {
            if !matches!(node.value, Value::Null) {
                self.note("one value in place of a list");
                self.member(key, [entity, relation, event], node);
            }
            return;
        };
        if relation.is_some() && entity.is_none() && pair(node).is_some() {
            self.note("one pair in place of a list of pairs");
            return self.member(key, [entity, relation, event], node);
        }
        for item in items {
            self.member(key, [entity.clone(), relation.clone(), event.clone()], item);
        }
    }

    /// One item under a label; the label as entity, relation and event type where it is one.
    fn member(&mut self, key: &Text, [entity, relation, event]: [Option<String>; 3], node: &Node) {
        let unknown = || format!("unknown label \"{}\"", short(&key.content));
        match &node.value {
            Value::Null => {}
            Value::Text(text) => match entity {
                Some(label) => self.claim(label, text, None),
                None if is_placeholder(&text.content) => self.claims.placeholders += 1,
                None if relation.is_some() => self.drop(&text.content, "a relation needs a head and a tail"),
                None if event.is_some() => self.drop(&text.content, "an event needs a trigger"),
                None if !is_field(key) && self.label(Section::Entities, &text.content).is_some() => {
                    // `{"Ann": "person"}`
                    self.note("mention as a key");
                    let label = self.label(Section::Entities, &text.content).unwrap_or_default();
                    self.claim(label, key, None);
                }
                None => self.drop(&text.content, unknown()),
            },
            Value::Map(pairs) => match self.item_kind(pairs) {
                Some(Section::Entities) => self.item(Section::Entities, pairs, node, Some((key, entity))),
                Some(Section::Relations) => self.item(Section::Relations, pairs, node, Some((key, relation))),
                Some(Section::Events) => self.item(Section::Events, pairs, node, Some((key, event))),
                None => self.drop_node(node, "not an item"),
            },
            Value::List(_) => match (pair(node), relation) {
                (Some((head, tail)), Some(label)) => {
                    let end = |text: &Text| End { text: text.content.clone(), label: None };
                    if head.spoilt || tail.spoilt {
                        return self.drop_node(node, "half of a surrogate pair");
                    }
                    let (head, tail) = (end(head), end(tail));
                    self.claims.links.push(Link { label, head, tail, confidence: None, bytes: node.bytes.clone() });
                }
                (Some(_), None) => self.drop_node(node, unknown()),
                (None, _) => self.drop_node(node, "not a pair of strings"),
            },
            _ => self.drop_node(node, "not a string"),
        }
    }
}

impl Collector<'_> {
    /// `("person", "Ann")` or `("Ann", "person")`; `("Ann", "works_for", "Acme")` with its label
    /// anywhere. Which is the label must be plain from the schema.
    fn tuple(&mut self, items: &[Node], node: &Node) {
        let texts: Vec<&Text> = items
            .iter()
            .filter_map(|item| match &item.value {
                Value::Text(text) => Some(text),
                _ => None,
            })
            .collect();
        let section = match (texts.len() == items.len(), texts.len()) {
            (true, 2) => Section::Entities,
            (true, 3) => Section::Relations,
            _ => return self.drop_node(node, "a list where an item was expected"),
        };
        let labels: Vec<Option<String>> = texts.iter().map(|text| self.label(section, &text.content)).collect();
        let mut known = labels.iter().enumerate().filter_map(|(at, label)| Some((at, label.clone()?)));
        let (Some((at, label)), None) = (known.next(), known.next()) else {
            return self.drop_node(node, "which part is the type is not plain");
        };
        self.note("tuple in place of an object");
        let mut rest = texts.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, text)| *text);
        match (rest.next(), rest.next()) {
            (Some(text), None) => self.claim(label, text, None),
            (Some(head), Some(tail)) if !head.spoilt && !tail.spoilt => {
                let end = |text: &Text| End { text: text.content.clone(), label: None };
                let (head, tail) = (end(head), end(tail));
                self.claims.links.push(Link { label, head, tail, confidence: None, bytes: node.bytes.clone() });
            }
            _ => self.drop_node(node, "half of a surrogate pair"),
        }
    }
}

fn pair(node: &Node) -> Option<(&Text, &Text)> {
    let Value::List(items) = &node.value else { return None };
    match items.as_slice() {
        [Node { value: Value::Text(head), .. }, Node { value: Value::Text(tail), .. }] => Some((head, tail)),
        _ => None,
    }
}

/// The one value under a key that is neither a label nor a section, if it can hold an answer.
fn wrapped(pairs: &Pairs) -> Option<&Node> {
    let holds = |node: &&Node| match &node.value {
        Value::Map(_) => true,
        Value::List(items) => items.iter().any(|item| matches!(item.value, Value::Map(_))),
        _ => false,
    };
    let mut inner = pairs.iter().map(|(_, node)| node).filter(holds);
    inner.next().filter(|_| inner.next().is_none())
}

/// The start of a text, for messages.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
