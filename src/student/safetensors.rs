//! One safetensors file, read through a map and checked before anything is believed: the header's
//! length, every dimension, every offset; no gap and no overlap.

use super::error::{Result, StudentError};
use super::quant::Format;
use memmap2::Mmap;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Longest header that is read, in bytes; the format's own limit.
const MAX_HEADER: u64 = 100_000_000;

/// An open safetensors file.
pub(crate) struct Shard {
    path: PathBuf,
    map: Mmap,
    tensors: BTreeMap<String, Entry>,
}

struct Entry {
    format: Format,
    dims: Vec<usize>,
    bytes: Range<usize>,
}

#[derive(Deserialize)]
struct Stored {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl Shard {
    /// Maps and checks a file.
    pub fn open(path: &Path) -> Result<Shard> {
        let map = super::weights::map(path)?;
        let tensors = header(&map).map_err(|cause| StudentError::file(path, cause))?;
        Ok(Shard { path: path.to_owned(), map, tensors })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    pub fn dims(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|entry| &entry.dims[..])
    }

    pub fn to_f32(&self, name: &str) -> Result<Vec<f32>> {
        let entry = self.tensors.get(name);
        let entry = entry.ok_or_else(|| StudentError::file(&self.path, format!("tensor \"{name}\" is missing")))?;
        Ok(entry.format.to_f32(&self.map[entry.bytes.clone()]))
    }
}

fn header(file: &[u8]) -> std::result::Result<BTreeMap<String, Entry>, String> {
    let Some((length, rest)) = file.split_first_chunk::<8>() else {
        return Err(format!("a safetensors file has at least 8 bytes, this one has {}", file.len()));
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER {
        return Err(format!("not a safetensors file: it claims a header of {length} bytes"));
    }
    let length = length as usize;
    let Some(header) = rest.get(..length) else {
        return Err(format!("truncated: its header has {length} bytes, the file only {}", file.len()));
    };
    let json: BTreeMap<String, Value> =
        serde_json::from_slice(header).map_err(|e| format!("its header is not a JSON object: {e}"))?;
    let mut entries = Vec::new();
    for (name, value) in json.into_iter().filter(|(name, _)| name != "__metadata__") {
        let stored = Stored::deserialize(value).map_err(|e| format!("tensor \"{name}\": {e}"))?;
        entries.push((entry(&stored).map_err(|cause| format!("tensor \"{name}\": {cause}"))?, name));
    }
    entries.sort_by_key(|(entry, _)| (entry.bytes.start, entry.bytes.end));
    let (start, mut next) = (8 + length, 0);
    let mut tensors = BTreeMap::new();
    for (mut entry, name) in entries {
        if entry.bytes.start != next {
            let what =
                if entry.bytes.start < next { "overlaps the tensor before it" } else { "leaves a gap before it" };
            return Err(format!("tensor \"{name}\" {what}: it begins at {}, expected {next}", entry.bytes.start));
        }
        next = entry.bytes.end;
        if next > file.len() - start {
            return Err(format!(
                "truncated: tensor \"{name}\" ends at byte {next} of the data, which has {}",
                file.len() - start
            ));
        }
        entry.bytes = start + entry.bytes.start..start + entry.bytes.end;
        tensors.insert(name, entry);
    }
    if start + next != file.len() {
        return Err(format!("{} bytes behind the last tensor", file.len() - start - next));
    }
    Ok(tensors)
}

fn entry(stored: &Stored) -> std::result::Result<Entry, String> {
    let format = match stored.dtype.as_str() {
        "F32" => Format::F32,
        "F16" => Format::F16,
        "BF16" => Format::BF16,
        other => return Err(format!("numbers of type {other} are not supported; expected F32, F16 or BF16")),
    };
    let values = stored.shape.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
    let expected = values.and_then(|values| format.bytes_for(1, values));
    let (from, to) = stored.data_offsets;
    match to.checked_sub(from) {
        Some(length) if Some(length) == expected => Ok(Entry { format, dims: stored.shape.clone(), bytes: from..to }),
        _ => Err(format!("offsets {from}..{to} do not hold {:?} numbers of type {}", stored.shape, stored.dtype)),
    }
}
