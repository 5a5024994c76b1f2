//! A transformer block as one operation, forward and backward, for burn's CPU backend: entered
//! into burn's autodiff graph as a node of its own (burn's backend extension), with the products
//! of the `gemm` crate and single passes for norms, rotation, SwiGLU and softmax between them.
//!
//! Composed from burn's tensor operations, the same block spends half of its processor time on
//! unfused elementwise passes, most of them on one thread. The composed form stays: it is what
//! other devices run, what dropout uses, and what this one is tested against.

mod attend;
mod backward;
mod buffer;
mod entropy;
mod forward;
pub mod kernels;
mod lanes;
mod product;
mod tape;
#[cfg(test)]
mod tests;
mod vector;

pub(super) use buffer::release;
pub(super) use entropy::cross_entropy;
pub(super) use lanes::{Decoder, Lane, Memory, Piece};
pub(super) use tape::{block, floats, runs};
pub(super) use vector::{Turns, log_sum};

/// How flat tokens belong together: a prefix, then rows that each continue it, without padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Tokens of the prefix.
    pub shared: usize,
    /// Tokens of each row.
    pub rows: Vec<usize>,
}

/// Tokens that follow each other, and how many tokens of the prefix they also see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    start: usize,
    length: usize,
    behind: usize,
}

impl Layout {
    /// All tokens.
    pub fn tokens(&self) -> usize {
        self.shared + self.rows.iter().sum::<usize>()
    }

    /// Where each row begins.
    pub fn starts(&self) -> Vec<usize> {
        let next = |at: &mut usize, length: &usize| {
            let start = *at;
            *at += length;
            Some(start)
        };
        self.rows.iter().scan(self.shared, next).collect()
    }

    /// The position of every token.
    pub fn positions(&self) -> Vec<usize> {
        let rows = self.rows.iter().flat_map(|length| self.shared..self.shared + length);
        (0..self.shared).chain(rows).collect()
    }

    /// The prefix and the rows, in order; together they are all tokens.
    fn segments(&self) -> Vec<Segment> {
        let prefix = Segment { start: 0, length: self.shared, behind: 0 };
        let rows = self.starts().into_iter().zip(&self.rows);
        let rows = rows.map(|(start, length)| Segment { start, length: *length, behind: self.shared });
        std::iter::once(prefix).chain(rows).filter(|segment| segment.length > 0).collect()
    }

    /// `width` numbers per token, cut into segments.
    fn split<'a>(&self, numbers: &'a mut [f32], width: usize) -> Vec<&'a mut [f32]> {
        let mut rest = numbers;
        let cut = |segment: Segment| {
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(segment.length * width);
            rest = behind;
            part
        };
        self.segments().into_iter().map(cut).collect()
    }
}
