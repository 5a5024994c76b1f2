//! Whether a confidence is worth its name: of the items that a system says it is 80 % sure of, about
//! 80 of 100 should be right. Measured on whatever carries a confidence, against the gold.
//!
//! Ten bins of equal width, the expected calibration error over them (Guo, Pleiss, Sun and
//! Weinberger 2017, equation 5), and the Brier score.

use super::align::{Key, Keyed, Rules, entity_key, relation_key};
use super::compare::System;
use super::score::is_usable;
use super::verdict::Measure;
use crate::ie::{Confidence, Document, Extraction, Prediction};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bins of equal width.
pub const BINS: usize = 10;

/// Items whose confidence lies in a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Least confidence.
    pub lower: f64,
    /// Confidences stay below this; the last bin holds it too.
    pub upper: f64,
    /// Mean confidence of its items.
    pub mean_confidence: f64,
    /// Share of its items that are right.
    pub precision: f64,
    /// Its items.
    pub count: u64,
}

/// How the confidences of one system agree with the gold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// The system.
    pub system: String,
    /// Entities or relations.
    pub measure: Measure,
    /// Items that carry a confidence.
    pub items: u64,
    /// Items that carry none; they are in no bin.
    pub without: u64,
    /// Expected calibration error: mean distance of a bin's precision from its confidence.
    pub ece: f64,
    /// Mean square of confidence minus right (1) or wrong (0).
    pub brier: f64,
    /// Bins with anything in them.
    pub bins: Vec<Bin>,
}

/// Of every system and measure that carries any confidence.
pub fn reliability(documents: &[Document], systems: &[System], rules: &Rules) -> Vec<Reliability> {
    let texts: BTreeMap<&str, &Document> = documents.iter().map(|one| (one.id.as_str(), one)).collect();
    let of = |system: &System, measure: Measure| {
        let usable = system.predictions.iter().filter(|one| is_usable(one.status));
        let each = usable.filter_map(|one| Some(judged(texts.get(one.id.as_str())?, one, measure, rules)));
        binned(&system.name, measure, &each.flatten().collect::<Vec<_>>())
    };
    systems
        .iter()
        .flat_map(|system| [Measure::Entities, Measure::Relations].map(|one| of(system, one)))
        .flatten()
        .collect()
}

/// The distinct items of one document: confidence, and whether the gold has it.
fn judged(document: &Document, prediction: &Prediction, measure: Measure, rules: &Rules) -> Vec<(Option<f64>, bool)> {
    let nothing = Extraction::default();
    let (text, found) = (&document.text, &prediction.extraction);
    let gold = Keyed::of(document.gold.as_ref().unwrap_or(&nothing), text, rules);
    let (gold, items): (_, Vec<(Key<'_>, Option<Confidence>)>) = match measure {
        Measure::Relations => {
            let key = |one| relation_key(found, one, text, rules);
            (&gold.relations, found.relations.iter().map(|one| (key(one), one.confidence)).collect())
        }
        _ => (&gold.entities, found.entities.iter().map(|one| (entity_key(one, text), one.confidence)).collect()),
    };
    let mut surest: BTreeMap<Key<'_>, Option<f64>> = BTreeMap::new();
    for (key, confidence) in items {
        let known = surest.entry(key).or_default();
        let value = confidence.map(|one| one.value());
        if value > *known {
            *known = value;
        }
    }
    let right = |key: &Key<'_>| key.is_found() && gold.binary_search_by(|(one, _)| one.cmp(key)).is_ok();
    surest.iter().map(|(key, confidence)| (*confidence, right(key))).collect()
}

/// `None` where no item carries a confidence.
fn binned(system: &str, measure: Measure, items: &[(Option<f64>, bool)]) -> Option<Reliability> {
    let sure: Vec<(f64, bool)> = items.iter().filter_map(|&(confidence, right)| Some((confidence?, right))).collect();
    if sure.is_empty() {
        return None;
    }
    let mut sums = [(0u64, 0.0, 0u64); BINS];
    for &(confidence, right) in &sure {
        let bin = &mut sums[((confidence * BINS as f64) as usize).min(BINS - 1)];
        bin.0 += 1;
        bin.1 += confidence;
        bin.2 += u64::from(right);
    }
    let bin = |(at, &(count, confidence, right)): (usize, &(u64, f64, u64))| Bin {
        lower: at as f64 / BINS as f64,
        upper: (at + 1) as f64 / BINS as f64,
        mean_confidence: confidence / count as f64,
        precision: right as f64 / count as f64,
        count,
    };
    let bins: Vec<Bin> = sums.iter().enumerate().filter(|(_, sum)| sum.0 > 0).map(bin).collect();
    let all = sure.len() as f64;
    let apart = |bin: &Bin| bin.count as f64 * (bin.precision - bin.mean_confidence).abs();
    let square = |&(confidence, right): &(f64, bool)| (confidence - f64::from(u8::from(right))).powi(2);
    Some(Reliability {
        system: system.to_string(),
        measure,
        items: sure.len() as u64,
        without: (items.len() - sure.len()) as u64,
        ece: bins.iter().map(apart).sum::<f64>() / all,
        brier: sure.iter().map(square).sum::<f64>() / all,
        bins,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ie::{ConfidenceSource, Cost, Entity, Relation, Span};

    const TEXT: &str = "Ann met Bo in Rome";

    fn entity(at: (usize, usize), confidence: Option<f64>) -> Entity {
        Entity {
            label: "X".into(),
            text: TEXT[at.0..at.1].into(),
            span: Span::new(TEXT, at.0..at.1).ok(),
            confidence: confidence.and_then(|value| Confidence::new(value, ConfidenceSource::Vote)),
        }
    }

    #[test]
    fn bins_the_error_and_the_brier_score_are_those_of_a_count_by_hand() {
        let gold = Extraction { entities: vec![entity((0, 3), None), entity((8, 10), None)], ..Extraction::default() };
        let document = Document { gold: Some(gold), ..Document::new("d", TEXT) };
        // Right at 0.9 and at 1.0 (one bin), wrong at 0.55; one without a confidence, one given twice.
        let entities = vec![
            entity((0, 3), Some(0.9)),
            entity((0, 3), Some(0.2)),
            entity((8, 10), Some(1.0)),
            entity((14, 18), Some(0.55)),
            entity((4, 7), None),
        ];
        let found = Extraction { entities, ..Extraction::default() };
        let system = System { name: "team".into(), predictions: vec![Prediction::read("d", found, Cost::default())] };
        let found = reliability(&[document], &[system], &Rules::default());
        let [one] = &found[..] else { panic!("there are no relations") };
        assert_eq!((one.items, one.without, one.bins.len()), (3, 1, 2));
        assert_eq!((one.bins[0].lower, one.bins[0].precision, one.bins[0].count), (0.5, 0.0, 1));
        assert!((one.bins[1].mean_confidence - 0.95).abs() < 1e-12 && one.bins[1].precision == 1.0);
        // (1 · |0 - 0.55| + 2 · |1 - 0.95|) / 3 = 0.65 / 3; (0.01 + 0 + 0.3025) / 3.
        assert!((one.ece - 0.65 / 3.0).abs() < 1e-12 && (one.brier - 0.3125 / 3.0).abs() < 1e-12, "{one:?}");
    }

    #[test]
    fn relations_are_judged_by_the_scorers_key_and_silence_is_no_curve() {
        let relation = |confidence: Option<f64>| Relation {
            label: "met".into(),
            head: 0,
            tail: 1,
            confidence: confidence.and_then(|value| Confidence::new(value, ConfidenceSource::Vote)),
        };
        let of = |confidence: Option<f64>| Extraction {
            entities: vec![entity((0, 3), None), entity((8, 10), None)],
            relations: vec![relation(confidence)],
            events: vec![],
        };
        let document = Document { gold: Some(of(None)), ..Document::new("d", TEXT) };
        let system = |confidence| System {
            name: "s".into(),
            predictions: vec![Prediction::read("d", of(confidence), Cost::default())],
        };
        let documents = [document];
        let found = reliability(&documents, &[system(Some(0.7))], &Rules::default());
        assert_eq!((found.len(), found[0].measure, found[0].bins[0].precision), (1, Measure::Relations, 1.0));
        assert!(reliability(&documents, &[system(None)], &Rules::default()).is_empty());
    }
}
