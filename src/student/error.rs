//! What can go wrong between a model on disk and an answer: one error type, always naming the place.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A failure of loading, adapting, running or writing a student.
#[derive(Debug, thiserror::Error)]
pub enum StudentError {
    /// A file is missing, broken or says something that cannot be used.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was expected and what was found.
        cause: String,
    },
    /// The device asked for cannot be opened.
    #[error("device \"{asked}\": {cause}")]
    Device {
        /// As written by the user.
        asked: String,
        /// Why not, and the way out.
        cause: String,
    },
    /// The chat template or the tokenizer cannot turn these messages into tokens.
    #[error("chat template of {model}: {cause}")]
    Chat {
        /// The model.
        model: String,
        /// Why not.
        cause: String,
    },
    /// Nothing would tell the student where an answer ends.
    #[error(
        "chat template of {model}: it ends an answer with no control token, and the tokenizer has no eos_token; the \
         student would never stop — end the assistant's turn with one in the template, or name an eos_token in \
         tokenizer_config.json that tokenizer.json lists as special"
    )]
    NoEnd {
        /// The model.
        model: String,
    },
    /// An adapter does not fit.
    #[error("adapter: {0}")]
    Adapter(String),
    /// The device failed while computing.
    #[error("computing on the device: {0}")]
    Compute(String),
}

impl StudentError {
    /// A failure of one file.
    pub(crate) fn file(path: impl AsRef<Path>, cause: impl Display) -> StudentError {
        StudentError::File { path: path.as_ref().to_owned(), cause: shortened(cause) }
    }

    /// A failure of a model's template or tokenizer.
    pub(crate) fn chat(model: &str, cause: impl Display) -> StudentError {
        StudentError::Chat { model: model.to_owned(), cause: shortened(cause) }
    }
}

/// A hostile file has names of any length; a message has not.
fn shortened(cause: impl Display) -> String {
    const MOST: usize = 1500;
    let cause = cause.to_string();
    match cause.char_indices().nth(MOST) {
        Some((at, _)) => format!("{} … ({} bytes in all)", &cause[..at], cause.len()),
        None => cause,
    }
}

/// What most functions of this module return.
pub type Result<T> = std::result::Result<T, StudentError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_short_however_long_a_name_is() {
        let error = StudentError::file("config.json", format!("architecture \"{}\"", "é".repeat(1 << 20))).to_string();
        assert!(error.starts_with("config.json: architecture \"é") && error.len() < 4000, "{}", error.len());
        assert_eq!(StudentError::chat("m", "why").to_string(), "chat template of m: why");
    }
}
