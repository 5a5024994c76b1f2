//! What can go wrong between a text and its nearest demonstrations; always with the place.

use crate::store::StoreError;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A failure of loading an encoder, of encoding, or of a pool of demonstrations.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// A file of the encoder is missing, broken or says something that cannot be followed.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Expected, found, and the way out.
        cause: String,
    },
    /// Vectors that cannot be compared, or none.
    #[error("encoder: {0}")]
    Encoder(String),
    /// A pool that cannot serve as demonstrations.
    #[error("{}: {cause}", path.display())]
    Pool {
        /// The file.
        path: PathBuf,
        /// Expected, found, and the way out.
        cause: String,
    },
    /// Whoever was told of the progress wants no more.
    #[error("stopped; what was encoded is kept")]
    Stopped,
    /// The pool cannot be read, or vectors cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EmbedError {
    pub(crate) fn file(path: impl AsRef<Path>, cause: impl Display) -> EmbedError {
        EmbedError::File { path: path.as_ref().to_owned(), cause: shortened(&cause.to_string()) }
    }
}

/// A hostile file has names of any length; a message has not.
fn shortened(cause: &str) -> String {
    const MOST: usize = 600;
    match cause.char_indices().nth(MOST) {
        Some((at, _)) => format!("{} … ({} bytes in all)", &cause[..at], cause.len()),
        None => cause.to_owned(),
    }
}
