//! What can stop training: refusals before the first step, and failures of a run.

use crate::store::StoreError;
use crate::student::StudentError;
use std::fmt;

/// A pre-flight check that says no.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Refusal {
    /// `E201` no item, `E202` no supervised token, `E203` end of turn not supervised, `E204` the
    /// beginning of text stands twice, `E205` the prompt is not what the training ids begin with,
    /// `E206` over-length, `E207` cannot be turned into tokens, `E208` unusable weight, `E209` and
    /// `E210` adapters that this model cannot have or begin with,
    /// `E221` the checkpoints are those of another config or corpus, `E222` no checkpoint to go on
    /// from where one was named.
    pub code: &'static str,
    /// Where, what was expected and found, and the way out.
    pub message: String,
}

impl Refusal {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }

    /// The refusal behind a model that loads but must not be trained.
    pub fn of(error: &StudentError) -> Option<Refusal> {
        matches!(error, StudentError::NoEnd { .. }).then(|| Refusal::new("E203", error.to_string()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Refusal {}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A setting cannot be used.
    #[error("training config: {0}")]
    Config(String),
    /// A pre-flight check refused the items.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The model failed.
    #[error(transparent)]
    Student(#[from] StudentError),
    /// A file failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Too many steps in a row without a usable gradient.
    #[error(
        "step {step}: {in_a_row} steps in a row had no finite gradient (last: {reason}); the items stand in \
         skipped.jsonl, the last checkpoint is whole{}", after(*rolled_back)
    )]
    Diverged {
        /// The last of them.
        step: usize,
        /// How many.
        in_a_row: usize,
        /// What was not finite.
        reason: String,
        /// The step that an earlier rollback went back to.
        rolled_back: Option<usize>,
    },
    /// An adapter's number left the range of f32.
    #[error(
        "step {step}: an adapter weight is no longer finite; it was not saved, the last checkpoint is whole{}",
        after(*rolled_back)
    )]
    Overflow {
        /// The step.
        step: usize,
        /// The step that an earlier rollback went back to.
        rolled_back: Option<usize>,
    },
    /// The caller asked to stop; what was learned is saved.
    #[error("stopped after step {step}; the same command goes on from there")]
    Stopped {
        /// Steps done.
        step: usize,
    },
    /// The model could not be measured on the validation split; what was learned is saved.
    #[error("evaluation at step {step}: {cause}")]
    Evaluate {
        /// Steps done.
        step: usize,
        /// Why not.
        cause: String,
    },
}

/// What was tried before, and the way out.
fn after(rolled_back: Option<usize>) -> String {
    match rolled_back {
        None => " — look at these items, lower train.learning_rate and start anew (--resume none), or go on with \
                 train.on_divergence = \"rollback\""
            .into(),
        Some(step) => format!(
            "; a rollback to step {step} with a lower rate did not help — look at these items, or lower \
             train.learning_rate and start anew (--resume none)"
        ),
    }
}
