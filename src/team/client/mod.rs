//! How the team reaches its LLM: a stored answer if there is one, the server otherwise.

mod http;
mod probe;
mod wire;

pub use http::{Endpoint, HttpClient};
pub use probe::Capabilities;

use crate::store::{AnswerStore, StoreError, StoredAnswer, StoredRequest};
use rayon::prelude::*;
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
    /// An answer came but could not be kept.
    #[error("{0}")]
    Store(String),
}

impl From<StoreError> for ClientError {
    fn from(error: StoreError) -> ClientError {
        ClientError::Store(error.to_string())
    }
}

/// Answers requests: from the store, then from the server if there is one.
pub struct Client {
    store: AnswerStore,
    server: Option<HttpClient>,
    in_flight: usize,
    stop: &'static AtomicBool,
}

/// Set by Ctrl-C: no new request is sent, what was answered is kept.
pub static STOP: AtomicBool = AtomicBool::new(false);

impl Client {
    /// Answers from the store alone.
    pub fn replay(store: AnswerStore) -> Client {
        Client { store, server: None, in_flight: 1, stop: &STOP }
    }

    /// Answers from the store first, else from the server, at most `in_flight` requests at once.
    pub fn live(store: AnswerStore, server: HttpClient, in_flight: usize) -> Client {
        Client { store, server: Some(server), in_flight: in_flight.max(1), stop: &STOP }
    }

    /// The answers behind it.
    pub fn store(&self) -> &AnswerStore {
        &self.store
    }

    /// Answers every request, in the order given. `progress` hears how many are done.
    pub fn ask_all(
        &self,
        requests: &[StoredRequest],
        progress: &(dyn Fn(usize) + Sync),
    ) -> Vec<Result<StoredAnswer, ClientError>> {
        let done = AtomicUsize::new(0);
        let one = |request: &StoredRequest| {
            let answer = self.ask(request);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            answer
        };
        let Some(_) = &self.server else {
            return requests.iter().map(one).collect();
        };
        match rayon::ThreadPoolBuilder::new().num_threads(self.in_flight).build() {
            // One request a task, in order: a server reuses the prefix of the request before.
            Ok(pool) => pool.install(|| requests.par_iter().with_max_len(1).map(one).collect()),
            Err(_) => requests.iter().map(one).collect(),
        }
    }

    fn ask(&self, request: &StoredRequest) -> Result<StoredAnswer, ClientError> {
        if let Some(answer) = self.store.get(request) {
            return Ok(answer);
        }
        let Some(server) = &self.server else {
            return Err(ClientError::NotRecorded { model: request.model.clone() });
        };
        if self.stop.load(Ordering::SeqCst) {
            return Err(ClientError::Interrupted);
        }
        let answer = server.complete(request, self.stop)?;
        self.store.put(request, &answer)?;
        Ok(answer)
    }
}
