//! A text from tokens: with spaces between them, or without where the script has none.

use std::ops::Range;

/// What stands between two tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// One space.
    Space,
    /// Nothing, but for a space between two words of letters as in "Josh Lewenberg".
    Nothing,
}

/// Chooses the join by what the tokens of the file are so far; Chinese and Japanese have no spaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Joiner {
    fixed: Option<Join>,
    unspaced: usize,
    letters: usize,
}

impl Joiner {
    pub(super) fn new(fixed: Option<Join>) -> Joiner {
        Joiner { fixed, ..Joiner::default() }
    }

    /// The join for these tokens, which are counted too.
    pub(super) fn join(&mut self, tokens: &[impl AsRef<str>]) -> Join {
        for c in tokens.iter().flat_map(|token| token.as_ref().chars()) {
            self.unspaced += usize::from(is_unspaced(c));
            self.letters += usize::from(c.is_alphabetic());
        }
        let guess = if self.unspaced * 2 > self.letters { Join::Nothing } else { Join::Space };
        self.fixed.unwrap_or(guess)
    }
}

/// Whether a character belongs to a script without spaces between words: Han and Kana.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// The text of the tokens, and where each stands in it, in bytes.
pub(super) fn joined(tokens: &[impl AsRef<str>], join: Join) -> (String, Vec<Range<usize>>) {
    let mut text = String::new();
    let mut ranges: Vec<Range<usize>> = Vec::with_capacity(tokens.len());
    let mut last = "";
    for token in tokens {
        let token = token.as_ref();
        if !token.is_empty() {
            let word = |a: Option<char>| a.is_some_and(|c| c.is_ascii_alphanumeric());
            let words = word(last.chars().next_back()) && word(token.chars().next());
            let spaced = match join {
                Join::Space => !last.is_empty(),
                Join::Nothing => words && (last.len() > 1 || token.len() > 1),
            };
            if spaced {
                text.push(' ');
            }
            last = token;
        }
        let start = text.len();
        text.push_str(token);
        ranges.push(start..text.len());
    }
    (text, ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_stands_where_its_range_says() {
        for (tokens, join, text) in [
            (vec!["Ann", "'s", "", "dog", "."], Join::Space, "Ann 's dog ."),
            (vec!["李", "雷", "1", "9", "年"], Join::Nothing, "李雷19年"),
            (vec!["记者", "Josh", "Lewenberg", "报道"], Join::Nothing, "记者Josh Lewenberg报道"),
            (vec!["", ""], Join::Space, ""),
        ] {
            let (joined, ranges) = joined(&tokens, join);
            assert_eq!(joined, text);
            assert_eq!(ranges.iter().map(|range| &joined[range.clone()]).collect::<Vec<_>>(), tokens);
        }
    }

    #[test]
    fn a_title_in_letters_inside_a_chinese_file_is_joined_as_the_file_is() {
        let mut joiner = Joiner::new(None);
        assert_eq!(joiner.join(&["李", "雷", "在", "伯", "尔", "尼", "。"]), Join::Nothing);
        assert_eq!(joiner.join(&["N", "B", "A"]), Join::Nothing);
        assert_eq!(Joiner::new(None).join(&["Ann", "met", "李雷", "."]), Join::Space);
        assert_eq!(Joiner::new(Some(Join::Space)).join(&["李", "雷"]), Join::Space);
    }
}
