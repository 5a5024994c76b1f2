//! The shape of a model, read from `config.json` or from GGUF metadata and checked once: whatever
//! this program does not compute exactly is refused by name.

use super::error::{Result, StudentError};
use super::gguf::Gguf;
use serde_json::Value;
use std::path::Path;

/// The families that share the block this program computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Llama, SmolLM2, TinyLlama, Mistral.
    Llama,
    /// Qwen2 and 2.5: biases on q, k and v.
    Qwen2,
    /// Qwen3: RMSNorm on each head of q and k.
    Qwen3,
}

/// How rotary angles are stretched for long contexts.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// As trained.
    None,
    /// Every position divided by the factor.
    Linear(f64),
    /// Llama 3.1: low frequencies divided by the factor, a ramp between.
    Llama3 {
        /// How far the context was stretched.
        factor: f64,
        /// Wavelengths above `original / low` are stretched in full.
        low: f64,
        /// Wavelengths below `original / high` are kept.
        high: f64,
        /// Tokens of context before the stretch.
        original: f64,
    },
    /// One divisor per frequency, as a GGUF carries them.
    Factors(Vec<f32>),
}

/// The shape of a causal language model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Which block.
    pub family: Family,
    /// Rows of the embedding.
    pub vocab: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Width of one head; need not be `d_model / heads`.
    pub head_dim: usize,
    /// Width of the SwiGLU MLP.
    pub mlp: usize,
    /// RMSNorm epsilon.
    pub norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Stretching of the rotary angles.
    pub rope_scaling: RopeScaling,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Biases on q, k and v.
    pub qkv_bias: bool,
    /// A bias on o.
    pub out_bias: bool,
    /// Longest sequence the model was made for, in tokens.
    pub context: usize,
}

impl ModelConfig {
    /// Query heads per key-value head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// From a Hugging Face `config.json`; `path` names it in errors.
    pub fn from_json(text: &str, path: &Path) -> Result<ModelConfig> {
        let json: Value = serde_json::from_str(text).map_err(|e| StudentError::file(path, format!("not JSON: {e}")))?;
        let at = Fields { json: &json, path };
        let family = match at.text("model_type")? {
            "llama" | "mistral" => Family::Llama,
            "qwen2" => Family::Qwen2,
            "qwen3" => Family::Qwen3,
            other => return Err(unknown_family(path, other)),
        };
        let act = json.get("hidden_act").and_then(Value::as_str).unwrap_or("silu");
        if act != "silu" {
            return Err(StudentError::file(path, format!("hidden_act \"{act}\" is not supported; expected \"silu\"")));
        }
        if at.flag("mlp_bias", false)? {
            return Err(StudentError::file(path, "mlp_bias true is not supported"));
        }
        let context = at.count_or("max_position_embeddings", 2048)?;
        at.refuse_window(context)?;
        let heads = at.count("num_attention_heads")?;
        let d_model = at.count("hidden_size")?;
        let bias = at.flag("attention_bias", false)?;
        let (rope_theta, rope_scaling) = at.rope()?;
        ModelConfig {
            family,
            vocab: at.count("vocab_size")?,
            d_model,
            layers: at.count("num_hidden_layers")?,
            heads,
            kv_heads: at.count_or("num_key_value_heads", heads)?,
            head_dim: at.count_or("head_dim", d_model / heads)?,
            mlp: at.count("intermediate_size")?,
            norm_eps: at.number("rms_norm_eps")?.unwrap_or(1e-6),
            rope_theta,
            rope_scaling,
            tied: at.flag("tie_word_embeddings", false)?,
            qkv_bias: bias || family == Family::Qwen2,
            out_bias: bias,
            context,
        }
        .checked(path)
    }

    /// From the metadata of a GGUF file.
    pub(crate) fn from_gguf(gguf: &Gguf) -> Result<ModelConfig> {
        let path = gguf.path();
        let arch = gguf.text("general.architecture")?;
        let family = match arch {
            "llama" => Family::Llama,
            "qwen2" => Family::Qwen2,
            "qwen3" => Family::Qwen3,
            other => return Err(unknown_family(path, other)),
        };
        let key = |name: &str| format!("{arch}.{name}");
        let heads = gguf.count(&key("attention.head_count"))?;
        let d_model = gguf.count(&key("embedding_length"))?;
        if heads == 0 {
            return Err(StudentError::file(path, "attention.head_count is 0"));
        }
        let head_dim = gguf.count_or(&key("attention.key_length"), d_model / heads)?;
        if gguf.count_or(&key("rope.dimension_count"), head_dim)? != head_dim {
            return Err(StudentError::file(path, "rotary embedding of a part of the head is not supported"));
        }
        let rope_scaling = match gguf.find_text(&key("rope.scaling.type")).unwrap_or("none") {
            "none" => RopeScaling::None,
            "linear" => RopeScaling::Linear(gguf.number_or(&key("rope.scaling.factor"), 1.0)?),
            other => return Err(unknown_scaling(path, other)),
        };
        ModelConfig {
            family,
            vocab: gguf.dims("token_embd.weight")?[0],
            d_model,
            layers: gguf.count(&key("block_count"))?,
            heads,
            kv_heads: gguf.count_or(&key("attention.head_count_kv"), heads)?,
            head_dim,
            mlp: gguf.count(&key("feed_forward_length"))?,
            norm_eps: gguf.number_or(&key("attention.layer_norm_rms_epsilon"), 1e-5)?,
            rope_theta: gguf.number_or(&key("rope.freq_base"), 10000.0)?,
            rope_scaling,
            tied: !gguf.has("output.weight"),
            qkv_bias: family == Family::Qwen2 || gguf.has("blk.0.attn_q.bias"),
            out_bias: gguf.has("blk.0.attn_output.bias"),
            context: gguf.count_or(&key("context_length"), 2048)?,
        }
        .checked(path)
    }

    /// As a `config.json` that `transformers` reads.
    pub fn to_json(&self) -> Value {
        let (model_type, class) = match self.family {
            Family::Llama => ("llama", "LlamaForCausalLM"),
            Family::Qwen2 => ("qwen2", "Qwen2ForCausalLM"),
            Family::Qwen3 => ("qwen3", "Qwen3ForCausalLM"),
        };
        let scaling = match &self.rope_scaling {
            RopeScaling::None | RopeScaling::Factors(_) => Value::Null,
            RopeScaling::Linear(factor) => serde_json::json!({"rope_type": "linear", "factor": factor}),
            RopeScaling::Llama3 { factor, low, high, original } => serde_json::json!({
                "rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                "original_max_position_embeddings": *original as u64}),
        };
        serde_json::json!({
            "architectures": [class],
            "model_type": model_type,
            "vocab_size": self.vocab,
            "hidden_size": self.d_model,
            "intermediate_size": self.mlp,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": self.norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": scaling,
            "max_position_embeddings": self.context,
            "tie_word_embeddings": self.tied,
            "attention_bias": self.out_bias,
            "mlp_bias": false,
            "torch_dtype": "float32",
        })
    }

    fn checked(self, path: &Path) -> Result<ModelConfig> {
        let bounds = [
            ("vocab size", self.vocab, 1 << 22),
            ("hidden size", self.d_model, 1 << 16),
            ("number of layers", self.layers, 1 << 10),
            ("number of attention heads", self.heads, 1 << 10),
            ("number of key-value heads", self.kv_heads, 1 << 10),
            ("head dimension", self.head_dim, 1 << 12),
            ("MLP width", self.mlp, 1 << 18),
            ("context length", self.context, 1 << 28),
        ];
        for (what, found, most) in bounds {
            if found == 0 || found > most {
                return Err(StudentError::file(path, format!("{what} is {found}; expected 1 to {most}")));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let cause = format!("{} attention heads do not divide into {} key-value heads", self.heads, self.kv_heads);
            return Err(StudentError::file(path, cause));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(StudentError::file(path, format!("head dimension {} is odd", self.head_dim)));
        }
        let sane = |x: f64| x.is_finite() && x > 0.0;
        if !sane(self.norm_eps) || !sane(self.rope_theta) {
            return Err(StudentError::file(path, "RMSNorm epsilon and rope theta must be finite and above 0"));
        }
        let scales = match &self.rope_scaling {
            RopeScaling::Linear(factor) => sane(*factor),
            RopeScaling::Llama3 { factor, low, high, original } => {
                [*factor, *low, *high, *original].into_iter().all(sane) && high > low
            }
            _ => true,
        };
        if !scales {
            return Err(StudentError::file(path, "rope scaling factors must be finite and above 0, high above low"));
        }
        Ok(self)
    }
}

fn unknown_family(path: &Path, found: &str) -> StudentError {
    StudentError::file(
        path,
        format!("architecture \"{found}\" is not supported; expected llama, mistral, qwen2 or qwen3"),
    )
}

fn unknown_scaling(path: &Path, found: &str) -> StudentError {
    StudentError::file(
        path,
        format!("rope scaling type \"{found}\" is not supported; expected default, linear or llama3"),
    )
}

/// Typed access to one JSON object.
struct Fields<'a> {
    json: &'a Value,
    path: &'a Path,
}

impl<'a> Fields<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.json.get(key).filter(|value| !value.is_null())
    }

    fn wrong(&self, key: &str, expected: &str) -> StudentError {
        match self.get(key) {
            Some(found) => StudentError::file(self.path, format!("\"{key}\": expected {expected}, found {found}")),
            None => StudentError::file(self.path, format!("\"{key}\" is missing; expected {expected}")),
        }
    }

    fn text(&self, key: &str) -> Result<&'a str> {
        self.get(key).and_then(Value::as_str).ok_or_else(|| self.wrong(key, "a string"))
    }

    fn count(&self, key: &str) -> Result<usize> {
        let count = self.get(key).and_then(Value::as_u64).filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok());
        count.ok_or_else(|| self.wrong(key, "a whole number above 0"))
    }

    fn count_or(&self, key: &str, default: usize) -> Result<usize> {
        if self.get(key).is_none() { Ok(default) } else { self.count(key) }
    }

    fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| self.wrong(key, "a number"))
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.wrong(key, "true or false"))
    }

    fn refuse_window(&self, context: usize) -> Result<()> {
        let used = self.flag("use_sliding_window", true)?;
        match self.get("sliding_window") {
            Some(window) if used && window.as_u64().is_none_or(|w| (w as usize) < context) => Err(StudentError::file(
                self.path,
                format!("sliding_window {window} below the context of {context} tokens is not supported"),
            )),
            _ => Ok(()),
        }
    }

    /// `rope_theta` and the scaling, at the top or (newer files) inside `rope_parameters`.
    fn rope(&self) -> Result<(f64, RopeScaling)> {
        let mut theta = self.number("rope_theta")?;
        let mut scaling = RopeScaling::None;
        for key in ["rope_scaling", "rope_parameters"] {
            let Some(json) = self.get(key) else { continue };
            let inner = Fields { json, path: self.path };
            theta = inner.number("rope_theta")?.or(theta);
            let kind = inner.get("rope_type").or(inner.get("type")).and_then(Value::as_str).unwrap_or("default");
            let need = |key: &str| inner.number(key)?.ok_or_else(|| inner.wrong(key, "a number"));
            scaling = match kind {
                "default" => continue,
                "linear" => RopeScaling::Linear(need("factor")?),
                "llama3" => RopeScaling::Llama3 {
                    factor: need("factor")?,
                    low: need("low_freq_factor")?,
                    high: need("high_freq_factor")?,
                    original: need("original_max_position_embeddings")?,
                },
                other => return Err(unknown_scaling(self.path, other)),
            };
        }
        if self.number("partial_rotary_factor")?.is_some_and(|f| f != 1.0) {
            return Err(StudentError::file(self.path, "partial_rotary_factor other than 1 is not supported"));
        }
        Ok((theta.unwrap_or(10000.0), scaling))
    }
}
