//! Claimed relations tied to the mentions they speak of.
//!
//! An end is matched to the mentions by surface, exactly or folded. Of several mentions the
//! signature chooses; of those it allows, the pair that stands closest, the first in the text
//! where two are equally close. A relation is dropped with a reason if an end is not among the
//! entities, if both ends are one mention, or if no pair fits the signature.

use super::Dropped;
use super::claims::{End, Link, short};
use super::fold::fold;
use crate::ie::{Confidence, ConfidenceSource, Entity, Relation, RelationType, Schema};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What an answer says of its own certainty.
pub(super) fn said(value: Option<f64>) -> Option<Confidence> {
    value.and_then(|value| Confidence::new(value, ConfidenceSource::SelfReport))
}

/// A surface as it is compared when the exact one is not known.
pub(super) fn folded(text: &str) -> String {
    fold(text.trim()).symbols.into_iter().collect()
}

/// Mentions grouped by surface; groups list ordinals in text order.
struct Mentions<'a> {
    entities: &'a [Entity],
    groups: Vec<Vec<usize>>,
    exact: HashMap<&'a str, usize>,
    folded: HashMap<String, usize>,
}

/// A group of mentions, narrowed to one label where the answer gives one.
type Named<'l> = (usize, Option<&'l str>);

/// Head and tail among the mentions, or why there is no such pair.
type Pair = Result<(usize, usize), String>;

impl<'a> Mentions<'a> {
    fn of(entities: &'a [Entity]) -> Mentions<'a> {
        let mut order: Vec<usize> = (0..entities.len()).collect();
        order.sort_by_key(|&at| (entities[at].span.is_none(), entities[at].span, at));
        let mut mentions = Mentions { entities, groups: Vec::new(), exact: HashMap::new(), folded: HashMap::new() };
        for at in order {
            let text = entities[at].text.trim();
            let next = mentions.groups.len();
            let exact = *mentions.exact.entry(text).or_insert(next);
            if exact == next {
                mentions.groups.push(Vec::new());
            }
            mentions.groups[exact].push(at);
            let next = mentions.groups.len();
            let folded = *mentions.folded.entry(folded(text)).or_insert(next);
            if folded == next {
                mentions.groups.push(Vec::new());
            }
            mentions.groups[folded].push(at);
        }
        mentions
    }

    fn named<'l>(&self, end: &'l End) -> Option<Named<'l>> {
        let group = self.exact.get(end.text.trim()).or_else(|| self.folded.get(&folded(&end.text)))?;
        let named = (*group, end.label.as_deref());
        self.within(named).next().map(|_| named)
    }

    fn within(&self, (group, label): Named) -> impl Iterator<Item = usize> {
        self.groups[group].iter().copied().filter(move |&at| label.is_none_or(|label| label == self.entities[at].label))
    }

    fn label(&self, at: usize) -> &str {
        &self.entities[at].label
    }

    fn start(&self, at: usize) -> usize {
        self.entities[at].span.map_or(usize::MAX, |span| span.start())
    }

    /// The closest pair of different mentions, both lists in text order; `apart` asks for
    /// different labels besides.
    fn closest(&self, heads: &[usize], tails: &[usize], apart: bool) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize, usize)> = None;
        let mut from = 0;
        for &head in heads {
            while from < tails.len() && self.start(tails[from]) < self.start(head) {
                from += 1;
            }
            // Two on each side: one of them may be the head itself.
            for &tail in &tails[from.saturating_sub(2)..(from + 2).min(tails.len())] {
                let distance = self.start(head).abs_diff(self.start(tail));
                let different = head != tail && !(apart && self.label(head) == self.label(tail));
                if different && best.is_none_or(|best| distance < best.2) {
                    best = Some((head, tail, distance));
                }
            }
        }
        best.map(|(head, tail, _)| (head, tail))
    }

    /// The pair that the signature and then closeness choose.
    fn pair(&self, kind: &RelationType, head: Named, tail: Named, same: bool) -> Pair {
        let fits = |types: &[String], at: usize| types.is_empty() || types.iter().any(|known| known == self.label(at));
        let heads: Vec<usize> = self.within(head).filter(|&at| fits(&kind.head, at)).collect();
        let tails: Vec<usize> = self.within(tail).filter(|&at| fits(&kind.tail, at)).collect();
        let labels = |named: Named| {
            let mut labels: Vec<&str> = self.within(named).map(|at| self.label(at)).collect();
            labels.sort_unstable();
            labels.dedup();
            labels.join("|")
        };
        let several = labels(head).contains('|') || labels(head) != labels(tail);
        if (heads.is_empty() || tails.is_empty()) && (!same || several) {
            return Err(format!(
                "the signature of \"{}\" does not allow {} -> {}",
                kind.label,
                labels(head),
                labels(tail)
            ));
        }
        let Some((head, tail)) = self.closest(&heads, &tails, same) else {
            return Err("head and tail are the same mention".into());
        };
        let turns = kind.symmetric && kind.allows(self.label(tail), self.label(head));
        Ok(if turns && self.start(tail) < self.start(head) { (tail, head) } else { (head, tail) })
    }
}

/// Ends of the claimed relations that are not among `entities`, each once, in the answer's order.
pub(super) fn absent(links: &[Link], entities: &[Entity]) -> Vec<String> {
    let mut seen: HashSet<String> = entities.iter().map(|entity| folded(&entity.text)).collect();
    let ends = links.iter().flat_map(|link| [&link.head, &link.tail]);
    ends.filter(|end| seen.insert(folded(&end.text))).map(|end| short(&end.text)).collect()
}

/// The claimed relations among `entities` and where each was claimed.
pub(super) fn relations(
    links: &[Link],
    entities: &[Entity],
    schema: &Schema,
    dropped: &mut Vec<Dropped>,
) -> (Vec<Relation>, Vec<Range<usize>>) {
    let mentions = Mentions::of(entities);
    // One choice per kind and pair of surfaces, however often and in whatever spelling it is claimed.
    let mut chosen: HashMap<(&str, Named, Named), Pair> = HashMap::new();
    let mut seen = HashSet::new();
    let (mut relations, mut places) = (Vec::new(), Vec::new());
    for link in links {
        let absent = |name: &str, end: &End| format!("the {name} \"{}\" is not among the entities", short(&end.text));
        let found = match (mentions.named(&link.head), mentions.named(&link.tail), schema.relation(&link.label)) {
            (None, _, _) => Err(absent("head", &link.head)),
            (_, None, _) => Err(absent("tail", &link.tail)),
            (_, _, None) => Err("unknown label".to_owned()),
            (Some(head), Some(tail), Some(kind)) => {
                let choose = || mentions.pair(kind, head, tail, folded(&link.head.text) == folded(&link.tail.text));
                chosen.entry((link.label.as_str(), head, tail)).or_insert_with(choose).clone()
            }
        };
        match found {
            Err(reason) => {
                let item = format!("{}: {} -> {}", link.label, short(&link.head.text), short(&link.tail.text));
                dropped.push(Dropped::new(&item, reason));
            }
            Ok((head, tail)) if seen.insert((link.label.as_str(), head, tail)) => {
                relations.push(Relation { label: link.label.clone(), head, tail, confidence: said(link.confidence) });
                places.push(link.bytes.clone());
            }
            Ok(_) => {}
        }
    }
    (relations, places)
}
