//! `[train]`: how the adapters are trained, each key with its default, its range and its price.

use super::plan::{ConfigError, one_of, within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How the adapters are trained. Names are those of `transformers` and `trl` where they have one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrainSection {
    /// Passes over the corpus. Default 3.
    pub num_epochs: usize,
    /// Steps, in place of `num_epochs`. Default none.
    pub max_steps: Option<usize>,
    /// A PEFT directory whose numbers the adapters begin with; its rank, strength and layers are
    /// those of `[lora]`. Default none: A is drawn from the seed, B is 0.
    pub init_adapter: Option<PathBuf>,
    /// Peak learning rate. Default 2e-4.
    pub learning_rate: f64,
    /// `constant`, `constant_with_warmup`, `linear` or `cosine`, as in `transformers`; `constant`
    /// has no warm-up. Default `cosine`.
    pub lr_scheduler: String,
    /// Share of the steps that warm up, rounded up; the first of them has a rate of 0. Default 0.1.
    pub warmup_ratio: f64,
    /// LoRA+ (Hayou et al. 2024, arXiv:2402.12354): the rate of B is that of A times this; 1 is off,
    /// the paper advises 16. Default 1.
    pub loraplus_lr_ratio: f64,
    /// Decoupled. Default 0.
    pub weight_decay: f64,
    /// AdamW's first decay. Default 0.9.
    pub adam_beta1: f64,
    /// AdamW's second decay. Default 0.999.
    pub adam_beta2: f64,
    /// AdamW's epsilon. Default 1e-8.
    pub adam_epsilon: f64,
    /// Global gradient norm that is clipped to; 0 is off. Default 1.
    pub max_grad_norm: f64,
    /// Examples per forward; memory grows linearly, their shared instruction is encoded once. Default 8.
    pub micro_batch_size: usize,
    /// Forwards per step. Default 1.
    pub gradient_accumulation_steps: usize,
    /// GPUs that share the forwards of a step, each with a copy of the student: the one of `--device`
    /// and those numbered after it. More than `gradient_accumulation_steps` stand idle. Default 1.
    pub devices: usize,
    /// Products of the frozen weights in bf16; adapters, norms and the loss stay f32. Half the memory
    /// for those weights; burn's CPU backend computes them in f32 and rounds. Default false.
    pub bf16: bool,
    /// Keep only the input of each block between forward and backward and compute the rest again:
    /// less memory, a second forward per step, the same bits. On a GPU only elementwise passes are
    /// computed again. Default false.
    pub gradient_checkpointing: bool,
    /// Most tokens per example. Default 1024.
    pub sequence_len: usize,
    /// What happens to a longer one: `raise` or `drop`. Default `raise`.
    pub excess_length_strategy: String,
    /// An example counts by the team's confidence in it, relative to its window; one of confidence
    /// 0 is left out. Default false.
    pub weight_by_confidence: bool,
    /// Measurements on the dev split per epoch; each reads the whole split. Default 1.
    pub evals_per_epoch: usize,
    /// Measurements in a row without a better dev F1 after which training ends; 0 is off. Default 0.
    pub early_stopping_patience: usize,
    /// How much better is better, in F1 of 0 to 1. Default 0.
    pub early_stopping_threshold: f64,
    /// Whether the adapter is that of the best dev F1, the earliest among equals, or the last.
    /// Default true, the best.
    pub load_best_model_at_end: bool,
    /// Steps between checkpoints; a kill loses at most these. Default 10.
    pub save_steps: usize,
    /// Newest checkpoints that are kept, beside the best; 0 keeps all. With 1, a damaged disk block
    /// can cost the whole run. Default 2.
    pub save_total_limit: usize,
    /// Steps in a row that may be skipped for a loss or gradient that is not finite. Default 3.
    pub max_skipped: usize,
    /// What happens behind that limit: `stop`, or `rollback`: once, back to the last checkpoint
    /// before the skipped steps, with a lower rate. Default `stop`.
    pub on_divergence: String,
    /// Factor on the learning rate after a rollback. At 1 a CPU repeats the very same steps. Default 0.5.
    pub rollback_lr_factor: f64,
    /// Further logs: `tensorboard`. Default none; `trainer_log.jsonl` is always written.
    pub report_to: Vec<String>,
    /// Where `tensorboard` finds its event files. Default `runs` in the run directory.
    pub logging_dir: Option<PathBuf>,
}

impl Default for TrainSection {
    fn default() -> TrainSection {
        TrainSection {
            num_epochs: 3,
            max_steps: None,
            init_adapter: None,
            learning_rate: 2e-4,
            lr_scheduler: "cosine".into(),
            warmup_ratio: 0.1,
            loraplus_lr_ratio: 1.0,
            weight_decay: 0.0,
            adam_beta1: 0.9,
            adam_beta2: 0.999,
            adam_epsilon: 1e-8,
            max_grad_norm: 1.0,
            micro_batch_size: 8,
            gradient_accumulation_steps: 1,
            devices: 1,
            bf16: false,
            gradient_checkpointing: false,
            sequence_len: 1024,
            excess_length_strategy: "raise".into(),
            weight_by_confidence: false,
            evals_per_epoch: 1,
            early_stopping_patience: 0,
            early_stopping_threshold: 0.0,
            load_best_model_at_end: true,
            save_steps: 10,
            save_total_limit: 2,
            max_skipped: 3,
            on_divergence: "stop".into(),
            rollback_lr_factor: 0.5,
            report_to: vec![],
            logging_dir: None,
        }
    }
}

/// Most of anything that is counted: products of two counts stay in range.
const MOST: usize = 1 << 30;

impl TrainSection {
    /// Refuses every value out of its range, by key.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        one_of("train.lr_scheduler", &self.lr_scheduler, &["constant", "constant_with_warmup", "linear", "cosine"])?;
        one_of("train.excess_length_strategy", &self.excess_length_strategy, &["raise", "drop"])?;
        one_of("train.on_divergence", &self.on_divergence, &["stop", "rollback"])?;
        for log in &self.report_to {
            one_of("train.report_to", log, &["tensorboard", "none"])?;
        }
        for (key, count, least) in [
            ("num_epochs", self.num_epochs, 1),
            ("max_steps", self.max_steps.unwrap_or(1), 1),
            ("micro_batch_size", self.micro_batch_size, 1),
            ("gradient_accumulation_steps", self.gradient_accumulation_steps, 1),
            ("devices", self.devices, 1),
            ("sequence_len", self.sequence_len, 1),
            ("evals_per_epoch", self.evals_per_epoch, 1),
            ("early_stopping_patience", self.early_stopping_patience, 0),
            ("save_steps", self.save_steps, 1),
            ("save_total_limit", self.save_total_limit, 0),
            ("max_skipped", self.max_skipped, 0),
        ] {
            if count < least {
                return Err(ConfigError(format!("train.{key} is {count}; expected {least} or more")));
            }
            if count > MOST {
                return Err(ConfigError(format!("train.{key} is {count}; expected at most {MOST}")));
            }
        }
        for (key, value, low, high) in [
            ("warmup_ratio", self.warmup_ratio, 0.0, 1.0),
            ("loraplus_lr_ratio", self.loraplus_lr_ratio, 1e-3, 1e3),
            ("weight_decay", self.weight_decay, 0.0, 1.0),
            ("max_grad_norm", self.max_grad_norm, 0.0, 1e6),
            ("early_stopping_threshold", self.early_stopping_threshold, 0.0, 1.0),
        ] {
            within(&format!("train.{key}"), value, low, high)?;
        }
        for (key, value) in [
            ("learning_rate", self.learning_rate),
            ("adam_epsilon", self.adam_epsilon),
            ("rollback_lr_factor", self.rollback_lr_factor),
        ] {
            if !(value > 0.0 && value <= 1.0) {
                return Err(ConfigError(format!("train.{key} is {value}; expected above 0, at most 1")));
            }
        }
        for (key, value) in [("adam_beta1", self.adam_beta1), ("adam_beta2", self.adam_beta2)] {
            if !(0.0..1.0).contains(&value) {
                return Err(ConfigError(format!("train.{key} is {value}; expected 0 up to, not including, 1")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every key with values out of its range; what has no range is named at the end.
    const BROKEN: &str = "
        num_epochs = 0
        max_steps = 0
        max_steps = 2000000000
        learning_rate = 0.0
        learning_rate = nan
        learning_rate = 1.1
        lr_scheduler = 'cosin'
        warmup_ratio = -0.1
        warmup_ratio = 1.5
        loraplus_lr_ratio = 0.0
        weight_decay = -1.0
        adam_beta1 = 1.0
        adam_beta2 = nan
        adam_epsilon = 0.0
        max_grad_norm = inf
        max_grad_norm = -1.0
        micro_batch_size = 0
        gradient_accumulation_steps = 0
        devices = 0
        sequence_len = 0
        excess_length_strategy = 'truncate'
        evals_per_epoch = 0
        early_stopping_patience = 2000000000
        early_stopping_threshold = 1.5
        save_steps = 0
        save_total_limit = 2000000000
        max_skipped = 2000000000
        on_divergence = 'restart'
        rollback_lr_factor = 0.0
        rollback_lr_factor = 2.0
        report_to = ['wandb']";
    const FREE: [&str; 6] = [
        "bf16",
        "gradient_checkpointing",
        "weight_by_confidence",
        "load_best_model_at_end",
        "logging_dir",
        "init_adapter",
    ];

    #[test]
    fn every_key_is_refused_out_of_its_range_by_name() {
        TrainSection::default().check().unwrap();
        let mut seen: Vec<&str> = FREE.to_vec();
        for line in BROKEN.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (key, value) = line.split_once(" = ").unwrap();
            let section: TrainSection = toml::from_str(line).unwrap();
            let said = section.check().unwrap_err().to_string();
            let value = value.trim_matches(['[', ']', '\'']).trim_end_matches(".0");
            assert!(
                said.starts_with(&format!("train.{key} is ")) && said.to_lowercase().contains(value),
                "{line}: {said}"
            );
            assert!(said.contains("expected "), "{said}");
            seen.push(key);
        }
        let section = TrainSection {
            max_steps: Some(1),
            logging_dir: Some("x".into()),
            init_adapter: Some("x".into()),
            ..TrainSection::default()
        };
        let all = serde_json::to_value(section).unwrap();
        let unseen: Vec<_> = all.as_object().unwrap().keys().filter(|key| !seen.contains(&key.as_str())).collect();
        assert!(unseen.is_empty(), "without a check: {unseen:?}");
    }
}
