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

use super::counts::{Counts, Scores};
use crate::ie::{Entity, Event, Extraction, Relation, Schema, Span};
use std::cmp::Ordering;
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
pub(super) enum Place<'a> {
    /// The key has no place here; equal on both sides.
    Unused,
    At(Span),
    Nowhere(&'a str),
}

fn place<'a>(span: Option<Span>, surface: &'a str, text: &str) -> Place<'a> {
    match span.and_then(|span| span.trimmed(text)) {
        Some(span) => Place::At(span),
        None => Place::Nowhere(surface.trim()),
    }
}

/// The identity of an item: its places and its words, in the order of the table above. Nothing is
/// copied: a million documents are scored without an allocation for each of their items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key<'a> {
    pub(super) places: [Place<'a>; 2],
    pub(super) words: [&'a str; 3],
}

impl Key<'_> {
    pub(super) fn is_found(&self) -> bool {
        !self.places.iter().any(|place| matches!(place, Place::Nowhere(_)))
    }
}

/// A key of one place, or of two.
fn key<'a>(places: [Place<'a>; 2], words: [&'a str; 3]) -> Key<'a> {
    Key { places, words }
}

/// The strict key of a mention.
pub(super) fn entity_key<'a>(entity: &'a Entity, text: &str) -> Key<'a> {
    key([place(entity.span, &entity.text, text), Place::Unused], [&entity.label, "", ""])
}

/// The strict key of a relation; its ends in a fixed order where it has no direction.
pub(super) fn relation_key<'a>(
    extraction: &'a Extraction,
    relation: &'a Relation,
    text: &str,
    rules: &Rules,
) -> Key<'a> {
    let end = |at: usize| match extraction.entities.get(at) {
        Some(entity) => (place(entity.span, &entity.text, text), entity.label.as_str()),
        None => (Place::Nowhere(""), ""),
    };
    let mut ends = [end(relation.head), end(relation.tail)];
    if rules.symmetric.contains(&relation.label) {
        ends.sort();
    }
    key(ends.map(|(place, _)| place), [&relation.label, ends[0].1, ends[1].1])
}

/// Keys of one kind in one extraction, each with the label that it is listed under; sorted, and
/// each key once, by [`settled`].
pub(super) type Keys<'a> = Vec<(Key<'a>, &'a str)>;

/// Sorts keys and collapses equal ones; the smallest label keeps the line. Returns how many went.
fn settled(keys: &mut Keys<'_>) -> u64 {
    let given = keys.len();
    keys.sort_unstable();
    keys.dedup_by(|one, kept| one.0 == kept.0);
    (given - keys.len()) as u64
}

/// The keys of one extraction.
#[derive(Default)]
pub(super) struct Keyed<'a> {
    pub(super) entities: Keys<'a>,
    pub(super) relations: Keys<'a>,
    relations_boundaries: Keys<'a>,
    trigger_identification: Keys<'a>,
    pub(super) trigger_classification: Keys<'a>,
    argument_identification: Keys<'a>,
    pub(super) argument_classification: Keys<'a>,
    /// Items whose full content had been given before.
    duplicates: u64,
}

impl<'a> Keyed<'a> {
    pub(super) fn of(extraction: &'a Extraction, text: &str, rules: &Rules) -> Keyed<'a> {
        let mut keyed = Keyed::default();
        keyed.read_entities(extraction, text, rules);
        if !extraction.relations.is_empty() {
            keyed.read_relations(extraction, text, rules);
        }
        if !extraction.events.is_empty() {
            keyed.read_events(&extraction.events, text);
        }
        keyed
    }

    fn read_entities(&mut self, extraction: &'a Extraction, text: &str, rules: &Rules) {
        self.entities.reserve_exact(extraction.entities.len());
        for entity in &extraction.entities {
            self.entities.push((entity_key(entity, text), &entity.label));
        }
        self.duplicates += settled(&mut self.entities);
        if rules.mode == Mode::Boundaries {
            for (key, _) in &mut self.entities {
                key.words = [""; 3];
            }
            settled(&mut self.entities);
        }
    }

    fn read_relations(&mut self, extraction: &'a Extraction, text: &str, rules: &Rules) {
        for relation in &extraction.relations {
            let label = relation.label.as_str();
            let strict = relation_key(extraction, relation, text, rules);
            self.relations_boundaries.push((key(strict.places, [label, "", ""]), label));
            self.relations.push((strict, label));
        }
        settled(&mut self.relations_boundaries);
        self.duplicates += settled(&mut self.relations);
    }

    fn read_events(&mut self, events: &'a [Event], text: &str) {
        let mut seen = BTreeSet::new();
        for event in events {
            let label = event.label.as_str();
            let trigger = place(event.trigger.span, &event.trigger.text, text);
            let typed = key([trigger, Place::Unused], [label, "", ""]);
            let mut arguments = Vec::with_capacity(event.arguments.len());
            for argument in &event.arguments {
                let at = place(argument.span, &argument.text, text);
                let role = argument.role.as_str();
                self.argument_identification.push((key([at, Place::Unused], [label, "", ""]), label));
                self.argument_classification.push((key([trigger, at], [label, role, ""]), label));
                arguments.push((role, at));
            }
            arguments.sort();
            let given = arguments.len();
            arguments.dedup();
            self.duplicates += (given - arguments.len()) as u64;
            self.duplicates += u64::from(!seen.insert((typed, arguments)));
            self.trigger_identification.push((key([trigger, Place::Unused], [""; 3]), label));
            self.trigger_classification.push((typed, label));
        }
        settled(&mut self.trigger_identification);
        settled(&mut self.trigger_classification);
        settled(&mut self.argument_identification);
        settled(&mut self.argument_classification);
    }
}

/// Counts one document: `predicted` is `None` where there is no usable reading, and then every
/// gold item is a miss.
pub(super) fn align(text: &str, gold: &Extraction, predicted: Option<&Extraction>, rules: &Rules) -> Scores {
    let mut scores = Scores::default();
    align_into(&mut scores, text, gold, predicted, rules);
    scores
}

/// As [`align`], added to what is counted already.
pub(super) fn align_into(
    scores: &mut Scores,
    text: &str,
    gold: &Extraction,
    predicted: Option<&Extraction>,
    rules: &Rules,
) {
    let nothing = Extraction::default();
    let gold = Keyed::of(gold, text, rules);
    let pred = Keyed::of(predicted.unwrap_or(&nothing), text, rules);
    scores.documents += 1;
    scores.failed += u64::from(predicted.is_none());
    let types = &mut scores.per_type;
    scores.entities += &matched(&gold.entities, &pred.entities, Some(&mut types.entities));
    scores.relations += &matched(&gold.relations, &pred.relations, Some(&mut types.relations));
    scores.relations_boundaries += &matched(&gold.relations_boundaries, &pred.relations_boundaries, None);
    let events = &mut scores.events;
    events.trigger_identification += &matched(&gold.trigger_identification, &pred.trigger_identification, None);
    events.trigger_classification +=
        &matched(&gold.trigger_classification, &pred.trigger_classification, Some(&mut types.events));
    events.argument_identification += &matched(&gold.argument_identification, &pred.argument_identification, None);
    events.argument_classification += &matched(&gold.argument_classification, &pred.argument_classification, None);
    scores.duplicates.gold += gold.duplicates;
    scores.duplicates.pred += pred.duplicates;
}

/// Counts the mentions of one document by their spans alone.
pub(super) fn boundaries(text: &str, gold: &Extraction, predicted: &Extraction) -> Counts {
    let rules = Rules { mode: Mode::Boundaries, ..Rules::default() };
    let mut keyed = [Keyed::default(), Keyed::default()];
    for (keyed, of) in keyed.iter_mut().zip([gold, predicted]) {
        keyed.read_entities(of, text, &rules);
    }
    matched(&keyed[0].entities, &keyed[1].entities, None)
}

/// Matches two sorted sets of keys; a hit and a miss are listed under the gold label.
fn matched(gold: &Keys<'_>, pred: &Keys<'_>, mut per_type: Option<&mut BTreeMap<String, Counts>>) -> Counts {
    let mut sum = Counts::default();
    let mut count = |label: &str, one: Counts| {
        sum += &one;
        let Some(per_type) = per_type.as_deref_mut() else { return };
        match per_type.get_mut(label) {
            Some(counts) => *counts += &one,
            None => drop(per_type.insert(label.to_string(), one)),
        }
    };
    const HIT: Counts = Counts { tp: 1, fp: 0, fn_: 0 };
    const WRONG: Counts = Counts { tp: 0, fp: 1, fn_: 0 };
    const MISSED: Counts = Counts { tp: 0, fp: 0, fn_: 1 };
    let (mut ahead, mut behind) = (gold.iter().peekable(), pred.iter().peekable());
    loop {
        let order = match (ahead.peek(), behind.peek()) {
            (Some((one, _)), Some((other, _))) => one.cmp(other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return sum,
        };
        let one = if order.is_le() { ahead.next() } else { None };
        let other = if order.is_ge() { behind.next() } else { None };
        match (one, other) {
            (Some((key, label)), Some(_)) if key.is_found() => count(label, HIT),
            (one, other) => {
                one.into_iter().for_each(|(_, label)| count(label, MISSED));
                other.into_iter().for_each(|(_, label)| count(label, WRONG));
            }
        }
    }
}
