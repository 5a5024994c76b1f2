//! Baidu's conventions: DuEE's arguments by shared characters, DuIE's triples by all slots.

use super::count::Sum;
use super::tags::Tokens;
use super::{Measure, Pair, Tally};
use crate::ie::Extraction;
use std::collections::{BTreeMap, BTreeSet};

/// An argument of DuEE: event type, role, and its characters or words, sorted.
type Argument<'a> = (&'a str, &'a str, Vec<String>);

fn arguments(of: &Extraction, words: bool) -> BTreeSet<Argument<'_>> {
    let mut found = BTreeSet::new();
    for event in &of.events {
        for argument in &event.arguments {
            let surface = argument.text.trim().to_lowercase();
            let tokens = if words { Tokens::Words } else { Tokens::Characters };
            let mut units: Vec<String> = tokens.of(&surface).iter().map(|at| surface[at.0..at.1].to_string()).collect();
            units.sort_unstable();
            found.insert((event.label.as_str(), argument.role.as_str(), units));
        }
    }
    found
}

/// Units that two sorted lists share, each as often as in both.
fn shared(one: &[String], other: &[String]) -> usize {
    let (mut count, mut at) = (0, 0);
    for unit in one {
        while other.get(at).is_some_and(|next| next < unit) {
            at += 1;
        }
        if other.get(at) == Some(unit) {
            count += 1;
            at += 1;
        }
    }
    count
}

/// The F1 of shared units: 2 shared / (units of both).
fn likeness(one: &[String], other: &[String]) -> f64 {
    let units = one.len() + other.len();
    if units == 0 { 0.0 } else { 2.0 * shared(one, other) as f64 / units as f64 }
}

/// DuEE 1.0, after the description of the task: a predicted argument is worth the largest F1 of
/// shared characters with a gold argument of the same event type and role; precision is the
/// worth over the predictions, recall the same worth over the gold arguments. Case does not count.
///
/// Repeated arguments of one type and role are one, so that repeating earns nothing; the worth of
/// all is at most the number of gold arguments of the same type and role.
pub(super) fn duee(pair: &Pair<'_>, words: bool, tally: &mut Tally) {
    let (gold, pred) = (arguments(pair.gold, words), arguments(pair.found(), words));
    let mut worth: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for (label, role, units) in &pred {
        let same = gold.iter().filter(|one| (one.0, one.1) == (*label, *role));
        let best = same.map(|one| likeness(units, &one.2)).fold(0.0, f64::max);
        *worth.entry((label, role)).or_default() += best;
    }
    let mut hit = 0.0;
    for ((label, role), worth) in worth {
        let limit = gold.iter().filter(|one| (one.0, one.1) == (label, role)).count() as f64;
        hit += worth.min(limit);
    }
    let sum = Sum { hit, pred: pred.len() as f64, hit_gold: hit, gold: gold.len() as f64 };
    tally.sum(Measure::ArgumentClassification, &sum);
}

/// A triple of DuIE: predicate, subject, and the slots of the object with their names.
type Triple<'a> = (&'a str, String, BTreeMap<&'a str, String>);

/// Book-title marks at both ends are not part of a name.
fn untitled(name: &str) -> &str {
    name.strip_prefix('《').and_then(|rest| rest.strip_suffix('》')).unwrap_or(name)
}

/// Triples with their slots. A relation `predicate.slot` whose head is the tail of a relation
/// `predicate` is a slot of that triple; any other relation is a triple of its own.
fn spo(of: &Extraction) -> BTreeSet<Triple<'_>> {
    let surface = |at: usize| of.entities.get(at).map_or("", |one| one.text.as_str());
    let mains: BTreeSet<(&str, usize)> = of.relations.iter().map(|one| (one.label.as_str(), one.tail)).collect();
    let slot_of = |label: &'_ str, head: usize| {
        label.rsplit_once('.').is_some_and(|(predicate, _)| mains.contains(&(predicate, head)))
    };
    let mut slots: BTreeMap<(&str, usize), Vec<(&str, usize)>> = BTreeMap::new();
    for relation in &of.relations {
        if let (true, Some((predicate, slot))) =
            (slot_of(&relation.label, relation.head), relation.label.rsplit_once('.'))
        {
            slots.entry((predicate, relation.head)).or_default().push((slot, relation.tail));
        }
    }
    let mut triples = BTreeSet::new();
    for relation in of.relations.iter().filter(|one| !slot_of(&one.label, one.head)) {
        let subject = surface(relation.head).to_lowercase();
        let value = untitled(surface(relation.tail)).to_lowercase();
        let mut object = BTreeMap::from([("@value", value)]);
        for (slot, filler) in slots.get(&(relation.label.as_str(), relation.tail)).into_iter().flatten() {
            object.insert(slot, untitled(surface(*filler)).to_lowercase());
        }
        triples.insert((relation.label.as_str(), untitled(&subject).to_string(), object));
    }
    triples
}

/// DuIE 2.0: a triple is right if predicate, subject and every slot of the object are; lower
/// case, without book-title marks. No dictionary of aliases, which only the task's server has.
pub(super) fn duie(pair: &Pair<'_>, tally: &mut Tally) {
    let (gold, pred) = (spo(pair.gold), spo(pair.found()));
    tally.sum(Measure::Relations, &Sum::even(gold.intersection(&pred).count(), pred.len(), gold.len()));
}
