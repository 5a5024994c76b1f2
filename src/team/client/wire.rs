//! The chat-completion response as servers really send it: fields missing, null, or in an older
//! shape. Everything is optional until proven there; what only adds to an answer (counts,
//! log-probabilities) is unknown where it cannot be read, and never costs the answer.

use crate::store::{StoredAnswer, StoredToken};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub(super) struct Completion {
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Value,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Said>,
    finish_reason: Option<String>,
    #[serde(default)]
    logprobs: Value,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    content: Value,
    refusal: Option<String>,
}

impl Completion {
    /// Reads a body. The bare words `NaN` and `Infinity`, which Python writes, are no JSON; they
    /// are read as null.
    pub(super) fn read(bytes: &[u8]) -> Result<Completion, String> {
        let error = match serde_json::from_slice(bytes) {
            Ok(completion) => return Ok(completion),
            Err(error) => error,
        };
        if let Some(Ok(completion)) = without_bare_words(bytes).map(|bytes| serde_json::from_slice(&bytes)) {
            return Ok(completion);
        }
        Err(format!("the body is no chat completion ({error}): {}", String::from_utf8_lossy(bytes)))
    }

    /// The first choice as an answer, or what is missing.
    pub(super) fn answer(self, seconds: f64) -> Result<StoredAnswer, String> {
        if let Some(error) = self.error.filter(|error| !error.is_null()) {
            return Err(format!("the body carries an error: {error}"));
        }
        let choices = self.choices.ok_or("the body has no \"choices\"")?;
        let choice = choices.into_iter().next().ok_or("\"choices\" is empty")?;
        let said = choice.message.ok_or("the first choice has no \"message\"")?;
        let refusal = said.refusal.filter(|refusal| !refusal.trim().is_empty());
        let content = text_of(said.content);
        if content.is_none() && refusal.is_none() {
            return Err("the message has neither \"content\" nor \"refusal\"".into());
        }
        let content = content.unwrap_or_default();
        Ok(StoredAnswer {
            tokens: tokens(&choice.logprobs).and_then(|tokens| aligned(tokens, &content)),
            content,
            finish: choice.finish_reason.unwrap_or_else(|| "unknown".into()),
            refusal,
            prompt_tokens: self.usage["prompt_tokens"].as_u64(),
            completion_tokens: self.usage["completion_tokens"].as_u64(),
            seconds: (seconds * 1e3).round() / 1e3,
            ..StoredAnswer::default()
        })
    }
}

/// A string, or the texts of a list of parts.
fn text_of(content: Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text),
        Value::Array(parts) if !parts.is_empty() => {
            parts.iter().map(|part| part.as_str().or_else(|| part["text"].as_str())).collect()
        }
        _ => None,
    }
}

/// A token's bytes and log-probability.
type Piece = (Vec<u8>, Option<f64>);

/// Both shapes: the chat API's `content` list, and the completion API's parallel lists, which some
/// servers send from the chat endpoint too. A number that is none is unknown.
fn tokens(logprobs: &Value) -> Option<Vec<Piece>> {
    if let Some(content) = logprobs["content"].as_array() {
        return content.iter().map(|token| Some((bytes_of(token)?, token["logprob"].as_f64()))).collect();
    }
    let logprob = |at: usize| logprobs["token_logprobs"].get(at).and_then(Value::as_f64);
    let tokens = logprobs["tokens"].as_array()?.iter().enumerate();
    tokens.map(|(at, token)| Some((token.as_str()?.as_bytes().to_vec(), logprob(at)))).collect()
}

/// The bytes that a token says it has, else those of its text.
fn bytes_of(token: &Value) -> Option<Vec<u8>> {
    let bytes = token["bytes"].as_array().and_then(|bytes| {
        bytes.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect::<Option<Vec<u8>>>()
    });
    bytes.or_else(|| Some(token["token"].as_str()?.as_bytes().to_vec()))
}

/// Tokens whose bytes, joined, are the content (a closing end token aside); `None` if they are not:
/// log-probabilities that cannot be aligned are unknown, not wrong.
fn aligned(tokens: Vec<Piece>, content: &str) -> Option<Vec<StoredToken>> {
    let mut at = 0;
    let mut kept: Vec<Piece> = Vec::new();
    for (bytes, logprob) in tokens {
        if at >= content.len() {
            break;
        }
        if !content.as_bytes()[at..].starts_with(&bytes) {
            return None;
        }
        at += bytes.len();
        kept.push((bytes, logprob.filter(|value| believable(*value)).map(|value| (value * 1e4).round() / 1e4)));
    }
    (at == content.len() && !kept.is_empty()).then(|| joined(kept))
}

/// The body with `NaN`, `Infinity` and `-Infinity` outside of strings as null; `None` if there is
/// no such word.
fn without_bare_words(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut kept, mut at, mut quoted, mut found) = (Vec::with_capacity(bytes.len()), 0, false, false);
    while at < bytes.len() {
        if !quoted
            && let Some(word) = ["-Infinity", "Infinity", "NaN"].iter().find(|w| bytes[at..].starts_with(w.as_bytes()))
        {
            kept.extend(b"null");
            at += word.len();
            found = true;
            continue;
        }
        match bytes[at] {
            b'"' => quoted = !quoted,
            // What is escaped ends no string.
            b'\\' if quoted => {
                kept.push(bytes[at]);
                at += 1;
            }
            _ => {}
        }
        kept.extend(bytes.get(at));
        at += 1;
    }
    found.then_some(kept)
}

/// A log-probability is finite and at most 0; `-9999` and the like are sentinels for "unknown".
fn believable(value: f64) -> bool {
    value.is_finite() && value <= 0.0 && value > -1000.0
}

/// Pieces of one character are joined, so that every token is text; their log-probabilities add up.
fn joined(tokens: Vec<(Vec<u8>, Option<f64>)>) -> Vec<StoredToken> {
    let mut whole = Vec::new();
    let (mut bytes, mut sum): (Vec<u8>, Option<f64>) = (Vec::new(), Some(0.0));
    for (piece, logprob) in tokens {
        bytes.extend(piece);
        sum = sum.zip(logprob).map(|(sum, logprob)| sum + logprob);
        if let Ok(text) = std::str::from_utf8(&bytes) {
            whole.push(StoredToken(text.to_string(), sum));
            bytes.clear();
            sum = Some(0.0);
        }
    }
    whole
}

/// At most 300 characters of a server's words.
pub(super) fn shortened(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(300) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<StoredAnswer, String> {
        Completion::read(body.as_bytes())?.answer(0.0)
    }

    #[test]
    fn a_body_without_an_answer_is_an_error_that_says_what_is_missing() {
        // case C13.
        for (body, said) in [
            (r#"{"choices":[],"usage":null}"#, "\"choices\" is empty"),
            (r#"{"choices":null}"#, "the body has no \"choices\""),
            (r#"{"choices":[{"message":null}]}"#, "the first choice has no \"message\""),
            (r#"{"choices":[{"message":{"content":null}}]}"#, "the message has neither \"content\" nor \"refusal\""),
            (r#"{"error":{"message":"overloaded"}}"#, "the body carries an error: {\"message\":\"overloaded\"}"),
        ] {
            assert_eq!(read(body).unwrap_err(), said);
        }
    }

    #[test]
    fn absent_usage_is_unknown_and_a_refusal_is_kept() {
        // case C07, C13.
        let answer =
            read(r#"{"choices":[{"message":{"content":null,"refusal":"I can't."},"finish_reason":"stop"}]}"#).unwrap();
        assert_eq!(
            (answer.refusal.as_deref(), answer.prompt_tokens, answer.finish.as_str()),
            (Some("I can't."), None, "stop")
        );
    }

    #[test]
    fn logprobs_without_alternatives_are_usable_in_both_shapes() {
        // case C15.
        let chat = r#"{"choices":[{"message":{"content":"Bern!"},"logprobs":{"content":[{"token":"Bern","logprob":-0.1,"top_logprobs":[]},{"token":"!","logprob":-0.3,"top_logprobs":[]}]}}]}"#;
        let legacy = r#"{"choices":[{"message":{"content":"Bern!"},"logprobs":{"tokens":["Bern","!"],"token_logprobs":[-0.1,-0.3]}}]}"#;
        for body in [chat, legacy] {
            let tokens = read(body).unwrap().tokens.unwrap();
            assert_eq!(tokens, [StoredToken("Bern".into(), Some(-0.1)), StoredToken("!".into(), Some(-0.3))]);
        }
    }

    #[test]
    fn sentinels_and_nulls_are_unknown_and_pieces_of_a_character_are_joined() {
        let body = r#"{"choices":[{"message":{"content":"a那"},"logprobs":{"content":[{"token":"a","logprob":-9999.0},{"token":"x","bytes":[233,130],"logprob":-0.5},{"token":"y","bytes":[163],"logprob":-0.25}]}}]}"#;
        let tokens = read(body).unwrap().tokens.unwrap();
        assert_eq!(tokens, [StoredToken("a".into(), None), StoredToken("那".into(), Some(-0.75))]);
    }

    #[test]
    fn every_word_for_an_unknown_probability_is_unknown_in_both_shapes() {
        for word in ["null", "-9999", "-9999.0", "-Infinity", "NaN", "\"-inf\"", "1.5", "-1.7976931348623157e308", "[]"]
        {
            let chat = r#"{"choices":[{"message":{"content":"a \" NaN b"},"logprobs":{"content":[{"token":"a \" NaN","logprob":WORD},{"token":" b","logprob":-0.5}]}}]}"#;
            let legacy = r#"{"choices":[{"message":{"content":"a \" NaN b"},"logprobs":{"tokens":["a \" NaN"," b"],"token_logprobs":[WORD,-0.5],"top_logprobs":WORD}}]}"#;
            for body in [chat, legacy] {
                let answer = read(&body.replace("WORD", word)).unwrap();
                assert_eq!(answer.content, "a \" NaN b", "{word}: words in a string stay");
                let tokens = [StoredToken("a \" NaN".into(), None), StoredToken(" b".into(), Some(-0.5))];
                assert_eq!(answer.tokens.unwrap(), tokens, "{word}");
            }
        }
    }

    #[test]
    fn what_only_adds_to_an_answer_never_costs_it() {
        for (part, value) in [
            ("logprobs", "[1,2]"),
            ("logprobs", "{\"content\":[]}"),
            ("logprobs", "{\"content\":[{}]}"),
            ("logprobs", "true"),
        ] {
            let answer = read(&format!(r#"{{"choices":[{{"message":{{"content":"a"}},"{part}":{value}}}]}}"#)).unwrap();
            assert_eq!((answer.content.as_str(), answer.tokens), ("a", None), "{value}");
        }
        for usage in ["[]", "\"none\"", "{\"prompt_tokens\":-1}", "{\"prompt_tokens\":\"7\"}"] {
            let answer = read(&format!(r#"{{"usage":{usage},"choices":[{{"message":{{"content":"a"}}}}]}}"#)).unwrap();
            assert_eq!((answer.prompt_tokens, answer.completion_tokens), (None, None), "{usage}");
        }
        let parts = r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}"#;
        assert_eq!(read(parts).unwrap().content, "ab");
    }

    #[test]
    fn tokens_that_do_not_spell_the_content_are_unknown() {
        let body =
            r#"{"choices":[{"message":{"content":"Bern"},"logprobs":{"content":[{"token":"Basel","logprob":-0.1}]}}]}"#;
        assert_eq!(read(body).unwrap().tokens, None);
    }
}
