//! What a run does when it diverges: it ends, or goes back once and takes smaller steps.

use super::Run;
use super::begin::begin;
use crate::train::checkpoint::{self, Progress, Rollback};
use crate::train::config::OnDivergence;
use crate::train::error::TrainError;
use crate::train::log::{self, Clock};
use crate::train::tensorboard::Board;

impl Run<'_> {
    /// Goes back to the last checkpoint before a step, or to the first step if there is none.
    ///
    /// Replayed to the same bytes: a run killed on the way back meets the same trouble again and
    /// goes back from it again, until a checkpoint knows of the rollback.
    ///
    /// # Errors
    /// The cause, where the config says so or where the run went back before.
    pub fn roll_back(&mut self, before: usize, cause: TrainError) -> Result<(), TrainError> {
        if self.config.on_divergence == OnDivergence::Stop || !self.progress.rollbacks.is_empty() {
            return Err(cause);
        }
        let from = self.progress.step;
        // What happened, without the ways out: one of them is taken here.
        let said = cause.to_string();
        let reason = said.split(" — ").next().unwrap_or_default().to_owned();
        let seconds = self.clock.seconds();
        let identity = self.progress.identity.clone();
        let found = checkpoint::last_before(self.dir, before, &identity, &self.numbers.shapes, self.total)?;
        let (mut progress, numbers) = match found {
            Some(found) => found,
            None => (Progress { identity, ..Progress::default() }, begin(&self.model, self.config)?.1),
        };
        let (to, factor) = (progress.step, self.config.rollback_lr_factor);
        progress.skips = std::mem::take(&mut self.progress.skips);
        progress.skips.iter_mut().filter(|skip| skip.step > to).for_each(|skip| skip.rolled_back = true);
        progress.rollbacks.push(Rollback { from, to, reason: reason.clone(), factor });
        self.saved = (to > 0).then_some((to, progress.evaluated));
        (self.progress, self.numbers) = (progress, numbers);
        self.clock = Clock::start(seconds, to, self.progress.total_tokens);
        log::rewrite(&self.dir.join("trainer_log.jsonl"), &self.progress.lines)?;
        log::rewrite(&self.dir.join("skipped.jsonl"), &self.progress.skips)?;
        if let Some(dir) = &self.config.tensorboard {
            self.board = Some(Board::open(dir, &self.progress.lines)?);
        }
        self.hooks.note(&format!("{reason}; rolled back to step {to}; the learning rate is multiplied by {factor}"));
        self.renew_model()
    }

    /// The step that an earlier rollback went back to.
    pub fn rolled_back(&self) -> Option<usize> {
        self.progress.rollbacks.last().map(|rollback| rollback.to)
    }

    /// The peak of the learning rate, lowered by rollbacks.
    pub fn peak(&self) -> f64 {
        self.progress.rollbacks.iter().fold(self.config.learning_rate, |rate, rollback| rate * rollback.factor)
    }
}
