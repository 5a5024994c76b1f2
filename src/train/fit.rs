//! The loop: windows of micro-batches, one clipped AdamW step each, measured and saved on the way.

mod step;

use super::batches::Order;
use super::checkpoint::{self, Numbers, Progress, Repeated};
use super::config::TrainConfig;
use super::error::TrainError;
use super::log::{self, Clock, LogLine};
use super::optimizer::AdamW;
use super::preflight::{Item, TokenizedItem, preflight};
use crate::store::{StoreError, write_atomic};
use crate::student::{Model, Student, StudentError};
use std::path::{Path, PathBuf};

/// What the caller does for a run.
pub trait Hooks {
    /// Measures the model on the validation split: micro F1, 0 to 1.
    ///
    /// # Errors
    /// Why it could not be measured; the run is saved and ends.
    fn evaluate(&mut self, model: &Model, step: usize) -> Result<f64, String>;

    /// Is told every line of the log.
    fn log(&mut self, line: &LogLine);

    /// Whether to save and end; asked before every step.
    fn stopped(&self) -> bool;

    /// Is told what a person should know: checkpoints passed over, items left out.
    fn note(&mut self, _text: &str) {}
}

/// A finished run.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The step with the highest metric, the earliest among equals; without measurements the last.
    pub best_step: usize,
    /// Its micro F1.
    pub best_metric: Option<f64>,
    /// Where it stands.
    pub best_checkpoint: PathBuf,
    /// Steps done.
    pub steps: usize,
    /// Steps that changed nothing, as their gradients were not finite.
    pub skipped: usize,
    /// Tokens learned, over all epochs.
    pub supervised_tokens: u64,
    /// Names of items that were left out as too long.
    pub dropped: Vec<String>,
    /// Every line of the log, those before a resumption included.
    pub log: Vec<LogLine>,
    /// The step this process went on from.
    pub resumed_from: Option<usize>,
}

/// Teaches the student the items; goes on from the latest whole checkpoint of the same run in `dir`.
///
/// `base_name` names the base model in the adapter.
///
/// # Errors
/// What stopped the run; see [`TrainError`]. Whatever it was, the checkpoints are whole.
pub fn fit(
    student: &Student,
    items: &[Item],
    config: &TrainConfig,
    dir: &Path,
    base_name: &str,
    hooks: &mut dyn Hooks,
) -> Result<Fitted, TrainError> {
    let (mut run, dropped) = Run::start(student, items, config, dir, base_name, hooks)?;
    let resumed_from = run.saved.map(|(step, _)| step);
    loop {
        run.evaluate_if_due()?;
        run.save_if_due()?;
        if run.progress.step == run.total {
            break;
        }
        if run.hooks.stopped() {
            run.save()?;
            return Err(TrainError::Stopped { step: run.progress.step });
        }
        run.step()?;
    }
    run.finish(dropped, resumed_from)
}

/// The base model with the adapters of the best checkpoint.
///
/// # Errors
/// If the checkpoint was removed or damaged.
pub fn best_model(student: &Student, fitted: &Fitted) -> Result<Model, StudentError> {
    Ok(student.model.clone().with_peft(&fitted.best_checkpoint)?.0)
}

struct Run<'a> {
    config: &'a TrainConfig,
    dir: &'a Path,
    base_name: &'a str,
    hooks: &'a mut dyn Hooks,
    items: Vec<TokenizedItem>,
    order: Order,
    per_epoch: usize,
    total: usize,
    warmup: usize,
    /// Nothing recorded; its adapters are `numbers.factors`.
    model: Model,
    numbers: Numbers,
    progress: Progress,
    /// Step and last measurement of the newest checkpoint.
    saved: Option<(usize, usize)>,
    clock: Clock,
}

impl<'a> Run<'a> {
    /// Checks everything, puts adapters on the model, and takes up a checkpoint where there is one.
    fn start(
        student: &Student,
        items: &[Item],
        config: &'a TrainConfig,
        dir: &'a Path,
        base_name: &'a str,
        hooks: &'a mut dyn Hooks,
    ) -> Result<(Run<'a>, Vec<String>), TrainError> {
        config.check()?;
        let tokenized = preflight(student, items, config)?;
        if let Some(first) = tokenized.dropped.first() {
            hooks.note(&format!("{} items are too long and left out, {first} first", tokenized.dropped.len()));
        }
        std::fs::create_dir_all(dir).map_err(StoreError::io(dir, "creating the directory"))?;
        checkpoint::tidy(dir)?;
        let order = Order::new(&tokenized.items, config.seed, config.window());
        let per_epoch = order.steps_per_epoch();
        let total = config.max_steps.unwrap_or(config.num_epochs * per_epoch);
        let model = student.model.untracked().adapted(&config.lora, config.seed)?;
        let shapes: Vec<(String, [usize; 2])> =
            model.adapters().into_iter().map(|(name, factor)| (name, factor.dims())).collect();
        let config_hash = config.hash(base_name, student.model.config());
        let mut progress = Progress { config_hash, items_hash: tokenized.hash(), ..Progress::default() };
        let (found, passed) = checkpoint::latest(dir, &progress, &shapes)?;
        passed.iter().for_each(|text| hooks.note(text));
        let saved = found.as_ref().map(|(found, _)| (found.step, found.evaluated));
        let numbers = match found {
            Some((found, numbers)) => {
                progress = found;
                numbers
            }
            None => {
                let factors =
                    model.adapters().into_iter().map(|(_, factor)| step::floats(factor)).collect::<Result<_, _>>()?;
                let adam = AdamW::new(shapes.iter().map(|(_, dims)| dims[0] * dims[1]));
                Numbers { shapes, factors, adam }
            }
        };
        log::rewrite(&dir.join("trainer_log.jsonl"), &progress.lines)?;
        log::rewrite(&dir.join("skipped.jsonl"), &progress.skips)?;
        let clock = Clock::start(progress.seconds, progress.step, progress.total_tokens);
        let mut run = Run {
            config,
            dir,
            base_name,
            hooks,
            items: tokenized.items,
            order,
            per_epoch,
            total,
            warmup: (config.warmup_ratio * total as f64).ceil() as usize,
            model,
            numbers,
            progress,
            saved,
            clock,
        };
        run.renew_model()?;
        Ok((run, tokenized.dropped))
    }

    /// Measures at evenly spread steps of every epoch, and at the end.
    fn evaluate_if_due(&mut self) -> Result<(), TrainError> {
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
        let metric = match found {
            Ok(metric) => metric,
            Err(cause) => {
                // Measured anew by the process that goes on from here.
                self.save()?;
                return Err(if self.hooks.stopped() {
                    TrainError::Stopped { step }
                } else {
                    TrainError::Evaluate { step, cause }
                });
            }
        };
        self.progress.evaluated = step;
        if self.progress.best_metric.is_none_or(|best| metric > best) {
            (self.progress.best_step, self.progress.best_metric) = (Some(step), Some(metric));
        }
        let rate = self.progress.lines.last().map_or(0.0, |line| line.lr);
        let line = LogLine { eval_f1: Some(metric), ..self.line(rate) };
        self.log(line)
    }

    fn save_if_due(&mut self) -> Result<(), TrainError> {
        let (step, every) = (self.progress.step, self.config.save_steps);
        let due = every > 0 && step.is_multiple_of(every);
        if due || step == self.total || self.progress.best_step == Some(step) { self.save() } else { Ok(()) }
    }

    /// Saves what is not saved yet.
    fn save(&mut self) -> Result<(), TrainError> {
        let now = (self.progress.step, self.progress.evaluated);
        if self.progress.step == 0 || self.saved == Some(now) {
            return Ok(());
        }
        self.progress.seconds = self.clock.seconds();
        checkpoint::save(self.dir, self.base_name, &self.model, &self.numbers, &self.progress, &self.repeated())?;
        self.saved = Some(now);
        Ok(())
    }

    fn repeated(&self) -> Repeated {
        Repeated {
            total_steps: self.total,
            steps_per_epoch: self.per_epoch,
            save_steps: self.config.save_steps,
            micro_batch_size: self.config.micro_batch_size,
        }
    }

    fn finish(self, dropped: Vec<String>, resumed_from: Option<usize>) -> Result<Fitted, TrainError> {
        let state = checkpoint::state_json(&self.progress, &self.repeated());
        write_atomic(&self.dir.join("trainer_state.json"), format!("{state:#}\n").as_bytes())?;
        let best_step = self.progress.best_step.unwrap_or(self.progress.step);
        Ok(Fitted {
            best_step,
            best_metric: self.progress.best_metric,
            best_checkpoint: checkpoint::path_of(self.dir, best_step),
            steps: self.progress.step,
            skipped: self.progress.skips.len(),
            supervised_tokens: self.progress.supervised_tokens,
            dropped,
            log: self.progress.lines,
            resumed_from,
        })
    }
}
