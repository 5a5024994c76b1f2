//! `trainer_log.jsonl`: one line per step and per measurement, with the keys of LLaMA-Factory.

use crate::store::{StoreError, to_jsonl, write_atomic};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// What one step did, or what one measurement found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// Steps done, this one included.
    pub current_steps: usize,
    /// Steps of the whole run.
    pub total_steps: usize,
    /// Mean loss per supervised token, in nats; `None` where it was not finite, and in measurements.
    pub loss: Option<f64>,
    /// Learning rate of the step.
    pub lr: f64,
    /// L2 norm of the gradient before clipping; `None` where there is none or it was not finite.
    pub grad_norm: Option<f64>,
    /// Passes over the items, with the fraction.
    pub epoch: f64,
    /// Share of the run that is done, in percent.
    pub percentage: f64,
    /// `h:mm:ss`, earlier parts of a resumed run included.
    pub elapsed_time: String,
    /// `h:mm:ss`, from the steps of this process.
    pub remaining_time: String,
    /// Tokens per second, prompt and answer, since this process began.
    pub throughput: f64,
    /// Tokens seen so far, prompt and answer.
    pub total_tokens: u64,
    /// Tokens learned so far.
    pub supervised_tokens: u64,
    /// Why the step changed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Micro F1 on the validation split, 0 to 1; only in measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_f1: Option<f64>,
}

/// Appends a line; the file is whole again from the checkpoint if a kill tears the last line.
pub(super) fn append(path: &Path, line: &impl Serialize) -> Result<(), StoreError> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(&to_jsonl(std::slice::from_ref(line))));
    written.map_err(StoreError::io(path, "appending"))
}

/// Replaces the file with these lines; without lines, removes it.
pub(super) fn rewrite<T: Serialize>(path: &Path, lines: &[T]) -> Result<(), StoreError> {
    if !lines.is_empty() {
        return write_atomic(path, &to_jsonl(lines));
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io(path, "removing")(error)),
        _ => Ok(()),
    }
}

/// The time that a run takes, over all its processes. Nothing that is learned depends on it.
pub(super) struct Clock {
    started: Instant,
    seconds_before: f64,
    steps_before: usize,
    tokens_before: u64,
}

impl Clock {
    pub fn start(seconds_before: f64, steps_before: usize, tokens_before: u64) -> Clock {
        Clock { started: Instant::now(), seconds_before, steps_before, tokens_before }
    }

    /// Seconds over all processes.
    pub fn seconds(&self) -> f64 {
        self.seconds_before + self.started.elapsed().as_secs_f64()
    }

    /// Elapsed, remaining, tokens per second.
    pub fn read(&self, steps: usize, total: usize, tokens: u64) -> (String, String, f64) {
        let here = self.started.elapsed().as_secs_f64();
        let per_step = here / (steps - self.steps_before).max(1) as f64;
        let remaining = per_step * (total - steps) as f64;
        let throughput = (tokens - self.tokens_before) as f64 / here.max(1e-9);
        (hours(self.seconds()), hours(remaining), (throughput * 100.0).round() / 100.0)
    }
}

/// `1:02:03`, as Python writes a time.
fn hours(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_hours_minutes_seconds() {
        assert_eq!((hours(3723.9), hours(0.4)), ("1:02:03".into(), "0:00:00".into()));
    }
}
