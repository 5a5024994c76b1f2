//! The same scores on parts of what was measured: names that training did not show, documents whose
//! text it did not hold.

use super::{Asked, Seen, surface};
use crate::eval::align::{Key, Keyed, Place, Rules};
use crate::eval::bootstrap::{Draws, Interval};
use crate::eval::counts::Counts;
use crate::eval::verdict::sum;
use crate::ie::{Document, Extraction};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Scores on a part of what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subset {
    /// Which part.
    pub name: String,
    /// Documents with anything of it.
    pub documents: u64,
    /// Gold mentions in it.
    pub gold: u64,
    /// Gold relations in it.
    #[serde(default)]
    pub gold_relations: u64,
    /// Every system on it.
    pub systems: Vec<SubsetScore>,
}

/// One system on a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubsetScore {
    /// The system.
    pub name: String,
    /// Strict entity counts.
    pub entities: Counts,
    /// 95 % interval of the F1.
    pub interval: Option<Interval>,
    /// Strict relation counts.
    #[serde(default)]
    pub relations: Counts,
    /// 95 % interval of their F1.
    #[serde(default)]
    pub relations_interval: Option<Interval>,
}

/// A part of what was measured.
struct Part<'a> {
    name: &'static str,
    /// Whether a mention with this surface, in this document, belongs to it.
    belongs: &'a (dyn Fn(&Document, &str) -> bool + Sync),
    /// Whether one end is enough for a relation to belong; else both must.
    one_end: bool,
}

pub(super) fn subsets(
    documents: &[Document],
    golds: &[Extraction],
    readings: &[(String, Vec<Extraction>)],
    seen: &Seen,
    asked: &Asked<'_>,
) -> Vec<Subset> {
    let known = |text: &str| seen.surfaces.contains(&surface(text));
    let fresh = |document: &Document| !seen.leaked.contains(&document.id);
    let unshown = |_: &Document, text: &str| !known(text);
    let shown = |_: &Document, text: &str| known(text);
    let clean = |document: &Document, _: &str| fresh(document);
    let clean_unshown = |document: &Document, text: &str| fresh(document) && !known(text);
    let mut parts = vec![
        Part { name: "names that training did not show", belongs: &unshown, one_end: true },
        Part { name: "names that training showed", belongs: &shown, one_end: false },
    ];
    if !seen.leaked.is_empty() {
        parts.push(Part { name: "documents without a copy in training", belongs: &clean, one_end: false });
        parts.push(Part { name: "of these, names that training did not show", belongs: &clean_unshown, one_end: true });
    }
    let nothing = Extraction::default();
    let part = |part: Part<'_>| {
        let counted = |found: &[Extraction]| -> Vec<[Counts; 2]> {
            let each = documents.par_iter().zip(golds).enumerate();
            each.map(|(at, (document, gold))| {
                within(document, [gold, found.get(at).unwrap_or(&nothing)], &part, &asked.rules)
            })
            .collect()
        };
        // Entities of every system first, then relations of every system.
        let both: Vec<Vec<[Counts; 2]>> = readings.iter().map(|(_, found)| counted(found)).collect();
        let sets: Vec<Vec<Counts>> = [0, 1]
            .iter()
            .flat_map(|&task| both.iter().map(move |set| set.iter().map(|one| one[task]).collect()))
            .collect();
        let draws = Draws::of(&sets.iter().map(Vec::as_slice).collect::<Vec<_>>(), asked.resampling);
        let many = readings.len();
        let of = |(at, (name, _)): (usize, &(String, Vec<Extraction>))| SubsetScore {
            name: name.clone(),
            entities: sum(&sets[at]),
            interval: draws.f1(at),
            relations: sum(&sets[many + at]),
            relations_interval: draws.f1(many + at),
        };
        let systems: Vec<SubsetScore> = readings.iter().enumerate().map(of).collect();
        let held = (0..documents.len()).filter(|&at| sets[..many].iter().any(|set| !set[at].is_empty())).count();
        let gold = |counts: Option<Counts>| counts.map_or(0, |counts| counts.tp + counts.fn_);
        Subset {
            name: part.name.to_string(),
            documents: held as u64,
            gold: gold(systems.first().map(|one| one.entities)),
            gold_relations: gold(systems.first().map(|one| one.relations)),
            systems,
        }
    };
    parts.into_iter().map(part).collect()
}

/// Strict counts of the mentions and of the relations that belong to a part. An answer without a
/// place in the text is in no part.
fn within(document: &Document, pair: [&Extraction; 2], part: &Part<'_>, rules: &Rules) -> [Counts; 2] {
    let text = &document.text;
    let belongs = |place: &Place<'_>| match place {
        Place::At(span) => (part.belongs)(document, span.slice(text)),
        Place::Unused | Place::Nowhere(_) => false,
    };
    let [gold, answer] = pair.map(|one| Keyed::of(one, text, rules));
    let mention = |key: &Key<'_>| belongs(&key.places[0]);
    let relation = |key: &Key<'_>| {
        key.is_found() && if part.one_end { key.places.iter().any(belongs) } else { key.places.iter().all(belongs) }
    };
    let counts = |gold: BTreeSet<Key<'_>>, answer: BTreeSet<Key<'_>>| {
        let tp = gold.intersection(&answer).count() as u64;
        Counts { tp, fp: answer.len() as u64 - tp, fn_: gold.len() as u64 - tp }
    };
    let mentions = [&gold, &answer].map(|of| of.entities.iter().map(|(key, _)| *key).filter(mention).collect());
    let relations = [&gold, &answer].map(|of| of.relations.iter().map(|(key, _)| *key).filter(relation).collect());
    [mentions, relations].map(|[gold, answer]| counts(gold, answer))
}
