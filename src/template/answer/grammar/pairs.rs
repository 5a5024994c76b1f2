//! Pairs of listed mentions that a relation's signature allows, in the order and direction in
//! which they are written.
//!
//! Pairs are looked for when they are asked for: all of them are the square of the mentions.

use super::super::link::folded;
use super::escape::escaped;
use crate::ie::{Entity, Schema};
use std::collections::HashMap;

/// A listed entity.
#[derive(Clone, Debug)]
struct Mention {
    surface: usize,
    /// Equal for surfaces that are the same once folded.
    folded: usize,
    /// Equal for equal labels.
    label: usize,
    /// Equal for equal places, ascending in text order.
    rank: usize,
}

/// A type of relation: which mentions may be its head and its tail.
#[derive(Clone, Debug)]
struct Kind {
    head: Vec<bool>,
    tail: Vec<bool>,
    symmetric: bool,
}

/// The mentions and the types that can link any of them.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    /// `["Ada","` of every surface.
    pub heads: Vec<Vec<u8>>,
    /// `Acme"]` of every surface.
    pub tails: Vec<Vec<u8>>,
    /// In text order.
    mentions: Vec<Mention>,
    kinds: Vec<Kind>,
}

/// The number of a value, given out in the order in which values are first seen.
fn number<K: std::hash::Hash + Eq>(known: &mut HashMap<K, usize>, value: K) -> usize {
    let next = known.len();
    *known.entry(value).or_insert(next)
}

impl Pairs {
    /// The pairs, and the labels of the types that have any, in schema order.
    pub fn of<'a>(schema: &'a Schema, entities: &[Entity]) -> (Pairs, Vec<&'a str>) {
        let mut order: Vec<&Entity> = entities.iter().collect();
        let place = |entity: &Entity| (entity.span.is_none(), entity.span);
        order.sort_by_key(|entity| place(entity));
        let (mut surfaces, mut folds, mut labels) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut pairs = Pairs { heads: Vec::new(), tails: Vec::new(), mentions: Vec::new(), kinds: Vec::new() };
        let mut rank = 0;
        for (at, entity) in order.iter().enumerate() {
            rank += usize::from(at > 0 && place(order[at - 1]) != place(entity));
            let surface = number(&mut surfaces, entity.text.as_str());
            if surface == pairs.heads.len() {
                let text = escaped(&entity.text);
                pairs.heads.push(format!("[\"{text}\",\"").into_bytes());
                pairs.tails.push(format!("{text}\"]").into_bytes());
            }
            let folded = number(&mut folds, folded(&entity.text));
            let label = number(&mut labels, entity.label.as_str());
            pairs.mentions.push(Mention { surface, folded, label, rank });
        }
        let mut kept = Vec::new();
        for kind in &schema.relations {
            let fits = |types: &[String]| -> Vec<bool> {
                order.iter().map(|entity| types.is_empty() || types.contains(&entity.label)).collect()
            };
            pairs.kinds.push(Kind { head: fits(&kind.head), tail: fits(&kind.tail), symmetric: kind.symmetric });
            if pairs.open_heads(kept.len(), &[], None).is_empty() {
                pairs.kinds.pop();
            } else {
                kept.push(kind.label.as_str());
            }
        }
        (pairs, kept)
    }

    /// Surfaces that may be the head of one more pair.
    pub fn open_heads(&self, kind: usize, written: &[(usize, usize)], last: Option<(usize, usize)>) -> Vec<usize> {
        let mut open = vec![false; self.heads.len()];
        for head in 0..self.mentions.len() {
            let surface = self.mentions[head].surface;
            if !open[surface] {
                let mut pairs = self.pairs(kind, head, last);
                open[surface] = pairs.any(|tail| !written.contains(&(surface, self.mentions[tail].surface)));
            }
        }
        (0..open.len()).filter(|surface| open[*surface]).collect()
    }

    /// Surfaces that may be the tail of one more pair with this head.
    pub fn open_tails(
        &self,
        kind: usize,
        head: usize,
        written: &[(usize, usize)],
        last: Option<(usize, usize)>,
    ) -> Vec<usize> {
        let mut open = vec![false; self.tails.len()];
        for mention in (0..self.mentions.len()).filter(|at| self.mentions[*at].surface == head) {
            self.pairs(kind, mention, last).for_each(|tail| open[self.mentions[tail].surface] = true);
        }
        (0..open.len()).filter(|tail| open[*tail] && !written.contains(&(head, *tail))).collect()
    }

    /// The earliest places that a pair of surfaces can stand for, behind those of the last pair.
    pub fn earliest(
        &self,
        kind: usize,
        (head, tail): (usize, usize),
        last: Option<(usize, usize)>,
    ) -> Option<(usize, usize)> {
        let heads = (0..self.mentions.len()).filter(|at| self.mentions[*at].surface == head);
        let places = heads.flat_map(|at| {
            let tails = self.pairs(kind, at, last).filter(|at| self.mentions[*at].surface == tail);
            tails.map(move |tail| (self.mentions[at].rank, self.mentions[tail].rank))
        });
        places.min()
    }

    /// The mentions that may be the tail of this one, in text order, behind the last pair.
    fn pairs(&self, kind: usize, head: usize, last: Option<(usize, usize)>) -> impl Iterator<Item = usize> {
        let (kind, one) = (&self.kinds[kind], &self.mentions[head]);
        let late = last.is_none_or(|last| last.0 <= one.rank) && kind.head[head];
        let tails = if late { 0..self.mentions.len() } else { 0..0 };
        tails.filter(move |tail| {
            let other = &self.mentions[*tail];
            kind.tail[*tail]
                && *tail != head
                && !(one.folded == other.folded && one.label == other.label)
                && !(kind.symmetric && other.rank < one.rank)
                && last.is_none_or(|last| last <= (one.rank, other.rank))
        })
    }
}
