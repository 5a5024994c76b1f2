//! Passes over tokens that burn's CPU backend has no single operation for, each one pass over
//! memory, on all threads, in whatever vectors the processor has.

use rayon::prelude::*;

/// Tokens that one task takes.
const TOKENS: usize = 16;

/// Partial sums that are kept side by side, so that they fit one vector of any processor and the
/// order of the additions is the same on all of them.
const LANES: usize = 16;

/// Compiled once per kind of processor, chosen when it runs.
#[inline(always)]
fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// e to the power of x within 2 units in the last place, for x from -86 to 88, and at the ends of
/// that range outside it. Range reduction by ln 2 in two parts and a polynomial of degree 7, with
/// the constants of the Cephes library (`expf`).
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// Adding it leaves the nearest whole number in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-86.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let r = x - whole * 0.693_359_4 - whole * -2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The sum of `term(a, b)` over two rows of one length.
#[inline(always)]
fn sum(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| term(*a, *b)).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += term(*a, *b);
        }
    }
    lanes.iter().sum::<f32>() + rest
}

#[inline(always)]
fn highest(row: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            // Not `f32::max`, whose care for NaN costs a second instruction; a NaN comes back in the sum.
            *lane = if *x > *lane { *x } else { *lane };
        }
    }
    lanes.iter().copied().fold(rest, f32::max)
}

/// RMSNorm, and what each row was divided by, inverted.
///
/// # Shapes
/// x and out `[tokens, width]`, weight `[width]`, inverse `[tokens]`
pub(super) fn norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32], inverse: &mut [f32]) {
    let width = weight.len();
    let size = width * TOKENS;
    let parts = (out.par_chunks_mut(size), x.par_chunks(size), inverse.par_chunks_mut(TOKENS));
    parts.into_par_iter().for_each(|(out, x, inverse)| {
        vectorised(|| {
            for ((out, x), inverse) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(inverse) {
                *inverse = 1.0 / (sum(x, x, |a, b| a * b) / width as f32 + eps).sqrt();
                for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
                    *out = x * *inverse * weight;
                }
            }
        });
    });
}

/// The same output from inverses that are known.
pub(super) fn norm_again(x: &[f32], weight: &[f32], inverse: &[f32], out: &mut [f32]) {
    let width = weight.len();
    let size = width * TOKENS;
    let parts = (out.par_chunks_mut(size), x.par_chunks(size), inverse.par_chunks(TOKENS));
    parts.into_par_iter().for_each(|(out, x, inverse)| {
        vectorised(|| {
            for ((out, x), inverse) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(inverse) {
                for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
                    *out = x * inverse * weight;
                }
            }
        });
    });
}

/// Adds the gradient of a norm's input to `slope`; `above` is that of its output.
///
/// # Shapes
/// slope, x and above `[tokens, width]`, weight `[width]`, inverse `[tokens]`
pub(super) fn norm_back(slope: &mut [f32], x: &[f32], weight: &[f32], inverse: &[f32], above: &[f32]) {
    let width = weight.len();
    let size = width * TOKENS;
    let parts = (slope.par_chunks_mut(size), x.par_chunks(size), above.par_chunks(size), inverse.par_chunks(TOKENS));
    parts.into_par_iter().for_each(|(slope, x, above, inverse)| {
        vectorised(|| {
            let rows = slope.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(above.chunks_exact(width));
            for (((slope, x), above), inverse) in rows.zip(inverse) {
                let mut lanes = [0f32; LANES];
                for ((x, above), weight) in x.chunks(LANES).zip(above.chunks(LANES)).zip(weight.chunks(LANES)) {
                    for (((lane, x), above), weight) in lanes.iter_mut().zip(x).zip(above).zip(weight) {
                        *lane += x * above * weight;
                    }
                }
                let along = lanes.iter().sum::<f32>() * inverse * inverse * inverse / width as f32;
                for (((slope, x), above), weight) in slope.iter_mut().zip(x).zip(above).zip(weight) {
                    *slope += above * weight * inverse - x * along;
                }
            }
        });
    });
}

/// Cosines and sines per token, for one half of a head.
#[derive(Debug)]
pub(crate) struct Turns {
    /// `[tokens, head_dim / 2]`
    pub cos: Vec<f32>,
    /// `[tokens, head_dim / 2]`
    pub sin: Vec<f32>,
    pub half: usize,
}

/// Rotates every head of every token in place; `back` rotates the other way, which is the gradient.
///
/// # Shapes
/// x `[tokens, heads·head_dim]`
pub(super) fn turn(x: &mut [f32], heads: usize, turns: &Turns, back: bool) {
    let half = turns.half;
    let width = heads * half * 2;
    let sign = if back { -1.0 } else { 1.0 };
    let tables = (turns.cos.par_chunks(half * TOKENS), turns.sin.par_chunks(half * TOKENS));
    (x.par_chunks_mut(width * TOKENS), tables.0, tables.1).into_par_iter().for_each(|(x, cos, sin)| {
        vectorised(|| {
            let tokens = x.chunks_exact_mut(width).zip(cos.chunks_exact(half)).zip(sin.chunks_exact(half));
            for ((token, cos), sin) in tokens {
                for head in token.chunks_exact_mut(half * 2) {
                    let (first, second) = head.split_at_mut(half);
                    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                        let sin = sign * sin;
                        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                    }
                }
            }
        });
    });
}

/// SwiGLU: `out = silu(gate)·up`.
pub(super) fn swiglu(gate: &[f32], up: &[f32], out: &mut [f32]) {
    const SIZE: usize = 1 << 13;
    (out.par_chunks_mut(SIZE), gate.par_chunks(SIZE), up.par_chunks(SIZE)).into_par_iter().for_each(
        |(out, gate, up)| {
            vectorised(|| {
                for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                    *out = gate * sigmoid(*gate) * up;
                }
            });
        },
    );
}

/// Turns the gradient of SwiGLU's output, in `above`, into that of `up`, and writes that of `gate`.
pub(super) fn swiglu_back(gate: &[f32], up: &[f32], above: &mut [f32], gate_slope: &mut [f32]) {
    const SIZE: usize = 1 << 13;
    let parts =
        (above.par_chunks_mut(SIZE), gate_slope.par_chunks_mut(SIZE), gate.par_chunks(SIZE), up.par_chunks(SIZE));
    parts.into_par_iter().for_each(|(above, slope, gate, up)| {
        vectorised(|| {
            for (((above, slope), gate), up) in above.iter_mut().zip(slope).zip(gate).zip(up) {
                let share = sigmoid(*gate);
                *slope = *above * up * share * (1.0 + gate * (1.0 - share));
                *above *= gate * share;
            }
        });
    });
}

/// Adds one row to every row.
pub(super) fn add_row(x: &mut [f32], row: &[f32]) {
    x.par_chunks_mut(row.len() * TOKENS).for_each(|part| {
        vectorised(|| {
            for x in part.chunks_exact_mut(row.len()) {
                x.iter_mut().zip(row).for_each(|(x, row)| *x += row);
            }
        });
    });
}

/// Adds two slices into the first.
pub(super) fn add(into: &mut [f32], more: &[f32]) {
    vectorised(|| into.iter_mut().zip(more).for_each(|(into, more)| *into += more));
}

/// Makes scores into shares that sum to 1; returns the logarithm of the sum of their exponentials.
pub(super) fn softmax(row: &mut [f32]) -> f32 {
    vectorised(|| {
        let highest = highest(row);
        row.iter_mut().for_each(|x| *x = exp(*x - highest));
        let total = sum(row, row, |a, _| a);
        let scale = 1.0 / total;
        row.iter_mut().for_each(|x| *x *= scale);
        highest + total.ln()
    })
}

/// The logarithm of the sum of a row's exponentials.
pub(crate) fn log_sum(row: &[f32]) -> f32 {
    vectorised(|| {
        let highest = highest(row);
        highest + sum(row, row, |x, _| exp(x - highest)).ln()
    })
}

/// The same shares from a known logarithm of the sum.
pub(super) fn softmax_again(row: &mut [f32], log_sum: f32) {
    vectorised(|| row.iter_mut().for_each(|x| *x = exp(*x - log_sum)));
}

/// Turns the gradient of shares, in `above`, into that of scores.
pub(super) fn softmax_back(shares: &[f32], above: &mut [f32], along: f32) {
    vectorised(|| above.iter_mut().zip(shares).for_each(|(above, share)| *above = share * (*above - along)));
}

/// The inner product of two rows.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    vectorised(|| sum(a, b, |a, b| a * b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_within_two_units_in_the_last_place() {
        let mut worst = 0.0f64;
        for i in 0..=2_000_000 {
            let x = -86.0 + 174.0 * i as f32 / 2_000_000.0;
            let (found, expected) = (f64::from(exp(x)), f64::from(x).exp());
            worst = worst.max(((found - expected) / expected).abs());
        }
        // One unit in the last place of f32 is at most 2^-23 of the number.
        assert!(worst < 2.0 / f64::from(1 << 23), "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(-1e30) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn shares_sum_to_one_and_come_back_from_the_logarithm_of_their_sum() {
        for length in [1, 15, 16, 33, 252] {
            let scores: Vec<f32> = (0..length).map(|i| (i as f32 * 0.9).sin() * 5.0).collect();
            let (mut shares, mut again) = (scores.clone(), scores.clone());
            let log_sum = softmax(&mut shares);
            let expected = scores.iter().map(|x| f64::from(*x).exp()).sum::<f64>();
            assert!((f64::from(log_sum) - expected.ln()).abs() < 1e-5);
            for (share, score) in shares.iter().zip(&scores) {
                assert!((f64::from(*share) - f64::from(*score).exp() / expected).abs() < 1e-6);
            }
            softmax_again(&mut again, log_sum);
            assert!(again.iter().zip(&shares).all(|(a, b)| (a - b).abs() < 1e-6));
        }
    }
}
