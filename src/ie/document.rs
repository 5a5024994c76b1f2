//! A text with a name, and its gold where somebody annotated it.

use super::Extraction;

/// One unit of reading: what a team or a student is asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Unique within a corpus.
    pub id: String,
    /// The text as it stands in the source; never normalised.
    pub text: String,
    /// What human annotators found; absent where nobody looked.
    pub gold: Option<Extraction>,
    /// The source's own fields, as one JSON object; empty if there are none.
    pub meta: String,
}

impl Document {
    /// A text nobody has annotated.
    pub fn new(id: impl Into<String>, text: impl Into<String>) -> Document {
        Document { id: id.into(), text: text.into(), gold: None, meta: String::new() }
    }

    /// Whether there is anything to read: a blank document is answered without a call.
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }
}
