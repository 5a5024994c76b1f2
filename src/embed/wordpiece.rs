//! The encoder's tokenizer: BERT's WordPiece from a `tokenizer.json`, with the two tokens that
//! stand around every text. Cutting and filling up, as the file asks for them, are not followed:
//! how many tokens are read is the encoder's own setting.

use super::config::read_bytes;
use super::error::EmbedError;
use serde_json::Value;
use std::path::Path;
use tokenizers::Tokenizer;

/// `tokenizer.json` above this size is refused, in bytes.
const MAX_TOKENIZER: u64 = 64 << 20;
/// JSON with more commas and brackets than this is refused: every value takes some 70 bytes.
const MAX_VALUES: usize = 4 << 20;
/// So many bytes of a text are looked at: tokens behind them are cut anyway, unless words are
/// thousands of letters long.
const MAX_TEXT: usize = 1 << 20;
/// Longest word that may be split, in characters; splitting takes time with its square.
const MAX_WORD: u64 = 1000;

/// A tokenizer and the tokens around a text.
pub(super) struct WordPiece {
    tokenizer: Tokenizer,
    first: u32,
    last: u32,
    /// Rows of the table of words.
    vocab: usize,
    /// Most tokens, the two included.
    most: usize,
    lower: bool,
}

impl WordPiece {
    /// Reads `tokenizer.json`; also returns its bytes, for the identity of the encoder.
    pub fn read(folder: &Path, vocab: usize, most: usize, lower: bool) -> Result<(WordPiece, Vec<u8>), EmbedError> {
        let path = folder.join("tokenizer.json");
        let bytes = read_bytes(&path, MAX_TOKENIZER)?.ok_or_else(|| {
            EmbedError::file(&path, "not found; a vocab.txt alone is not read: save the fast tokenizer")
        })?;
        let fail = |cause: String| EmbedError::file(&path, cause);
        if bytes.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() > MAX_VALUES {
            return Err(fail(format!("more than {MAX_VALUES} values")));
        }
        let mut json: Value = serde_json::from_slice(&bytes).map_err(|error| fail(format!("not JSON: {error}")))?;
        check(&json, vocab).map_err(fail)?;
        let (first, last) = around(&json["post_processor"], vocab).map_err(fail)?;
        for unused in ["truncation", "padding", "post_processor", "decoder"] {
            json[unused] = Value::Null;
        }
        let tokenizer = Tokenizer::from_bytes(json.to_string());
        let tokenizer = tokenizer.map_err(|error| fail(format!("the tokenizer cannot be built: {error}")))?;
        Ok((WordPiece { tokenizer, first, last, vocab, most, lower }, bytes))
    }

    /// The ids of a text, the two around it included.
    pub fn ids(&self, text: &str) -> Result<Vec<u32>, EmbedError> {
        let end = text.floor_char_boundary(MAX_TEXT);
        let text = if self.lower { text[..end].to_lowercase() } else { text[..end].to_owned() };
        let encoded = self.tokenizer.encode_fast(text, false);
        let encoded = encoded.map_err(|error| EmbedError::Encoder(format!("a text cannot be tokenized: {error}")))?;
        let inside = encoded.get_ids().iter().copied().take(self.most - 2);
        // An added token that the vocabulary lacks gets an id of the library's own choice.
        if let Some(id) = inside.clone().find(|id| *id as usize >= self.vocab) {
            return Err(EmbedError::Encoder(format!("a token has the id {id}, of a table of {} words", self.vocab)));
        }
        Ok([self.first].into_iter().chain(inside).chain([self.last]).collect())
    }
}

/// Refuses whatever is not BERT's tokenizer, and ids that have no row in the table of words.
fn check(json: &Value, vocab: usize) -> Result<(), String> {
    let kind = |part: &str| json[part]["type"].as_str().unwrap_or("none").to_owned();
    for (part, known) in
        [("model", "WordPiece"), ("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")]
    {
        if kind(part) != known {
            return Err(format!(
                "the {part} is \"{}\"; expected \"{known}\", as BERT's tokenizers have it",
                kind(part)
            ));
        }
    }
    let model = &json["model"];
    let longest = model["max_input_chars_per_word"].as_u64();
    if !longest.is_some_and(|longest| (1..=MAX_WORD).contains(&longest)) {
        return Err(format!("\"max_input_chars_per_word\" is {longest:?}; expected 1 to {MAX_WORD}"));
    }
    let words = model["vocab"].as_object().ok_or("the model has no \"vocab\" object")?;
    let unknown = model["unk_token"].as_str().unwrap_or_default();
    if !words.contains_key(unknown) {
        return Err(format!("the token for unknown words, \"{unknown}\", is not in the vocabulary"));
    }
    let added = json["added_tokens"].as_array().into_iter().flatten();
    let ids = words.iter().map(|(word, id)| (word.as_str(), id));
    let ids = ids.chain(added.map(|token| (token["content"].as_str().unwrap_or_default(), &token["id"])));
    for (word, id) in ids {
        if id.as_u64().is_none_or(|id| id >= vocab as u64) {
            return Err(format!("\"{word}\" has the id {id}; expected one below vocab_size, {vocab}"));
        }
    }
    Ok(())
}

/// The ids of the tokens before and behind a text.
fn around(json: &Value, vocab: usize) -> Result<(u32, u32), String> {
    let special = |step: &Value| {
        let token = &step["SpecialToken"];
        let id = json["special_tokens"][token["id"].as_str()?]["ids"].as_array().filter(|ids| ids.len() == 1)?;
        (token["type_id"].as_u64() == Some(0)).then(|| id[0].as_u64()).flatten()
    };
    let pair = match json["type"].as_str() {
        Some("TemplateProcessing") => match json["single"].as_array().map(Vec::as_slice) {
            Some([first, text, last]) if text["Sequence"]["type_id"].as_u64() == Some(0) => {
                special(first).zip(special(last))
            }
            _ => None,
        },
        Some("BertProcessing") => json["cls"][1].as_u64().zip(json["sep"][1].as_u64()),
        _ => None,
    };
    let below = |id: u64| u32::try_from(id).ok().filter(|id| (*id as usize) < vocab);
    pair.and_then(|(first, last)| below(first).zip(below(last))).ok_or_else(|| {
        "the post_processor is not BERT's: expected one token before a text and one behind it, both of the \
         vocabulary and of type 0"
            .to_owned()
    })
}
