//! The other conventions: what seqeval, nervaluate, conlleval, SpERT, UIE, IEPile, InstructUIE,
//! UniversalNER, OneKE and the scorers of shared tasks print for the same predictions.
//!
//! Every published "F1" of extraction is computed differently, so one number says little: each
//! convention here is a function of the same documents, faults of the original included, and
//! [`Spread`] says how far they lie apart. What has no place in the text is an error on its side
//! wherever places are compared. `tests/golden/compat.json` holds the numbers of the originals.

mod count;
mod events;
mod figures;
pub mod nervaluate;
mod show;
mod strings;
pub mod tags;
pub mod text;

pub use figures::{Figure, Measure, Spread, SystemSpread};
pub use show::{all, json, one, spread};

use super::align::{Rules, UnknownMode, align, align_into};
use super::compare::System;
use super::counts::Scores;
use crate::ie::{Document, Extraction, Prediction};
use count::Sum;
use figures::Mean;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::str::FromStr;

macro_rules! conventions {
    ($($variant:ident $name:literal $about:literal,)*) => {
        /// A way to turn predictions into one number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Convention {
            $(#[doc = $about] $variant,)*
        }

        impl Convention {
            /// Every convention, in the order of `--help`.
            pub const ALL: &'static [Convention] = &[$(Convention::$variant,)*];

            /// The name on the command line and in files.
            pub fn name(&self) -> &'static str {
                match self { $(Convention::$variant => $name,)* }
            }

            /// What it counts, in one line.
            pub fn about(&self) -> &'static str {
                match self { $(Convention::$variant => $about,)* }
            }
        }
    };
}

conventions! {
    Strict "strict" "span and type, sets, micro: the main figure",
    Boundaries "boundaries" "as strict, the type of an entity ignored",
    Macro "macro" "strict, the mean over types",
    PerDocument "per-document" "strict, the mean over documents that have gold or predictions",
    Seqeval "seqeval" "seqeval 1.2.2 without mode: chunks of tags, an I- may open one",
    SeqevalStrict "seqeval-strict" "seqeval 1.2.2, mode strict, IOB2 (IOBES where E- or S- occurs)",
    Conlleval "conlleval" "conlleval.pl: chunks of tags, a type \"0\" read as none",
    NervaluateStrict "nervaluate-strict" "nervaluate 1.2.1: span and type, each pair once, in file order",
    NervaluateExact "nervaluate-exact" "nervaluate 1.2.1: span alone",
    NervaluatePartial "nervaluate-partial" "nervaluate 1.2.1: an overlap is half right, types ignored",
    NervaluateType "nervaluate-type" "nervaluate 1.2.1: an overlap of the same type is right",
    Spert "spert" "SpERT: sets; relations with and without entity types, never symmetric",
    Uie "uie" "UIE, offsets, normal: each gold item once, duplicates are errors",
    UieString "uie-string" "UIE, strings, normal",
    UieSet "uie-set" "UIE, offsets, set",
    UieStringSet "uie-string-set" "UIE, strings, set",
    UieMultimatch "uie-multimatch" "UIE, offsets, multimatch: duplicates of what is right are right",
    UieStringMultimatch "uie-string-multimatch" "UIE, strings, multimatch",
    Iepile "iepile" "IEPile, normal: strings, duplicates are errors; P and R rounded before F1",
    IepileSet "iepile-set" "IEPile, set: the same with duplicates collapsed",
    InstructUie "instructuie" "InstructUIE: sets of normalised strings; no entities on both sides: a hit",
    UniNer "uniner" "UniversalNER: strings without case, articles, punctuation; a ] is fatal",
    OneKe "oneke" "OneKE: mean F1 of documents, by strings; what is not ASCII is garbled",
    OneKeUtf8 "oneke-utf8" "OneKE without its garbling of answers",
    Duee "duee" "DuEE 1.0: arguments by type and role, credit by shared characters",
    DueeWord "duee-word" "DuEE, credit by shared words",
    Duie "duie" "DuIE 2.0: triples as lower-case strings, right only with all slots",
    Semeval "semeval" "SemEval-2010 task 8: mean over relations, direction counts, no Other",
    Tacred "tacred" "TACRED: relations micro, direction counts, no_relation left out",
}

impl FromStr for Convention {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Convention, UnknownMode> {
        let meant = match name {
            "universalner" => "uniner",
            "iepile-normal" => "iepile",
            "uie-normal" => "uie",
            "seqeval-default" => "seqeval",
            "duee-char" => "duee",
            other => other,
        };
        let known = Convention::ALL.iter().copied();
        known.clone().find(|one| one.name() == meant).ok_or_else(|| UnknownMode::new(name, known.map(|one| one.name())))
    }
}

/// What is given to every convention: one document, its gold and its reading.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The text.
    pub text: &'a str,
    /// What is there.
    pub gold: &'a Extraction,
    /// What was found; `None` where the document failed.
    pub pred: Option<&'a Extraction>,
}

/// What stands where nothing was found.
static NOTHING: Extraction = Extraction { entities: Vec::new(), relations: Vec::new(), events: Vec::new() };

impl<'a> Pair<'a> {
    /// The reading; nothing where the document failed.
    fn found(&self) -> &'a Extraction {
        self.pred.unwrap_or(&NOTHING)
    }
}

/// Sums of one convention over documents: all that its figures need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    sums: [Sum; Measure::ALL.len()],
    types: [BTreeMap<String, Sum>; Measure::ALL.len()],
    means: BTreeMap<Measure, Mean>,
    /// Mentions that tags cannot hold, of the gold and of the predictions: they overlap an earlier
    /// one on the same tokens, cover no token, or have no place. They count as nothing.
    pub untagged: (u64, u64),
}

impl Tally {
    fn add(&mut self, other: Tally) {
        for (sum, part) in self.sums.iter_mut().zip(&other.sums) {
            sum.add(part);
        }
        for (types, parts) in self.types.iter_mut().zip(other.types) {
            for (label, part) in parts {
                types.entry(label).or_default().add(&part);
            }
        }
        for (measure, part) in other.means {
            self.means.entry(measure).or_default().add(&part);
        }
        self.untagged.0 += other.untagged.0;
        self.untagged.1 += other.untagged.1;
    }

    fn sum(&mut self, measure: Measure, part: &Sum) {
        self.sums[measure as usize].add(part);
    }

    fn typed(&mut self, measure: Measure, label: &str, part: &Sum) {
        let types = &mut self.types[measure as usize];
        match types.get_mut(label) {
            Some(sum) => sum.add(part),
            None => drop(types.insert(label.to_string(), *part)),
        }
    }
}

/// Counts one document under one convention; `scores` are its strict counts.
fn count(of: Convention, pair: &Pair<'_>, scores: &Scores, tokens: tags::Tokens, tally: &mut Tally) {
    use Convention as C;
    match of {
        C::Strict => {}
        C::Boundaries => count::boundaries(pair, tally),
        C::Macro | C::PerDocument => count::strict(of, scores, tally),
        C::Seqeval | C::SeqevalStrict | C::Conlleval => tags::count(of, pair, tokens, tally),
        C::NervaluateStrict | C::NervaluateExact | C::NervaluatePartial | C::NervaluateType => {
            nervaluate::count(of, pair, tally);
        }
        C::Spert
        | C::Uie
        | C::UieString
        | C::UieSet
        | C::UieStringSet
        | C::UieMultimatch
        | C::UieStringMultimatch
        | C::Iepile
        | C::IepileSet
        | C::Semeval
        | C::Tacred => count::items(of, pair, tally),
        C::InstructUie => strings::instructuie(pair, tally),
        C::UniNer => strings::uniner(pair, tally),
        C::OneKe | C::OneKeUtf8 => strings::oneke(pair, of == C::OneKe, tally),
        C::Duee | C::DueeWord => events::duee(pair, of == C::DueeWord, tally),
        C::Duie => events::duie(pair, tally),
    }
}

/// Documents counted together before their sums are added: fixed, so that sums of fractions do
/// not depend on the number of threads.
const CHUNK: usize = 2048;

/// The sums of several conventions over documents, and the strict counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tallies {
    /// The main counts under the rules that were given.
    pub scores: Scores,
    /// What each of the conventions counted, in the order asked for.
    pub tallies: Vec<(Convention, Tally)>,
}

impl Tallies {
    /// Nothing counted yet.
    pub fn new(conventions: &[Convention]) -> Tallies {
        let tallies = conventions.iter().map(|&convention| (convention, Tally::default())).collect();
        Tallies { scores: Scores::default(), tallies }
    }

    /// Counts one document under all conventions.
    pub fn count(&mut self, pair: &Pair<'_>, rules: &Rules, tokens: tags::Tokens) {
        let by_document = |one: &(Convention, Tally)| matches!(one.0, Convention::Macro | Convention::PerDocument);
        let scores = if self.tallies.iter().any(by_document) {
            let scores = align(pair.text, pair.gold, pair.pred, rules);
            self.scores += &scores;
            scores
        } else {
            align_into(&mut self.scores, pair.text, pair.gold, pair.pred, rules);
            Scores::default()
        };
        for (convention, tally) in &mut self.tallies {
            count(*convention, pair, &scores, tokens, tally);
        }
    }

    /// Adds what was counted on further documents, under the same conventions.
    pub fn add(&mut self, other: Tallies) {
        self.scores += &other.scores;
        for ((_, tally), (_, part)) in self.tallies.iter_mut().zip(other.tallies) {
            tally.add(part);
        }
    }

    /// The figures of each convention; `strict`, and `boundaries` but for entities, are read off the main
    /// counts.
    pub fn figures(&self) -> Vec<(Convention, Vec<Figure>)> {
        let of = |(convention, tally): &(Convention, Tally)| match convention {
            Convention::Strict => (*convention, figures::of_scores(&self.scores)),
            Convention::Boundaries => {
                let entities = tally.sums[Measure::Entities as usize].counts().unwrap_or_default();
                (*convention, figures::of_scores(&Scores { entities, ..self.scores.clone() }))
            }
            _ => (*convention, figures::of_tally(*convention, tally)),
        };
        self.tallies.iter().map(of).collect()
    }
}

/// Counts documents, in parallel, under several conventions at once.
///
/// Documents without gold or prediction count as having none; [`super::score()`] refuses them.
pub fn tally(
    documents: &[Document],
    predictions: &[Prediction],
    conventions: &[Convention],
    rules: &Rules,
    tokens: tags::Tokens,
) -> Tallies {
    let readings: BTreeMap<&str, &Prediction> = predictions.iter().map(|one| (one.id.as_str(), one)).collect();
    let parts = documents.par_chunks(CHUNK).map(|documents| {
        let mut part = Tallies::new(conventions);
        for document in documents {
            let reading = readings.get(document.id.as_str()).filter(|one| super::score::is_usable(one.status));
            let gold = document.gold.as_ref().unwrap_or(&NOTHING);
            let pair = Pair { text: &document.text, gold, pred: reading.map(|one| &one.extraction) };
            part.count(&pair, rules, tokens);
        }
        part
    });
    let mut all = Tallies::new(conventions);
    for part in parts.collect::<Vec<_>>() {
        all.add(part);
    }
    all
}

/// The spread of every system, over the same documents.
pub fn spreads(documents: &[Document], systems: &[System], rules: &Rules) -> Vec<SystemSpread> {
    let of = |system: &System| {
        let tallies = tally(documents, &system.predictions, Convention::ALL, rules, tags::Tokens::default());
        SystemSpread::of(&system.name, &tallies.figures())
    };
    systems.iter().flat_map(of).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
