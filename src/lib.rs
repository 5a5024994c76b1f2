//! `understudy` distils a debating team of LLM extraction agents into one small model.
//!
//! The arrow, in the order of the modules:
//!
//! 1. [`corpus`] — documents, with gold where somebody annotated them;
//! 2. [`team`] — agents read and debate, with the nearest solved examples ([`embed`]) before them; every turn
//!    stands in a [`trace`];
//! 3. [`filter`] — what the team can stand behind, by confidence;
//! 4. [`template`] — how a fact is written and read back, shared by team and student;
//! 5. [`student`] and [`train`] — one small causal LM, LoRA-fine-tuned on the templates;
//! 6. [`eval`] — one scorer for both;
//! 7. [`report`] — one page per run.
//!
//! Any stage can be used alone. Reading an answer, holding it against its text and scoring it:
//!
//! ```
//! use understudy::eval::{Mode, Rules, score};
//! use understudy::ie::{Cost, Document, Prediction, Schema, Span, Status};
//! use understudy::template::answer::{Finish, read_answer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema: Schema = serde_json::from_str(r#"{"entities": [{"label": "person"}, {"label": "location"}]}"#)?;
//! let mut document = Document::new("d1", "Ann Lee left Bern.");
//!
//! // A model's answer, with a slip in its JSON and a place that the text does not name.
//! let answer = r#"{"person": ["Ann Lee"], "location": ["Paris"],}"#;
//! let reading = read_answer(answer, Finish::Stop, &document.text, &schema);
//! assert_eq!(reading.status, Status::Ok);
//! assert_eq!(reading.repairs, ["trailing comma"]);
//! assert_eq!(reading.dropped[0].item, "Paris");
//! assert_eq!(reading.extraction.entities[0].span, Some(Span::new(&document.text, 0..7)?));
//!
//! // The gold in the same format; one of its two entities was found.
//! let gold = read_answer(r#"{"person": ["Ann Lee"], "location": ["Bern"]}"#, Finish::Stop, &document.text, &schema);
//! document.gold = Some(gold.extraction);
//! let prediction = Prediction::read("d1", reading.extraction, Cost::default());
//! let scored = score(&[document], &[prediction], &Rules::new(Mode::Strict, Some(&schema)))?;
//! assert_eq!(scored.total.entities.precision(), Some(1.0));
//! assert_eq!(scored.total.entities.recall(), Some(0.5));
//! # Ok(())
//! # }
//! ```

pub mod cli;
pub mod config;
pub mod corpus;
pub mod embed;
pub mod eval;
pub mod filter;
pub mod ie;
pub mod report;
pub mod store;
pub mod student;
pub mod team;
pub mod template;
pub mod trace;
pub mod train;
