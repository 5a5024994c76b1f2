//! Everything a page needs to know of a run, as one value that serialises.

use crate::eval::Comparison;
use crate::eval::compare::Row;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// One run, as its report tells it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunReport {
    /// The experiment's name.
    pub title: String,
    /// What was asked for, in the order of the config.
    #[serde(default)]
    pub config: Vec<Fact>,
    /// Documents and gold items of every split.
    #[serde(default)]
    pub corpus: Vec<Split>,
    /// What every stage did, in the order of the arrow.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// The systems on the test split; absent until they were scored.
    #[serde(default)]
    pub comparison: Option<Comparison>,
    /// The comparison's name for the team; empty if the run has none.
    #[serde(default)]
    pub team: String,
    /// The comparison's name for the student; empty if the run has none.
    #[serde(default)]
    pub student: String,
    /// The training log, by step.
    #[serde(default)]
    pub training: Vec<TrainingPoint>,
    /// Where it ran, in one line.
    #[serde(default)]
    pub hardware: String,
    /// What a reader must know before believing a number, one paragraph each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What a token and an hour cost; absent if nobody said.
    #[serde(default)]
    pub cost: Option<CostModel>,
}

/// A named value, as shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// What it says.
    pub value: String,
}

/// A split of the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// `train`, `valid`, `test`.
    pub name: String,
    /// Documents in it.
    pub documents: u64,
    /// Gold entities; 0 where nobody annotated.
    pub entities: u64,
    /// Gold relations.
    pub relations: u64,
    /// Gold events.
    pub events: u64,
}

/// What a stage did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// `debate`, `filter`, …
    pub name: String,
    /// Documents that went in.
    pub documents: u64,
    /// Requests to models; stored answers count.
    #[serde(default)]
    pub calls: u64,
    /// Tokens read and written; `None` where a server did not say.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Mentions that two agents labelled differently; `None` where nobody debates.
    #[serde(default)]
    pub conflicts: Option<u64>,
    /// Items that went on, by type.
    #[serde(default)]
    pub kept: BTreeMap<String, u64>,
    /// Items that did not, by reason.
    #[serde(default)]
    pub dropped: BTreeMap<String, u64>,
}

/// One line of the training log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingPoint {
    /// Optimiser steps done.
    pub step: u64,
    /// Mean loss per supervised token; what was not finite is written as null and stays not finite.
    #[serde(deserialize_with = "null_is_nan")]
    pub loss: f64,
    /// Learning rate of the step.
    #[serde(deserialize_with = "null_is_nan")]
    pub lr: f64,
    /// Global gradient norm before clipping.
    #[serde(deserialize_with = "null_is_nan")]
    pub grad_norm: f64,
    /// Entity F1 on the validation split, as a fraction, where it was measured.
    #[serde(default)]
    pub dev_f1: Option<f64>,
}

fn null_is_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// What the systems cost in money: per document, and once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// As it stands before an amount: `$`, `€`.
    pub currency: String,
    /// The price of running each system.
    pub prices: Vec<Price>,
    /// What making the student took: the team's tokens, the training hours.
    pub once: Vec<OneOff>,
}

/// The price of running a system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// The comparison's name for it.
    pub system: String,
    /// Per million tokens read.
    pub prompt: f64,
    /// Per million tokens written.
    pub completion: f64,
    /// Per hour of the machine it runs on.
    pub hour: f64,
}

/// An amount that is paid once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OneOff {
    /// What for.
    pub what: String,
    /// How much, in the model's currency.
    pub amount: f64,
}

impl CostModel {
    /// The cost of one document; `None` without a price, or where the usage it bills is unknown.
    pub fn per_document(&self, row: &Row) -> Option<f64> {
        let price = self.prices.iter().find(|price| price.system == row.name)?;
        let part = |rate: f64, used: Option<f64>, unit: f64| match used {
            _ if rate == 0.0 => Some(0.0),
            used => Some(rate * used? / unit),
        };
        let cost = part(price.prompt, row.prompt_tokens, 1e6)?
            + part(price.completion, row.completion_tokens, 1e6)?
            + part(price.hour, row.seconds_mean, 3600.0)?;
        cost.is_finite().then_some(cost)
    }

    /// Everything that is paid once.
    pub fn once(&self) -> f64 {
        self.once.iter().map(|one| one.amount).sum()
    }
}

impl RunReport {
    /// The student's row, where both were scored.
    pub fn student_row(&self) -> Option<&Row> {
        self.comparison.as_ref()?.system(&self.student)
    }

    /// The team's row, where both were scored.
    pub fn team_row(&self) -> Option<&Row> {
        self.comparison.as_ref()?.system(&self.team)
    }

    /// After how many documents the student has earned back what making it took; `None` if it
    /// never does, or a price is unknown.
    pub fn break_even(&self) -> Option<u64> {
        let cost = self.cost.as_ref()?;
        let saved = cost.per_document(self.team_row()?)? - cost.per_document(self.student_row()?)?;
        let documents = (cost.once() / saved).ceil();
        (saved > 0.0 && documents.is_finite()).then_some(documents.max(0.0) as u64)
    }

    /// The sentence that a reader takes away, and whether the student holds up.
    pub fn headline(&self) -> String {
        let (Some(student), Some(team)) = (self.student_row(), self.team_row()) else {
            return match &self.comparison {
                Some(_) => "The systems were scored, but student and team are not both among them.".into(),
                None => "This run has not been scored yet.".into(),
            };
        };
        super::number::headline(self, student, team)
    }
}
