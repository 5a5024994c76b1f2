//! `[team.demonstrations]`: which solved examples stand in front of a question, and which encoder
//! says how near they are. No encoder is taken unless it is named.

use super::TeamSection;
use super::plan::ConfigError;
use super::servers::address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The encoder that `understudy model fetch` knows by this name.
pub const ENCODER_IN_A_PACKAGE: &str = "minilm";
/// The encoder of a server's `/v1/embeddings`.
pub const ENCODER_OF_A_SERVER: &str = "endpoint";

/// Solved examples in front of each question: N-way K-shot by the distance of sentence embeddings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DemonstrationsSection {
    /// Documents with gold, JSON Lines. The asked text itself is never taken from it.
    pub pool: PathBuf,
    /// Documents for each type; each makes every prompt longer by itself and its gold. 0 shows none.
    pub shots: usize,
    /// Types that get any, those with the nearest documents first. Default: all.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub ways: Option<usize>,
    /// What says how near a text is: `minilm` (all-MiniLM-L6-v2, which `understudy model fetch minilm`
    /// puts into the cache), the directory of a sentence-transformers model, or `endpoint` (a
    /// server's `/v1/embeddings`). Must be given where there are shots.
    #[serde(default)]
    pub encoder: Option<String>,
    /// The encoder's name as the server knows it; for `endpoint` alone.
    #[serde(default)]
    pub model: Option<String>,
    /// The server of `endpoint`, where it is not the team's first; the team's key is sent to it.
    #[serde(default)]
    pub base_url: Option<String>,
}

impl DemonstrationsSection {
    /// The server that is asked for vectors.
    pub fn server<'a>(&'a self, team: &'a TeamSection) -> Option<&'a str> {
        self.base_url.as_deref().or_else(|| team.servers().first().copied())
    }

    /// Refuses shots without an encoder, and an encoder without what it needs.
    pub(super) fn check(&self, team: &TeamSection) -> Result<(), ConfigError> {
        let fail = |what: String| Err(ConfigError(what));
        if self.ways == Some(0) {
            return fail("team.demonstrations.ways is 0; expected 1 or more (shots = 0 shows none)".into());
        }
        if !self.pool.is_file() {
            return fail(format!(
                "team.demonstrations.pool: {} is not a file; relative paths start at the working directory",
                self.pool.display()
            ));
        }
        let Some(encoder) = &self.encoder else {
            return match self.shots {
                0 => Ok(()),
                shots => fail(format!(
                    "team.demonstrations.encoder is missing, with shots = {shots}; expected \
                     \"{ENCODER_IN_A_PACKAGE}\", \"{ENCODER_OF_A_SERVER}\" (with model = \"NAME\") or the directory of a \
                     sentence-transformers model: none is taken by itself"
                )),
            };
        };
        let of_a_server = encoder == ENCODER_OF_A_SERVER;
        if encoder.is_empty() {
            return fail("team.demonstrations.encoder is \"\"; expected minilm, endpoint or a directory".into());
        }
        for (key, given) in [("model", self.model.is_some()), ("base_url", self.base_url.is_some())] {
            if given && !of_a_server {
                return fail(format!(
                    "team.demonstrations.{key} is given, but encoder = \"{encoder}\" asks no server; drop it, or write \
                     encoder = \"{ENCODER_OF_A_SERVER}\""
                ));
            }
        }
        if let Some(url) = &self.base_url {
            address("team.demonstrations.base_url", url)?;
        }
        if of_a_server && self.model.as_deref().is_none_or(str::is_empty) {
            return fail("team.demonstrations.model is missing; expected the encoder's name at the server".into());
        }
        if of_a_server && self.server(team).is_none() {
            return fail(
                "team.demonstrations.encoder is \"endpoint\", but there is no server; give team.demonstrations.base_url \
                 or team.base_url"
                    .into(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Plan;

    /// What is said of a config with these lines below `[team.demonstrations]`.
    fn said(lines: &str) -> Result<Plan, String> {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name).display().to_string();
        std::fs::write(at("s.toml"), "[[entities]]\nlabel = \"PER\"\n").unwrap();
        std::fs::write(at("t.jsonl"), "").unwrap();
        let data = format!("schema = '{0}'\ntrain = '{1}'\ndev = '{1}'\ntest = '{1}'", at("s.toml"), at("t.jsonl"));
        let team = "protocol = 'aeio'\nmodel = 'm'\ncassette = 'c'";
        let lines = lines.replace("POOL", &at("t.jsonl"));
        let text =
            format!("title = 'x'\nbase_model = 'm'\n[data]\n{data}\n[team]\n{team}\n[team.demonstrations]\n{lines}\n");
        std::fs::write(at("a.toml"), text).unwrap();
        Plan::read(&home.path().join("a.toml"), &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn no_encoder_is_taken_unless_it_is_named() {
        let error = said("pool = 'POOL'\nshots = 1").unwrap_err();
        assert!(error.contains("team.demonstrations.encoder is missing, with shots = 1"), "{error}");
        said("pool = 'POOL'\nshots = 0").unwrap();
        said("pool = 'POOL'\nshots = 2\nways = 3\nencoder = 'minilm'").unwrap();
        let plan =
            said("pool = 'POOL'\nshots = 2\nencoder = 'endpoint'\nmodel = 'b'\nbase_url = 'http://a/v1'").unwrap();
        let team = &plan.config().team;
        assert_eq!(team.demonstrations.as_ref().unwrap().server(team), Some("http://a/v1"));
    }

    #[test]
    fn an_encoder_has_what_it_needs_and_nothing_that_it_ignores() {
        for (lines, says) in [
            ("shots = 1\nencoder = 'minilm'", "missing field `pool`"),
            ("pool = 'nowhere'\nshots = 1\nencoder = 'minilm'", "nowhere is not a file"),
            ("pool = 'POOL'\nshots = 1\nways = 0\nencoder = 'minilm'", "ways is 0; expected 1 or more"),
            ("pool = 'POOL'\nshots = 1\nencoder = ''", "encoder is \"\""),
            ("pool = 'POOL'\nshots = 1\nencoder = 'minilm'\nmodel = 'b'", "model is given, but encoder = \"minilm\""),
            ("pool = 'POOL'\nshots = 1\nencoder = 'x/'\nbase_url = 'http://a/v1'", "base_url is given, but"),
            ("pool = 'POOL'\nshots = 1\nencoder = 'endpoint'", "team.demonstrations.model is missing"),
            ("pool = 'POOL'\nshots = 1\nencoder = 'endpoint'\nmodel = 'b'", "there is no server"),
            (
                "pool = 'POOL'\nshots = 1\nencoder = 'endpoint'\nmodel = 'b'\nbase_url = 'a'",
                "expected an address such as",
            ),
            ("pool = 'POOL'\nshot = 1", "unknown field `shot`"),
        ] {
            let error = said(lines).unwrap_err();
            assert!(error.contains(says), "expected \"{says}\" in: {error}");
        }
    }
}
