//! What a server can do, found out by asking: six short questions, one attempt each. What it says
//! about itself is not believed; the answers are looked at.

use super::http::HttpClient;
use super::shape::Form;
use crate::store::StoredAnswer;
use serde_json::{Value, json};

/// What a server was seen to do; `None` where its answers do not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Log-probabilities come, and their tokens spell the answer.
    pub logprobs: Option<bool>,
    /// The counts of tokens come.
    pub usage: Option<bool>,
    /// An answer keeps to a JSON schema that the question does not mention.
    pub json_schema: Option<bool>,
    /// The same seed gives the same sampled answer, another seed another one.
    pub seed: Option<bool>,
}

const GREETING: &str = "Reply with the word yes.";

impl HttpClient {
    /// Asks `model` six questions, of at most 48 tokens each.
    ///
    /// # Errors
    /// If the server does not answer a plain question.
    pub fn probe(&self, model: &str) -> Result<Capabilities, String> {
        let ask = |question: &str, more: Value| self.question(model, question, &more);
        let plain = ask(GREETING, json!({}))?;
        Ok(Capabilities {
            logprobs: Some(self.sends_logprobs(model)),
            usage: Some(plain.prompt_tokens.is_some() && plain.completion_tokens.is_some()),
            json_schema: Some(self.keeps(model, Form::ResponseFormat)),
            seed: seeded(&|seed| {
                ask("Write twelve random digits.", json!({"temperature": 1.0, "seed": seed}))
                    .map(|answer| answer.content)
            }),
        })
    }

    /// Whether log-probabilities come with an answer of `model`; `None` where no answer comes at all.
    pub fn logprobs(&self, model: &str) -> Option<bool> {
        match self.sends_logprobs(model) {
            true => Some(true),
            false => self.question(model, GREETING, &json!({})).is_ok().then_some(false),
        }
    }

    fn sends_logprobs(&self, model: &str) -> bool {
        let told = self.question(model, GREETING, &json!({"logprobs": true, "top_logprobs": 1}));
        told.is_ok_and(|answer| answer.tokens.is_some_and(|tokens| tokens.iter().any(|token| token.1.is_some())))
    }

    /// The first of these ways by which `model` is seen to keep to a schema that the question does
    /// not mention: one short question each.
    pub fn form(&self, model: &str, among: &[Form]) -> Option<Form> {
        among.iter().copied().find(|form| self.keeps(model, *form))
    }

    fn keeps(&self, model: &str, form: Form) -> bool {
        let more = Value::Object(form.parameters(&schema()));
        self.question(model, "Say hello in one sentence.", &more).is_ok_and(|answer| keeps_to_schema(&answer))
    }

    fn question(&self, model: &str, question: &str, more: &Value) -> Result<StoredAnswer, String> {
        let mut body = json!({
            "model": model, "messages": [{"role": "user", "content": question}], "temperature": 0.0,
            "max_tokens": 48, "stream": false,
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            body[key] = value.clone();
        }
        self.exchange(&body)?.answer(0.0)
    }
}

/// A schema that nobody would answer in by chance.
fn schema() -> Value {
    json!({
        "type": "object", "properties": {"understudy_city": {"type": "string"}}, "required": ["understudy_city"],
        "additionalProperties": false,
    })
}

/// An answer that was cut may still be seen to begin as the schema asks.
fn keeps_to_schema(answer: &StoredAnswer) -> bool {
    let text = answer.content.trim_start();
    match serde_json::from_str::<Value>(text) {
        Ok(value) => value.as_object().is_some_and(|map| map.len() == 1 && map.contains_key("understudy_city")),
        Err(_) => answer.finish == "length" && text.starts_with('{') && text.contains("\"understudy_city\""),
    }
}

/// Whether the seed decides; unknown where every answer is the same.
fn seeded(ask: &dyn Fn(u64) -> Result<String, String>) -> Option<bool> {
    let (first, again, other) = (ask(7).ok()?, ask(7).ok()?, ask(8).ok()?);
    match (first == again, first == other) {
        (true, true) => None,
        (same, _) => Some(same),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::client::wire::Completion;

    #[test]
    fn a_seed_is_believed_only_where_another_seed_says_something_else() {
        assert_eq!(seeded(&|seed| Ok(seed.to_string())), Some(true));
        assert_eq!(seeded(&|_| Ok("4".into())), None);
        assert_eq!(seeded(&|_| Err("no".into())), None);
        let count = std::cell::Cell::new(0);
        let fresh = |_| {
            count.set(count.get() + 1);
            Ok(count.get().to_string())
        };
        assert_eq!(seeded(&fresh), Some(false));
    }

    #[test]
    fn a_schema_is_kept_or_begun_and_prose_and_other_json_do_not_keep_it() {
        let keeps = |content: &str, finish: &str| {
            let body = json!({"choices": [{"message": {"content": content}, "finish_reason": finish}]});
            let answer = Completion::read(body.to_string().as_bytes()).unwrap().answer(0.0).unwrap();
            keeps_to_schema(&answer)
        };
        assert!(keeps(r#" {"understudy_city": "Bern"}"#, "stop"));
        assert!(keeps(r#"{"understudy_city": "Ber"#, "length") && !keeps(r#"{"understudy_city": "Ber"#, "stop"));
        assert!(!keeps("Hello!", "stop") && !keeps(r#"{"city": "Bern"}"#, "stop"));
    }
}
