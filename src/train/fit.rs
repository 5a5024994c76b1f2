//! The loop: windows of micro-batches, one clipped AdamW step each, measured and saved on the way.

use super::batches::{groups, micro_batches, windows};
use super::checkpoint::{self, Numbers, Progress, Repeated, Skip};
use super::config::TrainConfig;
use super::error::TrainError;
use super::log::{self, Clock, LogLine};
use super::optimizer::{AdamW, clip, norm, scale};
use super::preflight::{Item, TokenizedItem, preflight};
use super::{Purpose, stream};
use crate::store::{StoreError, write_atomic};
use crate::student::{Model, Student, StudentError, share};
use burn::tensor::{Tensor, TensorData};
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
    /// Tokens of each item.
    lengths: Vec<usize>,
    groups: Vec<Vec<usize>>,
    group_of: Vec<usize>,
    per_epoch: usize,
    total: usize,
    warmup: usize,
    /// An epoch and its windows.
    epoch: (usize, Vec<Vec<usize>>),
    /// Nothing recorded; its adapters are `numbers.factors`.
    model: Model,
    numbers: Numbers,
    progress: Progress,
    /// Step and last measurement of the newest checkpoint.
    saved: Option<(usize, usize)>,
    clock: Clock,
}

/// The sums over a window: loss, and gradients in the order of the factors.
type Sums = (f64, Vec<Vec<f32>>);

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
        // ── order ──
        let prompts: Vec<&[u32]> = tokenized.items.iter().map(|item| &item.ids[..item.supervised.start]).collect();
        let groups = groups(&prompts);
        let mut group_of = vec![0; prompts.len()];
        for (group, members) in groups.iter().enumerate() {
            members.iter().for_each(|i| group_of[*i] = group);
        }
        let per_epoch = prompts.len().div_ceil(config.window());
        let total = config.max_steps.unwrap_or(config.num_epochs * per_epoch);
        let warmup = (config.warmup_ratio * total as f64).ceil() as usize;
        // ── model ──
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
                    model.adapters().into_iter().map(|(_, factor)| floats(factor)).collect::<Result<_, _>>()?;
                let adam = AdamW::new(shapes.iter().map(|(_, dims)| dims[0] * dims[1]));
                Numbers { shapes, factors, adam }
            }
        };
        log::rewrite(&dir.join("trainer_log.jsonl"), &progress.lines)?;
        log::rewrite(&dir.join("skipped.jsonl"), &progress.skips)?;
        let clock = Clock::start(progress.seconds, progress.step, progress.total_tokens);
        let lengths: Vec<usize> = tokenized.items.iter().map(|item| item.ids.len()).collect();
        let epoch = (0, windows(&groups, &lengths, config.seed, 0, config.window()));
        let mut run = Run {
            config,
            dir,
            base_name,
            hooks,
            items: tokenized.items,
            lengths,
            groups,
            group_of,
            per_epoch,
            total,
            warmup,
            epoch,
            model,
            numbers,
            progress,
            saved,
            clock,
        };
        run.renew_model()?;
        Ok((run, tokenized.dropped))
    }

    /// One window: forward and backward per micro-batch, then one update.
    fn step(&mut self) -> Result<(), TrainError> {
        let step = self.progress.step;
        let window = self.window(step);
        let batches = micro_batches(&window, &self.group_of, &self.lengths, self.config.micro_batch_size);
        let tokens: usize = window.iter().map(|i| self.items[*i].supervised.len()).sum();
        let rate = self.config.schedule.rate(self.config.learning_rate, step, self.total, self.warmup);
        let learned = self.sums(step, &batches)?.and_then(|(loss, mut gradients)| {
            // Every supervised token counts alike, in short answers and in short windows too.
            scale(&mut gradients, 1.0 / tokens as f64);
            let length = norm(&gradients);
            match length.is_finite() {
                true => Ok((loss / tokens as f64, length, gradients)),
                false => Err(("the gradient is not finite", window.clone())),
            }
        });
        self.progress.step += 1;
        self.progress.sampler = (self.progress.step / self.per_epoch, self.progress.step % self.per_epoch);
        self.progress.total_tokens += window.iter().map(|i| self.lengths[*i] as u64).sum::<u64>();
        let mut line = self.line(rate);
        match learned {
            Ok((loss, length, gradients)) => {
                self.update(gradients, length, rate)?;
                self.progress.skipped_in_a_row = 0;
                self.progress.supervised_tokens += tokens as u64;
                (line.loss, line.grad_norm) = (Some(loss), Some(length));
            }
            Err((reason, items)) => {
                self.skip(reason, &items)?;
                line.skipped = Some(reason.to_owned());
            }
        }
        line.supervised_tokens = self.progress.supervised_tokens;
        self.log(line)?;
        if self.progress.skipped_in_a_row > self.config.max_skipped {
            let Progress { step, skipped_in_a_row: in_a_row, .. } = self.progress;
            let reason = self.progress.skips.last().map_or_else(String::new, |skip| skip.reason.clone());
            return Err(TrainError::Diverged { step, in_a_row, reason });
        }
        Ok(())
    }

    /// Items of a step, a function of seed and step alone.
    fn window(&mut self, step: usize) -> Vec<usize> {
        let (epoch, offset) = (step / self.per_epoch, step % self.per_epoch);
        if self.epoch.0 != epoch {
            let order = windows(&self.groups, &self.lengths, self.config.seed, epoch, self.config.window());
            self.epoch = (epoch, order);
        }
        self.epoch.1[offset].clone()
    }

    /// Summed loss and gradients over the micro-batches; or what was not finite, and in which items.
    #[allow(clippy::type_complexity, reason = "the inner result is an outcome, the outer one a failure")]
    fn sums(
        &self,
        step: usize,
        batches: &[Vec<usize>],
    ) -> Result<Result<Sums, (&'static str, Vec<usize>)>, TrainError> {
        let tracked = self.model.tracked();
        let leaves = tracked.adapters();
        let mut sum = 0.0;
        let mut sums: Vec<Vec<f32>> = self.numbers.factors.iter().map(|factor| vec![0.0; factor.len()]).collect();
        for (number, batch) in batches.iter().enumerate() {
            let examples: Vec<_> =
                batch.iter().map(|i| (&self.items[*i].ids[..], self.items[*i].supervised.clone())).collect();
            let (prefix, mut rows) = share(&examples);
            rows.iter_mut().zip(batch).for_each(|(row, i)| row.weight = self.items[*i].weight);
            let mut rng = stream(self.config.seed, Purpose::Dropout, step as u64, number as u64);
            let loss = tracked.loss_sum(prefix, &rows, (self.config.lora.dropout > 0.0).then_some(&mut rng))?;
            let value = floats(loss.clone())?.first().copied().unwrap_or(f32::NAN);
            if !value.is_finite() {
                return Ok(Err(("the loss is not finite", batch.clone())));
            }
            sum += f64::from(value);
            let mut gradients = loss.backward();
            for ((_, leaf), total) in leaves.iter().zip(&mut sums) {
                if let Some(gradient) = leaf.grad_remove(&mut gradients) {
                    total.iter_mut().zip(floats(gradient)?).for_each(|(total, g)| *total += g);
                }
            }
        }
        Ok(Ok((sum, sums)))
    }

    fn update(&mut self, mut gradients: Vec<Vec<f32>>, length: f64, rate: f64) -> Result<(), TrainError> {
        scale(&mut gradients, clip(length, self.config.max_grad_norm));
        let Numbers { factors, adam, .. } = &mut self.numbers;
        adam.update(factors, &gradients, rate, self.config);
        self.progress.updates = adam.updates;
        // A number that overflows here would be saved over good ones.
        if factors.iter().any(|factor| factor.iter().any(|x| !x.is_finite())) {
            return Err(TrainError::Overflow { step: self.progress.step });
        }
        self.renew_model()
    }

    fn renew_model(&mut self) -> Result<(), TrainError> {
        let device = self.model.device().clone();
        let tensor = |((_, dims), numbers): (&(String, [usize; 2]), &Vec<f32>)| {
            Tensor::<2>::from_data(TensorData::new(numbers.clone(), *dims), &device)
        };
        let factors = self.numbers.shapes.iter().zip(&self.numbers.factors).map(tensor).collect();
        self.model = self.model.clone().with_adapters(factors)?;
        Ok(())
    }

    /// Neither adapters nor moments change; the items are named in `skipped.jsonl`.
    fn skip(&mut self, reason: &str, items: &[usize]) -> Result<(), TrainError> {
        let items = items.iter().map(|i| self.items[*i].name.clone()).collect();
        let skip = Skip { step: self.progress.step, reason: reason.to_owned(), items };
        log::append(&self.dir.join("skipped.jsonl"), &skip)?;
        self.progress.skips.push(skip);
        self.progress.skipped_in_a_row += 1;
        Ok(())
    }

    /// A line about the step just done, without its results.
    fn line(&self, lr: f64) -> LogLine {
        let Progress { step, total_tokens, supervised_tokens, .. } = self.progress;
        let (elapsed_time, remaining_time, throughput) = self.clock.read(step, self.total, total_tokens);
        LogLine {
            current_steps: step,
            total_steps: self.total,
            loss: None,
            lr,
            grad_norm: None,
            epoch: step as f64 / self.per_epoch as f64,
            percentage: (step as f64 / self.total as f64 * 1e4).round() / 1e2,
            elapsed_time,
            remaining_time,
            throughput,
            total_tokens,
            supervised_tokens,
            skipped: None,
            eval_f1: None,
        }
    }

    fn log(&mut self, line: LogLine) -> Result<(), TrainError> {
        log::append(&self.dir.join("trainer_log.jsonl"), &line)?;
        self.hooks.log(&line);
        self.progress.lines.push(line);
        Ok(())
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

fn floats<const D: usize>(x: Tensor<D>) -> Result<Vec<f32>, StudentError> {
    let read = x.try_into_data().map_err(|error| StudentError::Compute(error.to_string()))?;
    read.try_into_vec::<f32>().map_err(|error| StudentError::Compute(format!("{error:?}")))
}
