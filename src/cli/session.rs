//! What verbs share: the plan, progress on stderr, Ctrl-C, exit codes of refusals.

use super::{Coded, Common, Progress, usage};
use crate::config::Plan;
use crate::corpus::CorpusError;
use crate::store::{Manifest, hash_bytes, hash_file};
use crate::student::{self, ReaderOptions, Settings};
use crate::team::client::{STOP, Spent};
use crate::team::{Debated, Options, Sampling};
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

/// How a plan has its student read.
pub fn reading(plan: &Plan) -> ReaderOptions {
    let eval = &plan.config().eval;
    ReaderOptions {
        max_new_tokens: eval.max_new_tokens,
        constrained: eval.constrained,
        engine: Settings { lanes: eval.lanes, ..Settings::default() },
    }
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

/// The plan of one of the runs that are averaged: repeat R samples with the seed plus R, and
/// repeat 0 is the plan itself.
pub fn repeat(plan: Plan, repeat: Option<u32>) -> Result<Plan> {
    let (repeat, repeats) = (repeat.unwrap_or(0), plan.config().team.repeats);
    if repeat >= repeats {
        return Err(usage(format!(
            "--repeat {repeat}: team.repeats is {repeats}, so there are repeats 0 to {}; --set team.repeats={} allows it",
            repeats - 1,
            u64::from(repeat) + 1
        )));
    }
    let seed = plan.config().seed.wrapping_add(repeat.into());
    Ok(if repeat == 0 { plan } else { plan.seeded(seed) })
}

/// How the team works.
pub fn working(plan: &Plan) -> Options {
    let team = &plan.config().team;
    let debated = |topic: &str| team.debate == "both" || team.debate == topic;
    Options {
        debated: Debated { entities: debated("entities"), relations: debated("relations"), events: debated("events") },
        feedback_rounds: team.feedback_rounds,
        reask: team.reask,
        cooperation: plan.cooperation().clone(),
        demonstrator: None,
    }
}

/// Whether servers are to hold answers to their schema.
pub fn constrained(plan: &Plan) -> bool {
    plan.config().team.constrained_output != "none"
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
    last: Mutex<Last>,
}

/// The work that was told of last.
struct Last {
    what: String,
    began: Instant,
    told: Instant,
}

impl Reporter {
    /// A reporter in the style that the user asked for.
    pub fn new(common: &Common) -> Reporter {
        let now = Instant::now();
        let last = Last { what: String::new(), began: now, told: now };
        Reporter { style: common.progress, last: Mutex::new(last) }
    }

    /// `done` of `all` of something.
    pub fn step(&self, what: &str, done: usize, all: usize) {
        self.live(what, done, all, &Spent::default);
    }

    /// `done` of `all` of something that servers are asked for: with what was spent so far, and how
    /// long the rest will take at this speed.
    pub fn live(&self, what: &str, done: usize, all: usize, spent: &dyn Fn() -> Spent) {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = Instant::now();
        let fresh = last.what != what;
        if fresh {
            *last = Last { what: what.to_string(), began: now, told: now };
        }
        // Replayed answers take no time: one line at the end says it all.
        if done < all && (fresh || now - last.told < Duration::from_secs(2)) {
            return;
        }
        last.told = now;
        // Unknown before the first is done.
        let left = if done == 0 { 0.0 } else { (now - last.began).as_secs_f64() * (all - done) as f64 / done as f64 };
        let spent = spent();
        match self.style {
            Progress::None => {}
            Progress::Json if spent.calls == 0 => {
                eprintln!("{}", serde_json::json!({"what": what, "done": done, "all": all}));
            }
            Progress::Json => eprintln!(
                "{}",
                serde_json::json!({
                    "what": what, "done": done, "all": all, "calls": spent.calls, "prompt_tokens": spent.prompt_tokens,
                    "completion_tokens": spent.completion_tokens, "cost": spent.cost, "seconds_left": left.round(),
                })
            ),
            Progress::Auto | Progress::Plain => eprintln!("  {what}: {done}/{all}{}", told(&spent, left)),
        }
    }

    /// How many of something are done, where nobody knows how many there are; every two seconds.
    pub fn count(&self, what: &str, done: usize) {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = Instant::now();
        if last.what != what {
            *last = Last { what: what.to_string(), began: now, told: now };
        }
        if now - last.told < Duration::from_secs(2) {
            return;
        }
        last.told = now;
        match self.style {
            Progress::None => {}
            Progress::Json => eprintln!("{}", serde_json::json!({"what": what, "done": done})),
            Progress::Auto | Progress::Plain => eprintln!("  {what}: {done}"),
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

/// Calls, tokens, money and the time left, as the end of a line of progress.
fn told(spent: &Spent, left: f64) -> String {
    if spent.calls == 0 {
        return String::new();
    }
    let about = if spent.estimated { "about " } else { "" };
    let mut text = format!(", {} calls, {about}{} tokens", spent.calls, spent.prompt_tokens + spent.completion_tokens);
    if let Some(cost) = spent.cost {
        text += &format!(", cost {about}{cost:.4}");
    }
    text + &match left.round() as u64 {
        0 => String::new(),
        seconds @ 1..120 => format!(", {seconds} s left"),
        seconds => format!(", {} min left", seconds.div_ceil(60)),
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

/// Keys of `[team]` that say how answers are fetched, and how many runs there are beside this one.
const FETCHING: [&str; 12] = [
    "repeats",
    "base_url",
    "base_urls",
    "api_key_env",
    "api_key_file",
    "in_flight",
    "max_requests_per_minute",
    "max_tokens_per_minute",
    "timeout_s",
    "max_attempts",
    "price",
    "cassette",
];

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
            for key in FETCHING {
                team.remove(key);
            }
            // A run without is the run that it was before there were any.
            for key in ["demonstrations", "cooperkgc"] {
                if team.get(key).is_some_and(serde_json::Value::is_null) {
                    team.remove(key);
                }
            }
        }
        parts.insert((*section).to_string(), hash_bytes(written.to_string().as_bytes()));
    }
    if let Some(shown) = plan.config().team.demonstrations.as_ref().filter(|_| sections.contains(&"team")) {
        parts.insert("team.demonstrations.pool".into(), hash_of(&shown.pool)?);
    }
    for expert in plan.config().team.cooperkgc.iter().flat_map(|section| &section.experts) {
        if let Some(schema) = expert.schema.as_ref().filter(|_| sections.contains(&"team")) {
            parts.insert(format!("team.cooperkgc.{}", expert.name), hash_of(schema)?);
        }
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
