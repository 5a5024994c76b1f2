//! How an extraction is written and read back: prompts, answers (render and parse), chat
//! templates. Shared by team and student, so that both speak one format.
//! Deliberately absent: tokenizers; this works on text and byte ranges.

pub mod answer;
pub mod ballot;
mod chat;
pub mod corpus;
pub mod export;
pub mod prompt;

pub use crate::ie::{Message, Speaker};
pub use chat::{ChatTemplate, ChatTemplateError, Rendered};
