//! Systems side by side on the same documents: scores with intervals, what a document costs, and
//! the paired difference to one of them.

use super::align::Rules;
use super::bootstrap::{Draws, Interval, Resampling};
use super::counts::{Counts, Scores};
use super::economics::Spent;
use super::score::{ScoreError, Scored, score};
use super::seeds::{Seeds, groups};
use super::table;
use super::verdict::{DELTA, Measure, Question, Tested, correct, linear_f1};
use crate::ie::{Document, Extractor, Prediction};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A system's name and what it predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// As it stands in tables.
    pub name: String,
    /// Its predictions, in any order.
    pub predictions: Vec<Prediction>,
}

impl System {
    /// Lets an extractor read the documents.
    pub fn read(extractor: &dyn Extractor, documents: &[Document]) -> System {
        System { name: extractor.name().to_string(), predictions: extractor.extract(documents) }
    }
}

/// What the sample says of a difference at the 95 % level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval lies above zero.
    Better,
    /// The whole interval lies below zero.
    Worse,
    /// Zero lies inside.
    CannotTell,
}

impl Verdict {
    /// From the interval of the difference.
    pub fn of(interval: Interval) -> Verdict {
        match interval {
            Interval { low, .. } if low > 0.0 => Verdict::Better,
            Interval { high, .. } if high < 0.0 => Verdict::Worse,
            _ => Verdict::CannotTell,
        }
    }

    /// In words, as they end a sentence.
    pub fn words(&self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::CannotTell => "the sample cannot tell",
        }
    }
}

/// F1 of a system minus F1 of the reference, as fractions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// On the documents as they are.
    pub f1: f64,
    /// Paired, 95 %.
    pub interval: Interval,
    /// What follows.
    pub verdict: Verdict,
}

/// One system's row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The system.
    pub name: String,
    /// What it got right.
    pub scores: Scores,
    /// 95 % interval of the entity F1.
    pub entities_interval: Option<Interval>,
    /// 95 % interval of the strict relation F1.
    pub relations_interval: Option<Interval>,
    /// 95 % intervals of the F1 of single types, linearised; a type without one is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub type_intervals: BTreeMap<Measure, BTreeMap<String, Interval>>,
    /// Entity F1 against the reference; `None` for the reference itself and where F1 says nothing.
    pub entities_difference: Option<Difference>,
    /// Strict relation F1 against the reference.
    pub relations_difference: Option<Difference>,
    /// Requests, all documents together.
    pub calls: u64,
    /// Tokens read, per document; `None` if the server left it out anywhere.
    pub prompt_tokens: Option<f64>,
    /// Tokens written, per document; `None` if the server left it out anywhere.
    pub completion_tokens: Option<f64>,
    /// Seconds of model time per document, mean; `None` if nothing was measured.
    pub seconds_mean: Option<f64>,
    /// Seconds of model time, median document; `None` if nothing was measured.
    pub seconds_p50: Option<f64>,
    /// Seconds of model time that 95 of 100 documents stay below.
    #[serde(default)]
    pub seconds_p95: Option<f64>,
    /// Seconds of model time that 99 of 100 documents stay below.
    #[serde(default)]
    pub seconds_p99: Option<f64>,
    /// Against the reference: every measure that can be compared, all types together first, then
    /// type by type. Empty for the reference itself.
    #[serde(default)]
    pub tests: Vec<Tested>,
}

impl Row {
    /// Documents a second of model time, one after the other.
    pub fn documents_per_second(&self) -> Option<f64> {
        self.seconds_mean.filter(|&seconds| seconds > 0.0).map(|seconds| 1.0 / seconds)
    }

    /// The answer about a measure, all types together.
    pub fn test(&self, measure: Measure) -> Option<&Tested> {
        self.tests.iter().find(|test| test.measure == measure && test.label.is_none())
    }

    /// Tokens read and written, per document; unknown if either is.
    pub fn tokens(&self) -> Option<f64> {
        Some(self.prompt_tokens? + self.completion_tokens?)
    }

    /// Requests per document.
    pub fn calls_per_document(&self) -> f64 {
        self.calls as f64 / self.scores.documents.max(1) as f64
    }
}

/// Several systems on the same documents, in the order given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Gold documents.
    pub documents: u64,
    /// The system that differences are taken to.
    pub reference: String,
    /// How the intervals were made.
    pub resampling: Resampling,
    /// The loss of F1, as a fraction, that still counts as standing in for the reference.
    #[serde(default = "usual_delta")]
    pub delta: f64,
    /// One row a system.
    pub systems: Vec<Row>,
    /// Systems that were trained with several seeds, as one; see [`super::seeds`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<Seeds>,
}

fn usual_delta() -> f64 {
    DELTA
}

/// Why systems cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// A system's predictions do not fit the gold.
    #[error("system \"{name}\": {error}")]
    Score {
        /// The system.
        name: String,
        /// What does not fit.
        error: ScoreError,
    },
    /// Two systems of one name.
    #[error("two systems are named \"{0}\"; a table needs distinct names")]
    NameTwice(String),
    /// The reference is none of the systems.
    #[error("reference \"{name}\" is none of the systems; known: {known}")]
    NoReference {
        /// What was asked.
        name: String,
        /// What there is.
        known: String,
    },
}

/// Scores every system and compares it with the reference, pairing documents; a loss of up to
/// [`DELTA`] still stands in for the reference.
///
/// # Errors
/// If a system does not fit the gold, a name repeats, or the reference is none of the systems.
pub fn compare(
    documents: &[Document],
    systems: &[System],
    reference: &str,
    rules: &Rules,
    how: Resampling,
) -> Result<Comparison, CompareError> {
    compare_within(documents, systems, reference, rules, how, DELTA)
}

/// As [`compare()`], with the loss of F1 that still stands in, as a fraction.
///
/// # Errors
/// As [`compare()`].
pub fn compare_within(
    documents: &[Document],
    systems: &[System],
    reference: &str,
    rules: &Rules,
    how: Resampling,
    delta: f64,
) -> Result<Comparison, CompareError> {
    if let Some((_, twice)) =
        systems.iter().enumerate().find(|(at, one)| systems[..*at].iter().any(|other| other.name == one.name))
    {
        return Err(CompareError::NameTwice(twice.name.clone()));
    }
    let base = systems.iter().position(|system| system.name == reference).ok_or_else(|| {
        let known = systems.iter().map(|system| system.name.as_str()).collect::<Vec<_>>().join(", ");
        CompareError::NoReference { name: reference.to_string(), known }
    })?;
    let scored = systems.iter().map(|system| {
        score(documents, &system.predictions, rules)
            .map_err(|error| CompareError::Score { name: system.name.clone(), error })
    });
    let scored = scored.collect::<Result<Vec<Scored>, CompareError>>()?;
    let sample = Sample::of(&scored, how);
    let rows = systems.iter().zip(&scored).enumerate();
    let mut rows: Vec<Row> = rows
        .map(|(at, (system, own))| {
            let tests = if at == base { vec![] } else { tests(&scored, &sample, at, base, how, delta) };
            row(system, own, &sample, at, tests)
        })
        .collect();
    for together in [true, false] {
        let family = rows.iter_mut().flat_map(|row| &mut row.tests);
        correct(family.filter(|test| test.label.is_none() == together).collect());
    }
    Ok(Comparison {
        documents: documents.len() as u64,
        reference: reference.to_string(),
        resampling: how,
        delta,
        systems: rows,
        seeds: groups(&systems.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), &scored, base, delta),
    })
}

/// The draws of all systems and measures that have anything to count.
struct Sample {
    measures: Vec<Measure>,
    draws: Draws,
}

impl Sample {
    fn of(scored: &[Scored], how: Resampling) -> Sample {
        // Events that no system was made for are nothing to compare, though the gold may hold some.
        let counted = |measure: &Measure| {
            scored.iter().map(|one| measure.counts(&one.total)).any(|counts| match measure {
                Measure::Entities | Measure::Relations => !counts.is_empty(),
                Measure::Triggers | Measure::Arguments => counts.tp > 0,
            })
        };
        let measures: Vec<Measure> = Measure::ALL.into_iter().filter(counted).collect();
        let sets: Vec<Vec<Counts>> =
            scored.iter().flat_map(|one| measures.iter().map(|measure| each(one, *measure))).collect();
        let draws = Draws::of(&sets.iter().map(Vec::as_slice).collect::<Vec<_>>(), how);
        Sample { measures, draws }
    }

    fn set(&self, system: usize, measure: Measure) -> Option<usize> {
        let at = self.measures.iter().position(|one| *one == measure)?;
        Some(system * self.measures.len() + at)
    }

    fn interval(&self, system: usize, measure: Measure) -> Option<Interval> {
        self.draws.f1(self.set(system, measure)?)
    }

    fn difference(&self, system: usize, reference: usize, measure: Measure) -> Option<Interval> {
        self.draws.difference(self.set(system, measure)?, self.set(reference, measure)?)
    }
}

fn each(scored: &Scored, measure: Measure) -> Vec<Counts> {
    scored.documents.iter().map(|one| measure.counts(one)).collect()
}

fn each_of_type(scored: &Scored, measure: Measure, label: &String) -> Vec<Counts> {
    let one = |scores: &Scores| measure.types(scores).and_then(|types| types.get(label).copied());
    scored.documents.iter().map(|scores| one(scores).unwrap_or_default()).collect()
}

fn type_intervals(own: &Scored, sample: &Sample) -> BTreeMap<Measure, BTreeMap<String, Interval>> {
    let of = |measure: Measure| {
        let labels = measure.types(&own.total).into_iter().flat_map(|types| types.keys());
        let each = labels.filter_map(|label| Some((label.clone(), linear_f1(&each_of_type(own, measure, label))?)));
        (measure, each.collect::<BTreeMap<_, _>>())
    };
    sample.measures.iter().map(|measure| of(*measure)).filter(|(_, of)| !of.is_empty()).collect()
}

fn tests(scored: &[Scored], sample: &Sample, at: usize, base: usize, how: Resampling, delta: f64) -> Vec<Tested> {
    let (own, reference) = (&scored[at], &scored[base]);
    let together = sample.measures.iter().filter_map(|&measure| {
        let interval = sample.difference(at, base, measure);
        let [own, reference] = [own, reference].map(|one| each(one, measure));
        Question { measure, label: None, own, reference, interval }.answer(how, delta)
    });
    let labels = |measure: Measure| {
        let of = [own, reference].map(|one| measure.types(&one.total));
        of.into_iter().flatten().flat_map(|types| types.keys()).collect::<std::collections::BTreeSet<&String>>()
    };
    let by_type = sample.measures.iter().flat_map(|&measure| {
        labels(measure).into_iter().filter_map(move |label| {
            let [own, reference] = [own, reference].map(|one| each_of_type(one, measure, label));
            // A type that neither finds tells nothing.
            let found = [&own, &reference].iter().any(|set| set.iter().any(|counts| counts.tp > 0));
            found
                .then(|| Question { measure, label: Some(label), own, reference, interval: None }.answer(how, delta))?
        })
    });
    together.chain(by_type).collect()
}

fn row(system: &System, own: &Scored, sample: &Sample, at: usize, tests: Vec<Tested>) -> Row {
    let spent = Spent::of(&system.predictions);
    let difference = |measure: Measure| {
        tests.iter().find(|test| test.measure == measure && test.label.is_none()).map(|test| test.difference)
    };
    Row {
        name: system.name.clone(),
        scores: own.total.clone(),
        entities_interval: sample.interval(at, Measure::Entities),
        relations_interval: sample.interval(at, Measure::Relations),
        type_intervals: type_intervals(own, sample),
        entities_difference: difference(Measure::Entities),
        relations_difference: difference(Measure::Relations),
        calls: system.predictions.iter().map(|one| one.cost.calls).sum(),
        prompt_tokens: spent.prompt_tokens,
        completion_tokens: spent.completion_tokens,
        seconds_mean: spent.seconds_mean,
        seconds_p50: spent.seconds_p50,
        seconds_p95: spent.seconds_p95,
        seconds_p99: spent.seconds_p99,
        tests,
    }
}

impl Comparison {
    /// The row of a system.
    pub fn system(&self, name: &str) -> Option<&Row> {
        self.systems.iter().find(|row| row.name == name)
    }

    /// One sentence per system and task that can be compared with the reference.
    pub fn verdicts(&self) -> Vec<String> {
        let rows = self.systems.iter().filter(|row| row.name != self.reference);
        let each = rows.flat_map(|row| {
            let ner = row.entities_difference.map(|found| self.sentence(&row.name, "entity", found));
            let re = row.relations_difference.map(|found| self.sentence(&row.name, "relation", found));
            ner.into_iter().chain(re)
        });
        each.collect()
    }

    /// "student is +3.1 [−1.2, 7.0] entity F1 points against team: the sample cannot tell."
    fn sentence(&self, name: &str, what: &str, found: Difference) -> String {
        let [f1, low, high] = [found.f1, found.interval.low, found.interval.high].map(|one| one * 100.0);
        format!(
            "{name} is {} [{}, {}] {what} F1 points against {}: {}.",
            table::signed(f1, 1),
            table::plain(low, 1),
            table::plain(high, 1),
            self.reference,
            found.verdict.words()
        )
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
