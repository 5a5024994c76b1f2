//! Conventions as aligned plain text and as JSON.

use super::{Convention, Figure, Measure, Spread};
use crate::eval::table::{NOTHING, align, percent};
use serde_json::{Map, Value, json};

type Figures = (Convention, Vec<Figure>);

fn counts(figure: &Figure) -> [String; 3] {
    match figure.counts {
        Some(counts) => [counts.tp, counts.fp, counts.fn_].map(|count| count.to_string()),
        None => [NOTHING, NOTHING, NOTHING].map(String::from),
    }
}

/// The table of one convention.
pub fn one(convention: Convention, figures: &[Figure]) -> String {
    let mut rows = vec![["", "precision", "recall", "F1", "tp", "fp", "fn"].map(String::from).to_vec()];
    for figure in figures {
        let mut row = vec![figure.measure.title().to_string()];
        row.extend([figure.precision, figure.recall, figure.f1].map(percent));
        row.extend(counts(figure));
        rows.push(row);
    }
    format!("mode {}: {}\n\n{}", convention.name(), convention.about(), align(&rows))
}

/// F1 of every convention on every measure that some convention knows.
pub fn all(figures: &[Figures]) -> String {
    let of = |figures: &[Figure], measure| {
        figures.iter().find(|figure| figure.measure == measure).and_then(|figure| figure.f1)
    };
    let said = |measure: &Measure| figures.iter().any(|(_, figures)| of(figures, *measure).is_some());
    let measures: Vec<Measure> = Measure::ALL.into_iter().filter(said).collect();
    let mut rows = vec![vec!["F1".to_string()]];
    rows[0].extend(measures.iter().map(|measure| measure.title().to_string()));
    for (convention, figures) in figures {
        let mut row = vec![convention.name().to_string()];
        row.extend(measures.iter().map(|&measure| percent(of(figures, measure))));
        rows.push(row);
    }
    align(&rows)
}

/// The main figure of each measure, and the smallest and the largest over all conventions.
pub fn spread(spreads: &[(Measure, Spread)]) -> String {
    if spreads.is_empty() {
        return String::new();
    }
    let mut rows = vec![["F1 over conventions", "main", "min", "", "max", "", "modes"].map(String::from).to_vec()];
    for (measure, spread) in spreads {
        rows.push(vec![
            measure.title().to_string(),
            percent(spread.main),
            percent(Some(spread.min)),
            spread.min_mode.to_string(),
            percent(Some(spread.max)),
            spread.max_mode.to_string(),
            spread.modes.to_string(),
        ]);
    }
    align(&rows)
}

impl Figure {
    /// `{tp, fp, fn, precision, recall, f1}`, null where the convention has no such number.
    pub fn json(&self) -> Value {
        let counts = self
            .counts
            .map(|counts| (counts.tp, counts.fp, counts.fn_))
            .map_or((Value::Null, Value::Null, Value::Null), |(tp, fp, fn_)| (tp.into(), fp.into(), fn_.into()));
        json!({"tp": counts.0, "fp": counts.1, "fn": counts.2,
            "precision": self.precision, "recall": self.recall, "f1": self.f1})
    }
}

/// Figures under the keys that the strict scores have; events in one number are `together`.
pub fn json(figures: &[Figure]) -> Map<String, Value> {
    let (mut fields, mut events) = (Map::new(), Map::new());
    for figure in figures {
        match figure.measure {
            Measure::Entities | Measure::Relations | Measure::RelationsBoundaries => {
                fields.insert(figure.measure.name().into(), figure.json());
            }
            Measure::Events => drop(events.insert("together".into(), figure.json())),
            measure => drop(events.insert(measure.name().into(), figure.json())),
        }
    }
    if !events.is_empty() {
        fields.insert("events".into(), events.into());
    }
    fields
}
