//! A stretch of a document's text: byte offsets inside, code points at every border.

use std::fmt;
use std::ops::Range;

/// A non-empty byte range that lies inside its text and on character boundaries.
///
/// Files speak Unicode code points (what Python slices with); [`Span::from_code_points`] and
/// [`Span::to_code_points`] convert once at the border.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    start: usize,
    end: usize,
}

/// Why a pair of offsets is not a span of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanError {
    /// `start >= end`.
    Empty { start: usize, end: usize },
    /// The end lies behind the text.
    Outside { end: usize, length: usize },
    /// An offset cuts a character in two.
    InsideCharacter { offset: usize },
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpanError::Empty { start, end } => {
                write!(f, "span {start}..{end} is empty; the end is exclusive and must lie behind the start")
            }
            SpanError::Outside { end, length } => {
                write!(f, "span end {end} lies outside the text of length {length}; offsets count Unicode code points")
            }
            SpanError::InsideCharacter { offset } => {
                write!(f, "byte {offset} lies inside a character")
            }
        }
    }
}

impl std::error::Error for SpanError {}

impl Span {
    /// Checks a byte range against its text.
    ///
    /// # Errors
    /// If the range is empty, ends outside the text or cuts a character.
    pub fn new(text: &str, range: Range<usize>) -> Result<Span, SpanError> {
        let Range { start, end } = range;
        if start >= end {
            return Err(SpanError::Empty { start, end });
        }
        if end > text.len() {
            return Err(SpanError::Outside { end, length: text.len() });
        }
        match [start, end].into_iter().find(|&at| !text.is_char_boundary(at)) {
            Some(offset) => Err(SpanError::InsideCharacter { offset }),
            None => Ok(Span { start, end }),
        }
    }

    /// Reads code-point offsets, end exclusive, as files carry them.
    ///
    /// # Errors
    /// If the range is empty or ends outside the text.
    pub fn from_code_points(text: &str, start: usize, end: usize) -> Result<Span, SpanError> {
        if start >= end {
            return Err(SpanError::Empty { start, end });
        }
        // Up to here a byte is a character: most texts, and nothing to count.
        if text.as_bytes().get(..end).is_some_and(<[u8]>::is_ascii) {
            return Ok(Span { start, end });
        }
        let mut at = text.char_indices().map(|(byte, _)| byte).chain([text.len()]);
        let outside = || SpanError::Outside { end, length: text.chars().count() };
        let first = at.nth(start).ok_or_else(outside)?;
        let last = at.nth(end - start - 1).ok_or_else(outside)?;
        Ok(Span { start: first, end: last })
    }

    /// First byte.
    pub fn start(&self) -> usize {
        self.start
    }

    /// One past the last byte.
    pub fn end(&self) -> usize {
        self.end
    }

    /// The byte range.
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// The words under the span; empty if `text` is not the text it was made from.
    pub fn slice<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.start..self.end).unwrap_or_default()
    }

    /// Code-point offsets `(start, end)` in the text that the span was made from.
    pub fn to_code_points(&self, text: &str) -> (usize, usize) {
        let start = text[..self.start].chars().count();
        (start, start + text[self.start..self.end].chars().count())
    }

    /// Whether the two share at least one byte.
    pub fn overlaps(&self, other: &Span) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether `other` lies inside (or equals) this span.
    pub fn contains(&self, other: &Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The span without white space at its edges; `None` if nothing else is in it.
    pub fn trimmed(&self, text: &str) -> Option<Span> {
        let inside = self.slice(text);
        let start = self.start + (inside.len() - inside.trim_start().len());
        Span::new(text, start..start + inside.trim().len()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_and_bytes_agree_on_mixed_scripts() {
        // case C09: code points 9..11 and 17..23 are bytes 10..16 and 25..32.
        let text = "José met 李雷 🗼 in Zürich.";
        for (points, bytes, words) in [((9, 11), 10..16, "李雷"), ((17, 23), 25..32, "Zürich")] {
            let span = Span::from_code_points(text, points.0, points.1).unwrap();
            assert_eq!((span.range(), span.slice(text)), (bytes, words));
            assert_eq!(span.to_code_points(text), points);
        }
    }

    #[test]
    fn a_span_before_the_first_wide_character_is_that_of_a_count() {
        let text = "Ann met Zoë";
        for (start, end) in [(0, 3), (8, 10), (8, 11), (10, 11)] {
            let counted: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let span = Span::from_code_points(text, start, end).unwrap();
            assert_eq!(span.range(), counted[start]..counted[end]);
        }
        assert!(matches!(Span::from_code_points("Ann", 0, 4), Err(SpanError::Outside { .. })));
    }

    #[test]
    fn impossible_spans_cannot_be_built() {
        let text = "é";
        assert!(matches!(Span::new(text, 0..0), Err(SpanError::Empty { .. })));
        assert!(matches!(Span::new(text, 0..1), Err(SpanError::InsideCharacter { offset: 1 })));
        assert!(matches!(Span::new(text, 0..3), Err(SpanError::Outside { .. })));
        assert!(Span::from_code_points(text, 0, 1).is_ok());
        assert!(matches!(Span::from_code_points(text, 0, 2), Err(SpanError::Outside { .. })));
        assert!(matches!(Span::from_code_points(text, 2, 9), Err(SpanError::Outside { .. })));
    }

    #[test]
    fn trimming_drops_edge_whitespace_only() {
        let text = " Acme  Inc ";
        let span = Span::new(text, 0..text.len()).unwrap();
        assert_eq!(span.trimmed(text).unwrap().slice(text), "Acme  Inc");
        assert_eq!(Span::new("  ", 0..2).unwrap().trimmed("  "), None);
    }
}
