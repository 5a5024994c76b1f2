//! Whole models as Hugging Face directories that `transformers` loads.

use super::directory::{copy, replace, write_json};
use super::error::{Result, StudentError};
use super::lora::TARGETS;
use super::model::{Model, linear_name};
use super::weights::read_text;
use super::{RopeScaling, Student, safetensors};
use burn::tensor::Tensor;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Files of a model directory that say how text becomes tokens, each there or not.
const TOKENIZER: [&str; 9] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
];

impl Student {
    /// Writes the model, with its adapters added in, as a directory that `transformers` loads.
    pub fn write_hf(&self, dir: &Path) -> Result<()> {
        let model = self.model.merged();
        replace(dir, |fresh| self.fill_hf(&model, fresh))
    }

    /// The files of a model of this student's shape, which has no adapters, in an empty directory.
    pub(super) fn fill_hf(&self, model: &Model, dir: &Path) -> Result<()> {
        match self.path.is_dir() {
            true => self.copy_texts(dir)?,
            false => self.write_texts(model, dir)?,
        }
        let named = model.named_weights();
        let tensors: Vec<(String, Vec<usize>)> = named.iter().map(|(name, w)| (name.clone(), w.dims())).collect();
        safetensors::write(&dir.join("model.safetensors"), &tensors, |name| named[name].numbers())
    }

    /// A directory's own files, with the type of the numbers as they are now.
    fn copy_texts(&self, dir: &Path) -> Result<()> {
        let at = self.path.join("config.json");
        let text = read_text(&at)?.ok_or_else(|| StudentError::file(&at, "not found; a model directory needs it"))?;
        let mut config: Value =
            serde_json::from_str(&text).map_err(|e| StudentError::file(&at, format!("not JSON: {e}")))?;
        for key in ["dtype", "torch_dtype"] {
            if config.get(key).is_some() {
                config[key] = json!("float32");
            }
        }
        write_json(&dir.join("config.json"), &config)?;
        for file in TOKENIZER.into_iter().chain(["generation_config.json"]) {
            let from = self.path.join(file);
            if from.is_file() {
                copy(&from, &dir.join(file))?;
            }
        }
        Ok(())
    }

    /// The same for a GGUF file, which has none of these files.
    fn write_texts(&self, model: &Model, dir: &Path) -> Result<()> {
        if matches!(model.config.rope_scaling, RopeScaling::Factors(_)) {
            let cause = "this GGUF stretches rotary angles by a table that config.json cannot express";
            return Err(StudentError::file(&self.path, cause));
        }
        let stops = self.tokenizer.stops();
        let [tokenizer, tokenizer_config] = self.tokenizer.files();
        let mut config = model.config.to_json();
        config["eos_token_id"] = json!(stops);
        write_json(&dir.join("config.json"), &config)?;
        write_json(&dir.join("generation_config.json"), &json!({"eos_token_id": stops, "do_sample": false}))?;
        write_json(&dir.join("tokenizer.json"), tokenizer)?;
        write_json(&dir.join("tokenizer_config.json"), tokenizer_config)
    }
}

/// A weight in its stored orientation.
pub(super) enum Weight {
    Matrix(Tensor<2>),
    Vector(Tensor<1>),
}

impl Weight {
    pub fn dims(&self) -> Vec<usize> {
        match self {
            Weight::Matrix(x) => x.dims().to_vec(),
            Weight::Vector(x) => x.dims().to_vec(),
        }
    }

    pub fn numbers(&self) -> Result<Vec<f32>> {
        match self {
            Weight::Matrix(x) => numbers(x.clone()),
            Weight::Vector(x) => numbers(x.clone()),
        }
    }
}

impl Model {
    /// Every weight by its Hugging Face name; adapters are not in it.
    pub(super) fn named_weights(&self) -> BTreeMap<String, Weight> {
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

/// The numbers of a tensor, row by row.
pub(super) fn numbers<const D: usize>(x: Tensor<D>) -> Result<Vec<f32>> {
    let data = x.try_into_data().map_err(|e| StudentError::Compute(e.to_string()))?;
    data.try_into_vec::<f32>().map_err(|e| StudentError::Compute(format!("{e:?}")))
}
