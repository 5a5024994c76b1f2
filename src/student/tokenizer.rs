//! Conversations to token ids and back. One function renders and encodes for training and for
//! inference, so that a student is asked exactly as it was taught.
//!
//! The template alone decides whether a begin token stands in front: the tokenizer never adds one.

mod control;
#[cfg(test)]
mod tests;

use super::error::{Result, StudentError};
use super::gguf_tokenizer;
use super::tokenizer_files::{Built, build, directory_parts};
use super::weights::Weights;
use crate::template::{ChatTemplate, Message, Rendered};
use control::Control;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use tokenizers::Tokenizer;

/// What templates that print a date are told: runs must not depend on the clock.
const DATE: &str = "2024-07-26";

/// A conversation with its answer, as tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Prompt, answer, end of turn.
    pub ids: Vec<u32>,
    /// The answer and the end of turn.
    pub supervised: Range<usize>,
}

/// A tokenizer with the model's chat template.
#[derive(Clone)]
pub struct ChatTokenizer {
    model: String,
    tokenizer: Tokenizer,
    /// For what opens a text, where that gets a space of its own.
    opening: Option<Tokenizer>,
    template: ChatTemplate,
    control: Control,
    /// Whether the vocabulary is written in GPT-2's alphabet of bytes.
    byte_level: bool,
    end_of_turn: u32,
    stops: Vec<u32>,
    /// `tokenizer.json` and `tokenizer_config.json`, for writing the model out again.
    files: [Value; 2],
}

/// What a model says about its tokens, wherever it says it.
pub(crate) struct Parts {
    /// The contents of `tokenizer.json`.
    pub tokenizer: Value,
    pub template: Option<String>,
    /// `("bos_token", "<s>")` and so on.
    pub named: Vec<(String, String)>,
    pub stops: BTreeSet<u32>,
}

impl ChatTokenizer {
    /// The tokenizer of a model directory or GGUF file; of a directory no weights are read.
    pub fn open(path: &Path) -> Result<ChatTokenizer> {
        if path.is_dir() {
            return ChatTokenizer::new(path, directory_parts(path)?);
        }
        ChatTokenizer::load(path, &Weights::open(path)?)
    }

    /// The tokenizer beside opened weights.
    pub fn load(path: &Path, weights: &Weights) -> Result<ChatTokenizer> {
        let parts = match weights.gguf() {
            Some(gguf) => gguf_tokenizer::parts(gguf)?,
            None => directory_parts(path)?,
        };
        ChatTokenizer::new(path, parts)
    }

    pub(crate) fn new(path: &Path, parts: Parts) -> Result<ChatTokenizer> {
        let model = path.display().to_string();
        let fail = |cause: String| StudentError::file(path, cause);
        let Built { mut tokenizer, mut opening } = build(&parts.tokenizer).map_err(fail)?;
        let unknown = parts.tokenizer["model"]["unk_token"].as_str();
        let claim = |tokenizer: &mut Tokenizer| {
            Control::claim(tokenizer, unknown).map_err(|e| fail(format!("its control tokens cannot be read: {e}")))
        };
        let control = claim(&mut tokenizer)?;
        opening.as_mut().map(claim).transpose()?;
        let byte_level = parts.tokenizer["decoder"].to_string().contains("\"ByteLevel\"");
        let chat = |cause: String| StudentError::chat(&model, cause);
        let Some(source) = parts.template else {
            return Err(chat(
                "there is none; a student needs one (chat_template.jinja, an entry in \
                             tokenizer_config.json, or tokenizer.chat_template in a GGUF file)"
                    .into(),
            ));
        };
        let named: Vec<(&str, &str)> = parts.named.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
        let template = ChatTemplate::new(&source, &named, DATE).map_err(|e| chat(e.to_string()))?;
        let config = tokenizer_config(&source, &named);
        let mut chat = ChatTokenizer {
            model,
            tokenizer,
            opening,
            template,
            control,
            byte_level,
            end_of_turn: 0,
            stops: Vec::new(),
            files: [parts.tokenizer, config],
        };
        chat.end_of_turn = chat.find_end_of_turn(&named)?;
        let mut stops = parts.stops;
        stops.insert(chat.end_of_turn);
        chat.stops = stops.into_iter().collect();
        Ok(chat)
    }

    /// What the model is asked: the messages, and the template's invitation to answer.
    pub fn prompt(&self, messages: &[Message]) -> Result<Vec<u32>> {
        let rendered = self.template.render(messages, true).map_err(|e| self.fail(e))?;
        self.encode_rendered(&rendered)
    }

    /// A conversation whose last message is the answer to learn: the prompt's ids, the answer's,
    /// the end of turn.
    pub fn example(&self, messages: &[Message]) -> Result<Example> {
        let Some((answer, asked)) = messages.split_last() else {
            return Err(self.fail("a conversation needs an answer to learn from"));
        };
        if answer.role != crate::template::Speaker::Assistant {
            return Err(self.fail("the last message of a conversation to learn from must be the assistant's"));
        }
        let mut ids = self.prompt(asked)?;
        let start = ids.len();
        ids.extend(self.encode_text(&answer.content)?);
        ids.push(self.end_of_turn);
        Ok(Example { supervised: start..ids.len(), ids })
    }

    /// What the template writes before the answer when it is shown the whole conversation, where
    /// that is not what it asks with: both from the first difference on. White space and tags of
    /// an empty reasoning block may differ.
    pub fn parting(&self, messages: &[Message]) -> Result<Option<(String, String)>> {
        let asked = &messages[..messages.len().saturating_sub(1)];
        let asked = self.template.render(asked, true).map_err(|e| self.fail(e))?;
        let whole = self.template.render(messages, false).map_err(|e| self.fail(e))?;
        // The answer is the message that the question lacks; it comes last.
        let answer = whole.contents.last().filter(|_| whole.contents.len() > asked.contents.len());
        let written = &whole.text[..answer.map_or(whole.text.len(), |answer| answer.start)];
        let bare = |text: &str| {
            let text = text.replace("<think>", "").replace("</think>", "");
            text.chars().filter(|c| !c.is_whitespace()).collect::<String>()
        };
        if answer.is_some() && bare(&asked.text) == bare(written) {
            return Ok(None);
        }
        let same = asked.text.chars().zip(written.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
        let rest = |text: &str| text[same..].chars().take(40).collect::<String>();
        Ok(Some((rest(&asked.text), rest(written))))
    }

    /// Plain text to ids; nothing in it is taken for a control token. Where a vocabulary takes the
    /// text of one for a word, that word is torn apart.
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_by(&self.tokenizer, text)
    }

    /// Which bytes of a text each of the ids of [`ChatTokenizer::encode_text`] stands for.
    pub fn places(&self, text: &str) -> Result<Vec<Range<usize>>> {
        let ids = self.encode_text(text)?;
        let found = |pieces: &[&str]| -> Result<Vec<(u32, Range<usize>)>> {
            let (mut found, mut from) = (Vec::new(), 0);
            for piece in pieces {
                let encoding = self.tokenizer.encode(*piece, false).map_err(|e| self.fail(e))?;
                let places = encoding.get_offsets().iter().map(|(start, end)| from + start..from + end);
                found.extend(encoding.get_ids().iter().copied().zip(places));
                from += piece.len();
            }
            Ok(found)
        };
        for pieces in [vec![text], self.control.torn(text)] {
            let (same, places): (Vec<u32>, Vec<Range<usize>>) = found(&pieces)?.into_iter().unzip();
            if same == ids {
                return Ok(places);
            }
        }
        Err(self.fail("the tokenizer does not say which part of an answer its tokens stand for"))
    }

    fn encode_by(&self, tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>> {
        let encode = |tokenizer: &Tokenizer, text: &str| {
            tokenizer.encode_fast(text, false).map(|encoding| encoding.get_ids().to_vec()).map_err(|e| self.fail(e))
        };
        let ids = encode(tokenizer, text)?;
        if !ids.iter().any(|id| self.control.has(*id)) {
            return Ok(ids);
        }
        let mut ids = Vec::new();
        for (at, piece) in self.control.torn(text).into_iter().enumerate() {
            ids.extend(encode(if at == 0 { tokenizer } else { &self.tokenizer }, piece)?);
        }
        match ids.iter().find(|id| self.control.is_forbidden(**id)) {
            Some(id) => Err(self.fail(format!("plain text encodes to the control token {id}"))),
            None => Ok(ids),
        }
    }

    /// Ids to text, without the tokens that the files call special.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let shown: Vec<u32> = ids.iter().copied().filter(|id| !self.control.is_silent(*id)).collect();
        self.tokenizer.decode(&shown, false).map_err(|e| self.fail(e))
    }

    /// One token as the vocabulary writes it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// Ids that end an answer, ascending.
    pub fn stops(&self) -> &[u32] {
        &self.stops
    }

    /// The id that ends an answer while training.
    pub fn end_of_turn(&self) -> u32 {
        self.end_of_turn
    }

    /// One more than the highest id.
    pub fn vocab(&self) -> usize {
        let ids = self.tokenizer.get_vocab(true);
        ids.values().max().map_or(0, |id| *id as usize + 1)
    }

    /// `tokenizer.json` and `tokenizer_config.json`.
    pub(crate) fn files(&self) -> &[Value; 2] {
        &self.files
    }

    fn fail(&self, cause: impl std::fmt::Display) -> StudentError {
        StudentError::chat(&self.model, cause)
    }

    /// Control tokens are looked for between the messages only; the text from one to the next is
    /// encoded as a whole, messages and template together, as `transformers` does.
    fn encode_rendered(&self, rendered: &Rendered) -> Result<Vec<u32>> {
        let (text, mut ids) = (&rendered.text[..], Vec::new());
        let (mut from, mut at, mut contents, mut trim) = (0, 0, rendered.contents.iter().peekable(), false);
        while at < text.len() {
            if let Some(content) = contents.next_if(|content| content.start == at) {
                at = content.end;
                continue;
            }
            let limit = contents.peek().map_or(text.len(), |content| content.start);
            let Some(special) = self.control.tokens.iter().find(|s| text[at..limit].starts_with(&s.text)) else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            self.encode_between(text, from..at, [trim, special.lstrip], &mut ids)?;
            ids.push(special.id);
            at += special.text.len();
            (from, trim) = (at, special.rstrip);
        }
        self.encode_between(text, from..text.len(), [trim, false], &mut ids)?;
        Ok(ids)
    }

    /// What stands from one control token to the next; `trim` says on which sides the tokens take
    /// white space along.
    fn encode_between(&self, text: &str, at: Range<usize>, trim: [bool; 2], ids: &mut Vec<u32>) -> Result<()> {
        let opening = self.opening.as_ref().filter(|_| at.start == 0);
        let mut text = &text[at];
        if trim[0] {
            text = text.trim_start();
        }
        if trim[1] {
            text = text.trim_end();
        }
        if !text.is_empty() {
            ids.extend(self.encode_by(opening.unwrap_or(&self.tokenizer), text)?);
        }
        Ok(())
    }

    /// The first control token that the template puts behind an answer, else the tokenizer's end.
    fn find_end_of_turn(&self, named: &[(&str, &str)]) -> Result<u32> {
        let messages = [Message::user("question"), Message::assistant("answer")];
        let rendered = self.template.render(&messages, false).map_err(|e| self.fail(e))?;
        let behind = rendered.contents.last().map_or("", |answer| &rendered.text[answer.end..]);
        let found = self.control.tokens.iter().filter_map(|s| Some((behind.find(&s.text)?, s.id))).min();
        let eos = || {
            let (_, text) = named.iter().find(|(name, _)| *name == "eos_token")?;
            self.control.tokens.iter().find(|special| special.text == *text).map(|special| special.id)
        };
        let end = found.map(|(_, id)| id).or_else(eos);
        end.ok_or_else(|| StudentError::NoEnd { model: self.model.clone() })
    }
}

fn tokenizer_config(template: &str, named: &[(&str, &str)]) -> Value {
    let mut config = serde_json::Map::new();
    config.insert("tokenizer_class".into(), "PreTrainedTokenizerFast".into());
    for (name, text) in named {
        config.insert((*name).into(), (*text).into());
    }
    config.insert("chat_template".into(), template.into());
    Value::Object(config)
}
