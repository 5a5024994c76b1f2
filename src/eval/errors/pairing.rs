//! Which wrong answer is meant for which gold item. Candidates are answers that touch the gold
//! item's place; the best pair is taken first, and what is paired is spent.

use super::{Kind, Tally};
use crate::eval::align::{Key, Keyed, Keys, Place};
use crate::eval::verdict::Measure;
use crate::ie::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Answers that one gold item can be paired with; more can only touch it where items are nested by
/// the dozen.
const TOUCHING: usize = 32;

/// What became of one document's items of one measure.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::eval) struct Aligned<'a> {
    /// Every gold item, and how it was missed; `None` where it was found.
    pub gold: BTreeMap<Key<'a>, Option<Kind>>,
    /// Every answer that is not right, and how.
    pub wrong: BTreeMap<Key<'a>, Kind>,
    /// Gold label and answered label of every item in the gold's place; of arguments, the roles.
    pub labels: Vec<(&'a str, &'a str)>,
    /// Counted.
    pub tally: Tally,
}

impl<'a> Aligned<'a> {
    fn count(&mut self, kind: Kind) {
        *self.tally.kinds.entry(kind).or_default() += 1;
    }

    fn missed(&mut self, key: Key<'a>, kind: Kind) {
        self.gold.insert(key, Some(kind));
        self.count(kind);
    }
}

/// Pairs the answers of one document with its gold.
pub(in crate::eval) fn align<'a>(measure: Measure, gold: &Keyed<'a>, answer: &Keyed<'a>) -> Aligned<'a> {
    let keys = |keyed: &Keyed<'a>| -> BTreeSet<Key<'a>> {
        let keys: &Keys<'a> = match measure {
            Measure::Entities => &keyed.entities,
            Measure::Relations => &keyed.relations,
            Measure::Triggers => &keyed.trigger_classification,
            Measure::Arguments => &keyed.argument_classification,
        };
        keys.iter().map(|(key, _)| *key).collect()
    };
    let (wanted, given) = (keys(gold), keys(answer));
    let mut found = Aligned::default();
    for key in wanted.intersection(&given).filter(|key| key.is_found()) {
        found.gold.insert(*key, None);
        found.labels.push((label(measure, key), label(measure, key)));
        found.tally.right += 1;
    }
    let is_open = |key: &&Key<'a>, others: &BTreeSet<Key<'a>>| !key.is_found() || !others.contains(*key);
    let mut open: BTreeSet<Key<'a>> = wanted.iter().filter(|key| is_open(key, &given)).copied().collect();
    let mut over: BTreeSet<Key<'a>> = given.iter().filter(|key| is_open(key, &wanted)).copied().collect();
    for Pair { gold, answer, kind, .. } in pairs(measure, &open, &over) {
        if open.contains(&gold) && over.contains(&answer) {
            open.remove(&gold);
            over.remove(&answer);
            found.missed(gold, kind);
            found.wrong.insert(answer, kind);
            let [wanted, given] = [&gold, &answer].map(|key| label(measure, key));
            if gold.places == answer.places {
                found.labels.push((wanted, given));
            } else if is_edge(kind) {
                found.tally.edges_and_label += u64::from(wanted != given);
            }
        }
    }
    open.into_iter().for_each(|gold| found.missed(gold, Kind::Missing));
    for answer in over {
        found.wrong.insert(answer, Kind::Spurious);
        found.count(Kind::Spurious);
    }
    found
}

/// The label that is confused: of an argument its role.
fn label<'a>(measure: Measure, key: &Key<'a>) -> &'a str {
    key.words[usize::from(measure == Measure::Arguments)]
}

fn is_edge(kind: Kind) -> bool {
    matches!(kind, Kind::Contains | Kind::Contained | Kind::Overlaps | Kind::Boundary)
}

/// A gold item and an answer that may be meant for it.
struct Pair<'a> {
    /// Smaller is nearer: the sort of mistake, another label, and less in common last.
    rank: (u8, bool, usize),
    gold: Key<'a>,
    answer: Key<'a>,
    kind: Kind,
}

/// Every pair that touches, the best first.
fn pairs<'a>(measure: Measure, open: &BTreeSet<Key<'a>>, over: &BTreeSet<Key<'a>>) -> Vec<Pair<'a>> {
    // An answer stands at each of its places that can touch a gold item's own; sorted, so that only
    // neighbours are looked at.
    let mut answers: Vec<(Span, Key<'a>)> = Vec::new();
    for key in over {
        let places = match measure {
            Measure::Relations => &key.places[..],
            Measure::Arguments => &key.places[1..],
            Measure::Entities | Measure::Triggers => &key.places[..1],
        };
        answers.extend(places.iter().filter_map(|place| Some((at(*place)?, *key))));
    }
    answers.sort_unstable();
    answers.dedup();
    let longest = answers.iter().map(|(span, _)| span.end() - span.start()).max().unwrap_or(0);
    let mut pairs = Vec::new();
    for &gold in open {
        let Some(place) = at(gold.places[usize::from(measure == Measure::Arguments)]) else { continue };
        let first = answers.partition_point(|(span, _)| span.start() + longest <= place.start());
        let near = answers[first..].iter().take_while(|(span, _)| span.start() < place.end());
        let mut touching: Vec<Pair<'a>> = near
            .filter(|(span, _)| span.overlaps(&place))
            .filter_map(|&(_, answer)| {
                let (rank, kind) = mistake(measure, &gold, &answer)?;
                Some(Pair { rank, gold, answer, kind })
            })
            .collect();
        touching.sort_by_key(|pair| (pair.rank, pair.answer));
        touching.dedup_by_key(|pair| pair.answer);
        pairs.extend(touching.into_iter().take(TOUCHING));
    }
    pairs.sort_by_key(|pair| (pair.rank, pair.gold, pair.answer));
    pairs
}

fn at(place: Place<'_>) -> Option<Span> {
    match place {
        Place::At(span) => Some(span),
        Place::Unused | Place::Nowhere(_) => None,
    }
}

/// What is wrong with an answer if it is meant for this gold item; `None` if it cannot be.
fn mistake(measure: Measure, gold: &Key<'_>, answer: &Key<'_>) -> Option<((u8, bool, usize), Kind)> {
    match measure {
        Measure::Entities | Measure::Triggers => mention(gold, answer),
        Measure::Relations => relation(gold, answer),
        Measure::Arguments => argument(gold, answer),
    }
}

/// Letters that two spans do not share, from the most that could be: less is nearer.
fn apart(a: &Span, b: &Span) -> usize {
    usize::MAX - a.end().min(b.end()).saturating_sub(a.start().max(b.start()))
}

fn mention(gold: &Key<'_>, answer: &Key<'_>) -> Option<((u8, bool, usize), Kind)> {
    let [wanted, given] = [gold, answer].map(|key| at(key.places[0]));
    let (wanted, given) = (wanted?, given?);
    if !wanted.overlaps(&given) {
        return None;
    }
    let kind = match (given.contains(&wanted), wanted.contains(&given)) {
        (true, true) => Kind::WrongType,
        (true, false) => Kind::Contains,
        (false, true) => Kind::Contained,
        (false, false) => Kind::Overlaps,
    };
    let rank = (u8::from(kind != Kind::WrongType), gold.words[0] != answer.words[0], apart(&wanted, &given));
    Some((rank, kind))
}

fn relation(gold: &Key<'_>, answer: &Key<'_>) -> Option<((u8, bool, usize), Kind)> {
    let ends = |key: &Key<'_>| Some([at(key.places[0])?, at(key.places[1])?]);
    let (wanted, given) = (ends(gold)?, ends(answer)?);
    let other = gold.words[0] != answer.words[0];
    let turned = [given[1], given[0]];
    let touches = |given: &[Span; 2]| wanted.iter().zip(given).all(|(a, b)| a.overlaps(b));
    let common =
        |given: &[Span; 2]| apart(&wanted[0], &given[0]).saturating_sub(usize::MAX - apart(&wanted[1], &given[1]));
    Some(match (wanted == given, wanted == turned, other) {
        (true, _, false) => ((0, false, 0), Kind::WrongType),
        (_, true, false) => ((1, false, 0), Kind::Reversed),
        (true, _, true) => ((2, true, 0), Kind::WrongLabel),
        (_, true, true) => ((3, true, 0), Kind::WrongLabel),
        _ if touches(&given) => ((4, other, common(&given)), Kind::Boundary),
        _ if touches(&turned) => ((5, other, common(&turned)), Kind::Boundary),
        _ => return None,
    })
}

fn argument(gold: &Key<'_>, answer: &Key<'_>) -> Option<((u8, bool, usize), Kind)> {
    let [wanted, given] = [gold, answer].map(|key| at(key.places[1]));
    let (wanted, given) = (wanted?, given?);
    let event = |key: &Key<'_>| (key.words[0] == gold.words[0], key.places[0] == gold.places[0]);
    let role = gold.words[1] != answer.words[1];
    match event(answer) {
        (true, true) if wanted == given => Some(((0, role, 0), Kind::WrongRole)),
        // One of type and trigger right is nearer than neither.
        (label, trigger) if wanted == given => Some(((1 + u8::from(!label && !trigger), role, 0), Kind::WrongEvent)),
        (true, true) if wanted.overlaps(&given) => Some(((3, role, apart(&wanted, &given)), Kind::Boundary)),
        _ => None,
    }
}
