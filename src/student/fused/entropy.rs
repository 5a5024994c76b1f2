//! Cross-entropy of a few hidden states under the head, and its slope, in one pass over the scores.

use super::buffer::Buffer;
use super::product::{Matrix, Onto, Target, product};
use super::vector::softmax;
use rayon::prelude::*;

/// Hidden states whose scores are held at a time; 128 rows of 49 152 are 25 MB.
const CHUNK: usize = 128;

/// The losses in nats, and the slope of their weighted sum with respect to the hidden states.
///
/// # Shapes
/// hidden `[k, d_model]`, head `[d_model, vocab]`, head_rows `[vocab, d_model]`, targets and
/// weights `[k]` → `[k]`, `[k, d_model]`
pub(crate) fn cross_entropy(
    hidden: &[f32],
    (head, head_rows): (&[f32], &[f32]),
    targets: &[i64],
    weights: &[f32],
) -> (Vec<f32>, Vec<f32>) {
    let width = hidden.len() / targets.len().max(1);
    let vocab = head.len() / width.max(1);
    let mut losses = vec![0.0; targets.len()];
    let mut slopes = vec![0.0; hidden.len()];
    for start in (0..targets.len()).step_by(CHUNK) {
        let count = CHUNK.min(targets.len() - start);
        let (places, numbers) = (start..start + count, start * width..(start + count) * width);
        let mut scores = Buffer::new(count * vocab);
        let states = Matrix::new(&hidden[numbers.clone()], count, width);
        product(Target::new(&mut scores, count, vocab), Onto::Nothing, 1.0, states, Matrix::new(head, width, vocab));
        let rows = (scores.par_chunks_exact_mut(vocab), &mut losses[places.clone()], &targets[places.clone()]);
        rows.into_par_iter().zip(&weights[places]).for_each(|((row, loss, target), weight)| {
            let chosen = row[*target as usize];
            *loss = softmax(row) - chosen;
            row[*target as usize] -= 1.0;
            if *weight != 1.0 {
                row.iter_mut().for_each(|x| *x *= weight);
            }
        });
        let out = Target::new(&mut slopes[numbers], count, width);
        product(out, Onto::Nothing, 1.0, Matrix::new(&scores, count, vocab), Matrix::new(head_rows, vocab, width));
    }
    (losses, slopes)
}
