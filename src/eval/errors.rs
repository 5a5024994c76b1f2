//! What kind of mistake each wrong answer is: wrong type, boundary (contains, contained, overlaps),
//! missing, spurious. The kinds are those of Table 8 of the paper that the debates follow, with
//! spurious mentions and the three shapes of a boundary set apart.
//!
//! Items are paired one to one: equal ones first, then those on the same span (wrong type), then
//! those that overlap, the same type before another and the larger common part before the smaller.
//! What is left is missing on the gold side and spurious on the other. So the kinds add up: faults
//! of a system are `wrong_type + boundary + spurious`, misses `wrong_type + boundary + missing`.

use crate::ie::{Extraction, Span};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

/// How an answer that is not right misses what is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The gold span under another type.
    WrongType,
    /// A span that holds the gold one and more.
    Contains,
    /// A part of the gold span.
    Contained,
    /// A span that shares a part with the gold one.
    Overlaps,
    /// A gold item that nothing touches.
    Missing,
    /// An answer that touches no gold item.
    Spurious,
}

impl Kind {
    /// Every kind, in the order of tables.
    pub const ALL: [Kind; 6] =
        [Kind::WrongType, Kind::Contains, Kind::Contained, Kind::Overlaps, Kind::Missing, Kind::Spurious];

    /// As a column names it.
    pub fn words(&self) -> &'static str {
        match self {
            Kind::WrongType => "wrong type",
            Kind::Contains => "contains",
            Kind::Contained => "contained",
            Kind::Overlaps => "overlaps",
            Kind::Missing => "missing",
            Kind::Spurious => "spurious",
        }
    }

    /// Whether the place is right but for its ends.
    pub fn is_boundary(&self) -> bool {
        matches!(self, Kind::Contains | Kind::Contained | Kind::Overlaps)
    }
}

/// Entity answers of a system, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Span and type right.
    pub right: u64,
    /// The gold span under another type.
    pub wrong_type: u64,
    /// The three shapes of a boundary error together.
    pub boundary: u64,
    /// Of these: the answer holds the gold span and more.
    pub contains: u64,
    /// Of these: the answer is a part of the gold span.
    pub contained: u64,
    /// Of these: the two share a part.
    pub overlaps: u64,
    /// Of the boundary errors: those whose type is wrong as well.
    pub boundary_and_type: u64,
    /// Gold items that nothing touches.
    pub missing: u64,
    /// Answers that touch no gold item, those without a place in the text among them.
    pub spurious: u64,
}

impl Errors {
    /// How many of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::WrongType => self.wrong_type,
            Kind::Contains => self.contains,
            Kind::Contained => self.contained,
            Kind::Overlaps => self.overlaps,
            Kind::Missing => self.missing,
            Kind::Spurious => self.spurious,
        }
    }

    /// All mistakes.
    pub fn total(&self) -> u64 {
        self.wrong_type + self.boundary + self.missing + self.spurious
    }

    fn count(&mut self, kind: Kind) {
        self.boundary += u64::from(kind.is_boundary());
        *match kind {
            Kind::WrongType => &mut self.wrong_type,
            Kind::Contains => &mut self.contains,
            Kind::Contained => &mut self.contained,
            Kind::Overlaps => &mut self.overlaps,
            Kind::Missing => &mut self.missing,
            Kind::Spurious => &mut self.spurious,
        } += 1;
    }
}

impl AddAssign<&Errors> for Errors {
    fn add_assign(&mut self, other: &Errors) {
        self.right += other.right;
        self.wrong_type += other.wrong_type;
        self.boundary += other.boundary;
        self.contains += other.contains;
        self.contained += other.contained;
        self.overlaps += other.overlaps;
        self.boundary_and_type += other.boundary_and_type;
        self.missing += other.missing;
        self.spurious += other.spurious;
    }
}

/// A mention as the analysis compares it: a place and a type.
pub(super) type Mention<'a> = (Span, &'a str);

/// What became of one document's entities.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Aligned<'a> {
    /// Every gold mention, and how it was missed; `None` where it was found.
    pub gold: BTreeMap<Mention<'a>, Option<Kind>>,
    /// Every answer that is not right, and how.
    pub wrong: BTreeMap<Mention<'a>, Kind>,
    /// Gold label and answered label of every mention on the gold's span.
    pub labels: Vec<(&'a str, &'a str)>,
    /// Counted.
    pub errors: Errors,
}

/// The distinct mentions of an extraction, and how many answers have no place in the text.
pub(super) fn mentions<'a>(extraction: &'a Extraction, text: &str) -> (BTreeSet<Mention<'a>>, u64) {
    let mut placed = BTreeSet::new();
    let mut lost = BTreeSet::new();
    for entity in &extraction.entities {
        match entity.span.and_then(|span| span.trimmed(text)) {
            Some(span) => drop(placed.insert((span, entity.label.as_str()))),
            None => drop(lost.insert((entity.text.trim(), entity.label.as_str()))),
        }
    }
    (placed, lost.len() as u64)
}

/// Pairs the answers of one document with its gold.
pub(super) fn align<'a>(text: &str, gold: &'a Extraction, answer: &'a Extraction) -> Aligned<'a> {
    let (wanted, unplaceable) = mentions(gold, text);
    let (given, lost) = mentions(answer, text);
    let mut found = Aligned::default();
    for mention in wanted.intersection(&given) {
        found.gold.insert(*mention, None);
        found.labels.push((mention.1, mention.1));
        found.errors.right += 1;
    }
    let mut open: BTreeSet<Mention<'a>> = wanted.difference(&given).copied().collect();
    let mut over: BTreeSet<Mention<'a>> = given.difference(&wanted).copied().collect();
    for (gold, answer, kind) in pairs(&open, &over) {
        if open.contains(&gold) && over.contains(&answer) {
            open.remove(&gold);
            over.remove(&answer);
            found.gold.insert(gold, Some(kind));
            found.wrong.insert(answer, kind);
            found.errors.count(kind);
            match kind {
                Kind::WrongType => found.labels.push((gold.1, answer.1)),
                _ => found.errors.boundary_and_type += u64::from(gold.1 != answer.1),
            }
        }
    }
    for gold in open {
        found.gold.insert(gold, Some(Kind::Missing));
        found.errors.count(Kind::Missing);
    }
    for answer in over {
        found.wrong.insert(answer, Kind::Spurious);
        found.errors.count(Kind::Spurious);
    }
    (0..unplaceable).for_each(|_| found.errors.count(Kind::Missing));
    (0..lost).for_each(|_| found.errors.count(Kind::Spurious));
    found
}

/// Answers that one gold mention can be paired with; more can only touch it where mentions are
/// nested by the dozen.
const TOUCHING: usize = 32;

/// Every pair that touches, the best first: same span, then same type, then most in common. Both
/// sides are in text order, so only neighbours are looked at.
fn pairs<'a>(open: &BTreeSet<Mention<'a>>, over: &BTreeSet<Mention<'a>>) -> Vec<(Mention<'a>, Mention<'a>, Kind)> {
    let mut pairs = Vec::new();
    let answers: Vec<Mention<'a>> = over.iter().copied().collect();
    let longest = answers.iter().map(|(span, _)| span.end() - span.start()).max().unwrap_or(0);
    for &gold in open {
        let first = answers.partition_point(|(span, _)| span.start() + longest <= gold.0.start());
        let mut touching = Vec::new();
        for &answer in answers[first..].iter().take_while(|(span, _)| span.start() < gold.0.end()) {
            if gold.0.overlaps(&answer.0) {
                let common = gold.0.end().min(answer.0.end()) - gold.0.start().max(answer.0.start());
                let kind = match (answer.0.contains(&gold.0), gold.0.contains(&answer.0)) {
                    (true, true) => Kind::WrongType,
                    (true, false) => Kind::Contains,
                    (false, true) => Kind::Contained,
                    (false, false) => Kind::Overlaps,
                };
                let rank = (kind != Kind::WrongType, gold.1 != answer.1, usize::MAX - common);
                touching.push((rank, gold, answer, kind));
            }
        }
        touching.sort_by_key(|&(rank, gold, answer, _)| (rank, gold, answer));
        pairs.extend(touching.into_iter().take(TOUCHING));
    }
    pairs.sort_by_key(|&(rank, gold, answer, _)| (rank, gold, answer));
    pairs.into_iter().map(|(_, gold, answer, kind)| (gold, answer, kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::{Rules, score};
    use crate::ie::{Cost, Document, Entity, Prediction};
    use proptest::prelude::*;

    const TEXT: &str = "Ann Lee of the Bank of Bern met Bo in Rome";

    fn read(of: &[(&str, usize, usize)]) -> Extraction {
        let entity = |&(label, start, end): &(&str, usize, usize)| Entity {
            label: label.into(),
            text: TEXT[start..end].into(),
            span: Span::new(TEXT, start..end).ok(),
            confidence: None,
        };
        Extraction { entities: of.iter().map(entity).collect(), ..Extraction::default() }
    }

    #[test]
    fn each_kind_is_told_by_its_shape() {
        let gold = read(&[("PER", 0, 7), ("ORG", 15, 27), ("PER", 32, 34), ("LOC", 38, 42)]);
        for (answer, expected) in [
            (("ORG", 0, 7), Kind::WrongType),
            (("PER", 0, 10), Kind::Contains),
            (("PER", 0, 3), Kind::Contained),
            (("PER", 4, 10), Kind::Overlaps),
            (("PER", 28, 31), Kind::Spurious),
        ] {
            let answers = read(&[answer]);
            let found = align(TEXT, &gold, &answers);
            assert_eq!(found.wrong.values().collect::<Vec<_>>(), [&expected], "{answer:?}");
            assert_eq!(found.errors.of(expected), 1);
            assert_eq!(found.errors.missing, if expected == Kind::Spurious { 4 } else { 3 });
        }
    }

    #[test]
    fn an_answer_is_spent_once_and_on_its_own_type_first() {
        // "Bank of Bern" with "Bern" inside it; one answer touches both.
        let gold = read(&[("ORG", 15, 27), ("LOC", 23, 27)]);
        let answers = read(&[("LOC", 20, 27)]);
        let found = align(TEXT, &gold, &answers);
        assert_eq!((found.errors.contains, found.errors.contained, found.errors.missing), (1, 0, 1));
        assert_eq!(found.errors.boundary_and_type, 0);
        let answers = read(&[("PER", 20, 27)]);
        let found = align(TEXT, &gold, &answers);
        assert_eq!((found.errors.boundary, found.errors.boundary_and_type), (1, 1));
    }

    #[test]
    fn a_name_without_a_place_is_spurious() {
        let mut answers = read(&[]);
        answers.entities.push(Entity { label: "PER".into(), text: "Zoe".into(), span: None, confidence: None });
        assert_eq!(align(TEXT, &read(&[]), &answers).errors.spurious, 1);
    }

    fn some() -> impl Strategy<Value = Vec<(&'static str, usize, usize)>> {
        let one = (prop::sample::select(vec!["PER", "ORG", "LOC"]), 0..40usize, 1..12usize);
        prop::collection::vec(
            one.prop_map(|(label, start, long)| (label, start, (start + long).min(TEXT.len()))),
            0..12,
        )
    }

    proptest! {
        #[test]
        fn kinds_add_up_to_the_scorers_faults_and_misses(gold in some(), answers in some()) {
            let (gold, answers) = (read(&gold), read(&answers));
            let document = Document { gold: Some(gold.clone()), ..Document::new("d", TEXT) };
            let prediction = Prediction::read("d", answers.clone(), Cost::default());
            let scored = score(&[document], &[prediction], &Rules::default()).unwrap().total.entities;
            let errors = align(TEXT, &gold, &answers).errors;
            prop_assert_eq!(errors.right, scored.tp);
            prop_assert_eq!(errors.wrong_type + errors.boundary + errors.spurious, scored.fp);
            prop_assert_eq!(errors.wrong_type + errors.boundary + errors.missing, scored.fn_);
        }
    }
}
