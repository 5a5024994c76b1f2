//! An adapter as PEFT reads it: what stands in the config is made from the layers that are there,
//! so that ranks and strengths of single layers survive.

use super::{CONFIG, PREFIX, WEIGHTS};
use crate::student::directory::{replace, write_json, write_text};
use crate::student::error::{Result, StudentError};
use crate::student::export::numbers;
use crate::student::lora::{LoraConfig, TARGETS, last_part};
use crate::student::model::{Model, linear_name};
use crate::student::safetensors;
use burn::tensor::Tensor;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

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
        let layers = self.adapted_layers();
        replace(dir, |fresh| {
            write_json(&fresh.join(CONFIG), &config_json(lora, &layers, self.blocks.len(), base))?;
            write_text(&fresh.join("README.md"), &readme(lora, &layers, self.blocks.len(), base))?;
            let path = fresh.join(WEIGHTS);
            safetensors::write(&path, &tensors, |name| numbers(factors[name].clone().inner().transpose()))
        })
    }

    pub(super) fn adapted_layers(&self) -> Vec<AdaptedLayer> {
        let places = (0..self.blocks.len()).flat_map(|layer| (0..TARGETS.len()).map(move |place| (layer, place)));
        let adapted = places.filter_map(|(layer, place)| {
            let adapter = self.blocks[layer].linear(place).adapter.as_ref()?;
            Some(AdaptedLayer { name: linear_name(layer, place), r: adapter.a.dims()[1], alpha: adapter.alpha })
        });
        adapted.collect()
    }
}

/// A layer with the rank and the strength of its own.
pub(super) struct AdaptedLayer {
    name: String,
    r: usize,
    alpha: f64,
}

/// The last part of a name where it says the same of all layers that end in it, else full names.
/// Sorted.
fn shortest(
    layers: &[AdaptedLayer],
    alike: impl Fn(&[&AdaptedLayer]) -> bool,
) -> impl Iterator<Item = (&str, &AdaptedLayer)> {
    let mut by_end: BTreeMap<&str, Vec<&AdaptedLayer>> = BTreeMap::new();
    layers.iter().for_each(|layer| by_end.entry(last_part(&layer.name)).or_default().push(layer));
    let mut named = BTreeMap::new();
    for (end, layers) in by_end {
        if alike(&layers) {
            named.insert(end, layers[0]);
        } else {
            named.extend(layers.into_iter().map(|layer| (layer.name.as_str(), layer)));
        }
    }
    named.into_iter()
}

/// `target_modules` that mean exactly these layers.
pub(super) fn target_modules(layers: &[AdaptedLayer], blocks: usize) -> Vec<&str> {
    shortest(layers, |alike| alike.len() == blocks).map(|(name, _)| name).collect()
}

/// What differs from the base value. A name without signs of a pattern but dots matches itself.
fn pattern<T: PartialEq + Into<Value> + Copy>(
    layers: &[AdaptedLayer],
    base: T,
    value: impl Fn(&AdaptedLayer) -> T,
) -> Value {
    let alike = |layers: &[&AdaptedLayer]| layers.iter().all(|layer| value(layer) == value(layers[0]));
    let named = shortest(layers, alike).map(|(name, layer)| (name.to_owned(), value(layer)));
    let other = named.filter(|(_, value)| *value != base).map(|(name, value)| (name, value.into()));
    Value::Object(other.collect::<Map<String, Value>>())
}

fn config_json(lora: &LoraConfig, layers: &[AdaptedLayer], blocks: usize, base: &str) -> Value {
    json!({
        "alpha_pattern": pattern(layers, lora.alpha, |layer| layer.alpha),
        "auto_mapping": null,
        "base_model_name_or_path": base,
        "bias": "none",
        "exclude_modules": null,
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
        "rank_pattern": pattern(layers, lora.r, |layer| layer.r),
        "revision": null,
        "target_modules": target_modules(layers, blocks),
        "task_type": "CAUSAL_LM",
        "use_dora": false,
        "use_rslora": lora.rslora,
    })
}

fn readme(lora: &LoraConfig, layers: &[AdaptedLayer], blocks: usize, base: &str) -> String {
    let LoraConfig { r, alpha, .. } = lora;
    format!(
        "---\nbase_model: {}\nlibrary_name: peft\ntags:\n- lora\n- information-extraction\n---\n\n\
         # LoRA adapter\n\nRank {r}, alpha {alpha}, on {}. Written by `understudy`; load it with\n\n\
         ```python\nfrom peft import PeftModel\nmodel = PeftModel.from_pretrained(base, \"this directory\")\n```\n",
        Value::from(base),
        target_modules(layers, blocks).join(", "),
    )
}
