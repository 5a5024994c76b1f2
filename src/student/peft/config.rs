//! `adapter_config.json` as PEFT writes it: read with PEFT's meaning, and what would change the
//! result without being computed here is refused by name.

use super::targets::{MAX_ENTRIES, Pattern, Rule};
use crate::student::error::{Result, StudentError};
use crate::student::lora::LoraConfig;
use serde_json::{Map, Value};
use std::path::Path;

/// Keys that are read, or that decide nothing about what a finished adapter computes.
const KNOWN: [&str; 27] = [
    // read
    "peft_type",
    "task_type",
    "r",
    "lora_alpha",
    "lora_dropout",
    "use_rslora",
    "bias",
    "rank_pattern",
    "alpha_pattern",
    "target_modules",
    "exclude_modules",
    "layers_to_transform",
    "layers_pattern",
    "init_lora_weights",
    // decide nothing
    "base_model_name_or_path",
    "revision",
    "auto_mapping",
    "inference_mode",
    "peft_version",
    "megatron_core",
    "runtime_config",
    // of a way to begin that is over, or of a part that is refused
    "eva_config",
    "corda_config",
    "lora_ga_config",
    "loftq_config",
    "qalora_group_size",
    "ensure_weight_tying",
];

/// Keys that, when set, change what an adapter computes in a way that is not implemented.
const REFUSED: [&str; 15] = [
    "use_dora",
    "modules_to_save",
    "fan_in_fan_out",
    "lora_bias",
    "layer_replication",
    "trainable_token_indices",
    "target_parameters",
    "use_qalora",
    "use_bdlora",
    "alora_invocation_tokens",
    "megatron_config",
    "arrow_config",
    "velora_config",
    "monteclora_config",
    "kasa_config",
];

/// Ways to begin that leave the base weights as they are.
const PLAIN_STARTS: [&str; 4] = ["gaussian", "eva", "orthogonal", "mica"];

/// What the file says; nothing in it is matched against a model yet.
pub(super) struct AdapterConfig {
    /// Rank, strength and dropout; its targets are those of nobody.
    pub lora: LoraConfig,
    pub rule: Rule,
    /// In the order of the file: the first that matches counts.
    pub ranks: Vec<(Pattern, usize)>,
    pub alphas: Vec<(Pattern, f64)>,
    /// Settings that are not known, as `key = value`.
    pub ignored: Vec<String>,
}

impl AdapterConfig {
    /// Reads the text of the file at `path`.
    pub fn parse(text: &str, path: &Path) -> Result<AdapterConfig> {
        let json: Value = serde_json::from_str(text).map_err(|e| StudentError::file(path, format!("not JSON: {e}")))?;
        read(&json).map_err(|cause| StudentError::file(path, cause))
    }
}

/// A typed reading, or what is wrong with the file.
pub(super) type Read<T> = std::result::Result<T, String>;

/// Whether a setting is switched on.
pub(super) fn set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

/// A value as an error shows it, cut where it is long.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn read(json: &Value) -> Read<AdapterConfig> {
    let fields = json.as_object().ok_or("expected a JSON object")?;
    refuse(fields)?;
    let need = |key: &str, expected: &str| match json.get(key) {
        Some(found) => format!("\"{key}\": expected {expected}, found {}", shown(found)),
        None => format!("\"{key}\" is missing; expected {expected}"),
    };
    let count = |value: &Value| value.as_u64().and_then(|r| usize::try_from(r).ok());
    let flag = |key: &str| match json.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(on)) => Ok(*on),
        Some(_) => Err(need(key, "true or false")),
    };
    let dropout = match json.get("lora_dropout") {
        None | Some(Value::Null) => 0.0,
        Some(value) => value.as_f64().ok_or_else(|| need("lora_dropout", "a number"))?,
    };
    let lora = LoraConfig {
        r: json.get("r").and_then(count).ok_or_else(|| need("r", "a whole number"))?,
        alpha: json.get("lora_alpha").and_then(Value::as_f64).ok_or_else(|| need("lora_alpha", "a number"))?,
        rslora: flag("use_rslora")?,
        dropout,
        ..LoraConfig::default()
    };
    lora.check().map_err(|error| error.to_string())?;
    let ranks = patterns(fields, "rank_pattern", |value| count(value).filter(|r| (1..=4096).contains(r)))?;
    let positive = |value: &Value| value.as_f64().filter(|alpha| *alpha > 0.0 && alpha.is_finite());
    let alphas = patterns(fields, "alpha_pattern", positive)?;
    let known = |key: &str| KNOWN.contains(&key) || REFUSED.contains(&key);
    let ignored = fields.iter().filter(|(key, value)| !known(key) && set(value));
    let ignored = ignored.map(|(key, value)| format!("{key} = {}", shown(value))).collect();
    Ok(AdapterConfig { lora, rule: Rule::read(json)?, ranks, alphas, ignored })
}

/// What is not computed here is not read as if it were not there.
fn refuse(fields: &Map<String, Value>) -> Read<()> {
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    let kind = fields.get("peft_type").filter(|kind| !kind.is_null());
    if let Some(kind) = kind.filter(|kind| kind.as_str() != Some("LORA")) {
        return Err(format!("peft_type is {}, which is not supported; expected \"LORA\"", shown(kind)));
    }
    if let Some(task) = text("task_type").filter(|task| *task != "CAUSAL_LM") {
        return Err(format!("task_type is \"{task}\", which is not supported; expected \"CAUSAL_LM\""));
    }
    let bias = fields.get("bias").filter(|bias| !bias.is_null());
    if let Some(bias) = bias.filter(|bias| bias.as_str() != Some("none")) {
        return Err(format!("bias is {}, which is not supported; expected \"none\"", shown(bias)));
    }
    let start = fields.get("init_lora_weights").unwrap_or(&Value::Null);
    let plain = match start {
        Value::Null | Value::Bool(_) => true,
        other => other.as_str().is_some_and(|name| PLAIN_STARTS.contains(&name.to_lowercase().as_str())),
    };
    if !plain {
        return Err(format!(
            "init_lora_weights is {}, which changes the base weights; convert the adapter to a plain one with PEFT's \
             save_pretrained(…, path_initial_model_for_weight_conversion=…)",
            shown(start)
        ));
    }
    match REFUSED.iter().find_map(|key| Some((key, fields.get(*key).filter(|value| set(value))?))) {
        Some((key, value)) => Err(format!("{key} is {}, which is not supported", shown(value))),
        None => Ok(()),
    }
}

/// `rank_pattern` or `alpha_pattern`.
fn patterns<T>(fields: &Map<String, Value>, key: &str, value: impl Fn(&Value) -> Option<T>) -> Read<Vec<(Pattern, T)>> {
    let patterns = match fields.get(key) {
        None | Some(Value::Null) => return Ok(vec![]),
        Some(Value::Object(patterns)) if patterns.len() <= MAX_ENTRIES => patterns,
        Some(other) => {
            return Err(format!(
                "\"{key}\": expected an object of {MAX_ENTRIES} entries at most, found {}",
                shown(other)
            ));
        }
    };
    let read = |(pattern, number): (&String, &Value)| {
        let found = value(number)
            .ok_or_else(|| format!("\"{key}\": \"{pattern}\": expected a number above 0, found {}", shown(number)))?;
        Ok((Pattern::at_the_end(key, pattern)?, found))
    };
    patterns.iter().map(read).collect()
}
