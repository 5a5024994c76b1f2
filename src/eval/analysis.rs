//! Where systems go wrong, and with which documents: errors by kind for every system or stage of
//! a debate, what one of them fixes and loses against another, the same scores on what training
//! cannot have shown, which labels are taken for which, and the hardest documents.
//!
//! A stage and a system are the same thing here: a name, and what it found in every document.

use super::bootstrap::{Draws, Interval, Resampling};
use super::counts::Counts;
use super::errors::{Aligned, Errors, Kind, align, mentions};
use super::verdict::sum;
use crate::ie::record::{EntityRecord, ExtractionRecord};
use crate::ie::{Document, Extraction};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Characters of a hard document that are shown.
const SHOWN: usize = 1200;

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
    /// Gold mentions that both find.
    pub both: u64,
    /// Gold mentions that neither finds.
    pub neither: u64,
    /// Gold mentions that only the second finds, by how the first missed them.
    pub fixed: BTreeMap<Kind, u64>,
    /// Gold mentions that only the first finds, by how the second misses them.
    pub lost: BTreeMap<Kind, u64>,
    /// Wrong answers of the first that the second does not give, by what was wrong with them.
    pub withdrawn: BTreeMap<Kind, u64>,
    /// Wrong answers of the second that the first did not give.
    pub introduced: BTreeMap<Kind, u64>,
    /// Wrong answers that both give.
    pub repeated: u64,
}

impl Transition {
    /// Gold mentions that only the second finds.
    pub fn fixed(&self) -> u64 {
        self.fixed.values().sum()
    }

    /// Gold mentions that only the first finds.
    pub fn lost(&self) -> u64 {
        self.lost.values().sum()
    }
}

/// Scores on a part of what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subset {
    /// Which part.
    pub name: String,
    /// Documents with anything of it.
    pub documents: u64,
    /// Gold mentions in it.
    pub gold: u64,
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
}

/// A document that is read badly, and by whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hard {
    /// Its id.
    pub id: String,
    /// Its text, or the beginning of a long one.
    pub text: String,
    /// Characters of the text that are not shown, mentions in them included.
    pub cut: u64,
    /// What annotators found.
    pub gold: Vec<EntityRecord>,
    /// What the systems found.
    pub answers: Vec<Answer>,
}

/// What a system found in a hard document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The system.
    pub system: String,
    /// Mistakes in this document.
    pub errors: Errors,
    /// Its entities.
    pub entities: Vec<EntityRecord>,
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
}

/// Looks into the entities of every reading: a name, and an extraction for each document, in the
/// order of the documents. A document without gold has nothing to find; a reading that failed is
/// an empty extraction.
pub fn analyse(documents: &[Document], readings: &[(String, Vec<Extraction>)], asked: &Asked<'_>) -> Analysis {
    let nothing = Extraction::default();
    let gold = |document: &'_ Document| document.gold.clone().unwrap_or_default();
    let golds: Vec<Extraction> = documents.iter().map(gold).collect();
    let aligned: Vec<Vec<Aligned<'_>>> = readings
        .iter()
        .map(|(_, found)| {
            let each = documents.par_iter().zip(&golds).enumerate();
            each.map(|(at, (document, gold))| align(&document.text, gold, found.get(at).unwrap_or(&nothing))).collect()
        })
        .collect();
    let at = |name: &str| readings.iter().position(|(one, _)| one == name);
    let systems = readings.iter().zip(&aligned).map(|((name, _), aligned)| errors(name, aligned)).collect();
    let pairs = asked.pairs.iter().filter_map(|&(from, to)| Some((from, to, at(from)?, at(to)?)));
    let transitions = pairs.map(|(from, to, a, b)| transition(from, to, &aligned[a], &aligned[b])).collect();
    let shown: Vec<usize> = asked.shown.iter().filter_map(|name| at(name)).collect();
    Analysis {
        systems,
        transitions,
        subsets: asked
            .seen
            .map(|seen| subsets(documents, &golds, readings, seen, asked.resampling))
            .unwrap_or_default(),
        hardest: hardest(documents, &golds, readings, &aligned, &shown, asked.hardest),
    }
}

fn errors(name: &str, aligned: &[Aligned<'_>]) -> SystemErrors {
    let mut sum = Errors::default();
    let mut labels: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for one in aligned {
        sum += &one.errors;
        one.labels.iter().for_each(|pair| *labels.entry(*pair).or_default() += 1);
    }
    let of = |((gold, answered), count): ((&str, &str), u64)| Labelled {
        gold: gold.into(),
        answered: answered.into(),
        count,
    };
    let mut labels: Vec<Labelled> = labels.into_iter().map(of).collect();
    labels.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (&a.gold, &a.answered).cmp(&(&b.gold, &b.answered))));
    SystemErrors { name: name.to_string(), errors: sum, labels }
}

fn transition(from: &str, to: &str, a: &[Aligned<'_>], b: &[Aligned<'_>]) -> Transition {
    let mut found = Transition {
        from: from.to_string(),
        to: to.to_string(),
        both: 0,
        neither: 0,
        fixed: BTreeMap::new(),
        lost: BTreeMap::new(),
        withdrawn: BTreeMap::new(),
        introduced: BTreeMap::new(),
        repeated: 0,
    };
    for (a, b) in a.iter().zip(b) {
        for (mention, first) in &a.gold {
            match (first, b.gold.get(mention).copied().flatten()) {
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

/// Whether a mention with this surface, in a document with this id, belongs to a part.
type Belongs<'a> = &'a (dyn Fn(&Document, &str) -> bool + Sync);

fn subsets(
    documents: &[Document],
    golds: &[Extraction],
    readings: &[(String, Vec<Extraction>)],
    seen: &Seen,
    how: Resampling,
) -> Vec<Subset> {
    let known = |text: &str| seen.surfaces.contains(&surface(text));
    let fresh = |document: &Document| !seen.leaked.contains(&document.id);
    let unshown = |_: &Document, text: &str| !known(text);
    let shown = |_: &Document, text: &str| known(text);
    let clean = |document: &Document, _: &str| fresh(document);
    let clean_unshown = |document: &Document, text: &str| fresh(document) && !known(text);
    let mut parts: Vec<(&str, Belongs<'_>)> =
        vec![("names that training did not show", &unshown), ("names that training showed", &shown)];
    if !seen.leaked.is_empty() {
        parts.push(("documents without a copy in training", &clean));
        parts.push(("of these, names that training did not show", &clean_unshown));
    }
    let nothing = Extraction::default();
    let part = |(name, belongs): (&str, Belongs<'_>)| {
        let counted = |found: &[Extraction]| -> Vec<Counts> {
            let each = documents.par_iter().zip(golds).enumerate();
            each.map(|(at, (document, gold))| within(document, gold, found.get(at).unwrap_or(&nothing), belongs))
                .collect()
        };
        let sets: Vec<Vec<Counts>> = readings.iter().map(|(_, found)| counted(found)).collect();
        let draws = Draws::of(&sets.iter().map(Vec::as_slice).collect::<Vec<_>>(), how);
        let of = |(at, (name, _)): (usize, &(String, Vec<Extraction>))| SubsetScore {
            name: name.clone(),
            entities: sum(&sets[at]),
            interval: draws.f1(at),
        };
        let systems: Vec<SubsetScore> = readings.iter().enumerate().map(of).collect();
        let held = (0..documents.len()).filter(|&at| sets.iter().any(|set| !set[at].is_empty())).count();
        let gold = systems.first().map_or(0, |one| one.entities.tp + one.entities.fn_);
        Subset { name: name.to_string(), documents: held as u64, gold, systems }
    };
    parts.into_iter().map(part).collect()
}

/// Strict counts of the mentions that belong to a part. An answer without a place in the text is
/// in no part.
fn within(document: &Document, gold: &Extraction, answer: &Extraction, belongs: Belongs<'_>) -> Counts {
    let text = &document.text;
    let [(wanted, _), (given, _)] = [gold, answer].map(|one| mentions(one, text));
    let counted = |mention: &&(crate::ie::Span, &str)| belongs(document, mention.0.slice(text));
    let [wanted, given] = [&wanted, &given].map(|set| set.iter().filter(counted).copied().collect::<BTreeSet<_>>());
    let tp = wanted.intersection(&given).count() as u64;
    Counts { tp, fp: given.len() as u64 - tp, fn_: wanted.len() as u64 - tp }
}

fn hardest(
    documents: &[Document],
    golds: &[Extraction],
    readings: &[(String, Vec<Extraction>)],
    aligned: &[Vec<Aligned<'_>>],
    shown: &[usize],
    most: usize,
) -> Vec<Hard> {
    let mistakes = |at: usize| shown.iter().map(|&system| aligned[system][at].errors.total()).sum::<u64>();
    let mut order: Vec<(u64, usize)> =
        (0..documents.len()).map(|at| (mistakes(at), at)).filter(|(mistakes, _)| *mistakes > 0).collect();
    order.sort_by_key(|&(mistakes, at)| (std::cmp::Reverse(mistakes), at));
    let hard = |(_, at): (u64, usize)| {
        let document = &documents[at];
        let letters = document.text.chars().count();
        let shown_letters = letters.min(SHOWN);
        let entities = |extraction: &Extraction| {
            let mut entities = ExtractionRecord::of(extraction, &document.text).entities;
            entities.retain(|entity| entity.end.is_none_or(|end| end <= shown_letters));
            entities
        };
        let answer = |&system: &usize| Answer {
            system: readings[system].0.clone(),
            errors: aligned[system][at].errors.clone(),
            entities: readings[system].1.get(at).map(&entities).unwrap_or_default(),
        };
        Hard {
            id: document.id.clone(),
            text: document.text.chars().take(shown_letters).collect(),
            cut: (letters - shown_letters) as u64,
            gold: entities(&golds[at]),
            answers: shown.iter().map(answer).collect(),
        }
    };
    order.into_iter().take(most).map(hard).collect()
}

#[cfg(test)]
#[path = "analysis_tests.rs"]
mod tests;
