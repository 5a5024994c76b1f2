//! A frozen linear layer with room for an adapter.

use super::lora::Adapter;
use burn::tensor::Tensor;
use rand_chacha::ChaCha12Rng;

/// `y = xW + b + s·(xA)B`; `W` and `b` are never tracked.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    /// `[in, out]` row by row, the transpose of what files hold: with few tokens the CPU's matrix
    /// product then reads it in place instead of packing it anew for every token.
    pub weight: Tensor<2>,
    /// `[1, out]`
    pub bias: Option<Tensor<2>>,
    pub adapter: Option<Adapter>,
}

impl Linear {
    /// # Shapes
    /// `[tokens, in]` → `[tokens, out]`
    pub fn forward(&self, x: Tensor<2>, rng: Option<&mut ChaCha12Rng>) -> Tensor<2> {
        let mut y = x.clone().matmul(self.weight.clone());
        if let Some(bias) = &self.bias {
            y = y + bias.clone();
        }
        match &self.adapter {
            Some(adapter) => y + adapter.forward(x, rng),
            None => y,
        }
    }

    /// The same layer with its update inside the weight.
    pub fn merged(&self) -> Linear {
        let weight = match &self.adapter {
            Some(adapter) => self.weight.clone() + adapter.dense(),
            None => self.weight.clone(),
        };
        Linear { weight, bias: self.bias.clone(), adapter: None }
    }
}
