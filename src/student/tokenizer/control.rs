//! Control tokens: which they are, what any token stands for, and plain text that spells one.

use super::ChatTokenizer;
use std::collections::BTreeSet;
use tokenizers::{AddedToken, Tokenizer};

/// A token that the template alone may use.
#[derive(Clone, Debug)]
pub(super) struct Special {
    pub text: String,
    pub id: u32,
    pub lstrip: bool,
    pub rstrip: bool,
}

/// The control tokens of a vocabulary.
#[derive(Clone, Debug)]
pub(super) struct Control {
    /// Longest first.
    pub tokens: Vec<Special>,
    ids: BTreeSet<u32>,
    /// Those that decoding leaves out: the files call them special.
    silent: BTreeSet<u32>,
    /// Stands for what the vocabulary lacks, whoever wrote it.
    unknown: Option<u32>,
}

impl Control {
    /// Finds them, and keeps the tokenizer from seeing them in plain text.
    pub fn claim(tokenizer: &mut Tokenizer, unknown: Option<&str>) -> tokenizers::Result<Control> {
        let mut found: Vec<(u32, AddedToken)> =
            tokenizer.get_added_tokens_decoder().into_iter().filter(|(_, token)| is_control(token)).collect();
        found.sort_by(|(a, one), (b, other)| other.content.len().cmp(&one.content.len()).then(a.cmp(b)));
        let silent = found.iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect();
        tokenizer.add_special_tokens(found.iter().map(|(_, token)| token.clone().special(true)))?;
        tokenizer.set_encode_special_tokens(true);
        let ids = found.iter().map(|(id, _)| *id).collect();
        let tokens = found.into_iter().map(|(id, token)| Special {
            text: token.content,
            id,
            lstrip: token.lstrip,
            rstrip: token.rstrip,
        });
        let unknown = unknown.and_then(|text| tokenizer.token_to_id(text));
        Ok(Control { tokens: tokens.collect(), ids, silent, unknown })
    }

    /// Whether only the template may use this token.
    pub fn has(&self, id: u32) -> bool {
        self.ids.contains(&id)
    }

    /// Whether decoding leaves it out.
    pub fn is_silent(&self, id: u32) -> bool {
        self.silent.contains(&id)
    }

    /// Whether plain text must not encode to it.
    pub fn is_forbidden(&self, id: u32) -> bool {
        self.has(id) && self.unknown != Some(id)
    }

    /// The text in pieces of which none spells a control token: each is cut behind its first
    /// character.
    pub fn torn<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let (mut pieces, mut from) = (Vec::new(), 0);
        for (at, c) in text.char_indices() {
            if self.tokens.iter().any(|token| text[at..].starts_with(&token.text)) {
                pieces.push(&text[from..at + c.len_utf8()]);
                from = at + c.len_utf8();
            }
        }
        pieces.push(&text[from..]);
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

/// Whether the files call a token special, or it is written like mark-up. Some do not call theirs
/// special: Qwen's `<tool_call>` and `<|fim_prefix|>`, DeepSeek's `<｜User｜>`. Runs of spaces and
/// whole words that a vocabulary adds are text like any other.
fn is_control(token: &AddedToken) -> bool {
    let text = &token.content;
    let framed = (text.starts_with('<') && text.ends_with('>')) || (text.starts_with('[') && text.ends_with(']'));
    !text.is_empty()
        && (token.special || framed && text.chars().count() > 2 && !text.contains(|c: char| c.is_whitespace()))
}

impl ChatTokenizer {
    /// Whether only the template may use this token.
    pub fn is_control(&self, id: u32) -> bool {
        self.control.has(id)
    }

    /// The bytes a token stands for: its own text where it is a control token or an added one, a
    /// piece of a character where the vocabulary has such.
    pub fn bytes_of(&self, id: u32) -> Vec<u8> {
        let written = self.tokenizer.id_to_token(id).unwrap_or_default();
        if self.tokenizer.get_added_vocabulary().simple_id_to_token(id).is_some() {
            return written.into_bytes();
        }
        if self.byte_level {
            let bytes: Option<Vec<u8>> = written.chars().map(byte_of).collect();
            return bytes.unwrap_or_else(|| written.into_bytes());
        }
        let byte = written.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
        match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => vec![byte],
            None => written.replace('▁', " ").into_bytes(),
        }
    }

    /// A token for people: a control token as it is written, text in quotes with escapes, a piece
    /// of a character as `\xE6`.
    pub fn shown(&self, id: u32) -> String {
        let bytes = self.bytes_of(id);
        match String::from_utf8(bytes) {
            Ok(text) if self.is_control(id) => text,
            Ok(text) => format!("{text:?}"),
            Err(error) => {
                let byte = |byte: &u8| match byte {
                    b' '..=b'~' if *byte != b'"' && *byte != b'\\' => char::from(*byte).to_string(),
                    _ => format!("\\x{byte:02X}"),
                };
                format!("\"{}\"", error.as_bytes().iter().map(byte).collect::<String>())
            }
        }
    }
}

/// The byte that a character of a byte-level vocabulary stands for. GPT-2's table: printable
/// Latin-1 stands for itself, the other bytes follow from U+0100 on, in order.
fn byte_of(c: char) -> Option<u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match u32::from(c) {
        code @ 0..=0xFF => u8::try_from(code).ok().filter(|byte| printable(*byte)),
        code => (0..=u8::MAX).filter(|byte| !printable(*byte)).nth(code as usize - 0x100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_character() {
        // The alphabet is that of the `tokenizers` crate, which shares GPT-2's table.
        let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        let bytes: BTreeSet<u8> = alphabet.iter().map(|c| byte_of(*c).unwrap()).collect();
        assert_eq!((alphabet.len(), bytes.len()), (256, 256));
        let known = [('A', b'A'), ('Ġ', b' '), ('Ċ', b'\n'), ('Ã', 0xC3), ('Ģ', 0x80)];
        assert!(known.iter().all(|(c, byte)| byte_of(*c) == Some(*byte)));
        assert_eq!((byte_of(' '), byte_of('東')), (None, None));
    }

    #[test]
    fn mark_up_is_control_and_added_words_and_spaces_are_text() {
        let token = |text: &str| AddedToken::from(text, false);
        for text in ["<think>", "</s>", "<|fim_prefix|>", "[INST]", "<｜User｜>"] {
            assert!(is_control(&token(text)), "{text}");
        }
        for text in ["", "  ", "\n\n", "<>", "[]", "< b >", "Zürich", "<", "a>"] {
            assert!(!is_control(&token(text)), "{text}");
        }
        assert!(is_control(&token("sep").special(true)));
    }
}
