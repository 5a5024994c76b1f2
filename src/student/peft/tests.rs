//! What PEFT makes of a config (numbers from `scripts/golden/adapters.py`), and what is refused.

#![cfg(test)]

use super::config::AdapterConfig;
use super::*;
use crate::student::safetensors;
use crate::student::{StudentError, Weights};
use burn::tensor::Device;
use serde_json::{Value, json};
use std::path::PathBuf;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn model(name: &str) -> Model {
    Model::load(Weights::open(&golden(name)).unwrap(), &Device::flex()).unwrap().0
}

/// The settings that `scripts/golden/adapters.py` changes one by one.
fn base() -> Value {
    json!({"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"})
}

fn changed(mut config: Value, changes: &Value) -> Value {
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// Name, rank, alpha and scale of every layer that a config adapts.
fn adapted(config: &Value, model: &Model) -> std::result::Result<Vec<(String, usize, f64, f64)>, String> {
    let config = AdapterConfig::parse(&config.to_string(), Path::new(CONFIG)).map_err(|error| error.to_string())?;
    let (matched, _) = targets::matched(&config, model)?;
    let one = |target: &targets::Target| {
        let own = LoraConfig { r: target.r, alpha: target.alpha, ..config.lora.clone() };
        (linear_name(target.layer, target.place), target.r, target.alpha, own.scale())
    };
    Ok(matched.iter().map(one).collect())
}

#[test]
fn a_config_means_what_it_means_to_peft() {
    let text = std::fs::read_to_string(golden("adapters/matching.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(cases.len() >= 60, "only {} cases", cases.len());
    let families = ["llama", "qwen2", "qwen3"].map(|name| (name, model(&format!("adapters/{name}"))));
    let (mut same, mut refused) = (0, 0);
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let (_, model) = families.iter().find(|(family, _)| case["family"] == *family).unwrap();
        let found = adapted(&changed(base(), &case["settings"]), model);
        match case["modules"].as_object() {
            None => {
                assert!(found.is_err(), "{name}: PEFT refuses it, here it adapts {found:?}");
                refused += 1;
            }
            Some(modules) => {
                let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
                let theirs: Vec<(String, usize, f64, f64)> = modules
                    .iter()
                    .map(|(module, numbers)| {
                        let number = |at: usize| numbers[at].as_f64().unwrap();
                        (module.clone(), number(0) as usize, number(1), number(2))
                    })
                    .collect();
                assert_eq!(found, theirs, "{name}");
                same += 1;
            }
        }
    }
    assert!(same >= 40 && refused >= 15, "{same} {refused}");
}

#[test]
fn what_peft_takes_and_this_program_does_not_is_refused_by_name() {
    let refused = |family: &str, targets: Value| {
        adapted(&changed(base(), &json!({ "target_modules": targets })), &model(family)).unwrap_err()
    };
    let head = refused("adapters/llama", json!(["q_proj", "lm_head"]));
    assert!(head.contains("\"lm_head\": adapters on the head are not supported"), "{head}");
    let tied = refused("adapters/qwen2", json!(["lm_head"]));
    assert!(tied.contains("\"lm_head\": the head is the embedding (tie_word_embeddings)"), "{tied}");
    let embedding = refused("adapters/llama", json!(["embed_tokens"]));
    assert!(embedding.contains("\"model.embed_tokens\": adapters on the embedding"), "{embedding}");
    let none = refused("adapters/llama", json!(["c_attn"]));
    assert!(none.contains(r#"["c_attn"] match no module of this model; it has q_proj, k_proj"#), "{none}");
}

/// PEFT's own adapter of the first golden model with one setting changed.
fn read_with(key: &str, value: Value) -> Result<(Model, Vec<String>)> {
    let dir = tempfile::tempdir().unwrap();
    let from = golden("llama/adapter");
    std::fs::copy(from.join(WEIGHTS), dir.path().join(WEIGHTS)).unwrap();
    let config: Value = serde_json::from_str(&std::fs::read_to_string(from.join(CONFIG)).unwrap()).unwrap();
    let text = changed(config, &json!({ key: value })).to_string();
    std::fs::write(dir.path().join(CONFIG), text).unwrap();
    model("llama").with_peft(dir.path())
}

#[test]
fn settings_that_change_the_result_are_refused_and_others_are_listed() {
    for (key, value) in [
        ("peft_type", json!("IA3")),
        ("peft_type", json!(7)),
        ("task_type", json!("SEQ_CLS")),
        ("use_dora", json!(true)),
        ("modules_to_save", json!(["lm_head"])),
        ("bias", json!("all")),
        ("bias", json!(["none"])),
        ("lora_bias", json!(true)),
        ("fan_in_fan_out", json!(true)),
        ("layer_replication", json!([[0, 1], [0, 2]])),
        ("trainable_token_indices", json!([1, 2])),
        ("target_parameters", json!(["mlp.experts"])),
        ("use_qalora", json!(true)),
        ("use_bdlora", json!({"nblocks": 2})),
        ("alora_invocation_tokens", json!([1])),
        ("kasa_config", json!({"beta": 1.0})),
        ("init_lora_weights", json!("pissa_niter_4")),
        ("init_lora_weights", json!("olora")),
        ("init_lora_weights", json!("loftq")),
        ("init_lora_weights", json!(3)),
        ("r", json!("four")),
        ("r", json!(4.5)),
        ("r", json!(0)),
        ("r", json!(-4)),
        ("r", json!(1u64 << 40)),
        ("r", Value::Null),
        ("lora_alpha", Value::Null),
        ("lora_alpha", json!("6")),
        ("lora_alpha", json!(0)),
        ("lora_dropout", json!(1.5)),
        ("lora_dropout", json!("half")),
        ("use_rslora", json!("yes")),
        ("target_modules", json!(7)),
        ("target_modules", json!(["q_proj", 7])),
        ("target_modules", json!("(?P<q")),
        ("target_modules", json!("(((a{900}){900}){900}){900}|.*q_proj")),
        ("target_modules", json!("(?=(.*)*\\1x).*(.*)*\\2y")),
        ("target_modules", json!("x".repeat(70_000))),
        ("exclude_modules", json!({"q_proj": 1})),
        ("layers_to_transform", json!("0")),
        ("layers_to_transform", json!([0.5])),
        ("rank_pattern", json!(["q_proj"])),
        ("rank_pattern", json!({"q_proj": "2"})),
        ("rank_pattern", json!({"q_proj": 1u64 << 40})),
        ("rank_pattern", json!({"(q_proj": 2})),
        ("alpha_pattern", json!({"q_proj": -1})),
    ] {
        let error = read_with(key, value.clone()).err().unwrap_or_else(|| panic!("{key} = {value} must be refused"));
        let error = error.to_string();
        assert!(error.contains(key.trim_start_matches("lora_")) && error.contains(CONFIG), "{key}: {error}");
        assert!(error.len() < 70_500, "{key}");
    }
    let (_, ignored) = read_with("from_the_future", json!(3)).unwrap();
    assert_eq!(ignored, ["from_the_future = 3"]);
    let (_, ignored) = read_with("alpha_pattern", json!({"c_attn": 3})).unwrap();
    assert_eq!(ignored, ["alpha_pattern.c_attn"], "a pattern that no layer has");
    for (key, value) in
        [("init_lora_weights", json!("gaussian")), ("exclude_modules", json!("")), ("bias", Value::Null)]
    {
        assert!(read_with(key, value).unwrap().1.is_empty(), "{key}");
    }
}

#[test]
fn a_config_cut_anywhere_is_an_error_that_names_the_file() {
    let text = std::fs::read_to_string(golden("adapters/llama/patterns/adapter_config.json")).unwrap();
    let whole = text.trim_end();
    AdapterConfig::parse(whole, Path::new(CONFIG)).unwrap();
    for end in 0..whole.len() {
        let error = AdapterConfig::parse(&whole[..end], Path::new(CONFIG)).err().unwrap().to_string();
        assert!(error.contains(CONFIG) && error.contains("not JSON"), "{end}: {error}");
    }
    for other in ["[]", "3", "null", "\"LORA\"", "{}"] {
        assert!(AdapterConfig::parse(other, Path::new(CONFIG)).is_err(), "{other}");
    }
    let deep = "[".repeat(100_000);
    assert!(AdapterConfig::parse(&deep, Path::new(CONFIG)).is_err(), "nested too deep");
}

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// An adapter directory with this config and these tensors.
fn directory(config: &Value, tensors: &Tensors) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(CONFIG), config.to_string()).unwrap();
    let listed: Vec<(String, Vec<usize>)> =
        tensors.iter().map(|(name, (dims, _))| (name.clone(), dims.clone())).collect();
    safetensors::write(&dir.path().join(WEIGHTS), &listed, |name| Ok(tensors[name].1.clone())).unwrap();
    dir
}

/// Factors for q_proj and v_proj of the golden llama, rank 4.
fn factors() -> Tensors {
    let mut all = BTreeMap::new();
    for (layer, (part, outputs)) in [(0, ("q_proj", 32)), (0, ("v_proj", 16)), (1, ("q_proj", 32)), (1, ("v_proj", 16))]
    {
        let at = format!("base_model.model.model.layers.{layer}.self_attn.{part}");
        let numbers = |count: usize| (0..count).map(|i| (i % 7) as f32 * 0.1).collect();
        all.insert(format!("{at}.lora_A.weight"), (vec![4, 24], numbers(4 * 24)));
        all.insert(format!("{at}.lora_B.weight"), (vec![outputs, 4], numbers(4 * outputs)));
    }
    all
}

fn logits(dir: &Path) -> Result<Vec<f32>> {
    let (model, _) = model("adapters/llama").with_peft(dir)?;
    Ok(model.logits(&[1, 50, 7]).into_data().try_into_vec().unwrap())
}

#[test]
fn names_with_wrappers_and_the_adapters_own_name_mean_the_same() {
    let plain = logits(directory(&base(), &factors()).path()).unwrap();
    let without = model("adapters/llama").logits(&[1, 50, 7]).into_data().try_into_vec::<f32>().unwrap();
    assert_ne!(plain, without);
    let renamed = |change: &dyn Fn(&str) -> String| {
        let tensors = factors().into_iter().map(|(name, tensor)| (change(&name), tensor)).collect();
        logits(directory(&base(), &tensors).path()).unwrap()
    };
    assert_eq!(renamed(&|name| name.replace(".weight", ".default.weight")), plain, "a state dict as it is in memory");
    assert_eq!(renamed(&|name| name.replace("base_model.model.", "")), plain, "of the base model");
    assert_eq!(renamed(&|name| format!("module.{name}")), plain, "of a parallel wrapper");
    assert_eq!(renamed(&|name| format!("_orig_mod.{name}")), plain, "of a compiled model");
    assert_eq!(renamed(&|name| name.replace("model.layers", "model._orig_mod.layers")), plain, "compiled inside");
    // Both spellings of one factor at once.
    let mut twice = factors();
    let (name, tensor) = factors().pop_first().unwrap();
    twice.insert(name.replace(".weight", ".default.weight"), tensor);
    let error = logits(directory(&base(), &twice).path()).unwrap_err().to_string();
    assert!(error.contains("are the same factor") && error.contains(&name), "{error}");
}

#[test]
fn every_factor_must_be_there_and_none_beside_them() {
    let refused = |change: &dyn Fn(&mut Tensors)| {
        let mut tensors = factors();
        change(&mut tensors);
        logits(directory(&base(), &tensors).path()).unwrap_err().to_string()
    };
    let q = "base_model.model.model.layers.0.self_attn.q_proj";
    let numbers = |dims: [usize; 2]| (dims.to_vec(), vec![0.5; dims[0] * dims[1]]);
    for (said, change) in [
        (
            format!("\"{q}.lora_B.weight\" is missing, though adapter_config.json adapts model.layers.0"),
            &(|t: &mut Tensors| drop(t.remove(&format!("{q}.lora_B.weight")))) as &dyn Fn(&mut Tensors),
        ),
        ("lora_A.weight\" is missing".into(), &|t: &mut Tensors| t.retain(|name, _| !name.contains("layers.1"))),
        ("is missing".into(), &|t: &mut Tensors| t.clear()),
        (
            "up_proj.lora_A.weight\", and no module that its config adapts in this model has it".into(),
            &|t: &mut Tensors| drop(t.insert(q.replace("self_attn.q", "mlp.up") + ".lora_A.weight", numbers([4, 24]))),
        ),
        ("layers.2.self_attn.q_proj.lora_A.weight\", and no module".into(), &|t: &mut Tensors| {
            drop(t.insert(q.replace(".0.", ".2.") + ".lora_A.weight", numbers([4, 24])))
        }),
        ("a magnitude of DoRA".into(), &|t: &mut Tensors| {
            drop(t.insert(format!("{q}.lora_magnitude_vector"), (vec![32], vec![1.0; 32])))
        }),
        ("embed_tokens.weight\", a weight of the base model".into(), &|t: &mut Tensors| {
            drop(t.insert("base_model.model.model.embed_tokens.weight".into(), numbers([264, 24])))
        }),
        ("a bias, which".into(), &|t: &mut Tensors| {
            drop(t.insert(format!("{q}.lora_B.bias"), (vec![32], vec![1.0; 32])))
        }),
        ("expected dimensions [4, 24], found [8, 24]".into(), &|t: &mut Tensors| {
            drop(t.insert(format!("{q}.lora_A.weight"), numbers([8, 24])))
        }),
        ("expected dimensions [4, 24], found [96]".into(), &|t: &mut Tensors| {
            drop(t.insert(format!("{q}.lora_A.weight"), (vec![96], vec![0.0; 96])))
        }),
        ("lora_A.weight\" holds NaN; expected finite".into(), &|t: &mut Tensors| {
            drop(t.insert(format!("{q}.lora_A.weight"), (vec![4, 24], vec![f32::NAN; 96])))
        }),
    ] {
        let error = refused(change);
        assert!(error.contains(&said) && error.contains(WEIGHTS), "expected {said}\nfound {error}");
    }
}

#[test]
fn an_adapter_of_another_model_is_refused_by_the_tensor_that_does_not_fit() {
    let error = read_with("r", json!(8)).unwrap_err().to_string();
    assert!(error.contains("lora_A") && error.contains("[8, 32]") && error.contains("[4, 32]"), "{error}");
    let error = model("qwen2").with_peft(&golden("llama/adapter")).unwrap_err().to_string();
    assert!(error.contains("q_proj"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let read = |dir: &Path| model("llama").with_peft(dir).unwrap_err().to_string();
    assert!(read(empty.path()).contains("adapter_config.json: not found"));
    std::fs::copy(golden("llama/adapter").join(CONFIG), empty.path().join(CONFIG)).unwrap();
    assert!(read(empty.path()).contains(WEIGHTS));
    std::fs::write(empty.path().join("adapter_model.bin"), "pickle").unwrap();
    assert!(read(empty.path()).contains("pickled adapters (adapter_model.bin) are not read"));
}

#[test]
fn weights_cut_anywhere_are_an_error_that_names_the_file() {
    let whole = std::fs::read(golden("adapters/qwen2/patterns").join(WEIGHTS)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(golden("adapters/qwen2/patterns").join(CONFIG), dir.path().join(CONFIG)).unwrap();
    let model = model("adapters/qwen2");
    for end in (0..whole.len()).step_by(13) {
        std::fs::write(dir.path().join(WEIGHTS), &whole[..end]).unwrap();
        let error = model.clone().with_peft(dir.path()).expect_err("a cut file must be refused").to_string();
        assert!(error.contains(WEIGHTS), "{end}: {error}");
    }
}

#[test]
fn ranks_and_strengths_of_single_layers_survive_being_written() {
    for family in ["llama", "qwen2", "qwen3"] {
        let from = golden(&format!("adapters/{family}"));
        let (read, ignored) = model(&format!("adapters/{family}")).with_peft(&from.join("patterns")).unwrap();
        assert!(ignored.is_empty(), "{ignored:?}");
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("adapter");
        read.write_adapter(&at, "tiny").unwrap();
        let (again, ignored) = model(&format!("adapters/{family}")).with_peft(&at).unwrap();
        assert!(ignored.is_empty(), "{ignored:?}");
        let parts = |model: &Model| -> Vec<(String, f64, f64, Vec<f32>)> {
            let blocks = model.blocks.iter().enumerate();
            let places = blocks.flat_map(|(layer, block)| (0..TARGETS.len()).map(move |place| (layer, place, block)));
            let adapters = places.filter_map(|(layer, place, block)| {
                let adapter = block.linear(place).adapter.clone()?;
                let a: Vec<f32> = adapter.a.into_data().try_into_vec().unwrap();
                Some((linear_name(layer, place), adapter.alpha, adapter.scale, a))
            });
            adapters.collect()
        };
        assert_eq!(parts(&again), parts(&read), "{family}");
        let text = std::fs::read_to_string(at.join(CONFIG)).unwrap();
        // Kept, so that scripts/golden/check_peft.py can load it in PEFT.
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(from.join("written.json"), &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(from.join("written.json")).unwrap(), "{family}");
        let config: Value = serde_json::from_str(&text).unwrap();
        let expected = match family {
            // Layer 0 of everything in self_attn has rank 2, every down_proj 6; up_proj of layer 0 is excluded.
            "llama" => (
                json!(["down_proj", "model.layers.1.mlp.up_proj", "o_proj", "q_proj", "v_proj"]),
                json!({
                    "down_proj": 6, "model.layers.0.self_attn.o_proj": 2, "model.layers.0.self_attn.q_proj": 2,
                    "model.layers.0.self_attn.v_proj": 2,
                }),
                json!({"model.layers.1.self_attn.o_proj": 12.0, "v_proj": 5.0}),
            ),
            "qwen2" => (
                json!([
                    "model.layers.0.mlp.down_proj",
                    "model.layers.1.mlp.gate_proj",
                    "model.layers.1.self_attn.k_proj"
                ]),
                json!({"k_proj": 1}),
                json!({"down_proj": 3.0}),
            ),
            _ => (
                json!(["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]),
                json!({"k_proj": 7, "q_proj": 7}),
                json!({"down_proj": 2.0, "gate_proj": 2.0, "up_proj": 2.0}),
            ),
        };
        assert_eq!(
            (&config["target_modules"], &config["rank_pattern"], &config["alpha_pattern"]),
            (&expected.0, &expected.1, &expected.2),
            "{family}"
        );
    }
}

#[test]
fn a_model_without_adapters_writes_none() {
    let dir = tempfile::tempdir().unwrap();
    let error = model("llama").write_adapter(&dir.path().join("adapter"), "tiny").unwrap_err();
    assert!(matches!(error, StudentError::Adapter(_)) && !dir.path().join("adapter").exists());
}
