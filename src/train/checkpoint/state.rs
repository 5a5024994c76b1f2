//! `trainer_state.json` with the keys of `transformers`' `TrainerState`, and no other, so that
//! `TrainerState.load_from_json` and what is built on it read it.

use super::Progress;
use serde_json::{Map, Value, json};

/// Settings that `trainer_state.json` repeats for its readers, and what else a save needs to know.
pub(in crate::train) struct Repeated {
    pub total_steps: usize,
    pub steps_per_epoch: usize,
    pub save_steps: usize,
    pub micro_batch_size: usize,
    pub evals_per_epoch: usize,
    pub save_total_limit: usize,
    /// Weights of the linear layers of all blocks.
    pub weights: usize,
}

/// The state, with one entry of `log_history` per step and per measurement.
pub(in crate::train) fn state_json(progress: &Progress, repeated: &Repeated) -> Value {
    let Repeated { total_steps, steps_per_epoch, evals_per_epoch, .. } = *repeated;
    let history: Vec<Value> = progress.lines.iter().map(entry).collect();
    json!({
        "best_global_step": progress.best_step,
        "best_metric": progress.best_metric,
        "best_model_checkpoint": progress.best_step.map(|step| format!("checkpoint-{step}")),
        "epoch": progress.step as f64 / steps_per_epoch as f64,
        "eval_steps": (steps_per_epoch / evals_per_epoch.max(1)).max(1),
        "global_step": progress.step,
        "is_hyper_param_search": false,
        "is_local_process_zero": true,
        "is_world_process_zero": true,
        "log_history": history,
        "logging_steps": 1,
        "max_steps": total_steps,
        "num_input_tokens_seen": progress.total_tokens,
        "num_train_epochs": total_steps.div_ceil(steps_per_epoch),
        "save_steps": repeated.save_steps,
        "stateful_callbacks": {},
        "total_flos": flos(progress, repeated),
        "train_batch_size": repeated.micro_batch_size,
        "trial_name": null,
        "trial_params": null,
    })
}

/// What `transformers` appends at the end of a run.
pub(in crate::train) fn summary(progress: &Progress, repeated: &Repeated) -> Value {
    let losses: Vec<f64> = progress.lines.iter().filter_map(|line| line.loss).collect();
    let mean = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
    let per_second = |count: usize| count as f64 / progress.seconds.max(1e-9);
    json!({
        "epoch": progress.step as f64 / repeated.steps_per_epoch as f64,
        "step": progress.step,
        "total_flos": flos(progress, repeated),
        "train_loss": mean,
        "train_runtime": progress.seconds,
        "train_steps_per_second": per_second(progress.step),
    })
}

/// Six operations per token and weight, as `transformers` estimates them; what is computed once for
/// several examples counts for each of them.
fn flos(progress: &Progress, repeated: &Repeated) -> f64 {
    6.0 * progress.total_tokens as f64 * repeated.weights as f64
}

/// A step that was skipped has no loss: readers take every `loss` for a number.
fn entry(line: &crate::train::LogLine) -> Value {
    let mut entry = Map::from_iter([("epoch".to_owned(), json!(line.epoch))]);
    match line.eval_f1 {
        Some(f1) => {
            entry.insert("eval_f1".into(), json!(f1));
        }
        None => {
            let rest = [("grad_norm", line.grad_norm), ("learning_rate", Some(line.lr)), ("loss", line.loss)];
            entry.extend(rest.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value?)))));
        }
    }
    entry.insert("step".into(), json!(line.current_steps));
    Value::Object(entry)
}
