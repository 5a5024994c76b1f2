//! What an answer claims, in any accepted shape, before its text is looked at.
//!
//! Labels are resolved by the schema (exact label, then alias, without case or edge space) and
//! the label field alone is touched, never the surface. An unknown label or a missing one drops
//! the item with a count; nothing ever gets a default or a neighbour's label.

use super::Dropped;
use super::json::{Node, Notes, Text, Value};
use super::words::is_placeholder;
use crate::ie::Schema;
use std::collections::HashMap;
use std::ops::Range;

/// Keys that may carry a surface, a label, and the two ends of a relation.
const TEXT_KEYS: [&str; 4] = ["text", "name", "mention", "entity"];
const LABEL_KEYS: [&str; 3] = ["type", "label", "entity_type"];
const HEAD_KEYS: [&str; 2] = ["head", "subject"];
const TAIL_KEYS: [&str; 2] = ["tail", "object"];
const LINK_KEYS: [&str; 4] = ["type", "label", "relation", "predicate"];

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
enum Section {
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

type Pairs = [(Text, Node)];

struct Collector<'a> {
    raw: &'a str,
    schema: &'a Schema,
    notes: &'a mut Notes,
    claims: Claims,
    /// Labels resolved before, by spelling and section.
    labels: HashMap<(u8, String), Option<String>>,
}

impl Collector<'_> {
    fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }

    fn drop(&mut self, item: &str, reason: impl Into<String>) {
        self.claims.dropped.push(Dropped::new(item, reason));
    }

    fn drop_node(&mut self, node: &Node, reason: impl Into<String>) {
        let raw = self.raw;
        self.drop(&raw[node.bytes.clone()], reason);
    }

    fn label(&mut self, section: Section, written: &str) -> Option<String> {
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

    fn is_label(&mut self, written: &str) -> bool {
        [Section::Entities, Section::Relations, Section::Events].into_iter().any(|section| self.label(section, written).is_some())
    }

    fn section(&mut self, key: &str) -> Option<Section> {
        if self.is_label(key) {
            return None;
        }
        match key.trim().to_lowercase().as_str() {
            "entities" => Some(Section::Entities),
            "relations" => Some(Section::Relations),
            "events" => Some(Section::Events),
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
            Value::List(_) => self.drop_node(node, "a list where an item was expected"),
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
        for (key, value) in pairs {
            self.grouped(None, key, value);
        }
    }

    /// What a map is an item of, by its keys; `None` if its keys are labels or sections.
    fn item_kind(&mut self, pairs: &Pairs) -> Option<Section> {
        if field(pairs, &HEAD_KEYS).is_some() || field(pairs, &TAIL_KEYS).is_some() {
            let (key, _) = pairs.iter().find(|(key, _)| HEAD_KEYS.iter().chain(&TAIL_KEYS).any(|k| is_key(key, k)))?;
            return (!self.is_label(&key.content)).then_some(Section::Relations);
        }
        if pairs.iter().any(|(key, _)| is_key(key, "trigger")) {
            return Some(Section::Events);
        }
        let (key, value) = pairs.iter().find(|(key, _)| TEXT_KEYS.iter().any(|k| is_key(key, k)))?;
        let typed = field(pairs, &LABEL_KEYS).is_some();
        let scalar = !matches!(value.value, Value::List(_) | Value::Map(_));
        (scalar && (typed || !self.is_label(&key.content))).then_some(Section::Entities)
    }

    /// The value of `entities`, `relations` or `events`.
    fn within(&mut self, section: Section, node: &Node) {
        match &node.value {
            Value::Null => {}
            Value::List(items) => {
                for item in items {
                    match &item.value {
                        Value::Map(pairs) if self.item_kind(pairs).is_some() => self.item(section, pairs, item, None),
                        Value::Map(pairs) => pairs.iter().for_each(|(key, value)| self.grouped(Some(section), key, value)),
                        _ => self.loose(item),
                    }
                }
            }
            Value::Map(pairs) if self.item_kind(pairs).is_some() => {
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

    /// An object: its own label, or the one it is grouped under.
    fn item(&mut self, section: Section, pairs: &Pairs, node: &Node, group: Option<(&Text, Option<String>)>) {
        if doubled(pairs) {
            return self.drop_node(node, "a key is given twice");
        }
        let keys: &[&str] = if section == Section::Relations { &LINK_KEYS } else { &LABEL_KEYS };
        let own = field(pairs, keys);
        let label = match (own.map(|node| &node.value), group) {
            (Some(Value::Text(text)), _) => self.label(section, &text.content).ok_or(format!("unknown label \"{}\"", short(&text.content))),
            (None | Some(Value::Null), Some((_, Some(label)))) => Ok(label),
            (None | Some(Value::Null), Some((key, None))) => Err(format!("unknown label \"{}\"", short(&key.content))),
            (None | Some(Value::Null), None) => Err("no type".to_owned()),
            (Some(_), _) => Err("the type is not a string".to_owned()),
        };
        let confidence = field(pairs, &["confidence"]).and_then(|node| self.confidence(node));
        match section {
            Section::Entities => self.entity(pairs, node, label, confidence),
            Section::Relations => self.relation(pairs, node, label, confidence),
            Section::Events => self.event(pairs, node, label, confidence),
        }
    }

    fn entity(&mut self, pairs: &Pairs, node: &Node, label: Result<String, String>, confidence: Option<f64>) {
        match (field(pairs, &TEXT_KEYS).map(|node| &node.value), label) {
            (Some(Value::Text(text)), Ok(label)) => self.claim(label, text, confidence),
            (Some(Value::Text(text)), Err(_)) if is_placeholder(&text.content) => self.claims.placeholders += 1,
            (Some(Value::Text(text)), Err(reason)) => self.drop(&text.content, reason),
            (None | Some(Value::Null), _) => self.drop_node(node, "no text"),
            (Some(_), _) => self.drop_node(node, "the text is not a string"),
        }
    }

    fn claim(&mut self, label: String, text: &Text, confidence: Option<f64>) {
        if text.spoilt {
            return self.drop(&text.content, "half of a surrogate pair");
        }
        let claim = Claim { label, text: text.content.clone(), confidence, bytes: text.bytes.clone() };
        self.claims.entities.push(claim);
    }

    fn relation(&mut self, pairs: &Pairs, node: &Node, label: Result<String, String>, confidence: Option<f64>) {
        let label = match label {
            Ok(label) => label,
            Err(reason) => return self.drop_node(node, reason),
        };
        let mut ends = Vec::with_capacity(2);
        for (keys, name) in [(&HEAD_KEYS, "head"), (&TAIL_KEYS, "tail")] {
            let Some(end) = field(pairs, keys).filter(|end| end.value != Value::Null) else {
                return self.drop_node(node, format!("no {name}"));
            };
            match self.end(end) {
                Some(end) => ends.push(end),
                None => return self.drop_node(node, format!("the {name} is not a string")),
            }
        }
        if let (Some(tail), Some(head)) = (ends.pop(), ends.pop()) {
            self.claims.links.push(Link { label, head, tail, confidence, bytes: node.bytes.clone() });
        }
    }

    fn end(&mut self, node: &Node) -> Option<End> {
        match &node.value {
            Value::Text(text) if !text.spoilt => Some(End { text: text.content.clone(), label: None }),
            Value::Map(pairs) => {
                let text = surface(field(pairs, &TEXT_KEYS)?)?;
                let label = field(pairs, &LABEL_KEYS).and_then(surface).and_then(|label| self.label(Section::Entities, &label));
                Some(End { text, label })
            }
            _ => None,
        }
    }

    fn event(&mut self, pairs: &Pairs, node: &Node, label: Result<String, String>, confidence: Option<f64>) {
        let label = match label {
            Ok(label) => label,
            Err(reason) => return self.drop_node(node, reason),
        };
        let Some(trigger) = field(pairs, &["trigger"]).and_then(surface) else {
            return self.drop_node(node, "an event needs a trigger");
        };
        let mut arguments = Vec::new();
        match field(pairs, &["arguments", "roles"]).map(|node| &node.value) {
            None | Some(Value::Null) => {}
            Some(Value::List(items)) => {
                for item in items {
                    let parts = match &item.value {
                        Value::Map(pairs) => field(pairs, &["role"]).and_then(surface).zip(field(pairs, &TEXT_KEYS).and_then(surface)),
                        _ => None,
                    };
                    match parts {
                        Some((role, text)) => self.argument(&label, &role, text, &mut arguments),
                        None => self.drop_node(item, "an argument needs a role and a text"),
                    }
                }
            }
            Some(Value::Map(roles)) => {
                for (role, value) in roles {
                    let fillers = match &value.value {
                        Value::List(items) => items.as_slice(),
                        _ => std::slice::from_ref(value),
                    };
                    for filler in fillers.iter().filter(|filler| filler.value != Value::Null) {
                        match surface(filler) {
                            Some(text) => self.argument(&label, &role.content, text, &mut arguments),
                            None => self.drop_node(filler, "an argument needs a role and a text"),
                        }
                    }
                }
            }
            Some(_) => self.drop_node(node, "the arguments are not a list"),
        }
        let item = self.raw[node.bytes.clone()].to_owned();
        self.claims.happenings.push(Happening { label, trigger, arguments, confidence, item });
    }

    fn argument(&mut self, event: &str, role: &str, text: String, arguments: &mut Vec<(String, String)>) {
        let same = |known: &str| known.trim().to_lowercase() == role.trim().to_lowercase();
        let kind = self.schema.events.iter().find(|kind| kind.label == event);
        match kind.and_then(|kind| kind.roles.iter().find(|known| same(&known.label))) {
            Some(known) => arguments.push((known.label.clone(), text)),
            None => self.drop(&text, format!("unknown role \"{}\"", short(role))),
        }
    }

    /// The table in the module's head: numbers and numeric strings in `0..=1`, and percents.
    fn confidence(&mut self, node: &Node) -> Option<f64> {
        let written = match &node.value {
            Value::Null => return None,
            Value::Number(written) | Value::Word(written) => written.trim(),
            Value::Text(text) => text.content.trim(),
            _ => "",
        };
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let read = match written.strip_suffix('%') {
            Some(percent) => number(percent).map(|percent| percent / 100.0),
            None => number(written),
        };
        let known = read.filter(|value| (0.0..=1.0).contains(value));
        if known.is_none() {
            self.note("confidence that cannot be read left unknown");
        }
        known
    }
}

fn is_key(key: &Text, name: &str) -> bool {
    key.content.trim().eq_ignore_ascii_case(name)
}

/// The value of the first of `names` that is there.
fn field<'a>(pairs: &'a Pairs, names: &[&str]) -> Option<&'a Node> {
    names.iter().find_map(|name| pairs.iter().find(|(key, _)| is_key(key, name)).map(|(_, node)| node))
}

/// The string itself, or the text of an object.
fn surface(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) if !text.spoilt => Some(text.content.clone()),
        Value::Map(pairs) => match &field(pairs, &TEXT_KEYS)?.value {
            Value::Text(text) if !text.spoilt => Some(text.content.clone()),
            _ => None,
        },
        _ => None,
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

/// Whether an item names one of its own keys twice, so that it is two items in one.
fn doubled(pairs: &Pairs) -> bool {
    let known = TEXT_KEYS.iter().chain(&LINK_KEYS).chain(&HEAD_KEYS).chain(&TAIL_KEYS).chain(&["trigger"]);
    known.into_iter().any(|name| pairs.iter().filter(|(key, _)| is_key(key, name)).count() > 1)
}

/// The start of a text, for messages.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
