//! Whether a measured text stands in the training split: word for word, nearly (shingles of normalised
//! words, Broder 1997), or as the same facts in other words (the tuple of its typed names).
//!
//! The measured split is indexed, as it is the small one; training texts pass by, of which nothing is kept.
//! Their shingles are compared exactly: an estimate by MinHash would save nothing here.

use super::shingles::{SHINGLE, shingles, words};
use crate::ie::{Document, Extraction};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// Share of common shingles (twice the common ones over all) from which two texts count as
/// copies of each other.
const NEAR: f64 = 0.5;
/// Pairs that a refusal names.
const NAMED: usize = 3;
/// Typed names from which two documents with the same ones tell the same: one name alone says nothing.
const TUPLE: usize = 2;
/// Training texts that are looked at side by side.
const BLOCK: usize = 4096;

/// A measured document and the training document that it copies most.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// Two documents with the same typed names, at least two.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shared {
    /// The first training document that is taught with them.
    pub train: String,
    /// Id in the measured split.
    pub measured: String,
}

/// What of one measured split stands in the training split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leakage {
    /// `dev` or `test`.
    pub split: &'static str,
    /// Documents of the split.
    pub documents: usize,
    /// Copied texts: at most one pair for each document, in their order.
    pub leaks: Vec<Leak>,
    /// The same typed names, whatever the text: at most one pair for each document, in their order.
    pub shared_tuples: Vec<Shared>,
    /// Ids of the documents in neither list.
    pub clean: Vec<String>,
}

impl Leakage {
    /// Compares a measured split with the training split, by texts alone.
    pub fn of(split: &'static str, train: &[Document], measured: &[Document]) -> Leakage {
        let mut index = LeakIndex::of(measured);
        index.look_at(train);
        index.leakage(split)
    }

    /// Share of the split whose text is known from training; 0 of nothing.
    pub fn share(&self) -> f64 {
        self.leaks.len() as f64 / self.documents.max(1) as f64
    }

    /// Share of the split whose typed names are those of one training document; 0 of nothing.
    pub fn shared_share(&self) -> f64 {
        self.shared_tuples.len() as f64 / self.documents.max(1) as f64
    }

    /// What is shared, in words.
    pub fn shared_told(&self) -> String {
        let pair = |pair: &Shared| format!("{} \"{}\" as train \"{}\"", self.split, pair.measured, pair.train);
        let named: Vec<String> = self.shared_tuples.iter().take(NAMED).map(pair).collect();
        let more = if self.shared_tuples.len() > NAMED { " …" } else { "" };
        format!(
            "{} of {} {} documents hold just the typed names that one training document is taught with: {}{more}",
            self.shared_tuples.len(),
            self.documents,
            self.split,
            named.join(", ")
        )
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

/// A measured split, by its shingles and its tuples, and what was found so far.
#[derive(Debug)]
pub struct LeakIndex {
    ids: Vec<String>,
    words: Vec<Vec<u64>>,
    sizes: Vec<usize>,
    shingles: HashMap<u64, Vec<u32>>,
    tuples: HashMap<Vec<(String, String)>, Vec<u32>>,
    nearest: Vec<Option<Leak>>,
    shared: Vec<Option<Shared>>,
}

impl LeakIndex {
    /// An index of documents; the tuples of those without gold are unknown.
    pub fn of(measured: &[Document]) -> LeakIndex {
        let words: Vec<Vec<u64>> = measured.iter().map(|document| words(&document.text)).collect();
        let (mut index, mut sizes) = (HashMap::<u64, Vec<u32>>::new(), Vec::with_capacity(words.len()));
        for (at, words) in words.iter().enumerate() {
            let shingles = shingles(words);
            sizes.push(shingles.len());
            shingles.into_iter().for_each(|shingle| index.entry(shingle).or_default().push(at as u32));
        }
        let mut tuples = HashMap::<_, Vec<u32>>::new();
        for (at, document) in measured.iter().enumerate() {
            if let Some(tuple) = document.gold.as_ref().and_then(|gold| tuple(typed(gold))) {
                tuples.entry(tuple).or_default().push(at as u32);
            }
        }
        LeakIndex {
            ids: measured.iter().map(|document| document.id.clone()).collect(),
            nearest: vec![None; words.len()],
            shared: vec![None; words.len()],
            words,
            sizes,
            shingles: index,
            tuples,
        }
    }

    /// Compares the next training texts. Of equally near ones the first counts.
    pub fn look_at(&mut self, train: &[Document]) {
        for block in train.chunks(BLOCK) {
            let found: Vec<Vec<(u32, f64, bool)>> =
                block.par_iter().map(|document| self.near(&document.text)).collect();
            for (document, found) in block.iter().zip(found) {
                for (at, overlap, exact) in found {
                    let nearest = &mut self.nearest[at as usize];
                    if nearest.as_ref().is_none_or(|leak| overlap > leak.overlap) {
                        let (train, measured) = (document.id.clone(), self.ids[at as usize].clone());
                        *nearest = Some(Leak { train, measured, overlap, exact });
                    }
                }
            }
        }
    }

    /// Notes what the training document of this id is taught with, as `(label, name)`.
    pub fn taught(&mut self, train: &str, names: impl IntoIterator<Item = (String, String)>) {
        for at in tuple(names).and_then(|tuple| self.tuples.get(&tuple)).into_iter().flatten() {
            let measured = || self.ids[*at as usize].clone();
            self.shared[*at as usize].get_or_insert_with(|| Shared { train: train.into(), measured: measured() });
        }
    }

    /// What was found, under the name of the split.
    pub fn leakage(self, split: &'static str) -> Leakage {
        let clean =
            self.ids.iter().enumerate().filter(|(at, _)| self.nearest[*at].is_none() && self.shared[*at].is_none());
        let clean = clean.map(|(_, id)| id.clone()).collect();
        Leakage {
            split,
            documents: self.ids.len(),
            clean,
            leaks: self.nearest.into_iter().flatten().collect(),
            shared_tuples: self.shared.into_iter().flatten().collect(),
        }
    }

    /// The measured texts that a training text is near to: which, how near, whether word for word.
    fn near(&self, text: &str) -> Vec<(u32, f64, bool)> {
        let ours = words(text);
        let shingles = shingles(&ours);
        let mut common: HashMap<u32, usize> = HashMap::new();
        let found = shingles.iter().filter_map(|shingle| self.shingles.get(shingle)).flatten();
        found.for_each(|at| *common.entry(*at).or_default() += 1);
        let overlap = |(at, common): (u32, usize)| {
            let overlap = 2.0 * common as f64 / (shingles.len() + self.sizes[at as usize]) as f64;
            (at, overlap, self.words[at as usize] == ours)
        };
        common.into_iter().map(overlap).filter(|(_, overlap, _)| *overlap >= NEAR).collect()
    }
}

/// For every measured text that is the same as a training text, or nearly, the nearest one, the
/// first among equals. Case, accents' encoding, punctuation and white space are ignored.
pub fn leaks(train: &[Document], measured: &[Document]) -> Vec<Leak> {
    Leakage::of("", train, measured).leaks
}

fn typed(extraction: &Extraction) -> impl Iterator<Item = (String, String)> {
    extraction.entities.iter().map(|entity| (entity.label.clone(), entity.text.clone()))
}

/// The set of typed names, without case and spacing; `None` where there are too few to tell anything.
fn tuple(names: impl IntoIterator<Item = (String, String)>) -> Option<Vec<(String, String)>> {
    let plain = |text: &str| text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ");
    let set: BTreeSet<(String, String)> = names.into_iter().map(|(label, name)| (label, plain(&name))).collect();
    (set.len() >= TUPLE).then(|| set.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_normalization::UnicodeNormalization;

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

    #[test]
    fn the_same_typed_names_in_other_words_are_shared_and_the_rest_is_clean() {
        use crate::ie::{Entity, Extraction};
        let measured = |id: &str, text: &str, names: &[(&str, &str)]| {
            let entity = |(label, name): &(&str, &str)| Entity {
                label: (*label).into(),
                text: (*name).into(),
                span: None,
                confidence: None,
            };
            let gold = Extraction { entities: names.iter().map(entity).collect(), ..Extraction::default() };
            Document { gold: Some(gold), ..Document::new(id, text) }
        };
        let (ann, acme) = (("person", "Ann Lee"), ("organization", "Acme"));
        let test = [
            measured("same", "Acme hired Ann  Lee.", &[acme, ann]),
            measured("typed otherwise", "Acme saw Ann Lee.", &[("person", "Acme"), ann]),
            measured("one name", "Ann Lee slept late.", &[ann]),
            measured("more", "Acme hired Ann Lee and Bo.", &[ann, acme, ("person", "Bo")]),
            measured("text", "The river was calm that morning.", &[]),
        ];
        let mut index = LeakIndex::of(&test);
        index.look_at(&[Document::new("r", "The river was calm that morning, they said.")]);
        let owned = |(label, name): (&str, &str)| (label.to_string(), name.to_string());
        index.taught("first", [owned(ann), owned(("organization", "ACME")), owned(ann)]);
        index.taught("second", [owned(ann), owned(acme)]);
        index.taught("third", [owned(ann)]);
        let found = index.leakage("test");
        assert_eq!(found.shared_tuples, [Shared { train: "first".into(), measured: "same".into() }]);
        assert_eq!(found.clean, ["typed otherwise", "one name", "more"]);
        assert_eq!((found.share(), found.shared_share()), (0.2, 0.2));
        assert_eq!(
            found.shared_told(),
            "1 of 5 test documents hold just the typed names that one training document is taught with: test \"same\" \
             as train \"first\""
        );
    }
}
