//! `doctor`: what this machine, and the server of an experiment, have of what a run needs; what is
//! missing and the way out.

use super::refusals::loaded;
use super::session::{self, refused};
use super::{Common, Outcome, demonstrations, model, printed, servers};
use crate::config::{ENCODER_OF_A_SERVER, Plan, TeamSection};
use crate::store::AnswerStore;
use crate::student::ChatTokenizer;
use crate::student::device::{self, Opened};
use crate::team::client::shape::Form;
use crate::team::client::{Capabilities, Endpoint, HttpClient};
use anyhow::Result;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  understudy doctor
  understudy doctor configs/quickstart.toml
  understudy doctor my.toml --set team.base_url=http://127.0.0.1:8000/v1

With a config that names a server, the server is asked six short questions (at most 48 tokens each), to see \
what it does rather than what it says of itself. Exit code 4 if something that a run needs is missing.")]
pub struct Args {
    /// The experiment file; without one, this machine and the default model are looked at
    config: Option<PathBuf>,
    /// Override a key of the config; may be given more than once
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As a run needs it.
    Ok,
    /// A run works without it, worse.
    Weak,
    /// A run needs it.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
struct Check {
    what: &'static str,
    state: State,
    found: String,
}

/// Free space below which a run may end half-way: checkpoints, traces and the cached model.
const ROOM: u64 = 1 << 30;

/// Runs the verb.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    let plan = match &args.config {
        Some(config) => Some(Plan::read(config, &args.set).map_err(|error| super::usage(error.to_string()))?),
        None => None,
    };
    let name = plan.as_ref().map_or(model::DEFAULT, |plan| plan.config().base_model.as_str());
    let out = plan.as_ref().map_or_else(|| PathBuf::from("checkpoints"), |plan| plan.output_dir().to_owned());
    let mut checks = vec![device_check(common), model_check(name), disk_check(&out)];
    if let Some(plan) = &plan {
        checks.extend(encoder_check(plan, common));
        checks.extend(team_checks(plan, common));
    }
    let mut text = String::new();
    for check in &checks {
        let state = match check.state {
            State::Ok => "ok",
            State::Weak => "weak",
            State::Missing => "MISSING",
        };
        text += &format!("{state:<8} {:<12} {}\n", check.what, check.found);
    }
    printed(&if common.json { format!("{}\n", json!({ "checks": checks })) } else { text })?;
    let missing: Vec<&str> = checks.iter().filter(|c| c.state == State::Missing).map(|c| c.what).collect();
    match missing.is_empty() {
        true => Ok(Outcome::Done),
        false => Err(refused(format!("a run would lack: {}", missing.join(", ")))),
    }
}

fn check(what: &'static str, found: Result<String>) -> Check {
    match found {
        Ok(found) => Check { what, state: State::Ok, found },
        Err(error) => Check { what, state: State::Missing, found: format!("{error:#}") },
    }
}

fn device_check(common: &Common) -> Check {
    let threads = rayon::current_num_threads();
    let found = device::open(&common.device).map_err(Into::into).map(|Opened { name, note, .. }| {
        let note = note.map_or_else(String::new, |note| format!("; {note}"));
        format!("{name}, {threads} threads{note}")
    });
    check("device", found)
}

fn model_check(name: &str) -> Check {
    let look = || {
        let path = if model::is_known(name) { model::student_path(name)? } else { PathBuf::from(name) };
        let tokenizer = loaded(ChatTokenizer::open(&path))?;
        let end = tokenizer.end_of_turn();
        Ok(format!("{}: {} tokens, an answer ends with {}", path.display(), tokenizer.vocab(), tokenizer.shown(end)))
    };
    check("model", look())
}

/// Free space where the run is written, as `df` knows it.
fn disk_check(out: &Path) -> Check {
    let there = out.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let said = Command::new("df").arg("-Pk").arg(there).output().ok().filter(|said| said.status.success());
    let free = said.and_then(|said| free_bytes(&String::from_utf8_lossy(&said.stdout)));
    let (state, found) = match free {
        Some(free) if free < ROOM => (State::Missing, "give it at least 1 GiB, or write elsewhere with --out"),
        Some(_) => (State::Ok, ""),
        None => (State::Weak, "`df` does not say how much is free; a run needs 1 GiB"),
    };
    let free = free.map_or_else(String::new, |free| format!("{:.1} GiB free. ", free as f64 / ROOM as f64));
    Check { what: "disk", state, found: format!("{}: {free}{found}", there.display()).trim_end().to_owned() }
}

/// The fourth column of the last line of `df -Pk`.
fn free_bytes(said: &str) -> Option<u64> {
    said.lines().skip(1).last()?.split_whitespace().nth(3)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The encoder of the demonstrations, where there are any: whether it turns a text into a vector.
fn encoder_check(plan: &Plan, common: &Common) -> Option<Check> {
    let section = plan.config().team.demonstrations.as_ref().filter(|section| section.shots > 0)?;
    let name = section.encoder.as_deref().unwrap_or_default();
    let look = || {
        let vectors = demonstrations::encoder(plan, section, common, 1)?.encode(&["Ann left Bern."])?;
        let long = vectors.first().map_or(0, Vec::len);
        let server = section.server(&plan.config().team).filter(|_| name == ENCODER_OF_A_SERVER);
        let at =
            server.zip(section.model.as_ref()).map_or_else(String::new, |(url, model)| format!(": {model} at {url}"));
        Ok(format!("{name}{at}: vectors of {long} numbers, for {} shots", section.shots))
    };
    Some(check("encoder", look()))
}

/// The team's answers: recorded ones, and what its server can do.
fn team_checks(plan: &Plan, common: &Common) -> Vec<Check> {
    let team = &plan.config().team;
    let mut checks = Vec::new();
    if let Some(cassette) = &team.cassette {
        let mut store = AnswerStore::new();
        let read = store.attach(cassette).map(|count| format!("{}: {count} recorded answers", cassette.display()));
        checks.push(check("cassette", read.map_err(Into::into)));
    }
    if let Some(name) = &team.local {
        let path = if model::is_known(name) { model::student_path(name) } else { Ok(name.into()) };
        let read = path.and_then(|path| Ok(ChatTokenizer::open(&path)?));
        checks.push(check("team.local", read.map(|_| format!("{name} answers in this process"))));
    }
    let servers = team.servers();
    if common.offline && servers.iter().any(|url| !servers::is_local(url)) {
        let found = "not asked, because of --offline".into();
        checks.push(Check { what: "server", state: State::Weak, found });
        return checks;
    }
    let endpoints = match servers::endpoints(plan, common) {
        Ok(endpoints) => endpoints,
        Err(error) => {
            checks.push(check("key", Err(error)));
            return checks;
        }
    };
    for endpoint in endpoints {
        let named = if servers.len() > 1 { format!("{}: ", endpoint.base_url) } else { String::new() };
        checks.extend(server_checks(plan, endpoint).into_iter().map(|mut check| {
            check.found = format!("{named}{}", check.found);
            check
        }));
    }
    checks
}

/// One server: whether it answers, and what it can do.
fn server_checks(plan: &Plan, endpoint: Endpoint) -> Vec<Check> {
    let team = &plan.config().team;
    let with = if endpoint.api_key.is_some() { "with the key of" } else { "without a key: nothing stands in" };
    let source = team.api_key_file.as_ref().map_or_else(|| team.api_key_env.clone(), |file| file.display().to_string());
    let client = HttpClient::new(endpoint, 1);
    match client.probe(&team.model) {
        Ok(can) => {
            let found = format!("answers as {}, {with} {source}", team.model);
            let mut checks = vec![Check { what: "server", state: State::Ok, found }];
            checks.extend(capability_checks(&can, team.logprobs));
            if session::constrained(plan) {
                checks.push(constraint_check(&client, team));
            }
            checks
        }
        Err(error) => {
            let found = format!(
                "{error} ({with} {source}) — start the server, or correct team.base_url, team.model or the key"
            );
            vec![Check { what: "server", state: State::Missing, found }]
        }
    }
}

/// Whether a server holds answers to a schema as the config asks.
fn constraint_check(client: &HttpClient, team: &TeamSection) -> Check {
    let wanted = Form::named(&team.constrained_output).map_or_else(|| Form::ALL.to_vec(), |form| vec![form]);
    match client.form(&team.model, &wanted) {
        Some(form) => Check { what: "constrained", state: State::Ok, found: format!("by {}", form.name()) },
        None => {
            let found = format!("not by {}; set team.constrained_output = \"none\"", team.constrained_output);
            Check { what: "constrained", state: State::Missing, found }
        }
    }
}

/// What a server can do, and what it means where it cannot.
fn capability_checks(can: &Capabilities, wanted: bool) -> Vec<Check> {
    let row = |what, can: Option<bool>, without: &str| {
        let (state, found) = match can {
            Some(true) => (State::Ok, "yes".to_string()),
            Some(false) => (State::Weak, format!("no: {without}")),
            None => (State::Weak, format!("cannot be told: {without}")),
        };
        Check { what, state, found }
    };
    let confidence = match wanted {
        true => "a run is refused; set team.logprobs = false to go by votes alone, or use a server that sends them",
        false => "not asked for by this config (team.logprobs = false)",
    };
    let mut logprobs = row("logprobs", can.logprobs, confidence);
    if wanted && can.logprobs == Some(false) {
        logprobs.state = State::Missing;
    }
    vec![
        logprobs,
        row("usage", can.usage, "the cost of the team will be unknown"),
        row("seed", can.seed, "a second recording may differ where team.temperature is above 0; answers are stored"),
        row(
            "json_schema",
            can.json_schema,
            "nothing here depends on it unless team.constrained_output asks; answers are repaired and checked",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_the_fourth_column_of_the_last_line() {
        let said = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda1 100 40 60 40% /a b\n";
        assert_eq!(free_bytes(said), Some(60 * 1024));
        assert_eq!((free_bytes(""), free_bytes("x y\n1 2 3 many\n")), (None, None));
    }
}
