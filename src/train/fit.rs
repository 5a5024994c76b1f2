//! The loop: windows of micro-batches, one clipped AdamW step each, measured and saved on the way.

mod begin;
mod foresee;
mod measure;
mod resume;
mod rollback;
mod step;
mod sums;

pub use foresee::{Foreseen, foresee};
pub use resume::Resume;

use super::batches::Order;
use super::checkpoint::{self, Numbers, Progress, Repeated};
use super::config::TrainConfig;
use super::error::{Refusal, TrainError};
use super::log::{self, Clock, LogLine};
use super::preflight::{Item, Tokenized, TokenizedItem, preflight};
use super::schedule::{Schedule, warmup};
use super::tensorboard::Board;
use crate::store::{StoreError, write_atomic};
use crate::student::{Model, ModelConfig, Student, StudentError, device};
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

    /// Whether to save and end; asked before every micro-batch.
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
    /// Where the last step stands.
    pub last_checkpoint: PathBuf,
    /// Steps done.
    pub steps: usize,
    /// Whether the metric had stopped rising and the rest of the steps was left out.
    pub stopped_early: bool,
    /// Steps that changed nothing, as their gradients were not finite.
    pub skipped: usize,
    /// Times that the run went back to an earlier step.
    pub rollbacks: usize,
    /// Tokens learned, over all epochs.
    pub supervised_tokens: u64,
    /// Names of items that were left out as too long.
    pub dropped: Vec<String>,
    /// Names of items that were left out as their weight is 0.
    pub weightless: Vec<String>,
    /// Every line of the log, those before a resumption included.
    pub log: Vec<LogLine>,
    /// The step this process went on from.
    pub resumed_from: Option<usize>,
}

/// Teaches the student the items, in `dir`, from where `resume` says.
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
    resume: &Resume,
    hooks: &mut dyn Hooks,
) -> Result<Fitted, TrainError> {
    config.check()?;
    let mut tokenized = preflight(student, items, config)?;
    let weightless = leave_out_weightless(&mut tokenized)?;
    for (names, why) in [(&tokenized.dropped, "are too long"), (&weightless, "have weight 0")] {
        if let Some(first) = names.first() {
            hooks.note(&format!("{} items {why} and are left out, {first} first", names.len()));
        }
    }
    let dropped = std::mem::take(&mut tokenized.dropped);
    let mut run = Run::start(student, tokenized, config, dir, base_name, resume, hooks)?;
    let resumed_from = run.saved.map(|(step, _)| step);
    loop {
        run.evaluate_if_due()?;
        run.save_if_due()?;
        if run.finished() {
            break;
        }
        if run.hooks.stopped() {
            return Err(run.stop());
        }
        run.step()?;
    }
    run.finish(dropped, weightless, resumed_from)
}

/// The base model with the adapters of the best checkpoint.
///
/// # Errors
/// If the checkpoint was removed or damaged.
pub fn best_model(student: &Student, fitted: &Fitted) -> Result<Model, StudentError> {
    Ok(student.model.clone().with_peft(&fitted.best_checkpoint)?.0)
}

/// An item of weight 0 teaches nothing and takes no place in a window.
fn leave_out_weightless(tokenized: &mut Tokenized) -> Result<Vec<String>, Refusal> {
    let (kept, weightless): (Vec<_>, Vec<_>) =
        std::mem::take(&mut tokenized.items).into_iter().partition(|item| item.weight > 0.0);
    if kept.is_empty() {
        let count = weightless.len();
        return Err(Refusal::new(
            "E208",
            format!("all {count} items have weight 0; is the confidence of the team in the corpus?"),
        ));
    }
    tokenized.items = kept;
    Ok(weightless.into_iter().map(|item| item.name).collect())
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
    /// The same model on the other devices, where there are any.
    replicas: Vec<Model>,
    numbers: Numbers,
    progress: Progress,
    /// Step and last measurement of the newest checkpoint.
    saved: Option<(usize, usize)>,
    clock: Clock,
    board: Option<Board>,
}

impl<'a> Run<'a> {
    /// Puts adapters on the model, and takes up a checkpoint where there is one.
    fn start(
        student: &Student,
        tokenized: Tokenized,
        config: &'a TrainConfig,
        dir: &'a Path,
        base_name: &'a str,
        resume: &Resume,
        hooks: &'a mut dyn Hooks,
    ) -> Result<Run<'a>, TrainError> {
        std::fs::create_dir_all(dir).map_err(StoreError::io(dir, "creating the directory"))?;
        checkpoint::tidy(dir)?;
        let order = Order::new(&tokenized.items, config.seed, config.window());
        let per_epoch = order.steps_per_epoch();
        let total = config.max_steps.unwrap_or(config.num_epochs * per_epoch);
        let warmup = warmup(config.warmup_ratio, total);
        if config.schedule != Schedule::Constant && warmup >= total {
            hooks.note("the learning rate only rises: warm-up takes every step — lower train.warmup_ratio");
        }
        let mut identity = config.identity(base_name, student.model.config());
        let corpus: String = tokenized.hash().chars().take(16).collect();
        identity.insert("corpus".into(), format!("{} items (sha256 {corpus})", tokenized.items.len()));
        let (model, fresh, ignored) = begin::begin(&student.model.untracked(), config)?;
        ignored.iter().for_each(|key| hooks.note(&format!("warning: train.init_adapter: \"{key}\" was ignored")));
        let devices = device::side_by_side(model.device(), config.devices)?;
        let replicas = devices.iter().skip(1).map(|device| model.on(device)).collect();
        if config.devices > config.gradient_accumulation_steps {
            let TrainConfig { devices, gradient_accumulation_steps: forwards, .. } = config;
            hooks.note(&format!(
                "train.devices is {devices}, but a step has {forwards} forwards: the rest of the devices has \
                 nothing to do — raise train.gradient_accumulation_steps"
            ));
        }
        let found = resume::take_up(dir, resume, &identity, &fresh.shapes, total, hooks)?;
        let saved = found.as_ref().map(|(found, _)| (found.step, found.evaluated));
        let (progress, numbers) = found.unwrap_or((Progress { identity, ..Progress::default() }, fresh));
        log::rewrite(&dir.join("trainer_log.jsonl"), &progress.lines)?;
        log::rewrite(&dir.join("skipped.jsonl"), &progress.skips)?;
        let clock = Clock::start(progress.seconds, progress.step, progress.total_tokens);
        let board = config.tensorboard.as_deref().map(|dir| Board::open(dir, &progress.lines)).transpose()?;
        let items = tokenized.items;
        let mut run = Run {
            config,
            dir,
            base_name,
            hooks,
            items,
            order,
            per_epoch,
            total,
            warmup,
            model,
            replicas,
            numbers,
            progress,
            saved,
            clock,
            board,
        };
        run.renew_model()?;
        Ok(run)
    }

    /// Whether nothing is left to do.
    fn finished(&self) -> bool {
        self.progress.step == self.total || self.stops_early()
    }

    /// Whether the metric has stopped rising.
    fn stops_early(&self) -> bool {
        let patience = self.config.early_stopping_patience;
        patience > 0 && self.progress.without_gain >= patience
    }

    fn save_if_due(&mut self) -> Result<(), TrainError> {
        let (step, every) = (self.progress.step, self.config.save_steps);
        // Amid skipped steps nothing is learned, and what a rollback needs must not be pushed out.
        let due = every > 0 && step.is_multiple_of(every) && self.progress.skipped_in_a_row == 0;
        if due || self.finished() || self.progress.best_step == Some(step) { self.save() } else { Ok(()) }
    }

    /// Saves what is not saved yet.
    fn save(&mut self) -> Result<(), TrainError> {
        let now = (self.progress.step, self.progress.evaluated);
        if self.progress.step == 0 || self.saved == Some(now) {
            return Ok(());
        }
        self.progress.finished = self.finished();
        self.progress.seconds = self.clock.seconds();
        checkpoint::save(self.dir, self.base_name, &self.model, &self.numbers, &self.progress, &self.repeated())?;
        self.saved = Some(now);
        Ok(())
    }

    /// Saves on the user's wish; the error that says so, or why it could not be saved.
    fn stop(&mut self) -> TrainError {
        match self.save() {
            Ok(()) => TrainError::Stopped { step: self.progress.step },
            Err(error) => error,
        }
    }

    fn repeated(&self) -> Repeated {
        Repeated {
            total_steps: self.total,
            steps_per_epoch: self.per_epoch,
            save_steps: self.config.save_steps,
            micro_batch_size: self.config.micro_batch_size,
            evals_per_epoch: self.config.evals_per_epoch,
            save_total_limit: self.config.save_total_limit,
            weights: weights(self.model.config()),
        }
    }

    fn finish(
        self,
        dropped: Vec<String>,
        weightless: Vec<String>,
        resumed_from: Option<usize>,
    ) -> Result<Fitted, TrainError> {
        let mut state = checkpoint::state_json(&self.progress, &self.repeated());
        if let Some(history) = state["log_history"].as_array_mut() {
            history.push(checkpoint::summary(&self.progress, &self.repeated()));
        }
        write_atomic(&self.dir.join("trainer_state.json"), format!("{state:#}\n").as_bytes())?;
        let last = self.progress.step;
        let best_step = self.progress.best_step.unwrap_or(last);
        Ok(Fitted {
            best_step,
            best_metric: self.progress.best_metric,
            best_checkpoint: checkpoint::path_of(self.dir, best_step),
            last_checkpoint: checkpoint::path_of(self.dir, last),
            steps: last,
            stopped_early: last < self.total,
            skipped: self.progress.skips.iter().filter(|skip| !skip.rolled_back).count(),
            rollbacks: self.progress.rollbacks.len(),
            supervised_tokens: self.progress.supervised_tokens,
            dropped,
            weightless,
            log: self.progress.lines,
            resumed_from,
        })
    }
}

/// Weights of the linear layers of all blocks.
fn weights(model: &ModelConfig) -> usize {
    let attention = 2 * (model.heads + model.kv_heads) * model.head_dim;
    model.layers * model.d_model * (attention + 3 * model.mlp)
}
