//! Low-rank adapters: `y = xW + s·(xA)B` with `W` frozen. Hu et al. 2021, arXiv:2106.09685;
//! rank-stabilised scale: Kalajdzievski 2023, arXiv:2312.03732.

use super::error::{Result, StudentError};
use super::model::linear_name;
use burn::tensor::{Device, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;

pub use crate::config::TARGETS;

/// What to adapt, and how strongly.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraConfig {
    /// Columns of A. Adapter size and time grow linearly. Default 16.
    pub r: usize,
    /// Strength; the update is scaled by `alpha / r`. Default 32.
    pub alpha: f64,
    /// Scale by `alpha / sqrt(r)` instead. Default false.
    pub rslora: bool,
    /// Share of the inputs of A that is zeroed while training. Default 0.
    pub dropout: f64,
    /// Layers to adapt, by name or by the end of it from a dot on, as PEFT reads a list of
    /// `target_modules`: `q_proj`, `mlp.up_proj`, `layers.0.self_attn.q_proj`. The last part is one
    /// of [`TARGETS`]. Default all seven.
    pub targets: Vec<String>,
}

impl Default for LoraConfig {
    fn default() -> LoraConfig {
        let targets = TARGETS.map(str::to_owned).to_vec();
        LoraConfig { r: 16, alpha: 32.0, rslora: false, dropout: 0.0, targets }
    }
}

impl LoraConfig {
    /// The factor on `(xA)B`.
    pub fn scale(&self) -> f64 {
        self.alpha / if self.rslora { (self.r as f64).sqrt() } else { self.r as f64 }
    }

    /// Refuses what cannot be built.
    pub fn check(&self) -> Result<()> {
        let fail = |cause: String| Err(StudentError::Adapter(cause));
        if !(1..=4096).contains(&self.r) {
            return fail(format!("r is {}; expected 1 to 4096", self.r));
        }
        if !self.alpha.is_finite() || self.alpha <= 0.0 {
            return fail(format!("alpha is {}; expected a number above 0", self.alpha));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return fail(format!("dropout is {}; expected 0 up to, not including, 1", self.dropout));
        }
        if self.targets.is_empty() {
            return fail("no target modules; expected some of q_proj … down_proj".into());
        }
        match self.targets.iter().find(|name| !TARGETS.contains(&last_part(name))) {
            Some(name) => fail(format!("target module \"{name}\" is unknown; expected some of {}", TARGETS.join(", "))),
            None => Ok(()),
        }
    }

    /// [`check`](LoraConfig::check), and every target is a layer of a model with so many blocks.
    pub(crate) fn check_for(&self, layers: usize) -> Result<()> {
        self.check()?;
        let there = |target: &&String| {
            (0..layers).any(|layer| (0..TARGETS.len()).any(|place| names(target, &linear_name(layer, place))))
        };
        match self.targets.iter().find(|target| !there(target)) {
            Some(target) => Err(StudentError::Adapter(format!(
                "target module \"{target}\" matches no layer of this model; it has {} in {layers} blocks, \
                 \"{}\" to \"{}\"",
                TARGETS.join(", "),
                linear_name(0, 0),
                linear_name(layers.saturating_sub(1), TARGETS.len() - 1),
            ))),
            None => Ok(()),
        }
    }

    /// Whether the layer of this full name is adapted.
    pub(crate) fn adapts(&self, name: &str) -> bool {
        self.targets.iter().any(|target| names(target, name))
    }
}

/// Whether a target names this module: all of it, or its end from a dot on.
pub(crate) fn names(target: &str, module: &str) -> bool {
    module.strip_suffix(target).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// `q_proj` of `model.layers.0.self_attn.q_proj`.
pub(crate) fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The two factors of one adapted layer, in training orientation.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    /// `[in, rank]`
    pub a: Tensor<2>,
    /// `[rank, out]`
    pub b: Tensor<2>,
    /// Strength, of which `scale` is made.
    pub alpha: f64,
    pub scale: f64,
    pub dropout: f64,
}

impl Adapter {
    /// A uniform in ±1/sqrt(in) (PEFT's Kaiming uniform with a = √5), B zero: the first forward
    /// is that of the base model. The numbers depend on seed and ordinal alone.
    pub fn new(config: &LoraConfig, dims: [usize; 2], seed: u64, ordinal: u64, device: &Device) -> Adapter {
        let [inputs, outputs] = dims;
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        rng.set_stream(ordinal);
        let bound = 1.0 / (inputs as f32).sqrt();
        // Drawn in PEFT's [rank, in] order.
        let drawn: Vec<f32> = (0..config.r * inputs).map(|_| (rng.random::<f32>() * 2.0 - 1.0) * bound).collect();
        let a: Tensor<2> = Tensor::from_data(TensorData::new(drawn, [config.r, inputs]), device);
        // A copy, not a view: the optimiser and every forward walk it row by row.
        let a = materialised(a.transpose(), device);
        let b = Tensor::zeros([config.r, outputs], device);
        Adapter { a, b, alpha: config.alpha, scale: config.scale(), dropout: config.dropout }
    }

    /// `s·(xA)B`, with dropout on `x` where a generator is given.
    ///
    /// # Shapes
    /// `[tokens, in]` → `[tokens, out]`
    pub fn forward(&self, x: Tensor<2>, rng: Option<&mut ChaCha12Rng>) -> Tensor<2> {
        let x = match rng {
            Some(rng) if self.dropout > 0.0 => x.clone() * dropout_mask(x.dims(), self.dropout, rng, &x.device()),
            _ => x,
        };
        // The scale goes on the narrow product.
        (x.matmul(self.a.clone()) * self.scale).matmul(self.b.clone())
    }

    /// `s·AB`, the dense update, rounded in the order of PEFT's merge.
    ///
    /// # Shapes
    /// → `[in, out]`
    pub fn dense(&self) -> Tensor<2> {
        self.a.clone().inner().matmul(self.b.clone().inner()) * self.scale
    }
}

fn dropout_mask(dims: [usize; 2], share: f64, rng: &mut ChaCha12Rng, device: &Device) -> Tensor<2> {
    let kept = (1.0 / (1.0 - share)) as f32;
    let mask = (0..dims[0] * dims[1]).map(|_| if rng.random::<f64>() < share { 0.0 } else { kept });
    Tensor::from_data(TensorData::new(mask.collect::<Vec<f32>>(), dims), &device.clone().inner())
}

/// The same numbers, row by row in memory.
pub(crate) fn materialised(x: Tensor<2>, device: &Device) -> Tensor<2> {
    Tensor::from_data(x.into_data(), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(x: Tensor<2>) -> Vec<f32> {
        x.into_data().try_into_vec().unwrap()
    }

    #[test]
    fn fresh_adapters_are_uniform_within_the_bound_of_peft_and_change_nothing_yet() {
        let config = LoraConfig { r: 8, ..LoraConfig::default() };
        let adapter = Adapter::new(&config, [400, 30], 5, 2, &Device::flex());
        let a = numbers(adapter.a.clone());
        let bound = 1.0 / 20.0;
        assert!(a.iter().all(|x| x.abs() <= bound));
        let mean = a.iter().sum::<f32>() / a.len() as f32;
        let variance = a.iter().map(|x| x * x).sum::<f32>() / a.len() as f32;
        // 3200 draws: the standard error of the mean is 0.0005, of the variance 1.3e-5.
        assert!(mean.abs() < 0.002 && (variance - bound * bound / 3.0).abs() < 5e-5, "{mean} {variance}");
        assert!(numbers(adapter.b.clone()).iter().all(|x| *x == 0.0));
        assert_eq!((adapter.a.dims(), adapter.b.dims()), ([400, 8], [8, 30]));
    }

    #[test]
    fn the_same_seed_gives_the_same_bits_and_layers_differ() {
        let draw =
            |seed, ordinal| numbers(Adapter::new(&LoraConfig::default(), [12, 4], seed, ordinal, &Device::flex()).a);
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
        // ChaCha12, seed 1, stream 0: fixed once, so that a change of generator is noticed.
        let bits: Vec<u32> = draw(1, 0)[..2].iter().map(|x| x.to_bits()).collect();
        assert_eq!(bits, BITS);
    }

    const BITS: [u32; 2] = [1044389177, 1043114958];

    #[test]
    fn dropout_keeps_the_expected_input() {
        let mut rng = ChaCha12Rng::seed_from_u64(3);
        let mask = numbers(dropout_mask([100, 100], 0.25, &mut rng, &Device::flex()));
        let kept = mask.iter().filter(|x| **x > 0.0).count();
        // 10 000 draws of 0.75: standard deviation 43.
        assert!((7300..7700).contains(&kept), "{kept}");
        assert!(mask.iter().all(|x| *x == 0.0 || *x == (1.0 / 0.75) as f32));
    }

    #[test]
    fn the_update_is_scaled_by_alpha_over_r_or_over_its_root() {
        // Case C34: in 3, out 2, r 4, alpha 8, A all 0.5, B all 1, x = (1, 2, 3): xA = 3, (xA)B = 12.
        for (rslora, expected) in [(false, 24.0), (true, 48.0)] {
            let config = LoraConfig { r: 4, alpha: 8.0, rslora, ..LoraConfig::default() };
            let device = Device::flex();
            let filled = |value: f32, dims: [usize; 2]| {
                Tensor::<2>::from_data(TensorData::new(vec![value; dims[0] * dims[1]], dims), &device)
            };
            let (a, b) = (filled(0.5, [3, 4]), filled(1.0, [4, 2]));
            let adapter = Adapter { a, b, alpha: 8.0, scale: config.scale(), dropout: 0.0 };
            let x: Tensor<2> = Tensor::from_data(TensorData::new(vec![1f32, 2.0, 3.0], [1, 3]), &device);
            assert_eq!(numbers(adapter.forward(x, None)), [expected; 2]);
            assert_eq!(numbers(adapter.dense()), [expected / 6.0; 6], "merged and live agree");
        }
    }

    #[test]
    fn impossible_adapters_are_refused() {
        let base = LoraConfig::default();
        assert_eq!((base.scale(), LoraConfig { rslora: true, ..base.clone() }.scale()), (2.0, 8.0));
        for (config, says) in [
            (LoraConfig { r: 0, ..base.clone() }, "r is 0"),
            (LoraConfig { alpha: f64::NAN, ..base.clone() }, "alpha"),
            (LoraConfig { dropout: 1.0, ..base.clone() }, "dropout"),
            (LoraConfig { targets: vec![], ..base.clone() }, "no target"),
            (LoraConfig { targets: vec!["lm_head".into()], ..base.clone() }, "\"lm_head\""),
            (LoraConfig { targets: vec!["q_proj".into(), "up".into()], ..base.clone() }, "\"up\" is unknown"),
        ] {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn targets_are_names_or_their_ends_and_each_must_be_there() {
        let config = |targets: &[&str]| LoraConfig {
            targets: targets.iter().map(|name| name.to_string()).collect(),
            ..LoraConfig::default()
        };
        let some = config(&["q_proj", "layers.1.mlp.up_proj"]);
        some.check_for(2).unwrap();
        let adapted: Vec<String> = (0..2)
            .flat_map(|layer| (0..7).map(move |place| linear_name(layer, place)))
            .filter(|name| some.adapts(name))
            .collect();
        let expected = ["0.self_attn.q_proj", "1.self_attn.q_proj", "1.mlp.up_proj"];
        assert_eq!(adapted, expected.map(|name| format!("model.layers.{name}")));
        for none in ["layers.2.mlp.up_proj", "ayers.1.mlp.up_proj", "mlp.q_proj"] {
            let error = config(&["q_proj", none]).check_for(2).unwrap_err().to_string();
            let said = [none, "q_proj, k_proj", "2 blocks", "\"model.layers.1.mlp.down_proj\""];
            assert!(said.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
