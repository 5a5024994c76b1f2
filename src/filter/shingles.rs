//! A text as a set of shingles (Broder 1997): every run of a few normalised words, as a hash.

use unicode_normalization::UnicodeNormalization;

/// Words per shingle; a shorter text is one shingle.
pub(super) const SHINGLE: usize = 5;

/// Hashes of the words of a text, in order: lower case, compatibility form, no punctuation; where a
/// script writes no spaces, every character is a word.
pub(super) fn words(text: &str) -> Vec<u64> {
    let mut words = Words { found: Vec::with_capacity(text.len() / 5), word: EMPTY, open: false };
    if text.is_ascii() {
        // Most texts: nothing to compose, one byte a character.
        text.bytes().for_each(|c| words.take(char::from(c.to_ascii_lowercase())));
    } else {
        text.nfkc().flat_map(char::to_lowercase).for_each(|c| words.take(c));
    }
    words.close();
    words.found
}

/// The hash of nothing.
const EMPTY: u64 = 0x9E37_79B9_7F4A_7C15;

struct Words {
    found: Vec<u64>,
    word: u64,
    open: bool,
}

impl Words {
    fn take(&mut self, c: char) {
        let alone = is_unspaced(c);
        if alone || !c.is_alphanumeric() {
            self.close();
        }
        if alone || c.is_alphanumeric() {
            self.word = joined(self.word, u64::from(u32::from(c)));
            self.open = true;
        }
        if alone {
            self.close();
        }
    }

    fn close(&mut self) {
        if self.open {
            self.found.push(mixed(self.word));
            (self.word, self.open) = (EMPTY, false);
        }
    }
}

/// Kana, Han and Thai to Khmer: words are not set apart.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
        && c.is_alphanumeric()
}

/// The set of shingles of some words, sorted.
pub(super) fn shingles(words: &[u64]) -> Vec<u64> {
    let size = SHINGLE.min(words.len().max(1));
    let mut all: Vec<u64> =
        words.windows(size).map(|run| mixed(run.iter().fold(EMPTY, |hash, word| joined(hash, *word)))).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// One more part of a sequence. The order of parts counts.
pub(super) fn joined(hash: u64, part: u64) -> u64 {
    let product = u128::from(hash ^ part.rotate_left(32)) * 0xD6E8_FEB8_6659_FD93_u128;
    (product as u64) ^ ((product >> 64) as u64) ^ part
}

/// Every bit of the result depends on every bit of the number (the finish of SplitMix64, Steele et al. 2014).
pub(super) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart_and_case_accents_and_signs_are_not() {
        assert_eq!(words("Ann, Lee."), words("  ANN lee"));
        assert_ne!(words("Ann Lee"), words("AnnLee"));
        assert_ne!(words("Ann Lee"), words("Lee Ann"));
        let composed = "Café Zoë";
        let decomposed: String = composed.nfd().collect();
        assert_eq!(words(composed), words(&decomposed));
        assert_eq!(words("李雷在北京。").len(), 5);
        assert_eq!(words(" … "), [0; 0]);
    }

    #[test]
    fn a_text_has_one_shingle_less_four_than_words_and_a_short_one_is_one() {
        assert_eq!(shingles(&words("a b c d e f g")).len(), 3);
        assert_eq!(shingles(&words("a b c")).len(), 1);
        assert_eq!(shingles(&words("")).len(), 0);
        assert_eq!(shingles(&words("a a a a a a a a")).len(), 1, "it is a set");
    }

    #[test]
    fn different_words_do_not_share_a_hash() {
        let mut all: Vec<u64> = (0..200_000).map(|at| words(&format!("w{at}"))[0]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 200_000);
    }
}
