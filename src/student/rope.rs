//! Rotary position embedding in the half-split form of Hugging Face checkpoints: number `i` of a
//! head turns with number `i + head_dim / 2`. Su et al. 2021, arXiv:2104.09864.

use super::config::ModelConfig;
use super::fused::Turns;
use super::replica::moved;
use burn::tensor::{Device, Tensor, TensorData};

/// The frequencies of a model, one for two numbers of a head.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    frequencies: Vec<f32>,
    /// On cosines and sines; 1 but for YaRN.
    magnitude: f32,
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
        let (frequencies, magnitude) = config.rope_scaling.frequencies(config.rope_theta, config.head_dim);
        Rope { frequencies, magnitude, swap }
    }

    /// The same on another device.
    pub fn on(&self, device: &Device) -> Rope {
        Rope { swap: moved(&self.swap, device), ..self.clone() }
    }

    /// Cosines and sines at these positions, for one half of a head.
    pub fn turns(&self, positions: &[usize]) -> Turns {
        let half = self.frequencies.len();
        let angles = positions.iter().flat_map(|at| self.frequencies.iter().map(|f| *at as f32 * f));
        let (cos, sin) = angles.map(|angle| (self.magnitude * angle.cos(), self.magnitude * angle.sin())).unzip();
        Turns { cos, sin, half }
    }

    /// The angles of tokens at these positions.
    ///
    /// # Shapes
    /// positions `[tokens]`
    pub fn angles(&self, positions: &[usize], device: &Device) -> Angles {
        let width = 2 * self.frequencies.len();
        let Turns { cos, sin, half } = self.turns(positions);
        let twice = |numbers: Vec<f32>| numbers.chunks(half).flat_map(|row| [row, row].concat()).collect::<Vec<f32>>();
        let (cos, sin) = (twice(cos), twice(sin));
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::path::Path;

    fn of(change: &[(&str, Value)]) -> Vec<f32> {
        let mut config = json!({"model_type": "llama", "vocab_size": 8, "hidden_size": 64, "num_hidden_layers": 1,
            "num_attention_heads": 1, "intermediate_size": 8, "head_dim": 64, "rms_norm_eps": 1e-5});
        for (key, value) in change {
            config[*key] = value.clone();
        }
        let config = ModelConfig::from_json(&config.to_string(), Path::new("config.json")).unwrap();
        config.rope_scaling.frequencies(config.rope_theta, config.head_dim).0
    }

    #[test]
    fn base_and_stretching_are_read_in_the_old_and_the_new_spelling() {
        // Case C31: theta^(-2i/64) and the ramp of Llama 3 (factor 32, 1 to 4, 8192), by hand.
        let scaling = json!({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192});
        let mut nested = scaling.clone();
        nested["rope_theta"] = 500_000.0.into();
        let plain = of(&[("rope_theta", 500_000.0.into()), ("rope_scaling", Value::Null)]);
        let old = of(&[("rope_theta", 500_000.0.into()), ("rope_scaling", scaling)]);
        let new = of(&[("rope_parameters", nested)]);
        let near = |found: f32, expected: f32| assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected}");
        near(plain[18], 6.228e-4);
        near(old[18], 1.946e-5);
        near(old[16], 4.296e-4);
        assert_eq!(old, new);
        near(of(&[])[18], 5.623e-3);
    }
}
