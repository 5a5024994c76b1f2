//! The block's forward, and what it keeps for the backward.

use super::attend::{self, Inputs};
use super::buffer::Buffer;
use super::product::{Matrix, Onto, Target, product};
use super::tape::Frozen;
use super::vector::{add_row, norm, norm_again, swiglu, turn};
use super::{Layout, Turns};

/// A linear layer's numbers, with those of its adapter.
#[derive(Clone, Copy)]
pub(super) struct Linear<'a> {
    /// `[in, out]`
    pub weight: &'a [f32],
    pub bias: Option<&'a [f32]>,
    pub inputs: usize,
    pub outputs: usize,
    pub adapter: Option<Adapter<'a>>,
}

/// Low-rank factors: A `[in, rank]`, B `[rank, out]`.
#[derive(Clone, Copy)]
pub(super) struct Adapter<'a> {
    pub a: &'a [f32],
    pub b: &'a [f32],
    pub rank: usize,
    pub scale: f32,
}

impl Linear<'_> {
    /// `xW + b + (s·xA)B` into `out`, or added to it; returns `s·xA` where there is an adapter.
    pub fn forward(&self, x: &[f32], out: &mut [f32], onto: Onto) -> Option<Buffer> {
        let Linear { inputs, outputs, .. } = *self;
        let tokens = x.len() / inputs;
        let x = Matrix::new(x, tokens, inputs);
        product(Target::new(out, tokens, outputs), onto, 1.0, x, Matrix::new(self.weight, inputs, outputs));
        if let Some(bias) = self.bias {
            add_row(out, bias);
        }
        self.adapter.map(|Adapter { a, b, rank, scale }| {
            let mut narrow = Buffer::new(tokens * rank);
            let target = Target::new(&mut narrow, tokens, rank);
            product(target, Onto::Nothing, scale, x, Matrix::new(a, inputs, rank));
            let narrow_rows = Matrix::new(&narrow, tokens, rank);
            product(Target::new(out, tokens, outputs), Onto::Sum, 1.0, narrow_rows, Matrix::new(b, rank, outputs));
            narrow
        })
    }
}

/// What the backward needs and would be dear to compute again. Norms' outputs and SwiGLU's are not
/// kept: they are one cheap pass over numbers that are.
#[derive(Debug)]
pub(super) struct Kept {
    pub input_inverse: Buffer,
    /// Queries and keys before their norms, where they have any, and the norms' inverses.
    pub raw: Option<[Buffer; 4]>,
    pub q: Buffer,
    pub k: Buffer,
    pub v: Buffer,
    pub log_sums: Buffer,
    pub attended: Buffer,
    /// The residual stream behind attention.
    pub middle: Buffer,
    pub middle_inverse: Buffer,
    pub gate: Buffer,
    pub up: Buffer,
    /// `s·xA` of the seven layers.
    pub narrow: [Option<Buffer>; 7],
}

/// # Shapes
/// x `[tokens, d_model]` → the same, and what the backward needs
pub(super) fn forward(frozen: &Frozen, x: &[f32], layout: &Layout, turns: &Turns) -> (Buffer, Kept) {
    let tokens = layout.tokens();
    let heads = frozen.heads;
    let [q_layer, k_layer, v_layer, o_layer, gate_layer, up_layer, down_layer] = frozen.linears();
    let d_model = q_layer.inputs;

    // ── attention ──
    let mut normed = Buffer::new(tokens * d_model);
    let mut input_inverse = Buffer::new(tokens);
    norm(x, frozen.input_norm(), frozen.eps, &mut normed, &mut input_inverse);
    let mut q = Buffer::new(tokens * heads.query_width());
    let mut k = Buffer::new(tokens * heads.key_width());
    let mut v = Buffer::new(tokens * heads.key_width());
    let q_narrow = q_layer.forward(&normed, &mut q, Onto::Nothing);
    let k_narrow = k_layer.forward(&normed, &mut k, Onto::Nothing);
    let v_narrow = v_layer.forward(&normed, &mut v, Onto::Nothing);
    let raw = frozen.head_norms().map(|[q_weight, k_weight]| {
        let [q_raw, k_raw] = [Buffer::of(&q), Buffer::of(&k)];
        let [mut q_inverse, mut k_inverse] = [Buffer::new(q.len() / heads.dim), Buffer::new(k.len() / heads.dim)];
        norm(&q_raw, q_weight, frozen.eps, &mut q, &mut q_inverse);
        norm(&k_raw, k_weight, frozen.eps, &mut k, &mut k_inverse);
        [q_raw, k_raw, q_inverse, k_inverse]
    });
    turn(&mut q, heads.kv * heads.group, turns, false);
    turn(&mut k, heads.kv, turns, false);
    let mut attended = Buffer::new(tokens * heads.query_width());
    let mut log_sums = Buffer::new(tokens * heads.kv * heads.group);
    attend::forward(heads, layout, Inputs { q: &q, k: &k, v: &v }, &mut attended, &mut log_sums);
    let mut middle = Buffer::of(x);
    let o_narrow = o_layer.forward(&attended, &mut middle, Onto::Sum);

    // ── SwiGLU ──
    let mut middle_inverse = Buffer::new(tokens);
    norm(&middle, frozen.mlp_norm(), frozen.eps, &mut normed, &mut middle_inverse);
    let mut gate = Buffer::new(tokens * gate_layer.outputs);
    let mut up = Buffer::new(tokens * up_layer.outputs);
    let gate_narrow = gate_layer.forward(&normed, &mut gate, Onto::Nothing);
    let up_narrow = up_layer.forward(&normed, &mut up, Onto::Nothing);
    let mut joined = Buffer::new(gate.len());
    swiglu(&gate, &up, &mut joined);
    let mut out = Buffer::of(&middle);
    let down_narrow = down_layer.forward(&joined, &mut out, Onto::Sum);

    let narrow = [q_narrow, k_narrow, v_narrow, o_narrow, gate_narrow, up_narrow, down_narrow];
    let kept = Kept { input_inverse, raw, q, k, v, log_sums, attended, middle, middle_inverse, gate, up, narrow };
    (out, kept)
}

/// A norm's output, from what was kept.
pub(super) fn normed_again(x: &[f32], weight: &[f32], inverse: &[f32]) -> Buffer {
    let mut out = Buffer::new(x.len());
    norm_again(x, weight, inverse, &mut out);
    out
}
