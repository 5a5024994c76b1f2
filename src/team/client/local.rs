//! A model in this process in the place of a server. The team knows it by this trait alone, so that
//! it needs no tensors; the command line brings the implementation.

use super::ClientError;
use crate::store::{StoredAnswer, StoredRequest};
use std::sync::atomic::AtomicBool;

/// Hears the answer to the request at a place of the list.
pub type Heard<'a> = &'a (dyn Fn(usize, Result<StoredAnswer, ClientError>) + Sync);

/// Answers as a server would.
pub trait Local: Send + Sync {
    /// Answers every request, in any order, each once; those that are left when `stop` is set are
    /// [`ClientError::Interrupted`].
    fn answer_all(&self, requests: &[&StoredRequest], stop: &AtomicBool, heard: Heard);
}
