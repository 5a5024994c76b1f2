//! When the model is measured on the validation split, and what follows from it.

use super::Run;
use crate::train::error::TrainError;
use crate::train::log::LogLine;

impl Run<'_> {
    /// Measures at evenly spread steps of every epoch, and at the end.
    pub fn evaluate_if_due(&mut self) -> Result<(), TrainError> {
        let (step, evals) = (self.progress.step, self.config.evals_per_epoch);
        if evals == 0 || step == 0 || self.progress.evaluated == step {
            return Ok(());
        }
        let place = (step - 1) % self.per_epoch;
        // Due where the share of the epoch that is done passes a multiple of 1 / evals.
        let passes = (place + 1) * evals / self.per_epoch > place * evals / self.per_epoch;
        if !passes && step != self.total {
            return Ok(());
        }
        let found = match self.hooks.evaluate(&self.model, step) {
            Ok(metric) if (0.0..=1.0).contains(&metric) => Ok(metric),
            Ok(metric) => Err(format!("the metric is {metric}; expected 0 to 1")),
            Err(cause) => Err(cause),
        };
        match found {
            Ok(metric) => self.measured(metric),
            // Measured anew by the process that goes on from here.
            Err(_) if self.hooks.stopped() => Err(self.stop()),
            Err(cause) => {
                self.save()?;
                Err(TrainError::Evaluate { step, cause })
            }
        }
    }

    fn measured(&mut self, metric: f64) -> Result<(), TrainError> {
        let (step, best) = (self.progress.step, self.progress.best_metric);
        self.progress.evaluated = step;
        // As in `transformers`: what is too small a gain for patience is still the best.
        let gain = best.is_none_or(|best| metric > best && metric - best > self.config.early_stopping_threshold);
        self.progress.without_gain = if gain { 0 } else { self.progress.without_gain + 1 };
        if best.is_none_or(|best| metric > best) {
            (self.progress.best_step, self.progress.best_metric) = (Some(step), Some(metric));
        }
        let rate = self.progress.lines.last().map_or(0.0, |line| line.lr);
        let line = LogLine { eval_f1: Some(metric), ..self.line(rate) };
        self.log(line)?;
        if self.stops_early() && step < self.total {
            let (count, threshold) = (self.progress.without_gain, self.config.early_stopping_threshold);
            self.hooks.note(&format!(
                "step {step}: {count} measurements in a row were not better by more than {threshold}; training ends"
            ));
        }
        Ok(())
    }
}
