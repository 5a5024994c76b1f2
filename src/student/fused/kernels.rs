//! Single operations of the block, ready to be repeated, for tests/bench/kernels.rs. Each function
//! makes its inputs and returns the work; nothing of this is part of the interface.

use super::attend::{self, Inputs, Known};
use super::product::{Matrix, Onto, Target, product};
use super::vector::{norm, norm_back, swiglu, swiglu_back};
use super::{Layout, entropy};
use crate::student::attention::Heads;

/// Numbers between -1 and 1 that no operation can take a short cut with.
fn numbers(length: usize) -> Vec<f32> {
    (0..length).map(|i| ((i as f32 * 0.731).sin() * 43.7).fract()).collect()
}

/// `[rows, inner] · [inner, columns]`; with `turned`, the right matrix is stored as its transpose, as in
/// a backward pass.
pub fn matrix(rows: usize, inner: usize, columns: usize, turned: bool) -> impl FnMut() {
    let (left, right, mut out) = (numbers(rows * inner), numbers(inner * columns), vec![0.0; rows * columns]);
    move || {
        let right = if turned { Matrix::new(&right, columns, inner).t() } else { Matrix::new(&right, inner, columns) };
        let target = Target::new(&mut out, rows, columns);
        product(target, Onto::Nothing, 1.0, Matrix::new(&left, rows, inner), right);
    }
}

/// Rows of one length behind a shared prefix.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Tokens of the prefix.
    pub shared: usize,
    /// Rows.
    pub rows: usize,
    /// Tokens of each.
    pub length: usize,
}

impl Batch {
    fn layout(self) -> Layout {
        Layout { shared: self.shared, rows: vec![self.length; self.rows] }
    }
}

/// Attention forward, or forward and backward, with so many heads of queries and of keys.
pub fn attention(batch: Batch, heads: usize, kv: usize, dim: usize, back: bool) -> impl FnMut() {
    let (layout, heads) = (batch.layout(), Heads { kv, group: heads / kv, dim });
    let (wide, narrow) = (layout.tokens() * heads.query_width(), layout.tokens() * heads.key_width());
    let [q, above] = [numbers(wide), numbers(wide)];
    let [k, v] = [numbers(narrow), numbers(narrow)];
    let [mut out, mut dq] = [vec![0.0; wide], vec![0.0; wide]];
    let [mut dk, mut dv] = [vec![0.0; narrow], vec![0.0; narrow]];
    let mut log_sums = vec![0.0; layout.tokens() * heads.kv * heads.group];
    move || {
        let inputs = Inputs { q: &q, k: &k, v: &v };
        attend::forward(heads, &layout, inputs, &mut out, &mut log_sums);
        if back {
            let known = Known { inputs, out: &out, log_sums: &log_sums, above: &above };
            attend::backward(heads, &layout, &known, &mut dq, &mut dk, &mut dv);
        }
    }
}

/// RMSNorm forward, or forward and backward.
pub fn rms_norm(tokens: usize, width: usize, back: bool) -> impl FnMut() {
    let (x, weight, above) = (numbers(tokens * width), numbers(width), numbers(tokens * width));
    let (mut out, mut slope, mut inverse) = (vec![0.0; x.len()], vec![0.0; x.len()], vec![0.0; tokens]);
    move || {
        norm(&x, &weight, 1e-5, &mut out, &mut inverse);
        if back {
            norm_back(&mut slope, &x, &weight, &inverse, &above);
        }
    }
}

/// SwiGLU forward, or forward and backward.
pub fn gated(tokens: usize, width: usize, back: bool) -> impl FnMut() {
    let [gate, up] = [numbers(tokens * width), numbers(tokens * width)];
    let [mut out, mut slope] = [vec![0.0; gate.len()], vec![0.0; gate.len()]];
    move || {
        swiglu(&gate, &up, &mut out);
        if back {
            swiglu_back(&gate, &up, &mut out, &mut slope);
        }
    }
}

/// Losses of labels under the head, and their slopes.
pub fn cross_entropy(labels: usize, width: usize, vocab: usize) -> impl FnMut() {
    let (hidden, head, weights) = (numbers(labels * width), numbers(width * vocab), vec![1.0; labels]);
    let rows: Vec<f32> = (0..vocab * width).map(|at| head[at % width * vocab + at / width]).collect();
    let targets: Vec<i64> = (0..labels).map(|label| (label * 7919 % vocab) as i64).collect();
    move || {
        std::hint::black_box(entropy::cross_entropy(&hidden, (&head, &rows), &targets, &weights));
    }
}
