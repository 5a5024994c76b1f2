//! How the team reaches its LLM: a stored answer if there is one, the server otherwise.

mod fleet;
mod http;
mod local;
mod pace;
mod probe;
mod retry;
mod servers;
pub mod shape;
mod wire;

pub use fleet::Fleet;
pub use http::{Endpoint, HttpClient};
pub use local::{Heard, Local};
pub use pace::{DENSITY, Limits, Price, Spent};
pub use probe::Capabilities;

use crate::store::{AnswerStore, StoreError, StoredAnswer, StoredRequest, request_key};
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// Replay only, and the cassette does not have it.
    #[error(
        "no recorded answer for this request (model \"{model}\"); the cassette was recorded with other prompts, texts or sampling — record it again with --set team.base_url=URL"
    )]
    NotRecorded {
        /// The model asked for.
        model: String,
    },
    /// The server answered, but not with an answer.
    #[error("{url}: HTTP {status}: {message} (attempt {attempts})")]
    Status {
        /// The endpoint, without credentials.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The server's words, shortened.
        message: String,
        /// How many times it was tried.
        attempts: u32,
    },
    /// No usable response came: connection, timeout, a body that is no chat completion.
    #[error("{url}: {message} (attempt {attempts})")]
    Transport {
        /// The endpoint, without credentials.
        url: String,
        /// What happened.
        message: String,
        /// How many times it was tried.
        attempts: u32,
    },
    /// The user asked to stop.
    #[error("interrupted before the request was sent")]
    Interrupted,
    /// Nobody is asked any more: a limit was reached, or no server answers.
    #[error("not asked: {0}")]
    Halted(String),
    /// An answer came but could not be kept.
    #[error("{0}")]
    Store(String),
}

impl From<StoreError> for ClientError {
    fn from(error: StoreError) -> ClientError {
        ClientError::Store(error.to_string())
    }
}

/// Answers requests: from the store, then from the servers if there are any.
pub struct Client {
    store: AnswerStore,
    fleet: Option<Fleet>,
    local: Option<Box<dyn Local>>,
    stop: &'static AtomicBool,
}

/// Requests that a model in this process is given at once: as many as its engine looks ahead.
const LOCAL_PLACES: usize = 128;

/// Set by Ctrl-C: no new request is sent, what was answered is kept.
pub static STOP: AtomicBool = AtomicBool::new(false);

impl Client {
    /// Answers from the store alone.
    pub fn replay(store: AnswerStore) -> Client {
        Client { store, fleet: None, local: None, stop: &STOP }
    }

    /// Answers from the store first, else from the servers.
    pub fn live(store: AnswerStore, fleet: Fleet) -> Client {
        Client { store, fleet: Some(fleet), local: None, stop: &STOP }
    }

    /// Answers from the store first, else from a model in this process.
    pub fn local(store: AnswerStore, local: Box<dyn Local>) -> Client {
        Client { store, fleet: None, local: Some(local), stop: &STOP }
    }

    /// The answers behind it.
    pub fn store(&self) -> &AnswerStore {
        &self.store
    }

    /// What servers were asked so far; nothing in a replay.
    pub fn spent(&self) -> Spent {
        self.fleet.as_ref().map(Fleet::spent).unwrap_or_default()
    }

    /// Requests that may be in flight at once; 0 in a replay.
    pub fn places(&self) -> usize {
        match &self.local {
            Some(_) => LOCAL_PLACES,
            None => self.fleet.as_ref().map_or(0, Fleet::places),
        }
    }

    /// Why nobody is asked any more: a limit was reached, no server answers, or answers cannot be
    /// kept. What was answered until then is kept.
    pub fn halted(&self) -> Option<String> {
        self.fleet.as_ref()?.halted()
    }

    /// Answers every request, in the order given; equal ones are asked once. What a server said is
    /// on the disk before this returns. `progress` hears how many are done.
    pub fn ask_all(
        &self,
        requests: &[StoredRequest],
        progress: &(dyn Fn(usize) + Sync),
    ) -> Vec<Result<StoredAnswer, ClientError>> {
        let done = AtomicUsize::new(0);
        let tell = || progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        let keys: Vec<String> = requests.iter().map(request_key).collect();
        // The first request of each key that has no answer yet, by its place among those to ask.
        let (mut place, mut open, mut names) = (HashMap::new(), Vec::new(), Vec::new());
        let mut asked = 0;
        for (request, key) in requests.iter().zip(&keys) {
            if self.store.has(key) {
                tell();
            } else {
                asked += 1;
                place.entry(key.as_str()).or_insert_with(|| {
                    open.push(request);
                    names.push(key.as_str());
                    open.len() - 1
                });
            }
        }
        let heard = self.ask_open(&open, &names, &tell);
        let again = heard.iter().flat_map(|_| open.len()..asked);
        again.for_each(|_| tell());
        let answer = |(request, key): (&StoredRequest, &String)| match (place.get(key.as_str()), &heard) {
            (None, _) => self.store.get_key(key).ok_or_else(|| not_recorded(request)),
            (Some(at), Some(heard)) => heard[*at].clone(),
            (Some(_), None) => {
                tell();
                Err(not_recorded(request))
            }
        };
        requests.iter().zip(&keys).map(answer).collect()
    }

    /// Asks the servers, if there are any, and keeps what they say.
    fn ask_open(
        &self,
        open: &[&StoredRequest],
        keys: &[&str],
        tell: &(dyn Fn() + Sync),
    ) -> Option<Vec<Result<StoredAnswer, ClientError>>> {
        if self.fleet.is_none() && self.local.is_none() {
            return None;
        }
        if open.is_empty() {
            return Some(Vec::new());
        }
        let slots: Vec<OnceLock<Result<StoredAnswer, ClientError>>> = open.iter().map(|_| OnceLock::new()).collect();
        let halt = |error: &StoreError| self.fleet.iter().for_each(|fleet| fleet.halt(error.to_string()));
        let hear = |at: usize, heard: Result<StoredAnswer, ClientError>| {
            let kept = heard.and_then(|answer| {
                let kept = self.store.keep(keys[at], open[at], answer);
                Ok(kept.inspect_err(halt)?)
            });
            // Each request is heard once.
            let _ = slots[at].set(kept);
            tell();
        };
        match (&self.fleet, &self.local) {
            (Some(fleet), _) => fleet.answer_all(open, self.stop, &hear),
            (None, Some(local)) => local.answer_all(open, self.stop, &hear),
            (None, None) => {}
        }
        if let Err(error) = self.store.settle() {
            halt(&error);
        }
        let heard = slots.into_iter().map(|slot| slot.into_inner().unwrap_or(Err(ClientError::Interrupted)));
        Some(heard.collect())
    }
}

fn not_recorded(request: &StoredRequest) -> ClientError {
    ClientError::NotRecorded { model: request.model.clone() }
}
