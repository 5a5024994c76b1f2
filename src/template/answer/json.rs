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
    InTuple,
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

/// Reads the tuple at the start of `raw[range]`, with repairs.
pub(super) fn read_tuple(raw: &str, range: Range<usize>, notes: &mut Notes) -> Result<Node, Fault> {
    let raw = &raw[..range.end];
    let mut reader =
        Reader { raw, at: range.start, open: vec![], began: false, lenient: true, notes: std::mem::take(notes) };
    let node = reader.value(Place::InList)?;
    *notes = reader.notes;
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
    pub open: Vec<u8>,
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
                Some('#' | '/') if starts_comment(&self.raw[self.at..]) => {
                    self.note("comment");
                    let rest = &self.raw[self.at..];
                    let end = if rest.starts_with("/*") { rest.find("*/").map(|at| at + 2) } else { rest.find('\n') };
                    self.at = end.map_or(self.raw.len(), |end| self.at + end);
                }
                Some('.' | '…') if !self.open.is_empty() && ellipsis(&self.raw[self.at..]) > 0 => {
                    self.note("ellipsis removed");
                    self.at += ellipsis(&self.raw[self.at..]);
                }
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, place: Place) -> Result<Node, Fault> {
        let start = self.at;
        let value = match self.peek() {
            Some('{') => self.map()?,
            Some('[') => self.list(b'[')?,
            Some('"') => Value::Text(self.text('"', place)?),
            Some('｛') if self.lenient => self.map()?,
            Some('［') if self.lenient => self.list(b'[')?,
            Some('(' | '（') if self.lenient && place != Place::Top => self.list(b'(')?,
            Some(c) if self.lenient && is_quote(c) => Value::Text(self.text(c, place)?),
            Some(c) if place == Place::InTuple && self.lenient && !closes_tuple(c) => self.bare(),
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
        match self.peek() {
            Some(c) if c.is_ascii() => self.at += 1,
            Some(c) => self.wide(c),
            None => {}
        }
        self.space()
    }

    /// Steps over a full-width bracket, comma or colon.
    fn wide(&mut self, c: char) {
        self.note("full-width punctuation");
        self.at += c.len_utf8();
    }

    /// Whether the container that was opened with `own` ends here; consumes its bracket.
    fn leaves(&mut self, own: u8) -> bool {
        let Some((c, opener)) = self.peek().and_then(|c| Some((c, opener(c)?))) else { return false };
        if !c.is_ascii() && !self.lenient {
            return false;
        }
        if opener == own {
            if c.is_ascii() {
                self.at += 1;
            } else {
                self.wide(c);
            }
        } else if self.lenient && self.open.contains(&opener) {
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
        if self.leaves(b'{') {
            return Ok(Value::Map(pairs));
        }
        loop {
            let start = self.at;
            let key = self.key()?;
            let node = start..self.at;
            self.space()?;
            match self.peek() {
                Some(':') => self.at += 1,
                Some('：') if self.lenient => self.wide('：'),
                Some(',' | '，' | '}' | '｝') if self.lenient && pairs.is_empty() && key.bytes != node => {
                    return self.set(Node { value: Value::Text(key), bytes: node });
                }
                _ => return self.fault("expected \":\" after a key"),
            }
            self.began = true;
            self.space()?;
            let node = self.value(Place::InMap)?;
            pairs.push((key, node));
            if self.separator(b'{')? {
                return Ok(Value::Map(pairs));
            }
        }
    }

    /// Python's `{'a', 'b'}`, its first member read.
    fn set(&mut self, first: Node) -> Result<Value, Fault> {
        self.note("Python set");
        let mut items = vec![first];
        while !self.separator(b'{')? {
            items.push(self.value(Place::InList)?);
        }
        Ok(Value::List(items))
    }

    /// A list, or a tuple where it opens with a round bracket.
    fn list(&mut self, own: u8) -> Result<Value, Fault> {
        let place = if own == b'(' { Place::InTuple } else { Place::InList };
        self.enter(own)?;
        let mut items = Vec::new();
        if own == b'(' {
            self.note("Python tuple");
        }
        if self.leaves(own) {
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(place)?);
            if self.separator(own)? {
                return Ok(Value::List(items));
            }
        }
    }

    /// A member of a tuple without quotes, up to the next comma or bracket: `(PER, Ann Lee)`.
    fn bare(&mut self) -> Value {
        let rest = &self.raw[self.at..];
        let length = rest.find(closes_tuple).unwrap_or(rest.len());
        let content = rest[..length].trim_end();
        let bytes = self.at..self.at + content.len();
        self.at += length;
        match content {
            "None" | "null" => Value::Null,
            _ if is_number(content) => Value::Number(content.to_owned()),
            _ => Value::Text(Text { content: content.to_owned(), bytes, spoilt: false }),
        }
    }

    /// Reads what stands between two members; true at the end of the container.
    fn separator(&mut self, own: u8) -> Result<bool, Fault> {
        self.space()?;
        if self.leaves(own) {
            return Ok(true);
        }
        match self.peek() {
            Some(c) if self.comma(c) => {
                self.space()?;
                while self.lenient && self.peek().is_some_and(|c| self.comma(c)) {
                    self.note("doubled comma");
                    self.space()?;
                }
                let ended = self.lenient && self.leaves(own);
                if ended && own != b'(' {
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

    /// Steps over a comma.
    fn comma(&mut self, c: char) -> bool {
        match c {
            ',' => self.at += 1,
            '，' | '、' if self.lenient => self.wide(c),
            _ => return false,
        }
        true
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
    matches!(c, '"' | '\'' | '“' | '”' | '„' | '‟' | '‘' | '’' | '＂' | '＇' | '「' | '『')
}

/// The bracket that `c` closes.
pub(super) fn opener(c: char) -> Option<u8> {
    match c {
        '}' | '｝' => Some(b'{'),
        ']' | '］' => Some(b'['),
        ')' | '）' => Some(b'('),
        _ => None,
    }
}

/// What ends a member of a tuple that has no quotes.
fn closes_tuple(c: char) -> bool {
    ",，、()（）[]{}\n".contains(c)
}

/// Whether a comment starts here: `//`, `/*`, or Python's.
pub(super) fn starts_comment(rest: &str) -> bool {
    rest.starts_with("//") || rest.starts_with("/*") || rest.starts_with('#')
}

/// Bytes of `...` or `…` at the start.
pub(super) fn ellipsis(rest: &str) -> usize {
    ["...", "……", "…"].into_iter().find(|dots| rest.starts_with(dots)).map_or(0, str::len)
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
