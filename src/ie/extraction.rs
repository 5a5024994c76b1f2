//! What is found in a document: entities, relations between them, events.

use super::Span;
use serde::{Deserialize, Serialize};

/// Where a confidence comes from; unknown stays unknown, never 1.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfidenceSource {
    /// Token log-probabilities over the item's span.
    Logprob,
    /// Share of agents that stand behind the item.
    Vote,
    /// A summarizer's or judge's verdict.
    Judge,
    /// What the agent says of itself.
    #[serde(rename = "self")]
    SelfReport,
    /// Fitted on a labelled sample.
    Calibrated,
}

/// How sure somebody is of an item, in `0..=1`, and who says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confidence {
    value: f64,
    source: ConfidenceSource,
}

impl Confidence {
    /// `None` unless `value` is a finite number in `0..=1`.
    pub fn new(value: f64, source: ConfidenceSource) -> Option<Confidence> {
        (0.0..=1.0).contains(&value).then_some(Confidence { value, source })
    }

    /// In `0..=1`.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Who says so.
    pub fn source(&self) -> ConfidenceSource {
        self.source
    }
}

/// A typed mention.
#[derive(Clone, Debug, PartialEq)]
pub struct Entity {
    /// A label of the schema.
    pub label: String,
    /// The surface form.
    pub text: String,
    /// Where it stands; `None` only where the text could not be found, and then it never counts as right.
    pub span: Option<Span>,
    /// How sure its source is.
    pub confidence: Option<Confidence>,
}

/// A directed, typed link between two entities of the same extraction.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    /// A label of the schema.
    pub label: String,
    /// Ordinal in [`Extraction::entities`].
    pub head: usize,
    /// Ordinal in [`Extraction::entities`].
    pub tail: usize,
    /// How sure its source is.
    pub confidence: Option<Confidence>,
}

/// The word that names an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// The surface form.
    pub text: String,
    /// Where it stands.
    pub span: Option<Span>,
}

/// A participant of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// A role of the event type.
    pub role: String,
    /// The surface form.
    pub text: String,
    /// Where it stands.
    pub span: Option<Span>,
}

/// A typed happening with its trigger and arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// A label of the schema.
    pub label: String,
    /// The word that names it.
    pub trigger: Trigger,
    /// Who and what takes part.
    pub arguments: Vec<Argument>,
    /// How sure its source is.
    pub confidence: Option<Confidence>,
}

/// Everything found in one document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extraction {
    /// Typed mentions, in text order after [`Extraction::sorted`].
    pub entities: Vec<Entity>,
    /// Links between them.
    pub relations: Vec<Relation>,
    /// Happenings.
    pub events: Vec<Event>,
}

impl Extraction {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.entities.is_empty() && self.relations.is_empty() && self.events.is_empty()
    }

    /// Keeps the entities for which `keep` holds, and every relation whose two ends survive.
    /// Event arguments that filled a role with a removed mention go too (case C19).
    pub fn retain_entities(&mut self, mut keep: impl FnMut(&Entity) -> bool) {
        let mut place = Vec::with_capacity(self.entities.len());
        let mut gone = Vec::new();
        let mut kept = Vec::new();
        for entity in std::mem::take(&mut self.entities) {
            if keep(&entity) {
                place.push(Some(kept.len()));
                kept.push(entity);
            } else {
                place.push(None);
                gone.push(entity.span);
            }
        }
        self.entities = kept;
        let moved = |at: usize| place.get(at).copied().flatten();
        self.relations.retain_mut(|relation| match (moved(relation.head), moved(relation.tail)) {
            (Some(head), Some(tail)) => {
                (relation.head, relation.tail) = (head, tail);
                true
            }
            _ => false,
        });
        let still: Vec<_> = self.entities.iter().map(|entity| entity.span).collect();
        for event in &mut self.events {
            event.arguments.retain(|argument| still.contains(&argument.span) || !gone.contains(&argument.span));
        }
    }

    /// The same extraction with entities in text order, relations and events in a fixed order,
    /// and exact duplicates collapsed: equal content, equal bytes.
    pub fn sorted(mut self) -> Extraction {
        let key = |entity: &Entity| (entity.span, entity.label.clone(), entity.text.clone());
        let mut order: Vec<usize> = (0..self.entities.len()).collect();
        order.sort_by_key(|&at| key(&self.entities[at]));
        let mut place = vec![0; order.len()];
        let mut entities: Vec<Entity> = Vec::with_capacity(order.len());
        for at in order {
            let entity = &self.entities[at];
            if entities.last().is_none_or(|last| key(last) != key(entity)) {
                entities.push(entity.clone());
            }
            place[at] = entities.len() - 1;
        }
        self.entities = entities;
        for relation in &mut self.relations {
            relation.head = place[relation.head];
            relation.tail = place[relation.tail];
        }
        self.relations.sort_by(|a, b| (a.head, a.tail, &a.label).cmp(&(b.head, b.tail, &b.label)));
        self.relations.dedup_by(|a, b| (a.head, a.tail, &a.label) == (b.head, b.tail, &b.label));
        self.events.sort_by(|a, b| {
            (a.trigger.span, &a.label, &a.trigger.text).cmp(&(b.trigger.span, &b.label, &b.trigger.text))
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(text: &str, label: &str, at: usize) -> Entity {
        let span = Span::new("Ann runs Acme in Bern", at..at + text.len()).ok();
        Entity { label: label.into(), text: text.into(), span, confidence: None }
    }

    fn link(head: usize, tail: usize) -> Relation {
        Relation { label: "r".into(), head, tail, confidence: None }
    }

    #[test]
    fn a_removed_entity_takes_its_relations_along() {
        let mut found = Extraction {
            entities: vec![entity("Ann", "PER", 0), entity("Acme", "ORG", 9), entity("Bern", "LOC", 17)],
            relations: vec![link(0, 1), link(1, 2), link(0, 2)],
            events: vec![],
        };
        found.retain_entities(|entity| entity.label != "ORG");
        assert_eq!(found.entities.len(), 2);
        assert_eq!(found.relations, vec![link(0, 1)]);
    }

    #[test]
    fn sorting_moves_relation_ends_and_collapses_duplicates() {
        let found = Extraction {
            entities: vec![entity("Bern", "LOC", 17), entity("Ann", "PER", 0), entity("Ann", "PER", 0)],
            relations: vec![link(1, 0), link(2, 0)],
            events: vec![],
        }
        .sorted();
        assert_eq!(found.entities.iter().map(|e| e.text.as_str()).collect::<Vec<_>>(), ["Ann", "Bern"]);
        assert_eq!(found.relations, vec![link(0, 1)]);
    }
}
