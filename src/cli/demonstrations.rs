//! `[team.demonstrations]` made ready: the encoder that the config names, opened or refused, and the
//! pool encoded by it. Nothing here picks another encoder than the named one.

use super::session::{self, Reporter, refused};
use super::{Common, model, servers, usage};
use crate::config::{DemonstrationsSection, ENCODER_IN_A_PACKAGE, ENCODER_OF_A_SERVER, Plan};
use crate::embed::{Demonstrations, EmbedError, Encoder, Kind, MiniLm, Shots};
use crate::ie::Document;
use crate::team::client::{EmbeddingClient, Endpoint};
use crate::team::{Demonstrator, Protocol};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The demonstrations of a plan, ready to be asked for the nearest; `None` where it shows none.
///
/// # Errors
/// Before anything is encoded, with exit code 4: an encoder that is not there (E101), or that cannot
/// be used (E102); a pool that cannot serve (E311).
pub fn open(plan: &Plan, common: &Common) -> Result<Option<Demonstrations>> {
    open_in(plan, common, model::cache_folder()?.join("embeddings"))
}

/// Who shows solved examples to a team of this protocol; the texts of `documents` are encoded ahead.
///
/// # Errors
/// As [`open`].
pub fn shown(
    plan: &Plan,
    protocol: Protocol,
    documents: &[Document],
    common: &Common,
) -> Result<Option<Arc<dyn Demonstrator>>> {
    // The other protocols' prompts have no place for them.
    if protocol != Protocol::Cooperkgc {
        return Ok(None);
    }
    let Some(opened) = open(plan, common)? else { return Ok(None) };
    opened.prepare(documents).map_err(|error| unusable(&error))?;
    Ok(Some(Arc::new(opened)))
}

fn open_in(plan: &Plan, common: &Common, cache: PathBuf) -> Result<Option<Demonstrations>> {
    let Some(section) = plan.config().team.demonstrations.as_ref().filter(|section| section.shots > 0) else {
        return Ok(None);
    };
    let reporter = Reporter::new(common);
    let encoder = encoder(plan, section, common, plan.config().team.max_attempts)?;
    let shots = Shots { shots: section.shots, ways: section.ways };
    let told = |done: usize, all: usize| {
        reporter.step("pool of demonstrations", done, all);
        !session::stopped()
    };
    let opened = Demonstrations::open(&section.pool, plan.schema(), encoder, shots, &cache, &told).map_err(
        |error| match error {
            EmbedError::Stopped => session::interrupted(),
            _ if session::stopped() => session::interrupted(),
            EmbedError::Pool { .. } => refused(format!("E311: team.demonstrations.pool: {error}")),
            EmbedError::Encoder(_) | EmbedError::File { .. } => unusable(&error),
            EmbedError::Store(error) => error.into(),
        },
    )?;
    let schema = plan.schema();
    let labels: [(Kind, Vec<&str>); 3] = [
        (Kind::Entity, schema.entities.iter().map(|of| of.label.as_str()).collect()),
        (Kind::Relation, schema.relations.iter().map(|of| of.label.as_str()).collect()),
        (Kind::Event, schema.events.iter().map(|of| of.label.as_str()).collect()),
    ];
    let without: Vec<&str> = labels.iter().flat_map(|(kind, labels)| opened.without(*kind, labels)).collect();
    if !without.is_empty() {
        reporter.say(&format!("no demonstration in the pool for {}", without.join(", ")));
    }
    Ok(Some(opened))
}

/// The encoder that a plan names; a server is asked so often for each request.
///
/// # Errors
/// If it is not in the cache (E101), cannot be used (E102), or `--offline` forbids it.
pub fn encoder(
    plan: &Plan,
    section: &DemonstrationsSection,
    common: &Common,
    attempts: u32,
) -> Result<Box<dyn Encoder>> {
    match section.encoder.as_deref().unwrap_or_default() {
        ENCODER_OF_A_SERVER => Ok(Box::new(of_a_server(plan, section, common, attempts)?)),
        ENCODER_IN_A_PACKAGE => local(&model::encoder_path()?),
        folder => local(&PathBuf::from(folder)),
    }
}

fn local(folder: &Path) -> Result<Box<dyn Encoder>> {
    Ok(Box::new(MiniLm::open(folder).map_err(|error| unusable(&error))?))
}

fn of_a_server(
    plan: &Plan,
    section: &DemonstrationsSection,
    common: &Common,
    attempts: u32,
) -> Result<EmbeddingClient> {
    let team = &plan.config().team;
    let (Some(url), Some(model)) = (section.server(team), section.model.as_deref()) else {
        return Err(usage("team.demonstrations.encoder is \"endpoint\", without a server or a model"));
    };
    if common.offline && !servers::is_local(url) {
        return Err(usage(format!("--offline forbids the encoder at {url}: it is not on this machine")));
    }
    let (api_key, timeout) = (servers::api_key(plan)?, Duration::from_secs(team.timeout_s));
    let endpoint = Endpoint { base_url: url.into(), api_key, timeout, form: None };
    Ok(EmbeddingClient::new(endpoint, model, attempts))
}

fn unusable(error: &EmbedError) -> anyhow::Error {
    refused(format!(
        "E102: team.demonstrations.encoder: {error} — correct it, or use encoder = \"minilm\" after \
         `understudy model fetch minilm`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Coded};
    use clap::Parser;

    const POOL: &str = r#"{"id":"1","text":"Ann works at Acme.","gold":{"entities":[{"type":"PER","text":"Ann","start":0,"end":3}]}}
{"id":"2","text":"Lee lives in Bern.","gold":{"entities":[{"type":"PER","text":"Lee","start":0,"end":3},{"type":"LOC","text":"Bern","start":13,"end":17}]}}
{"id":"3","text":"Nobody lives here.","gold":{"entities":[]}}
"#;

    /// Opens the demonstrations of a config with this pool and these lines below `[team.demonstrations]`.
    fn opened(pool: &str, lines: &str) -> Result<Option<Demonstrations>> {
        let home = tempfile::tempdir()?;
        let at = |name: &str| home.path().join(name).display().to_string();
        std::fs::write(at("s.toml"), "[[entities]]\nlabel = \"PER\"\n[[entities]]\nlabel = \"LOC\"\n")?;
        std::fs::write(at("t.jsonl"), pool)?;
        let (schema, texts) = (at("s.toml"), at("t.jsonl"));
        std::fs::write(
            at("a.toml"),
            format!(
                "title = 'x'\nbase_model = 'm'\n[data]\nschema = '{schema}'\ntrain = '{texts}'\ndev = '{texts}'\n\
                 test = '{texts}'\n[team]\nprotocol = 'aeio'\nmodel = 'm'\ncassette = 'c'\nmax_attempts = 1\n[team.demonstrations]\n\
                 pool = '{texts}'\n{}\n",
                lines.replace("GOLDEN", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
            ),
        )?;
        let plan = Plan::read(&home.path().join("a.toml"), &[])?;
        let common = Cli::parse_from(["understudy", "schema", "--offline", "--progress", "none"]).common;
        open_in(&plan, &common, home.path().join("cache"))
    }

    /// The message and exit code of a refusal.
    fn refusal(pool: &str, lines: &str) -> (u8, String) {
        let error = opened(pool, lines).err().expect("it must be refused");
        (error.downcast_ref::<Coded>().map_or(1, |coded| coded.code), error.to_string())
    }

    #[test]
    fn a_config_gives_demonstrations_ready_to_be_asked() {
        let shown = opened(POOL, "shots = 1\nencoder = 'GOLDEN/minilm'").unwrap().unwrap();
        assert_eq!(shown.sizes(), (3, 2));
        let asked = Document::new("q", "Lee lives in Rome.");
        let near = |labels: &[&str]| -> Vec<String> {
            shown.nearest(&asked, Kind::Entity, labels).unwrap().iter().map(|document| document.id.clone()).collect()
        };
        assert_eq!(near(&["LOC"]), ["2"]);
        assert_eq!(near(&["PER", "LOC"]), ["2"], "it is the nearest of both");
        assert!(opened(POOL, "shots = 0").unwrap().is_none());
    }

    #[test]
    fn what_cannot_serve_is_refused_by_code_before_anything_is_asked() {
        let (code, said) = refusal(POOL, "shots = 1\nencoder = 'GOLDEN'");
        assert!(code == 4 && said.starts_with("E102: team.demonstrations.encoder: "), "{said}");
        assert!(said.contains("config.json: not found") && said.contains("model fetch minilm"), "{said}");
        let encoder = "shots = 1\nencoder = 'GOLDEN/minilm'";
        let (code, said) = refusal("{\"id\":\"1\",\"text\":\"Ann\"}\n", encoder);
        assert!(code == 4 && said.starts_with("E311: ") && said.contains("\"1\" has no gold"), "{said}");
        let (code, said) = refusal("{\"id\":\"1\",\"text\":\"Ann\",\"gold\":{\"entities\":[]}}\n", encoder);
        assert!(code == 4 && said.contains("none of its 1 documents has gold of a type"), "{said}");
        let far = "shots = 1\nencoder = 'endpoint'\nmodel = 'b'\nbase_url = 'http://far.example/v1'";
        let (code, said) = refusal(POOL, far);
        assert!(code == 2 && said.contains("--offline forbids the encoder at http://far.example/v1"), "{said}");
        // Nobody listens there.
        let near = "shots = 1\nencoder = 'endpoint'\nmodel = 'b'\nbase_url = 'http://127.0.0.1:1/v1'";
        let limited = refusal(POOL, near);
        assert!(limited.0 == 4 && limited.1.starts_with("E102: ") && limited.1.contains("\"b\" at "), "{limited:?}");
    }
}
