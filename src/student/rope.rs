//! Rotary position embedding in the half-split form of Hugging Face checkpoints: number `i` of a
//! head turns with number `i + head_dim / 2`. Su et al. 2021, arXiv:2104.09864.

use super::config::{ModelConfig, RopeScaling};
use burn::tensor::{Device, Tensor, TensorData};

/// The frequencies of a model, one for two numbers of a head.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    frequencies: Vec<f32>,
    /// `x · swap` puts minus the second half before the first half: a product instead of two
    /// slices and a join, which cost four passes under autodiff.
    swap: Tensor<2>,
}

/// Cosines and sines for some tokens.
#[derive(Clone, Debug)]
pub(crate) struct Angles {
    /// `[tokens, 1, head_dim]`
    cos: Tensor<3>,
    /// `[tokens, 1, head_dim]`
    sin: Tensor<3>,
    swap: Tensor<2>,
}

impl Rope {
    pub fn new(config: &ModelConfig, device: &Device) -> Rope {
        let half = config.head_dim / 2;
        let mut swap = vec![0f32; config.head_dim * config.head_dim];
        for i in 0..half {
            swap[(i + half) * config.head_dim + i] = -1.0;
            swap[i * config.head_dim + i + half] = 1.0;
        }
        let swap = Tensor::from_data(TensorData::new(swap, [config.head_dim, config.head_dim]), device);
        Rope { frequencies: frequencies(config), swap }
    }

    /// The angles of tokens at these positions.
    ///
    /// # Shapes
    /// positions `[tokens]`
    pub fn angles(&self, positions: &[usize], device: &Device) -> Angles {
        let width = 2 * self.frequencies.len();
        let mut cos = Vec::with_capacity(positions.len() * width);
        let mut sin = Vec::with_capacity(positions.len() * width);
        for position in positions {
            let angles = self.frequencies.iter().map(|f| *position as f32 * f);
            let (c, s): (Vec<f32>, Vec<f32>) = angles.map(|a| (a.cos(), a.sin())).unzip();
            for _half in 0..2 {
                cos.extend_from_slice(&c);
                sin.extend_from_slice(&s);
            }
        }
        let shape = [positions.len(), 1, width];
        Angles {
            cos: Tensor::from_data(TensorData::new(cos, shape), device),
            sin: Tensor::from_data(TensorData::new(sin, shape), device),
            swap: self.swap.clone(),
        }
    }
}

impl Angles {
    /// The same turn followed by a product with `factor`, at no cost.
    pub fn scaled(&self, factor: f64) -> Angles {
        let (cos, sin) = (self.cos.clone() * factor, self.sin.clone() * factor);
        Angles { cos, sin, swap: self.swap.clone() }
    }

    /// Turns every head by its token's angles.
    ///
    /// # Shapes
    /// `[tokens, heads, head_dim]` → the same
    pub fn turn(&self, x: Tensor<3>) -> Tensor<3> {
        let [tokens, heads, head_dim] = x.dims();
        let swapped = x.clone().reshape([tokens * heads, head_dim]).matmul(self.swap.clone());
        x * self.cos.clone() + swapped.reshape([tokens, heads, head_dim]) * self.sin.clone()
    }
}

/// In f32 throughout, as PyTorch computes them.
fn frequencies(config: &ModelConfig) -> Vec<f32> {
    let half = config.head_dim / 2;
    let theta = config.rope_theta as f32;
    let plain = (0..half).map(|i| 1.0 / theta.powf((2 * i) as f32 / config.head_dim as f32));
    match &config.rope_scaling {
        RopeScaling::None => plain.collect(),
        RopeScaling::Linear(factor) => plain.map(|f| f / *factor as f32).collect(),
        RopeScaling::Factors(factors) => plain.zip(factors).map(|(f, factor)| f / factor).collect(),
        RopeScaling::Llama3 { factor, low, high, original } => plain
            .map(|f| {
                let wavelength = std::f64::consts::TAU / f as f64;
                let kept = ((original / wavelength - low) / (high - low)).clamp(0.0, 1.0);
                ((1.0 - kept) * f as f64 / factor + kept * f as f64) as f32
            })
            .collect(),
    }
}
