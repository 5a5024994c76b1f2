//! The tokenizer files of a Hugging Face directory, and the checks before the library may build a
//! tokenizer of what somebody else wrote.

use super::error::{Result, StudentError};
use super::tokenizer::Parts;
use super::weights::{read_text, read_text_of};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use tokenizers::Tokenizer;

/// `tokenizer.json` above this size is refused, in bytes; that of 256 000 tokens has half of it.
const MAX_TOKENIZER: u64 = 64 << 20;
/// JSON with more commas and brackets than this is refused: every value takes some 70 bytes.
const MAX_VALUES: usize = 4 << 20;

/// The parts of a `tokenizer.json` that byte-level BPE and the BPE of Llama 2 are made of. The
/// others are for other families; some end the program on files that are not sound.
const STEPS: [(&str, &[&str]); 3] = [
    ("normalizer", &["Sequence", "NFC", "NFD", "NFKC", "NFKD", "Prepend", "Replace", "Lowercase", "Strip"]),
    (
        "pre_tokenizer",
        &["Sequence", "ByteLevel", "Split", "Digits", "Metaspace", "Punctuation", "Whitespace", "WhitespaceSplit"],
    ),
    ("decoder", &["Sequence", "ByteLevel", "Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"]),
];

/// What encodes and decodes.
pub(crate) struct Built {
    /// Texts that stand behind others.
    pub tokenizer: Tokenizer,
    /// Texts that nothing stands before, where these get a space of their own (`prepend_scheme`
    /// "first"). The library would take every piece that is encoded by itself for such a text.
    pub opening: Option<Tokenizer>,
}

/// Builds the tokenizer without the steps that only other uses need: nothing is cut, filled up or
/// added to what is encoded here.
pub(crate) fn build(json: &Value) -> std::result::Result<Built, String> {
    let mut json = json.clone();
    if !json.is_object() {
        return Err("the tokenizer is not a JSON object".into());
    }
    let kind = json.get("model").and_then(|model| model.get("type")).and_then(Value::as_str).unwrap_or("BPE");
    match kind {
        "BPE" => check_bpe(&json["model"])?,
        // One token a word, as small models are tested with.
        "WordLevel" => (),
        other => return Err(format!("tokenizers of the kind \"{other}\" are not supported; expected \"BPE\"")),
    }
    for (step, known) in STEPS {
        check_step(step, known, &json[step], 0)?;
    }
    for unused in ["truncation", "padding", "post_processor"] {
        json[unused] = Value::Null;
    }
    let sound = |json: &Value| -> std::result::Result<Tokenizer, String> {
        let built = Tokenizer::from_bytes(json.to_string());
        let mut tokenizer = built.map_err(|e| format!("the tokenizer cannot be built: {e}"))?;
        tokenizer.set_encode_special_tokens(true);
        Ok(tokenizer)
    };
    let split = &json["pre_tokenizer"];
    if split["type"] != "Metaspace" || split["prepend_scheme"] != "first" {
        return Ok(Built { tokenizer: sound(&json)?, opening: None });
    }
    let opening = Some(sound(&json)?);
    json["pre_tokenizer"]["prepend_scheme"] = "never".into();
    Ok(Built { tokenizer: sound(&json)?, opening })
}

/// Refuses a BPE model that is not the same every time, or on which the library would end the program.
fn check_bpe(model: &Value) -> std::result::Result<(), String> {
    if model["dropout"].as_f64().is_some_and(|share| share != 0.0) {
        return Err("a tokenizer that drops merges at random (\"dropout\") is not supported".into());
    }
    for affix in ["continuing_subword_prefix", "end_of_word_suffix"] {
        if model[affix].as_str().is_some_and(|affix| !affix.is_empty()) {
            return Err(format!("a tokenizer with \"{affix}\" is not supported"));
        }
    }
    let (Some(vocab), Some(merges)) = (model["vocab"].as_object(), model["merges"].as_array()) else {
        return Err("the tokenizer has no \"vocab\" object or no \"merges\" list".into());
    };
    for merge in merges.iter().filter(|merge| !merge.as_str().is_some_and(|merge| merge.starts_with("#version"))) {
        let pair = match merge {
            Value::String(pair) => pair.split_once(' '),
            Value::Array(pair) => match &pair[..] {
                [Value::String(a), Value::String(b)] => Some((&a[..], &b[..])),
                _ => None,
            },
            _ => None,
        };
        let (a, b) = pair.ok_or_else(|| format!("the merge {merge} is not a pair"))?;
        for part in [a, b, &format!("{a}{b}")] {
            if !vocab.contains_key(part) {
                return Err(format!("the merge {merge} names \"{part}\", which is not in the vocabulary"));
            }
        }
    }
    Ok(())
}

/// Refuses a step of an unknown kind, in sequences too.
fn check_step(step: &str, known: &[&str], json: &Value, depth: usize) -> std::result::Result<(), String> {
    if json.is_null() {
        return Ok(());
    }
    let kind = json.get("type").and_then(Value::as_str).unwrap_or_default();
    if !known.contains(&kind) || depth > 4 {
        return Err(format!("the {step} \"{kind}\" is not supported; expected one of {}", known.join(", ")));
    }
    if step == "decoder" && kind == "Strip" && json["stop"].as_u64() != Some(0) {
        return Err("the decoder \"Strip\" at the end of a token is not supported".into());
    }
    let parts = json.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_array());
    for part in parts.filter(|_| kind == "Sequence").flatten() {
        check_step(step, known, part, depth + 1)?;
    }
    Ok(())
}

/// Reads the tokenizer files of a Hugging Face directory.
pub(crate) fn directory_parts(path: &Path) -> Result<Parts> {
    let json = |name: &str| -> Result<Option<Value>> {
        let at = path.join(name);
        let text = if name == "tokenizer.json" { read_text_of(&at, MAX_TOKENIZER)? } else { read_text(&at)? };
        let Some(text) = text else { return Ok(None) };
        if text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() > MAX_VALUES {
            return Err(StudentError::file(&at, format!("more than {MAX_VALUES} values")));
        }
        serde_json::from_str(&text).map(Some).map_err(|e| StudentError::file(&at, format!("not JSON: {e}")))
    };
    let tokenizer = json("tokenizer.json")?.ok_or_else(|| {
        StudentError::file(path.join("tokenizer.json"), "not found; slow tokenizers (tokenizer.model) are not read")
    })?;
    let config = json("tokenizer_config.json")?.unwrap_or(Value::Null);
    let map = json("special_tokens_map.json")?.unwrap_or(Value::Null);
    let template = match read_text(&path.join("chat_template.jinja"))? {
        Some(template) => Some(template),
        None => template_entry(config.get("chat_template").unwrap_or(&Value::Null)),
    };
    let mut named = Vec::new();
    for name in ["bos_token", "eos_token", "pad_token", "unk_token"] {
        let text = |json: &Value| {
            let value = json.get(name)?;
            value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
        };
        if let Some(text) = text(&config).or_else(|| text(&map)) {
            named.push((name.to_owned(), text));
        }
    }
    let mut stops = BTreeSet::new();
    for file in ["generation_config.json", "config.json"] {
        let ids = json(file)?.and_then(|json| json.get("eos_token_id").cloned()).unwrap_or(Value::Null);
        let ids = ids.as_array().cloned().unwrap_or_else(|| vec![ids]);
        stops.extend(ids.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()));
    }
    let eos = named.iter().find(|(name, _)| name == "eos_token");
    let added = tokenizer.get("added_tokens").and_then(Value::as_array);
    if let (Some((_, eos)), Some(added)) = (eos, added) {
        let is_eos = |token: &&Value| token.get("content").and_then(Value::as_str) == Some(eos);
        let id = added.iter().find(is_eos).and_then(|token| token.get("id")?.as_u64());
        stops.extend(id.and_then(|id| u32::try_from(id).ok()));
    }
    Ok(Parts { tokenizer, template, named, stops })
}

/// One template, or a list of named ones of which `default` counts.
fn template_entry(entry: &Value) -> Option<String> {
    if let Some(list) = entry.as_array() {
        let default = list.iter().find(|one| one.get("name").and_then(Value::as_str) == Some("default"))?;
        return default.get("template")?.as_str().map(str::to_owned);
    }
    entry.as_str().map(str::to_owned)
}
