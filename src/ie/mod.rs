//! The vocabulary of information extraction that every stage speaks: documents, spans, entities,
//! relations, events, the schema, and the one trait that team and student share.
//! Deliberately absent: files, JSON, tensors.

mod document;
mod extraction;
mod extractor;
mod message;
pub mod record;
mod schema;
mod span;

pub use document::Document;
pub use extraction::{Argument, Confidence, ConfidenceSource, Entity, Event, Extraction, Relation, Trigger};
pub use extractor::{Cost, Extractor, Prediction, Status};
pub use message::{Message, Speaker};
pub use schema::{EntityType, EventType, RelationType, Role, Schema, SchemaError};
pub use span::{Span, SpanError};
