//! How the team reaches its LLM: a stored answer if there is one, the server otherwise.

mod embeddings;
mod fleet;
mod gather;
mod http;
mod local;
mod names;
mod pace;
mod probe;
mod queue;
mod retry;
mod servers;
pub mod shape;
mod wire;

pub use embeddings::EmbeddingClient;
pub use fleet::Fleet;
pub use http::{Endpoint, HttpClient};
pub use local::Local;
pub use pace::{DENSITY, Limits, Price, Spent};
pub use probe::Capabilities;

use crate::store::{AnswerStore, StoreError, StoredAnswer, StoredRequest, request_key};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};

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
    /// Answers that were heard and are not on the disk.
    unkept: Arc<AtomicUsize>,
    stop: &'static AtomicBool,
}

/// Requests that a model in this process is given at once: as many as its engine looks ahead.
const LOCAL_PLACES: usize = 128;

/// Set by Ctrl-C: no new request is sent, what was answered is kept.
pub static STOP: AtomicBool = AtomicBool::new(false);

impl Client {
    /// Answers from the store alone.
    pub fn replay(store: AnswerStore) -> Client {
        Client { store, fleet: None, local: None, unkept: Arc::default(), stop: &STOP }
    }

    /// Answers from the store first, else from the servers.
    pub fn live(store: AnswerStore, fleet: Fleet) -> Client {
        Client { store, fleet: Some(fleet), local: None, unkept: Arc::default(), stop: &STOP }
    }

    /// Answers from the store first, else from a model in this process.
    pub fn local(store: AnswerStore, local: Box<dyn Local>) -> Client {
        Client { store, fleet: None, local: Some(local), unkept: Arc::default(), stop: &STOP }
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

    /// Asks nobody any more: what is said could not be kept.
    pub fn halt(&self, why: &StoreError) {
        self.fleet.iter().for_each(|fleet| fleet.halt(why.to_string()));
    }

    /// Why nobody is asked any more: a limit was reached, no server answers, or answers cannot be
    /// kept. What was answered until then is kept.
    pub fn halted(&self) -> Option<String> {
        self.fleet.as_ref()?.halted()
    }

    /// Whether anybody can be asked what the store does not hold.
    pub fn is_live(&self) -> bool {
        self.fleet.is_some() || self.local.is_some()
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
        let asked: Vec<Asked> = requests.iter().map(|request| Asked::new(request.clone())).collect();
        // How many want the answer that is not stored yet.
        let (mut wanted, mut open) = (HashMap::<String, usize>::new(), Vec::new());
        for asked in &asked {
            if self.store.has(&asked.key) || !self.is_live() {
                tell();
            } else {
                let count = wanted.entry(asked.key.clone()).or_default();
                *count += 1;
                if *count == 1 {
                    open.push(asked.clone());
                }
            }
        }
        let failures = Mutex::new(HashMap::new());
        self.answer_all(open, &|asked, heard| {
            if let Err(error) = heard {
                locked(&failures).insert(asked.key.clone(), error);
            }
            (0..wanted[&asked.key]).for_each(|_| tell());
            Vec::new()
        });
        let failures = failures.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let answer = |asked: &Asked| match failures.get(&asked.key) {
            Some(error) => Err(error.clone()),
            None => self.store.get_key(&asked.key).ok_or_else(|| self.unanswered(&asked.request)),
        };
        asked.iter().map(answer).collect()
    }

    /// Asks all of these and what hearing leads to, keeps what is said, and tells it; returns once
    /// everything was heard and is on the disk. Equal requests are the caller's to avoid.
    pub(super) fn answer_all(&self, first: Vec<Asked>, heard: Heard) {
        if !first.is_empty() {
            match (&self.fleet, &self.local) {
                (Some(fleet), _) => {
                    fleet.answer_all(first, self.stop, &|told, on| self.keep_later(told, on), &|told| {
                        if let Err(ClientError::Store(why)) = &told.1 {
                            fleet.halt(why.clone());
                        }
                        heard(&told.0, told.1)
                    })
                }
                (None, Some(local)) => local.answer_all(first, self.stop, &|asked, outcome| {
                    let keep = |answer| Ok(self.store.keep(&asked.key, &asked.request, answer)?);
                    heard(asked, outcome.and_then(keep))
                }),
                (None, None) => {}
            }
        }
        if let Err(error) = self.store.settle() {
            self.halt(&error);
        }
    }

    /// Keeps what was said and passes it on once it is kept; the thread that heard it goes on, unless
    /// as many answers as may be in flight are not on the disk yet: a kill loses no more than those.
    fn keep_later(&self, (asked, outcome): Told, on: Sender<Told>) {
        let row = outcome.and_then(|answer| Ok(self.store.row(&asked.key, &asked.request, answer)?));
        let row = match row {
            Ok(row) => row,
            // Nobody is left to hear it where the call has ended.
            Err(error) => return drop(on.send((asked, Err(error)))),
        };
        let waiting = Arc::clone(&self.unkept);
        if waiting.fetch_add(1, Ordering::SeqCst) >= self.places() {
            let kept = self.store.keep_row(row);
            waiting.fetch_sub(1, Ordering::SeqCst);
            return drop(on.send((asked, kept.map_err(ClientError::from))));
        }
        self.store.keep_later(row, move |kept| {
            waiting.fetch_sub(1, Ordering::SeqCst);
            drop(on.send((asked, kept.map_err(ClientError::from))));
        });
    }

    /// Whether the user asked to stop.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Why a request that nobody was asked has no answer.
    pub(super) fn unanswered(&self, request: &StoredRequest) -> ClientError {
        match self.is_live() {
            true => ClientError::Interrupted,
            false => ClientError::NotRecorded { model: request.model.clone() },
        }
    }
}

/// A request on its way.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What is asked.
    pub request: StoredRequest,
    /// The key under which its answer is kept.
    pub key: String,
    /// The instruction that it shares with others.
    pub(super) agent: u64,
}

impl Asked {
    /// A request with its key.
    pub fn new(request: StoredRequest) -> Asked {
        let key = request_key(&request);
        let mut hasher = DefaultHasher::new();
        request.messages.first().map(|message| &message.content).hash(&mut hasher);
        Asked { request, key, agent: hasher.finish() }
    }
}

/// A request, and what became of it.
type Told = (Asked, Result<StoredAnswer, ClientError>);

/// Hears what became of a request, from any thread, once for each; gives back what is asked next.
pub type Heard<'a> = &'a (dyn Fn(&Asked, Result<StoredAnswer, ClientError>) -> Vec<Asked> + Sync);

/// A panic elsewhere leaves values that are still values.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
