//! Adapters as PEFT directories: what PEFT writes is read with PEFT's meaning, and what is written
//! loads in PEFT unchanged.

mod config;
mod targets;
#[cfg(test)]
mod tests;
mod write;

use super::error::{Result, StudentError};
use super::lora::{Adapter, LoraConfig, TARGETS, last_part, materialised};
use super::model::{Model, linear_name};
use super::safetensors::Shard;
use super::weights::read_text;
use burn::tensor::{Tensor, TensorData};
use config::AdapterConfig;
use std::collections::BTreeMap;
use std::path::Path;

/// What PEFT puts before every name.
const PREFIX: &str = "base_model.model.";
/// The tensors of an adapter.
const WEIGHTS: &str = "adapter_model.safetensors";
/// The settings of an adapter.
const CONFIG: &str = "adapter_config.json";

impl Model {
    /// Puts an adapter that PEFT or this program wrote onto the model. Also returns the settings
    /// that were not understood and ignored.
    pub fn with_peft(mut self, dir: &Path) -> Result<(Model, Vec<String>)> {
        let path = dir.join(CONFIG);
        let text = read_text(&path)?.ok_or_else(|| StudentError::file(&path, "not found; expected a PEFT adapter"))?;
        let config = AdapterConfig::parse(&text, &path)?;
        let (matched, idle) = targets::matched(&config, &self).map_err(|cause| StudentError::file(&path, cause))?;
        let mut stored = Stored::open(dir)?;
        let mut adapters = BTreeMap::new();
        for target in &matched {
            let at = (target.layer, target.place);
            let [inputs, outputs] = self.blocks[target.layer].linear(target.place).weight.dims();
            let mut factor = |which: &str, dims: [usize; 2]| -> Result<Tensor<2>> {
                let numbers = stored.take(&linear_name(target.layer, target.place), which, dims)?;
                let read: Tensor<2> = Tensor::from_data(TensorData::new(numbers, dims), &self.device);
                Ok(materialised(read.transpose(), &self.device))
            };
            let (a, b) = (factor("A", [target.r, inputs])?, factor("B", [outputs, target.r])?);
            let own = LoraConfig { r: target.r, alpha: target.alpha, ..config.lora.clone() };
            adapters.insert(at, Adapter { a, b, alpha: own.alpha, scale: own.scale(), dropout: own.dropout });
        }
        stored.finish()?;
        for (layer, block) in self.blocks.iter_mut().enumerate() {
            for place in 0..TARGETS.len() {
                block.linear_mut(place).adapter = adapters.remove(&(layer, place));
            }
        }
        let mut lora = config.lora;
        let layers = self.adapted_layers();
        lora.targets = write::target_modules(&layers, self.blocks.len()).into_iter().map(str::to_owned).collect();
        self.lora = Some(lora);
        Ok((self, config.ignored.into_iter().chain(idle).collect()))
    }
}

/// The tensors of an adapter, by the names that PEFT gives them today.
struct Stored {
    shard: Shard,
    path: std::path::PathBuf,
    /// Today's name to the stored one, for those not taken yet.
    left: BTreeMap<String, String>,
}

impl Stored {
    fn open(dir: &Path) -> Result<Stored> {
        let path = dir.join(WEIGHTS);
        if !path.exists() && dir.join("adapter_model.bin").exists() {
            let cause = "not found; pickled adapters (adapter_model.bin) are not read: load and save them again with \
                         PEFT, which writes safetensors";
            return Err(StudentError::file(&path, cause));
        }
        let shard = Shard::open(&path)?;
        let mut left = BTreeMap::new();
        for name in shard.names() {
            if let Some(other) = left.insert(plain_name(name), name.to_owned()) {
                return Err(StudentError::file(&path, format!("\"{other}\" and \"{name}\" are the same factor")));
            }
        }
        Ok(Stored { shard, path, left })
    }

    /// One factor of a layer, in its stored orientation.
    fn take(&mut self, layer: &str, which: &str, dims: [usize; 2]) -> Result<Vec<f32>> {
        let fail = |cause: String| StudentError::file(&self.path, cause);
        let plain = format!("{layer}.lora_{which}.weight");
        let Some(name) = self.left.remove(&plain) else {
            return Err(fail(format!("\"{PREFIX}{plain}\" is missing, though {CONFIG} adapts {layer}")));
        };
        let found = self.shard.dims(&name).unwrap_or_default();
        if found != dims {
            return Err(fail(format!("\"{name}\": expected dimensions {dims:?}, found {found:?}")));
        }
        let numbers = self.shard.to_f32(&name)?;
        match numbers.iter().find(|x| !x.is_finite()) {
            Some(x) => Err(fail(format!("\"{name}\" holds {x}; expected finite numbers"))),
            None => Ok(numbers),
        }
    }

    /// Every tensor must have been taken: what is left over would have changed the result.
    fn finish(self) -> Result<()> {
        let Some((plain, name)) = self.left.first_key_value() else { return Ok(()) };
        let why = match last_part(plain) {
            "lora_magnitude_vector" => "a magnitude of DoRA, which is not supported",
            "lora_embedding_A" | "lora_embedding_B" => "a factor on the embedding, which is not supported",
            _ if plain.contains("lora_magnitude_vector") => "a magnitude of DoRA, which is not supported",
            _ if plain.ends_with(".bias") => "a bias, which is not supported",
            _ if !plain.contains("lora_") => "a weight of the base model, which is not read from an adapter",
            _ => "and no module that its config adapts in this model has it",
        };
        let more = match self.left.len() - 1 {
            0 => String::new(),
            more => format!(" ({more} more like it)"),
        };
        Err(StudentError::file(&self.path, format!("holds \"{name}\", {why}{more}")))
    }
}

/// The name PEFT gives a factor today, without its prefix: wrappers of training frameworks and the
/// adapter's own name, which some of them leave in, are taken out.
fn plain_name(stored: &str) -> String {
    let mut name = stored;
    while let Some(rest) = ["module.", "_orig_mod.", PREFIX].iter().find_map(|wrapper| name.strip_prefix(wrapper)) {
        name = rest;
    }
    let name = name.replace("._orig_mod.", ".");
    ["A", "B"].iter().fold(name, |name, which| match name.strip_suffix(&format!(".lora_{which}.default.weight")) {
        Some(layer) => format!("{layer}.lora_{which}.weight"),
        None => name,
    })
}
