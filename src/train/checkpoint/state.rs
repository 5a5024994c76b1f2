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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::LogLine;

    #[test]
    fn the_state_is_the_one_that_transformers_was_seen_to_read() {
        let line = |step: usize, loss: Option<f64>, eval_f1: Option<f64>| LogLine {
            current_steps: step,
            total_steps: 8,
            loss,
            lr: 1e-4 * step as f64,
            grad_norm: loss.map(|loss| loss / 4.0),
            epoch: step as f64 / 4.0,
            percentage: 12.5 * step as f64,
            elapsed_time: "0:00:01".into(),
            remaining_time: "0:00:02".into(),
            throughput: 100.5,
            total_tokens: 90 * step as u64,
            supervised_tokens: 9 * step as u64,
            skipped: None,
            eval_f1,
        };
        let lines = vec![line(1, Some(4.25), None), line(2, None, None), line(2, None, Some(0.5))];
        let progress = Progress {
            step: 2,
            total_tokens: 180,
            best_step: Some(2),
            best_metric: Some(0.5),
            seconds: 4.0,
            lines,
            ..Progress::default()
        };
        let repeated = Repeated {
            total_steps: 8,
            steps_per_epoch: 4,
            save_steps: 2,
            micro_batch_size: 1,
            evals_per_epoch: 2,
            save_total_limit: 2,
            weights: 1000,
        };
        let mut state = state_json(&progress, &repeated);
        state["log_history"].as_array_mut().unwrap().push(summary(&progress, &repeated));
        // Read by scripts/golden/check_trainer_state.py.
        let golden = include_str!("../../../tests/golden/trainer_state.json");
        assert_eq!(format!("{state:#}\n"), golden);
    }
}
