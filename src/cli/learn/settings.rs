//! From the experiment and the corpus to what a training run is given.

use crate::cli::session;
use crate::config::{ConfigError, Plan};
use crate::store::hash_file;
use crate::student::LoraConfig;
use crate::template::Message;
use crate::template::corpus::{Line, in_bytes};
use crate::train::{ExcessLength, InitAdapter, Item, OnDivergence, Schedule, TrainConfig};
use anyhow::Result;
use std::ops::Range;
use std::path::Path;

/// The conversations, each named by its line; weighted by the team's confidence if that is asked for.
pub fn items(lines: &[Line], by_confidence: bool) -> Vec<Item> {
    let item = |(at, line): (usize, &Line)| Item {
        name: format!("train.jsonl:{}", at + 1),
        messages: line.messages.clone(),
        weight: if by_confidence { line.meta.confidence as f32 } else { 1.0 },
        unlearned: unlearned(&line.messages, &line.unlearned),
    };
    lines.iter().enumerate().map(item).collect()
}

/// The bytes of the answer that are not learned. What is no part of it stays what it is: pre-flight
/// refuses it by name.
pub fn unlearned(messages: &[Message], points: &[[usize; 2]]) -> Vec<Range<usize>> {
    let answer = messages.last().map_or("", |answer| answer.content.as_str());
    let outside = answer.len()..answer.len() + 1;
    in_bytes(answer, points).unwrap_or_else(|| Vec::from([outside]))
}

fn init_adapter(dir: &Path) -> Result<InitAdapter> {
    let read = hash_file(&dir.join("adapter_model.safetensors"));
    let sha256 = read.map_err(|error| {
        let place = dir.display();
        session::refused(format!("E210: train.init_adapter {place}: expected a directory that PEFT wrote; {error}"))
    })?;
    Ok(InitAdapter { dir: dir.to_owned(), sha256 })
}

/// The settings of a plan.
pub fn train_config(plan: &Plan) -> Result<TrainConfig> {
    let (train, lora) = (&plan.config().train, &plan.config().lora);
    let targets = lora.target_modules.names();
    let schedule = Schedule::named(&train.lr_scheduler)
        .ok_or_else(|| ConfigError(format!("train.lr_scheduler is \"{}\"", train.lr_scheduler)))?;
    let board = train.report_to.iter().any(|log| log == "tensorboard");
    let logging_dir = || train.logging_dir.clone().unwrap_or_else(|| plan.output_dir().join("runs"));
    Ok(TrainConfig {
        base_sha256: None,
        num_epochs: train.num_epochs,
        max_steps: train.max_steps,
        init_adapter: train.init_adapter.as_deref().map(init_adapter).transpose()?,
        learning_rate: train.learning_rate,
        schedule,
        warmup_ratio: train.warmup_ratio,
        loraplus_lr_ratio: train.loraplus_lr_ratio,
        weight_decay: train.weight_decay,
        adam_beta1: train.adam_beta1,
        adam_beta2: train.adam_beta2,
        adam_epsilon: train.adam_epsilon,
        max_grad_norm: train.max_grad_norm,
        micro_batch_size: train.micro_batch_size,
        gradient_accumulation_steps: train.gradient_accumulation_steps,
        devices: train.devices,
        bf16: train.bf16,
        gradient_checkpointing: train.gradient_checkpointing,
        sequence_len: train.sequence_len,
        excess_length: if train.excess_length_strategy == "drop" { ExcessLength::Drop } else { ExcessLength::Raise },
        evals_per_epoch: train.evals_per_epoch,
        save_steps: train.save_steps,
        seed: plan.config().seed,
        lora: LoraConfig { r: lora.r, alpha: lora.alpha, rslora: lora.use_rslora, dropout: lora.dropout, targets },
        max_skipped: train.max_skipped,
        on_divergence: if train.on_divergence == "rollback" { OnDivergence::Rollback } else { OnDivergence::Stop },
        rollback_lr_factor: train.rollback_lr_factor,
        save_total_limit: train.save_total_limit,
        early_stopping_patience: train.early_stopping_patience,
        early_stopping_threshold: train.early_stopping_threshold,
        tensorboard: board.then(logging_dir),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::corpus::{Provenance, Task};

    #[test]
    fn items_weigh_one_unless_confidence_is_asked_for() {
        let line = |confidence: f64| Line {
            messages: vec![],
            unlearned: vec![],
            meta: Provenance {
                documents: vec![],
                task: Task::Entities,
                protocol: "aeio".into(),
                rounds: 0,
                votes: vec![],
                confidence,
                prompt: String::new(),
                tokens: None,
                asked: vec![],
            },
        };
        let lines = [line(0.25), line(0.0), line(1.0)];
        let weights = |by_confidence| items(&lines, by_confidence).iter().map(|item| item.weight).collect::<Vec<_>>();
        assert_eq!((weights(false), weights(true)), (vec![1.0; 3], vec![0.25, 0.0, 1.0]));
        assert_eq!(items(&lines, true)[2].name, "train.jsonl:3");
    }
}
