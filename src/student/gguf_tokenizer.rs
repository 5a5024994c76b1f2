//! The tokenizer inside a GGUF file, written out as the `tokenizer.json` it was made from.

use super::error::{Result, StudentError};
use super::gguf::Gguf;
use super::tokenizer::Parts;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Token types of llama.cpp (`llama_token_type`).
const CONTROL: i128 = 3;
const USER_DEFINED: i128 = 4;

/// Words, digits and punctuation as Llama 3 splits them.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The same with single digits, as Qwen2 splits them.
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Words by their case, single digits, as the Tekken vocabulary of Mistral splits them.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Everything that the file says about its tokens.
pub(crate) fn parts(gguf: &Gguf) -> Result<Parts> {
    let fail = |cause: String| StudentError::file(gguf.path(), cause);
    let kind = gguf.text("tokenizer.ggml.model")?;
    if kind != "gpt2" {
        return Err(fail(format!("tokenizer \"{kind}\" is not supported; expected \"gpt2\" (byte-level BPE)")));
    }
    let tokens = gguf.texts("tokenizer.ggml.tokens")?;
    let types = gguf.ints("tokenizer.ggml.token_type")?;
    if types.len() != tokens.len() {
        return Err(fail(format!("{} tokens but {} token types", tokens.len(), types.len())));
    }
    let mut vocab = Map::new();
    for (id, token) in tokens.iter().enumerate() {
        if vocab.insert((*token).to_owned(), id.into()).is_some() {
            return Err(fail(format!("token {id} \"{token}\" appears twice")));
        }
    }
    let added: Vec<Value> = (tokens.iter().zip(&types).enumerate())
        .filter(|(_, (_, kind))| **kind == CONTROL || **kind == USER_DEFINED)
        .map(|(id, (token, kind))| added(id, token, *kind == CONTROL))
        .collect();
    let pre = gguf.text_if("tokenizer.ggml.pre")?.unwrap_or("default");
    let (normalizer, pre_tokenizer, ignore_merges) = split_as(pre).ok_or_else(|| {
        fail(format!(
            "pre-tokenizer \"{pre}\" is not supported; expected smollm, llama-bpe, qwen2, tekken, gpt-2 or default"
        ))
    })?;
    let merges = gguf.texts("tokenizer.ggml.merges")?;
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": null,
        "decoder": byte_level(true),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": ignore_merges, "vocab": vocab, "merges": merges,
        },
    });
    let mut named = Vec::new();
    let mut stops = BTreeSet::new();
    for name in ["bos", "eos", "padding", "unknown", "eot", "eom"] {
        let Some(id) = gguf.count_if(&format!("tokenizer.ggml.{name}_token_id"))? else { continue };
        let Some(text) = tokens.get(id) else {
            return Err(fail(format!("{name}_token_id {id} is outside the vocabulary of {}", tokens.len())));
        };
        if matches!(name, "eos" | "eot" | "eom") {
            stops.insert(id as u32);
        }
        let called = match name {
            "bos" => "bos_token",
            "eos" => "eos_token",
            "padding" => "pad_token",
            "unknown" => "unk_token",
            _ => continue,
        };
        named.push((called.to_owned(), (*text).to_owned()));
    }
    let template = gguf.text_if("tokenizer.chat_template")?.map(str::to_owned);
    Ok(Parts { tokenizer, template, named, stops })
}

fn added(id: usize, text: &str, special: bool) -> Value {
    json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
           "normalized": false, "special": special})
}

fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

/// Normalizer, pre-tokenizer, and whether whole words skip the merges.
fn split_as(pre: &str) -> Option<(Value, Value, bool)> {
    let by = |pattern: &str| {
        let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        json!({"type": "Sequence", "pretokenizers": [split, byte_level(false)]})
    };
    Some(match pre {
        "smollm" => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            (Value::Null, json!({"type": "Sequence", "pretokenizers": [digits, byte_level(true)]}), false)
        }
        "gpt-2" | "default" => (Value::Null, byte_level(true), false),
        "llama-bpe" | "llama3" | "llama-v3" => (Value::Null, by(LLAMA3), true),
        "tekken" => (Value::Null, by(TEKKEN), true),
        "qwen2" | "deepseek-r1-qwen" => (json!({"type": "NFC"}), by(QWEN2), false),
        _ => return None,
    })
}
