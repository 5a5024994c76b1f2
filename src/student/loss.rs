//! Cross-entropy of rows that continue a shared prefix, with gradients for the adapters.

use super::error::{Result, StudentError};
use super::fused;
use super::generate::shared_prefix;
use super::model::{Model, indices};
use burn::tensor::activation::softmax;
use burn::tensor::{Int, Tensor, TensorData};
use rand_chacha::ChaCha12Rng;
use std::ops::Range;

/// Label positions whose vocabulary scores are held at a time; 128 rows of 49 152 are 25 MB.
const CHUNK: usize = 128;

/// One row of a batch: tokens behind the shared prefix, and which of them are learned.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'a> {
    /// Tokens behind the prefix.
    pub ids: &'a [u32],
    /// Which of `ids` are targets; each is predicted from everything before it.
    pub supervised: Range<usize>,
    /// Factor on this row's losses. Usually 1.
    pub weight: f32,
    /// Which of `supervised` are read and not learned. Usually none.
    pub unlearned: Vec<Range<usize>>,
}

impl Row<'_> {
    /// The places that are learned, in order.
    fn learned(&self) -> impl Iterator<Item = usize> {
        self.supervised.clone().filter(|place| !self.unlearned.iter().any(|range| range.contains(place)))
    }
}

/// The longest prefix that all examples share, and each one's rest. No supervised token is in it.
pub fn share<'a>(examples: &[(&'a [u32], Range<usize>)]) -> (&'a [u32], Vec<Row<'a>>) {
    let unsupervised: Vec<&[u32]> = examples.iter().map(|(ids, range)| &ids[..range.start.max(1)]).collect();
    let shared = shared_prefix(&unsupervised);
    let prefix = examples.first().map_or(&[][..], |(ids, _)| &ids[..shared]);
    let row = |(ids, range): &(&'a [u32], Range<usize>)| {
        let supervised = range.start - shared..range.end - shared;
        Row { ids: &ids[shared..], supervised, weight: 1.0, unlearned: vec![] }
    };
    (prefix, examples.iter().map(row).collect())
}

/// What is read of each row, and what each labelled place should say.
struct Batch<'a> {
    rows: Vec<&'a [u32]>,
    /// The row of each label, and how many of its tokens are read before it.
    at: Vec<(usize, usize)>,
    targets: Vec<i64>,
    weights: Vec<f32>,
}

impl Model {
    /// The summed, weighted cross-entropy over all supervised tokens, in nats. On a
    /// [tracked](Model::tracked) model, `backward` gives every adapter its gradient. Dropout is
    /// on where a generator is given.
    ///
    /// # Shapes
    /// prefix `[prefix]` → `[1]`
    pub fn loss_sum(&self, prefix: &[u32], rows: &[Row], rng: Option<&mut ChaCha12Rng>) -> Result<Tensor<1>> {
        let batch = self.batch(prefix, rows)?;
        let hidden = self.labelled(prefix, &batch, rng)?;
        let (losses, slope) = self.cross_entropy(hidden.clone().inner(), &batch);
        let weights =
            Tensor::<1>::from_data(TensorData::new(batch.weights.clone(), [batch.weights.len()]), &self.device);
        let value = (losses * weights).sum();
        if !hidden.is_autodiff() {
            return Ok(value);
        }
        // The head is frozen, so the loss acts on the graph through its slope alone: a product
        // with the slope has the right gradient, and the scores need not stay in memory.
        let carrier = (hidden * slope).sum();
        let offset = value - carrier.clone().inner();
        Ok(carrier + offset)
    }

    /// The logarithm of each supervised token's probability, row by row.
    pub fn logprobs(&self, prefix: &[u32], rows: &[Row]) -> Result<Vec<Vec<f32>>> {
        let batch = self.batch(prefix, rows)?;
        let hidden = self.untracked().labelled(prefix, &batch, None)?;
        let (losses, _) = self.cross_entropy(hidden, &batch);
        let data = losses.try_into_data().map_err(|e| StudentError::Compute(e.to_string()))?;
        let losses = data.try_into_vec::<f32>().map_err(|e| StudentError::Compute(format!("{e:?}")))?;
        let mut losses = losses.into_iter().map(|loss| -loss);
        Ok(rows.iter().map(|row| losses.by_ref().take(row.learned().count()).collect()).collect())
    }

    /// The hidden states that labels are predicted from.
    ///
    /// # Shapes
    /// → `[k, d_model]`
    fn labelled(&self, prefix: &[u32], batch: &Batch, rng: Option<&mut ChaCha12Rng>) -> Result<Tensor<2>> {
        let (hidden, starts) = self.rows(prefix, &batch.rows, rng)?;
        let place =
            |(row, read): &(usize, usize)| if *read == 0 { prefix.len() } else { starts[*row] + read } as i64 - 1;
        Ok(hidden.select(0, indices(batch.at.iter().map(place), &self.device)))
    }

    fn batch<'a>(&self, prefix: &[u32], rows: &[Row<'a>]) -> Result<Batch<'a>> {
        let fail = |cause: String| Err(StudentError::Compute(cause));
        let mut batch = Batch { rows: Vec::new(), at: Vec::new(), targets: Vec::new(), weights: Vec::new() };
        for (number, row) in rows.iter().enumerate() {
            if row.supervised.end > row.ids.len() || (prefix.is_empty() && row.supervised.start == 0) {
                return fail(format!("row {number}: {:?} of {} tokens have no past", row.supervised, row.ids.len()));
            }
            // The last token of a row predicts nothing, so it is not read.
            batch.rows.push(&row.ids[..row.ids.len().saturating_sub(1)]);
            for target in row.learned() {
                batch.at.push((number, target));
                batch.targets.push(row.ids[target].into());
                batch.weights.push(row.weight);
            }
        }
        let known = |id: &i64| (*id as usize) < self.config.vocab;
        let ids = prefix.iter().chain(batch.rows.iter().copied().flatten()).map(|id| i64::from(*id));
        match ids.chain(batch.targets.iter().copied()).find(|id| !known(id)) {
            Some(id) => fail(format!("token {id} is outside the vocabulary of {}", self.config.vocab)),
            None if batch.at.is_empty() => fail("no supervised token in this batch".into()),
            None => Ok(batch),
        }
    }

    /// Losses, and the slope of the weighted sum with respect to the hidden states.
    ///
    /// # Shapes
    /// hidden `[k, d_model]` → `[k]`, `[k, d_model]`
    fn cross_entropy(&self, hidden: Tensor<2>, batch: &Batch) -> (Tensor<1>, Tensor<2>) {
        let (count, device) = (batch.at.len(), &self.device);
        let numbers =
            (fused::floats(hidden.clone()), fused::floats(self.head.clone()), fused::floats(self.head_rows.clone()));
        if !self.composed
            && let (Some(hidden), Some(head), Some(rows)) = &numbers
            && let (Some(hidden), Some(head), Some(rows)) = (hidden.as_slice(), head.as_slice(), rows.as_slice())
        {
            let (losses, slopes) = fused::cross_entropy(hidden, (head, rows), &batch.targets, &batch.weights);
            let shape = [count, self.config.d_model];
            return (
                Tensor::from_data(TensorData::new(losses, [count]), device),
                Tensor::from_data(TensorData::new(slopes, shape), device),
            );
        }
        let (mut losses, mut slopes) = (Vec::new(), Vec::new());
        for start in (0..count).step_by(CHUNK) {
            let length = CHUNK.min(count - start);
            let range = start..start + length;
            let targets: Tensor<1, Int> = indices(batch.targets[range.clone()].iter().copied(), device);
            let weights = TensorData::new(batch.weights[range].to_vec(), [length, 1]);
            let scores = hidden.clone().narrow(0, start, length).matmul(self.head.clone());
            let chosen = scores.clone().gather(1, targets.clone().unsqueeze_dim(1));
            let highest = scores.clone().max_dim(1);
            let chances = softmax(scores, 1);
            // The highest score's chance is 1 over the sum of exp(score - highest).
            let log_sum = highest - chances.clone().max_dim(1).log();
            losses.push((log_sum - chosen).reshape([length]));
            let expected = chances.matmul(self.head_rows.clone());
            let wanted = self.head_rows.clone().select(0, targets);
            slopes.push((expected - wanted) * Tensor::<2>::from_data(weights, device));
        }
        (Tensor::cat(losses, 0), Tensor::cat(slopes, 0))
    }
}
