//! Where solved examples come from: whoever can say which documents are nearest to a text.

use crate::config::ExpertTask;
use crate::embed::{Demonstrations, Kind};
use crate::ie::Document;
use std::fmt;

/// Finds documents with gold that show how a task is done.
pub trait Demonstrator: Send + Sync {
    /// The documents for `asked` and these labels of a task, in the order in which they are shown.
    ///
    /// # Errors
    /// In a few words, if they cannot be had: the expert then fails rather than answer without them.
    fn nearest(&self, asked: &Document, task: ExpertTask, labels: &[&str]) -> Result<Vec<Document>, String>;
}

impl fmt::Debug for dyn Demonstrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Demonstrator")
    }
}

impl Demonstrator for Demonstrations {
    fn nearest(&self, asked: &Document, task: ExpertTask, labels: &[&str]) -> Result<Vec<Document>, String> {
        let kind = match task {
            ExpertTask::Entities => Kind::Entity,
            ExpertTask::Relations => Kind::Relation,
            ExpertTask::Events => Kind::Event,
        };
        match Demonstrations::nearest(self, asked, kind, labels) {
            Ok(shown) => Ok(shown.into_iter().cloned().collect()),
            Err(error) => Err(error.to_string()),
        }
    }
}
