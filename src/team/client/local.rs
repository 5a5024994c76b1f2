//! A model in this process in the place of a server. The team knows it by this trait alone, so that
//! it needs no tensors; the command line brings the implementation.

use super::{Asked, Heard};
use std::sync::atomic::AtomicBool;

/// Answers as a server would.
pub trait Local: Send + Sync {
    /// Answers every request, in any order, each once, and those that hearing an answer leads to;
    /// the ones that are left when `stop` is set are [`super::ClientError::Interrupted`].
    fn answer_all(&self, first: Vec<Asked>, stop: &AtomicBool, heard: Heard);
}
