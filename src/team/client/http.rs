//! Any OpenAI-compatible `/v1/chat/completions`: bounded attempts, Retry-After, jitter, and a key
//! that no error, log or trace ever shows.

use super::ClientError;
use super::wire::{Completion, shortened};
use crate::store::{StoredAnswer, StoredRequest, hash_bytes};
use serde_json::json;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Largest response body that is read, in bytes.
const LARGEST_BODY: u64 = 32 << 20;

/// Where and how to ask.
#[derive(Clone)]
pub struct Endpoint {
    /// Base address, such as `http://127.0.0.1:8071/v1`.
    pub base_url: String,
    /// Sent as a bearer token; never shown.
    pub api_key: Option<String>,
    /// Seconds until a request is given up.
    pub timeout: Duration,
    /// Attempts in all, the first included.
    pub max_attempts: u32,
}

/// A client of one endpoint.
pub struct HttpClient {
    endpoint: Endpoint,
    agent: ureq::Agent,
}

/// What one attempt came to.
enum Attempt {
    Answered(StoredAnswer),
    /// Worth another try, after the server's own delay if it named one.
    Again(ClientError, Option<Duration>),
    Refused(ClientError),
}

impl HttpClient {
    /// A client; nothing is sent yet.
    pub fn new(endpoint: Endpoint) -> HttpClient {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(endpoint.timeout))
            .http_status_as_error(false)
            .user_agent(concat!("understudy/", env!("CARGO_PKG_VERSION")))
            .build();
        HttpClient { endpoint, agent: config.into() }
    }

    /// Asks until there is an answer, the attempts are used up or `stop` is set.
    ///
    /// # Errors
    /// [`ClientError::Status`] or [`ClientError::Transport`] of the last attempt.
    pub fn complete(&self, request: &StoredRequest, stop: &AtomicBool) -> Result<StoredAnswer, ClientError> {
        for attempt in 1.. {
            let (error, delay) = match self.attempt(request, attempt) {
                Attempt::Answered(answer) => return Ok(answer),
                Attempt::Refused(error) => return Err(error),
                Attempt::Again(error, delay) => (error, delay),
            };
            if attempt >= self.endpoint.max_attempts {
                return Err(error);
            }
            let until = Instant::now() + delay.unwrap_or_else(|| backoff(request, attempt));
            while Instant::now() < until {
                if stop.load(Ordering::SeqCst) {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Err(ClientError::Interrupted)
    }

    fn attempt(&self, request: &StoredRequest, attempts: u32) -> Attempt {
        let url = format!("{}/chat/completions", self.endpoint.base_url.trim_end_matches('/'));
        let shown = without_credentials(&url);
        let transport =
            |message: String| ClientError::Transport { url: shown.clone(), message: shortened(&message), attempts };
        let mut call = self.agent.post(&url).header("Content-Type", "application/json");
        if let Some(key) = &self.endpoint.api_key {
            call = call.header("Authorization", &format!("Bearer {key}"));
        }
        let start = Instant::now();
        let mut response = match call.send(body(request).to_string()) {
            Ok(response) => response,
            Err(error) => return Attempt::Again(transport(self.redacted(&error.to_string())), None),
        };
        let status = response.status().as_u16();
        let delay = retry_after(response.headers().get("retry-after").and_then(|value| value.to_str().ok()));
        let mut bytes = Vec::new();
        if let Err(error) = response.body_mut().as_reader().take(LARGEST_BODY).read_to_end(&mut bytes) {
            return Attempt::Again(transport(format!("the body broke off: {error}")), delay);
        }
        // Before anything is cut to length: half a key is no longer found.
        let text = self.redacted(&String::from_utf8_lossy(&bytes));
        if status != 200 {
            let message = shortened(&text);
            let error = ClientError::Status { url: shown, status, message, attempts };
            // 408, 409 and 429 ask for patience; 5xx is the server's trouble; the rest is ours.
            let again = matches!(status, 408 | 409 | 425 | 429 | 500..=599);
            return if again { Attempt::Again(error, delay) } else { Attempt::Refused(error) };
        }
        let read = serde_json::from_slice::<Completion>(&bytes)
            .map_err(|error| format!("the body is no chat completion ({error}): {text}"));
        match read.and_then(|completion| completion.answer(start.elapsed().as_secs_f64())) {
            Ok(answer) => Attempt::Answered(answer),
            Err(message) => Attempt::Again(transport(self.redacted(&message)), delay),
        }
    }

    /// Sends a body as it is, once.
    ///
    /// # Errors
    /// The status or the transport's words, without the key.
    pub(super) fn exchange(&self, body: &serde_json::Value) -> Result<serde_json::Value, String> {
        let url = format!("{}/chat/completions", self.endpoint.base_url.trim_end_matches('/'));
        let fail = |what: String| format!("{}: {}", without_credentials(&url), shortened(&self.redacted(&what)));
        let mut call = self.agent.post(&url).header("Content-Type", "application/json");
        if let Some(key) = &self.endpoint.api_key {
            call = call.header("Authorization", &format!("Bearer {key}"));
        }
        let mut response = call.send(body.to_string()).map_err(|error| fail(error.to_string()))?;
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        let read = response.body_mut().as_reader().take(LARGEST_BODY).read_to_end(&mut bytes);
        read.map_err(|error| fail(format!("the body broke off: {error}")))?;
        let text = String::from_utf8_lossy(&bytes);
        if status != 200 {
            return Err(fail(format!("HTTP {status}: {text}")));
        }
        serde_json::from_str(&text).map_err(|error| fail(format!("the body is no JSON ({error}): {text}")))
    }

    /// A server may echo the request's headers: the key is taken out of everything that is shown.
    fn redacted(&self, text: &str) -> String {
        match self.endpoint.api_key.as_deref() {
            Some(key) if !key.is_empty() => text.replace(key, "[key]"),
            _ => text.to_string(),
        }
    }
}

fn body(request: &StoredRequest) -> serde_json::Value {
    let mut body = json!({
        "model": request.model,
        "messages": request.messages,
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "stream": false,
    });
    if request.frequency_penalty != 0.0 {
        body["frequency_penalty"] = json!(request.frequency_penalty);
    }
    if request.logprobs {
        body["logprobs"] = json!(true);
        body["top_logprobs"] = json!(1);
    }
    body
}

/// Exponential from half a second, at most 30 s, spread by a jitter that the request decides: no
/// clock, no global random state, and two requests never wait in step.
fn backoff(request: &StoredRequest, attempt: u32) -> Duration {
    let seed = hash_bytes(format!("{attempt}{}", request.messages.last().map_or("", |m| &m.content)).as_bytes());
    let jitter = u64::from_str_radix(&seed[..4], 16).unwrap_or(0) as f64 / 65_536.0;
    Duration::from_secs_f64((0.5 * f64::from(1u32 << attempt.min(6))).min(30.0) * (0.5 + 0.5 * jitter))
}

/// Retry-After in seconds, whole or broken; a date is not read (the clock of the two may differ),
/// and a wait is never longer than two minutes.
fn retry_after(value: Option<&str>) -> Option<Duration> {
    let seconds: f64 = value?.trim().parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(120.0)))
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
