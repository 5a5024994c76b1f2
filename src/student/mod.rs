//! 5. The student: one small causal language model with low-rank adapters, in this process.
//!    `template ─▶ student ─▶ predictions`; [`crate::train`] teaches it.
//!
//! Files ([`Weights`]: safetensors directories and GGUF, checked before anything is believed) become
//! a [`Model`] of the Llama family; a [`ChatTokenizer`] renders and encodes for training and
//! inference alike; [`generate()`] answers many prompts that begin alike; a [`Reader`] does what the
//! team does: documents in, extractions out. Deliberately absent: the corpus, the optimiser, clocks.

mod attention;
mod block;
mod cache;
mod config;
mod constrain;
#[cfg(test)]
mod constrain_tests;
pub mod device;
mod directory;
mod engine;
mod error;
mod export;
mod extractor;
mod fields;
#[cfg(test)]
mod file_tests;
mod fused;
mod generate;
mod gguf;
#[cfg(test)]
mod gguf_tests;
mod gguf_tokenizer;
mod linear;
mod lora;
mod loss;
mod merge;
mod model;
mod peft;
mod quant;
mod replica;
mod rope;
mod safetensors;
mod scaling;
mod tokenizer;
mod tokenizer_files;
#[cfg(test)]
mod tokenizer_tests;
mod weights;

use burn::tensor::Device;
use std::path::{Path, PathBuf};

pub use config::{Family, ModelConfig};
pub use constrain::{Closed, Guide, Vocabulary};
pub use engine::{Engine, Request, Settings, Tally, Work};
pub use error::{Result, StudentError};
pub use extractor::{Reader, ReaderOptions};
#[doc(hidden)]
pub use fused::kernels;
pub use generate::{Finish, Generated, generate};
pub use lora::{LoraConfig, TARGETS};
pub use loss::{Row, share};
pub use merge::{Merged, PROBE_POSITIONS, merge};
pub use model::Model;
pub(crate) use safetensors::{Shard, write as write_tensors};
pub use scaling::RopeScaling;
pub use tokenizer::{ChatTokenizer, Example};
pub use weights::Weights;

/// A model with its tokenizer, ready to be asked or taught.
#[derive(Clone)]
pub struct Student {
    /// Where it was read from.
    pub path: PathBuf,
    /// Weights and adapters.
    pub model: Model,
    /// Conversations to tokens and back.
    pub tokenizer: ChatTokenizer,
    /// Stored tensors that carry nothing the model needs.
    pub unused: Vec<String>,
}

impl Student {
    /// Loads a Hugging Face directory or a GGUF file.
    pub fn load(path: &Path, device: &Device) -> Result<Student> {
        let weights = Weights::open(path)?;
        let tokenizer = ChatTokenizer::load(path, &weights)?;
        let (known, rows) = (tokenizer.vocab(), weights.config().vocab);
        if known > rows {
            let cause = format!("the tokenizer knows {known} tokens, the embedding has {rows} rows");
            return Err(StudentError::file(path, cause));
        }
        let (model, unused) = Model::load(weights, device)?;
        Ok(Student { path: path.to_owned(), model, tokenizer, unused })
    }

    /// Answers prompts greedily; see [`generate()`].
    pub fn generate(&self, prompts: &[Vec<u32>], max_new_tokens: usize) -> Result<Vec<Generated>> {
        generate(&self.model, &self.tokenizer, prompts, max_new_tokens)
    }
}
