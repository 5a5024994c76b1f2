//! What a debate would ask, before anything is asked: a replay of what is stored, and a count of
//! what is not.

use super::{debate, servers};
use crate::config::Plan;
use crate::ie::Document;
use crate::store::{AnswerStore, StoredAnswer, StoredRequest, request_key};
use crate::team::client::DENSITY;
use crate::team::{Client, Demonstrator, Protocol};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Calls and tokens that a debate would need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Requests whose answers are stored.
    pub stored: usize,
    /// Requests that are known and have no answer yet.
    pub open: usize,
    /// Most requests that may follow from what is found: about relations, or of later rounds.
    pub later: usize,
    /// Which of the two, in words.
    pub following: &'static str,
    /// Whether debates may follow, too.
    pub debates: bool,
    /// Tokens of the open requests.
    pub read: f64,
    /// Tokens of their answers, by those that are stored; `None` where none is.
    pub written: Option<f64>,
    /// Most tokens of their answers.
    pub most_written: f64,
}

impl Estimate {
    /// Replays `store` and counts what is missing.
    pub fn of(
        plan: &Plan,
        protocol: Protocol,
        documents: &[Document],
        store: AnswerStore,
        shown: Option<Arc<dyn Demonstrator>>,
    ) -> Estimate {
        let client = Client::replay(store);
        let team = debate::team(plan, protocol, &client, shown).recording();
        let traces = team.debate(documents);
        let requests = team.requests();
        if protocol == Protocol::Cooperkgc {
            let read = documents.iter().filter(|document| !document.is_blank()).count();
            let later = (read * plan.cooperation().calls()).saturating_sub(requests.len());
            return Estimate { later, following: "of later rounds", ..counted(&requests, client.store()) };
        }
        let relations = plan.schema().relations.len();
        let asked = |trace: &crate::trace::Trace| trace.turns.iter().filter(|turn| turn.stage == "relations").count();
        let most = if protocol == Protocol::Aeio { relations.min(1) } else { relations };
        let later = traces
            .iter()
            .filter(|trace| trace.turns.iter().any(|turn| turn.error.is_some()))
            .map(|trace| most.saturating_sub(asked(trace)))
            .sum();
        let debates = protocol == Protocol::Crossagentie;
        Estimate { later, following: "about relations", debates, ..counted(&requests, client.store()) }
    }

    /// In words: calls, tokens and money.
    pub fn told(&self, plan: &Plan) -> String {
        if self.open == 0 {
            return format!("nothing to ask: {} answers are stored", self.stored);
        }
        let mut text = format!(
            "{} calls to ask now ({} answers are stored): about {:.0} tokens to read, ",
            self.open, self.stored, self.read
        );
        text += &match self.written {
            Some(written) => format!("about {written:.0} and at most {:.0} to write", self.most_written),
            None => format!("at most {:.0} to write", self.most_written),
        };
        if self.later > 0 {
            text += &format!("; up to {} calls {} may follow", self.later, self.following);
        }
        if self.debates {
            text += "; debates by the number of conflicts";
        }
        match servers::price(plan) {
            Some(price) => {
                let share = (self.open + self.later) as f64 / self.open as f64;
                let most = price.of(self.read, self.most_written);
                let likely = price.of(self.read, self.written.unwrap_or(self.most_written));
                text += &format!("\n     cost: about {likely:.4}, at most {:.4}", most * share);
                text += if self.debates { " without debates" } else { "" };
            }
            None => text += "\n     cost: unknown; [team.price] in the config says what a million tokens cost",
        }
        text
    }

    /// As JSON.
    pub fn json(&self, plan: &Plan) -> serde_json::Value {
        let price = servers::price(plan);
        serde_json::json!({
            "stored": self.stored, "calls": self.open, "later_calls": self.later, "debates": self.debates,
            "prompt_tokens": self.read.round(), "completion_tokens": self.written.map(f64::round),
            "max_completion_tokens": self.most_written,
            "max_cost": price.map(|price| price.of(self.read, self.most_written)),
        })
    }
}

fn counted(requests: &[StoredRequest], store: &AnswerStore) -> Estimate {
    let mut estimate = Estimate::default();
    let (mut seen, mut open_bytes) = (BTreeSet::new(), 0.0);
    let (mut bytes, mut read, mut answers, mut written) = (0.0, 0.0, 0.0, 0.0);
    for request in requests {
        let key = request_key(request);
        let size: f64 = request.messages.iter().map(|message| message.content.len() as f64).sum();
        let answer = store.get_key(&key);
        if !seen.insert(key) {
            continue;
        }
        match answer {
            None => {
                estimate.open += 1;
                estimate.most_written += f64::from(request.max_tokens);
                open_bytes += size;
            }
            Some(StoredAnswer { prompt_tokens, completion_tokens, .. }) => {
                estimate.stored += 1;
                if let (Some(prompt), Some(completion)) = (prompt_tokens, completion_tokens) {
                    (bytes, read) = (bytes + size, read + prompt as f64);
                    (answers, written) = (answers + 1.0, written + completion as f64);
                }
            }
        }
    }
    let density = if bytes > 0.0 { read / bytes } else { DENSITY };
    estimate.read = open_bytes * density;
    estimate.written = (answers > 0.0).then(|| (estimate.open as f64 * written / answers).min(estimate.most_written));
    estimate
}
