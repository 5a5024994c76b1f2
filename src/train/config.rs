//! How a student is trained.

use super::error::TrainError;
use super::schedule::Schedule;
use crate::student::{LoraConfig, ModelConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything that decides a run's numbers, by the name a person knows it by.
pub(super) type Identity = BTreeMap<String, String>;

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

/// What happens when too many steps in a row have no finite gradient, or a weight overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDivergence {
    /// The run ends with an error.
    #[default]
    Stop,
    /// Once, the run goes back to the last checkpoint before the skipped steps.
    Rollback,
}

/// Numbers that the adapters begin with, in place of drawn ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitAdapter {
    /// A PEFT directory; its rank, strength and layers are those of the run's [`LoraConfig`].
    pub dir: PathBuf,
    /// SHA-256 of its tensors, so that a run does not go on from another beginning.
    pub sha256: String,
}

/// Everything that decides what is learned from given items, and how it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainConfig {
    /// SHA-256 of the base model's files, so that a run does not go on with other weights. Default
    /// unknown.
    pub base_sha256: Option<String>,
    /// Passes over the items. Default 3.
    pub num_epochs: usize,
    /// Optimiser steps, in place of `num_epochs`. Default none.
    pub max_steps: Option<usize>,
    /// What the adapters begin with. Default none: they are drawn.
    pub init_adapter: Option<InitAdapter>,
    /// Peak learning rate. Default 2e-4.
    pub learning_rate: f64,
    /// How the rate falls. Default linear.
    pub schedule: Schedule,
    /// Share of the steps in which the rate rises from 0, rounded up. Default 0.03.
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
    /// Devices that share the micro-batches of a step, each with a copy of the model: the student's
    /// and those numbered after it. Changes no sum. Default 1.
    pub devices: usize,
    /// Products of the frozen weights in bf16; adapters, norms and the loss stay f32. Default false.
    pub bf16: bool,
    /// Keep only the inputs of blocks for the backward, and compute the rest again. Changes no bit.
    /// Default false.
    pub gradient_checkpointing: bool,
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
    /// What happens then. Default stop.
    pub on_divergence: OnDivergence,
    /// Factor on the learning rate after a rollback. Default 0.5.
    pub rollback_lr_factor: f64,
    /// Newest checkpoints that are kept, besides the best that they name; 0 keeps all. Default 2.
    pub save_total_limit: usize,
    /// Measurements in a row without a better metric after which the run ends; 0 is off. Default 0.
    pub early_stopping_patience: usize,
    /// How much better is better. Default 0.
    pub early_stopping_threshold: f64,
    /// Where TensorBoard finds its event files. Default none are written.
    pub tensorboard: Option<PathBuf>,
}

impl Default for TrainConfig {
    fn default() -> TrainConfig {
        TrainConfig {
            base_sha256: None,
            num_epochs: 3,
            max_steps: None,
            init_adapter: None,
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
            devices: 1,
            bf16: false,
            gradient_checkpointing: false,
            sequence_len: 1024,
            excess_length: ExcessLength::default(),
            evals_per_epoch: 1,
            save_steps: 50,
            seed: 42,
            lora: LoraConfig::default(),
            max_skipped: 3,
            on_divergence: OnDivergence::default(),
            rollback_lr_factor: 0.5,
            save_total_limit: 2,
            early_stopping_patience: 0,
            early_stopping_threshold: 0.0,
            tensorboard: None,
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
            ("devices", self.devices),
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
            ("max_grad_norm", self.max_grad_norm),
            ("early_stopping_threshold", self.early_stopping_threshold),
        ];
        if let Some((name, amount)) = amounts.iter().find(|(_, amount)| !(*amount >= 0.0 && amount.is_finite())) {
            return fail(name, amount, "0 or a number above");
        }
        // Without it, a number whose gradients were all 0 would become 0 / 0.
        if !(self.adam_epsilon > 0.0 && self.adam_epsilon.is_finite()) {
            return fail("adam_epsilon", &self.adam_epsilon, "a number above 0");
        }
        if !(self.rollback_lr_factor > 0.0 && self.rollback_lr_factor <= 1.0) {
            return fail("rollback_lr_factor", &self.rollback_lr_factor, "above 0, at most 1");
        }
        if self.early_stopping_patience > 0 && self.evals_per_epoch == 0 {
            return fail("evals_per_epoch", &0, "1 or more where early_stopping_patience is set");
        }
        Ok(self.lora.check()?)
    }

    /// Items of one step.
    pub(super) fn window(&self) -> usize {
        self.micro_batch_size * self.gradient_accumulation_steps
    }

    /// Everything here that decides the learned numbers, and the base model. How many devices share
    /// the work, how often one saves, how much is kept, how many failures are borne and when to give up do not.
    pub(super) fn identity(&self, base_name: &str, model: &ModelConfig) -> Identity {
        // Sixteen digits of a hash are enough to tell two models apart, and to read.
        let short = |hash: &str| hash.chars().take(16).collect::<String>();
        let files = self.base_sha256.as_deref().map_or("unknown".into(), short);
        let init = self.init_adapter.as_ref().map_or("none".into(), |init| short(&init.sha256));
        let steps = self.max_steps.map_or_else(|| "none".into(), |steps| steps.to_string());
        let LoraConfig { r, alpha, rslora, dropout, targets } = &self.lora;
        let text = |key: &str, value: &dyn std::fmt::Display| (key.to_owned(), value.to_string());
        let debug = |key: &str, value: &dyn std::fmt::Debug| (key.to_owned(), format!("{value:?}"));
        Identity::from([
            text("base_model", &base_name),
            ("base_model sha256".to_owned(), files),
            debug("base_model shape", model),
            text("lora.alpha", alpha),
            text("lora.dropout", dropout),
            text("lora.r", r),
            text("lora.target_modules", &targets.join(",")),
            text("lora.use_rslora", rslora),
            text("seed", &self.seed),
            text("train.adam_beta1", &self.adam_beta1),
            text("train.adam_beta2", &self.adam_beta2),
            text("train.adam_epsilon", &self.adam_epsilon),
            text("train.bf16", &self.bf16),
            text("train.evals_per_epoch", &self.evals_per_epoch),
            text("train.excess_length_strategy", &format!("{:?}", self.excess_length).to_lowercase()),
            text("train.gradient_accumulation_steps", &self.gradient_accumulation_steps),
            text("train.init_adapter sha256", &init),
            text("train.learning_rate", &self.learning_rate),
            text("train.loraplus_lr_ratio", &self.loraplus_lr_ratio),
            text("train.lr_scheduler", &self.schedule.name()),
            text("train.max_grad_norm", &self.max_grad_norm),
            text("train.max_steps", &steps),
            text("train.micro_batch_size", &self.micro_batch_size),
            text("train.num_epochs", &self.num_epochs),
            text("train.sequence_len", &self.sequence_len),
            text("train.warmup_ratio", &self.warmup_ratio),
            text("train.weight_decay", &self.weight_decay),
        ])
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
            (TrainConfig { adam_epsilon: 0.0, ..good.clone() }, "adam_epsilon is 0"),
            (TrainConfig { rollback_lr_factor: 0.0, ..good.clone() }, "rollback_lr_factor is 0"),
            (
                TrainConfig { early_stopping_patience: 1, evals_per_epoch: 0, ..good.clone() },
                "evals_per_epoch is 0; expected 1 or more where early_stopping_patience",
            ),
            (TrainConfig { max_grad_norm: -1.0, ..good.clone() }, "max_grad_norm is -1"),
            (TrainConfig { micro_batch_size: 0, ..good.clone() }, "micro_batch_size is 0"),
            (TrainConfig { max_steps: Some(0), ..good.clone() }, "max_steps is 0"),
            (TrainConfig { devices: 0, ..good.clone() }, "devices is 0"),
            (TrainConfig { lora: LoraConfig { r: 0, ..LoraConfig::default() }, ..good.clone() }, "r is 0"),
        ];
        for (config, says) in broken {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn every_setting_decides_the_identity_or_is_known_not_to() {
        let model =
            crate::student::Weights::open(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama"));
        let model = model.unwrap().config().clone();
        let good = TrainConfig::default();
        let base = good.identity("base", &model);
        let lora = |lora: LoraConfig| TrainConfig { lora, ..good.clone() };
        let deciding = [
            TrainConfig { base_sha256: Some("x".into()), ..good.clone() },
            TrainConfig { init_adapter: Some(InitAdapter { dir: "x".into(), sha256: "1".into() }), ..good.clone() },
            TrainConfig { num_epochs: 4, ..good.clone() },
            TrainConfig { max_steps: Some(4), ..good.clone() },
            TrainConfig { learning_rate: 2.5e-4, ..good.clone() },
            TrainConfig { schedule: Schedule::Cosine, ..good.clone() },
            TrainConfig { warmup_ratio: 0.5, ..good.clone() },
            TrainConfig { bf16: true, ..good.clone() },
            TrainConfig { loraplus_lr_ratio: 16.0, ..good.clone() },
            TrainConfig { weight_decay: 0.5, ..good.clone() },
            TrainConfig { adam_beta1: 0.5, ..good.clone() },
            TrainConfig { adam_beta2: 0.5, ..good.clone() },
            TrainConfig { adam_epsilon: 0.5, ..good.clone() },
            TrainConfig { max_grad_norm: 0.5, ..good.clone() },
            TrainConfig { micro_batch_size: 5, ..good.clone() },
            TrainConfig { gradient_accumulation_steps: 5, ..good.clone() },
            TrainConfig { sequence_len: 5, ..good.clone() },
            TrainConfig { excess_length: ExcessLength::Drop, ..good.clone() },
            TrainConfig { evals_per_epoch: 5, ..good.clone() },
            TrainConfig { seed: 5, ..good.clone() },
            lora(LoraConfig { r: 5, ..good.lora.clone() }),
            lora(LoraConfig { alpha: 5.0, ..good.lora.clone() }),
            lora(LoraConfig { dropout: 0.5, ..good.lora.clone() }),
            lora(LoraConfig { rslora: true, ..good.lora.clone() }),
            lora(LoraConfig { targets: vec!["q_proj".into()], ..good.lora.clone() }),
        ];
        for config in &deciding {
            let other = config.identity("base", &model);
            assert_eq!(base.iter().filter(|(key, was)| other[*key] != **was).count(), 1, "{config:?}");
        }
        // Each of them is a key of its own; two are not settings, the model's name and its shape.
        assert_eq!(base.len(), deciding.len() + 2);
        let free = TrainConfig {
            devices: 2,
            gradient_checkpointing: true,
            save_steps: 1,
            max_skipped: 1,
            on_divergence: OnDivergence::Rollback,
            rollback_lr_factor: 0.1,
            save_total_limit: 9,
            early_stopping_patience: 1,
            early_stopping_threshold: 0.1,
            tensorboard: Some("runs".into()),
            ..good.clone()
        };
        assert_eq!(free.identity("base", &model), base);
        assert_ne!(good.identity("other", &model), base);
    }
}
