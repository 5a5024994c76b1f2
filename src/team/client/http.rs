//! One OpenAI-compatible server, one attempt at a time, and a key that no error, log, trace or
//! stored answer ever shows.

use super::ClientError;
use super::gather::Gathering;
use super::names::Names;
use super::retry::named_delay;
use super::shape::Form;
use super::wire::{Completion, shortened};
use crate::ie::Message;
use crate::store::{StoredAnswer, StoredRequest};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Bytes of a connection's buffer, each way.
const BUFFER: usize = 16 << 10;
/// Largest answer that is read, in bytes once unpacked.
const LARGEST_BODY: u64 = 16 << 20;
/// Largest body of a failure that is read: its first words are all that is shown.
const LARGEST_COMPLAINT: u64 = 64 << 10;

/// Where and how to ask.
#[derive(Clone)]
pub struct Endpoint {
    /// Base address, such as `http://127.0.0.1:8071/v1`.
    pub base_url: String,
    /// Sent as a bearer token; never shown.
    pub api_key: Option<String>,
    /// How long a request may take, connecting included.
    pub timeout: Duration,
    /// How the server is held to a request's schema, where it has one.
    pub form: Option<Form>,
}

/// A client of one server.
pub struct HttpClient {
    endpoint: Endpoint,
    url: String,
    /// Each thread has one of them: a pool of hundreds of connections is searched for every request.
    agents: Vec<ureq::Agent>,
}

/// Threads that share an agent.
const THREADS_PER_AGENT: usize = 8;

thread_local! {
    /// Which agent a thread takes, of however many there are.
    static TURN: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

/// What one attempt came to.
pub(super) enum Attempt<T = StoredAnswer> {
    Answered(T),
    /// Worth another try, after the server's own delay if it named one.
    Again(ClientError, Option<Duration>),
    Refused(ClientError),
}

/// The request as it is sent.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: &'a [Message],
    temperature: f64,
    max_tokens: u32,
    seed: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<u32>,
    #[serde(flatten)]
    shape: Map<String, Value>,
}

impl HttpClient {
    /// A client that keeps up to `connections` open; nothing is sent yet.
    pub fn new(endpoint: Endpoint, connections: usize) -> HttpClient {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(endpoint.timeout))
            .timeout_connect(Some(endpoint.timeout.min(Duration::from_secs(10))))
            .max_idle_connections(connections)
            // Below malloc's mmap threshold: a request that maps and unmaps its buffers stops every
            // other thread for it.
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            .max_idle_connections_per_host(connections)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("understudy/", env!("CARGO_PKG_VERSION")))
            .build();
        let url = beneath(&endpoint.base_url, "chat/completions");
        let names = Names::default();
        let agent = |_| ureq::Agent::with_parts(config.clone(), Gathering::default(), names.clone());
        let agents = (0..connections.div_ceil(THREADS_PER_AGENT).max(1)).map(agent).collect();
        HttpClient { endpoint, url, agents }
    }

    /// The same server, asked beneath another path of its base address.
    pub(super) fn at(mut self, path: &str) -> HttpClient {
        self.url = beneath(&self.endpoint.base_url, path);
        self
    }

    /// Asks once. `attempts` is how often this request was sent by now, for the error.
    pub(super) fn attempt(&self, request: &StoredRequest, attempts: u32) -> Attempt {
        let start = Instant::now();
        self.once(body(request, self.endpoint.form), attempts, |bytes| {
            Completion::read(bytes)?.answer(start.elapsed().as_secs_f64())
        })
    }

    /// Sends a body once and reads what comes back; what cannot be read is worth another try.
    pub(super) fn once<T>(
        &self,
        body: Vec<u8>,
        attempts: u32,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Attempt<T> {
        let url = without_credentials(&self.url);
        let transport = |message: &str| {
            let message = shortened(&self.redacted(message));
            ClientError::Transport { url: url.clone(), message, attempts }
        };
        let mut response = match self.send(body) {
            Ok(response) => response,
            Err(error) => return Attempt::Again(transport(&error.to_string()), None),
        };
        let status = response.status().as_u16();
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_string());
        let delay = named_delay(header, SystemTime::now());
        let bytes = match whole(&mut response, if status == 200 { LARGEST_BODY } else { LARGEST_COMPLAINT }) {
            Ok(bytes) => bytes,
            Err(error) if status == 200 => return Attempt::Again(transport(&error), delay),
            Err(_) => Vec::new(),
        };
        if status != 200 {
            let message = shortened(&self.redacted(&String::from_utf8_lossy(&bytes)));
            let error = ClientError::Status { url, status, message, attempts };
            // 408, 409, 425 and 429 ask for patience; 5xx is the server's trouble; the rest is ours.
            let again = matches!(status, 408 | 409 | 425 | 429 | 500..=599);
            return if again { Attempt::Again(error, delay) } else { Attempt::Refused(error) };
        }
        let read = match self.shown_key(&bytes) {
            None => read(&bytes),
            Some(text) => read(text.as_bytes()),
        };
        match read {
            Ok(answer) => Attempt::Answered(answer),
            Err(message) => Attempt::Again(transport(&message), delay),
        }
    }

    /// Sends a body as it is, once.
    ///
    /// # Errors
    /// The status or the transport's words, without the key.
    pub(super) fn exchange(&self, body: &Value) -> Result<Completion, String> {
        let fail = |what: &str| format!("{}: {}", without_credentials(&self.url), shortened(&self.redacted(what)));
        let mut response = self.send(body.to_string().into_bytes()).map_err(|error| fail(&error.to_string()))?;
        let status = response.status().as_u16();
        let bytes = whole(&mut response, LARGEST_BODY).map_err(|error| fail(&error))?;
        if status != 200 {
            return Err(fail(&format!("HTTP {status}: {}", String::from_utf8_lossy(&bytes))));
        }
        Completion::read(&bytes).map_err(|error| fail(&error))
    }

    fn send(&self, body: Vec<u8>) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let agent = &self.agents[TURN.with(|turn| *turn) % self.agents.len()];
        let mut call = agent.post(&self.url).header("Content-Type", "application/json");
        if let Some(key) = &self.endpoint.api_key {
            call = call.header("Authorization", &format!("Bearer {key}"));
        }
        call.send(body)
    }

    /// A server may echo the request's headers, as they are or escaped as JSON: the key is taken
    /// out of everything that is shown, before anything is cut to length (half a key is no longer
    /// found).
    fn redacted(&self, text: &str) -> String {
        match self.endpoint.api_key.as_deref() {
            Some(key) if !key.is_empty() => text.replace(key, "[key]").replace(&key.replace('/', "\\/"), "[key]"),
            _ => text.to_string(),
        }
    }

    /// The body without the key, if the key stands in it.
    fn shown_key(&self, bytes: &[u8]) -> Option<String> {
        self.endpoint.api_key.as_ref().filter(|key| !key.is_empty())?;
        let text = std::str::from_utf8(bytes).ok()?;
        let redacted = self.redacted(text);
        (redacted != text).then_some(redacted)
    }
}

/// The whole body, if it is no longer than that.
fn whole(response: &mut ureq::http::Response<ureq::Body>, most: u64) -> Result<Vec<u8>, String> {
    let told = response.body().content_length().unwrap_or(0);
    let mut bytes = Vec::with_capacity(told.min(BUFFER as u64) as usize);
    let read = response.body_mut().as_reader().take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("the body broke off: {error}"))?;
    match bytes.len() as u64 > most {
        true => Err(format!("the body is longer than {} KiB", most >> 10)),
        false => Ok(bytes),
    }
}

fn body(request: &StoredRequest, form: Option<Form>) -> Vec<u8> {
    let body = Body {
        model: &request.model,
        messages: &request.messages,
        temperature: request.temperature,
        max_tokens: request.max_tokens,
        seed: request.seed,
        stream: false,
        frequency_penalty: Some(request.frequency_penalty).filter(|penalty| *penalty != 0.0),
        logprobs: request.logprobs.then_some(true),
        top_logprobs: request.logprobs.then_some(1),
        shape: form.zip(request.schema.as_ref()).map(|(form, schema)| form.parameters(schema)).unwrap_or_default(),
    };
    serde_json::to_vec(&body).expect("strings, numbers and a JSON value are JSON")
}

fn beneath(base_url: &str, path: &str) -> String {
    format!("{}/{path}", base_url.trim_end_matches('/'))
}

/// The address without a `user:password@`.
fn without_credentials(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            format!("{scheme}://{}{path}", host.rsplit('@').next().unwrap_or(host))
        }
        None => url.to_string(),
    }
}
