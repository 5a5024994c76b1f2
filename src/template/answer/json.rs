//! One JSON value with the place of every string, read strictly or with repairs.
//!
//! Serde's reader neither says where a string stands in the raw answer (log-probabilities are
//! aligned by that) nor lets one broken string fail alone; hence this small one. Strict reading
//! accepts what `serde_json` accepts, and a lone surrogate besides, which spoils its string only.

use std::collections::BTreeMap;
use std::ops::Range;

/// Brackets inside brackets; deeper is no answer.
pub(super) const MAX_DEPTH: usize = 64;

/// A string as read, and the bytes between its quotes in the raw answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text {
    pub content: String,
    pub bytes: Range<usize>,
    /// Half of a surrogate pair stands alone in it.
    pub spoilt: bool,
}

/// A value and its bytes in the raw answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub value: Value,
    pub bytes: Range<usize>,
}

/// What a value may be.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    Text(Text),
    /// A bare word such as `NaN` or `90%`; only with repairs, only as the value of a key.
    Word(String),
    List(Vec<Node>),
    Map(Vec<(Text, Node)>),
}

/// Where and why reading stopped.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub at: usize,
    pub what: &'static str,
    /// The text ended first.
    pub cut: bool,
    /// Enough was read to be sure that this was meant as JSON.
    pub began: bool,
}

/// How often each repair was made, in the order of their names.
pub(super) type Notes = BTreeMap<&'static str, usize>;

/// Where a string stands, which decides what may follow its closing quote.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Place {
    Key,
    InMap,
    InList,
    Top,
}

/// Reads one value at the start of `raw[range]`; what follows it is the caller's business.
/// `notes` is given for a reading with repairs.
pub(super) fn read_value(raw: &str, range: Range<usize>, notes: Option<&mut Notes>) -> Result<Node, Fault> {
    let mut reader = Reader {
        raw: &raw[..range.end],
        at: range.start,
        open: Vec::new(),
        began: false,
        lenient: notes.is_some(),
        notes: Notes::new(),
    };
    reader.space()?;
    let node = reader.value(Place::Top)?;
    if let Some(notes) = notes {
        for (kind, count) in reader.notes {
            *notes.entry(kind).or_default() += count;
        }
    }
    Ok(node)
}

/// Reads `raw[range]` as one strict JSON text with nothing but white space around it.
pub(super) fn read_strict(raw: &str, range: Range<usize>) -> Result<Node, Fault> {
    let node = read_value(raw, range.clone(), None)?;
    if raw[node.bytes.end..range.end].bytes().all(is_space) {
        return Ok(node);
    }
    Err(Fault { at: node.bytes.end, what: "text after the value", cut: false, began: true })
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Reads values one after the other.
pub(super) struct Reader<'a> {
    /// The answer up to where reading may go.
    pub raw: &'a str,
    /// The next byte.
    pub at: usize,
    /// Open brackets, innermost last.
    open: Vec<u8>,
    /// Enough was read to be sure that this is meant as JSON.
    pub began: bool,
    /// Whether repairs are made.
    pub lenient: bool,
    notes: Notes,
}

impl Reader<'_> {
    pub fn peek(&self) -> Option<char> {
        self.raw[self.at..].chars().next()
    }

    fn byte(&self) -> Option<u8> {
        self.raw.as_bytes().get(self.at).copied()
    }

    pub fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }

    pub fn fault<T>(&self, what: &'static str) -> Result<T, Fault> {
        Err(Fault { at: self.at, what, cut: self.at >= self.raw.len(), began: self.began })
    }

    fn space(&mut self) -> Result<(), Fault> {
        loop {
            while self.byte().is_some_and(is_space) {
                self.at += 1;
            }
            if !self.lenient {
                return Ok(());
            }
            match self.peek() {
                Some(c) if c.is_whitespace() || c == '\u{feff}' => self.at += c.len_utf8(),
                Some('/') if self.raw[self.at..].starts_with("//") => {
                    self.note("comment");
                    self.at = self.raw[self.at..].find('\n').map_or(self.raw.len(), |line| self.at + line);
                }
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, place: Place) -> Result<Node, Fault> {
        let start = self.at;
        let value = match self.peek() {
            Some('{') => self.map()?,
            Some('[') => self.list()?,
            Some('"') => Value::Text(self.text('"', place)?),
            Some(c) if self.lenient && is_quote(c) => Value::Text(self.text(c, place)?),
            Some(c) if c.is_ascii_alphanumeric() || "-+.".contains(c) => self.scalar(place)?,
            Some(_) => return self.fault("no value"),
            None => return self.fault("no value"),
        };
        Ok(Node { value, bytes: start..self.at })
    }

    fn enter(&mut self, bracket: u8) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            self.began = true;
            return self.fault("brackets nested deeper than 64");
        }
        self.open.push(bracket);
        self.at += 1;
        self.space()
    }

    /// Whether the container that was opened with `own` ends here; consumes its bracket.
    fn leaves(&mut self, own: u8, close: u8) -> bool {
        let Some(byte) = self.byte() else { return false };
        if byte == close {
            self.at += 1;
        } else if self.lenient && (byte == b']' || byte == b'}') && self.open.contains(&(byte - 2)) && byte - 2 != own {
            self.note("missing closing bracket"); // the outer container takes the bracket
        } else {
            return false;
        }
        self.open.pop();
        true
    }

    fn map(&mut self) -> Result<Value, Fault> {
        self.enter(b'{')?;
        let mut pairs = Vec::new();
        if self.leaves(b'{', b'}') {
            return Ok(Value::Map(pairs));
        }
        loop {
            let key = self.key()?;
            self.space()?;
            if self.byte() != Some(b':') {
                return self.fault("expected \":\" after a key");
            }
            self.began = true;
            self.at += 1;
            self.space()?;
            let node = self.value(Place::InMap)?;
            pairs.push((key, node));
            if self.separator(b'{', b'}')? {
                return Ok(Value::Map(pairs));
            }
        }
    }

    fn list(&mut self) -> Result<Value, Fault> {
        self.enter(b'[')?;
        let mut items = Vec::new();
        if self.leaves(b'[', b']') {
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(Place::InList)?);
            if self.separator(b'[', b']')? {
                return Ok(Value::List(items));
            }
        }
    }

    /// Reads what stands between two members; true at the end of the container.
    fn separator(&mut self, own: u8, close: u8) -> Result<bool, Fault> {
        self.space()?;
        if self.leaves(own, close) {
            return Ok(true);
        }
        match self.peek() {
            Some(',') => {
                self.at += 1;
                self.space()?;
                while self.lenient && self.byte() == Some(b',') {
                    self.note("doubled comma");
                    self.at += 1;
                    self.space()?;
                }
                let ended = self.lenient && self.leaves(own, close);
                if ended {
                    self.note("trailing comma");
                }
                Ok(ended)
            }
            Some(c) if self.lenient && (is_quote(c) || c == '{' || c == '[') => {
                self.note("missing comma");
                Ok(false)
            }
            _ => self.fault("expected \",\" or a closing bracket"),
        }
    }

    fn key(&mut self) -> Result<Text, Fault> {
        match self.peek() {
            Some('"') => self.text('"', Place::Key),
            Some(c) if self.lenient && is_quote(c) => self.text(c, Place::Key),
            Some(c) if self.lenient && (c.is_alphabetic() || c == '_') => {
                let start = self.at;
                let length = word_length(&self.raw[start..]);
                self.at += length;
                self.note("unquoted key");
                let bytes = start..self.at;
                Ok(Text { content: self.raw[bytes.clone()].to_owned(), bytes, spoilt: false })
            }
            _ => self.fault("expected a key"),
        }
    }

    fn scalar(&mut self, place: Place) -> Result<Value, Fault> {
        let rest = &self.raw[self.at..];
        let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"+-._%".contains(b)).count();
        let word = &rest[..length];
        let value = match word {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ if is_number(word) => Value::Number(word.to_owned()),
            _ if !self.lenient => return self.fault("not a JSON value"),
            "None" | "True" | "False" => {
                self.note("Python literal");
                if word == "None" { Value::Null } else { Value::Bool(word == "True") }
            }
            _ if place == Place::InMap => {
                self.note("bare word as a value");
                Value::Word(word.to_owned())
            }
            _ => return self.fault("not a JSON value"),
        };
        self.at += length;
        Ok(value)
    }
}

pub(super) fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '“' | '”' | '„' | '‟')
}

/// Bytes of the word at the start of `rest`.
pub(super) fn word_length(rest: &str) -> usize {
    rest.char_indices().find(|(_, c)| !(c.is_alphanumeric() || "_-".contains(*c))).map_or(rest.len(), |(at, _)| at)
}

/// JSON's number grammar.
pub(super) fn is_number(word: &str) -> bool {
    fn digits(text: &str) -> &str {
        text.trim_start_matches(|c: char| c.is_ascii_digit())
    }
    let rest = word.strip_prefix('-').unwrap_or(word);
    let after = digits(rest);
    let whole = &rest[..rest.len() - after.len()];
    if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
        return false;
    }
    let after = match after.strip_prefix('.') {
        Some(fraction) if digits(fraction).len() < fraction.len() => digits(fraction),
        Some(_) => return false,
        None => after,
    };
    match after.strip_prefix(['e', 'E']) {
        Some(power) => {
            let power = power.strip_prefix(['+', '-']).unwrap_or(power);
            !power.is_empty() && digits(power).is_empty()
        }
        None => after.is_empty(),
    }
}
