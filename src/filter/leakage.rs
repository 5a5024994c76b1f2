//! Whether a training text stands, in whole or nearly, in a split that is measured.

use crate::ie::Document;
use std::collections::HashSet;

/// Share of common word 5-grams from which two texts count as copies of each other.
const NEAR: f64 = 0.5;
/// Words per gram.
const GRAM: usize = 5;

/// A training document and the measured document that it copies.
#[derive(Clone, Debug, PartialEq)]
pub struct Leak {
    /// Id in the training split.
    pub train: String,
    /// Id in the measured split.
    pub measured: String,
    /// Share of common 5-grams, 1 for the same words.
    pub overlap: f64,
}

/// Every pair of same or nearly same texts. Case, punctuation and white space are ignored.
pub fn leaks(train: &[Document], measured: &[Document]) -> Vec<Leak> {
    let grams = |document: &Document| {
        let words: Vec<String> = document
            .text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|w| !w.is_empty())
            .map(str::to_lowercase)
            .collect();
        let size = GRAM.min(words.len().max(1));
        words.windows(size).map(|gram| gram.join(" ")).collect::<HashSet<String>>()
    };
    let train: Vec<(&Document, HashSet<String>)> = train.iter().map(|document| (document, grams(document))).collect();
    let mut found = Vec::new();
    for other in measured {
        let theirs = grams(other);
        for (document, ours) in train.iter().filter(|(_, ours)| !ours.is_empty()) {
            let common = ours.intersection(&theirs).count() as f64;
            let overlap = common / (ours.len() + theirs.len()) as f64 * 2.0;
            if overlap >= NEAR {
                found.push(Leak { train: document.id.clone(), measured: other.id.clone(), overlap });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_near_copies_are_found_and_other_texts_are_not() {
        let train = [
            Document::new("a", "Ann Lee joined Acme in Bern in May 1999."),
            Document::new("b", "The river was calm that morning."),
        ];
        let measured = [
            Document::new("x", "  Ann Lee joined Acme in Bern in May 1999 "),
            Document::new("y", "Ann Lee joined Acme in Bern in June 1999."),
            Document::new("z", "The river flooded the old town that morning."),
        ];
        let found: Vec<(String, String)> =
            leaks(&train, &measured).into_iter().map(|leak| (leak.train, leak.measured)).collect();
        assert_eq!(found, [("a".into(), "x".into()), ("a".into(), "y".into())]);
    }
}
