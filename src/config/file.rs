//! The experiment file, section by section: each key with its unit, its default and its price.

use super::LoraSection;
use super::PricesSection;
use super::cooperkgc::CooperkgcSection;
use super::demonstrations::DemonstrationsSection;
use super::filter::FilterSection;
use super::training::TrainSection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One experiment. Relative paths start at the working directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the experiment, for the report.
    pub title: String,
    /// Decides every random choice. Default 42.
    #[serde(default = "seed")]
    pub seed: u64,
    /// Where the run is written. Default `checkpoints/<name of the config file>`.
    #[serde(default)]
    pub output_dir: Option<PathBuf>,
    /// Documents and schema.
    pub data: DataSection,
    /// The teacher team.
    pub team: TeamSection,
    /// What is kept of its answers.
    #[serde(default)]
    pub filter: FilterSection,
    /// The small model: a name that `model fetch` knows, a Hugging Face directory or a GGUF file.
    pub base_model: String,
    /// Its adapters.
    #[serde(default)]
    pub lora: LoraSection,
    /// How they are trained.
    #[serde(default)]
    pub train: TrainSection,
    /// How systems are measured.
    #[serde(default)]
    pub eval: EvalSection,
    /// What this machine costs.
    #[serde(default)]
    pub prices: PricesSection,
}

/// Documents and schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataSection {
    /// What is asked, TOML or JSON.
    pub schema: PathBuf,
    /// Documents for the team; their gold, where there is some, is never trained on.
    pub train: PathBuf,
    /// Only the first so many of them; each costs the team its calls. Default: all.
    #[serde(default)]
    pub train_limit: Option<usize>,
    /// Documents with gold that choose the best checkpoint.
    pub dev: PathBuf,
    /// Documents with gold for the verdict; nothing is chosen on them.
    pub test: PathBuf,
    /// Share of the dev or test texts that may stand in the training split too, before a run is
    /// refused: published sets are not always clean. In 0..=1. Default 0.
    #[serde(default)]
    pub max_leaked_share: f64,
    /// Share of the dev or test documents whose typed names (two or more) may be just those that one
    /// training document is taught with, before `train` is refused. In 0..=1. Default 1: told, never refused.
    #[serde(default = "whole")]
    pub max_shared_tuples: f64,
    /// Licence of the training documents, as the README of the corpus names it. Default: unknown.
    #[serde(default)]
    pub license: Option<String>,
}

/// The teacher team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TeamSection {
    /// `aeio`, `type_agents`, `crossagentie` or `cooperkgc`.
    pub protocol: String,
    /// The model's name as the server knows it; part of every answer's key.
    pub model: String,
    /// Recorded answers, read before any server is asked.
    #[serde(default)]
    pub cassette: Option<PathBuf>,
    /// An OpenAI-compatible server, such as `http://127.0.0.1:8071/v1`; asked for what the cassette
    /// does not hold. Default: none, replay only.
    #[serde(default)]
    pub base_url: Option<String>,
    /// Several servers of the same model instead of one: each request goes to the one with the
    /// fewest in flight, and a server that fails is set aside for a while. Default: none.
    #[serde(default)]
    pub base_urls: Vec<String>,
    /// A model that this program runs itself in the place of a server: a name that `model fetch`
    /// knows, a Hugging Face directory or a GGUF file. It answers greedily. Default: none.
    #[serde(default)]
    pub local: Option<String>,
    /// Environment variable that holds the API key. Default `OPENAI_API_KEY`.
    #[serde(default = "api_key_env")]
    pub api_key_env: String,
    /// File whose only line is the API key; counts before the environment. Default: none.
    #[serde(default)]
    pub api_key_file: Option<PathBuf>,
    /// 0 is greedy. Default 0.
    #[serde(default)]
    pub temperature: f64,
    /// Most tokens of an answer. Default 200.
    #[serde(default = "max_tokens")]
    pub max_tokens: u32,
    /// Most tokens of a turn in a debate; its choice comes first, so a cut reason still counts. Default 64.
    #[serde(default = "debate_max_tokens")]
    pub debate_max_tokens: u32,
    /// As OpenAI defines it. Default 0.
    #[serde(default)]
    pub frequency_penalty: f64,
    /// Whether to ask for token log-probabilities. Default true.
    #[serde(default = "yes")]
    pub logprobs: bool,
    /// Most rounds of a debate; each costs one call per claimant. Default 2.
    #[serde(default = "max_rounds")]
    pub max_rounds: u32,
    /// What the team reads of the schema: `entities`, `relations`, `events`. Default all.
    #[serde(default = "all_tasks")]
    pub tasks: Vec<String>,
    /// Language of the team's prompts: `en`, `zh`, `ko`, or `auto` for that of the schema's
    /// definitions. Default `auto`.
    #[serde(default = "auto")]
    pub language: String,
    /// Which conflicts are debated in `crossagentie`: `none`, `entities`, `relations`, `events` or
    /// `both` (all of them); the others stand as claimed. Default `both`.
    #[serde(default = "both")]
    pub debate: String,
    /// Most rounds in which `crossagentie` feeds confirmed relations and events back to the entity
    /// agents and asks again; it ends earlier where the tasks no longer come closer. Default 1.
    #[serde(default = "one_round")]
    pub feedback_rounds: u32,
    /// Whether an answer that cannot be read is asked for once more, with the error named. Default true.
    #[serde(default = "yes")]
    pub reask: bool,
    /// Runs that are averaged: repeat R of a verb that takes `--repeat` sends the seed plus R. Default 1.
    #[serde(default = "one_repeat")]
    pub repeats: u32,
    /// Who sits in the team of `cooperkgc` and how they work together. Default: one expert a task.
    #[serde(default)]
    pub cooperkgc: Option<CooperkgcSection>,
    /// How the server is held to the shape of an answer: `none`, `auto` (the first way that it is
    /// seen to keep), or a way by its parameter: `response_format`, `structured_outputs`,
    /// `guided_json`, `json_schema` or `grammar`. Part of every answer's key. Default `none`.
    #[serde(default = "unconstrained")]
    pub constrained_output: String,
    /// Requests at once, for each server. Default 1.
    #[serde(default = "one")]
    pub in_flight: usize,
    /// Most requests a minute of this process, all servers together. Default: no limit.
    #[serde(default)]
    pub max_requests_per_minute: Option<u32>,
    /// Most tokens a minute of this process, read and written. Default: no limit.
    #[serde(default)]
    pub max_tokens_per_minute: Option<u32>,
    /// Seconds until a request is given up. Default 120.
    #[serde(default = "timeout_s")]
    pub timeout_s: u64,
    /// Attempts per request, the first included, all servers together. Default 5.
    #[serde(default = "max_attempts")]
    pub max_attempts: u32,
    /// What the provider takes, in any currency. Default: unknown, and `--max-cost` is refused.
    #[serde(default)]
    pub price: Option<PriceSection>,
    /// Solved examples in front of each question, those nearest to its text. Default: none.
    #[serde(default)]
    pub demonstrations: Option<DemonstrationsSection>,
}

impl TeamSection {
    /// The servers, in order; none for replay alone.
    pub fn servers(&self) -> Vec<&str> {
        self.base_url.iter().chain(&self.base_urls).map(String::as_str).collect()
    }
}

/// What a million tokens cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceSection {
    /// A million tokens read.
    pub prompt: f64,
    /// A million tokens written.
    pub completion: f64,
}

/// How systems are measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvalSection {
    /// Systems beside the student: `base` (the untrained student) and protocols. Default `base`, `aeio`, `type_agents`
    /// and `crossagentie`.
    pub systems: Vec<String>,
    /// Most tokens of a student's answer. Default 128.
    pub max_new_tokens: usize,
    /// Whether a student can only write labels of the schema and words of the document, as compact
    /// JSON that is always closed. Default true.
    pub constrained: bool,
    /// Questions that a student answers at once; memory for their keys and values grows linearly,
    /// about 46 KB a token of a 135M student. Default 64.
    pub lanes: usize,
    /// Bootstrap replicates. Default 2000.
    pub replicates: usize,
    /// Failed documents of any system above which the run ends with exit code 3. Default 5.
    pub max_failures: usize,
}

impl Default for EvalSection {
    fn default() -> EvalSection {
        let systems = ["base", "aeio", "type_agents", "crossagentie"].map(str::to_string).to_vec();
        EvalSection { systems, max_new_tokens: 128, constrained: true, lanes: 64, replicates: 2000, max_failures: 5 }
    }
}

fn whole() -> f64 {
    1.0
}
fn seed() -> u64 {
    42
}
fn api_key_env() -> String {
    "OPENAI_API_KEY".into()
}
fn max_tokens() -> u32 {
    200
}
fn debate_max_tokens() -> u32 {
    64
}
fn yes() -> bool {
    true
}
fn all_tasks() -> Vec<String> {
    ["entities", "relations", "events"].map(String::from).to_vec()
}

fn auto() -> String {
    "auto".into()
}

fn both() -> String {
    "both".into()
}

fn one_round() -> u32 {
    1
}

fn one_repeat() -> u32 {
    1
}

fn max_rounds() -> u32 {
    2
}
fn unconstrained() -> String {
    "none".into()
}
fn one() -> usize {
    1
}
fn timeout_s() -> u64 {
    120
}
fn max_attempts() -> u32 {
    5
}
