//! What a set of documents holds: counts per type, and the schema that they imply.

use crate::ie::{Document, EntityType, EventType, Extraction, RelationType, Role, Schema, Span};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Counts over documents, in the order of labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Census {
    /// Documents.
    pub documents: usize,
    /// Documents without gold: nobody looked.
    pub without_gold: usize,
    /// Documents with gold in which nothing is annotated.
    pub empty: usize,
    /// Mentions per type.
    pub entities: BTreeMap<String, usize>,
    /// Relations per type.
    pub relations: BTreeMap<String, usize>,
    /// Events per type.
    pub events: BTreeMap<String, usize>,
    /// Arguments per role.
    pub roles: BTreeMap<String, usize>,
    /// Types of heads and tails per relation type.
    #[serde(skip)]
    signatures: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>,
    /// Types of fillers per event type and role.
    #[serde(skip)]
    fillers: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Census {
    /// Counts one document.
    pub fn take(&mut self, document: &Document) {
        self.documents += 1;
        let Some(gold) = &document.gold else {
            self.without_gold += 1;
            return;
        };
        self.empty += usize::from(gold.is_empty());
        for entity in &gold.entities {
            *self.entities.entry(entity.label.clone()).or_default() += 1;
        }
        for relation in &gold.relations {
            *self.relations.entry(relation.label.clone()).or_default() += 1;
            let (heads, tails) = self.signatures.entry(relation.label.clone()).or_default();
            heads.insert(gold.entities[relation.head].label.clone());
            tails.insert(gold.entities[relation.tail].label.clone());
        }
        self.take_events(gold);
    }

    fn take_events(&mut self, gold: &Extraction) {
        if gold.events.is_empty() {
            return;
        }
        let mut types: HashMap<Span, BTreeSet<&str>> = HashMap::new();
        for entity in &gold.entities {
            if let Some(span) = entity.span {
                types.entry(span).or_default().insert(&entity.label);
            }
        }
        for event in &gold.events {
            *self.events.entry(event.label.clone()).or_default() += 1;
            let fillers = self.fillers.entry(event.label.clone()).or_default();
            for argument in &event.arguments {
                *self.roles.entry(argument.role.clone()).or_default() += 1;
                let found = argument.span.and_then(|span| types.get(&span));
                let fillers = fillers.entry(argument.role.clone()).or_default();
                // A filler that is no mention has no type; the empty label stands for it.
                match found {
                    Some(types) => fillers.extend(types.iter().map(|label| label.to_string())),
                    None => fillers.extend([String::new()]),
                }
            }
        }
    }

    /// All mentions.
    pub fn total_entities(&self) -> usize {
        self.entities.values().sum()
    }

    /// All relations.
    pub fn total_relations(&self) -> usize {
        self.relations.values().sum()
    }

    /// All events.
    pub fn total_events(&self) -> usize {
        self.events.values().sum()
    }

    /// All arguments.
    pub fn total_arguments(&self) -> usize {
        self.roles.values().sum()
    }

    /// The labels found, in order, with the signatures found. What a definition says, and whether a
    /// relation is symmetric, no data can tell.
    pub fn schema(&self) -> Schema {
        let entity = |label: &String| EntityType {
            label: label.clone(),
            definition: String::new(),
            aliases: Vec::new(),
            examples: Vec::new(),
        };
        let relation = |(label, (heads, tails)): (&String, &(BTreeSet<String>, BTreeSet<String>))| RelationType {
            label: label.clone(),
            definition: String::new(),
            head: heads.iter().cloned().collect(),
            tail: tails.iter().cloned().collect(),
            symmetric: false,
            aliases: Vec::new(),
        };
        let role = |(label, types): (&String, &BTreeSet<String>)| Role {
            label: label.clone(),
            // Any type, where one filler had none.
            types: if types.contains("") { Vec::new() } else { types.iter().cloned().collect() },
            definition: String::new(),
        };
        let event = |(label, roles): (&String, &BTreeMap<String, BTreeSet<String>>)| EventType {
            label: label.clone(),
            definition: String::new(),
            roles: roles.iter().map(role).collect(),
        };
        Schema {
            entities: self.entities.keys().map(entity).collect(),
            relations: self.signatures.iter().map(relation).collect(),
            events: self.fillers.iter().map(event).collect(),
        }
    }
}
