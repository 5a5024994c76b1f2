//! The team: a protocol, its prompts, its client, and how it may work.

use super::hall::{self, Finished};
use super::{Client, Demonstrator, Protocol};
use crate::config::{Cooperation, Expert};
use crate::ie::{Document, Extractor, Prediction, Schema};
use crate::store::StoredRequest;
use crate::template::prompt::{Language, Prompts};
use crate::trace::Trace;
use std::sync::{Arc, Mutex};

/// How answers are sampled, and how long a debate may last.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// The model's name as the server knows it.
    pub model: String,
    /// 0 is greedy; the paper uses 0.9.
    pub temperature: f64,
    /// Most tokens of an answer.
    pub max_tokens: u32,
    /// Most tokens of a turn in a debate: the choice comes first, a reason that is cut still counts.
    pub debate_max_tokens: u32,
    /// As OpenAI defines it; the paper uses 0.1.
    pub frequency_penalty: f64,
    /// Decides sampling where the server honours it, and the speaking order of debates.
    pub seed: u64,
    /// Whether to ask for token log-probabilities.
    pub logprobs: bool,
    /// Most rounds of a debate; the paper uses 2.
    pub max_rounds: u32,
}

/// A protocol, ready to read.
pub struct Team<'a> {
    pub(super) protocol: Protocol,
    pub(super) prompts: Prompts,
    pub(super) client: &'a Client,
    pub(super) sampling: Sampling,
    pub(super) options: Options,
    constrained: bool,
    recording: bool,
    asked: Mutex<Vec<(usize, StoredRequest)>>,
}

/// Which conflicts are debated (CROSSAGENTIE, Table 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debated {
    /// Conflicts about entity types.
    pub entities: bool,
    /// Conflicts about relations.
    pub relations: bool,
    /// Conflicts about events.
    pub events: bool,
}

/// How a team works: every ablation of the two papers is one of these.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which conflicts are debated; the others stand as claimed.
    pub debated: Debated,
    /// Most rounds of feedback between the tasks (CROSSAGENTIE, section 3.4 and Table 12).
    pub feedback_rounds: u32,
    /// Whether an answer that cannot be read is asked for once more.
    pub reask: bool,
    /// The team of CooperKGC; without experts, the standard one for the schema.
    pub cooperation: Cooperation,
    /// Who finds the solved examples that stand in front of a question of `cooperkgc`; none is 0-shot.
    pub demonstrator: Option<Arc<dyn Demonstrator>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            debated: Debated { entities: true, relations: true, events: true },
            feedback_rounds: 0,
            reask: false,
            cooperation: Cooperation::default(),
            demonstrator: None,
        }
    }
}

/// Documents that are open at once where nobody has to wait for a server.
const FEW: usize = 64;

impl<'a> Team<'a> {
    /// A team that speaks through `client`.
    pub fn new(protocol: Protocol, schema: Schema, client: &'a Client, sampling: Sampling) -> Team<'a> {
        let options = Options { cooperation: Cooperation::standard(&schema), ..Options::default() };
        let prompts = Prompts::new(schema);
        Team {
            protocol,
            prompts,
            client,
            sampling,
            options,
            constrained: false,
            recording: false,
            asked: Mutex::default(),
        }
    }

    /// The same team, working so.
    pub fn working(self, mut options: Options) -> Team<'a> {
        if options.cooperation.experts.is_empty() {
            options.cooperation = Cooperation::standard(self.schema());
        }
        Team { options, ..self }
    }

    /// The same team, speaking this language in the place of its schema's own.
    pub fn speaking(self, language: Language) -> Team<'a> {
        let prompts = Prompts::spoken(language, self.prompts.schema().clone());
        Team { prompts, ..self }
    }

    /// The same team; where `yes`, each request carries the schema of its answer.
    pub fn constrained(self, yes: bool) -> Team<'a> {
        Team { constrained: yes, ..self }
    }

    /// The same team, which remembers every request.
    pub fn recording(self) -> Team<'a> {
        Team { recording: true, ..self }
    }

    /// Reads and debates every document; one trace each, in the order given. A blank document is
    /// answered without a call.
    pub fn debate(&self, documents: &[Document]) -> Vec<Trace> {
        let traces: Mutex<Vec<Option<Trace>>> = Mutex::new(vec![None; documents.len()]);
        self.debate_each(documents.iter().cloned(), &|ordinal, trace| {
            traces.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[ordinal] = Some(trace);
        });
        let traces = traces.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let unopened = |document: &Document| Trace::unread(&document.id, self.protocol.name());
        traces.into_iter().zip(documents).map(|(trace, document)| trace.unwrap_or_else(|| unopened(document))).collect()
    }

    /// Reads and debates documents as they come, many at once; `finished` hears the ordinal of each
    /// and its trace, from any thread and in any order. After an interruption, or once nobody is
    /// asked any more, no further document is opened. Memory does not grow with their number.
    pub fn debate_each<'d>(
        &'d self,
        documents: impl Iterator<Item = Document> + Send + 'd,
        finished: &(dyn Fn(usize, Trace) + Sync),
    ) {
        let source = Mutex::new(documents);
        let most = (2 * self.client.places()).max(FEW);
        let heard: Finished = &|ordinal, trace, requests| {
            if self.recording {
                let mut asked = self.asked.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                asked.extend(requests.into_iter().map(|request| (ordinal, request)));
            }
            finished(ordinal, trace);
        };
        hall::read_all(self, &source, most, heard);
    }

    /// Every request that a recording team made so far, document by document.
    pub fn requests(&self) -> Vec<StoredRequest> {
        let mut asked = self.asked.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        asked.sort_by_key(|(ordinal, _)| *ordinal);
        asked.into_iter().map(|(_, request)| request).collect()
    }

    /// How it asks.
    pub fn client(&self) -> &'a Client {
        self.client
    }

    pub(super) fn schema(&self) -> &Schema {
        self.prompts.schema()
    }

    /// The expert of this name, in the protocol that has experts.
    pub(super) fn expert(&self, name: &str) -> Option<&Expert> {
        if self.protocol == Protocol::Cooperkgc { self.options.cooperation.expert(name) } else { None }
    }

    pub(super) fn reasks(&self) -> bool {
        self.options.reask
    }

    pub(super) fn records(&self) -> bool {
        self.recording
    }

    pub(super) fn is_constrained(&self) -> bool {
        self.constrained
    }
}

impl Extractor for Team<'_> {
    fn name(&self) -> &str {
        self.protocol.name()
    }

    fn extract(&self, documents: &[Document]) -> Vec<Prediction> {
        self.debate(documents).iter().zip(documents).map(|(trace, document)| trace.prediction(document)).collect()
    }
}
