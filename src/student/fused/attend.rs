//! Grouped-query attention over a shared prefix and rows that continue it, one segment of tokens
//! and one head at a time, so that its scores stay in the processor's cache. The backward pass
//! computes the shares again from one number per query instead of keeping them (Dao et al. 2022,
//! arXiv:2205.14135, section 3.1).

use super::buffer::Buffer;
use super::product::{Matrix, Onto, Target, product_here};
use super::vector::{add, dot, softmax, softmax_again, softmax_back};
use super::{Layout, Segment};
use crate::student::attention::Heads;
use rayon::prelude::*;

/// Queries, keys and values, turned to their positions.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    /// `[tokens, heads·head_dim]`
    pub q: &'a [f32],
    /// `[tokens, kv·head_dim]`
    pub k: &'a [f32],
    /// `[tokens, kv·head_dim]`
    pub v: &'a [f32],
}

impl Heads {
    fn queries(self) -> usize {
        self.kv * self.group
    }

    /// Numbers of one token's queries.
    pub(super) fn query_width(self) -> usize {
        self.queries() * self.dim
    }

    /// Numbers of one token's keys.
    pub(super) fn key_width(self) -> usize {
        self.kv * self.dim
    }

    fn factor(self) -> f32 {
        1.0 / (self.dim as f32).sqrt()
    }
}

/// One head of a segment.
struct Part {
    heads: Heads,
    head: usize,
    segment: Segment,
}

impl Part {
    /// The queries of this head and segment, `[length, head_dim]`.
    fn queries<'a>(&self, of: &'a [f32]) -> Matrix<'a> {
        let width = self.heads.query_width();
        let from = self.segment.start * width + self.head * self.heads.dim;
        Matrix::strided(&of[from..], self.segment.length, self.heads.dim, width)
    }

    /// Keys or values that this head uses, of `length` tokens from `start`, `[length, head_dim]`.
    fn keys<'a>(&self, of: &'a [f32], start: usize, length: usize) -> Matrix<'a> {
        let width = self.heads.key_width();
        let from = start * width + self.head / self.heads.group * self.heads.dim;
        // An empty prefix may lie behind the end of its numbers.
        Matrix::strided(&of[from.min(of.len())..], length, self.heads.dim, width)
    }

    fn far<'a>(&self, of: &'a [f32]) -> Matrix<'a> {
        self.keys(of, 0, self.segment.behind)
    }

    fn near<'a>(&self, of: &'a [f32]) -> Matrix<'a> {
        self.keys(of, self.segment.start, self.segment.length)
    }

    /// Rows of queries against columns of keys: the prefix, then the segment's own.
    fn against_all(&self, out: &mut [f32], factor: f32, queries: Matrix, keys: &[f32]) {
        let Segment { length, behind, .. } = self.segment;
        let columns = behind + length;
        if behind > 0 {
            let target = Target::strided(out, length, behind, columns);
            product_here(target, Onto::Nothing, factor, queries, self.far(keys).t());
        }
        let target = Target::strided(&mut out[behind..], length, length, columns);
        product_here(target, Onto::Nothing, factor, queries, self.near(keys).t());
    }

    /// Shares (or their gradients) times keys or values of the prefix and of the segment.
    fn gathered(&self, out: Target, factor: f32, shares: &[f32], of: &[f32]) {
        let Segment { length, behind, .. } = self.segment;
        let columns = behind + length;
        let mut out = out;
        let mut onto = Onto::Nothing;
        if behind > 0 {
            let left = Matrix::strided(shares, length, behind, columns);
            product_here(out.again(), Onto::Nothing, factor, left, self.far(of));
            onto = Onto::Sum;
        }
        let left = Matrix::strided(&shares[behind..], length, length, columns);
        product_here(out.again(), onto, factor, left, self.near(of));
    }
}

/// Every query sees the prefix, if its row continues it, and its own row up to itself.
///
/// # Shapes
/// out `[tokens, heads·head_dim]`, log_sums `[tokens, heads]`
pub(super) fn forward(heads: Heads, layout: &Layout, inputs: Inputs, out: &mut [f32], log_sums: &mut [f32]) {
    let width = heads.query_width();
    let outs = layout.split(out, width);
    let sums = layout.split(log_sums, heads.queries());
    layout.segments().into_par_iter().zip(outs).zip(sums).for_each(|((segment, out), log_sums)| {
        let Segment { length, behind, .. } = segment;
        let columns = behind + length;
        let mut scores = Buffer::new(length * columns);
        for head in 0..heads.queries() {
            let part = Part { heads, head, segment };
            part.against_all(&mut scores, heads.factor(), part.queries(inputs.q), inputs.k);
            for (query, row) in scores.chunks_exact_mut(columns).enumerate() {
                let (seen, unseen) = row.split_at_mut(behind + query + 1);
                log_sums[query * heads.queries() + head] = softmax(seen);
                unseen.fill(0.0);
            }
            let target = Target::strided(&mut out[head * heads.dim..], length, heads.dim, width);
            part.gathered(target, 1.0, &scores, inputs.v);
        }
    });
}

/// What the backward pass knows.
pub(super) struct Known<'a> {
    pub inputs: Inputs<'a>,
    /// The output, `[tokens, heads·head_dim]`.
    pub out: &'a [f32],
    /// `[tokens, heads]`
    pub log_sums: &'a [f32],
    /// The gradient of the output, `[tokens, heads·head_dim]`.
    pub above: &'a [f32],
}

/// Gradients of queries, keys and values; all three are overwritten.
///
/// # Shapes
/// dq `[tokens, heads·head_dim]`, dk and dv `[tokens, kv·head_dim]`
pub(super) fn backward(heads: Heads, layout: &Layout, known: &Known, dq: &mut [f32], dk: &mut [f32], dv: &mut [f32]) {
    let key_width = heads.key_width();
    let slopes = layout.split(dq, heads.query_width()).into_par_iter();
    let own = layout.split(dk, key_width).into_par_iter().zip(layout.split(dv, key_width));
    let work = layout.segments().into_par_iter().zip(slopes).zip(own);
    // What each row adds to the prefix is kept apart and summed in the order of the rows, so that
    // the sum does not depend on which thread was first.
    let far: Vec<Option<(Buffer, Buffer)>> =
        work.map(|((segment, dq), (dk, dv))| segment_back(heads, segment, known, dq, dk, dv)).collect();
    for (keys, values) in far.into_iter().flatten() {
        add(&mut dk[..keys.len()], &keys);
        add(&mut dv[..values.len()], &values);
    }
}

fn segment_back(
    heads: Heads,
    segment: Segment,
    known: &Known,
    dq: &mut [f32],
    dk: &mut [f32],
    dv: &mut [f32],
) -> Option<(Buffer, Buffer)> {
    let Segment { start, length, behind } = segment;
    let (columns, width, key_width) = (behind + length, heads.query_width(), heads.key_width());
    let mut shares = Buffer::new(length * columns);
    let mut slopes = Buffer::new(length * columns);
    let mut far = (behind > 0).then(|| (Buffer::zeros(behind * key_width), Buffer::zeros(behind * key_width)));
    dk.fill(0.0);
    dv.fill(0.0);
    for head in 0..heads.queries() {
        let part = Part { heads, head, segment };
        let (queries, above) = (part.queries(known.inputs.q), part.queries(known.above));
        part.against_all(&mut shares, heads.factor(), queries, known.inputs.k);
        part.against_all(&mut slopes, 1.0, above, known.inputs.v);
        let rows = shares.chunks_exact_mut(columns).zip(slopes.chunks_exact_mut(columns));
        for (query, (shares, slopes)) in rows.enumerate() {
            let at = (start + query) * width + head * heads.dim;
            let along = dot(&known.out[at..at + heads.dim], &known.above[at..at + heads.dim]);
            let (seen, unseen) = shares.split_at_mut(behind + query + 1);
            softmax_again(seen, known.log_sums[(start + query) * heads.queries() + head]);
            unseen.fill(0.0);
            let (seen_slopes, unseen_slopes) = slopes.split_at_mut(behind + query + 1);
            softmax_back(seen, seen_slopes, along);
            unseen_slopes.fill(0.0);
        }
        let target = Target::strided(&mut dq[head * heads.dim..], length, heads.dim, width);
        part.gathered(target, heads.factor(), &slopes, known.inputs.k);
        // Keys and values gather what every query that saw them says; heads of a group add up.
        let onto = |out: &mut [f32], tokens: usize, from: usize, of: &[f32], factor: f32, right: Matrix| {
            let target = Target::strided(&mut out[head / heads.group * heads.dim..], tokens, heads.dim, key_width);
            product_here(target, Onto::Sum, factor, Matrix::strided(&of[from..], length, tokens, columns).t(), right);
        };
        onto(dv, length, behind, &shares, 1.0, above);
        onto(dk, length, behind, &slopes, heads.factor(), queries);
        if let Some((keys, values)) = &mut far {
            onto(values, behind, 0, &shares, 1.0, above);
            onto(keys, behind, 0, &slopes, heads.factor(), queries);
        }
    }
    far
}
