//! As much XML as annotation files have: elements, attributes, text. A pull reader without a tree and
//! without recursion; declarations, comments and processing instructions are passed over.

/// What stands next in a file.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// `<name key="value">`; with `closed`, `<name/>`.
    Open { name: String, attributes: Vec<(String, String)>, closed: bool },
    /// `</name>`.
    Close(String),
    /// Text, entities resolved.
    Text(String),
}

impl Piece {
    /// The attribute of an opening element.
    pub(super) fn attribute(&self, key: &str) -> Option<&str> {
        match self {
            Piece::Open { attributes, .. } => {
                attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
            }
            _ => None,
        }
    }
}

/// Reads a file piece by piece.
pub(super) struct Pieces<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(text: &'a str) -> Pieces<'a> {
        Pieces { rest: text.trim_start_matches('\u{feff}'), line: 1 }
    }

    /// Line of the next piece, counting from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    fn skip(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.bytes().filter(|byte| *byte == b'\n').count();
        self.rest = rest;
        taken
    }

    fn behind(&self, from: usize, mark: &str) -> Result<usize, String> {
        let found = self.rest.get(from..).and_then(|rest| rest.find(mark));
        found.map(|at| from + at + mark.len()).ok_or_else(|| format!("the file ends before {mark:?}"))
    }

    /// The next piece.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, String> {
        loop {
            if self.rest.is_empty() {
                return Ok(None);
            }
            if !self.rest.starts_with('<') {
                let end = self.rest.find('<').unwrap_or(self.rest.len());
                return Ok(Some(Piece::Text(resolved(self.skip(end)))));
            }
            if self.rest.starts_with("<!--") {
                let end = self.behind(4, "-->")?;
                self.skip(end);
            } else if self.rest.starts_with("<![CDATA[") {
                let end = self.behind(9, "]]>")?;
                let taken = self.skip(end);
                return Ok(Some(Piece::Text(taken[9..end - 3].to_string())));
            } else if self.rest.starts_with("<?") || self.rest.starts_with("<!") {
                let end = self.behind(2, ">")?;
                self.skip(end);
            } else {
                return self.element().map(Some);
            }
        }
    }

    fn element(&mut self) -> Result<Piece, String> {
        // A quoted value may hold the sign that ends the element.
        let mut quote = None;
        let end = self.rest.char_indices().find(|(_, c)| {
            match (quote, c) {
                (None, '"' | '\'') => quote = Some(*c),
                (Some(open), c) if open == *c => quote = None,
                _ => {}
            }
            quote.is_none() && *c == '>'
        });
        let Some((end, _)) = end else { return Err("an element is open at the end of the file".into()) };
        let inside = &self.skip(end + 1)[1..end];
        if let Some(name) = inside.strip_prefix('/') {
            return Ok(Piece::Close(name.trim().to_string()));
        }
        let (inside, closed) = inside.strip_suffix('/').map_or((inside, false), |inside| (inside, true));
        let (name, mut rest) = inside.split_once(|c: char| c.is_whitespace()).unwrap_or((inside, ""));
        let mut attributes = Vec::new();
        while let Some((key, behind)) = rest.split_once('=') {
            let behind = behind.trim_start();
            let quote = behind.chars().next().filter(|quote| matches!(quote, '"' | '\''));
            let value = quote.and_then(|quote| behind[1..].split_once(quote));
            let Some((value, behind)) = value else {
                return Err(format!("expected a value in quotes behind {:?}", key.trim()));
            };
            attributes.push((key.trim().to_string(), resolved(value)));
            rest = behind;
        }
        Ok(Piece::Open { name: name.to_string(), attributes, closed })
    }
}

/// A reference at the beginning of a text: its character, and its length in bytes.
pub(super) fn reference(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    let c = match text.get(1..end)? {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        number => {
            let number = number.strip_prefix('#')?;
            let value = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(value.ok()?)?
        }
    };
    Some((c, end + 1))
}

fn resolved(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        found.push_str(&rest[..at]);
        rest = &rest[at..];
        // A sign that opens no reference stands for itself.
        let (c, length) = reference(rest).unwrap_or(('&', 1));
        found.push(c);
        rest = &rest[length..];
    }
    found + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_attributes_and_text_come_in_order_with_their_lines() {
        let text = "<?xml version='1.0'?><!DOCTYPE a>\n<a x=\"1 > 0\" y='&amp;'>AT&amp;T &lt;&#233;&#x4e;> & co\n<!-- <b> --><b/><![CDATA[<&]]></a>";
        let mut pieces = Pieces::new(text);
        let open = |name: &str, attributes: &[(&str, &str)], closed| Piece::Open {
            name: name.into(),
            attributes: attributes.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            closed,
        };
        for wanted in [
            Piece::Text("\n".into()),
            open("a", &[("x", "1 > 0"), ("y", "&")], false),
            Piece::Text("AT&T <éN> & co\n".into()),
            open("b", &[], true),
            Piece::Text("<&".into()),
            Piece::Close("a".into()),
        ] {
            assert_eq!(pieces.next().unwrap().unwrap(), wanted);
        }
        assert_eq!((pieces.next().unwrap(), pieces.line()), (None, 3));
    }

    #[test]
    fn what_is_cut_is_an_error() {
        for text in ["<a", "<a b=\"c>", "<!-- x", "<a b=c>", "<![CDATA[x]]", "<a b=>"] {
            let mut pieces = Pieces::new(text);
            assert!(pieces.next().is_err(), "{text}");
        }
    }
}
