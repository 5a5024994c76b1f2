//! From what is written to what will be done: overrides applied, every value checked, every file
//! that must be there seen.

use super::schema_file::read_schema;
use super::{Config, Cooperation, json_schema, servers};
use crate::ie::Schema;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a config cannot be followed: file, key, expected, found, the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// How answers may be held to their shape.
const CONSTRAINTS: [&str; 7] =
    ["none", "auto", "response_format", "structured_outputs", "guided_json", "json_schema", "grammar"];

/// Which documents become training data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All that pass.
    All,
    /// At most this many per type, the surest first.
    CasesPerType(usize),
}

/// A config that was checked: private but for reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    config: Config,
    schema: Schema,
    cooperation: Cooperation,
    mode: Mode,
    output_dir: PathBuf,
}

impl Plan {
    /// Reads a config file and applies `a.b=c` overrides.
    ///
    /// # Errors
    /// If a key is unknown (with the nearest known one), a value out of range or a file missing.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Plan, ConfigError> {
        let named = |what: String| ConfigError(format!("{}: {}", path.display(), what.trim_end()));
        let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        let mut table: toml::Table = toml::from_str(&text).map_err(|error| named(error.to_string()))?;
        for set in overrides {
            apply(&mut table, set)?;
        }
        let config: Config = if overrides.is_empty() { toml::from_str(&text) } else { table.clone().try_into() }
            .map_err(|error: toml::de::Error| named(did_you_mean(&error.to_string())))?;
        config.filter.check_written(&table).map_err(|error| named(error.0))?;
        let stem = path.file_stem().map_or_else(|| "run".into(), |stem| stem.to_string_lossy().into_owned());
        let output_dir = config.output_dir.clone().unwrap_or_else(|| Path::new("checkpoints").join(stem));
        Plan::check(config, output_dir).map_err(|error| named(error.0))
    }

    fn check(config: Config, output_dir: PathBuf) -> Result<Plan, ConfigError> {
        let Config { team, filter, lora, train, eval, data, .. } = &config;
        one_of("team.protocol", &team.protocol, &["aeio", "type_agents", "crossagentie", "cooperkgc"])?;
        train.check()?;
        filter.check()?;
        for system in &eval.systems {
            one_of("eval.systems", system, &["base", "aeio", "type_agents", "crossagentie", "cooperkgc"])?;
        }
        within("data.max_leaked_share", data.max_leaked_share, 0.0, 1.0)?;
        one_of("team.debate", &team.debate, &["none", "entities", "relations", "events", "both"])?;
        for task in &team.tasks {
            one_of("team.tasks", task, &["entities", "relations", "events"])?;
        }
        if team.tasks.is_empty() {
            return Err(ConfigError(
                "team.tasks is empty; expected entities, relations, events, or some of them".into(),
            ));
        }
        one_of("team.language", &team.language, &["auto", "en", "zh", "ko"])?;
        one_of("team.constrained_output", &team.constrained_output, &CONSTRAINTS)?;
        servers::check(team)?;
        if let Some(shown) = &team.demonstrations {
            shown.check(team)?;
        }
        within("team.repeats", team.repeats.into(), 1.0, 1000.0)?;
        within("team.temperature", team.temperature, 0.0, 2.0)?;
        within("team.frequency_penalty", team.frequency_penalty, -2.0, 2.0)?;
        lora.check()?;
        for (key, value) in [
            ("eval.max_new_tokens", eval.max_new_tokens),
            ("eval.lanes", eval.lanes),
            ("team.in_flight", team.in_flight),
            ("team.max_requests_per_minute", team.max_requests_per_minute.unwrap_or(1) as usize),
            ("team.max_tokens_per_minute", team.max_tokens_per_minute.unwrap_or(1) as usize),
            ("team.max_attempts", team.max_attempts as usize),
            ("team.max_tokens", team.max_tokens as usize),
            ("team.debate_max_tokens", team.debate_max_tokens as usize),
            ("data.train_limit", data.train_limit.unwrap_or(1)),
        ] {
            if value == 0 {
                return Err(ConfigError(format!("{key} is 0; expected 1 or more")));
            }
        }
        let mode = if filter.mode == "all" { Mode::All } else { Mode::CasesPerType(filter.cases_per_type) };
        for (key, file) in [("data.train", &data.train), ("data.dev", &data.dev), ("data.test", &data.test)] {
            if !file.is_file() {
                return Err(ConfigError(format!(
                    "{key}: {} is not a file; relative paths start at the working directory",
                    file.display()
                )));
            }
        }
        let schema = read_schema(&data.schema).map_err(|error| ConfigError(format!("data.schema: {error}")))?;
        let cooperation = Cooperation::of(&team.cooperkgc.clone().unwrap_or_default(), &only(&schema, &team.tasks))?;
        Ok(Plan { config, schema, cooperation, mode, output_dir })
    }

    /// As written, every value in range.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What is asked.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The team of the protocol `cooperkgc`.
    pub fn cooperation(&self) -> &Cooperation {
        &self.cooperation
    }

    /// What the team is asked: of the schema, the tasks that it reads.
    pub fn team_schema(&self) -> Schema {
        only(&self.schema, &self.config.team.tasks)
    }

    /// Which documents become training data.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Where the run is written.
    pub fn output_dir(&self) -> &Path {
        &self.output_dir
    }

    /// The same plan, written elsewhere.
    pub fn into(mut self, output_dir: PathBuf) -> Plan {
        self.output_dir = output_dir;
        self
    }

    /// The same plan with another seed.
    pub fn seeded(mut self, seed: u64) -> Plan {
        self.config.seed = seed;
        self
    }
}

pub(super) fn one_of(key: &str, found: &str, known: &[&str]) -> Result<(), ConfigError> {
    if known.contains(&found) {
        return Ok(());
    }
    let hint = nearest(found, known.iter().copied()).map(|near| format!(" — did you mean {near}?")).unwrap_or_default();
    Err(ConfigError(format!("{key} is \"{found}\"; expected {}{hint}", known.join(", "))))
}

pub(super) fn within(key: &str, found: f64, low: f64, high: f64) -> Result<(), ConfigError> {
    if (low..=high).contains(&found) {
        return Ok(());
    }
    Err(ConfigError(format!("{key} is {found}; expected {low} to {high}")))
}

/// `a.b=c`: `c` is read as TOML, and as a plain string if it is none.
fn apply(table: &mut toml::Table, set: &str) -> Result<(), ConfigError> {
    let shape = || ConfigError(format!("--set {set}: expected key=value, such as train.num_epochs=2"));
    let (key, value) = set.split_once('=').ok_or_else(shape)?;
    let value = toml::from_str::<toml::Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut read| read.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.to_string()));
    let mut parts: Vec<&str> = key.trim().split('.').collect();
    let last = parts.pop().filter(|last| !last.is_empty()).ok_or_else(shape)?;
    let mut at = table;
    for part in parts {
        let next = at.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = next
            .as_table_mut()
            .ok_or_else(|| ConfigError(format!("--set {set}: \"{part}\" is a value, not a section")))?;
    }
    at.insert(last.to_string(), value);
    Ok(())
}

/// Gives serde's "unknown field `x`, expected one of `a`, `b`" its code and the nearest known key:
/// of the same section, else of another one.
fn did_you_mean(error: &str) -> String {
    let Some((_, after)) = error.split_once("unknown field `") else { return error.to_string() };
    let Some((found, known)) = after.split_once('`') else { return error.to_string() };
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let error = error.trim_end();
    if let Some(near) = nearest(found, known.iter().copied()) {
        return format!("{UNKNOWN_KEY}: {error}\ndid you mean `{near}`?");
    }
    let keys = json_schema::keys();
    match keys.iter().find(|key| key.rsplit('.').next() == Some(found)) {
        Some(key) => format!("{UNKNOWN_KEY}: {error}\ndid you mean `{key}`? it stands in another section"),
        None => format!("{UNKNOWN_KEY}: {error}\n`understudy schema` prints every key"),
    }
}

/// The code of a key that nobody knows; its exit code is 2, as that of every fault of a config.
const UNKNOWN_KEY: &str = "E001";

pub(super) fn nearest<'a>(found: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::jaro_winkler(found, known), known))
        .filter(|(close, _)| *close > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, near)| near)
}

/// A schema without the tasks that are not named.
fn only(schema: &Schema, tasks: &[String]) -> Schema {
    let reads = |task: &str| tasks.iter().any(|named| named == task);
    let mut schema = schema.clone();
    if !reads("entities") {
        schema.entities.clear();
    }
    if !reads("relations") {
        schema.relations.clear();
    }
    if !reads("events") {
        schema.events.clear();
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.toml");
        std::fs::write(&path, "title = \"x\"\nbase_model = \"m\"\n[data]\nschema=\"s\"\ntrain=\"t\"\ndev=\"d\"\ntest=\"e\"\n[team]\nprotocol=\"aeio\"\nmodel=\"m\"\n[train]\nlerning_rate = 1e-4\n").unwrap();
        let said = Plan::read(&path, &[]).unwrap_err().to_string();
        assert!(
            said.contains("unknown field `lerning_rate`") && said.ends_with("did you mean `learning_rate`?"),
            "{said}"
        );
        assert!(said.contains("12"), "the line is named: {said}");
    }

    #[test]
    fn a_key_of_another_section_is_named_with_its_section() {
        let said = did_you_mean("unknown field `num_epochs`, expected one of `r`, `alpha`, `dropout`\n");
        assert!(said.starts_with("E001: unknown field `num_epochs`"), "{said}");
        assert!(said.ends_with("did you mean `train.num_epochs`? it stands in another section"), "{said}");
        let said = did_you_mean("unknown field `zzz`, expected `r`");
        assert!(said.ends_with("`understudy schema` prints every key"), "{said}");
    }

    #[test]
    fn overrides_reach_into_sections_and_read_toml_values() {
        let mut table: toml::Table = toml::from_str("[train]\nnum_epochs = 3\n").unwrap();
        for set in ["train.num_epochs=2", "team.base_url=http://127.0.0.1:8071/v1", "eval.systems=[\"base\"]"] {
            apply(&mut table, set).unwrap();
        }
        assert_eq!(table["train"]["num_epochs"].as_integer(), Some(2));
        assert_eq!(table["team"]["base_url"].as_str(), Some("http://127.0.0.1:8071/v1"));
        assert_eq!(table["eval"]["systems"].as_array().map(Vec::len), Some(1));
        assert!(apply(&mut table, "nonsense").unwrap_err().to_string().contains("expected key=value"));
        assert!(
            apply(&mut table, "train.num_epochs.x=1").unwrap_err().to_string().contains("is a value, not a section")
        );
    }

    #[test]
    fn a_wrong_choice_names_the_right_ones() {
        let said = one_of("team.protocol", "crossagent", &["aeio", "crossagentie"]).unwrap_err().to_string();
        assert_eq!(said, "team.protocol is \"crossagent\"; expected aeio, crossagentie — did you mean crossagentie?");
    }
}
