//! The fused block against the composed one, on models of every kind of block.

use super::*;
use crate::student::{LoraConfig, Model, Row, Weights};
use burn::tensor::{Device, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use std::path::Path;

/// A golden model with adapters whose B is not zero; larger ones make the scores so steep that f32
/// itself is the limit.
fn model(name: &str) -> Model {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let model = Model::load(Weights::open(&dir).unwrap(), &Device::flex()).unwrap().0;
    let model = model.adapted(&LoraConfig { r: 3, ..LoraConfig::default() }, 7).unwrap();
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    let mut draw = |x: Tensor<2>| {
        let dims = x.dims();
        let drawn: Vec<f32> = (0..dims[0] * dims[1]).map(|_| (rng.random::<f32>() - 0.5) / 5.0).collect();
        Tensor::from_data(burn::tensor::TensorData::new(drawn, dims), &Device::flex())
    };
    let factors = model.adapters().into_iter().map(|(_, x)| draw(x)).collect();
    model.with_adapters(factors).unwrap()
}

fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    x.into_data().try_into_vec().unwrap()
}

/// The largest difference in units of the largest expected number.
fn relative(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
    let apart = found.iter().zip(expected).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(largest > 0.0, "nothing to compare");
    apart / largest
}

const PREFIX: [u32; 5] = [3, 17, 40, 5, 61];
const ROWS: [&[u32]; 4] = [&[8, 22, 22, 50, 1], &[33], &[12, 9, 44], &[2, 60, 31, 7, 19, 55, 4]];

#[test]
fn hidden_states_equal_those_of_composed_operations() {
    for name in ["llama", "llama-tied", "qwen2", "qwen3"] {
        let model = model(name);
        for prefix in [&PREFIX[..], &[]] {
            let (fused, starts) = model.rows(prefix, &ROWS, None).unwrap();
            let fused = numbers(fused);
            let width = model.config().d_model;
            for (row, start) in ROWS.iter().zip(starts) {
                let alone = numbers(model.states(&[prefix, row].concat()));
                let apart =
                    relative(&fused[start * width..(start + row.len()) * width], &alone[prefix.len() * width..]);
                assert!(apart < 1e-5, "{name}: {apart}");
            }
        }
    }
}

/// Loss and gradients of the factors through whatever path the rows take.
fn learned(model: &Model, prefix: &[u32], rows: &[Row], composed: bool) -> (f32, Vec<Vec<f32>>) {
    let model = model.tracked();
    // A generator and a dropout so small that nothing is ever dropped takes the composed path.
    let mut rng = ChaCha12Rng::seed_from_u64(9);
    let loss = model.loss_sum(prefix, rows, composed.then_some(&mut rng)).unwrap();
    let grads = loss.backward();
    let slopes = model
        .adapters()
        .into_iter()
        .map(|(name, x)| numbers(x.grad(&grads).unwrap_or_else(|| panic!("{name} has no gradient"))));
    (numbers(loss)[0], slopes.collect())
}

#[test]
fn loss_and_gradients_equal_those_of_composed_operations_and_those_without_a_shared_prefix() {
    let mut worst = 0f32;
    for name in ["llama", "llama-tied", "qwen2", "qwen3"] {
        let model = model(name);
        let mut composed = model.clone();
        if let Some(lora) = &mut composed.lora {
            lora.dropout = f64::MIN_POSITIVE;
        }
        let whole: Vec<Vec<u32>> = ROWS.iter().map(|row| [&PREFIX[..], row].concat()).collect();
        for prefix in [PREFIX.len(), 0] {
            let rows: Vec<Row> = whole
                .iter()
                .enumerate()
                .map(|(number, ids)| Row {
                    ids: &ids[prefix..],
                    supervised: PREFIX.len() - prefix..ids.len() - prefix,
                    weight: 1.0 + number as f32 / 4.0,
                    unlearned: vec![],
                })
                .collect();
            let fused = learned(&model, &PREFIX[..prefix], &rows, false);
            let plain = learned(&composed, &PREFIX[..prefix], &rows, true);
            assert!((fused.0 / plain.0 - 1.0).abs() < 1e-5, "{name}: {} {}", fused.0, plain.0);
            let again = learned(&model.clone().recomputing(true), &PREFIX[..prefix], &rows, false);
            assert_eq!(fused, again, "{name}: computing activations again changes no bit");
            for ((found, expected), (factor, _)) in fused.1.iter().zip(&plain.1).zip(model.adapters()) {
                let apart = relative(found, expected);
                assert!(apart < 2e-5, "{name} {factor} prefix {prefix}: {apart}");
                worst = worst.max(apart);
            }
        }
    }
    println!("largest relative difference of a gradient: {worst:e}");
}

#[test]
fn layers_without_an_adapter_get_no_gradient_and_change_no_other() {
    let full = model("qwen2");
    let mut part = full.clone();
    for block in &mut part.blocks {
        for place in [1, 3, 6] {
            block.linear_mut(place).adapter = None;
        }
    }
    let rows = [Row { ids: ROWS[3], supervised: 2..7, weight: 1.0, unlearned: vec![] }];
    let mut composed = part.clone();
    if let Some(lora) = &mut composed.lora {
        lora.dropout = f64::MIN_POSITIVE;
    }
    let (fused, plain) = (learned(&part, &PREFIX, &rows, false), learned(&composed, &PREFIX, &rows, true));
    assert_eq!(fused.1.len(), 2 * 4 * part.blocks.len());
    for (found, expected) in fused.1.iter().zip(&plain.1) {
        assert!(relative(found, expected) < 2e-5);
    }
}

#[test]
fn a_layout_knows_its_tokens() {
    let layout = Layout { shared: 3, rows: vec![2, 0, 4] };
    assert_eq!((layout.tokens(), layout.starts()), (9, vec![3, 5, 5]));
    assert_eq!(layout.positions(), [0, 1, 2, 3, 4, 3, 4, 5, 6]);
    let lengths: Vec<[usize; 3]> = layout.segments().iter().map(|s| [s.start, s.length, s.behind]).collect();
    assert_eq!(lengths, [[0, 3, 0], [3, 2, 3], [5, 4, 3]]);
}

#[test]
fn products_in_bf16_stay_near_f32_in_scores_loss_and_gradients() {
    for name in ["llama", "llama-tied", "qwen2", "qwen3"] {
        let model = model(name);
        let rounded = model.clone().in_bf16();
        assert!(runs(&model) && !runs(&rounded));
        let scores = |model: &Model| numbers(model.logits(&PREFIX));
        let apart = relative(&scores(&rounded), &scores(&model));
        // bf16 keeps 8 bits: one rounding is 2^-9 of a number, and there are two blocks of seven.
        assert!(apart > 1e-5 && apart < 3e-2, "{name}: {apart}");
        let rows = [Row { ids: ROWS[3], supervised: 2..7, weight: 1.0, unlearned: vec![] }];
        let (in_f32, in_bf16) = (learned(&model, &PREFIX, &rows, false), learned(&rounded, &PREFIX, &rows, false));
        let loss = (in_bf16.0 / in_f32.0 - 1.0).abs();
        assert!(loss < 2e-2, "{name}: {loss}");
        let worst = in_bf16.1.iter().zip(&in_f32.1).map(|(a, b)| relative(a, b)).fold(0.0, f32::max);
        assert!(worst < 0.2, "{name}: {worst}");
        println!("{name}: bf16 against f32: scores {apart:.1e}, loss {loss:.1e}, gradients {worst:.1e}");
        assert_eq!(rounded.merged().blocks[0].linear(0).weight.dtype(), burn::tensor::DType::F32);
    }
}
