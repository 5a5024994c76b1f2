//! Grouped-query attention over a shared prefix and rows that continue it.
//!
//! Tokens come as one flat list: first the `prefix` tokens, then `rows × width` tokens, row after
//! row. Rows see the prefix and their own past. Neither keys and values of a group nor those of
//! the prefix are repeated in memory: queries that share them are folded into the rows of one
//! product. Ainslie et al. 2023, arXiv:2305.13245; Juravsky et al. 2024, arXiv:2402.05099.

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Tensor, TensorData};

/// Added to the score of a key that a query must not see; exp of it is 0 in f32.
const UNSEEN: f32 = -1e30;

/// How heads share keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub kv: usize,
    pub group: usize,
    pub dim: usize,
}

impl Heads {
    /// # Shapes
    /// `[tokens, kv·group, head_dim]` → `[kv, rows, group·width, head_dim]`
    fn fold(self, q: Tensor<3>, rows: usize, width: usize) -> Tensor<4> {
        q.reshape([rows, width, self.kv, self.group, self.dim]).permute([2, 0, 3, 1, 4]).reshape([
            self.kv,
            rows,
            self.group * width,
            self.dim,
        ])
    }

    /// The way back.
    ///
    /// # Shapes
    /// `[kv, rows, group·width, head_dim]` → `[rows·width, kv·group·head_dim]`
    fn unfold(self, out: Tensor<4>, rows: usize, width: usize) -> Tensor<2> {
        out.reshape([self.kv, rows, self.group, width, self.dim])
            .permute([1, 3, 0, 2, 4])
            .reshape([rows * width, self.kv * self.group * self.dim])
    }

    /// # Shapes
    /// `[rows·width, kv, head_dim]` → `[kv, rows, width, head_dim]`
    pub fn keys(self, k: Tensor<3>, rows: usize, width: usize) -> Tensor<4> {
        k.reshape([rows, width, self.kv, self.dim]).permute([2, 0, 1, 3])
    }
}

/// Each row attends to its own keys as far as the mask lets it; queries are scaled already.
///
/// # Shapes
/// q `[rows·width, heads, head_dim]`, k and v `[kv, rows, length, head_dim]`,
/// mask `[1, 1 or rows, 1 or group·width, length]` → `[rows·width, heads·head_dim]`
pub(crate) fn alone(heads: Heads, q: Tensor<3>, k: Tensor<4>, v: Tensor<4>, mask: Tensor<4>) -> Tensor<2> {
    let [_, rows, _, _] = k.dims();
    let width = q.dims()[0] / rows;
    let q = heads.fold(q, rows, width);
    let scores = q.matmul(k.transpose()) + mask;
    heads.unfold(softmax(scores, 3).matmul(v), rows, width)
}

/// As [`alone`], but every row also sees the whole prefix.
///
/// # Shapes
/// prefix k and v `[kv, 1, prefix, head_dim]`, the rest as [`alone`]
pub(crate) fn behind_prefix(
    heads: Heads,
    q: Tensor<3>,
    prefix: (Tensor<4>, Tensor<4>),
    own: (Tensor<4>, Tensor<4>),
    mask: Tensor<4>,
) -> Tensor<2> {
    let [_, rows, length, dim] = own.0.dims();
    let width = q.dims()[0] / rows;
    let (shared, folded) = (prefix.0.dims()[2], heads.group * width);
    let q = heads.fold(q, rows, width);
    let far = q.clone().reshape([heads.kv, 1, rows * folded, dim]).matmul(prefix.0.transpose());
    let far = far.reshape([heads.kv, rows, folded, shared]);
    let near = q.matmul(own.0.transpose()) + mask;
    let weights = softmax(Tensor::cat(vec![far, near], 3), 3);
    let far = weights.clone().narrow(3, 0, shared).reshape([heads.kv, 1, rows * folded, shared]);
    let near = weights.narrow(3, shared, length);
    let out = far.matmul(prefix.1).reshape([heads.kv, rows, folded, dim]) + near.matmul(own.1);
    heads.unfold(out, rows, width)
}

/// Lets token `i` of `width` see tokens `0..=i`.
///
/// # Shapes
/// → `[1, 1, group·width, width]`
pub(crate) fn causal(group: usize, width: usize, device: &Device) -> Tensor<4> {
    // Made where it is used: for 1024 tokens and four queries to a key it would be 16 MB to carry there.
    let later = Tensor::<2, Bool>::tril_mask([width, width], 0, device);
    let mask = Tensor::<2>::zeros([width, width], device).mask_fill(later, UNSEEN);
    mask.repeat_dim(0, group).reshape([1, 1, group * width, width])
}

/// Lets the newest token of every row see the slots that are marked.
///
/// # Shapes
/// seen `[rows][length]` → `[1, rows, 1, length]`
pub(crate) fn slots(seen: &[Vec<bool>], device: &Device) -> Tensor<4> {
    let length = seen.first().map_or(0, Vec::len);
    let mask: Vec<f32> = seen.iter().flatten().map(|seen| if *seen { 0.0 } else { UNSEEN }).collect();
    Tensor::from_data(TensorData::new(mask, [1, seen.len(), 1, length]), device)
}
