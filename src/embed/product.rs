//! Matrix products on slices, each on one thread: the only place of this module that calls the
//! kernels of `gemm`, and every access that they make is checked here first.

/// Rows that begin `stride` numbers apart, in a slice.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub numbers: &'a [f32],
    pub rows: usize,
    pub columns: usize,
    pub stride: usize,
}

/// `out = factor·a·b`, or `factor·a·bᵀ`; rows of `out` begin `stride` numbers apart.
///
/// # Shapes
/// `a: [rows, inner]`, `b: [inner, columns]` or, transposed, `[columns, inner]`.
pub(super) fn product(out: &mut [f32], stride: usize, factor: f32, a: Matrix, b: Matrix, transposed: bool) {
    let (inner, columns) = if transposed { (b.columns, b.rows) } else { (b.rows, b.columns) };
    let fits = |length: usize, rows: usize, columns: usize, stride: usize| {
        rows > 0 && columns > 0 && columns <= stride && (rows - 1) * stride + columns <= length
    };
    assert_eq!(a.columns, inner, "shapes of a product disagree");
    assert!(fits(a.numbers.len(), a.rows, a.columns, a.stride), "the left matrix reaches over its numbers");
    assert!(fits(b.numbers.len(), b.rows, b.columns, b.stride), "the right matrix reaches over its numbers");
    assert!(fits(out.len(), a.rows, columns, stride), "a product reaches over its target");
    let (b_right, b_down) = if transposed { (b.stride as isize, 1) } else { (1, b.stride as isize) };
    // SAFETY: every address that the kernel reads or writes is `base + row·down + column·right` with
    // row and column below the bounds that were just checked against the slices' lengths; `out` is
    // borrowed mutably, so it overlaps neither operand, and its rows do not overlap.
    unsafe {
        gemm::gemm(
            a.rows,
            columns,
            inner,
            out.as_mut_ptr(),
            1,
            stride as isize,
            false,
            a.numbers.as_ptr(),
            1,
            a.stride as isize,
            b.numbers.as_ptr(),
            b_right,
            b_down,
            0.0f32,
            factor,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_and_transposed_products_equal_the_sum_of_their_terms() {
        let a: Vec<f32> = (0..28).map(|i| (i as f32 * 0.7).sin()).collect();
        let b: Vec<f32> = (0..30).map(|i| (i as f32 * 1.3).cos()).collect();
        // a: 4 rows of 5 in rows of 7; b: 5 rows of 3 in rows of 6, or 3 rows of 5 in rows of 6.
        let left = Matrix { numbers: &a, rows: 4, columns: 5, stride: 7 };
        for transposed in [false, true] {
            let (rows, columns) = if transposed { (3, 5) } else { (5, 3) };
            let mut out = vec![9.0f32; 4 * 8];
            product(&mut out, 8, 0.5, left, Matrix { numbers: &b, rows, columns, stride: 6 }, transposed);
            for row in 0..4 {
                for column in 0..3 {
                    let term =
                        |i: usize| a[row * 7 + i] * if transposed { b[column * 6 + i] } else { b[i * 6 + column] };
                    let sum: f32 = (0..5).map(term).sum();
                    assert!((out[row * 8 + column] - 0.5 * sum).abs() < 1e-6);
                }
                assert_eq!(out[row * 8 + 3..row * 8 + 8], [9.0; 5], "nothing between the rows is touched");
            }
        }
    }

    #[test]
    #[should_panic(expected = "reaches over")]
    fn a_matrix_larger_than_its_numbers_is_refused() {
        let (a, mut out) = (vec![0.0; 11], vec![0.0; 4]);
        let matrix = |rows, columns| Matrix { numbers: &a, rows, columns, stride: columns };
        product(&mut out, 2, 1.0, matrix(2, 6), matrix(6, 2), false);
    }
}
