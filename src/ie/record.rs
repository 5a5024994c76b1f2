//! How documents, extractions and predictions stand in files: code-point offsets, end exclusive.
//!
//! Records are what serde reads and writes; the conversions here are the only border between
//! code points (outside) and bytes (inside).

use super::{
    Argument, Confidence, ConfidenceSource, Cost, Document, Entity, Event, Extraction, Prediction, Relation, Span,
    Status, Trigger,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A typed mention as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntityRecord {
    /// Label.
    #[serde(rename = "type")]
    pub label: String,
    /// Surface form.
    pub text: String,
    /// First code point; null where the text could not be found.
    pub start: Option<usize>,
    /// One past the last code point.
    pub end: Option<usize>,
    /// In `0..=1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_source: Option<ConfidenceSource>,
}

/// A link as written; `head` and `tail` are ordinals in `entities`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationRecord {
    /// Label.
    #[serde(rename = "type")]
    pub label: String,
    /// Ordinal of the head.
    pub head: usize,
    /// Ordinal of the tail.
    pub tail: usize,
    /// In `0..=1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_source: Option<ConfidenceSource>,
}

/// A trigger as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriggerRecord {
    /// Surface form.
    pub text: String,
    /// First code point.
    pub start: Option<usize>,
    /// One past the last code point.
    pub end: Option<usize>,
}

/// An argument as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArgumentRecord {
    /// Role label.
    pub role: String,
    /// Surface form.
    pub text: String,
    /// First code point.
    pub start: Option<usize>,
    /// One past the last code point.
    pub end: Option<usize>,
}

/// An event as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Label.
    #[serde(rename = "type")]
    pub label: String,
    /// The word that names it.
    pub trigger: TriggerRecord,
    /// Participants.
    #[serde(default)]
    pub arguments: Vec<ArgumentRecord>,
    /// In `0..=1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_source: Option<ConfidenceSource>,
}

/// An extraction as written: the value of `gold` and of `extraction`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExtractionRecord {
    /// Typed mentions.
    #[serde(default)]
    pub entities: Vec<EntityRecord>,
    /// Links.
    #[serde(default)]
    pub relations: Vec<RelationRecord>,
    /// Happenings.
    #[serde(default)]
    pub events: Vec<EventRecord>,
}

/// A prediction as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictionRecord {
    /// Document id.
    pub id: String,
    /// What was found.
    #[serde(default)]
    pub extraction: ExtractionRecord,
    /// How the reading ended.
    pub status: Status,
    /// Why, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// Why a record does not fit its text: one line naming the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError(pub String);

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RecordError {}

impl ExtractionRecord {
    /// Checks every offset and ordinal against the text.
    ///
    /// # Errors
    /// A line that names the first item which does not fit: an offset outside the text, a surface
    /// that differs from the text under its offsets, an ordinal without an entity.
    pub fn read(self, text: &str) -> Result<Extraction, RecordError> {
        let count = self.entities.len();
        let entities = self.entities.into_iter().map(|entity| {
            let span = located(text, "entity", &entity.text, entity.start, entity.end)?;
            let confidence = confident(entity.confidence, entity.confidence_source);
            Ok(Entity { label: entity.label, text: entity.text, span, confidence })
        });
        let entities = entities.collect::<Result<Vec<_>, RecordError>>()?;
        let relations = self.relations.into_iter().map(|relation| {
            if relation.head >= count || relation.tail >= count {
                return Err(RecordError(format!(
                    "relation \"{}\" links entities {} and {}, but there are only {count}; ordinals start at 0",
                    relation.label, relation.head, relation.tail
                )));
            }
            let confidence = confident(relation.confidence, relation.confidence_source);
            Ok(Relation { label: relation.label, head: relation.head, tail: relation.tail, confidence })
        });
        let relations = relations.collect::<Result<Vec<_>, _>>()?;
        let events = self.events.into_iter().map(|event| {
            let span = located(text, "trigger", &event.trigger.text, event.trigger.start, event.trigger.end)?;
            let arguments = event.arguments.into_iter().map(|argument| {
                let span = located(text, "argument", &argument.text, argument.start, argument.end)?;
                Ok(Argument { role: argument.role, text: argument.text, span })
            });
            Ok(Event {
                label: event.label,
                trigger: Trigger { text: event.trigger.text, span },
                arguments: arguments.collect::<Result<Vec<_>, RecordError>>()?,
                confidence: confident(event.confidence, event.confidence_source),
            })
        });
        let events = events.collect::<Result<Vec<_>, RecordError>>()?;
        Ok(Extraction { entities, relations, events })
    }

    /// The record of an extraction of `text`.
    pub fn of(extraction: &Extraction, text: &str) -> ExtractionRecord {
        let points = |span: &Option<Span>| match span {
            Some(span) => {
                let (start, end) = span.to_code_points(text);
                (Some(start), Some(end))
            }
            None => (None, None),
        };
        let entities = extraction.entities.iter().map(|entity| {
            let (start, end) = points(&entity.span);
            EntityRecord {
                label: entity.label.clone(),
                text: entity.text.clone(),
                start,
                end,
                confidence: entity.confidence.map(|c| rounded(c.value())),
                confidence_source: entity.confidence.map(|c| c.source()),
            }
        });
        let relations = extraction.relations.iter().map(|relation| RelationRecord {
            label: relation.label.clone(),
            head: relation.head,
            tail: relation.tail,
            confidence: relation.confidence.map(|c| rounded(c.value())),
            confidence_source: relation.confidence.map(|c| c.source()),
        });
        let events = extraction.events.iter().map(|event| {
            let (start, end) = points(&event.trigger.span);
            let arguments = event.arguments.iter().map(|argument| {
                let (start, end) = points(&argument.span);
                ArgumentRecord { role: argument.role.clone(), text: argument.text.clone(), start, end }
            });
            EventRecord {
                label: event.label.clone(),
                trigger: TriggerRecord { text: event.trigger.text.clone(), start, end },
                arguments: arguments.collect(),
                confidence: event.confidence.map(|c| rounded(c.value())),
                confidence_source: event.confidence.map(|c| c.source()),
            }
        });
        ExtractionRecord { entities: entities.collect(), relations: relations.collect(), events: events.collect() }
    }
}

impl PredictionRecord {
    /// Checks the record against the document's text.
    ///
    /// # Errors
    /// As [`ExtractionRecord::read`].
    pub fn read(self, text: &str) -> Result<Prediction, RecordError> {
        Ok(Prediction {
            id: self.id,
            extraction: self.extraction.read(text)?,
            status: self.status,
            error: self.error,
            cost: self.cost.unwrap_or_default(),
        })
    }

    /// The record of a prediction about `document`.
    pub fn of(prediction: &Prediction, document: &Document) -> PredictionRecord {
        PredictionRecord {
            id: prediction.id.clone(),
            extraction: ExtractionRecord::of(&prediction.extraction, &document.text),
            status: prediction.status,
            error: prediction.error.clone(),
            cost: Some(prediction.cost),
        }
    }
}

/// Six decimals: enough for every threshold, and equal bytes on every platform.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn confident(value: Option<f64>, source: Option<ConfidenceSource>) -> Option<Confidence> {
    Confidence::new(value?, source.unwrap_or(ConfidenceSource::SelfReport))
}

fn located(
    text: &str,
    what: &str,
    surface: &str,
    start: Option<usize>,
    end: Option<usize>,
) -> Result<Option<Span>, RecordError> {
    let (start, end) = match (start, end) {
        (Some(start), Some(end)) => (start, end),
        (None, None) => return Ok(None),
        _ => return Err(RecordError(format!("{what} \"{surface}\" has one of start and end; give both or neither"))),
    };
    let span = Span::from_code_points(text, start, end)
        .map_err(|error| RecordError(format!("{what} \"{surface}\": {error}")))?;
    if span.slice(text) != surface && !surface.is_empty() {
        return Err(RecordError(format!(
            "{what} \"{surface}\" does not stand at {start}..{end}; the text there is \"{}\" — offsets count Unicode code points, end exclusive",
            span.slice(text)
        )));
    }
    Ok(Some(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_the_round_trip_in_code_points() {
        let text = "José met 李雷 🗼 in Zürich.";
        let record = ExtractionRecord {
            entities: vec![EntityRecord {
                label: "LOC".into(),
                text: "Zürich".into(),
                start: Some(17),
                end: Some(23),
                confidence: Some(0.5),
                confidence_source: Some(ConfidenceSource::Vote),
            }],
            ..ExtractionRecord::default()
        };
        let read = record.clone().read(text).unwrap();
        assert_eq!(read.entities[0].span.unwrap().range(), 25..32);
        assert_eq!(ExtractionRecord::of(&read, text), record);
    }

    #[test]
    fn a_shifted_offset_is_named_with_what_stands_there() {
        let entity = EntityRecord {
            label: "LOC".into(),
            text: "Bern".into(),
            start: Some(1),
            end: Some(5),
            confidence: None,
            confidence_source: None,
        };
        let record = ExtractionRecord { entities: vec![entity], ..ExtractionRecord::default() };
        let said = record.read("Bern is calm").unwrap_err().to_string();
        assert!(said.starts_with("entity \"Bern\" does not stand at 1..5; the text there is \"ern \""), "{said}");
    }

    #[test]
    fn a_relation_to_nowhere_is_refused() {
        let relation =
            RelationRecord { label: "r".into(), head: 0, tail: 1, confidence: None, confidence_source: None };
        let record = ExtractionRecord { relations: vec![relation], ..ExtractionRecord::default() };
        assert!(record.read("x").is_err());
    }
}
