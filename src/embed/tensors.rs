//! The weights of an encoder: one `model.safetensors`, every tensor used or known to be of no use,
//! every number finite.

use super::config::read_bytes;
use super::error::EmbedError;
use crate::store::hash_bytes;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Weight files above this size are refused, in bytes: an encoder of demonstrations is small.
const MAX_WEIGHTS: u64 = 2 << 30;

/// The bytes of the weights.
pub(super) struct File {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// The tensors of a file, and which of them were used.
pub(super) struct Tensors<'f> {
    path: &'f Path,
    found: SafeTensors<'f>,
    used: BTreeSet<String>,
}

impl File {
    /// Reads the weights of a directory.
    pub fn read(folder: &Path) -> Result<File, EmbedError> {
        let path = folder.join("model.safetensors");
        if let Some(bytes) = read_bytes(&path, MAX_WEIGHTS)? {
            return Ok(File { path, bytes });
        }
        let others = ["pytorch_model.bin", "tf_model.h5", "rust_model.ot", "onnx", "model.safetensors.index.json"];
        let other = others.into_iter().find(|name| folder.join(name).exists());
        let found = other.map_or_else(String::new, |name| format!(" (there is {name}, which is not read)"));
        let cause = format!(
            "not found{found}; download the model's safetensors, or load it in Python and call \
             save_pretrained(DIR, safe_serialization=True)"
        );
        Err(EmbedError::file(path, cause))
    }

    /// The identity of the bytes.
    pub fn hash(&self) -> String {
        hash_bytes(&self.bytes)
    }

    /// Reads and checks the header: lengths, offsets, no gap and no overlap.
    pub fn tensors(&self) -> Result<Tensors<'_>, EmbedError> {
        let found = SafeTensors::deserialize(&self.bytes)
            .map_err(|error| EmbedError::file(&self.path, format!("not a safetensors file: {error}")))?;
        Ok(Tensors { path: &self.path, found, used: BTreeSet::new() })
    }
}

impl Tensors<'_> {
    /// Reads a tensor as f32; it must have exactly these dimensions.
    pub fn take(&mut self, name: &str, dims: &[usize]) -> Result<Vec<f32>, EmbedError> {
        let fail = |cause: String| EmbedError::file(self.path, format!("tensor \"{name}\" {cause}"));
        let tensor = self.found.tensor(name).map_err(|_| fail("is missing".into()))?;
        if tensor.shape() != dims {
            let cause = format!("has dimensions {:?}; the configuration says {dims:?}", tensor.shape());
            return Err(fail(cause));
        }
        let bytes = tensor.data();
        let values: Vec<f32> = match tensor.dtype() {
            Dtype::F32 => bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect(),
            Dtype::F16 => bytes.as_chunks().0.iter().map(|two| half::f16::from_le_bytes(*two).to_f32()).collect(),
            Dtype::BF16 => bytes.as_chunks().0.iter().map(|two| half::bf16::from_le_bytes(*two).to_f32()).collect(),
            other => return Err(fail(format!("has numbers of type {other:?}; expected F32, F16 or BF16"))),
        };
        if let Some(odd) = values.iter().find(|value| !value.is_finite()) {
            return Err(fail(format!("holds {odd}; expected finite numbers")));
        }
        self.used.insert(name.to_owned());
        Ok(values)
    }

    /// Ends the reading: an error where a tensor was not used. The pooler serves the pre-training's
    /// next-sentence task, and the list of positions is 0, 1, 2 and so on.
    pub fn finish(self) -> Result<(), EmbedError> {
        let spare = ["pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids"];
        let mut names = self.found.names();
        names.sort_unstable();
        let unread = names.into_iter().find(|name| !self.used.contains(*name) && !spare.contains(name));
        unread.map_or(Ok(()), |name| {
            let cause = format!("tensor \"{name}\" has no place in this architecture; the vectors would be wrong");
            Err(EmbedError::file(self.path, cause))
        })
    }
}
