//! Matrix products on slices: the only place of the student that calls the kernels of `gemm`, and
//! every access that they make is checked here first.

use gemm::Parallelism;

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

/// `out = factor·a·b`, or plus what `out` held; on all threads where it pays.
pub(super) fn product(out: Target, onto: Onto, factor: f32, a: Matrix, b: Matrix) {
    // Small products stay on this thread: waking the others has its price, too. Not tuned.
    let threads = if out.rows * out.columns * a.columns < 200_000 { Parallelism::None } else { Parallelism::Rayon(0) };
    run(out, onto, factor, a, b, threads);
}

/// The same on this thread alone, for callers that are spread over the threads already.
pub(super) fn product_here(out: Target, onto: Onto, factor: f32, a: Matrix, b: Matrix) {
    run(out, onto, factor, a, b, Parallelism::None);
}

fn run(out: Target, onto: Onto, factor: f32, a: Matrix, b: Matrix, threads: Parallelism) {
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
    // SAFETY: every address that the kernel reads or writes is `base + row·stride + column·stride`
    // with row and column below the bounds that were just checked against the slices' lengths; the
    // target is borrowed mutably, so it overlaps neither operand; its rows do not overlap.
    unsafe {
        gemm::gemm(
            out.rows,
            out.columns,
            a.columns,
            out.numbers.as_mut_ptr(),
            1,
            out.stride as isize,
            onto == Onto::Sum,
            a.numbers.as_ptr(),
            a.strides[1] as isize,
            a.strides[0] as isize,
            b.numbers.as_ptr(),
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
    #[should_panic(expected = "reaches over")]
    fn a_matrix_larger_than_its_numbers_is_refused() {
        let (a, mut out) = (vec![0.0; 11], vec![0.0; 4]);
        product(Target::new(&mut out, 2, 2), Onto::Nothing, 1.0, Matrix::new(&a, 2, 6), Matrix::new(&a, 6, 2));
    }
}
