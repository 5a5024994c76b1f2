//! What verbs share: the client behind a plan, progress on stderr, Ctrl-C, exit codes of refusals.

use super::{Coded, Common, Progress, usage};
use crate::config::Plan;
use crate::corpus::CorpusError;
use crate::store::{AnswerStore, Manifest, hash_bytes, hash_file};
use crate::student;
use crate::team::client::{Endpoint, HttpClient, STOP};
use crate::team::{Client, Sampling};
use anyhow::{Context, Result};
use burn::tensor::Device;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// Which experiment, and what is different this time.
#[derive(Debug, clap::Args)]
pub struct Experiment {
    /// The experiment file
    config: PathBuf,
    /// Override a key of the config; may be given more than once
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Directory of the run; default: the config's
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Reads a plan with the overrides of the command line.
pub fn plan(experiment: &Experiment, common: &Common) -> Result<Plan> {
    let mut plan = Plan::read(&experiment.config, &experiment.set).map_err(|error| usage(error.to_string()))?;
    if let Some(out) = &experiment.out {
        plan = plan.into(out.clone());
    }
    if let Some(seed) = common.seed {
        plan = plan.seeded(seed);
    }
    if let Some(threads) = common.threads {
        // Fails only if a pool is already running, and then its size stands.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    }
    Ok(plan)
}

/// The client of a plan: the cassette's answers, then those that earlier calls left in the run
/// directory, then the server if there is one.
pub fn client(plan: &Plan, common: &Common) -> Result<Client> {
    let team = &plan.config().team;
    let mut store = AnswerStore::new();
    if let Some(cassette) = &team.cassette {
        store.load(cassette).context("reading team.cassette")?;
    }
    let Some(base_url) = &team.base_url else { return Ok(Client::replay(store)) };
    if common.offline && !is_local(base_url) {
        return Err(usage(format!("--offline forbids team.base_url = {base_url}: it is not on this machine")));
    }
    store.open_log(&plan.output_dir().join("answers.jsonl")).context("opening the answers of this run")?;
    let endpoint = Endpoint {
        base_url: base_url.clone(),
        api_key: std::env::var(&team.api_key_env).ok().filter(|key| !key.is_empty()),
        timeout: Duration::from_secs(team.timeout_s),
        max_attempts: team.max_attempts,
    };
    Ok(Client::live(store, HttpClient::new(endpoint), team.in_flight))
}

/// Whether an address stays on this machine.
pub fn is_local(base_url: &str) -> bool {
    ["//127.", "//localhost", "//[::1]"].iter().any(|host| base_url.contains(host))
}

/// How the team's answers are sampled.
pub fn sampling(plan: &Plan) -> Sampling {
    let team = &plan.config().team;
    Sampling {
        model: team.model.clone(),
        temperature: team.temperature,
        max_tokens: team.max_tokens,
        debate_max_tokens: team.debate_max_tokens,
        frequency_penalty: team.frequency_penalty,
        seed: plan.config().seed,
        logprobs: team.logprobs,
        max_rounds: team.max_rounds,
    }
}

/// First Ctrl-C: finish what is in flight, save, exit 130. Second: stop at once.
pub fn catch_interrupts() {
    // Fails only if a handler is already set, and then that one does the same.
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        eprintln!("stopping: finishing what is in flight; press Ctrl-C again to stop at once");
    });
}

/// The error of a run that was stopped by the user; everything finished so far is kept.
pub fn interrupted() -> anyhow::Error {
    Coded {
        code: 130,
        message: "interrupted; what was finished is saved, and the same command goes on from there".into(),
    }
    .into()
}

/// A pre-flight refusal: exit code 4.
pub fn refused(message: impl Into<String>) -> anyhow::Error {
    Coded { code: 4, message: message.into() }.into()
}

/// The device that `--device` names; says once why it is not the GPU that was looked for.
pub fn device(common: &Common) -> Result<Device> {
    static SAID: Once = Once::new();
    let opened = student::device::open(&common.device).map_err(|error| usage(error.to_string()))?;
    if let Some(note) = &opened.note {
        SAID.call_once(|| Reporter::new(common).say(note));
    }
    Ok(opened.device)
}

/// Whether the user asked to stop.
pub fn stopped() -> bool {
    STOP.load(Ordering::SeqCst)
}

/// The hash of a file, or of nothing.
pub fn hash_of(path: &Path) -> Result<String> {
    Ok(hash_file(path)?)
}

/// Progress on stderr: at most a line every two seconds for each kind of work, and its last line.
pub struct Reporter {
    style: Progress,
    last: Mutex<(String, Instant)>,
}

impl Reporter {
    /// A reporter in the style that the user asked for.
    pub fn new(common: &Common) -> Reporter {
        Reporter { style: common.progress, last: Mutex::new((String::new(), Instant::now())) }
    }

    /// `done` of `all` of something.
    pub fn step(&self, what: &str, done: usize, all: usize) {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let fresh = last.0 != what;
        if !fresh && done < all && last.1.elapsed() < Duration::from_secs(2) {
            return;
        }
        // Replayed answers take no time: one line at the end says it all.
        if fresh && done < all {
            *last = (what.to_string(), Instant::now());
            return;
        }
        *last = (what.to_string(), Instant::now());
        match self.style {
            Progress::None => {}
            Progress::Json => eprintln!("{}", serde_json::json!({"what": what, "done": done, "all": all})),
            Progress::Auto | Progress::Plain => eprintln!("  {what}: {done}/{all}"),
        }
    }

    /// One line of news.
    pub fn say(&self, line: &str) {
        match self.style {
            Progress::None => {}
            Progress::Json => eprintln!("{}", serde_json::json!({ "say": line })),
            Progress::Auto | Progress::Plain => eprintln!("{line}"),
        }
    }
}

/// The time in UTC as file names carry it: `2026-03-01T12-00-00`.
pub fn stamp() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days, proleptic Gregorian calendar.
    let shifted = days as i64 + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}-{:02}-{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

/// An unusable split is a refusal before the work; a broken file is an error.
pub fn corpus<T>(read: Result<T, CorpusError>) -> Result<T> {
    read.map_err(|error| match error {
        CorpusError::Store(error) => error.into(),
        refusal => refused(refusal.to_string()),
    })
}

/// A stage's manifest: the seed, the sections of the config that decide it, the documents, and the
/// files that earlier stages wrote.
pub fn stage(name: &str, plan: &Plan, sections: &[&str], earlier: &[&str]) -> Result<Manifest> {
    let config = serde_json::to_value(plan.config())?;
    let data = &plan.config().data;
    let mut parts = BTreeMap::from([("seed".to_string(), plan.config().seed.to_string())]);
    for section in sections {
        let mut written = config.get(*section).cloned().unwrap_or_default();
        // How answers are fetched does not decide what they are.
        if let Some(team) = written.as_object_mut().filter(|_| *section == "team") {
            for key in ["base_url", "api_key_env", "in_flight", "timeout_s", "max_attempts", "cassette"] {
                team.remove(key);
            }
        }
        parts.insert((*section).to_string(), hash_bytes(written.to_string().as_bytes()));
    }
    parts.insert("data.train_limit".into(), format!("{:?}", data.train_limit));
    for (split, file) in [("schema", &data.schema), ("train", &data.train), ("dev", &data.dev), ("test", &data.test)] {
        parts.insert(format!("data.{split}"), hash_of(file)?);
    }
    for file in earlier {
        parts.insert((*file).into(), hash_of(&plan.output_dir().join(file))?);
    }
    Ok(Manifest::new(name, parts))
}

/// The identity of the weights: the file's hash, or that of a directory's config and index.
pub fn weights_hash(weights: &Path) -> Result<String> {
    if weights.is_file() {
        return hash_of(weights);
    }
    let mut names: Vec<_> = std::fs::read_dir(weights)
        .with_context(|| format!("{}", weights.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    names.sort();
    let mut all = String::new();
    for path in names.iter().filter(|path| path.is_file()) {
        all += &hash_of(path)?;
    }
    Ok(hash_bytes(all.as_bytes()))
}
