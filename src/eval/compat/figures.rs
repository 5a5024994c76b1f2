//! From sums to precision, recall and F1, each convention with its own rounding and averaging.

use super::count::Sum;
use super::{Convention, Tally};
use crate::eval::counts::{Counts, Scores};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a figure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Mentions with their types.
    Entities,
    /// Relations as the convention takes them; with the types of both ends where it says so.
    Relations,
    /// Relations, types of the ends ignored.
    RelationsBoundaries,
    /// Triggers.
    TriggerIdentification,
    /// Triggers with their event types.
    TriggerClassification,
    /// Arguments with their event types.
    ArgumentIdentification,
    /// Arguments with event type and role.
    ArgumentClassification,
    /// Events in one number: triggers and arguments, both classified, counted together.
    Events,
}

impl Measure {
    /// Every measure, in the order of tables.
    pub const ALL: [Measure; 8] = [
        Measure::Entities,
        Measure::Relations,
        Measure::RelationsBoundaries,
        Measure::TriggerIdentification,
        Measure::TriggerClassification,
        Measure::ArgumentIdentification,
        Measure::ArgumentClassification,
        Measure::Events,
    ];

    /// The name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Measure::Entities => "entities",
            Measure::Relations => "relations",
            Measure::RelationsBoundaries => "relations_boundaries",
            Measure::TriggerIdentification => "trigger_identification",
            Measure::TriggerClassification => "trigger_classification",
            Measure::ArgumentIdentification => "argument_identification",
            Measure::ArgumentClassification => "argument_classification",
            Measure::Events => "events",
        }
    }

    /// The name in tables.
    pub fn title(&self) -> &'static str {
        match self {
            Measure::Entities => "entities",
            Measure::Relations => "relations",
            Measure::RelationsBoundaries => "relations, boundaries",
            Measure::TriggerIdentification => "triggers, identification",
            Measure::TriggerClassification => "triggers, classification",
            Measure::ArgumentIdentification => "arguments, identification",
            Measure::ArgumentClassification => "arguments, classification",
            Measure::Events => "events",
        }
    }
}

/// One number of a convention; fractions, `None` where there is neither gold nor prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it is about.
    pub measure: Measure,
    /// The whole counts, where the convention has such.
    pub counts: Option<Counts>,
    /// As the original prints it, divided by 100 where that prints percents.
    pub precision: Option<f64>,
    /// Likewise.
    pub recall: Option<f64>,
    /// Likewise; of `instructuie` on events the accuracy.
    pub f1: Option<f64>,
}

/// The sum of precision, recall and F1 of single documents.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mean {
    pub count: u64,
    pub precision: f64,
    pub recall: f64,
    pub f1: f64,
}

impl Mean {
    pub(super) fn take(&mut self, precision: f64, recall: f64, f1: f64) {
        self.add(&Mean { count: 1, precision, recall, f1 });
    }

    pub(super) fn add(&mut self, other: &Mean) {
        self.count += other.count;
        self.precision += other.precision;
        self.recall += other.recall;
        self.f1 += other.f1;
    }

    fn figure(&self, measure: Measure) -> Figure {
        let over = |sum: f64| (self.count > 0).then(|| sum / self.count as f64);
        Figure { measure, counts: None, precision: over(self.precision), recall: over(self.recall), f1: over(self.f1) }
    }
}

/// `2 p r / (p + r)`, 0 where both are.
pub(super) fn harmonic(precision: f64, recall: f64) -> f64 {
    if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
}

/// Python's `round(value, digits)`: the nearest decimal of the exact value, ties to even.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// The strict figures, and events in one number.
pub(super) fn of_scores(scores: &Scores) -> Vec<Figure> {
    let plain = |measure, counts: Counts| Figure {
        measure,
        counts: Some(counts),
        precision: counts.precision(),
        recall: counts.recall(),
        f1: counts.f1(),
    };
    let events = &scores.events;
    vec![
        plain(Measure::Entities, scores.entities),
        plain(Measure::Relations, scores.relations),
        plain(Measure::RelationsBoundaries, scores.relations_boundaries),
        plain(Measure::TriggerIdentification, events.trigger_identification),
        plain(Measure::TriggerClassification, events.trigger_classification),
        plain(Measure::ArgumentIdentification, events.argument_identification),
        plain(Measure::ArgumentClassification, events.argument_classification),
        plain(Measure::Events, events.together()),
    ]
}

/// What the original prints for these sums.
pub(super) fn of_tally(convention: Convention, tally: &Tally) -> Vec<Figure> {
    // A mean that keeps empty documents says nothing where all of them are empty.
    let counted = |measure: Measure| convention == Convention::PerDocument || !tally.sums[measure as usize].is_empty();
    let said = tally.means.iter().filter(|(measure, _)| counted(**measure));
    match convention {
        Convention::Macro | Convention::Semeval => return over_types(tally),
        Convention::PerDocument | Convention::OneKe | Convention::OneKeUtf8 => {
            return said.map(|(&measure, mean)| mean.figure(measure)).collect();
        }
        _ => {}
    }
    let mut figures = Vec::new();
    for measure in Measure::ALL {
        let sum = &tally.sums[measure as usize];
        if !sum.is_empty() && !tally.means.contains_key(&measure) {
            figures.push(figure(convention, measure, sum));
        }
    }
    // The accuracy of InstructUIE's events: there is no precision and no recall.
    figures.extend(said.map(|(&measure, mean)| Figure { precision: None, recall: None, ..mean.figure(measure) }));
    figures
}

fn figure(convention: Convention, measure: Measure, sum: &Sum) -> Figure {
    let (mut precision, mut recall) = (sum.precision(), sum.recall());
    let f1 = match convention {
        Convention::UniNer => {
            (precision, recall) = (sum.hit / (sum.pred + 1e-10), sum.hit_gold / (sum.gold + 1e-10));
            2.0 * precision * recall / (precision + recall + 1e-10)
        }
        Convention::Iepile | Convention::IepileSet => {
            (precision, recall) = (rounded(precision * 100.0, 2), rounded(recall * 100.0, 2));
            let f1 = if precision + recall == 0.0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) };
            (precision, recall) = (precision / 100.0, recall / 100.0);
            rounded(f1, 2) / 100.0
        }
        Convention::Duie => {
            let f1 = harmonic(precision, recall);
            (precision, recall) = (rounded(precision, 4), rounded(recall, 4));
            rounded(f1, 4)
        }
        Convention::Tacred => {
            // Its precision of no guess at all is 1.
            precision = if sum.pred == 0.0 { 1.0 } else { precision };
            harmonic(precision, recall)
        }
        _ => harmonic(precision, recall),
    };
    Figure { measure, counts: sum.counts(), precision: Some(precision), recall: Some(recall), f1: Some(f1) }
}

/// The mean over types of each measure that has any.
fn over_types(tally: &Tally) -> Vec<Figure> {
    let mut means: BTreeMap<Measure, Mean> = BTreeMap::new();
    let mut take = |measure, sum: &Sum| {
        let (precision, recall) = (sum.precision(), sum.recall());
        means.entry(measure).or_default().take(precision, recall, harmonic(precision, recall));
    };
    for (measure, types) in Measure::ALL.into_iter().zip(&tally.types) {
        types.values().for_each(|sum| take(measure, sum));
    }
    means.iter().map(|(&measure, mean)| mean.figure(measure)).collect()
}

/// How far the conventions lie apart on one measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Strict F1.
    pub main: Option<f64>,
    /// The smallest F1 of a convention.
    pub min: f64,
    /// Whose that is; the first of several.
    pub min_mode: String,
    /// The largest.
    pub max: f64,
    /// Whose that is.
    pub max_mode: String,
    /// Conventions that say something on this measure.
    pub modes: usize,
}

impl Spread {
    /// The spread of every measure on which some convention says something.
    pub fn of(figures: &[(Convention, Vec<Figure>)]) -> Vec<(Measure, Spread)> {
        let mut spreads = Vec::new();
        for measure in Measure::ALL {
            let mut spread: Option<Spread> = None;
            for (convention, figures) in figures {
                let Some(f1) = figures.iter().find(|figure| figure.measure == measure).and_then(|one| one.f1) else {
                    continue;
                };
                let name = || convention.name().to_string();
                let first = || Spread { main: None, min: f1, min_mode: name(), max: f1, max_mode: name(), modes: 0 };
                let spread = spread.get_or_insert_with(first);
                spread.modes += 1;
                if *convention == Convention::Strict {
                    spread.main = Some(f1);
                }
                if f1 < spread.min {
                    (spread.min, spread.min_mode) = (f1, name());
                }
                if f1 > spread.max {
                    (spread.max, spread.max_mode) = (f1, name());
                }
            }
            spreads.extend(spread.map(|spread| (measure, spread)));
        }
        spreads
    }
}

/// One measure of one system under every convention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemSpread {
    /// The system.
    pub system: String,
    /// What is counted.
    pub measure: Measure,
    /// The main figure, and how far the conventions lie apart.
    pub spread: Spread,
    /// F1 under each convention that says something, in the order of `score --help`.
    pub figures: Vec<(String, f64)>,
}

impl SystemSpread {
    /// Of every measure that has a main figure.
    pub fn of(system: &str, figures: &[(Convention, Vec<Figure>)]) -> Vec<SystemSpread> {
        let f1 = |figures: &[Figure], measure: Measure| figures.iter().find(|one| one.measure == measure)?.f1;
        let said = |measure: Measure| {
            let each = figures.iter();
            each.filter_map(|(one, figures)| Some((one.name().to_string(), f1(figures, measure)?))).collect()
        };
        let spreads = Spread::of(figures).into_iter().filter(|(_, spread)| spread.main.is_some());
        spreads
            .map(|(measure, spread)| SystemSpread {
                system: system.to_string(),
                measure,
                spread,
                figures: said(measure),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_that_of_python() {
        // Origin: Python 3.11, round(0.125, 2), round(0.375, 2), round(2.675, 2), round(66.66666, 2).
        assert_eq!([0.125, 0.375, 2.675, 66.66666].map(|value| rounded(value, 2)), [0.12, 0.38, 2.67, 66.67]);
    }
}
