//! Whether a measured text stands, in whole or nearly, in the training split: shingles of
//! normalised words (Broder 1997), through an inverted index.

use crate::ie::Document;
use std::collections::{HashMap, HashSet};
use std::fmt;
use unicode_normalization::UnicodeNormalization;

/// Share of common shingles (twice the common ones over all) from which two texts count as
/// copies of each other.
const NEAR: f64 = 0.5;
/// Words per shingle; a shorter text is one shingle.
const SHINGLE: usize = 5;
/// Pairs that a refusal names.
const NAMED: usize = 3;

/// A measured document and the training document that it copies most.
#[derive(Clone, Debug, PartialEq)]
pub struct Leak {
    /// Id in the training split.
    pub train: String,
    /// Id in the measured split.
    pub measured: String,
    /// Share of common shingles.
    pub overlap: f64,
    /// Whether the words are the same, one after the other.
    pub exact: bool,
}

/// What of one measured split stands in the training split.
#[derive(Clone, Debug, PartialEq)]
pub struct Leakage {
    /// `dev` or `test`.
    pub split: &'static str,
    /// Documents of the split.
    pub documents: usize,
    /// At most one for each of them, in their order.
    pub leaks: Vec<Leak>,
}

impl Leakage {
    /// Compares a measured split with the training split.
    pub fn of(split: &'static str, train: &[Document], measured: &[Document]) -> Leakage {
        Leakage { split, documents: measured.len(), leaks: leaks(train, measured) }
    }

    /// Share of the split that is known from training; 0 of nothing.
    pub fn share(&self) -> f64 {
        self.leaks.len() as f64 / self.documents.max(1) as f64
    }
}

impl fmt::Display for Leakage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = self.leaks.iter().filter(|leak| leak.exact).count();
        write!(
            f,
            "{} of {} {} documents stand in the training split as well ({exact} word for word, {} nearly: at least {:.0} % \
             of their {SHINGLE}-word shingles):",
            self.leaks.len(),
            self.documents,
            self.split,
            self.leaks.len() - exact,
            100.0 * NEAR
        )?;
        for (at, leak) in self.leaks.iter().take(NAMED).enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma} {} \"{}\" is train \"{}\"", self.split, leak.measured, leak.train)?;
            if !leak.exact {
                write!(f, " by {:.0} %", 100.0 * leak.overlap)?;
            }
        }
        if self.leaks.len() > NAMED { f.write_str(" …") } else { Ok(()) }
    }
}

/// For every measured text that is the same as a training text, or nearly, the nearest one, the
/// first among equals. Case, accents' encoding, punctuation and white space are ignored.
pub fn leaks(train: &[Document], measured: &[Document]) -> Vec<Leak> {
    let ours: Vec<Vec<String>> = train.iter().map(|document| words(&document.text)).collect();
    let mut index: HashMap<String, Vec<usize>> = HashMap::new();
    let mut sizes = Vec::with_capacity(ours.len());
    for (at, words) in ours.iter().enumerate() {
        let shingles = shingles(words);
        sizes.push(shingles.len());
        shingles.into_iter().for_each(|shingle| index.entry(shingle).or_default().push(at));
    }
    let nearest = |other: &Document| {
        let theirs = words(&other.text);
        let shingles = shingles(&theirs);
        let mut common: HashMap<usize, usize> = HashMap::new();
        let found = shingles.iter().filter_map(|shingle| index.get(shingle)).flatten();
        found.for_each(|at| *common.entry(*at).or_default() += 1);
        let overlap = |(at, common): (usize, usize)| (2.0 * common as f64 / (sizes[at] + shingles.len()) as f64, at);
        let (overlap, at) = common
            .into_iter()
            .map(overlap)
            .filter(|(overlap, _)| *overlap >= NEAR)
            .max_by(|(a, one), (b, two)| a.total_cmp(b).then(two.cmp(one)))?;
        let (train, measured) = (train[at].id.clone(), other.id.clone());
        Some(Leak { train, measured, overlap, exact: ours[at] == theirs })
    };
    measured.iter().filter_map(nearest).collect()
}

/// Lower-case words in compatibility form; where a script writes no spaces, every character.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for c in text.nfkc().flat_map(char::to_lowercase) {
        let alone = is_unspaced(c);
        if (alone || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if alone {
            words.push(c.to_string());
        } else if c.is_alphanumeric() {
            word.push(c);
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// Kana, Han and Thai to Khmer: words are not set apart.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
        && c.is_alphanumeric()
}

fn shingles(words: &[String]) -> HashSet<String> {
    words.windows(SHINGLE.min(words.len().max(1))).map(|shingle| shingle.join(" ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(texts: &[(&str, &str)]) -> Vec<Document> {
        texts.iter().map(|(id, text)| Document::new(*id, *text)).collect()
    }

    /// `(measured, train, exact)` of every leak.
    fn pairs(train: &[(&str, &str)], measured: &[(&str, &str)]) -> Vec<(String, String, bool)> {
        let leaks = leaks(&documents(train), &documents(measured));
        leaks.into_iter().map(|leak| (leak.measured, leak.train, leak.exact)).collect()
    }

    #[test]
    fn copies_and_near_copies_are_found_and_other_texts_are_not() {
        let train = [("a", "Ann Lee joined Acme in Bern in May 1999."), ("b", "The river was calm that morning.")];
        let measured = [
            ("x", "  ANN Lee joined Acme in Bern in May 1999 "),
            ("y", "Ann Lee joined Acme in Bern in June 1999."),
            ("z", "The river flooded the old town that morning."),
            ("empty", " … "),
        ];
        assert_eq!(pairs(&train, &measured), [("x".into(), "a".into(), true), ("y".into(), "a".into(), false)]);
        assert!(pairs(&[("a", "")], &[("x", "")]).is_empty());
    }

    #[test]
    fn the_nearest_training_text_is_named_and_the_first_among_equals() {
        let text = "one two three four five six seven eight";
        let near = "one two three four five six seven nine";
        assert_eq!(pairs(&[("n", near), ("a", text), ("b", text)], &[("x", text)]), [("x".into(), "a".into(), true)]);
    }

    #[test]
    fn encodings_of_an_accent_are_one_and_scripts_without_spaces_have_words() {
        let composed = "Renée Café Zoë Málaga señor";
        let decomposed: String = composed.nfd().collect();
        assert_eq!(pairs(&[("a", composed)], &[("x", &decomposed)]), [("x".into(), "a".into(), true)]);
        // 11 of 12 characters are the same: 7 of 8 shingles.
        let found =
            leaks(&documents(&[("a", "李雷在北京大学读了四年书。")]), &documents(&[("x", "李雷在北京大学读了四年半")]));
        assert_eq!(found.len(), 1);
        assert!(!found[0].exact && found[0].overlap > 0.8, "{found:?}");
    }

    #[test]
    fn a_short_text_is_a_copy_only_as_a_whole() {
        assert_eq!(pairs(&[("a", "NEW YORK ( AP )")], &[("x", "New York, AP"), ("y", "New York")]).len(), 1);
    }

    #[test]
    fn leakage_names_the_first_pairs_and_counts_the_rest() {
        let texts: Vec<(String, String)> = (0..5).map(|i| (format!("d{i}"), format!("text number {i}"))).collect();
        let all: Vec<Document> = texts.iter().map(|(id, text)| Document::new(id.clone(), text.clone())).collect();
        let leakage = Leakage::of("test", &all, &all);
        assert_eq!(leakage.share(), 1.0);
        assert_eq!(
            leakage.to_string(),
            "5 of 5 test documents stand in the training split as well (5 word for word, 0 nearly: at least 50 % of \
             their 5-word shingles): test \"d0\" is train \"d0\", test \"d1\" is train \"d1\", test \"d2\" is train \
             \"d2\" …"
        );
        assert_eq!(Leakage::of("dev", &all, &[]).share(), 0.0);
    }
}
