//! Which predicted item is which gold item: the keys of one document, and their matching as sets.
//!
//! Two items are the same if their keys are equal, whatever their place in the list:
//!
//! | measure | key within a document |
//! |---|---|
//! | entities | span, type (mode `boundaries`: span) |
//! | relations | label, span and type of head, span and type of tail |
//! | relations, boundaries | label, span of head, span of tail |
//! | trigger identification | trigger span |
//! | trigger classification | trigger span, event type |
//! | argument identification | event type, argument span |
//! | argument classification | event type, trigger span, role, argument span |
//!
//! The ends of a relation that the schema calls symmetric are put in a fixed order first. White
//! space at the edges of a span does not count, on either side; punctuation does. A place that
//! was not found equals nothing.

use super::counts::{Counts, EventCounts, Scores};
use crate::ie::{Event, Extraction, Schema, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// What makes two entities the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Span and type. The default, and the number that every table leads with.
    #[default]
    Strict,
    /// Span alone: did the system find the mention, whatever it called it.
    Boundaries,
}

impl Mode {
    /// Every mode, in the order of `--help`.
    pub const ALL: [Mode; 2] = [Mode::Strict, Mode::Boundaries];

    /// The name on the command line and in files.
    pub fn name(&self) -> &'static str {
        match self {
            Mode::Strict => "strict",
            Mode::Boundaries => "boundaries",
        }
    }
}

/// A mode that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMode {
    name: String,
    known: Vec<&'static str>,
}

impl UnknownMode {
    /// A name that is none of the known ones.
    pub(super) fn new(name: &str, known: impl Iterator<Item = &'static str>) -> UnknownMode {
        UnknownMode { name: name.to_string(), known: known.collect() }
    }
}

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scoring mode \"{}\" is not known; known modes: {}", self.name, self.known.join(", "))
    }
}

impl std::error::Error for UnknownMode {}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Mode, UnknownMode> {
        let known = || Mode::ALL.into_iter();
        known().find(|mode| mode.name() == name).ok_or_else(|| UnknownMode::new(name, known().map(|mode| mode.name())))
    }
}

/// How items are compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// What makes two entities the same.
    pub mode: Mode,
    /// Labels of the relations whose two directions are one fact.
    pub symmetric: BTreeSet<String>,
}

impl Rules {
    /// Takes the symmetric relations from a schema; without one, every relation has a direction.
    pub fn new(mode: Mode, schema: Option<&Schema>) -> Rules {
        let relations = schema.map(|schema| schema.relations.as_slice()).unwrap_or_default();
        let symmetric = relations.iter().filter(|relation| relation.symmetric).map(|relation| relation.label.clone());
        Rules { mode, symmetric: symmetric.collect() }
    }
}

/// Where an item stands. What was not found keeps its words, so that repeating it is a duplicate
/// too, but it never counts as right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place<'a> {
    At(Span),
    Nowhere(&'a str),
}

fn place<'a>(span: Option<Span>, surface: &'a str, text: &str) -> Place<'a> {
    match span.and_then(|span| span.trimmed(text)) {
        Some(span) => Place::At(span),
        None => Place::Nowhere(surface.trim()),
    }
}

/// The identity of an item: its places and its words, in the order of the table above.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    places: Vec<Place<'a>>,
    words: Vec<&'a str>,
}

impl Key<'_> {
    fn is_found(&self) -> bool {
        self.places.iter().all(|place| matches!(place, Place::At(_)))
    }
}

/// Keys of one kind in one extraction, each with the label that it is listed under.
type Keys<'a> = BTreeMap<Key<'a>, &'a str>;

/// The keys of one extraction.
#[derive(Default)]
struct Keyed<'a> {
    entities: Keys<'a>,
    relations: Keys<'a>,
    relations_boundaries: Keys<'a>,
    trigger_identification: Keys<'a>,
    trigger_classification: Keys<'a>,
    argument_identification: Keys<'a>,
    argument_classification: Keys<'a>,
    /// Items whose full content had been given before.
    duplicates: u64,
}

impl<'a> Keyed<'a> {
    fn of(extraction: &'a Extraction, text: &str, rules: &Rules) -> Keyed<'a> {
        let mut keyed = Keyed::default();
        keyed.read_entities(extraction, text, rules);
        keyed.read_relations(extraction, text, rules);
        let mut seen = BTreeSet::new();
        for event in &extraction.events {
            keyed.read_event(event, text, &mut seen);
        }
        keyed
    }

    fn read_entities(&mut self, extraction: &'a Extraction, text: &str, rules: &Rules) {
        let mut seen = BTreeSet::new();
        for entity in &extraction.entities {
            let places = vec![place(entity.span, &entity.text, text)];
            let strict = Key { places: places.clone(), words: vec![&entity.label] };
            self.duplicates += u64::from(!seen.insert(strict.clone()));
            let key = match rules.mode {
                Mode::Strict => strict,
                Mode::Boundaries => Key { places, words: vec![] },
            };
            // Two types on one span collapse under `boundaries`; the smaller label keeps the line.
            let label = self.entities.entry(key).or_insert(&entity.label);
            *label = (*label).min(&entity.label);
        }
    }

    fn read_relations(&mut self, extraction: &'a Extraction, text: &str, rules: &Rules) {
        let end = |at: usize| match extraction.entities.get(at) {
            Some(entity) => (place(entity.span, &entity.text, text), entity.label.as_str()),
            None => (Place::Nowhere(""), ""),
        };
        for relation in &extraction.relations {
            let label = relation.label.as_str();
            let mut ends = [end(relation.head), end(relation.tail)];
            if rules.symmetric.contains(label) {
                ends.sort();
            }
            let places = ends.map(|(place, _)| place).to_vec();
            let bare = Key { places: places.clone(), words: vec![label] };
            let strict = Key { places, words: vec![label, ends[0].1, ends[1].1] };
            self.relations_boundaries.insert(bare, label);
            self.duplicates += u64::from(self.relations.insert(strict, label).is_some());
        }
    }

    fn read_event(&mut self, event: &'a Event, text: &str, seen: &mut BTreeSet<(Key<'a>, Vec<(&'a str, Place<'a>)>)>) {
        let label = event.label.as_str();
        let trigger = place(event.trigger.span, &event.trigger.text, text);
        let typed = Key { places: vec![trigger], words: vec![label] };
        let mut arguments = Vec::new();
        for argument in &event.arguments {
            let at = place(argument.span, &argument.text, text);
            let role = argument.role.as_str();
            self.argument_identification.insert(Key { places: vec![at], words: vec![label] }, label);
            self.argument_classification.insert(Key { places: vec![trigger, at], words: vec![label, role] }, label);
            arguments.push((role, at));
        }
        arguments.sort();
        let given = arguments.len();
        arguments.dedup();
        self.duplicates += (given - arguments.len()) as u64;
        self.duplicates += u64::from(!seen.insert((typed.clone(), arguments)));
        self.trigger_identification.insert(Key { places: vec![trigger], words: vec![] }, label);
        self.trigger_classification.insert(typed, label);
    }
}

/// Counts one document: `predicted` is `None` where there is no usable reading, and then every
/// gold item is a miss.
pub(super) fn align(text: &str, gold: &Extraction, predicted: Option<&Extraction>, rules: &Rules) -> Scores {
    let nothing = Extraction::default();
    let gold = Keyed::of(gold, text, rules);
    let pred = Keyed::of(predicted.unwrap_or(&nothing), text, rules);
    let mut scores = Scores { documents: 1, failed: u64::from(predicted.is_none()), ..Scores::default() };
    scores.entities = matched(&gold.entities, &pred.entities, Some(&mut scores.per_type.entities));
    scores.relations = matched(&gold.relations, &pred.relations, Some(&mut scores.per_type.relations));
    scores.relations_boundaries = matched(&gold.relations_boundaries, &pred.relations_boundaries, None);
    let by_event = Some(&mut scores.per_type.events);
    scores.events = EventCounts {
        trigger_identification: matched(&gold.trigger_identification, &pred.trigger_identification, None),
        trigger_classification: matched(&gold.trigger_classification, &pred.trigger_classification, by_event),
        argument_identification: matched(&gold.argument_identification, &pred.argument_identification, None),
        argument_classification: matched(&gold.argument_classification, &pred.argument_classification, None),
    };
    scores.duplicates.gold = gold.duplicates;
    scores.duplicates.pred = pred.duplicates;
    scores
}

/// Matches two sets of keys; a hit and a miss are listed under the gold label.
fn matched(gold: &Keys<'_>, pred: &Keys<'_>, mut per_type: Option<&mut BTreeMap<String, Counts>>) -> Counts {
    let mut sum = Counts::default();
    let mut count = |label: &str, one: Counts| {
        sum += &one;
        if let Some(per_type) = per_type.as_deref_mut() {
            *per_type.entry(label.to_string()).or_default() += &one;
        }
    };
    for (key, label) in gold {
        let hit = key.is_found() && pred.contains_key(key);
        count(label, Counts { tp: u64::from(hit), fp: 0, fn_: u64::from(!hit) });
    }
    for (key, label) in pred {
        if !(key.is_found() && gold.contains_key(key)) {
            count(label, Counts { tp: 0, fp: 1, fn_: 0 });
        }
    }
    sum
}
