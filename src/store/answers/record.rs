//! A request to an LLM, its answer, and the key that ties one to the other.

use crate::ie::Message;
use crate::store::hash::digest;
use serde::{Deserialize, Serialize};

/// Everything that decides an answer; its canonical JSON is what the key hashes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredRequest {
    /// The model's name as the server knows it.
    pub model: String,
    /// The chat so far.
    pub messages: Vec<Message>,
    /// Sampling temperature.
    pub temperature: f64,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// Penalty on repeated tokens, as OpenAI defines it.
    pub frequency_penalty: f64,
    /// Sampling seed.
    pub seed: u64,
    /// Whether token log-probabilities were asked for.
    pub logprobs: bool,
    /// The JSON Schema that the server holds the answer to, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<serde_json::Value>,
    /// What kind of endpoint is asked: `chat`, unless said otherwise. Not written where it is that,
    /// so that keys of before it stand.
    #[serde(default = "chat", skip_serializing_if = "is_chat")]
    pub class: String,
    /// Which of several answers to one question, from 0; not written where it is 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sample: u32,
}

/// One token of an answer with its log-probability; `None` where the server gave a sentinel or null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredToken(
    /// The token's text; pieces of one character share it as the server sent them.
    pub String,
    /// Natural logarithm of its probability.
    pub Option<f64>,
);

/// What came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// The answer's text.
    pub content: String,
    /// Why it ended: `stop`, `length`, `content_filter`, …
    pub finish: String,
    /// The server's own refusal field, where it sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Tokens with log-probabilities, where the server gives them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Vec<StoredToken>>,
    /// Tokens read; unknown is not zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Tokens written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Seconds from request to answer, as measured then.
    pub seconds: f64,
    /// Requests that were sent until this answer came; not written where it is 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub attempts: u32,
}

/// The first line of a cassette: where its answers come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CassetteHeader {
    /// Format version: 1.
    pub cassette: u32,
    /// The model, its quantisation and licence.
    pub model: String,
    /// The server.
    pub server: String,
    /// Temperature, penalties, seed.
    pub sampling: String,
    /// Day of the recording.
    pub date: String,
}

/// A greedy request without messages to the model "", for tests and struct updates.
impl Default for StoredRequest {
    fn default() -> StoredRequest {
        StoredRequest {
            model: String::new(),
            messages: Vec::new(),
            temperature: 0.0,
            max_tokens: 0,
            frequency_penalty: 0.0,
            seed: 0,
            logprobs: false,
            schema: None,
            class: chat(),
            sample: 0,
        }
    }
}

/// An empty answer at the first attempt, about which nothing else is known.
impl Default for StoredAnswer {
    fn default() -> StoredAnswer {
        StoredAnswer {
            content: String::new(),
            finish: "stop".into(),
            refusal: None,
            tokens: None,
            prompt_tokens: None,
            completion_tokens: None,
            seconds: 0.0,
            attempts: 1,
        }
    }
}

/// The key of a request: SHA-256 of its canonical JSON, in hex. The model is part of it.
pub fn request_key(request: &StoredRequest) -> String {
    key_name(&key_of(request))
}

/// A key as the file holds it.
pub(super) type Key = [u8; 32];

/// The key of a request as the file holds it.
pub(super) fn key_of(request: &StoredRequest) -> Key {
    digest(&serde_json::to_vec(request).expect("a request is JSON"))
}

/// A key in hex.
pub(super) fn key_name(key: &Key) -> String {
    crate::store::hash::hex(key)
}

/// The key of its hex form; `None` if it is none.
pub(super) fn key_named(name: &str) -> Option<Key> {
    let (digits, mut key) = (name.as_bytes(), [0; 32]);
    if digits.len() != 2 * key.len() {
        return None;
    }
    let half = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = half(pair[0])? << 4 | half(pair[1])?;
    }
    Some(key)
}

fn chat() -> String {
    "chat".into()
}

fn is_chat(class: &str) -> bool {
    class == "chat"
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_in_a_request_changes_no_key_of_before() {
        // sha256sum of the JSON that version 0.1 wrote of this request, without a line end.
        let request = StoredRequest {
            model: "m".into(),
            messages: vec![Message::system("Read."), Message::user("李雷 slept.")],
            max_tokens: 8,
            seed: 1,
            ..StoredRequest::default()
        };
        let before = r#"{"model":"m","messages":[{"role":"system","content":"Read."},{"role":"user","content":"李雷 slept."}],"temperature":0.0,"max_tokens":8,"frequency_penalty":0.0,"seed":1,"logprobs":false}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), before);
        assert_eq!(serde_json::from_str::<StoredRequest>(before).unwrap(), request);
        assert_eq!(request_key(&request), "c54135a3e83df1858926f636cbf4337dcda327203391d8338a58747b612b8ed6");
        let others = [
            StoredRequest { class: "local".into(), ..request.clone() },
            StoredRequest { sample: 1, ..request.clone() },
            StoredRequest { model: "n".into(), ..request.clone() },
        ];
        let mut keys: Vec<String> = others.iter().chain([&request]).map(request_key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 4, "class, sample and model are each part of the key");
        for other in others {
            let text = serde_json::to_string(&other).unwrap();
            assert_eq!(serde_json::from_str::<StoredRequest>(&text).unwrap(), other, "{text}");
        }
    }

    #[test]
    fn an_answer_of_before_was_the_first_attempt() {
        let before = r#"{"content":"x","finish":"stop","seconds":0.5}"#;
        let answer: StoredAnswer = serde_json::from_str(before).unwrap();
        assert_eq!(answer.attempts, 1);
        assert_eq!(serde_json::to_string(&answer).unwrap(), before);
        let third = StoredAnswer { attempts: 3, ..answer };
        assert_eq!(serde_json::from_str::<StoredAnswer>(&serde_json::to_string(&third).unwrap()).unwrap(), third);
    }

    #[test]
    fn a_key_is_its_name_and_nothing_else_is() {
        let key = key_of(&StoredRequest::default());
        assert_eq!(key_named(&key_name(&key)), Some(key));
        for wrong in ["", "abc", &"g".repeat(64), &"0".repeat(63), &"é".repeat(32)] {
            assert_eq!(key_named(wrong), None, "{wrong}");
        }
    }
}
