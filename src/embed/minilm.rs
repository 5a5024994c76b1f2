//! A sentence encoder in this process: a BERT of sentence-transformers such as all-MiniLM-L6-v2
//! (Reimers and Gurevych 2019; Wang et al. 2020), mean-pooled, on the CPU.

use super::Encoder;
use super::bert::Bert;
use super::config::{MAX_JSON, Shape, read_bytes};
use super::error::EmbedError;
use super::tensors::File;
use super::wordpiece::WordPiece;
use crate::store::hash_bytes;
use rayon::prelude::*;
use std::path::Path;

/// Tokens that one thread takes through the layers together: the weights are read once for all of
/// them. Not tuned beyond one step up and one down.
const TOKENS_AT_ONCE: usize = 512;

/// An encoder that was read from a sentence-transformers directory.
pub struct MiniLm {
    bert: Bert,
    tokenizer: WordPiece,
    normalise: bool,
    dimensions: usize,
    identity: String,
}

impl MiniLm {
    /// Reads `config.json`, `modules.json`, the pooling's `config.json`, `sentence_bert_config.json`,
    /// `tokenizer.json` and `model.safetensors`. What they ask for is done or refused.
    ///
    /// # Errors
    /// The first file that is missing, broken, or asks for what is not computed here.
    pub fn open(folder: &Path) -> Result<MiniLm, EmbedError> {
        if !folder.is_dir() {
            return Err(EmbedError::file(folder, "not a directory; expected one of sentence-transformers"));
        }
        let shape = Shape::read(folder)?;
        let (tokenizer, words) = WordPiece::read(folder, shape.vocab, shape.tokens, shape.lower)?;
        let file = File::read(folder)?;
        let mut tensors = file.tensors()?;
        let (normalise, dimensions) = (shape.normalise, shape.hidden);
        let config = read_bytes(&folder.join("config.json"), MAX_JSON)?.unwrap_or_default();
        let identity = format!(
            "minilm 1 {} {} {} {} {} {normalise}",
            file.hash(),
            hash_bytes(&words),
            hash_bytes(&config),
            shape.tokens,
            shape.lower
        );
        let bert = Bert::read(shape, &mut tensors)?;
        tensors.finish()?;
        Ok(MiniLm { bert, tokenizer, normalise, dimensions, identity })
    }

    /// Numbers of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The ids that a text is read as, for a look at them.
    ///
    /// # Errors
    /// If the tokenizer cannot read the text.
    pub fn ids(&self, text: &str) -> Result<Vec<u32>, EmbedError> {
        self.tokenizer.ids(text)
    }
}

impl Encoder for MiniLm {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    /// A text's vector does not depend on the texts beside it, nor on the number of threads.
    fn encode(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let ids: Vec<Vec<u32>> = texts.par_iter().map(|text| self.tokenizer.ids(text)).collect::<Result<_, _>>()?;
        let mut groups: Vec<&[Vec<u32>]> = Vec::new();
        let (mut from, mut tokens) = (0, 0);
        for (at, text) in ids.iter().enumerate() {
            if at > from && tokens + text.len() > TOKENS_AT_ONCE {
                groups.push(&ids[from..at]);
                (from, tokens) = (at, 0);
            }
            tokens += text.len();
        }
        groups.extend((from < ids.len()).then(|| &ids[from..]));
        let vectors: Vec<Vec<Vec<f32>>> = groups.into_par_iter().map(|group| self.bert.means(group)).collect();
        let mut vectors: Vec<Vec<f32>> = vectors.into_iter().flatten().collect();
        if self.normalise {
            vectors.iter_mut().for_each(|vector| to_length_one(vector));
        }
        match vectors.iter().flatten().all(|number| number.is_finite()) {
            true => Ok(vectors),
            false => {
                Err(EmbedError::Encoder("a vector has numbers that are not finite; are the weights sound?".into()))
            }
        }
    }
}

/// As `torch.nn.functional.normalize`: a vector of (nearly) no length stays as it is but for its size.
fn to_length_one(vector: &mut [f32]) {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt().max(1e-12);
    vector.iter_mut().for_each(|number| *number /= length);
}
