//! What a sentence-transformers directory says of itself: the BERT's shape, how its states become
//! one vector, how many tokens are read. What is said is followed or refused, never guessed.

use super::error::EmbedError;
use serde_json::{Map, Value};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Configurations above this size are refused, in bytes; known ones have a thousandth.
pub(super) const MAX_JSON: u64 = 1 << 20;

/// The shape of the encoder and what is done with its states.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub inner: usize,
    pub vocab: usize,
    /// Rows of the table of positions.
    pub positions: usize,
    /// Rows of the table of token types; only the first is used.
    pub types: usize,
    pub epsilon: f32,
    /// Most tokens of a text, the two around it included.
    pub tokens: usize,
    /// Whether texts are lower-cased before the tokenizer sees them.
    pub lower: bool,
    /// Whether vectors are scaled to length 1.
    pub normalise: bool,
}

/// One JSON object, its file, and the keys that were looked at.
struct Said {
    path: PathBuf,
    json: Map<String, Value>,
}

impl Said {
    /// Reads an object; `None` where there is no such file.
    fn find(path: PathBuf) -> Result<Option<Said>, EmbedError> {
        match read_json(&path)? {
            None => Ok(None),
            Some(Value::Object(json)) => Ok(Some(Said { path, json })),
            Some(_) => Err(EmbedError::file(&path, "expected a JSON object")),
        }
    }

    fn need(path: PathBuf, why: &str) -> Result<Said, EmbedError> {
        Said::find(path.clone())?.ok_or_else(|| EmbedError::file(path, format!("not found; {why}")))
    }

    fn wrong(&self, key: &str, expected: &str) -> EmbedError {
        match self.json.get(key) {
            Some(found) => EmbedError::file(&self.path, format!("\"{key}\": expected {expected}, found {found}")),
            None => EmbedError::file(&self.path, format!("\"{key}\" is missing; expected {expected}")),
        }
    }

    fn count(&self, key: &str) -> Result<usize, EmbedError> {
        let count = self.json.get(key).and_then(Value::as_u64).filter(|count| (1..=1 << 24).contains(count));
        count.map(|count| count as usize).ok_or_else(|| self.wrong(key, "a whole number from 1 to 16777216"))
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, EmbedError> {
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong(key, "true or false")),
        }
    }

    /// Refuses any value but this one; a key that is absent or null is as good as it.
    fn only(&self, key: &str, known: &str) -> Result<(), EmbedError> {
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(found)) if found == known => Ok(()),
            Some(_) => Err(self.wrong(key, &format!("\"{known}\", the only one that is computed here"))),
        }
    }
}

impl Shape {
    /// Reads the files of a directory.
    pub fn read(folder: &Path) -> Result<Shape, EmbedError> {
        let mut shape = bert(folder)?;
        let (pooling, normalise) = modules(folder)?;
        pooled_by_mean(&folder.join(pooling), shape.hidden)?;
        shape.normalise = normalise;
        sentence(folder, &mut shape)?;
        no_prompt(folder)?;
        Ok(shape)
    }
}

fn bert(folder: &Path) -> Result<Shape, EmbedError> {
    let said = Said::need(folder.join("config.json"), "an encoder is a sentence-transformers directory")?;
    if said.json.get("model_type").and_then(Value::as_str) != Some("bert") {
        return Err(said.wrong("model_type", "\"bert\"; other architectures are not computed here"));
    }
    said.only("hidden_act", "gelu")?;
    said.only("position_embedding_type", "absolute")?;
    for key in ["is_decoder", "add_cross_attention"] {
        if said.flag(key, false)? {
            return Err(said.wrong(key, "false: an encoder"));
        }
    }
    if said.json.get("quantization_config").is_some_and(|value| !value.is_null()) {
        return Err(said.wrong("quantization_config", "none: quantised encoders are not read"));
    }
    let epsilon = said.json.get("layer_norm_eps").and_then(Value::as_f64).filter(|value| (0.0..=0.1).contains(value));
    let shape = Shape {
        hidden: said.count("hidden_size")?,
        layers: said.count("num_hidden_layers")?,
        heads: said.count("num_attention_heads")?,
        inner: said.count("intermediate_size")?,
        vocab: said.count("vocab_size")?,
        positions: said.count("max_position_embeddings")?,
        types: said.count("type_vocab_size")?,
        epsilon: epsilon.ok_or_else(|| said.wrong("layer_norm_eps", "a number from 0 to 0.1"))? as f32,
        tokens: 0,
        lower: false,
        normalise: false,
    };
    match shape.hidden % shape.heads {
        0 => Ok(shape),
        _ => Err(said.wrong("num_attention_heads", &format!("a divisor of hidden_size, {}", shape.hidden))),
    }
}

/// The folder of the pooling, and whether vectors are scaled to length 1.
fn modules(folder: &Path) -> Result<(String, bool), EmbedError> {
    let path = folder.join("modules.json");
    let why = "it says how the states of the tokens become one vector; a plain BERT is no sentence encoder";
    let json = read_json(&path)?.ok_or_else(|| EmbedError::file(&path, format!("not found; {why}")))?;
    let fail = |cause: String| EmbedError::file(&path, cause);
    let list = json.as_array().ok_or_else(|| fail("expected a list of modules".into()))?;
    let mut kinds = Vec::new();
    for module in list {
        let kind = module["type"].as_str().unwrap_or_default();
        let name = kind.strip_prefix("sentence_transformers.").and_then(|rest| rest.rsplit('.').next());
        kinds.push(name.ok_or_else(|| fail(format!("the module \"{kind}\" is not one of sentence-transformers")))?);
    }
    let normalise = match kinds[..] {
        ["Transformer", "Pooling"] => false,
        ["Transformer", "Pooling", "Normalize"] => true,
        _ => {
            let found = kinds.join(", ");
            return Err(fail(format!("expected Transformer, Pooling and perhaps Normalize, found {found}")));
        }
    };
    let place = |at: usize| list[at]["path"].as_str().unwrap_or_default();
    if !place(0).is_empty() {
        return Err(fail(format!("the Transformer stands in \"{}\"; expected the directory itself", place(0))));
    }
    let pooling = place(1);
    match Path::new(pooling).file_name().is_some_and(|name| name == pooling) {
        true => Ok((pooling.to_owned(), normalise)),
        false => Err(fail(format!("the Pooling stands in \"{pooling}\"; expected a folder of the directory"))),
    }
}

fn pooled_by_mean(folder: &Path, hidden: usize) -> Result<(), EmbedError> {
    let said = Said::need(folder.join("config.json"), "it says how vectors are pooled")?;
    let mut mean = false;
    for (key, value) in &said.json {
        match (key.as_str(), value) {
            ("word_embedding_dimension" | "embedding_dimension", value) => {
                if value.as_u64() != Some(hidden as u64) {
                    return Err(said.wrong(key, &format!("hidden_size, {hidden}")));
                }
            }
            ("pooling_mode_mean_tokens", Value::Bool(on)) => mean = *on,
            ("pooling_mode", Value::String(mode)) if mode == "mean" => mean = true,
            // Only of consequence where a prompt stands before the text, which is refused.
            ("include_prompt", Value::Bool(_)) => {}
            (other, Value::Bool(false)) if other.starts_with("pooling_mode_") => {}
            _ => return Err(said.wrong(key, "mean pooling and nothing else")),
        }
    }
    match mean {
        true => Ok(()),
        false => Err(said.wrong("pooling_mode_mean_tokens", "true: mean pooling is what is computed here")),
    }
}

/// How many tokens are read, and whether texts are lower-cased.
fn sentence(folder: &Path, shape: &mut Shape) -> Result<(), EmbedError> {
    let said = Said::need(folder.join("sentence_bert_config.json"), "it says how many tokens of a text are read")?;
    shape.tokens = said.count("max_seq_length")?;
    if !(3..=shape.positions).contains(&shape.tokens) {
        return Err(said.wrong("max_seq_length", &format!("3 to {}, the positions of the model", shape.positions)));
    }
    shape.lower = said.flag("do_lower_case", false)?;
    let known = ["max_seq_length", "do_lower_case"];
    let other = said.json.iter().find(|(key, value)| !known.contains(&key.as_str()) && !value.is_null());
    other.map_or(Ok(()), |(key, _)| Err(said.wrong(key, "no such key: what it asks for is not known here")))
}

/// Refuses a model that sets words of its own before every text.
fn no_prompt(folder: &Path) -> Result<(), EmbedError> {
    let Some(said) = Said::find(folder.join("config_sentence_transformers.json"))? else { return Ok(()) };
    match said.json.get("default_prompt_name") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(said.wrong("default_prompt_name", "none: prompts before texts are not supported")),
    }
}

fn read_json(path: &Path) -> Result<Option<Value>, EmbedError> {
    let Some(bytes) = read_bytes(path, MAX_JSON)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| EmbedError::file(path, format!("not JSON: {error}")))
}

/// Reads a regular file of at most this many bytes; `None` where there is none.
pub(super) fn read_bytes(path: &Path, most: u64) -> Result<Option<Vec<u8>>, EmbedError> {
    let fail = |error: std::io::Error| EmbedError::file(path, error);
    let kind = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        kind => kind.map_err(fail)?,
    };
    // A pipe would wait for ever, a device would never end.
    if !kind.is_file() {
        return Err(EmbedError::file(path, "not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes)).map_err(fail)?;
    if bytes.len() as u64 > most {
        return Err(EmbedError::file(path, format!("larger than {most} bytes")));
    }
    if bytes.starts_with(b"version https://git-lfs") {
        return Err(EmbedError::file(path, "this is a Git LFS pointer, not the file; run `git lfs pull`"));
    }
    Ok(Some(bytes))
}
