//! Schemas in native forms: SpERT types, event ontologies of TextEE, gen-arg and OneIE, DuEE and
//! DuIE schema files. They hold no documents; several are merged into one schema.

use super::convert::{Options, Sink};
use super::finding::shown;
use super::format::{Format, Sample};
use super::input::Records;
use crate::ie::{EntityType, EventType, RelationType, Role, Schema};
use crate::store::StoreError;
use serde_json::{Map, Value};
use std::path::Path;

pub(super) const SCHEMA: Format = Format {
    name: "schema",
    about: "label sets alone, for --schema-out: SpERT types, TextEE, gen-arg, DuEE, DuIE",
    fits,
    read: no_documents,
};

fn no_documents(path: &Path, _: &Options, _: &mut Sink) -> Result<(), StoreError> {
    Err(StoreError::file(path, "this is a schema, which holds no documents; give --schema-out FILE and schemas alone"))
}

/// The shapes of schema files.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// `{"entities": {label: {verbose}}, "relations": {label: {symmetric}}}`.
    Types,
    /// `{event: [role]}`.
    EventRoles,
    /// `{event: {"roles": […]}}`.
    Templates,
    /// `[[event, [role]]]`.
    Pairs,
    /// `{"event_type", "role_list": [{"role"}]}`, one a line.
    DueeLines,
    /// `{"predicate", "subject_type", "object_type"}`.
    DuieLines,
}

fn shape(first: &Value) -> Option<Shape> {
    if first.get("role_list").is_some() && first.get("event_type").is_some() {
        return Some(Shape::DueeLines);
    }
    if ["predicate", "subject_type", "object_type"].iter().all(|name| first.get(name).is_some()) {
        return Some(Shape::DuieLines);
    }
    if let Some([label, roles]) = first.as_array().map(Vec::as_slice) {
        return (label.is_string() && labels(roles).is_some()).then_some(Shape::Pairs);
    }
    let fields = first.as_object().filter(|fields| !fields.is_empty())?;
    let types = |name: &str| fields.get(name).is_some_and(Value::is_object);
    if types("entities") && types("relations") {
        return Some(Shape::Types);
    }
    // Tokens with a tag each are two lists of words too.
    let tagged = ["tokens", "text", "words"].iter().any(|name| fields.contains_key(*name));
    if !tagged && fields.values().all(|roles| labels(roles).is_some()) && fields.len() > 1 {
        return Some(Shape::EventRoles);
    }
    fields.values().all(|event| event.get("roles").is_some()).then_some(Shape::Templates)
}

fn labels(list: &Value) -> Option<Vec<&str>> {
    list.as_array()?.iter().map(Value::as_str).collect()
}

fn fits(sample: &Sample) -> Option<String> {
    let Sample::Json { first, array } = sample else { return None };
    let told = match shape(first)? {
        Shape::Types => "entities and relations by label",
        Shape::EventRoles if *array => return None,
        Shape::EventRoles => "lists of labels by label",
        Shape::Templates => "events with their roles by label",
        Shape::Pairs => "pairs of an event and its roles",
        Shape::DueeLines => "event_type and role_list",
        Shape::DuieLines => "predicate with subject_type and object_type",
    };
    Some(told.into())
}

/// Reads and merges schema files. Of TextEE's files for one set, `*.event_role.json` names roles,
/// `*.role_entity.json` the types that fill them, `*.relation_entity.json` the types of both ends.
///
/// # Errors
/// A file that cannot be read or has none of the shapes.
pub fn native_schema(paths: &[&Path]) -> Result<Schema, StoreError> {
    let mut schema = Schema::default();
    let mut fillers: Map<String, Value> = Map::new();
    for path in paths {
        let mut records = Records::open(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        while let Some(record) = records.next()? {
            let value: Value = record.parse(path)?;
            if name.ends_with("role_entity.json") {
                fillers.extend(value.as_object().cloned().unwrap_or_default());
            } else if name.ends_with("relation_entity.json") {
                textee_relations(&mut schema, &value);
            } else {
                let shape = shape(&value).ok_or_else(|| {
                    let found = shown(&value.to_string());
                    StoreError::line(
                        path,
                        record.line,
                        format!("expected a schema in one of the known shapes, found {found}"),
                    )
                })?;
                add(&mut schema, shape, &value);
            }
        }
    }
    fill(&mut schema, &fillers);
    Ok(schema)
}

fn entity(schema: &mut Schema, label: &str, definition: &str) {
    if schema.entity(label).is_none() {
        let (label, definition) = (label.into(), definition.into());
        schema.entities.push(EntityType { label, definition, aliases: Vec::new(), examples: Vec::new() });
    }
}

fn relation(schema: &mut Schema, label: &str, heads: &[&str], tails: &[&str]) {
    heads.iter().chain(tails).for_each(|label| entity(schema, label, ""));
    let at = schema.relations.iter().position(|known| known.label == label).unwrap_or_else(|| {
        schema.relations.push(RelationType {
            label: label.into(),
            definition: String::new(),
            head: Vec::new(),
            tail: Vec::new(),
            symmetric: false,
            aliases: Vec::new(),
        });
        schema.relations.len() - 1
    });
    let known = &mut schema.relations[at];
    for (types, more) in [(&mut known.head, heads), (&mut known.tail, tails)] {
        for label in more {
            if !types.iter().any(|known| known == label) {
                types.push(label.to_string());
            }
        }
    }
}

fn event(schema: &mut Schema, label: &str, roles: Vec<&str>) {
    let role = |label: &str| Role { label: label.into(), types: Vec::new(), definition: String::new() };
    let at = schema.events.iter().position(|known| known.label == label).unwrap_or_else(|| {
        schema.events.push(EventType { label: label.into(), definition: String::new(), roles: Vec::new() });
        schema.events.len() - 1
    });
    let known = &mut schema.events[at].roles;
    for label in roles {
        if !known.iter().any(|known| known.label == label) {
            known.push(role(label));
        }
    }
}

/// A record in one of the shapes.
fn add(schema: &mut Schema, shape: Shape, value: &Value) {
    let word = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let fields = |name: &str| value.get(name).and_then(Value::as_object).into_iter().flatten();
    let members = || value.as_object().into_iter().flatten();
    match shape {
        Shape::Types => {
            for (label, told) in fields("entities") {
                let verbose = told.get("verbose").and_then(Value::as_str).filter(|verbose| verbose != label);
                entity(schema, label, verbose.unwrap_or_default());
            }
            for (label, told) in fields("relations") {
                relation(schema, label, &[], &[]);
                if let Some(known) = schema.relations.iter_mut().find(|known| known.label == *label) {
                    known.symmetric = told.get("symmetric").and_then(Value::as_bool).unwrap_or(false);
                    let verbose = told.get("verbose").and_then(Value::as_str).filter(|verbose| verbose != label);
                    known.definition = verbose.unwrap_or_default().into();
                }
            }
        }
        Shape::EventRoles => {
            members().for_each(|(label, roles)| event(schema, label, labels(roles).unwrap_or_default()));
        }
        Shape::Templates => members().for_each(|(label, told)| {
            let roles = &told["roles"];
            let keys = || roles.as_object().map(|roles| roles.keys().map(String::as_str).collect());
            event(schema, label, labels(roles).or_else(keys).unwrap_or_default());
        }),
        Shape::Pairs => event(schema, value[0].as_str().unwrap_or_default(), labels(&value[1]).unwrap_or_default()),
        Shape::DueeLines => {
            let roles = value["role_list"].as_array().into_iter().flatten();
            event(schema, word("event_type"), roles.filter_map(|role| role.get("role")?.as_str()).collect());
        }
        Shape::DuieLines => duie(schema, value),
    }
}

/// A predicate with its types; further slots hang on the object.
fn duie(schema: &mut Schema, value: &Value) {
    let word = |name: &str| value[name].as_str().unwrap_or_default();
    let (predicate, subject, object) = (word("predicate"), word("subject_type"), &value["object_type"]);
    let main = object.as_str().or_else(|| object.get("@value")?.as_str()).unwrap_or_default();
    relation(schema, predicate, &[subject], &[main]);
    for (slot, kind) in object.as_object().into_iter().flatten().filter(|(slot, _)| *slot != "@value") {
        relation(schema, &format!("{predicate}.{slot}"), &[main], &[kind.as_str().unwrap_or_default()]);
    }
}

fn textee_relations(schema: &mut Schema, value: &Value) {
    for (label, types) in value.as_object().into_iter().flatten() {
        let types = labels(types).unwrap_or_default();
        relation(schema, label, &types, &types);
    }
}

/// Gives roles the types that fill them. `Entity` means anything.
fn fill(schema: &mut Schema, fillers: &Map<String, Value>) {
    let typed = |label: &str| -> Vec<String> {
        let types = fillers.get(label).and_then(labels).unwrap_or_default();
        let any = types.contains(&"Entity");
        if any { Vec::new() } else { types.into_iter().map(String::from).collect() }
    };
    let mut found: Vec<String> = Vec::new();
    for role in schema.events.iter_mut().flat_map(|event| &mut event.roles) {
        role.types = typed(&role.label);
        found.extend(role.types.iter().cloned());
    }
    found.iter().for_each(|label| entity(schema, label, ""));
}
