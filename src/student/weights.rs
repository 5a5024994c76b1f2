//! Weight files: a Hugging Face directory or a GGUF file, seen as named f32 tensors with Hugging
//! Face names and layouts. Every tensor is used or listed, every parameter is filled, or it is an
//! error that names the tensor.

use super::config::{Family, ModelConfig};
use super::error::{Result, StudentError};
use super::gguf::Gguf;
use super::safetensors::Shard;
use super::scaling::RopeScaling;
use memmap2::Mmap;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Configurations, indices and templates above this size are refused, in bytes; known ones stay below a tenth.
const MAX_JSON: u64 = 4 << 20;

/// Where a GGUF file keeps one divisor for each rotary frequency.
const ROPE_TABLE: &str = "rope_freqs.weight";

/// An opened model: its shape and its tensors.
pub struct Weights {
    path: PathBuf,
    config: ModelConfig,
    source: Source,
    used: BTreeSet<String>,
}

enum Source {
    Directory { shards: Vec<Shard>, of: BTreeMap<String, usize> },
    Gguf { file: Gguf, names: BTreeMap<String, String> },
}

impl Weights {
    /// Opens a directory with `config.json` and safetensors, or a `.gguf` file.
    pub fn open(path: &Path) -> Result<Weights> {
        let kind = std::fs::metadata(path).map_err(|e| StudentError::file(path, e))?;
        let (config, source) = if kind.is_dir() { directory(path)? } else { single(path)? };
        let mut used = BTreeSet::new();
        if let (RopeScaling::Factors(_), Source::Gguf { .. }) = (&config.rope_scaling, &source) {
            used.insert(ROPE_TABLE.to_owned());
        }
        Ok(Weights { path: path.to_owned(), config, source, used })
    }

    /// The model's shape.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The GGUF file, where it is one.
    pub(crate) fn gguf(&self) -> Option<&Gguf> {
        match &self.source {
            Source::Gguf { file, .. } => Some(file),
            Source::Directory { .. } => None,
        }
    }

    /// Whether a tensor of this Hugging Face name is there.
    pub fn has(&self, name: &str) -> bool {
        match &self.source {
            Source::Directory { of, .. } => of.contains_key(name),
            Source::Gguf { names, .. } => names.contains_key(name),
        }
    }

    /// Reads a tensor as f32; it must have exactly these dimensions.
    pub fn take(&mut self, name: &str, dims: &[usize]) -> Result<Vec<f32>> {
        let missing = || StudentError::file(&self.path, format!("tensor \"{name}\" is missing"));
        let (found, values) = match &self.source {
            Source::Directory { shards, of } => {
                let shard = &shards[*of.get(name).ok_or_else(missing)?];
                let found = shard.dims(name).ok_or_else(missing)?;
                (found.to_vec(), (found == dims).then(|| shard.to_f32(name)).transpose()?)
            }
            Source::Gguf { file, names } => {
                let stored = names.get(name).ok_or_else(missing)?;
                let found = file.dims(stored)?;
                let same = found == dims;
                (found, same.then(|| file.tensors()[stored].format.to_f32(file.bytes(&file.tensors()[stored]))))
            }
        };
        let Some(values) = values else {
            let cause = format!("tensor \"{name}\" has dimensions {found:?}; the configuration says {dims:?}");
            return Err(StudentError::file(&self.path, cause));
        };
        self.used.insert(name.to_owned());
        Ok(self.in_half_split(name, dims, values))
    }

    /// GGUF files of the Llama family pair neighbouring rows of q and k for the rotation; Hugging
    /// Face pairs row `i` with row `i + head_dim / 2`.
    fn in_half_split(&self, name: &str, dims: &[usize], values: Vec<f32>) -> Vec<f32> {
        let rotated = name.contains(".q_proj.") || name.contains(".k_proj.");
        if self.gguf().is_none() || self.config.family != Family::Llama || !rotated {
            return values;
        }
        let (head, columns) = (self.config.head_dim, values.len() / dims[0]);
        let mut out = Vec::with_capacity(values.len());
        for row in 0..dims[0] {
            let (start, at) = (row / head * head, row % head);
            let from = start + at % (head / 2) * 2 + at / (head / 2);
            out.extend_from_slice(&values[from * columns..(from + 1) * columns]);
        }
        out
    }

    /// Ends the reading: an error where a tensor was not used, else the names of tensors that
    /// carry nothing the model needs.
    pub fn finish(self) -> Result<Vec<String>> {
        let all: Vec<&String> = match &self.source {
            Source::Directory { of, .. } => of.keys().collect(),
            Source::Gguf { names, .. } => names.keys().collect(),
        };
        let mut listed = Vec::new();
        for name in all.into_iter().filter(|name| !self.used.contains(*name)) {
            let derived = name.ends_with("rotary_emb.inv_freq");
            let spare = self.config.tied && name == "lm_head.weight";
            if !derived && !spare {
                let cause = format!("tensor \"{name}\" has no place in this architecture; the result would be wrong");
                return Err(StudentError::file(&self.path, cause));
            }
            listed.push(name.clone());
        }
        Ok(listed)
    }
}

/// Maps a file; a download pointer or an empty file is named as such.
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    let fail = |cause: String| StudentError::file(path, cause);
    let file = open(path).map_err(|e| fail(e.to_string()))?;
    let length = file.metadata().map_err(|e| fail(e.to_string()))?.len();
    if length == 0 {
        return Err(fail("the file is empty".into()));
    }
    // SAFETY: the map is only read. Another process that truncates the file while it is mapped
    // ends this one with SIGBUS; weight files are not edited in place.
    let map = unsafe { Mmap::map(&file) }.map_err(|e| fail(e.to_string()))?;
    if map.starts_with(b"version https://git-lfs") {
        return Err(fail("this is a Git LFS pointer, not the weights; run `git lfs pull`".into()));
    }
    Ok(map)
}

/// Opens a regular file; a pipe would wait for ever, a device would never end.
fn open(path: &Path) -> std::io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    File::open(path)
}

/// Reads a small text file; `None` where there is none.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>> {
    read_text_of(path, MAX_JSON)
}

/// Reads a text file of at most this many bytes; `None` where there is none.
pub(crate) fn read_text_of(path: &Path, most: u64) -> Result<Option<String>> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StudentError::file(path, error)),
    };
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text).map_err(|e| StudentError::file(path, e))?;
    if text.len() as u64 > most {
        return Err(StudentError::file(path, format!("larger than {most} bytes")));
    }
    if text.starts_with("version https://git-lfs") {
        return Err(StudentError::file(path, "this is a Git LFS pointer, not the file; run `git lfs pull`"));
    }
    Ok(Some(text))
}

fn directory(path: &Path) -> Result<(ModelConfig, Source)> {
    let at = path.join("config.json");
    let text = read_text(&at)?.ok_or_else(|| StudentError::file(&at, "not found; a model directory needs it"))?;
    let config = ModelConfig::from_json(&text, &at)?;
    let index = path.join("model.safetensors.index.json");
    let one = path.join("model.safetensors");
    let (shards, of) = match read_text(&index)? {
        Some(text) if !one.exists() => sharded(path, &index, &text)?,
        _ if one.exists() => {
            let shard = Shard::open(&one)?;
            let of = shard.names().map(|name| (name.to_owned(), 0)).collect();
            (vec![shard], of)
        }
        _ => {
            let cause = "no model.safetensors and no model.safetensors.index.json; \
                         pickled weights (.bin, .pt) are not read: convert them to safetensors";
            return Err(StudentError::file(path, cause));
        }
    };
    Ok((config, Source::Directory { shards, of }))
}

/// Shards by an index; both must tell the same story.
fn sharded(path: &Path, index: &Path, text: &str) -> Result<(Vec<Shard>, BTreeMap<String, usize>)> {
    let fail = |cause: String| StudentError::file(index, cause);
    let json: Value = serde_json::from_str(text).map_err(|e| fail(format!("not JSON: {e}")))?;
    let Some(map) = json.get("weight_map").and_then(Value::as_object) else {
        return Err(fail("\"weight_map\" is missing".into()));
    };
    let mut files = BTreeSet::new();
    for (tensor, file) in map {
        let file = file.as_str().unwrap_or_default();
        let plain = Path::new(file).file_name().is_some_and(|name| name == file);
        if !plain {
            return Err(fail(format!(
                "\"{tensor}\" is said to be in \"{file}\"; expected a file name without a folder"
            )));
        }
        files.insert(file);
    }
    let (mut shards, mut of) = (Vec::new(), BTreeMap::new());
    for (number, file) in files.into_iter().enumerate() {
        let at = path.join(file);
        if !at.exists() {
            return Err(fail(format!("shard \"{file}\" is missing; is the download complete?")));
        }
        let shard = Shard::open(&at)?;
        for name in shard.names() {
            let said = map.get(name).and_then(Value::as_str);
            if said != Some(file) {
                return Err(StudentError::file(&at, format!("holds \"{name}\", which the index places in {said:?}")));
            }
            of.insert(name.to_owned(), number);
        }
        shards.push(shard);
    }
    match map.keys().find(|name| !of.contains_key(*name)) {
        Some(name) => Err(fail(format!("\"{name}\" is not in the shard that the index names"))),
        None => Ok((shards, of)),
    }
}

fn single(path: &Path) -> Result<(ModelConfig, Source)> {
    if path.extension().is_some_and(|e| e == "safetensors") {
        return Err(StudentError::file(path, "pass the directory that holds config.json, not the weight file"));
    }
    let file = Gguf::open(path)?;
    let mut config = ModelConfig::from_gguf(&file)?;
    if let Some(entry) = file.tensors().get(ROPE_TABLE) {
        let factors = entry.format.to_f32(file.bytes(entry));
        config.rope_scaling = match config.rope_scaling {
            RopeScaling::None => RopeScaling::Factors(factors),
            RopeScaling::Linear(all) => RopeScaling::Factors(factors.iter().map(|f| f * all as f32).collect()),
            _ => return Err(StudentError::file(path, "rope_freqs.weight beside YaRN is not supported")),
        };
        config = config.checked(path)?;
    }
    let mut names = BTreeMap::new();
    for name in file.tensors().keys() {
        if let Some(other) = names.insert(hf_name(name), name.clone()) {
            return Err(StudentError::file(path, format!("tensors \"{other}\" and \"{name}\" are the same one")));
        }
    }
    Ok((config, Source::Gguf { file, names }))
}

/// The Hugging Face name of a GGUF tensor; unknown names stay as they are.
fn hf_name(gguf: &str) -> String {
    let fixed = match gguf {
        "token_embd.weight" => Some("model.embed_tokens.weight"),
        "output_norm.weight" => Some("model.norm.weight"),
        "output.weight" => Some("lm_head.weight"),
        _ => None,
    };
    let block = || {
        let (layer, rest) = gguf.strip_prefix("blk.")?.split_once('.')?;
        let (part, suffix) = rest.rsplit_once('.')?;
        let part = match part {
            "attn_q" => "self_attn.q_proj",
            "attn_k" => "self_attn.k_proj",
            "attn_v" => "self_attn.v_proj",
            "attn_output" => "self_attn.o_proj",
            "attn_q_norm" => "self_attn.q_norm",
            "attn_k_norm" => "self_attn.k_norm",
            "attn_norm" => "input_layernorm",
            "ffn_norm" => "post_attention_layernorm",
            "ffn_gate" => "mlp.gate_proj",
            "ffn_up" => "mlp.up_proj",
            "ffn_down" => "mlp.down_proj",
            _ => return None,
        };
        Some(format!("model.layers.{layer}.{part}.{suffix}"))
    };
    fixed.map(str::to_owned).or_else(block).unwrap_or_else(|| gguf.to_owned())
}
