//! A frozen linear layer with room for an adapter.

use super::lora::Adapter;
use burn::tensor::{DType, FloatDType, Tensor};
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
        let mut y = match self.weight.dtype() {
            // The product alone is in bf16; what goes on from it is f32 again.
            DType::BF16 => x.clone().cast(FloatDType::BF16).matmul(self.weight.clone()).cast(FloatDType::F32),
            _ => x.clone().matmul(self.weight.clone()),
        };
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
        let weight = match self.weight.dtype() {
            DType::BF16 => self.weight.clone().cast(FloatDType::F32),
            _ => self.weight.clone(),
        };
        let weight = match &self.adapter {
            Some(adapter) => weight + adapter.dense(),
            None => weight,
        };
        Linear { weight, bias: self.bias.clone(), adapter: None }
    }

    /// The same layer with its weight rounded to bf16; bias and adapter stay f32.
    pub fn in_bf16(&self) -> Linear {
        Linear { weight: self.weight.clone().cast(FloatDType::BF16), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::module::{Lora, Module, ModuleMapper, Param};
    use burn::nn::LinearConfig;
    use burn::tensor::{Device, TensorData};

    /// Fills every parameter with numbers of its own; fresh factors B are zero and biases small.
    struct Fill(f32);

    impl ModuleMapper for Fill {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            self.0 += 1.0;
            let start = self.0;
            param.map(|old| {
                let dims = old.dims();
                let count = dims.iter().product::<usize>();
                let numbers: Vec<f32> = (0..count).map(|i| ((i as f32 + 1.0) * 0.7 * start).sin() * 0.4).collect();
                let new = Tensor::from_data(TensorData::new(numbers, dims), &old.device());
                if old.is_require_grad() { new.require_grad() } else { new }
            })
        }
    }

    fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f32> {
        x.into_data().try_into_vec().unwrap()
    }

    /// The largest difference, relative to the largest number.
    fn apart(ours: &[f32], theirs: &[f32]) -> f32 {
        assert_eq!(ours.len(), theirs.len());
        let most = theirs.iter().fold(0f32, |most, x| most.max(x.abs()));
        assert!(most > 0.01, "nothing to compare");
        ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / most
    }

    #[test]
    fn the_narrow_form_equals_the_dense_form_of_burn_forward_and_backward() {
        let device = Device::flex().autodiff();
        // burn composes W + s·AB in every forward; here it is s·(xA)B beside xW.
        let dense = LinearConfig::new(24, 40).init(&device).apply_lora(Lora::new(4, 6.0)).map(&mut Fill(0.0));
        let adapter = dense.weight.adapter().expect("burn adapts every matrix");
        assert_eq!(adapter.scale, 1.5);
        let leaf = |factor: Tensor<2>| factor.inner().autodiff().require_grad();
        let (a, b) = (leaf(adapter.a.val()), leaf(adapter.b.val()));
        let bias = dense.bias.as_ref().expect("there is a bias by default").val().inner();
        let narrow = Linear {
            weight: dense.weight.base().inner(),
            bias: Some(bias.unsqueeze_dim(0)),
            adapter: Some(Adapter { a: a.clone(), b: b.clone(), alpha: 6.0, scale: 1.5, dropout: 0.0 }),
        };
        let input: Vec<f32> = (0..5 * 24).map(|i| (i as f32 * 0.37).cos()).collect();
        let leaf_input = || leaf(Tensor::from_data(TensorData::new(input.clone(), [5, 24]), &device));
        let (ours_x, theirs_x) = (leaf_input(), leaf_input());
        let ours = narrow.forward(ours_x.clone(), None);
        let theirs = dense.forward(theirs_x.clone());
        let mut worst = vec![("forward", apart(&numbers(ours.clone()), &numbers(theirs.clone())))];
        let plain = apart(
            &numbers(Linear { adapter: None, ..narrow.clone() }.forward(ours_x.clone(), None)),
            &numbers(theirs.clone()),
        );
        assert!(plain > 0.1, "the adapter changes next to nothing: {plain}");
        let merged = narrow.merged().forward(ours_x.clone(), None);
        worst.push(("merged", apart(&numbers(merged), &numbers(theirs.clone()))));

        // A loss whose slope differs from place to place.
        let (our_slopes, their_slopes) =
            ((ours.clone() * ours.sin()).sum().backward(), (theirs.clone() * theirs.sin()).sum().backward());
        for (name, ours, theirs) in [
            ("A", a.grad(&our_slopes), adapter.a.val().grad(&their_slopes)),
            ("B", b.grad(&our_slopes), adapter.b.val().grad(&their_slopes)),
            ("x", ours_x.grad(&our_slopes), theirs_x.grad(&their_slopes)),
        ] {
            let found = |gradient: Option<Tensor<2>>, whose: &str| {
                numbers(gradient.unwrap_or_else(|| panic!("{whose} {name} has no gradient")))
            };
            worst.push((name, apart(&found(ours, "our"), &found(theirs, "burn's"))));
        }
        println!("{worst:?}");
        // Sums of 40 products in another order: some 1e-7.
        assert!(worst.iter().all(|(_, apart)| *apart <= 1e-5), "{worst:?}");
    }
}
