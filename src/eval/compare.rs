//! Systems side by side on the same documents: scores with intervals, what a document costs, and
//! the paired difference to one of them.

use super::align::Rules;
use super::bootstrap::{Interval, Resampling, difference_interval, f1_interval, quantile};
use super::counts::{Counts, Scores};
use super::score::{ScoreError, Scored, score};
use super::table;
use crate::ie::{Document, Extractor, Prediction};
use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The system.
    pub name: String,
    /// What it got right.
    pub scores: Scores,
    /// 95 % interval of the entity F1.
    pub entities_interval: Option<Interval>,
    /// 95 % interval of the strict relation F1.
    pub relations_interval: Option<Interval>,
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
}

impl Row {
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
    /// One row a system.
    pub systems: Vec<Row>,
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

/// Scores every system and compares it with the reference, pairing documents.
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
    let rows = systems.iter().zip(&scored).enumerate();
    let rows = rows.map(|(at, (system, own))| row(system, own, (at != base).then_some(&scored[base]), how));
    Ok(Comparison {
        documents: documents.len() as u64,
        reference: reference.to_string(),
        resampling: how,
        systems: rows.collect(),
    })
}

fn row(system: &System, own: &Scored, reference: Option<&Scored>, how: Resampling) -> Row {
    let entities = |scored: &Scored| scored.documents.iter().map(|one| one.entities).collect::<Vec<Counts>>();
    let relations = |scored: &Scored| scored.documents.iter().map(|one| one.relations).collect::<Vec<Counts>>();
    let difference = |pick: &dyn Fn(&Scored) -> Vec<Counts>| difference(&pick(own), &pick(reference?), how);
    let spent = Spent::of(&system.predictions);
    Row {
        name: system.name.clone(),
        scores: own.total.clone(),
        entities_interval: f1_interval(&entities(own), how),
        relations_interval: f1_interval(&relations(own), how),
        entities_difference: difference(&entities),
        relations_difference: difference(&relations),
        calls: system.predictions.iter().map(|one| one.cost.calls).sum(),
        prompt_tokens: spent.prompt_tokens,
        completion_tokens: spent.completion_tokens,
        seconds_mean: spent.seconds_mean,
        seconds_p50: spent.seconds_p50,
    }
}

fn difference(own: &[Counts], reference: &[Counts], how: Resampling) -> Option<Difference> {
    let total = |counts: &[Counts]| {
        let mut sum = Counts::default();
        counts.iter().for_each(|one| sum += one);
        sum.f1()
    };
    let f1 = total(own)? - total(reference)?;
    let interval = difference_interval(own, reference, how)?;
    let verdict = match interval {
        Interval { low, .. } if low > 0.0 => Verdict::Better,
        Interval { high, .. } if high < 0.0 => Verdict::Worse,
        _ => Verdict::CannotTell,
    };
    Some(Difference { f1, interval, verdict })
}

/// What one predicted document took, on average.
struct Spent {
    prompt_tokens: Option<f64>,
    completion_tokens: Option<f64>,
    seconds_mean: Option<f64>,
    seconds_p50: Option<f64>,
}

impl Spent {
    /// A document without a call (a blank one) costs nothing; a system without any call was not
    /// measured at all.
    fn of(predictions: &[Prediction]) -> Spent {
        let costs = predictions.iter().map(|one| one.cost);
        if costs.clone().all(|cost| cost.calls == 0) {
            return Spent { prompt_tokens: None, completion_tokens: None, seconds_mean: None, seconds_p50: None };
        }
        let count = predictions.len() as f64;
        let mean = |tokens: &dyn Fn(usize) -> Option<u64>| {
            let each =
                predictions.iter().enumerate().map(|(at, one)| if one.cost.calls == 0 { Some(0) } else { tokens(at) });
            each.collect::<Option<Vec<u64>>>().map(|each| each.iter().map(|&one| one as f64).sum::<f64>() / count)
        };
        let mut seconds: Vec<f64> = costs.map(|cost| cost.seconds).filter(|seconds| seconds.is_finite()).collect();
        let measured = seconds.iter().any(|&one| one > 0.0);
        seconds.sort_by(f64::total_cmp);
        Spent {
            prompt_tokens: mean(&|at| predictions[at].cost.prompt_tokens),
            completion_tokens: mean(&|at| predictions[at].cost.completion_tokens),
            seconds_mean: measured.then(|| seconds.iter().sum::<f64>() / seconds.len() as f64),
            seconds_p50: quantile(&seconds, 0.5).filter(|_| measured),
        }
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
