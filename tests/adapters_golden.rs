//! Adapters against PEFT, family by family: scores, losses, gradients, merged weights. Numbers from
//! `scripts/golden/gradients.py` and `scripts/golden/adapters.py`.

use burn::tensor::{Device, Tensor};
use rand::SeedableRng;
use safetensors::SafeTensors;
use serde_json::Value;
use std::ops::Range;
use std::path::{Path, PathBuf};
use understudy::student::{LoraConfig, Model, Row, Weights, share};

const FAMILIES: [&str; 3] = ["llama", "qwen2", "qwen3"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/adapters").join(name)
}

fn load(family: &str) -> Model {
    let (model, unused) = Model::load(Weights::open(&golden(family)).unwrap(), &Device::flex()).unwrap();
    assert!(unused.is_empty(), "{unused:?}");
    let config = model.config();
    assert!(config.heads > config.kv_heads && config.head_dim != config.d_model / config.heads, "{config:?}");
    model
}

fn adapted(family: &str, adapter: &str) -> Model {
    let (model, ignored) = load(family).with_peft(&golden(family).join(adapter)).unwrap();
    assert!(ignored.is_empty(), "{ignored:?}");
    model
}

struct Numbers(Vec<u8>);

impl Numbers {
    fn of(name: &str) -> Numbers {
        Numbers(std::fs::read(golden(name)).unwrap())
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let bytes = file.tensor(name).unwrap().data().to_vec();
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }
}

fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    x.into_data().try_into_vec().unwrap()
}

fn worst(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The largest difference, relative to the largest number of PEFT's.
fn relative(ours: &[f32], theirs: &[f32]) -> f32 {
    worst(ours, theirs) / theirs.iter().fold(f32::MIN_POSITIVE, |most, x| most.max(x.abs()))
}

/// The rows of `gradients.py` with the ranges that are learned.
fn rows() -> Vec<(Vec<u32>, Range<usize>)> {
    let rows: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(golden("rows.json")).unwrap()).unwrap();
    let row = |row: &Value| {
        let ids: Vec<u32> = serde_json::from_value(row["ids"].clone()).unwrap();
        let supervised: (usize, usize) = serde_json::from_value(row["supervised"].clone()).unwrap();
        (ids, supervised.0..supervised.1)
    };
    rows.iter().map(row).collect()
}

/// The same adapter with a dropout that never drops anything: training then takes the path that is
/// composed of single operations.
fn composed(family: &str, adapter: &str) -> Model {
    let (from, dir) = (golden(family).join(adapter), tempfile::tempdir().unwrap());
    let text = std::fs::read_to_string(from.join("adapter_config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["lora_dropout"] = 1e-300.into();
    std::fs::write(dir.path().join("adapter_config.json"), config.to_string()).unwrap();
    let weights = "adapter_model.safetensors";
    std::fs::copy(from.join(weights), dir.path().join(weights)).unwrap();
    load(family).with_peft(dir.path()).unwrap().0
}

/// Summed loss, and each factor's gradient by name in PEFT's orientation.
fn losses_and_gradients(model: &Model, prefix: &[u32], rows: &[Row]) -> (f32, Vec<(String, Vec<f32>)>) {
    let tracked = model.tracked();
    let mut rng = rand_chacha::ChaCha12Rng::seed_from_u64(1);
    let loss = tracked.loss_sum(prefix, rows, Some(&mut rng)).unwrap();
    let slopes = loss.backward();
    let gradient = |(name, factor): (String, Tensor<2>)| {
        let gradient = factor.grad(&slopes).unwrap_or_else(|| panic!("{name} has no gradient"));
        (name, numbers(gradient.transpose()))
    };
    (numbers(loss)[0], tracked.adapters().into_iter().map(gradient).collect())
}

#[test]
fn every_factors_gradient_is_that_of_peft_with_and_without_a_shared_prefix() {
    let examples = rows();
    let lengths: Vec<usize> = examples.iter().map(|(ids, _)| ids.len()).collect();
    assert!(lengths.len() >= 2 && lengths.iter().any(|length| *length != lengths[0]));
    let borrowed: Vec<_> = examples.iter().map(|(ids, range)| (&ids[..], range.clone())).collect();
    let plain: Vec<Row> = borrowed
        .iter()
        .map(|(ids, range)| Row { ids, supervised: range.clone(), weight: 1.0, unlearned: vec![] })
        .collect();
    let (prefix, shared) = share(&borrowed);
    assert_eq!(prefix, [1, 67, 90, 205], "the last token before a learned one stays in its row");
    for family in FAMILIES {
        let golden = Numbers::of(&format!("{family}/gradients.safetensors"));
        let (fused, composed) = (adapted(family, "adapter"), composed(family, "adapter"));
        for (form, model, prefix, rows) in [
            ("fused, no prefix", &fused, &[][..], &plain),
            ("fused, shared prefix", &fused, prefix, &shared),
            ("composed, no prefix", &composed, &[][..], &plain),
            ("composed, shared prefix", &composed, prefix, &shared),
        ] {
            let (loss, gradients) = losses_and_gradients(model, prefix, rows);
            let theirs = golden.floats("loss")[0];
            let of_loss = (loss - theirs).abs() / theirs;
            assert_eq!(gradients.len(), 2 * 2 * 7);
            let mut of_gradients = (0f32, String::new());
            for (name, ours) in gradients {
                let theirs = golden.floats(&format!("grad.{name}"));
                assert!(theirs.iter().any(|x| x.abs() > 1e-3), "{name} has no gradient to compare");
                let apart = relative(&ours, &theirs);
                // f32: sums of some 40 products in another order, through two blocks.
                assert!(apart <= 1e-4, "{family}, {form}, {name}: {apart}");
                if apart > of_gradients.0 {
                    of_gradients = (apart, name);
                }
            }
            println!("{family}, {form}: loss {of_loss:e}, gradients {:e} ({})", of_gradients.0, of_gradients.1);
            assert!(of_loss <= 1e-5, "{family}, {form}: {loss} {theirs}");
        }
    }
}

#[test]
fn gradients_of_layers_with_ranks_of_their_own_are_the_same_on_both_paths() {
    let examples = rows();
    let borrowed: Vec<_> = examples.iter().map(|(ids, range)| (&ids[..], range.clone())).collect();
    let (prefix, shared) = share(&borrowed);
    for family in FAMILIES {
        let fused = losses_and_gradients(&adapted(family, "patterns"), prefix, &shared);
        let composed = losses_and_gradients(&composed(family, "patterns"), prefix, &shared);
        assert!((fused.0 - composed.0).abs() <= 1e-5 * composed.0, "{family}: {} {}", fused.0, composed.0);
        assert!(fused.1.len() >= 6 && fused.1.len() == composed.1.len());
        for ((name, ours), (_, theirs)) in fused.1.iter().zip(&composed.1) {
            let apart = relative(ours, theirs);
            assert!(apart <= 1e-4 && theirs.iter().any(|x| x.abs() > 1e-3), "{family}, {name}: {apart}");
        }
    }
}

#[test]
fn scores_with_a_peft_adapter_are_those_of_peft_live_and_merged() {
    for family in FAMILIES {
        let examples = rows();
        let (plain, with) = (load(family), adapted(family, "adapter"));
        let all =
            |model: &Model| -> Vec<f32> { examples.iter().flat_map(|(ids, _)| numbers(model.logits(ids))).collect() };
        let theirs = Numbers::of(&format!("{family}/gradients.safetensors")).floats("logits");
        let (live, merged) = (worst(&all(&with), &theirs), worst(&all(&with.merged()), &theirs));
        assert!(worst(&all(&plain), &theirs) > 0.5, "the adapter changes next to nothing");
        println!("{family}, adapter: live {live:e}, merged {merged:e}");
        assert!(live <= 1e-4 && merged <= 1e-4, "{family}: {live} {merged}");

        // Patterns of rank and alpha, stabilised scale, excluded modules, layers.
        let (golden, with) = (Numbers::of(&format!("{family}/patterns.safetensors")), adapted(family, "patterns"));
        let ids = &examples[1].0;
        let live = worst(&numbers(with.logits(ids)), &golden.floats("live"));
        let merged = worst(&numbers(with.merged().logits(ids)), &golden.floats("merged"));
        assert!(worst(&numbers(plain.logits(ids)), &golden.floats("live")) > 0.1);
        println!("{family}, patterns: live {live:e}, merged {merged:e}");
        assert!(live <= 1e-4 && merged <= 1e-4, "{family}: {live} {merged}");
    }
}

#[test]
fn a_fresh_adapter_has_the_layers_that_were_asked_for_and_changes_nothing_yet() {
    let some = |targets: &[&str]| LoraConfig {
        r: 3,
        targets: targets.iter().map(|name| name.to_string()).collect(),
        ..LoraConfig::default()
    };
    let model = load("qwen3").adapted(&some(&["q_proj", "layers.1.mlp.up_proj"]), 5).unwrap();
    let names: Vec<String> = model.adapters().into_iter().map(|(name, _)| name).collect();
    let layers = ["0.self_attn.q_proj", "1.self_attn.q_proj", "1.mlp.up_proj"];
    let expected: Vec<String> = layers
        .iter()
        .flat_map(|layer| ["A", "B"].map(|factor| format!("model.layers.{layer}.lora_{factor}.weight")))
        .collect();
    assert_eq!(names, expected);
    let ids = &rows()[0].0;
    assert_eq!(numbers(model.logits(ids)), numbers(load("qwen3").logits(ids)));
    for (_, a) in model.adapters().iter().step_by(2) {
        // PEFT's kaiming_uniform_(a=sqrt(5)) draws from ±1/sqrt(in); of 72 draws the largest is near.
        let bound = 1.0 / (a.dims()[0] as f32).sqrt();
        let most = numbers(a.clone()).iter().fold(0f32, |most, x| most.max(x.abs()));
        assert!(most <= bound && most > 0.8 * bound, "{most} {bound}");
    }
    let error = load("qwen3").adapted(&some(&["layers.2.mlp.up_proj"]), 5).unwrap_err().to_string();
    assert!(error.contains("\"layers.2.mlp.up_proj\" matches no layer of this model; it has q_proj"), "{error}");
}

#[test]
fn dropout_zeroes_inputs_of_the_adapters_alone_and_keeps_their_mean() {
    // With dropout the loss differs from draw to draw; without adapters it never does.
    let examples = rows();
    let borrowed: Vec<_> = examples.iter().map(|(ids, range)| (&ids[..], range.clone())).collect();
    let (prefix, shared) = share(&borrowed);
    let loss = |model: &Model, seed: u64| {
        let mut rng = rand_chacha::ChaCha12Rng::seed_from_u64(seed);
        numbers(model.loss_sum(prefix, &shared, Some(&mut rng)).unwrap())[0]
    };
    let config = LoraConfig { dropout: 0.5, ..LoraConfig::default() };
    let fresh = load("llama").adapted(&config, 1).unwrap();
    assert_eq!(loss(&fresh, 1), loss(&fresh, 2), "B is zero");
    let filled = fresh.adapters().into_iter().map(|(_, factor)| factor + 0.02).collect();
    let filled = fresh.with_adapters(filled).unwrap();
    assert_ne!(loss(&filled, 1), loss(&filled, 2));
    assert_eq!(loss(&filled, 1), loss(&filled, 1), "the same draws");
}
