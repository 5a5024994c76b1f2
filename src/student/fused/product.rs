//! Matrix products on slices: the only place of the student that calls the kernels of `gemm`, and
//! every access that they make is checked here first.

use gemm::Parallelism;
use rayon::prelude::*;

/// A matrix somewhere in a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a> {
    numbers: &'a [f32],
    rows: usize,
    columns: usize,
    /// From row to row, and from column to column.
    strides: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// Row after row without a gap.
    pub fn new(numbers: &'a [f32], rows: usize, columns: usize) -> Matrix<'a> {
        Matrix::strided(numbers, rows, columns, columns)
    }

    /// Rows that begin `stride` numbers apart.
    pub fn strided(numbers: &'a [f32], rows: usize, columns: usize, stride: usize) -> Matrix<'a> {
        Matrix { numbers, rows, columns, strides: [stride, 1] }
    }

    /// The transpose, at no cost.
    pub fn t(self) -> Matrix<'a> {
        let [down, right] = self.strides;
        Matrix { numbers: self.numbers, rows: self.columns, columns: self.rows, strides: [right, down] }
    }
}

/// Where a product goes: rows that begin `stride` numbers apart.
#[derive(Debug)]
pub(super) struct Target<'a> {
    numbers: &'a mut [f32],
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<'a> Target<'a> {
    /// Row after row without a gap.
    pub fn new(numbers: &'a mut [f32], rows: usize, columns: usize) -> Target<'a> {
        Target::strided(numbers, rows, columns, columns)
    }

    /// Rows that begin `stride` numbers apart.
    pub fn strided(numbers: &'a mut [f32], rows: usize, columns: usize, stride: usize) -> Target<'a> {
        Target { numbers, rows, columns, stride }
    }

    /// The same place once more.
    pub fn again(&mut self) -> Target<'_> {
        Target { numbers: self.numbers, rows: self.rows, columns: self.columns, stride: self.stride }
    }
}

/// What happens to the numbers that stand in the target already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Onto {
    /// They are overwritten, whatever they are.
    Nothing,
    /// The product is added to them.
    Sum,
}

/// Products of at most this many rows are split by columns, one part a thread; above, the kernels
/// split them. With 8 to 64 rows of 576 times 576 by 1536, two threads took a sixth to a third less.
const FEW_ROWS: usize = 128;
/// Columns that are worth a thread.
const COLUMNS: usize = 64;

/// How a product is spread over the threads.
#[derive(Clone, Copy)]
enum Spread {
    /// It stays on this one.
    Here,
    /// As the kernels see fit.
    Kernel,
    /// Each thread has columns of its own, and so packs nothing that another needs.
    Columns(usize),
}

/// `out = factor·a·b`, or plus what `out` held; on all threads where it pays.
pub(super) fn product(out: Target, onto: Onto, factor: f32, a: Matrix, b: Matrix) {
    let threads = rayon::current_num_threads();
    // Small products stay on this thread: waking the others has its price, too. Not tuned.
    let spread = match out.rows * out.columns * a.columns {
        ..200_000 => Spread::Here,
        _ if out.rows <= FEW_ROWS && out.columns >= threads * COLUMNS => Spread::Columns(threads),
        _ => Spread::Kernel,
    };
    run(out, onto, factor, a, b, spread);
}

/// The same on this thread alone, for callers that are spread over the threads already.
pub(super) fn product_here(out: Target, onto: Onto, factor: f32, a: Matrix, b: Matrix) {
    run(out, onto, factor, a, b, Spread::Here);
}

/// Addresses that threads may share, since each writes to columns of its own.
struct Addresses {
    out: *mut f32,
    a: *const f32,
    b: *const f32,
}

// SAFETY: the only use is in `run`, whose parts write to disjoint columns and only read the rest.
unsafe impl Sync for Addresses {}

fn run(out: Target, onto: Onto, factor: f32, a: Matrix, b: Matrix, spread: Spread) {
    assert_eq!((out.rows, out.columns, a.columns), (a.rows, b.columns, b.rows), "shapes of a product disagree");
    let inside = |length: usize, rows: usize, columns: usize, [down, right]: [usize; 2]| {
        rows == 0 || columns == 0 || (rows - 1) * down + (columns - 1) * right < length
    };
    assert!(inside(a.numbers.len(), a.rows, a.columns, a.strides), "the left matrix reaches over its numbers");
    assert!(inside(b.numbers.len(), b.rows, b.columns, b.strides), "the right matrix reaches over its numbers");
    assert!(inside(out.numbers.len(), out.rows, out.columns, [out.stride, 1]), "a product reaches over its target");
    assert!(out.stride >= out.columns, "rows of the target overlap");
    if out.rows == 0 || out.columns == 0 {
        return;
    }
    let at = Addresses { out: out.numbers.as_mut_ptr(), a: a.numbers.as_ptr(), b: b.numbers.as_ptr() };
    let (rows, inner, stride) = (out.rows, a.columns, out.stride);
    let columns = |from: usize, count: usize, threads: Parallelism| {
        let at = &at;
        // SAFETY: every address that the kernel reads or writes is `base + row·stride + column·stride`
        // with row and column below the bounds that were just checked against the slices' lengths
        // (`from + count` is at most the target's columns); the target is borrowed mutably, so it
        // overlaps neither operand; its rows do not overlap, and calls on several threads have
        // columns of their own.
        unsafe {
            gemm::gemm(
                rows,
                count,
                inner,
                at.out.add(from),
                1,
                stride as isize,
                onto == Onto::Sum,
                at.a,
                a.strides[1] as isize,
                a.strides[0] as isize,
                at.b.add(from * b.strides[1]),
                b.strides[1] as isize,
                b.strides[0] as isize,
                1.0f32,
                factor,
                false,
                false,
                false,
                threads,
            );
        }
    };
    match spread {
        Spread::Here => columns(0, out.columns, Parallelism::None),
        Spread::Kernel => columns(0, out.columns, Parallelism::Rayon(0)),
        Spread::Columns(threads) => {
            // Whole vectors of any processor.
            let share = out.columns.div_ceil(threads).next_multiple_of(16);
            let parts = (0..out.columns).into_par_iter().step_by(share);
            parts.for_each(|from| columns(from, share.min(out.columns - from), Parallelism::None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_and_transposed_products_equal_the_sum_of_their_terms() {
        let a: Vec<f32> = (0..60).map(|i| (i as f32 * 0.7).sin()).collect();
        let b: Vec<f32> = (0..60).map(|i| (i as f32 * 1.3).cos()).collect();
        // a: 4 rows of 5 in rows of 7; b: the transpose of 3 rows of 5 in rows of 6.
        let mut out = vec![2.0f32; 4 * 8];
        let right = Matrix::strided(&b, 3, 5, 6).t();
        product(Target::strided(&mut out, 4, 3, 8), Onto::Sum, 0.5, Matrix::strided(&a, 4, 5, 7), right);
        for row in 0..4 {
            for column in 0..3 {
                let sum: f32 = (0..5).map(|i| a[row * 7 + i] * b[column * 6 + i]).sum();
                assert!((out[row * 8 + column] - (2.0 + 0.5 * sum)).abs() < 1e-6);
            }
            assert_eq!(out[row * 8 + 3..row * 8 + 8], [2.0; 5], "nothing between the rows is touched");
        }
        let mut fresh = vec![f32::NAN; 12];
        product_here(Target::new(&mut fresh, 4, 3), Onto::Nothing, 1.0, Matrix::strided(&a, 4, 5, 7), right);
        assert!(fresh.iter().all(|x| x.is_finite()), "what stood in the target is not read");
    }

    #[test]
    fn columns_spread_over_threads_give_the_numbers_of_one_thread() {
        let number = |i: usize| (i as f32 * 0.7).sin();
        for (rows, inner, columns) in [(1, 700, 321), (5, 300, 147), (100, 70, 130)] {
            let a: Vec<f32> = (0..rows * inner).map(number).collect();
            let b: Vec<f32> = (0..columns * inner).map(|i| number(i * 3)).collect();
            for b in [Matrix::new(&b, inner, columns), Matrix::new(&b, columns, inner).t()] {
                let (mut one, mut many) = (vec![1.0; rows * columns], vec![1.0; rows * columns]);
                let a = Matrix::new(&a, rows, inner);
                run(Target::new(&mut one, rows, columns), Onto::Sum, 0.5, a, b, Spread::Here);
                run(Target::new(&mut many, rows, columns), Onto::Sum, 0.5, a, b, Spread::Columns(4));
                let apart = one.iter().zip(&many).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                // Another kernel may add in another order: 700 numbers of size 1.
                assert!(apart < 1e-4 && one.iter().any(|x| *x != 1.0), "{apart}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "reaches over")]
    fn a_matrix_larger_than_its_numbers_is_refused() {
        let (a, mut out) = (vec![0.0; 11], vec![0.0; 4]);
        product(Target::new(&mut out, 2, 2), Onto::Nothing, 1.0, Matrix::new(&a, 2, 6), Matrix::new(&a, 6, 2));
    }
}
