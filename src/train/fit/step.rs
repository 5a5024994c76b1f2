//! One step: forward and backward per micro-batch, one clipped update, one line of the log.

use super::Run;
use super::sums::Window;
use crate::train::checkpoint::{Numbers, Progress, Skip};
use crate::train::error::TrainError;
use crate::train::log::{self, LogLine};
use crate::train::optimizer::{clip, norm, scale};
use burn::tensor::{Tensor, TensorData};

impl Run<'_> {
    /// One window: forward and backward per micro-batch, then one update. Where the user wants to
    /// stop in its middle, it is left as if it had not begun, and done by whoever goes on.
    pub fn step(&mut self) -> Result<(), TrainError> {
        let step = self.progress.step;
        let window = self.order.window(step).to_vec();
        let batches = self.order.micro_batches(&window, self.config.micro_batch_size);
        // Every supervised token counts alike, in short answers and in short windows too, or by the
        // weight of its item.
        let tokens: usize = window.iter().map(|i| self.items[*i].learned()).sum();
        let count = |i: &usize| f64::from(self.items[*i].weight) * self.items[*i].learned() as f64;
        let counted: f64 = window.iter().map(count).sum();
        let rate = self.config.schedule.rate(self.peak(), step, self.total, self.warmup);
        let learned = match self.sums(step, &batches)? {
            Window::Left => return Err(self.stop()),
            Window::Unusable(unusable) => Err(unusable),
            Window::Sums(loss, mut gradients) => {
                scale(&mut gradients, 1.0 / counted);
                let length = norm(&gradients);
                match length.is_finite() {
                    true => Ok((loss / counted, length, gradients)),
                    false => Err(("the gradient is not finite", window.clone())),
                }
            }
        };
        self.progress.step += 1;
        self.progress.sampler = (self.progress.step / self.per_epoch, self.progress.step % self.per_epoch);
        self.progress.total_tokens += window.iter().map(|i| self.items[*i].ids.len() as u64).sum::<u64>();
        let mut line = self.line(rate);
        match learned {
            Ok((loss, length, gradients)) => {
                if !self.update(gradients, length, rate)? {
                    let (step, rolled_back) = (self.progress.step, self.rolled_back());
                    // The weights before it gave a finite loss.
                    return self.roll_back(step, TrainError::Overflow { step, rolled_back });
                }
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
            let rolled_back = self.rolled_back();
            // Not to the weights that met the first of these windows: they may be the cause.
            return self.roll_back(step - in_a_row, TrainError::Diverged { step, in_a_row, reason, rolled_back });
        }
        Ok(())
    }

    /// Clips and updates; false where a number overflowed, which must not be saved over good ones.
    fn update(&mut self, mut gradients: Vec<Vec<f32>>, length: f64, rate: f64) -> Result<bool, TrainError> {
        scale(&mut gradients, clip(length, self.config.max_grad_norm));
        let Numbers { factors, adam, .. } = &mut self.numbers;
        adam.update(factors, &gradients, rate, self.config);
        self.progress.updates = adam.updates;
        if factors.iter().any(|factor| factor.iter().any(|x| !x.is_finite())) {
            return Ok(false);
        }
        self.renew_model()?;
        Ok(true)
    }

    /// Puts the numbers into the model, on every device.
    pub fn renew_model(&mut self) -> Result<(), TrainError> {
        for model in std::iter::once(&mut self.model).chain(&mut self.replicas) {
            let device = model.device().clone();
            let tensor = |((_, dims), numbers): (&(String, [usize; 2]), &Vec<f32>)| {
                Tensor::<2>::from_data(TensorData::new(numbers.clone(), *dims), &device)
            };
            let factors = self.numbers.shapes.iter().zip(&self.numbers.factors).map(tensor).collect();
            *model = model.clone().with_adapters(factors)?;
        }
        Ok(())
    }

    /// Neither adapters nor moments change; the items are named in `skipped.jsonl`.
    fn skip(&mut self, reason: &str, items: &[usize]) -> Result<(), TrainError> {
        let items = items.iter().map(|i| self.items[*i].name.clone()).collect();
        let skip = Skip { step: self.progress.step, reason: reason.to_owned(), items, rolled_back: false };
        log::append(&self.dir.join("skipped.jsonl"), &skip)?;
        self.progress.skips.push(skip);
        self.progress.skipped_in_a_row += 1;
        Ok(())
    }

    /// A line about the step just done, without its results.
    pub fn line(&self, lr: f64) -> LogLine {
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

    /// Writes a line everywhere.
    pub fn log(&mut self, line: LogLine) -> Result<(), TrainError> {
        log::append(&self.dir.join("trainer_log.jsonl"), &line)?;
        if let Some(board) = &mut self.board {
            board.write(&line)?;
        }
        self.hooks.log(&line);
        self.progress.lines.push(line);
        Ok(())
    }
}
