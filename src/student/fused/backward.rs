//! The block's backward: gradients of its input and of the adapters' factors.

use super::attend::{self, Inputs, Known};
use super::buffer::Buffer;
use super::forward::{Adapter, Kept, Linear, normed_again};
use super::product::{Matrix, Onto, Target, product};
use super::tape::Frozen;
use super::vector::{norm_back, swiglu, swiglu_back, turn};
use super::{Layout, Turns};

/// The gradients of an adapter's factors, A then B; those of no adapter are `None`.
pub(super) type Slopes = Option<[Vec<f32>; 2]>;

impl Linear<'_> {
    /// Gradients from that of the output, `above`: of the input into `into` where it is given, and
    /// of the factors. `narrow` is `s·xA` of the forward.
    fn backward(&self, x: &[f32], narrow: Option<&Buffer>, above: &[f32], into: Option<(&mut [f32], Onto)>) -> Slopes {
        let Linear { inputs, outputs, .. } = *self;
        let tokens = x.len() / inputs;
        let above = Matrix::new(above, tokens, outputs);
        let mut narrow_slope = Buffer::new(0);
        let adapter = self.adapter.zip(narrow);
        let slopes = adapter.map(|(Adapter { b, rank, scale, .. }, narrow)| {
            narrow_slope = Buffer::new(tokens * rank);
            let target = Target::new(&mut narrow_slope, tokens, rank);
            product(target, Onto::Nothing, scale, above, Matrix::new(b, rank, outputs).t());
            let (mut a_slope, mut b_slope) = (vec![0.0; inputs * rank], vec![0.0; rank * outputs]);
            let (x, slope) = (Matrix::new(x, tokens, inputs), Matrix::new(&narrow_slope, tokens, rank));
            product(Target::new(&mut a_slope, inputs, rank), Onto::Nothing, 1.0, x.t(), slope);
            let narrow = Matrix::new(narrow, tokens, rank);
            product(Target::new(&mut b_slope, rank, outputs), Onto::Nothing, 1.0, narrow.t(), above);
            [a_slope, b_slope]
        });
        if let Some((into, onto)) = into {
            let weight = Matrix::new(self.weight, inputs, outputs);
            product(Target::new(into, tokens, inputs), onto, 1.0, above, weight.t());
            if let Some((Adapter { a, rank, .. }, _)) = adapter {
                let slope = Matrix::new(&narrow_slope, tokens, rank);
                let target = Target::new(into, tokens, inputs);
                product(target, Onto::Sum, 1.0, slope, Matrix::new(a, inputs, rank).t());
            }
        }
        slopes
    }
}

/// `above` is the gradient of the block's output; that of its input is returned where `wanted`.
///
/// # Shapes
/// x and above `[tokens, d_model]`
pub(super) fn backward(
    frozen: &Frozen,
    x: &[f32],
    kept: &Kept,
    (layout, turns): (&Layout, &Turns),
    above: &[f32],
    wanted: bool,
) -> (Option<Buffer>, [Slopes; 7]) {
    let heads = frozen.heads;
    let [q_layer, k_layer, v_layer, o_layer, gate_layer, up_layer, down_layer] = frozen.linears();
    let narrow = |place: usize| kept.narrow[place].as_ref();

    // ── SwiGLU ──
    let mut joined = Buffer::new(kept.gate.len());
    swiglu(&kept.gate, &kept.up, &mut joined);
    let mut up_slope = Buffer::new(kept.gate.len());
    let down = down_layer.backward(&joined, narrow(6), above, Some((&mut up_slope, Onto::Nothing)));
    let mut gate_slope = joined;
    swiglu_back(&kept.gate, &kept.up, &mut up_slope, &mut gate_slope);
    let normed = normed_again(&kept.middle, frozen.mlp_norm(), &kept.middle_inverse);
    let mut normed_slope = Buffer::new(normed.len());
    let gate = gate_layer.backward(&normed, narrow(4), &gate_slope, Some((&mut normed_slope, Onto::Nothing)));
    let up = up_layer.backward(&normed, narrow(5), &up_slope, Some((&mut normed_slope, Onto::Sum)));
    drop((gate_slope, up_slope, normed));
    let mut middle_slope = Buffer::of(above);
    norm_back(&mut middle_slope, &kept.middle, frozen.mlp_norm(), &kept.middle_inverse, &normed_slope);

    // ── attention ──
    let mut attended_slope = Buffer::new(kept.attended.len());
    let o = o_layer.backward(&kept.attended, narrow(3), &middle_slope, Some((&mut attended_slope, Onto::Nothing)));
    let [mut dq, mut dk, mut dv] = [&kept.q, &kept.k, &kept.v].map(|x| Buffer::new(x.len()));
    let inputs = Inputs { q: &kept.q, k: &kept.k, v: &kept.v };
    let known = Known { inputs, out: &kept.attended, log_sums: &kept.log_sums, above: &attended_slope };
    attend::backward(heads, layout, &known, &mut dq, &mut dk, &mut dv);
    turn(&mut dq, heads.kv * heads.group, turns, true);
    turn(&mut dk, heads.kv, turns, true);
    if let (Some([q_raw, k_raw, q_inverse, k_inverse]), Some([q_weight, k_weight])) = (&kept.raw, frozen.head_norms()) {
        dq = norm_slope(q_raw, q_weight, q_inverse, &dq);
        dk = norm_slope(k_raw, k_weight, k_inverse, &dk);
    }
    let normed = normed_again(x, frozen.input_norm(), &kept.input_inverse);
    let q = q_layer.backward(&normed, narrow(0), &dq, wanted.then_some((&mut normed_slope, Onto::Nothing)));
    let k = k_layer.backward(&normed, narrow(1), &dk, wanted.then_some((&mut normed_slope, Onto::Sum)));
    let v = v_layer.backward(&normed, narrow(2), &dv, wanted.then_some((&mut normed_slope, Onto::Sum)));
    let input_slope = wanted.then(|| {
        norm_back(&mut middle_slope, x, frozen.input_norm(), &kept.input_inverse, &normed_slope);
        middle_slope
    });
    (input_slope, [q, k, v, o, gate, up, down])
}

fn norm_slope(x: &[f32], weight: &[f32], inverse: &[f32], above: &[f32]) -> Buffer {
    let mut slope = Buffer::zeros(x.len());
    norm_back(&mut slope, x, weight, inverse, above);
    slope
}
