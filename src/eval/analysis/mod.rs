//! Where systems go wrong, and with which documents: errors by kind for every system or stage of
//! a debate, what one of them fixes and loses against another, the same scores on what training
//! cannot have shown, which labels are taken for which, and the hardest documents.
//!
//! A stage and a system are the same thing here: a name, and what it found in every document.

mod hardest;
mod subsets;

pub use hardest::{Answer, Hard, Link};
pub use subsets::{Subset, SubsetScore};

use super::align::{Keyed, Rules};
use super::bootstrap::{Interval, Resampling};
use super::counts::Counts;
use super::errors::{Aligned, Errors, Kind, Tally, align};
use super::verdict::{Measure, linear_f1};
use crate::ie::{Document, Extraction};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What training showed, for the subsets that it did not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    surfaces: BTreeSet<String>,
    leaked: BTreeSet<String>,
}

impl Seen {
    /// The names in these extractions, whatever their case and spacing, and the ids of measured
    /// documents whose text training held.
    pub fn of<'a>(taught: impl IntoIterator<Item = &'a Extraction>, leaked: BTreeSet<String>) -> Seen {
        let names = taught.into_iter().flat_map(|extraction| &extraction.entities);
        Seen { surfaces: names.map(|entity| surface(&entity.text)).collect(), leaked }
    }

    /// Measured documents whose text training held.
    pub fn leaked(&self) -> usize {
        self.leaked.len()
    }
}

fn surface(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// The errors of one system or stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemErrors {
    /// The system or stage.
    pub name: String,
    /// Its entity answers by what became of them.
    pub errors: Errors,
    /// Labels of mentions whose span was right, the most frequent first; equal labels are in it.
    pub labels: Vec<Labelled>,
    /// 95 % interval of the entity F1, linearised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Relations, triggers and arguments, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<MeasureErrors>,
}

impl SystemErrors {
    /// The scorer's counts of a measure; `None` where there is nothing of it.
    pub fn counts(&self, measure: Measure) -> Option<Counts> {
        let Errors { right, wrong_type, boundary, missing, spurious, .. } = self.errors;
        let paired = wrong_type + boundary;
        match measure {
            Measure::Entities => Some(Counts { tp: right, fp: paired + spurious, fn_: paired + missing }),
            other => self.other(other).map(|one| one.tally.counts()),
        }
    }

    /// The interval of a measure's F1.
    pub fn interval(&self, measure: Measure) -> Option<Interval> {
        match measure {
            Measure::Entities => self.interval,
            other => self.other(other)?.interval,
        }
    }

    /// The errors of a measure other than entities.
    pub fn other(&self, measure: Measure) -> Option<&MeasureErrors> {
        self.others.iter().find(|one| one.measure == measure)
    }
}

/// The errors of one system or stage on relations, triggers or arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasureErrors {
    /// What is counted.
    pub measure: Measure,
    /// Answers by what became of them.
    pub tally: Tally,
    /// 95 % interval of the F1, linearised.
    pub interval: Option<Interval>,
    /// Labels of items in the gold's place, of arguments roles; equal ones are in it.
    pub labels: Vec<Labelled>,
}

/// How often a gold label was answered by which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labelled {
    /// In the gold.
    pub gold: String,
    /// In the answer.
    pub answered: String,
    /// How often.
    pub count: u64,
}

/// What changes from one system or stage to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// The first, as a rule the team.
    pub from: String,
    /// The second, as a rule the student.
    pub to: String,
    /// What is counted.
    #[serde(default = "entities")]
    pub measure: Measure,
    /// Gold items that both find.
    pub both: u64,
    /// Gold items that neither finds.
    pub neither: u64,
    /// Gold items that only the second finds, by how the first missed them.
    pub fixed: BTreeMap<Kind, u64>,
    /// Gold items that only the first finds, by how the second misses them.
    pub lost: BTreeMap<Kind, u64>,
    /// Wrong answers of the first that the second does not give, by what was wrong with them.
    pub withdrawn: BTreeMap<Kind, u64>,
    /// Wrong answers of the second that the first did not give.
    pub introduced: BTreeMap<Kind, u64>,
    /// Wrong answers that both give.
    pub repeated: u64,
}

fn entities() -> Measure {
    Measure::Entities
}

impl Transition {
    /// Gold items that only the second finds.
    pub fn fixed(&self) -> u64 {
        self.fixed.values().sum()
    }

    /// Gold items that only the first finds.
    pub fn lost(&self) -> u64 {
        self.lost.values().sum()
    }
}

/// Where systems and stages go wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// Every system and stage.
    pub systems: Vec<SystemErrors>,
    /// The pairs that were asked for.
    pub transitions: Vec<Transition>,
    /// Parts of what was measured that training cannot have shown.
    pub subsets: Vec<Subset>,
    /// Measured documents whose text training held; `None` where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaked: Option<u64>,
    /// Documents with most mistakes, the hardest first.
    pub hardest: Vec<Hard>,
}

/// What an analysis is asked.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    /// Transitions from the first to the second of each pair; a name that is not read is left out.
    pub pairs: Vec<(&'a str, &'a str)>,
    /// What training showed; `None` where nobody said, and then there are no subsets.
    pub seen: Option<&'a Seen>,
    /// Systems whose mistakes make a document hard, and whose answers are shown.
    pub shown: Vec<&'a str>,
    /// Hard documents to show.
    pub hardest: usize,
    /// How the intervals of subsets are made.
    pub resampling: Resampling,
    /// Which relations have no direction.
    pub rules: Rules,
}

/// Looks into every reading: a name, and an extraction for each document, in the order of the
/// documents. A document without gold has nothing to find; a reading that failed is an empty
/// extraction.
pub fn analyse(documents: &[Document], readings: &[(String, Vec<Extraction>)], asked: &Asked<'_>) -> Analysis {
    let nothing = Extraction::default();
    let gold = |document: &'_ Document| document.gold.clone().unwrap_or_default();
    let golds: Vec<Extraction> = documents.iter().map(gold).collect();
    let aligned: Vec<Reading<'_>> = readings
        .iter()
        .map(|(_, found)| {
            let found = |at: usize| found.get(at).unwrap_or(&nothing);
            let each = documents.par_iter().zip(&golds).enumerate();
            each.map(|(at, (document, gold))| all(&document.text, gold, found(at), &asked.rules)).collect()
        })
        .collect();
    let measures = measures(&aligned);
    let at = |name: &str| readings.iter().position(|(one, _)| one == name);
    let systems = readings.iter().zip(&aligned).map(|((name, _), one)| errors(name, one, &measures)).collect();
    let pairs: Vec<_> = asked.pairs.iter().filter_map(|&(from, to)| Some((from, to, at(from)?, at(to)?))).collect();
    let of =
        |measure: Measure| pairs.iter().map(move |&(from, to, a, b)| (measure, from, to, a, b)).collect::<Vec<_>>();
    let changes = measures.iter().flat_map(|&measure| of(measure));
    let transitions =
        changes.map(|(measure, from, to, a, b)| transition(measure, [from, to], &aligned[a], &aligned[b])).collect();
    let shown: Vec<usize> = asked.shown.iter().filter_map(|name| at(name)).collect();
    Analysis {
        systems,
        transitions,
        subsets: asked.seen.map(|seen| subsets::subsets(documents, &golds, readings, seen, asked)).unwrap_or_default(),
        leaked: asked.seen.map(|seen| seen.leaked() as u64),
        hardest: hardest::hardest(documents, &golds, readings, &aligned, &shown, asked),
    }
}

/// One reading, document by document: the measures that gold or answer have anything of. A million
/// documents without relations and events take no room for them.
type Reading<'a> = Vec<Vec<(Measure, Aligned<'a>)>>;

/// Pairs one document under every measure.
fn all<'a>(text: &str, gold: &'a Extraction, answer: &'a Extraction, rules: &Rules) -> Vec<(Measure, Aligned<'a>)> {
    let [gold, answer] = [gold, answer].map(|one| Keyed::of(one, text, rules));
    let each = Measure::ALL.map(|measure| (measure, align(measure, &gold, &answer)));
    each.into_iter().filter(|(_, one)| !one.gold.is_empty() || !one.wrong.is_empty()).collect()
}

/// One document under a measure; nothing where there is nothing of it.
fn under<'r, 'a>(document: &'r [(Measure, Aligned<'a>)], measure: Measure) -> Option<&'r Aligned<'a>> {
    document.iter().find(|one| one.0 == measure).map(|one| &one.1)
}

/// What is looked into: entities always, relations where there are any, and events where anybody
/// finds one; events that no system was made for are nothing to compare.
fn measures(aligned: &[Reading<'_>]) -> Vec<Measure> {
    let any = |measure: Measure, holds: fn(&Tally) -> bool| {
        aligned.iter().flatten().filter_map(|one| under(one, measure)).any(|one| holds(&one.tally))
    };
    let asked = |measure: &Measure| match measure {
        Measure::Entities => true,
        Measure::Relations => any(*measure, |tally| tally.right + tally.total() > 0),
        Measure::Triggers | Measure::Arguments => any(*measure, |tally| tally.right > 0),
    };
    Measure::ALL.into_iter().filter(asked).collect()
}

fn errors(name: &str, aligned: &Reading<'_>, measures: &[Measure]) -> SystemErrors {
    let entities = measured(Measure::Entities, aligned);
    let others = measures.iter().filter(|measure| **measure != Measure::Entities);
    SystemErrors {
        name: name.to_string(),
        errors: Errors::from(&entities.tally),
        labels: entities.labels,
        interval: entities.interval,
        others: others.map(|measure| measured(*measure, aligned)).collect(),
    }
}

fn measured(measure: Measure, aligned: &Reading<'_>) -> MeasureErrors {
    let mut sum = Tally::default();
    let mut labels: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let of = || aligned.iter().map(|one| under(one, measure));
    for one in of().flatten() {
        sum += &one.tally;
        one.labels.iter().for_each(|pair| *labels.entry(*pair).or_default() += 1);
    }
    let line = |((gold, answered), count): ((&str, &str), u64)| Labelled {
        gold: gold.into(),
        answered: answered.into(),
        count,
    };
    let mut labels: Vec<Labelled> = labels.into_iter().map(line).collect();
    labels.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (&a.gold, &a.answered).cmp(&(&b.gold, &b.answered))));
    let interval =
        linear_f1(&of().map(|one| one.map(|one| one.tally.counts()).unwrap_or_default()).collect::<Vec<_>>());
    MeasureErrors { measure, tally: sum, interval, labels }
}

fn transition(measure: Measure, [from, to]: [&str; 2], a: &Reading<'_>, b: &Reading<'_>) -> Transition {
    let mut found = Transition {
        from: from.to_string(),
        to: to.to_string(),
        measure,
        both: 0,
        neither: 0,
        fixed: BTreeMap::new(),
        lost: BTreeMap::new(),
        withdrawn: BTreeMap::new(),
        introduced: BTreeMap::new(),
        repeated: 0,
    };
    let nothing = Aligned::default();
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (under(a, measure).unwrap_or(&nothing), under(b, measure).unwrap_or(&nothing));
        for (key, first) in &a.gold {
            match (first, b.gold.get(key).copied().flatten()) {
                (None, None) => found.both += 1,
                (Some(kind), None) => *found.fixed.entry(*kind).or_default() += 1,
                (None, Some(kind)) => *found.lost.entry(kind).or_default() += 1,
                (Some(_), Some(_)) => found.neither += 1,
            }
        }
        for (answer, kind) in &a.wrong {
            match b.wrong.contains_key(answer) {
                true => found.repeated += 1,
                false => *found.withdrawn.entry(*kind).or_default() += 1,
            }
        }
        let new = b.wrong.iter().filter(|(answer, _)| !a.wrong.contains_key(*answer));
        new.for_each(|(_, kind)| *found.introduced.entry(*kind).or_default() += 1);
    }
    found
}

#[cfg(test)]
mod tests;
