//! How a student is trained.

use super::error::TrainError;
use super::schedule::Schedule;
use crate::store::hash_bytes;
use crate::student::{LoraConfig, ModelConfig};
use serde::{Deserialize, Serialize};

/// What happens to items with more tokens than fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExcessLength {
    /// Training is refused, naming the first of them.
    #[default]
    Raise,
    /// They are left out, and named.
    Drop,
}

/// Everything that decides what is learned from given items.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainConfig {
    /// Passes over the items. Default 3.
    pub num_epochs: usize,
    /// Optimiser steps, in place of `num_epochs`. Default none.
    pub max_steps: Option<usize>,
    /// Peak learning rate. Default 2e-4.
    pub learning_rate: f64,
    /// How the rate falls. Default linear.
    pub schedule: Schedule,
    /// Share of the steps in which the rate rises, rounded up. Default 0.03.
    pub warmup_ratio: f64,
    /// LoRA+: what the rate is multiplied with for the factors B. Default 1, off.
    pub loraplus_lr_ratio: f64,
    /// Decoupled weight decay. Default 0.
    pub weight_decay: f64,
    /// Decay of the mean of the gradients. Default 0.9.
    pub adam_beta1: f64,
    /// Decay of the mean of their squares. Default 0.999.
    pub adam_beta2: f64,
    /// Added to the root of the squares. Default 1e-8.
    pub adam_epsilon: f64,
    /// Longest gradient, as one L2 norm over all adapters; 0 is off. Default 1.
    pub max_grad_norm: f64,
    /// Items in one forward, at most; memory grows linearly. Default 4.
    pub micro_batch_size: usize,
    /// One step sees `micro_batch_size` times this many items. Default 4.
    pub gradient_accumulation_steps: usize,
    /// Tokens of one item, prompt and answer; memory grows with it. Default 1024.
    pub sequence_len: usize,
    /// What happens to longer items. Default raise.
    pub excess_length: ExcessLength,
    /// Measurements on the validation split per epoch, evenly spread, the last at its end; 0 is
    /// none, and the last step then counts as the best. Default 1.
    pub evals_per_epoch: usize,
    /// Steps from checkpoint to checkpoint; 0 is at the end alone. Default 50.
    pub save_steps: usize,
    /// Decides adapters, order and dropout. Default 42.
    pub seed: u64,
    /// What is adapted.
    pub lora: LoraConfig,
    /// Steps in a row that may have no finite gradient. Default 3.
    pub max_skipped: usize,
}

impl Default for TrainConfig {
    fn default() -> TrainConfig {
        TrainConfig {
            num_epochs: 3,
            max_steps: None,
            learning_rate: 2e-4,
            schedule: Schedule::default(),
            warmup_ratio: 0.03,
            loraplus_lr_ratio: 1.0,
            weight_decay: 0.0,
            adam_beta1: 0.9,
            adam_beta2: 0.999,
            adam_epsilon: 1e-8,
            max_grad_norm: 1.0,
            micro_batch_size: 4,
            gradient_accumulation_steps: 4,
            sequence_len: 1024,
            excess_length: ExcessLength::default(),
            evals_per_epoch: 1,
            save_steps: 50,
            seed: 42,
            lora: LoraConfig::default(),
            max_skipped: 3,
        }
    }
}

impl TrainConfig {
    /// Refuses what cannot be trained with.
    ///
    /// # Errors
    /// The first setting out of its range.
    pub fn check(&self) -> Result<(), TrainError> {
        let fail = |name: &str, found: &dyn std::fmt::Display, expected: &str| {
            Err(TrainError::Config(format!("{name} is {found}; expected {expected}")))
        };
        let counts = [
            ("num_epochs", self.num_epochs),
            ("max_steps", self.max_steps.unwrap_or(1)),
            ("micro_batch_size", self.micro_batch_size),
            ("gradient_accumulation_steps", self.gradient_accumulation_steps),
            ("sequence_len", self.sequence_len),
        ];
        // The product of two of them must not overflow.
        if let Some((name, count)) = counts.iter().find(|(_, count)| !(1..=1 << 30).contains(count)) {
            return fail(name, count, "1 to 1073741824");
        }
        if self.evals_per_epoch > 1 << 30 {
            return fail("evals_per_epoch", &self.evals_per_epoch, "0 to 1073741824");
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return fail("learning_rate", &self.learning_rate, "a number above 0");
        }
        let shares = [("adam_beta1", self.adam_beta1), ("adam_beta2", self.adam_beta2)];
        if let Some((name, share)) = shares.iter().find(|(_, share)| !(0.0..1.0).contains(share)) {
            return fail(name, share, "0 up to, not including, 1");
        }
        if !(0.0..=1.0).contains(&self.warmup_ratio) {
            return fail("warmup_ratio", &self.warmup_ratio, "0 to 1; above 1 the peak would never be reached");
        }
        if !(self.loraplus_lr_ratio > 0.0 && self.loraplus_lr_ratio.is_finite()) {
            return fail("loraplus_lr_ratio", &self.loraplus_lr_ratio, "a number above 0");
        }
        let amounts = [
            ("weight_decay", self.weight_decay),
            ("adam_epsilon", self.adam_epsilon),
            ("max_grad_norm", self.max_grad_norm),
        ];
        if let Some((name, amount)) = amounts.iter().find(|(_, amount)| !(*amount >= 0.0 && amount.is_finite())) {
            return fail(name, amount, "0 or a number above");
        }
        Ok(self.lora.check()?)
    }

    /// Items of one step.
    pub(super) fn window(&self) -> usize {
        self.micro_batch_size * self.gradient_accumulation_steps
    }

    /// A hash of everything here that decides the learned numbers, and of the model's shape.
    pub(super) fn hash(&self, base_name: &str, model: &ModelConfig) -> String {
        // How often one saves, and how many failures are borne, does not change the numbers.
        let decisive = TrainConfig { save_steps: 0, max_skipped: 0, ..self.clone() };
        hash_bytes(format!("layout 1\n{base_name}\n{model:?}\n{decisive:?}").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let good = TrainConfig::default();
        good.check().unwrap();
        let broken = [
            (TrainConfig { warmup_ratio: 1.5, ..good.clone() }, "warmup_ratio is 1.5"),
            (TrainConfig { warmup_ratio: f64::NAN, ..good.clone() }, "warmup_ratio is NaN"),
            (TrainConfig { learning_rate: 0.0, ..good.clone() }, "learning_rate is 0"),
            (TrainConfig { learning_rate: f64::INFINITY, ..good.clone() }, "learning_rate is inf"),
            (TrainConfig { adam_beta2: 1.0, ..good.clone() }, "adam_beta2 is 1"),
            (TrainConfig { loraplus_lr_ratio: 0.0, ..good.clone() }, "loraplus_lr_ratio is 0"),
            (TrainConfig { max_grad_norm: -1.0, ..good.clone() }, "max_grad_norm is -1"),
            (TrainConfig { micro_batch_size: 0, ..good.clone() }, "micro_batch_size is 0"),
            (TrainConfig { max_steps: Some(0), ..good.clone() }, "max_steps is 0"),
            (TrainConfig { lora: LoraConfig { r: 0, ..LoraConfig::default() }, ..good.clone() }, "r is 0"),
        ];
        for (config, says) in broken {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
