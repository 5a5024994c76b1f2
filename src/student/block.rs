//! One transformer block of the Llama family: RMSNorm (Zhang and Sennrich 2019, arXiv:1910.07467),
//! attention, RMSNorm, SwiGLU (Shazeer 2020, arXiv:2002.05202).

use super::linear::Linear;
use super::rope::Angles;
use burn::tensor::Tensor;
use burn::tensor::activation::silu;
use rand_chacha::ChaCha12Rng;

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub input_norm: Norm,
    pub attention: Attention,
    pub mlp_norm: Norm,
    pub mlp: Mlp,
}

impl Block {
    /// The linear layers in the order of [`super::lora::TARGETS`].
    pub fn linear(&self, place: usize) -> &Linear {
        let (a, m) = (&self.attention, &self.mlp);
        [&a.q, &a.k, &a.v, &a.o, &m.gate, &m.up, &m.down][place]
    }

    pub fn linear_mut(&mut self, place: usize) -> &mut Linear {
        let (a, m) = (&mut self.attention, &mut self.mlp);
        match place {
            0 => &mut a.q,
            1 => &mut a.k,
            2 => &mut a.v,
            3 => &mut a.o,
            4 => &mut m.gate,
            5 => &mut m.up,
            _ => &mut m.down,
        }
    }
}

/// Root mean square norm over the last axis.
#[derive(Clone, Debug)]
pub(crate) struct Norm {
    /// `[width]`
    pub weight: Tensor<1>,
    pub eps: f64,
}

impl Norm {
    /// # Shapes
    /// `[…, width]` → the same
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let scale = (x.clone().square().mean_dim(D - 1) + self.eps).sqrt().recip();
        x * scale * self.weight.clone().unsqueeze()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Attention {
    pub q: Linear,
    pub k: Linear,
    pub v: Linear,
    pub o: Linear,
    pub q_norm: Option<Norm>,
    pub k_norm: Option<Norm>,
    pub head_dim: usize,
}

impl Attention {
    /// Queries, keys and values, turned to their positions.
    ///
    /// # Shapes
    /// `[tokens, d_model]` → `[tokens, heads, head_dim]`, twice `[tokens, kv_heads, head_dim]`
    pub fn project(
        &self,
        x: Tensor<2>,
        queries: &Angles,
        keys: &Angles,
        mut rng: Option<&mut ChaCha12Rng>,
    ) -> (Tensor<3>, Tensor<3>, Tensor<3>) {
        let in_heads = |y: Tensor<2>| {
            let [tokens, width] = y.dims();
            y.reshape([tokens, width / self.head_dim, self.head_dim])
        };
        let normed = |norm: &Option<Norm>, y: Tensor<3>| match norm {
            Some(norm) => norm.forward(y),
            None => y,
        };
        let q = normed(&self.q_norm, in_heads(self.q.forward(x.clone(), rng.as_deref_mut())));
        let k = normed(&self.k_norm, in_heads(self.k.forward(x.clone(), rng.as_deref_mut())));
        let v = in_heads(self.v.forward(x, rng));
        (queries.turn(q), keys.turn(k), v)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Mlp {
    pub gate: Linear,
    pub up: Linear,
    pub down: Linear,
}

impl Mlp {
    /// # Shapes
    /// `[tokens, d_model]` → the same
    pub fn forward(&self, x: Tensor<2>, mut rng: Option<&mut ChaCha12Rng>) -> Tensor<2> {
        let gate = silu(self.gate.forward(x.clone(), rng.as_deref_mut()));
        let up = self.up.forward(x, rng.as_deref_mut());
        self.down.forward(gate * up, rng)
    }
}
