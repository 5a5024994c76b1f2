//! AdamW and the global norm (Loshchilov and Hutter 2019, arXiv:1711.05101), on plain numbers, so
//! that a checkpoint holds exactly what the next step starts from.

use super::config::TrainConfig;
use rayon::prelude::*;

/// Running means of the gradients and of their squares, for every factor of every adapter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AdamW {
    /// Updates made; skipped steps do not count.
    pub updates: u64,
    pub first: Vec<Vec<f32>>,
    pub second: Vec<Vec<f32>>,
}

impl AdamW {
    pub fn new(sizes: impl Iterator<Item = usize>) -> AdamW {
        let first: Vec<Vec<f32>> = sizes.map(|size| vec![0.0; size]).collect();
        AdamW { updates: 0, second: first.clone(), first }
    }

    /// One update, as PyTorch computes it; each number depends on its own past alone. Every second
    /// factor is a B, whose rate LoRA+ raises (Hayou et al. 2024, arXiv:2402.12354).
    pub fn update(&mut self, factors: &mut [Vec<f32>], gradients: &[Vec<f32>], rate: f64, config: &TrainConfig) {
        self.updates += 1;
        let TrainConfig { adam_beta1: beta1, adam_beta2: beta2, .. } = *config;
        let count = self.updates as f64;
        let paces = [rate, rate * config.loraplus_lr_ratio].map(|rate| {
            let kept = (1.0 - rate * config.weight_decay) as f32;
            (kept, (rate / (1.0 - beta1.powf(count))) as f32)
        });
        let spread = (1.0 - beta2.powf(count)).sqrt() as f32;
        let (b1, c1) = (beta1 as f32, (1.0 - beta1) as f32);
        let (b2, c2) = (beta2 as f32, (1.0 - beta2) as f32);
        let epsilon = config.adam_epsilon as f32;
        let moments = self.first.par_iter_mut().zip(self.second.par_iter_mut());
        factors.par_iter_mut().zip(gradients.par_iter()).zip(moments).enumerate().for_each(
            |(place, ((factor, gradient), (first, second)))| {
                let (kept, pace) = paces[place % 2];
                let numbers = factor.iter_mut().zip(gradient).zip(first.iter_mut().zip(second.iter_mut()));
                for ((x, g), (m, v)) in numbers {
                    *m = b1 * *m + c1 * g;
                    *v = b2 * *v + c2 * g * g;
                    *x = *x * kept - pace * *m / (v.sqrt() / spread + epsilon);
                }
            },
        );
    }
}

/// The L2 norm over all gradients; summed in order, in f64.
pub(super) fn norm(gradients: &[Vec<f32>]) -> f64 {
    let squares = |gradient: &Vec<f32>| gradient.iter().map(|g| f64::from(*g) * f64::from(*g)).sum::<f64>();
    let sums: Vec<f64> = gradients.par_iter().map(squares).collect();
    sums.iter().sum::<f64>().sqrt()
}

/// Multiplies every gradient.
pub(super) fn scale(gradients: &mut [Vec<f32>], factor: f64) {
    let factor = factor as f32;
    gradients.par_iter_mut().for_each(|gradient| gradient.iter_mut().for_each(|g| *g *= factor));
}

/// What gradients of this norm are multiplied with so that they are no longer than `most`; 0 is
/// no limit.
pub(super) fn clip(norm: f64, most: f64) -> f64 {
    // The millionth is PyTorch's.
    if most > 0.0 { (most / (norm + 1e-6)).min(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The algorithm as the paper writes it, one number, in f64.
    fn reference(mut x: f64, gradients: &[f64], rate: f64, decay: f64) -> f64 {
        let (mut m, mut v) = (0.0, 0.0);
        for (t, g) in gradients.iter().enumerate() {
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            let (m_hat, v_hat) = (m / (1.0 - 0.9f64.powi(t as i32 + 1)), v / (1.0 - 0.999f64.powi(t as i32 + 1)));
            x -= rate * (m_hat / (v_hat.sqrt() + 1e-8) + decay * x);
        }
        x
    }

    #[test]
    fn updates_are_those_of_the_paper() {
        // With LoRA+ the second factor, a B, moves at its own rate and decays at it too, as in the
        // groups of PEFT's create_loraplus_optimizer.
        for loraplus_lr_ratio in [1.0, 16.0] {
            let config = TrainConfig { weight_decay: 0.1, loraplus_lr_ratio, ..TrainConfig::default() };
            let gradients = [[0.5f32, -3.0], [-0.25, 1e-3], [2.0, 0.0], [0.1, 7.0]];
            let mut adam = AdamW::new([1, 1].into_iter());
            let mut factors = vec![vec![1.0f32], vec![-0.5]];
            for pair in gradients {
                adam.update(&mut factors, &[vec![pair[0]], vec![pair[1]]], 0.01, &config);
            }
            for (place, start, rate) in [(0, 1.0, 0.01), (1, -0.5, 0.01 * loraplus_lr_ratio)] {
                let column: Vec<f64> = gradients.iter().map(|pair| pair[place].into()).collect();
                let expected = reference(start, &column, rate, 0.1);
                // f32 keeps seven digits.
                assert!((f64::from(factors[place][0]) - expected).abs() < 1e-6, "{factors:?} {expected}");
                assert!((expected - start).abs() > 1e-3);
            }
        }
    }

    #[test]
    fn the_norm_is_one_over_all_factors_and_clipping_keeps_the_direction() {
        let mut gradients = vec![vec![3.0, 0.0], vec![4.0]];
        assert_eq!(norm(&gradients), 5.0);
        scale(&mut gradients, clip(5.0, 1.0));
        assert!((norm(&gradients) - 1.0).abs() < 1e-6);
        assert!((gradients[0][0] / gradients[1][0] - 0.75).abs() < 1e-6);
        assert_eq!((clip(5.0, 0.0), clip(0.5, 1.0), clip(0.0, 1.0)), (1.0, 1.0, 1.0));
        // Squares beyond f32 do not overflow.
        assert!(norm(&[vec![1e30]]).is_finite());
        assert!(!norm(&[vec![f32::NAN]]).is_finite());
    }
}
