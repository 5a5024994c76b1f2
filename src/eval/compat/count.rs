//! The conventions that compare items as they are: SpERT, UIE, IEPile, SemEval, TACRED; and the
//! means of the strict counts.

use super::figures::{Measure, harmonic};
use super::{Convention, Pair, Tally};
use crate::eval::counts::{Counts, Scores};
use crate::ie::{Extraction, Span};

/// Credit and numbers of items; credit may be given to one side alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sum {
    /// Credit of the predictions.
    pub hit: f64,
    /// Predictions.
    pub pred: f64,
    /// Credit of the gold.
    pub hit_gold: f64,
    /// Gold.
    pub gold: f64,
}

impl Sum {
    /// The same credit on both sides.
    pub(super) fn even(hit: usize, pred: usize, gold: usize) -> Sum {
        Sum { hit: hit as f64, pred: pred as f64, hit_gold: hit as f64, gold: gold as f64 }
    }

    pub(super) fn add(&mut self, other: &Sum) {
        self.hit += other.hit;
        self.pred += other.pred;
        self.hit_gold += other.hit_gold;
        self.gold += other.gold;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pred == 0.0 && self.gold == 0.0
    }

    pub(super) fn precision(&self) -> f64 {
        if self.pred > 0.0 { self.hit / self.pred } else { 0.0 }
    }

    pub(super) fn recall(&self) -> f64 {
        if self.gold > 0.0 { self.hit_gold / self.gold } else { 0.0 }
    }

    /// The counts, where all credit is whole and the same on both sides.
    pub(super) fn counts(&self) -> Option<Counts> {
        let whole = self.hit == self.hit_gold && self.hit.fract() == 0.0 && self.hit <= self.gold.min(self.pred);
        whole.then_some(Counts {
            tp: self.hit as u64,
            fp: (self.pred - self.hit) as u64,
            fn_: (self.gold - self.hit) as u64,
        })
    }
}

/// Mentions by their spans alone.
pub(super) fn boundaries(pair: &Pair<'_>, tally: &mut Tally) {
    let Counts { tp, fp, fn_ } = crate::eval::align::boundaries(pair.text, pair.gold, pair.found());
    tally.sum(Measure::Entities, &Sum::even(tp as usize, (tp + fp) as usize, (tp + fn_) as usize));
}

/// What is compared: words and places; unused ones are equal on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item<'a> {
    words: [&'a str; 5],
    places: [(usize, usize); 2],
}

/// The place of what was not found: no other item has it.
fn place(span: Option<Span>, lost: &mut usize) -> (usize, usize) {
    match span {
        Some(span) => (span.start(), span.end()),
        None => {
            *lost += 1;
            (usize::MAX, *lost)
        }
    }
}

/// What is done with repeated items.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    /// They are one.
    Collapse,
    /// Each gold item is matched once, so a repetition is wrong.
    Once,
    /// Every prediction that some gold item equals is right.
    Every,
}

fn matched(mut gold: Vec<Item<'_>>, mut pred: Vec<Item<'_>>, repeats: Repeats) -> Sum {
    gold.sort_unstable();
    pred.sort_unstable();
    if repeats == Repeats::Collapse {
        gold.dedup();
        pred.dedup();
    }
    let (mut hit, mut at) = (0, 0);
    for item in &pred {
        while gold.get(at).is_some_and(|other| other < item) {
            at += 1;
        }
        if gold.get(at) == Some(item) {
            hit += 1;
            at += usize::from(repeats != Repeats::Every);
        }
    }
    Sum::even(hit, pred.len(), gold.len())
}

/// How items are written for one convention.
#[derive(Clone, Copy)]
struct Form {
    /// Strings in place of places.
    strings: bool,
    /// Types of both ends belong to a relation.
    typed_ends: bool,
    repeats: Repeats,
    /// Predicted arguments spelled `NAN` are left out.
    drop_nan: bool,
}

impl Form {
    fn of(convention: Convention) -> Form {
        use Convention as C;
        let strings =
            matches!(convention, C::UieString | C::UieStringSet | C::UieStringMultimatch | C::Iepile | C::IepileSet);
        let iepile = matches!(convention, C::Iepile | C::IepileSet);
        let repeats = match convention {
            C::Uie | C::UieString | C::Iepile => Repeats::Once,
            C::UieMultimatch | C::UieStringMultimatch => Repeats::Every,
            _ => Repeats::Collapse,
        };
        let typed_ends = !iepile && !matches!(convention, C::Semeval | C::Tacred);
        Form { strings, typed_ends, repeats, drop_nan: iepile }
    }

    fn item<'a>(&self, words: [&'a str; 3], parts: [Option<(&'a str, Option<Span>)>; 2], lost: &mut usize) -> Item<'a> {
        let mut item = Item { words: [words[0], words[1], words[2], "", ""], places: [(0, 0); 2] };
        for (at, part) in parts.into_iter().enumerate() {
            match part {
                Some((surface, _)) if self.strings => item.words[3 + at] = surface,
                Some((_, span)) => item.places[at] = place(span, lost),
                None => {}
            }
        }
        item
    }

    fn entities<'a>(&self, of: &'a Extraction, lost: &mut usize) -> Vec<Item<'a>> {
        let item = |entity: &'a crate::ie::Entity| (entity.text.as_str(), entity.span);
        of.entities.iter().map(|one| self.item([&one.label, "", ""], [Some(item(one)), None], lost)).collect()
    }

    fn relations<'a>(&self, of: &'a Extraction, typed: bool, lost: &mut usize) -> Vec<Item<'a>> {
        let ends = |at: usize| of.entities.get(at);
        let mut items = Vec::new();
        for relation in &of.relations {
            let (Some(head), Some(tail)) = (ends(relation.head), ends(relation.tail)) else { continue };
            let types = if typed { [head.label.as_str(), tail.label.as_str()] } else { ["", ""] };
            let parts = [Some((head.text.as_str(), head.span)), Some((tail.text.as_str(), tail.span))];
            items.push(self.item([&relation.label, types[0], types[1]], parts, lost));
        }
        items
    }

    fn triggers<'a>(&self, of: &'a Extraction, lost: &mut usize) -> Vec<Item<'a>> {
        let item = |event: &'a crate::ie::Event| (event.trigger.text.as_str(), event.trigger.span);
        of.events.iter().map(|one| self.item([&one.label, "", ""], [Some(item(one)), None], lost)).collect()
    }

    fn arguments<'a>(&self, of: &'a Extraction, predicted: bool, lost: &mut usize) -> Vec<Item<'a>> {
        let mut items = Vec::new();
        for event in &of.events {
            for argument in &event.arguments {
                if !(predicted && self.drop_nan && argument.text == "NAN") {
                    let part = Some((argument.text.as_str(), argument.span));
                    items.push(self.item([&event.label, &argument.role, ""], [part, None], lost));
                }
            }
        }
        items
    }
}

/// Counts one document by items.
pub(super) fn items(convention: Convention, pair: &Pair<'_>, tally: &mut Tally) {
    let form = Form::of(convention);
    let (gold, pred) = (pair.gold, pair.found());
    let lost = &mut 0;
    match convention {
        Convention::Semeval => return semeval(&form, pair, tally),
        Convention::Tacred => {
            let of = |extraction, lost: &mut usize| {
                let mut items = form.relations(extraction, false, lost);
                items.retain(|item| item.words[0] != "no_relation");
                items
            };
            tally.sum(Measure::Relations, &matched(of(gold, lost), of(pred, lost), form.repeats));
            return;
        }
        _ => {}
    }
    let sum = matched(form.entities(gold, lost), form.entities(pred, lost), form.repeats);
    tally.sum(Measure::Entities, &sum);
    let relations = |typed, lost: &mut usize| {
        matched(form.relations(gold, typed, lost), form.relations(pred, typed, lost), form.repeats)
    };
    tally.sum(Measure::Relations, &relations(form.typed_ends, lost));
    if form.typed_ends {
        tally.sum(Measure::RelationsBoundaries, &relations(false, lost));
    }
    if convention == Convention::Spert {
        return;
    }
    let sum = matched(form.triggers(gold, lost), form.triggers(pred, lost), form.repeats);
    tally.sum(Measure::TriggerClassification, &sum);
    let sum = matched(form.arguments(gold, false, lost), form.arguments(pred, true, lost), form.repeats);
    tally.sum(Measure::ArgumentClassification, &sum);
}

/// Relations by label, direction included, without `Other`.
fn semeval(form: &Form, pair: &Pair<'_>, tally: &mut Tally) {
    let lost = &mut 0;
    let (gold, pred) = (form.relations(pair.gold, false, lost), form.relations(pair.found(), false, lost));
    let mut labels: Vec<&str> = gold.iter().chain(&pred).map(|item| item.words[0]).collect();
    labels.sort_unstable();
    labels.dedup();
    for label in labels.into_iter().filter(|label| *label != "Other") {
        let gold = gold.iter().filter(|item| item.words[0] == label).copied().collect();
        let pred = pred.iter().filter(|item| item.words[0] == label).copied().collect();
        tally.typed(Measure::Relations, label, &matched(gold, pred, form.repeats));
    }
}

/// The means over types and over documents of the strict counts.
pub(super) fn strict(convention: Convention, scores: &Scores, tally: &mut Tally) {
    let sum = |counts: &Counts| {
        Sum::even(counts.tp as usize, (counts.tp + counts.fp) as usize, (counts.tp + counts.fn_) as usize)
    };
    if convention == Convention::Macro {
        let types = [
            (Measure::Entities, &scores.per_type.entities),
            (Measure::Relations, &scores.per_type.relations),
            (Measure::TriggerClassification, &scores.per_type.events),
        ];
        for (measure, types) in types {
            for (label, counts) in types {
                tally.typed(measure, label, &sum(counts));
            }
        }
        return;
    }
    for figure in super::figures::of_scores(scores) {
        if let Some(counts) = figure.counts.filter(|counts| !counts.is_empty()) {
            let sum = sum(&counts);
            let (precision, recall) = (sum.precision(), sum.recall());
            tally.means.entry(figure.measure).or_default().take(precision, recall, harmonic(precision, recall));
        }
    }
}
