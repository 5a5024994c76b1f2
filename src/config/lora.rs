//! The `[lora]` section of an experiment: what is adapted, and how strongly. 5. of the arrow
//! builds the adapters (Hu et al. 2021, arXiv:2106.09685).

use super::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The seven linear layers of a block, in the order of the forward.
pub const TARGETS: [&str; 7] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/// What stands for all of [`TARGETS`].
const ALL: &str = "all-linear";

/// Adapters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoraSection {
    /// Rank, 1 to 4096; adapter size and time grow linearly. Default 16.
    pub r: usize,
    /// Strength; the update is scaled by `alpha / r`. Default 32.
    pub alpha: f64,
    /// Share of the adapters' inputs that is zeroed while training, below 1. Default 0.
    pub dropout: f64,
    /// Scale by `alpha / sqrt(r)`: larger ranks then learn as fast as small ones. Default false.
    pub use_rslora: bool,
    /// `"all-linear"` (the head excepted), or a list of layers by name or by the end of it from a
    /// dot on: `q_proj`, `mlp.up_proj`, `layers.0.self_attn.q_proj`. Default `[]`, which is all.
    pub target_modules: TargetModules,
}

impl Default for LoraSection {
    fn default() -> LoraSection {
        let target_modules = TargetModules::Names(vec![]);
        LoraSection { r: 16, alpha: 32.0, dropout: 0.0, use_rslora: false, target_modules }
    }
}

/// Layers as they are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "lora.target_modules: expected a list of names or \"all-linear\"")]
pub enum TargetModules {
    /// `"all-linear"`.
    Word(String),
    /// A list; an empty one means all.
    Names(Vec<String>),
}

impl TargetModules {
    /// The names, `all-linear` written out.
    pub fn names(&self) -> Vec<String> {
        match self {
            TargetModules::Names(names) if !names.is_empty() => names.clone(),
            _ => TARGETS.map(str::to_owned).to_vec(),
        }
    }
}

impl std::fmt::Display for TargetModules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TargetModules::Names(names) if !names.is_empty() => f.write_str(&names.join(", ")),
            _ => f.write_str("all linear layers"),
        }
    }
}

impl LoraSection {
    /// Refuses what no model can be adapted with; which layers a model has is seen when it is there.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let fail = |key: &str, found: &dyn std::fmt::Display, expected: &str| {
            Err(ConfigError(format!("lora.{key} is {found}; expected {expected}")))
        };
        if !(1..=4096).contains(&self.r) {
            return fail("r", &self.r, "1 to 4096");
        }
        if !(self.alpha > 0.0 && self.alpha.is_finite()) {
            return fail("alpha", &self.alpha, "a number above 0");
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return fail("dropout", &self.dropout, "0 up to, not including, 1");
        }
        let expected = format!("\"{ALL}\" or a list of {}", TARGETS.join(", "));
        match &self.target_modules {
            TargetModules::Word(word) if word != ALL => fail("target_modules", &format!("\"{word}\""), &expected),
            TargetModules::Names(names) => {
                // The head and the embedding are refused by pre-flight, which knows whether they are tied.
                let known = |last: &str| TARGETS.contains(&last) || ["lm_head", "embed_tokens"].contains(&last);
                let unknown = |name: &&String| !known(name.rsplit('.').next().unwrap_or_default());
                match names.iter().find(unknown) {
                    Some(name) => fail("target_modules", &format!("… \"{name}\" …"), &expected),
                    None => Ok(()),
                }
            }
            TargetModules::Word(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LoraSection, String> {
        let section: LoraSection = toml::from_str(text).map_err(|error| error.to_string())?;
        section.check().map_err(|error| error.to_string())?;
        Ok(section)
    }

    #[test]
    fn layers_are_a_list_or_a_word() {
        for all in ["", "target_modules = []", "target_modules = 'all-linear'"] {
            let section = read(all).unwrap();
            assert_eq!(section.target_modules.names(), TARGETS, "{all}");
            assert_eq!(section.target_modules.to_string(), "all linear layers");
        }
        let some =
            read("target_modules = ['q_proj', 'layers.0.mlp.up_proj']\nuse_rslora = true\ndropout = 0.5").unwrap();
        assert_eq!(some.target_modules.names(), ["q_proj", "layers.0.mlp.up_proj"]);
        assert_eq!(some.target_modules.to_string(), "q_proj, layers.0.mlp.up_proj");
    }

    #[test]
    fn what_cannot_be_built_is_refused_by_key_with_the_way_out() {
        for (text, says) in [
            ("r = 0", "lora.r is 0; expected 1 to 4096"),
            ("r = 5000", "lora.r is 5000"),
            ("alpha = 0", "lora.alpha is 0; expected a number above 0"),
            ("alpha = nan", "lora.alpha is NaN"),
            ("dropout = 1.0", "lora.dropout is 1; expected 0 up to, not including, 1"),
            ("dropout = -0.1", "lora.dropout is -0.1"),
            ("target_modules = 'all'", "lora.target_modules is \"all\"; expected \"all-linear\" or a list of q_proj"),
            ("target_modules = ['q_proj', 'head']", "lora.target_modules is … \"head\" …; expected"),
            ("target_modules = 3", "expected a list of names or \"all-linear\""),
            ("rank = 4", "unknown field `rank`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
