//! Adapters as PEFT directories, and whole models as Hugging Face directories.

use super::directory::{replace, write_json, write_text};
use super::error::{Result, StudentError};
use super::lora::{Adapter, LoraConfig, TARGETS};
use super::model::{Model, linear_name};
use super::safetensors::{self, Shard};
use super::weights::read_text;
use super::{RopeScaling, Student};
use burn::tensor::{Tensor, TensorData};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// What PEFT puts before every name.
const PREFIX: &str = "base_model.model.";

/// Keys of `adapter_config.json` that this program understands, or that change nothing.
const KNOWN: [&str; 13] = [
    "peft_type",
    "task_type",
    "base_model_name_or_path",
    "r",
    "lora_alpha",
    "lora_dropout",
    "target_modules",
    "bias",
    "use_rslora",
    "inference_mode",
    "init_lora_weights",
    "peft_version",
    "megatron_core",
];

/// Keys that, when set, change what an adapter computes in a way that is not implemented.
const REFUSED: [&str; 14] = [
    "use_dora",
    "modules_to_save",
    "fan_in_fan_out",
    "lora_bias",
    "rank_pattern",
    "alpha_pattern",
    "layer_replication",
    "trainable_token_indices",
    "target_parameters",
    "use_qalora",
    "use_bdlora",
    "alora_invocation_tokens",
    "megatron_config",
    "arrow_config",
];

impl Model {
    /// Writes the adapters as PEFT reads them; `base` names the model they belong to.
    pub fn write_adapter(&self, dir: &Path, base: &str) -> Result<()> {
        let Some(lora) = &self.lora else {
            return Err(StudentError::Adapter("this model has no adapters to write".into()));
        };
        let factors: BTreeMap<String, Tensor<2>> =
            self.adapters().into_iter().map(|(name, factor)| (format!("{PREFIX}{name}"), factor)).collect();
        let tensors: Vec<(String, Vec<usize>)> = factors
            .iter()
            .map(|(name, factor)| (name.clone(), factor.dims().iter().rev().copied().collect()))
            .collect();
        replace(dir, |fresh| {
            write_json(&fresh.join("adapter_config.json"), &config_json(lora, base))?;
            write_text(&fresh.join("README.md"), &readme(lora, base))?;
            let path = fresh.join("adapter_model.safetensors");
            safetensors::write(&path, &tensors, |name| numbers(factors[name].clone().inner().transpose()))
        })
    }

    /// Puts an adapter that PEFT or this program wrote onto the model. Also returns the settings
    /// that were not understood and ignored.
    pub fn with_peft(mut self, dir: &Path) -> Result<(Model, Vec<String>)> {
        let path = dir.join("adapter_config.json");
        let text = read_text(&path)?.ok_or_else(|| StudentError::file(&path, "not found; expected a PEFT adapter"))?;
        let json: Value =
            serde_json::from_str(&text).map_err(|e| StudentError::file(&path, format!("not JSON: {e}")))?;
        let (mut lora, ignored) = read_config(&json, &path)?;
        let weights = dir.join("adapter_model.safetensors");
        let shard = Shard::open(&weights)?;
        let mut left: Vec<&str> = shard.names().collect();
        let mut targets = Vec::new();
        let device = self.device.clone();
        for (layer, block) in self.blocks.iter_mut().enumerate() {
            for (place, target) in TARGETS.iter().enumerate() {
                let linear = block.linear_mut(place);
                let name = |factor: &str| format!("{PREFIX}{}.lora_{factor}.weight", linear_name(layer, place));
                let (a, b) = (name("A"), name("B"));
                if shard.dims(&a).is_none() && shard.dims(&b).is_none() {
                    linear.adapter = None;
                    continue;
                }
                let [inputs, outputs] = linear.weight.dims();
                let read = |name: &str, dims: [usize; 2]| {
                    let found = shard.dims(name).unwrap_or_default();
                    if found != dims {
                        let cause = format!("\"{name}\": expected dimensions {dims:?}, found {found:?}");
                        return Err(StudentError::file(&weights, cause));
                    }
                    let stored: Tensor<2> = Tensor::from_data(TensorData::new(shard.to_f32(name)?, dims), &device);
                    Ok(super::lora::materialised(stored.transpose(), &device))
                };
                let (a_factor, b_factor) = (read(&a, [lora.r, inputs])?, read(&b, [outputs, lora.r])?);
                let (scale, dropout) = (lora.scale(), lora.dropout);
                linear.adapter = Some(Adapter { a: a_factor, b: b_factor, scale, dropout });
                left.retain(|name| *name != a && *name != b);
                if !targets.contains(&target.to_string()) {
                    targets.push(target.to_string());
                }
            }
        }
        if let Some(name) = left.first() {
            return Err(StudentError::file(&weights, format!("\"{name}\" matches no layer of this model")));
        }
        if targets.is_empty() {
            return Err(StudentError::file(&weights, "no layer of this model is adapted"));
        }
        lora.targets = targets;
        self.lora = Some(lora);
        Ok((self, ignored))
    }
}

impl Student {
    /// Writes the model, with its adapters added in, as a directory that `transformers` loads.
    pub fn write_hf(&self, dir: &Path) -> Result<()> {
        let model = self.model.merged();
        if matches!(model.config.rope_scaling, RopeScaling::Factors(_)) {
            let cause = "this GGUF stretches rotary angles by a table that config.json cannot express";
            return Err(StudentError::file(&self.path, cause));
        }
        let named = model.named_weights();
        let tensors: Vec<(String, Vec<usize>)> = named.iter().map(|(name, w)| (name.clone(), w.dims())).collect();
        let stops = self.tokenizer.stops();
        let [tokenizer, tokenizer_config] = self.tokenizer.files();
        replace(dir, |fresh| {
            let mut config = model.config.to_json();
            config["eos_token_id"] = json!(stops);
            write_json(&fresh.join("config.json"), &config)?;
            write_json(&fresh.join("generation_config.json"), &json!({"eos_token_id": stops, "do_sample": false}))?;
            write_json(&fresh.join("tokenizer.json"), tokenizer)?;
            write_json(&fresh.join("tokenizer_config.json"), tokenizer_config)?;
            safetensors::write(&fresh.join("model.safetensors"), &tensors, |name| named[name].numbers())
        })
    }
}

/// A weight in its stored orientation.
enum Weight {
    Matrix(Tensor<2>),
    Vector(Tensor<1>),
}

impl Weight {
    fn dims(&self) -> Vec<usize> {
        match self {
            Weight::Matrix(x) => x.dims().to_vec(),
            Weight::Vector(x) => x.dims().to_vec(),
        }
    }

    fn numbers(&self) -> Result<Vec<f32>> {
        match self {
            Weight::Matrix(x) => numbers(x.clone()),
            Weight::Vector(x) => numbers(x.clone()),
        }
    }
}

impl Model {
    fn named_weights(&self) -> BTreeMap<String, Weight> {
        let mut all = BTreeMap::new();
        all.insert("model.embed_tokens.weight".to_owned(), Weight::Matrix(self.embed.clone()));
        all.insert("model.norm.weight".to_owned(), Weight::Vector(self.norm.weight.clone()));
        if !self.config.tied {
            all.insert("lm_head.weight".to_owned(), Weight::Matrix(self.head_rows.clone()));
        }
        for (layer, block) in self.blocks.iter().enumerate() {
            for place in 0..TARGETS.len() {
                let (name, linear) = (linear_name(layer, place), block.linear(place));
                all.insert(format!("{name}.weight"), Weight::Matrix(linear.weight.clone().transpose()));
                if let Some(bias) = &linear.bias {
                    all.insert(format!("{name}.bias"), Weight::Vector(bias.clone().squeeze_dim(0)));
                }
            }
            let norms = [
                ("input_layernorm", Some(&block.input_norm)),
                ("post_attention_layernorm", Some(&block.mlp_norm)),
                ("self_attn.q_norm", block.attention.q_norm.as_ref()),
                ("self_attn.k_norm", block.attention.k_norm.as_ref()),
            ];
            for (name, norm) in norms {
                if let Some(norm) = norm {
                    let name = format!("model.layers.{layer}.{name}.weight");
                    all.insert(name, Weight::Vector(norm.weight.clone()));
                }
            }
        }
        all
    }
}

fn numbers<const D: usize>(x: Tensor<D>) -> Result<Vec<f32>> {
    let data = x.try_into_data().map_err(|e| StudentError::Compute(e.to_string()))?;
    data.try_into_vec::<f32>().map_err(|e| StudentError::Compute(format!("{e:?}")))
}

fn config_json(lora: &LoraConfig, base: &str) -> Value {
    let mut targets = lora.targets.clone();
    targets.sort();
    json!({
        "alpha_pattern": {},
        "auto_mapping": null,
        "base_model_name_or_path": base,
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "layer_replication": null,
        "layers_pattern": null,
        "layers_to_transform": null,
        "lora_alpha": lora.alpha,
        "lora_dropout": lora.dropout,
        "modules_to_save": null,
        "peft_type": "LORA",
        "r": lora.r,
        "rank_pattern": {},
        "revision": null,
        "target_modules": targets,
        "task_type": "CAUSAL_LM",
        "use_dora": false,
        "use_rslora": lora.rslora,
    })
}

fn readme(lora: &LoraConfig, base: &str) -> String {
    let LoraConfig { r, alpha, .. } = lora;
    format!(
        "---\nbase_model: {}\nlibrary_name: peft\ntags:\n- lora\n- information-extraction\n---\n\n\
         # LoRA adapter\n\nRank {r}, alpha {alpha}, on {}. Written by `understudy`; load it with\n\n\
         ```python\nfrom peft import PeftModel\nmodel = PeftModel.from_pretrained(base, \"this directory\")\n```\n",
        Value::from(base),
        lora.targets.join(", "),
    )
}

/// Whether a setting is switched on.
fn set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

fn read_config(json: &Value, path: &Path) -> Result<(LoraConfig, Vec<String>)> {
    let fail = |cause: String| StudentError::file(path, cause);
    let fields = json.as_object().ok_or_else(|| fail("expected a JSON object".into()))?;
    let kind = json.get("peft_type").and_then(Value::as_str).unwrap_or("LORA");
    if kind != "LORA" {
        return Err(fail(format!("peft_type \"{kind}\" is not supported; expected \"LORA\"")));
    }
    if let Some(bias) = json.get("bias").and_then(Value::as_str).filter(|bias| *bias != "none") {
        return Err(fail(format!("bias \"{bias}\" is not supported; expected \"none\"")));
    }
    if let Some(key) = REFUSED.iter().find(|key| json.get(**key).is_some_and(set)) {
        return Err(fail(format!("{key} is set to {}, which is not supported", json[*key])));
    }
    let number = |key: &str| json.get(key).and_then(Value::as_f64);
    let r = json.get("r").and_then(Value::as_u64).and_then(|r| usize::try_from(r).ok());
    let lora = LoraConfig {
        r: r.ok_or_else(|| fail("\"r\" is missing or not a whole number".into()))?,
        alpha: number("lora_alpha").ok_or_else(|| fail("\"lora_alpha\" is missing or not a number".into()))?,
        rslora: json.get("use_rslora").is_some_and(set),
        dropout: number("lora_dropout").unwrap_or(0.0),
        ..LoraConfig::default()
    };
    lora.check().map_err(|e| fail(e.to_string()))?;
    let known = |key: &str| KNOWN.contains(&key) || REFUSED.contains(&key) || key.starts_with("layers_");
    let ignored = fields.iter().filter(|(key, value)| !known(key) && set(value));
    Ok((lora, ignored.map(|(key, value)| format!("{key} = {value}")).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::Weights;
    use burn::tensor::Device;
    use std::path::PathBuf;

    fn golden(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
    }

    fn model(name: &str) -> Model {
        Model::load(Weights::open(&golden(name)).unwrap(), &Device::flex()).unwrap().0
    }

    /// PEFT's own adapter with one setting changed.
    fn read_with(key: &str, value: Value) -> Result<(Model, Vec<String>)> {
        let dir = tempfile::tempdir().unwrap();
        let from = golden("llama/adapter");
        let weights = "adapter_model.safetensors";
        std::fs::copy(from.join(weights), dir.path().join(weights)).unwrap();
        let mut json: Value =
            serde_json::from_str(&std::fs::read_to_string(from.join("adapter_config.json")).unwrap()).unwrap();
        json[key] = value;
        std::fs::write(dir.path().join("adapter_config.json"), json.to_string()).unwrap();
        model("llama").with_peft(dir.path())
    }

    #[test]
    fn settings_that_change_the_result_are_refused_and_others_are_listed() {
        for (key, value) in [
            ("use_dora", json!(true)),
            ("modules_to_save", json!(["lm_head"])),
            ("bias", json!("all")),
            ("rank_pattern", json!({"q_proj": 2})),
            ("peft_type", json!("IA3")),
            ("fan_in_fan_out", json!(true)),
            ("r", json!("four")),
            ("r", json!(1u64 << 40)),
            ("lora_alpha", Value::Null),
        ] {
            let error = read_with(key, value).expect_err("must be refused").to_string();
            assert!(
                error.contains(key.trim_start_matches("lora_")) && error.contains("adapter_config.json"),
                "{error}"
            );
        }
        let (_, ignored) = read_with("from_the_future", json!(3)).unwrap();
        assert!(ignored.contains(&"from_the_future = 3".to_owned()), "{ignored:?}");
    }

    #[test]
    fn an_adapter_of_another_model_is_refused_by_the_tensor_that_does_not_fit() {
        let error = read_with("r", json!(8)).unwrap_err().to_string();
        assert!(error.contains("lora_A") && error.contains("[8, 32]") && error.contains("[4, 32]"), "{error}");
        let error = model("qwen2").with_peft(&golden("llama/adapter")).unwrap_err().to_string();
        assert!(error.contains("q_proj"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(golden("llama/adapter/adapter_config.json"), dir.path().join("adapter_config.json")).unwrap();
        let write = |names: &[&str]| {
            let tensors: Vec<(String, Vec<usize>)> = names.iter().map(|n| (n.to_string(), vec![1])).collect();
            let path = dir.path().join("adapter_model.safetensors");
            safetensors::write(&path, &tensors, |_| Ok(vec![0.0])).unwrap();
            model("llama").with_peft(dir.path()).unwrap_err().to_string()
        };
        assert!(write(&[]).contains("no layer of this model is adapted"));
        assert!(write(&["base_model.model.h.0.attn.lora_A.weight"]).contains("matches no layer"));
        let alone = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
        assert!(write(&[alone]).contains("expected dimensions"));
    }

    #[test]
    fn an_exported_model_with_its_adapter_added_in_is_the_adapted_model() {
        let adapted = model("llama").with_peft(&golden("llama/adapter")).unwrap().0;
        let expected: Vec<f32> = adapted.logits(&[1, 2, 3]).into_data().try_into_vec().unwrap();
        let merged = adapted.merged();
        let dir = tempfile::tempdir().unwrap();
        let named = merged.named_weights();
        let tensors: Vec<(String, Vec<usize>)> = named.iter().map(|(name, w)| (name.clone(), w.dims())).collect();
        write_json(&dir.path().join("config.json"), &merged.config.to_json()).unwrap();
        let path = dir.path().join("model.safetensors");
        safetensors::write(&path, &tensors, |name| named[name].numbers()).unwrap();
        let again = Model::load(Weights::open(dir.path()).unwrap(), &Device::flex()).unwrap().0;
        let found: Vec<f32> = again.logits(&[1, 2, 3]).into_data().try_into_vec().unwrap();
        let worst = expected.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // Adding sBA into W rounds once more, by some 1e-7 of numbers around 1.
        assert!(worst <= 1e-4, "{worst}");
    }
}
