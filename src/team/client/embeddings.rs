//! A server's sentence encoder: OpenAI-compatible `/v1/embeddings`, some texts a request, with the
//! client's delays and attempts. Vectors are taken as they come: whether they have length 1 is the
//! server's affair.

use super::STOP;
use super::http::{Attempt, Endpoint, HttpClient};
use super::retry::backoff;
use crate::embed::{EmbedError, Encoder};
use crate::store::hash_bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Texts of a request: the vectors of 64 texts, 4096 numbers each, are 6 MB of JSON, below what is
/// read of an answer.
const TEXTS_A_REQUEST: usize = 64;
/// How long is slept at most before it is looked whether the user wants to stop.
const NAP: Duration = Duration::from_millis(100);

/// One model of one server that turns texts into vectors.
pub struct EmbeddingClient {
    http: HttpClient,
    /// The server and its model, as errors and caches name them; no key.
    name: String,
    model: String,
    max_attempts: u32,
}

#[derive(Deserialize)]
struct Body {
    data: Option<Vec<Vector>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Vector {
    index: usize,
    embedding: Vec<f32>,
}

impl EmbeddingClient {
    /// A client of `model` at `endpoint`; nothing is sent yet.
    pub fn new(endpoint: Endpoint, model: &str, max_attempts: u32) -> EmbeddingClient {
        let name = format!("{} {model}", endpoint.base_url.trim_end_matches('/'));
        let http = HttpClient::new(endpoint, 1).at("embeddings");
        EmbeddingClient { http, name, model: model.into(), max_attempts: max_attempts.max(1) }
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let body = json!({"model": self.model, "input": texts, "encoding_format": "float"}).to_string().into_bytes();
        let key = hash_bytes(&body);
        let mut attempts = 1;
        loop {
            if STOP.load(Ordering::SeqCst) {
                return Err(EmbedError::Encoder(format!("{}: interrupted before the request was sent", self.name)));
            }
            let (error, delay) = match self.http.once(body.clone(), attempts, |bytes| vectors(bytes, texts.len())) {
                Attempt::Answered(vectors) => return Ok(vectors),
                Attempt::Refused(error) => (error, None),
                Attempt::Again(error, delay) => (error, Some(delay.unwrap_or_else(|| backoff(&key, attempts)))),
            };
            match delay.filter(|_| attempts < self.max_attempts) {
                Some(delay) => wait(delay),
                None => return Err(EmbedError::Encoder(format!("model \"{}\" at {error}", self.model))),
            }
            attempts += 1;
        }
    }
}

impl Encoder for EmbeddingClient {
    /// The address and the model's name: what stands behind them is taken to stay the same.
    fn identity(&self) -> String {
        format!("endpoint 1 {}", self.name)
    }

    fn encode(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut all = Vec::with_capacity(texts.len());
        for some in texts.chunks(TEXTS_A_REQUEST) {
            all.extend(self.ask(some)?);
        }
        Ok(all)
    }
}

/// Sleeps, and wakes early where the user wants to stop.
fn wait(delay: Duration) {
    let start = Instant::now();
    while let Some(left) = delay.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
        if STOP.load(Ordering::SeqCst) {
            return;
        }
        std::thread::sleep(left.min(NAP));
    }
}

/// The vectors of a body in the order of the texts, which is that of "index".
fn vectors(bytes: &[u8], count: usize) -> Result<Vec<Vec<f32>>, String> {
    let body: Body = serde_json::from_slice(bytes).map_err(|error| {
        let said = String::from_utf8_lossy(bytes);
        format!("the body is no list of embeddings as numbers ({error}): {said}")
    })?;
    if let Some(error) = body.error.filter(|error| !error.is_null()) {
        return Err(format!("the body carries an error: {error}"));
    }
    let data = body.data.ok_or("the body has no \"data\"")?;
    if data.len() != count {
        return Err(format!("{} vectors for {count} texts", data.len()));
    }
    let mut found = vec![Vec::new(); count];
    for Vector { index, embedding } in data {
        let place = found.get_mut(index).ok_or_else(|| format!("\"index\" is {index}, of {count} texts"))?;
        if !place.is_empty() {
            return Err(format!("two vectors have the \"index\" {index}"));
        }
        if embedding.is_empty() {
            return Err(format!("the vector with the \"index\" {index} is empty"));
        }
        *place = embedding;
    }
    let long = found[0].len();
    match found.iter().find(|vector| vector.len() != long) {
        Some(other) => Err(format!("vectors of {long} and of {} numbers in one answer", other.len())),
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_stand_in_the_order_of_their_index() {
        let body =
            r#"{"object":"list","data":[{"index":1,"embedding":[2,0.5]},{"index":0,"embedding":[1,-1e-3],"x":0}]}"#;
        assert_eq!(vectors(body.as_bytes(), 2).unwrap(), [vec![1.0, -1e-3], vec![2.0, 0.5]]);
    }

    #[test]
    fn a_body_that_is_no_list_of_vectors_says_what_it_is() {
        let one = |index: &str, embedding: &str| format!("{{\"index\":{index},\"embedding\":{embedding}}}");
        let data = |items: &[String]| format!("{{\"data\":[{}]}}", items.join(","));
        let good = one("0", "[1,2]");
        for (body, says) in [
            ("<html>".to_string(), "no list of embeddings"),
            (String::new(), "no list of embeddings"),
            ("{}".into(), "no \"data\""),
            ("{\"data\":null,\"error\":{\"message\":\"busy\"}}".into(), "carries an error"),
            (data(&[]), "0 vectors for 2 texts"),
            (data(std::slice::from_ref(&good)), "1 vectors for 2 texts"),
            (data(&[good.clone(), good.clone()]), "two vectors have the \"index\" 0"),
            (data(&[good.clone(), one("2", "[1,2]")]), "\"index\" is 2, of 2 texts"),
            (data(&[good.clone(), one("-1", "[1,2]")]), "no list of embeddings"),
            (data(&[good.clone(), one("1", "[1]")]), "vectors of 2 and of 1 numbers"),
            (data(&[good.clone(), one("1", "[]")]), "the vector with the \"index\" 1 is empty"),
            (data(&[good.clone(), one("1", "[1,1e39]")]), "number out of range"),
            (data(&[good.clone(), one("1", "[1,1e999]")]), "no list of embeddings"),
            (data(&[good.clone(), one("1", "[1,null]")]), "no list of embeddings"),
            (data(&[good.clone(), one("1", "[1,NaN]")]), "no list of embeddings"),
            (data(&[good.clone(), one("1", "\"AACAPwAAAEA=\"")]), "invalid type: string"),
            (data(&[good, "{\"embedding\":[1,2]}".into()]), "missing field `index`"),
            ("[".repeat(100_000), "no list of embeddings"),
        ] {
            let said = vectors(body.as_bytes(), 2).unwrap_err();
            assert!(said.contains(says), "expected \"{says}\" in: {said:.300}");
        }
    }
}
