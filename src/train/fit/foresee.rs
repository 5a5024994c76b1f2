//! What a run would do, without doing it: the pre-flight check, and which items stand in which step.

use super::leave_out_weightless;
use crate::student::Student;
use crate::train::batches::Order;
use crate::train::config::TrainConfig;
use crate::train::error::TrainError;
use crate::train::preflight::{Item, TokenizedItem, preflight};

/// A run as it would be.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Foreseen {
    /// Items that are learned from.
    pub items: usize,
    /// Names of items that are left out, as they are too long or have weight 0.
    pub left_out: Vec<String>,
    /// Their tokens, prompts and answers.
    pub tokens: usize,
    /// Those of them that are learned.
    pub supervised_tokens: usize,
    /// Tokens of the longest item.
    pub longest: usize,
    /// Steps that see every item once.
    pub steps_per_epoch: usize,
    /// The names of each step's items, in the order of the steps. Within a step the order says nothing:
    /// its loss is a mean over all supervised tokens.
    pub steps: Vec<Vec<String>>,
}

/// Checks the items as [`fit`](super::fit) would, and puts them in its order.
///
/// # Errors
/// What the pre-flight check or the settings refuse.
pub fn foresee(student: &Student, items: &[Item], config: &TrainConfig) -> Result<Foreseen, TrainError> {
    config.check()?;
    let mut tokenized = preflight(student, items, config)?;
    let weightless = leave_out_weightless(&mut tokenized)?;
    let mut order = Order::new(&tokenized.items, config.seed, config.window());
    let per_epoch = order.steps_per_epoch();
    let total = config.max_steps.unwrap_or(config.num_epochs * per_epoch);
    let name = |at: &usize| tokenized.items[*at].name.clone();
    let steps = (0..total).map(|step| order.window(step).iter().map(name).collect()).collect();
    Ok(Foreseen {
        items: tokenized.items.len(),
        tokens: tokenized.items.iter().map(|item| item.ids.len()).sum(),
        supervised_tokens: tokenized.items.iter().map(TokenizedItem::learned).sum(),
        longest: tokenized.items.iter().map(|item| item.ids.len()).max().unwrap_or(0),
        left_out: tokenized.dropped.iter().cloned().chain(weightless).collect(),
        steps_per_epoch: per_epoch,
        steps,
    })
}
