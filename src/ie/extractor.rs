//! The one trait that team and student share, and what a reading returns.

use super::{Document, Extraction};
use serde::{Deserialize, Serialize};

/// How a reading of one document ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Something was found.
    Ok,
    /// The system says that nothing is there.
    Empty,
    /// No usable answer; counts as a miss, never as an agreement or as training data.
    Failed,
    /// The model declined; as `Failed` for every score.
    Refused,
}

/// What a reading took. Tokens are `None` where the server did not say: unknown is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Requests answered, stored answers included.
    pub calls: u64,
    /// Tokens read, all calls together.
    pub prompt_tokens: Option<u64>,
    /// Tokens written, all calls together.
    pub completion_tokens: Option<u64>,
    /// Seconds of model time, as measured when the answers were made.
    pub seconds: f64,
}

impl Cost {
    /// The two together; a sum with an unknown part is unknown.
    pub fn plus(self, other: Cost) -> Cost {
        let both = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        if self.calls == 0 {
            return other;
        }
        if other.calls == 0 {
            return self;
        }
        Cost {
            calls: self.calls + other.calls,
            prompt_tokens: both(self.prompt_tokens, other.prompt_tokens),
            completion_tokens: both(self.completion_tokens, other.completion_tokens),
            seconds: self.seconds + other.seconds,
        }
    }
}

/// A system's reading of one document.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The document's id.
    pub id: String,
    /// What was found; empty unless the status is [`Status::Ok`].
    pub extraction: Extraction,
    /// How the reading ended.
    pub status: Status,
    /// Why, where it failed or was refused.
    pub error: Option<String>,
    /// What it took.
    pub cost: Cost,
}

impl Prediction {
    /// A reading that ended well: `Ok` or `Empty` by what was found.
    pub fn read(id: impl Into<String>, extraction: Extraction, cost: Cost) -> Prediction {
        let status = if extraction.is_empty() { Status::Empty } else { Status::Ok };
        Prediction { id: id.into(), extraction, status, error: None, cost }
    }

    /// A reading without a usable answer.
    pub fn failed(id: impl Into<String>, status: Status, error: impl Into<String>, cost: Cost) -> Prediction {
        let extraction = Extraction::default();
        Prediction { id: id.into(), extraction, status, error: Some(error.into()), cost }
    }
}

/// Document in, extraction out: the teacher team and the student do the same job.
pub trait Extractor {
    /// A name for tables and files.
    fn name(&self) -> &str;

    /// Reads every document; one prediction each, in the order given. A document that cannot be
    /// read is a [`Status::Failed`] prediction, never a gap.
    fn extract(&self, documents: &[Document]) -> Vec<Prediction>;
}
