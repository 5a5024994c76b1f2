//! How an extraction is written and read back: prompts, answers (render and parse), chat
//! templates. Shared by team and student, so that both speak one format.
//! Deliberately absent: tokenizers; this works on text and byte ranges.

mod chat;
mod message;

pub use chat::{ChatTemplate, ChatTemplateError, Rendered};
pub use message::{Message, Speaker};
