//! The tokenizer inside a GGUF file, written out as the `tokenizer.json` it was made from.

use super::error::{Result, StudentError};
use super::gguf::Gguf;
use super::tokenizer::Parts;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashSet};

/// Token types of llama.cpp (`llama_token_type`).
const NORMAL: i128 = 1;
const UNKNOWN: i128 = 2;
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
    let pieces = match kind {
        "gpt2" => false,
        "llama" => true,
        other => {
            let cause = "expected \"gpt2\" (byte-level BPE) or \"llama\" (sentencepiece)";
            return Err(fail(format!("tokenizer \"{other}\" is not supported; {cause}")));
        }
    };
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
        .filter(|(_, (_, kind))| matches!(**kind, CONTROL | USER_DEFINED) || pieces && **kind == UNKNOWN)
        .map(|(id, (token, kind))| added(id, token, *kind != USER_DEFINED))
        .collect();
    let Steps { normalizer, pre_tokenizer, decoder, whole_words } = match pieces {
        true => sentencepiece(gguf.count_or("tokenizer.ggml.add_space_prefix", 1)? != 0),
        false => {
            let pre = gguf.text_if("tokenizer.ggml.pre")?.unwrap_or("default");
            let known = "smollm, llama-bpe, qwen2, tekken, gpt-2 or default";
            split_as(pre).ok_or_else(|| fail(format!("pre-tokenizer \"{pre}\" is not supported; expected {known}")))?
        }
    };
    let merges = match gguf.get("tokenizer.ggml.merges") {
        None if pieces => {
            let scores = gguf.floats("tokenizer.ggml.scores")?;
            if scores.len() != tokens.len() {
                return Err(fail(format!("{} tokens but {} scores", tokens.len(), scores.len())));
            }
            merges_by_score(&tokens, &types, &scores)
        }
        _ => json!(gguf.texts("tokenizer.ggml.merges")?),
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": null,
        "decoder": decoder,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": pieces, "byte_fallback": pieces,
            "ignore_merges": whole_words, "vocab": vocab, "merges": merges,
        },
    });
    let (named, stops) = named(gguf, &tokens)?;
    let template = gguf.text_if("tokenizer.chat_template")?.map(str::to_owned);
    Ok(Parts { tokenizer, template, named, stops })
}

/// Tokens by their use, and the ids that end an answer.
type Named = (Vec<(String, String)>, BTreeSet<u32>);

/// The tokens that the file names.
fn named(gguf: &Gguf, tokens: &[&str]) -> Result<Named> {
    let mut named = Vec::new();
    let mut stops = BTreeSet::new();
    for name in ["bos", "eos", "padding", "unknown", "eot", "eom"] {
        let Some(id) = gguf.count_if(&format!("tokenizer.ggml.{name}_token_id"))? else { continue };
        let Some(text) = tokens.get(id) else {
            return Err(StudentError::file(
                gguf.path(),
                format!("{name}_token_id {id} is outside the vocabulary of {}", tokens.len()),
            ));
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
    Ok((named, stops))
}

fn added(id: usize, text: &str, special: bool) -> Value {
    json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
           "normalized": false, "special": special})
}

fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

/// What happens before and behind the merges.
struct Steps {
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    /// Whether words of the vocabulary skip the merges.
    whole_words: bool,
}

/// The steps of byte-level BPE with this pre-tokenizer.
fn split_as(pre: &str) -> Option<Steps> {
    let by = |pattern: &str| {
        let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        json!({"type": "Sequence", "pretokenizers": [split, byte_level(false)]})
    };
    let (normalizer, pre_tokenizer, whole_words) = match pre {
        "smollm" => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            (Value::Null, json!({"type": "Sequence", "pretokenizers": [digits, byte_level(true)]}), false)
        }
        "gpt-2" | "default" => (Value::Null, byte_level(true), false),
        "llama-bpe" | "llama3" | "llama-v3" => (Value::Null, by(LLAMA3), true),
        "tekken" => (Value::Null, by(TEKKEN), true),
        "qwen2" | "deepseek-r1-qwen" => (json!({"type": "NFC"}), by(QWEN2), false),
        _ => return None,
    };
    Some(Steps { normalizer, pre_tokenizer, decoder: byte_level(true), whole_words })
}

/// The steps of Llama 2: spaces are written as U+2581, every text gets one of its own in front
/// (as in llama.cpp and the `tokenizer.json` of these models), unknown characters are bytes.
fn sentencepiece(prefix: bool) -> Steps {
    let replace = |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let (mut before, mut behind) = (vec![replace(" ", "\u{2581}")], vec![replace("\u{2581}", " ")]);
    behind.extend([json!({"type": "ByteFallback"}), json!({"type": "Fuse"})]);
    if prefix {
        before.insert(0, json!({"type": "Prepend", "prepend": "\u{2581}"}));
        behind.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    Steps {
        normalizer: json!({"type": "Sequence", "normalizers": before}),
        pre_tokenizer: Value::Null,
        decoder: json!({"type": "Sequence", "decoders": behind}),
        whole_words: false,
    }
}

/// Pieces of more bytes than this are not made of others; sentencepiece ends at 48.
const MAX_PIECE: usize = 128;

/// Every way to put a piece together from two others, the best piece first (as `generate_merges`
/// of transformers): sentencepiece keeps scores, not merges.
fn merges_by_score(tokens: &[&str], types: &[i128], scores: &[f64]) -> Value {
    let normal = |id: &usize| types.get(*id) == Some(&NORMAL);
    let known: HashSet<&str> = (0..tokens.len()).filter(normal).map(|id| tokens[id]).collect();
    let mut merges = Vec::new();
    for (id, score) in scores.iter().enumerate().filter(|(id, _)| normal(id)) {
        let token = tokens[id];
        for (at, _) in token.char_indices().skip(1).filter(|_| token.len() <= MAX_PIECE) {
            let (left, right) = token.split_at(at);
            if known.contains(left) && known.contains(right) {
                merges.push((*score, left, right));
            }
        }
    }
    let width = |text: &str| text.chars().count();
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(width(b.1).cmp(&width(a.1))).then(width(b.2).cmp(&width(a.2))));
    merges.into_iter().map(|(_, left, right)| json!([left, right])).collect()
}
