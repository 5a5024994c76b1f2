//! Strings of an answer's JSON: escapes, and where a string ends whose quotes were not escaped.

use super::json::{Fault, Place, Reader, Text, ellipsis, is_number, is_quote, opener, starts_comment, word_length};

/// How far a look ahead for a key goes, in characters.
const LOOK_AHEAD: usize = 200;

impl Reader<'_> {
    /// Reads a string that opens with `quote`.
    pub fn text(&mut self, quote: char, place: Place) -> Result<Text, Fault> {
        if quote == '\'' {
            self.note("single quotes");
        } else if quote != '"' {
            self.note("typographic quotes for JSON's own");
        }
        self.began = true;
        self.at += quote.len_utf8();
        let start = self.at;
        let (mut content, mut spoilt, mut opened) = (String::new(), false, false);
        loop {
            let Some(c) = self.peek() else { return self.fault("a string without an end") };
            if c == '\\' {
                self.escape(&mut content, &mut spoilt)?;
                continue;
            }
            let after = self.at + c.len_utf8();
            if (c == quote && !matches!(quote, '「' | '『'))
                || (self.lenient && place != Place::Top && closes(quote, c, opened))
            {
                if !self.lenient || self.string_ends(after, place) {
                    if c != quote && quote == '"' {
                        self.note("typographic quotes for JSON's own");
                    }
                    let bytes = start..self.at;
                    self.at = after;
                    return Ok(Text { content, bytes, spoilt });
                }
                if c == quote {
                    self.note("unescaped quote");
                }
            } else if c < ' ' {
                if !self.lenient {
                    return self.fault("a control character in a string");
                }
                self.note("control character in a string");
            }
            opened |= matches!(c, '“' | '„' | '«' | '‟');
            content.push(c);
            self.at = after;
        }
    }

    fn escape(&mut self, content: &mut String, spoilt: &mut bool) -> Result<(), Fault> {
        let rest = &self.raw[self.at + 1..];
        let Some(c) = rest.chars().next() else {
            self.at = self.raw.len();
            return self.fault("a string without an end");
        };
        let plain = match c {
            '"' | '\\' | '/' => Some(c),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            _ => None,
        };
        if let Some(plain) = plain {
            content.push(plain);
            self.at += 2;
            return Ok(());
        }
        match (c, hex4(&rest[c.len_utf8()..])) {
            ('u', Some(first)) => {
                self.at += 6;
                let second = self.raw[self.at..].strip_prefix("\\u").and_then(hex4);
                let pair = second
                    .and_then(|second| char::decode_utf16([first, second]).next()?.ok().filter(|_| is_high(first)));
                if pair.is_some() {
                    self.at += 6;
                }
                let single = char::from_u32(u32::from(first));
                *spoilt |= pair.or(single).is_none();
                content.push(pair.or(single).unwrap_or('\u{fffd}'));
                Ok(())
            }
            _ if self.lenient => {
                // `\'`, `\_`, `\d`: the back-slash alone is meant only before what needs no escape.
                self.note("escape that JSON does not have");
                if c.is_ascii_alphanumeric() {
                    content.push('\\');
                }
                content.push(c);
                self.at += 1 + c.len_utf8();
                Ok(())
            }
            _ => self.fault("an escape that JSON does not have"),
        }
    }

    /// Whether a string may end before byte `after`, by what follows: an unescaped quote inside a
    /// string is followed by more of the string. In valid JSON every bare quote passes.
    fn string_ends(&self, after: usize, place: Place) -> bool {
        let rest = self.raw[after..].trim_start();
        let broken_line = self.raw[after..self.raw.len() - rest.len()].contains('\n');
        let Some(next) = rest.chars().next() else { return true };
        match (place, next) {
            (Place::Key, ':' | '：' | '}' | '｝') => true,
            // Python's set has members where a map has keys.
            (Place::Key, ',' | '，') => rest[next.len_utf8()..].trim_start().starts_with(is_quote),
            (Place::Key, _) => false,
            (Place::Top, _) => true,
            (_, '}' | ']' | '｝' | '］') => true,
            (_, ')' | '）') => self.open.contains(&b'('),
            (_, ',' | '，' | '、') => {
                let rest = rest[next.len_utf8()..].trim_start();
                match rest.chars().next() {
                    None => true,
                    Some(c) if opener(c).is_some() => true,
                    Some(_) if starts_comment(rest) || ellipsis(rest) > 0 => true,
                    Some(_) if place == Place::InMap => starts_key(rest),
                    Some(_) if place == Place::InTuple && next == ',' => true,
                    Some(c) => {
                        is_quote(c) || c.is_ascii_alphanumeric() && starts_scalar(rest) || "{[(-,｛［（".contains(c)
                    }
                }
            }
            (_, '/' | '#') => starts_comment(rest),
            (Place::InMap, _) => is_quote(next) && starts_key(rest),
            (Place::InList | Place::InTuple, _) => broken_line && is_quote(next),
        }
    }
}

fn is_high(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

/// Whether `c` may close a string that `quote` opened, besides `quote` itself. A typographic
/// closing mark closes an ASCII quote only if none was opened inside the string.
fn closes(quote: char, c: char, opened: bool) -> bool {
    match quote {
        '"' => matches!(c, '”' | '“') && !opened,
        '\'' => false,
        '＂' => c == '"',
        '「' => c == '」',
        '『' => c == '』',
        '‘' | '’' | '＇' => matches!(c, '’' | '‘' | '\'' | '＇'),
        _ => matches!(c, '”' | '“' | '"'),
    }
}

/// Whether a key and its colon stand at the start of `rest`.
fn starts_key(rest: &str) -> bool {
    let Some(first) = rest.chars().next() else { return false };
    let near = |text: &str| text.char_indices().nth(LOOK_AHEAD).map_or(text.len(), |(at, _)| at);
    if is_quote(first) {
        let inside = &rest[first.len_utf8()..];
        let inside = &inside[..near(inside)];
        let end = inside.char_indices().find(|&(_, c)| c == first || closes(first, c, false));
        return end.is_some_and(|(at, c)| inside[at + c.len_utf8()..].trim_start().starts_with([':', '：']));
    }
    let length = word_length(&rest[..near(rest)]);
    length > 0 && rest[length..].trim_start().starts_with([':', '：'])
}

/// Whether a number or literal stands at the start of `rest`.
fn starts_scalar(rest: &str) -> bool {
    let length = rest.bytes().take(LOOK_AHEAD).take_while(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b)).count();
    matches!(&rest[..length], "null" | "true" | "false" | "None" | "True" | "False") || is_number(&rest[..length])
}

fn hex4(rest: &str) -> Option<u16> {
    let digits = rest.get(..4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}
