//! The asked labels: entity types, relation types with signatures, event types with roles.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A type of entity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntityType {
    /// The label as it stands in answers and files.
    pub label: String,
    /// What it means, in a few words.
    #[serde(default)]
    pub definition: String,
    /// Other spellings of the label that an answer may use.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Names that show what is meant.
    #[serde(default)]
    pub examples: Vec<String>,
}

/// A type of relation with its signature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationType {
    /// The label as it stands in answers and files.
    pub label: String,
    /// What it means, in a few words.
    #[serde(default)]
    pub definition: String,
    /// Entity types that the head may have; empty means any.
    #[serde(default)]
    pub head: Vec<String>,
    /// Entity types that the tail may have; empty means any.
    #[serde(default)]
    pub tail: Vec<String>,
    /// Whether `(a, b)` and `(b, a)` are the same fact.
    #[serde(default)]
    pub symmetric: bool,
    /// Other spellings of the label that an answer may use.
    #[serde(default)]
    pub aliases: Vec<String>,
}

impl RelationType {
    /// Whether the signature allows the pair of entity types.
    pub fn allows(&self, head: &str, tail: &str) -> bool {
        let fits = |types: &[String], label: &str| types.is_empty() || types.iter().any(|t| t == label);
        fits(&self.head, head) && fits(&self.tail, tail)
    }
}

/// A participant slot of an event type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// The label as it stands in answers and files.
    pub label: String,
    /// Entity types that may fill it; empty means any.
    #[serde(default)]
    pub types: Vec<String>,
    /// What it means, in a few words.
    #[serde(default)]
    pub definition: String,
}

/// A type of event with its roles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventType {
    /// The label as it stands in answers and files.
    pub label: String,
    /// What it means, in a few words.
    #[serde(default)]
    pub definition: String,
    /// Its participants.
    #[serde(default)]
    pub roles: Vec<Role>,
}

/// Everything that is asked of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// Asked entity types, in the order of answers.
    #[serde(default)]
    pub entities: Vec<EntityType>,
    /// Asked relation types.
    #[serde(default)]
    pub relations: Vec<RelationType>,
    /// Asked event types.
    #[serde(default)]
    pub events: Vec<EventType>,
}

/// What is wrong with a schema: one line, naming the label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(pub String);

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SchemaError {}

impl Schema {
    /// The label that an answer means, by exact label, then by alias; case and edge space are
    /// ignored. A label that is neither is unknown: never a neighbour, never a default.
    pub fn entity_label(&self, written: &str) -> Option<&str> {
        resolve(written, self.entities.iter().map(|t| (t.label.as_str(), t.aliases.as_slice())))
    }

    /// As [`Schema::entity_label`], for relations.
    pub fn relation_label(&self, written: &str) -> Option<&str> {
        resolve(written, self.relations.iter().map(|t| (t.label.as_str(), t.aliases.as_slice())))
    }

    /// The relation type with this label.
    pub fn relation(&self, label: &str) -> Option<&RelationType> {
        self.relations.iter().find(|t| t.label == label)
    }

    /// The entity type with this label.
    pub fn entity(&self, label: &str) -> Option<&EntityType> {
        self.entities.iter().find(|t| t.label == label)
    }

    /// Refuses empty and doubled labels and signatures that name a type nobody asks for.
    ///
    /// # Errors
    /// One line that names the label and the way out.
    pub fn check(&self) -> Result<(), SchemaError> {
        if self.entities.is_empty() && self.relations.is_empty() && self.events.is_empty() {
            return Err(SchemaError("the schema asks for nothing; give at least one [[entities]] entry".into()));
        }
        let entities: Vec<&str> = self.entities.iter().map(|t| t.label.as_str()).collect();
        let relations: Vec<&str> = self.relations.iter().map(|t| t.label.as_str()).collect();
        let events: Vec<&str> = self.events.iter().map(|t| t.label.as_str()).collect();
        for (kind, labels) in [("entity", &entities), ("relation", &relations), ("event", &events)] {
            for (at, label) in labels.iter().enumerate() {
                if label.trim().is_empty() {
                    return Err(SchemaError(format!("{kind} type {} has an empty label", at + 1)));
                }
                if labels[..at].iter().any(|other| other.eq_ignore_ascii_case(label)) {
                    return Err(SchemaError(format!(
                        "{kind} label \"{label}\" is given twice; labels are compared without case"
                    )));
                }
            }
        }
        let unknown = |owner: String, types: &[String]| {
            types.iter().find(|t| !entities.contains(&t.as_str())).map(|t| {
                SchemaError(format!(
                    "{owner} names the entity type \"{t}\", which the schema does not have; known: {}",
                    entities.join(", ")
                ))
            })
        };
        for relation in &self.relations {
            for (end, types) in [("head", &relation.head), ("tail", &relation.tail)] {
                if let Some(error) = unknown(format!("relation \"{}\": {end}", relation.label), types) {
                    return Err(error);
                }
            }
        }
        for event in &self.events {
            for role in &event.roles {
                if let Some(error) = unknown(format!("event \"{}\": role \"{}\"", event.label, role.label), &role.types)
                {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

fn resolve<'a>(written: &str, types: impl Iterator<Item = (&'a str, &'a [String])> + Clone) -> Option<&'a str> {
    let written = written.trim();
    let same = |other: &str| other.trim().to_lowercase() == written.to_lowercase();
    types
        .clone()
        .find(|(label, _)| same(label))
        .or_else(|| types.clone().find(|(_, aliases)| aliases.iter().any(|alias| same(alias))))
        .map(|(label, _)| label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let entity = |label: &str, alias: &str| EntityType {
            label: label.into(),
            definition: String::new(),
            aliases: vec![alias.into()],
            examples: vec![],
        };
        Schema { entities: vec![entity("PER", "person"), entity("ORG", "organization")], ..Schema::default() }
    }

    #[test]
    fn aliases_touch_the_label_only_and_unknown_labels_stay_unknown() {
        let schema = schema();
        assert_eq!(schema.entity_label(" Person "), Some("PER"));
        assert_eq!(schema.entity_label("organization"), Some("ORG"));
        assert_eq!(schema.entity_label("FACILITY"), None);
    }

    #[test]
    fn a_signature_with_an_unasked_type_is_refused_by_name() {
        let mut schema = schema();
        schema.relations.push(RelationType {
            label: "lives_in".into(),
            definition: String::new(),
            head: vec!["PER".into()],
            tail: vec!["GPE".into()],
            symmetric: false,
            aliases: vec![],
        });
        let said = schema.check().unwrap_err().to_string();
        assert_eq!(
            said,
            "relation \"lives_in\": tail names the entity type \"GPE\", which the schema does not have; known: PER, ORG"
        );
    }
}
