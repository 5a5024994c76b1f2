//! The client behind a plan: stored answers first, then the servers, within the limits of the
//! command line. The key is read here and goes nowhere but to the servers.

use super::session::refused;
use super::{Common, usage};
use crate::config::Plan;
use crate::store::{AnswerStore, Shard, StoreError, answer_files, write_atomic};
use crate::team::Client;
use crate::team::client::shape::Form;
use crate::team::client::{Endpoint, Fleet, HttpClient, Limits, Price};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// What a call may spend.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Spending {
    /// Stop after N requests to servers; stored answers are none
    #[arg(long, value_name = "N")]
    pub max_calls: Option<u64>,
    /// Stop before this call spends more, at the prices of [team.price]
    #[arg(long, value_name = "MONEY")]
    pub max_cost: Option<f64>,
}

/// Largest file that may hold a key.
const LARGEST_KEY: u64 = 64 << 10;
/// Largest list of what servers were seen to do.
const LARGEST_NOTES: u64 = 1 << 20;

/// The client of a plan: the cassette's answers, then those that earlier calls left in the run
/// directory, then the servers if there are any. New answers go into the file of this shard.
pub fn client(plan: &Plan, common: &Common, spending: &Spending, shard: Option<Shard>) -> Result<Client> {
    let team = &plan.config().team;
    let limits = limits(plan, spending)?;
    let mut store = AnswerStore::new();
    if let Some(cassette) = &team.cassette {
        store.attach(cassette).context("reading team.cassette")?;
    }
    let own = plan.output_dir().join(shard.map_or("answers".into(), |shard| shard.named("answers")) + ".sqlite");
    let earlier = answer_files(plan.output_dir())?;
    if team.servers().is_empty() && team.local.is_none() {
        for file in &earlier {
            store.attach(file).context("reading answers of this run")?;
        }
        return Ok(Client::replay(store));
    }
    // The log of version 0.1 in the own file's place is read into it when that is opened.
    for file in earlier.iter().filter(|file| file.with_extension("sqlite") != own) {
        match store.load(file) {
            // Another shard is at work on documents of its own.
            Err(StoreError::Busy { .. }) => {}
            read => drop(read.context("reading answers of this run")?),
        }
    }
    if let Some(name) = &team.local {
        let local = super::local::load(plan, name, common)?;
        open(&mut store, &own)?;
        return Ok(Client::local(store, local));
    }
    let mut endpoints = endpoints(plan, common)?;
    look_at(plan, &mut endpoints)?;
    open(&mut store, &own)?;
    Ok(Client::live(store, Fleet::new(endpoints, team.in_flight, team.max_attempts, limits)))
}

/// Opens the file that new answers go into.
fn open(store: &mut AnswerStore, own: &Path) -> Result<()> {
    let opened = store.open_file(own).context("opening the answers of this run")?;
    if let Some(count) = opened.adopted {
        let log = own.with_extension("jsonl");
        let log = log.display();
        eprintln!("{log}: its {count} answers are in {} now; it may be removed", own.display());
    }
    Ok(())
}

/// What is stored, for an estimate: nothing is written, and a cassette may still be missing.
pub fn stored(plan: &Plan) -> Result<AnswerStore> {
    let mut store = AnswerStore::new();
    for file in plan.config().team.cassette.iter().filter(|file| file.is_file()) {
        store.attach(file).context("reading team.cassette")?;
    }
    for file in answer_files(plan.output_dir())? {
        store.attach(&file).context("reading answers of this run")?;
    }
    Ok(store)
}

/// What tokens cost, where the config says so.
pub fn price(plan: &Plan) -> Option<Price> {
    plan.config().team.price.map(|price| Price { prompt: price.prompt, completion: price.completion })
}

fn limits(plan: &Plan, spending: &Spending) -> Result<Limits> {
    let team = &plan.config().team;
    let price = price(plan);
    if let Some(most) = spending.max_cost {
        if !(most.is_finite() && most >= 0.0) {
            return Err(usage(format!("--max-cost {most}: expected 0 or more")));
        }
        if price.is_none() {
            return Err(usage(
                "--max-cost needs prices: write what a million tokens cost into the config, as [team.price] with prompt \
                 and completion",
            ));
        }
    }
    Ok(Limits {
        requests_per_minute: team.max_requests_per_minute,
        tokens_per_minute: team.max_tokens_per_minute,
        calls: spending.max_calls,
        cost: spending.max_cost,
        price,
    })
}

/// The plan's servers with their key.
pub fn endpoints(plan: &Plan, common: &Common) -> Result<Vec<Endpoint>> {
    let team = &plan.config().team;
    let (api_key, timeout) = (api_key(plan)?, Duration::from_secs(team.timeout_s));
    let mut endpoints = Vec::new();
    for url in team.servers() {
        if common.offline && !is_local(url) {
            let key = if team.base_url.is_some() { "team.base_url" } else { "team.base_urls" };
            return Err(usage(format!("--offline forbids {key} = {url}: it is not on this machine")));
        }
        endpoints.push(Endpoint { base_url: url.into(), api_key: api_key.clone(), timeout, form: None });
    }
    Ok(endpoints)
}

/// The key, from the file that the config names or else from the environment.
pub fn api_key(plan: &Plan) -> Result<Option<String>> {
    let team = &plan.config().team;
    let Some(path) = &team.api_key_file else {
        let key = std::env::var(&team.api_key_env).ok().map(|key| key.trim().to_string());
        return key.filter(|key| !key.is_empty()).map(|key| checked_key(key, &team.api_key_env)).transpose();
    };
    let shown = format!("team.api_key_file: {}", path.display());
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LARGEST_KEY).read_to_string(&mut text))
        .map_err(|error| usage(format!("{shown}: {error}")))?;
    match text.trim() {
        "" => Err(usage(format!("{shown}: is empty; expected one line, the key"))),
        key => checked_key(key.to_string(), &shown).map(Some),
    }
}

/// A key goes into a header: one line of visible ASCII. The message does not repeat it.
fn checked_key(key: String, source: &str) -> Result<String> {
    match key.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(key),
        false => Err(usage(format!("{source}: expected one line of letters, digits and signs, the key and no more"))),
    }
}

/// Whether an address stays on this machine.
pub fn is_local(base_url: &str) -> bool {
    let rest = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Looks whether each server can do what the plan needs of it. What was seen once is noted in the
/// run directory and not asked again.
fn look_at(plan: &Plan, endpoints: &mut [Endpoint]) -> Result<()> {
    let notes_file = plan.output_dir().join("capabilities.json");
    let mut notes = notes(&notes_file);
    let known = notes.clone();
    for endpoint in endpoints.iter_mut() {
        hold_to_schema(plan, endpoint, &mut notes)?;
        insist_on_logprobs(plan, endpoint, &mut notes)?;
    }
    if notes != known {
        let text = serde_json::to_string_pretty(&notes)? + "\n";
        write_atomic(&notes_file, text.as_bytes())?;
    }
    Ok(())
}

/// Finds the way by which a server holds an answer to a schema, if the plan wants that.
fn hold_to_schema(plan: &Plan, endpoint: &mut Endpoint, notes: &mut BTreeMap<String, String>) -> Result<()> {
    let team = &plan.config().team;
    let wanted = match team.constrained_output.as_str() {
        "none" => return Ok(()),
        "auto" => Form::ALL.to_vec(),
        named => Form::named(named).into_iter().collect(),
    };
    let name = format!("{} {}", endpoint.base_url, team.model);
    let noted = notes.get(&name).and_then(|form| Form::named(form)).filter(|form| wanted.contains(form));
    let form = noted.or_else(|| HttpClient::new(endpoint.clone(), 1).form(&team.model, &wanted));
    let Some(form) = form else {
        return Err(refused(format!(
            "E401: {}: {} was not seen to hold an answer to a JSON schema ({}); set team.constrained_output = \"none\", \
             or look at what the server can do: understudy doctor CONFIG",
            endpoint.base_url,
            team.model,
            wanted.iter().map(|form| form.name()).collect::<Vec<_>>().join(", ")
        )));
    };
    endpoint.form = Some(form);
    notes.insert(name, form.name().into());
    Ok(())
}

/// Refuses a server that answers without log-probabilities, if the plan weighs answers by them. One
/// that does not answer at all is the debate's to report: every answer may be stored.
fn insist_on_logprobs(plan: &Plan, endpoint: &Endpoint, notes: &mut BTreeMap<String, String>) -> Result<()> {
    let team = &plan.config().team;
    let name = format!("{} {} logprobs", endpoint.base_url, team.model);
    if !team.logprobs || notes.contains_key(&name) {
        return Ok(());
    }
    match HttpClient::new(endpoint.clone(), 1).logprobs(&team.model) {
        Some(true) => drop(notes.insert(name, "yes".into())),
        None => {}
        Some(false) => {
            return Err(refused(format!(
                "E402: {}: {} answers without log-probabilities, which confidence is made of; set team.logprobs = false to \
                 go by votes alone, or use a server that sends them (llama.cpp, vLLM): understudy doctor CONFIG",
                endpoint.base_url, team.model
            )));
        }
    }
    Ok(())
}

/// What was noted; a file that cannot be read is as good as none.
fn notes(path: &Path) -> BTreeMap<String, String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(LARGEST_NOTES).read_to_end(&mut bytes));
    read.ok().and_then(|_| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_this_machine() {
        for near in [
            "http://127.0.0.1:80/v1",
            "http://localhost",
            "https://LOCALHOST:1/v1",
            "http://[::1]:8/v1",
            "http://127.9.9.9/v1",
        ] {
            assert!(is_local(near), "{near}");
        }
        for far in [
            "http://127.evil.example/v1",
            "http://a/?//127.0.0.1",
            "http://localhost.example/v1",
            "http://10.0.0.1/v1",
            "http://[::2]/v1",
        ] {
            assert!(!is_local(far), "{far}");
        }
    }

    #[test]
    fn a_key_that_no_header_can_hold_is_refused_and_not_repeated() {
        assert_eq!(checked_key("sk-1/+=_".into(), "KEY").unwrap(), "sk-1/+=_");
        for key in ["secret\nsecret", "secret secret", "sécret"] {
            let said = checked_key(key.into(), "KEY").unwrap_err().to_string();
            assert!(said.starts_with("KEY: expected one line") && !said.contains("cret"), "{said}");
        }
    }
}
