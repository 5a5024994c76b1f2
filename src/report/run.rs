//! Everything a page needs to know of a run, as one value that serialises.

use super::calibration::Calibration;
use super::card::Card;
use super::flow::Flow;
use crate::eval::Comparison;
use crate::eval::analysis::Analysis;
use crate::eval::compare::Row;
use crate::eval::compat::SystemSpread;
use crate::eval::economics::{CostModel, Economics};
use crate::eval::reliability::Reliability;
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
    /// Where the systems and the stages of the debate go wrong; absent until that was looked into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
    /// The main figures of every system, and how far the published conventions lie apart on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<SystemSpread>,
    /// Whether the confidences of the systems hold on the test split.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reliability: Vec<Reliability>,
    /// What the filter learned of the team's confidences, where it was fitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<Calibration>,
    /// What became of the conflicts of each debate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
    /// What the student's model card says beside the figures; absent if there is no adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
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

impl RunReport {
    /// The student's row, where both were scored.
    pub fn student_row(&self) -> Option<&Row> {
        self.comparison.as_ref()?.system(&self.student)
    }

    /// The team's row, where both were scored.
    pub fn team_row(&self) -> Option<&Row> {
        self.comparison.as_ref()?.system(&self.team)
    }

    /// What the systems take, where they were scored.
    pub fn economics(&self) -> Option<Economics> {
        Some(Economics::of(self.comparison.as_ref()?, self.cost.as_ref(), &self.student))
    }

    /// After how many documents the student has earned back what making it took; `None` if it
    /// never does, or a price is unknown.
    pub fn break_even(&self) -> Option<u64> {
        self.cost.as_ref()?.break_even(self.team_row()?, self.student_row()?)
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
