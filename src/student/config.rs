//! The shape of a model, read from `config.json` or from GGUF metadata and checked once: whatever
//! this program does not compute exactly is refused by name.

use super::error::{Result, StudentError};
use super::fields::Fields;
use super::gguf::Gguf;
use super::scaling::RopeScaling;
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

    /// From a Hugging Face `config.json`; `path` names it in errors. What is absent has the default
    /// of `transformers`.
    pub fn from_json(text: &str, path: &Path) -> Result<ModelConfig> {
        let json: Value = serde_json::from_str(text).map_err(|e| StudentError::file(path, format!("not JSON: {e}")))?;
        let at = Fields { json: &json, path };
        if !json.is_object() {
            return Err(at.fail("expected a JSON object"));
        }
        let model_type = at.text("model_type")?;
        let family = match model_type {
            "llama" | "mistral" => Family::Llama,
            "qwen2" => Family::Qwen2,
            "qwen3" => Family::Qwen3,
            other => return Err(unknown_family(path, other)),
        };
        let mistral = model_type == "mistral";
        let act = at.find_text("hidden_act")?.unwrap_or("silu");
        if act != "silu" && act != "swish" {
            return Err(at.fail(format!("hidden_act \"{act}\" is not supported; expected \"silu\"")));
        }
        if at.flag("mlp_bias", false)? {
            return Err(at.fail("mlp_bias true is not supported"));
        }
        if let Some(how) = at.object("quantization_config")? {
            let method = how.find_text("quant_method")?.unwrap_or("unnamed");
            let cause = format!("weights quantised by \"{method}\" are not supported; expected F32, F16 or BF16");
            return Err(at.fail(cause));
        }
        let context = match family {
            _ if mistral => 131_072,
            Family::Llama => 2048,
            Family::Qwen2 | Family::Qwen3 => 32_768,
        };
        let context = at.count_or("max_position_embeddings", context)?;
        let layers = at.count("num_hidden_layers")?;
        refuse_window(&at, family, mistral, layers, context)?;
        let heads = at.count("num_attention_heads")?;
        let d_model = at.count("hidden_size")?;
        let kv_heads = match family {
            _ if mistral => 8,
            Family::Llama => heads,
            Family::Qwen2 | Family::Qwen3 => 32,
        };
        let head_dim = if family == Family::Qwen3 { 128 } else { d_model / heads };
        // Only these two families ask; Qwen2 always has biases on q, k and v, Mistral never any.
        let bias = at.flag("attention_bias", false)? && !mistral && family != Family::Qwen2;
        let (rope_theta, rope_scaling) = RopeScaling::from_json(&at, context)?;
        ModelConfig {
            family,
            vocab: at.count("vocab_size")?,
            d_model,
            layers,
            heads,
            kv_heads: at.count_or_null("num_key_value_heads", kv_heads, heads)?,
            head_dim: at.count_or_null("head_dim", head_dim, d_model / heads)?,
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
        let refuse = |cause: String| Err(StudentError::file(path, cause));
        let parts = gguf.count_or("split.count", 1)?;
        if parts > 1 {
            return refuse(format!("one part of {parts}; join them first: llama-gguf-split --merge"));
        }
        let heads = gguf.count(&key("attention.head_count"))?;
        let d_model = gguf.count(&key("embedding_length"))?;
        if heads == 0 {
            return refuse("attention.head_count is 0".into());
        }
        let head_dim = gguf.count_or(&key("attention.key_length"), d_model / heads)?;
        if gguf.count_or(&key("attention.value_length"), head_dim)? != head_dim {
            return refuse("values of another width than keys are not supported".into());
        }
        if gguf.count_or(&key("rope.dimension_count"), head_dim)? != head_dim {
            return refuse("rotary embedding of a part of the head is not supported".into());
        }
        let experts = gguf.count_or(&key("expert_count"), 0)?;
        if experts > 0 {
            return refuse(format!("a mixture of {experts} experts is not supported"));
        }
        let context = gguf.count_or(&key("context_length"), 2048)?;
        let window = gguf.count_or(&key("attention.sliding_window"), 0)?;
        if (1..context).contains(&window) {
            return refuse(format!(
                "attention.sliding_window {window} below the context of {context} tokens is not supported"
            ));
        }
        ModelConfig {
            family,
            vocab: gguf.dims("token_embd.weight")?[0],
            d_model,
            layers: gguf.count(&key("block_count"))?,
            heads,
            kv_heads: gguf.count_or(&key("attention.head_count_kv"), heads)?,
            head_dim,
            mlp: gguf.count(&key("feed_forward_length"))?,
            norm_eps: gguf.number(&key("attention.layer_norm_rms_epsilon"))?,
            rope_theta: gguf.number_or(&key("rope.freq_base"), 10000.0)?,
            rope_scaling: RopeScaling::from_gguf(gguf, arch, context)?,
            tied: !gguf.has("output.weight"),
            qkv_bias: family == Family::Qwen2 || gguf.has("blk.0.attn_q.bias"),
            out_bias: gguf.has("blk.0.attn_output.bias"),
            context,
        }
        .checked(path)
    }

    /// As a `config.json` that `transformers` reads and [`ModelConfig::from_json`] reads back the same.
    pub fn to_json(&self) -> Value {
        let (model_type, class) = match self.family {
            Family::Llama => ("llama", "LlamaForCausalLM"),
            Family::Qwen2 => ("qwen2", "Qwen2ForCausalLM"),
            Family::Qwen3 => ("qwen3", "Qwen3ForCausalLM"),
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
            "rope_scaling": self.rope_scaling.to_json(self.context),
            "max_position_embeddings": self.context,
            "tie_word_embeddings": self.tied,
            "attention_bias": self.out_bias,
            "mlp_bias": false,
            "torch_dtype": "float32",
        })
    }

    /// The same, or why it cannot be computed.
    pub(crate) fn checked(self, path: &Path) -> Result<ModelConfig> {
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
        let sane = |x: f64| (1e-30..1e30).contains(&x);
        if !sane(self.norm_eps) || !sane(self.rope_theta) {
            return Err(StudentError::file(
                path,
                "RMSNorm epsilon and rope theta must be numbers above 0 (1e-30 to 1e30)",
            ));
        }
        self.rope_scaling.check(self.rope_theta, self.head_dim, path)?;
        let expected = if self.family == Family::Qwen2 { (true, false) } else { (self.out_bias, self.out_bias) };
        if (self.qkv_bias, self.out_bias) != expected {
            return Err(StudentError::file(path, "this family has no biases on q, k, v and o in this combination"));
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

/// A window narrower than the context would have to be computed; one that never closes need not.
fn refuse_window(at: &Fields, family: Family, mistral: bool, layers: usize, context: usize) -> Result<()> {
    let (used, default) = match family {
        Family::Llama => (true, mistral.then_some(4096)),
        Family::Qwen2 | Family::Qwen3 => {
            let kinds = at.get("layer_types").and_then(Value::as_array);
            let named = kinds.map(|kinds| kinds.iter().any(|kind| kind.as_str() != Some("full_attention")));
            let first = at.number("max_window_layers")?.unwrap_or(28.0);
            (at.flag("use_sliding_window", false)? && named.unwrap_or(first < layers as f64), Some(4096))
        }
    };
    let default = default.filter(|_| at.json.get("sliding_window").is_none());
    let window = at.number("sliding_window")?.or(default.map(f64::from));
    match window.filter(|window| used && *window < context as f64) {
        Some(window) => Err(at.fail(format!(
            "sliding_window {window} below the context of {context} tokens is not supported; \
             where no text is longer, set max_position_embeddings to {window}"
        ))),
        None => Ok(()),
    }
}
