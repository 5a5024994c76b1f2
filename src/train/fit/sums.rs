//! Loss and gradients of a window: forward and backward per micro-batch, on one device or dealt
//! round robin to several (data parallelism; Li et al. 2020, arXiv:2006.15704).
//!
//! Adapters are small, so their gradients are summed on the host, and always in the order of the
//! micro-batches: how many devices there are changes no bit of the sums. burn 0.22.1 has an
//! all-reduce of its own (`burn::tensor::distributed`, NCCL). It is not used: it sums in NCCL's
//! order; it runs at every backward, so that all devices need equally many micro-batches; and CPU
//! backends do not have it, so that nothing of it could be tested without several GPUs.

use super::Run;
use crate::student::{Model, StudentError, share};
use crate::train::config::TrainConfig;
use crate::train::error::TrainError;
use crate::train::preflight::TokenizedItem;
use crate::train::{Purpose, stream};
use burn::tensor::{Tensor, TensorData, Transaction};
use std::sync::mpsc::sync_channel;

/// What the micro-batches of a window came to.
pub(super) enum Window {
    /// The sums of the losses and of the gradients, these in the order of the factors.
    Sums(f64, Vec<Vec<f32>>),
    /// Why it teaches nothing, and the items to look at.
    Unusable((&'static str, Vec<usize>)),
    /// The user wants to stop; nothing was changed.
    Left,
}

/// What one micro-batch came to.
struct Learned {
    loss: f32,
    /// In the order of the factors; `None` where none reached it.
    gradients: Vec<Option<Vec<f32>>>,
}

/// What every device needs to know of a window.
struct Job<'a> {
    config: &'a TrainConfig,
    items: &'a [TokenizedItem],
    batches: &'a [Vec<usize>],
    step: usize,
}

impl Run<'_> {
    /// Summed loss and gradients over the micro-batches; or what was not finite, and in which items.
    pub fn sums(&self, step: usize, batches: &[Vec<usize>]) -> Result<Window, TrainError> {
        let job = Job { config: self.config, items: &self.items, batches, step };
        if self.replicas.is_empty() || batches.len() == 1 {
            let tracked = self.model.tracked();
            let leaves = tracked.adapters();
            return self.add_up(batches, |number| job.learn(&tracked, &leaves, number));
        }
        let models: Vec<&Model> = std::iter::once(&self.model).chain(&self.replicas).collect();
        std::thread::scope(|scope| {
            let mut devices = Vec::new();
            for (first, model) in models.iter().copied().enumerate() {
                // Room for one: a device waits rather than fill the memory with gradients.
                let (done, learned) = sync_channel(1);
                let (job, every) = (&job, models.len());
                scope.spawn(move || {
                    let tracked = model.tracked();
                    let leaves = tracked.adapters();
                    for number in (first..job.batches.len()).step_by(every) {
                        // Nobody listens any more once the window is left or was found unusable.
                        if done.send(job.learn(&tracked, &leaves, number)).is_err() {
                            break;
                        }
                    }
                });
                devices.push(learned);
            }
            self.add_up(batches, |number| {
                let gone = || Err(StudentError::Compute("a device ended before its work".into()));
                devices[number % devices.len()].recv().unwrap_or_else(|_| gone())
            })
        })
    }

    /// Adds up the micro-batches in their order.
    fn add_up(
        &self,
        batches: &[Vec<usize>],
        mut learned: impl FnMut(usize) -> Result<Learned, StudentError>,
    ) -> Result<Window, TrainError> {
        let mut sum = 0.0;
        let mut sums: Vec<Vec<f32>> = self.numbers.factors.iter().map(|factor| vec![0.0; factor.len()]).collect();
        for (number, batch) in batches.iter().enumerate() {
            if self.hooks.stopped() {
                return Ok(Window::Left);
            }
            let Learned { loss, gradients } = learned(number)?;
            if !loss.is_finite() {
                return Ok(Window::Unusable(("the loss is not finite", batch.clone())));
            }
            sum += f64::from(loss);
            for (total, gradient) in sums.iter_mut().zip(gradients) {
                total.iter_mut().zip(gradient.into_iter().flatten()).for_each(|(total, g)| *total += g);
            }
        }
        Ok(Window::Sums(sum, sums))
    }
}

impl Job<'_> {
    /// Forward and backward of one micro-batch.
    fn learn(&self, tracked: &Model, leaves: &[(String, Tensor<2>)], number: usize) -> Result<Learned, StudentError> {
        let batch = &self.batches[number];
        let examples: Vec<_> =
            batch.iter().map(|i| (&self.items[*i].ids[..], self.items[*i].supervised.clone())).collect();
        let (prefix, mut rows) = share(&examples);
        for (row, i) in rows.iter_mut().zip(batch) {
            row.weight = self.items[*i].weight;
            let behind = |range: &std::ops::Range<usize>| range.start - prefix.len()..range.end - prefix.len();
            row.unlearned = self.items[*i].unlearned.iter().map(behind).collect();
        }
        let mut rng = stream(self.config.seed, Purpose::Dropout, self.step as u64, number as u64);
        let loss = tracked.loss_sum(prefix, &rows, (self.config.lora.dropout > 0.0).then_some(&mut rng))?;
        let mut gradients = loss.backward();
        // All numbers in one reading: a GPU is waited for once a micro-batch, not once a factor.
        let found: Vec<_> = leaves.iter().map(|(_, leaf)| leaf.grad_remove(&mut gradients)).collect();
        let reached: Vec<bool> = found.iter().map(Option::is_some).collect();
        let reading = Transaction::default().register(loss.inner());
        let reading = found.into_iter().flatten().fold(reading, |reading, gradient| reading.register(gradient));
        let read = reading.try_execute().map_err(|error| StudentError::Compute(error.to_string()))?;
        let mut read = read.into_iter().map(numbers);
        let loss = read.next().transpose()?.and_then(|loss| loss.first().copied()).unwrap_or(f32::NAN);
        let gradients = reached.into_iter().map(|reached| if reached { read.next().transpose() } else { Ok(None) });
        Ok(Learned { loss, gradients: gradients.collect::<Result<_, _>>()? })
    }
}

/// The numbers of a tensor.
pub(super) fn floats<const D: usize>(x: Tensor<D>) -> Result<Vec<f32>, StudentError> {
    numbers(x.try_into_data().map_err(|error| StudentError::Compute(error.to_string()))?)
}

fn numbers(read: TensorData) -> Result<Vec<f32>, StudentError> {
    read.try_into_vec::<f32>().map_err(|error| StudentError::Compute(format!("{error:?}")))
}
