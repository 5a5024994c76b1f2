//! `understudy` distils a debating team of LLM extraction agents into one small model.
//!
//! The arrow, in the order of the modules:
//!
//! 1. [`corpus`] — documents, with gold where somebody annotated them;
//! 2. [`team`] — agents read and debate; every turn stands in a [`trace`];
//! 3. [`filter`] — what the team can stand behind, by confidence;
//! 4. [`template`] — how a fact is written and read back, shared by team and student;
//! 5. [`student`] and [`train`] — one small causal LM, LoRA-fine-tuned on the templates;
//! 6. [`eval`] — one scorer for both;
//! 7. [`report`] — one page per run.

pub mod cli;
pub mod config;
pub mod corpus;
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
