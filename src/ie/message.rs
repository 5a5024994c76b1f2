//! One turn of a chat, as every client, template and corpus line carries it.

use serde::{Deserialize, Serialize};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// Standing instructions.
    System,
    /// The question.
    User,
    /// The answer.
    Assistant,
}

/// One turn: `{"role": "user", "content": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Speaker,
    /// What is said.
    pub content: String,
}

impl Message {
    /// Standing instructions.
    pub fn system(content: impl Into<String>) -> Message {
        Message { role: Speaker::System, content: content.into() }
    }

    /// A question.
    pub fn user(content: impl Into<String>) -> Message {
        Message { role: Speaker::User, content: content.into() }
    }

    /// An answer.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message { role: Speaker::Assistant, content: content.into() }
    }
}
