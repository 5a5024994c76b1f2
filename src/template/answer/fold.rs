//! A text as it is compared when the exact spelling is not found, and the way back.
//!
//! Folding takes canonical decomposition, lower case, plain quotes and dashes, half width for full,
//! single spaces and none between Han or Kana, and drops soft hyphens and zero-width marks. Every folded symbol knows the bytes it came from, so
//! a match is a span of the original, whatever folding did to lengths.

use std::ops::Range;
use unicode_normalization::char::{canonical_combining_class, decompose_canonical, is_combining_mark};

/// How far back a base character is looked for behind combining marks.
const MOST_MARKS: usize = 32;

/// A folded text.
pub(super) struct Folded {
    pub symbols: Vec<char>,
    pub places: Places,
}

/// The original bytes of every folded symbol.
pub(super) struct Places(Vec<(usize, usize)>);

impl Places {
    /// The original bytes of symbols `start..end`; `None` if that cuts an original character.
    pub fn range(&self, start: usize, end: usize) -> Option<Range<usize>> {
        let (first, last) = (*self.0.get(start)?, *self.0.get(end.checked_sub(1)?)?);
        if start > 0 && self.0[start - 1] == first || self.0.get(end) == Some(&last) {
            return None;
        }
        // Marks may stand in another order than in the original: take the furthest end.
        let furthest = self.0[start..end].iter().rev().take(MOST_MARKS).map(|place| place.1).max()?;
        Some(first.0..furthest)
    }
}

/// Folds a text.
pub(super) fn fold(text: &str) -> Folded {
    let mut symbols: Vec<(char, (usize, usize))> = Vec::with_capacity(text.len());
    let mut after_space = false;
    for (at, c) in text.char_indices() {
        let place = (at, at + c.len_utf8());
        if c.is_whitespace() {
            if !after_space && unspaced(text, at, c.len_utf8()) {
                continue;
            }
            match symbols.last_mut().filter(|_| after_space) {
                Some(last) => last.1.1 = place.1,
                None => symbols.push((' ', place)),
            }
            after_space = true;
            continue;
        }
        let before = symbols.len();
        fold_char(c, |folded| symbols.push((folded, place)));
        after_space &= symbols.len() == before;
    }
    order_marks(&mut symbols);
    let (symbols, places) = symbols.into_iter().unzip();
    Folded { symbols, places: Places(places) }
}

/// Whether white space stands between Han or Kana on both sides, where none is needed.
fn unspaced(text: &str, at: usize, length: usize) -> bool {
    let glued = |c: char| matches!(u32::from(c), 0x3005..=0x3007 | 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x323af);
    let after = text[at + length..].chars().next();
    text[..at].chars().next_back().is_some_and(glued) && after.is_some_and(glued)
}

fn fold_char(c: char, mut put: impl FnMut(char)) {
    match c {
        '！'..='～' if !matches!(c, '＂' | '＇' | '－') => {
            let half = char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c);
            put(half.to_ascii_lowercase());
        }
        '“' | '”' | '„' | '‟' | '＂' | '「' | '」' | '『' | '』' | '«' | '»' | '〝' | '〞' | '″' => {
            put('"')
        }
        '‘' | '’' | '＇' | '‚' | '‛' | '‹' | '›' | '′' | 'ʼ' | '`' | '´' => put('\''),
        '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' | '﹣' | '－' => put('-'),
        '…' => (0..3).for_each(|_| put('.')),
        'ß' | 'ẞ' => (0..2).for_each(|_| put('s')),
        '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}' => {}
        _ if c.is_ascii() => put(c.to_ascii_lowercase()),
        _ => decompose_canonical(c, |part| {
            for lower in part.to_lowercase() {
                let lower = if lower == 'ς' { 'σ' } else { lower };
                decompose_canonical(lower, &mut put);
            }
        }),
    }
}

/// Puts runs of combining marks into canonical order.
fn order_marks(symbols: &mut [(char, (usize, usize))]) {
    let mut at = 0;
    while at < symbols.len() {
        let run = symbols[at..].iter().take_while(|(c, _)| !c.is_ascii() && canonical_combining_class(*c) != 0).count();
        symbols[at..at + run].sort_by_key(|(c, _)| canonical_combining_class(*c));
        at += run + 1;
    }
}

/// Whether `text[start..end]` is cut out cleanly: no base character split from what belongs to
/// it, and no word cut in two.
pub(super) fn boundary(text: &str, start: usize, end: usize) -> bool {
    clean(text, start) && clean(text, end)
}

fn clean(text: &str, at: usize) -> bool {
    let (Some(before), Some(after)) = (text[..at].chars().next_back(), text[at..].chars().next()) else { return true };
    if continues(after) || before == '\u{200d}' {
        return false;
    }
    let base = text[..at].chars().rev().take(MOST_MARKS).find(|&c| !is_combining_mark(c)).unwrap_or(before);
    !(separates_words(base) && separates_words(after))
}

/// Whether a character belongs to the one before it.
fn continues(c: char) -> bool {
    !c.is_ascii()
        && (is_combining_mark(c)
            || matches!(c, '\u{200d}' | '\u{1160}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7fb}' | '\u{1f3fb}'..='\u{1f3ff}'))
}

/// An alphanumeric of a script that puts spaces between words.
fn separates_words(c: char) -> bool {
    c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphanumeric() && !is_unsegmented(c))
}

/// Han, Kana, Bopomofo, Hangul, Thai, Lao, Khmer and Myanmar.
fn is_unsegmented(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x1100..=0x11ff | 0x1780..=0x17ff | 0x19e0..=0x19ff
        | 0x2e80..=0x2fdf | 0x3005..=0x3007 | 0x3021..=0x3029 | 0x3031..=0x303c | 0x3040..=0x318f
        | 0x31a0..=0x31bf | 0x31f0..=0x31ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xa960..=0xa97f
        | 0xa9e0..=0xa9ff | 0xaa60..=0xaa7f | 0xac00..=0xd7ff | 0xf900..=0xfaff | 0xff66..=0xffdc
        | 0x1aff0..=0x1b16f | 0x20000..=0x323af)
}
