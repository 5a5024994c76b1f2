//! The chat-completion response as servers really send it: fields missing, null, or in an older
//! shape. Everything is optional until proven there.

use crate::store::{StoredAnswer, StoredToken};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Completion {
    choices: Option<Vec<Choice>>,
    usage: Option<Usage>,
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Said>,
    finish_reason: Option<String>,
    logprobs: Option<Logprobs>,
}

#[derive(Deserialize)]
struct Said {
    content: Option<String>,
    refusal: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

/// Both shapes: the chat API's `content` list, and the completion API's parallel lists, which
/// some servers send from the chat endpoint too.
#[derive(Deserialize)]
struct Logprobs {
    content: Option<Vec<Token>>,
    tokens: Option<Vec<String>>,
    token_logprobs: Option<Vec<Option<f64>>>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    logprob: Option<f64>,
    bytes: Option<Vec<u8>>,
}

impl Completion {
    /// The first choice as an answer, or what is missing.
    pub(super) fn answer(self, seconds: f64) -> Result<StoredAnswer, String> {
        if let Some(error) = self.error.filter(|error| !error.is_null()) {
            return Err(format!("the body carries an error: {error}"));
        }
        let choices = self.choices.ok_or("the body has no \"choices\"")?;
        let choice = choices.into_iter().next().ok_or("\"choices\" is empty")?;
        let said = choice.message.ok_or("the first choice has no \"message\"")?;
        let refusal = said.refusal.filter(|refusal| !refusal.trim().is_empty());
        if said.content.is_none() && refusal.is_none() {
            return Err("the message has neither \"content\" nor \"refusal\"".into());
        }
        let usage = self.usage;
        Ok(StoredAnswer {
            tokens: choice.logprobs.and_then(|logprobs| logprobs.tokens(said.content.as_deref().unwrap_or_default())),
            content: said.content.unwrap_or_default(),
            finish: choice.finish_reason.unwrap_or_else(|| "unknown".into()),
            refusal,
            prompt_tokens: usage.as_ref().and_then(|usage| usage.prompt_tokens),
            completion_tokens: usage.as_ref().and_then(|usage| usage.completion_tokens),
            seconds: (seconds * 1e3).round() / 1e3,
        })
    }
}

impl Logprobs {
    /// Tokens whose bytes, joined, are the content (a closing end token aside); `None` if they are
    /// not: log-probabilities that cannot be aligned are unknown, not wrong.
    fn tokens(self, content: &str) -> Option<Vec<StoredToken>> {
        let tokens: Vec<(Vec<u8>, Option<f64>)> = match (self.content, self.tokens) {
            (Some(content), _) => content
                .into_iter()
                .map(|token| {
                    (token.bytes.unwrap_or_else(|| token.token.unwrap_or_default().into_bytes()), token.logprob)
                })
                .collect(),
            (None, Some(tokens)) => {
                let logprobs = self.token_logprobs.unwrap_or_default();
                let logprobs = logprobs.into_iter().chain(std::iter::repeat(None));
                tokens.into_iter().map(String::into_bytes).zip(logprobs).collect()
            }
            (None, None) => return None,
        };
        let mut at = 0;
        let mut kept: Vec<(Vec<u8>, Option<f64>)> = Vec::new();
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
        (at == content.len()).then(|| joined(kept))
    }
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
        serde_json::from_str::<Completion>(body).map_err(|error| error.to_string())?.answer(0.0)
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
    fn tokens_that_do_not_spell_the_content_are_unknown() {
        let body =
            r#"{"choices":[{"message":{"content":"Bern"},"logprobs":{"content":[{"token":"Basel","logprob":-0.1}]}}]}"#;
        assert_eq!(read(body).unwrap().tokens, None);
    }
}
