//! Which modules an `adapter_config.json` means, as PEFT's `check_target_module_exists` and
//! `get_pattern_key` decide it. Patterns are Python's: `fancy-regex` knows what looks around, and
//! gives up where a pattern takes too long.

use super::config::{AdapterConfig, Read, set, shown};
use crate::student::config::Family;
use crate::student::lora::{TARGETS, names};
use crate::student::model::{Model, linear_name};
use fancy_regex::{Regex, RegexBuilder};
use serde_json::Value;

/// Longest pattern that is read, in bytes.
const MAX_PATTERN: usize = 1 << 16;
/// Patterns and names of one setting.
pub(super) const MAX_ENTRIES: usize = 1 << 14;
/// Steps after which a pattern is given up.
const MAX_STEPS: usize = 100_000;

/// A compiled pattern with what it was.
pub(super) struct Pattern {
    key: String,
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Matches a whole name, as Python's `re.fullmatch`.
    fn whole(key: &str, text: &str) -> Read<Pattern> {
        Pattern::new(key, text, &format!(r"\A(?:{text})\z"))
    }

    /// Matches a name's end from a dot on, as PEFT looks up ranks and alphas.
    pub fn at_the_end(key: &str, text: &str) -> Read<Pattern> {
        Pattern::new(key, text, &format!(r"\A(.*\.)?({text})\z"))
    }

    /// Finds the number of a block, under any list of modules or under one of this name.
    fn block_number(key: &str, under: Option<&str>) -> Read<Pattern> {
        match under {
            None => Pattern::new(key, "", r"\A.*?\.[^.]*\.(?P<idx>\d+)\."),
            Some(text) => Pattern::new(key, text, &format!(r"\A(?:(?:^|.*?\.){text}\.(?P<idx>\d+)\.)")),
        }
    }

    fn new(key: &str, text: &str, wrapped: &str) -> Read<Pattern> {
        if text.len() > MAX_PATTERN {
            return Err(format!("\"{key}\": a pattern of {} bytes; expected {MAX_PATTERN} or less", text.len()));
        }
        let build =
            |source: &str| RegexBuilder::new(source).backtrack_limit(MAX_STEPS).delegate_size_limit(1 << 20).build();
        // By itself first: two halves of a pattern must not become one by what is put around.
        let regex = build(text).and_then(|_| build(wrapped));
        let regex = regex.map_err(|e| format!("\"{key}\": \"{text}\" is not a pattern that can be used: {e}"))?;
        Ok(Pattern { key: key.to_owned(), text: text.to_owned(), regex })
    }

    fn matches(&self, name: &str) -> Read<bool> {
        self.regex.is_match(name).map_err(|error| self.gave_up(name, &error))
    }

    /// `None` where nothing matches, and `Some(None)` where what matches holds no number.
    fn number(&self, name: &str) -> Read<Option<Option<i64>>> {
        let found = self.regex.captures(name).map_err(|error| self.gave_up(name, &error))?;
        Ok(found.map(|found| found.name("idx")?.as_str().parse().ok()))
    }

    fn gave_up(&self, name: &str, error: &fancy_regex::Error) -> String {
        format!("\"{}\": matching \"{}\" against \"{name}\" was given up: {error}", self.key, self.text)
    }
}

/// A list of names, or a pattern over whole names.
enum Choice {
    Names(Vec<String>),
    Pattern(Pattern),
}

impl Choice {
    fn read(key: &str, value: &Value) -> Read<Choice> {
        match value {
            Value::String(text) => Ok(Choice::Pattern(Pattern::whole(key, text)?)),
            _ => Ok(Choice::Names(strings(key, value)?)),
        }
    }

    fn matches(&self, module: &str) -> Read<bool> {
        match self {
            Choice::Names(list) => Ok(list.iter().any(|target| names(target, module))),
            Choice::Pattern(pattern) => pattern.matches(module),
        }
    }
}

fn strings(key: &str, value: &Value) -> Read<Vec<String>> {
    let wrong = || format!("\"{key}\": expected a list of strings or a string, found {}", shown(value));
    let items = value.as_array().filter(|items| items.len() <= MAX_ENTRIES).ok_or_else(wrong)?;
    items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

/// `target_modules` with what narrows it.
pub(super) struct Rule {
    /// As written, for errors.
    written: String,
    /// `None` is every linear layer but the head.
    targets: Option<Choice>,
    exclude: Option<Choice>,
    /// Blocks that are meant, where not all are.
    layers: Option<Vec<i64>>,
    layers_pattern: Vec<Pattern>,
}

impl Rule {
    pub fn read(json: &Value) -> Read<Rule> {
        let get = |key: &str| json.get(key).filter(|value| !value.is_null());
        // PEFT's own choice for every family that is read here.
        let default = serde_json::json!(["q_proj", "v_proj"]);
        let targets = get("target_modules").unwrap_or(&default);
        let word = targets.as_str();
        if let Some(key) =
            ["layers_to_transform", "layers_pattern"].into_iter().find(|key| word.is_some() && get(key).is_some())
        {
            return Err(format!("{key} is set, which goes with a list of target_modules only"));
        }
        let layers = match get("layers_to_transform") {
            None => None,
            Some(value) => {
                let wrong = || format!("\"layers_to_transform\": expected whole numbers, found {}", shown(value));
                let items = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
                if items.len() > MAX_ENTRIES {
                    return Err(wrong());
                }
                Some(items.iter().map(|item| item.as_i64().ok_or_else(wrong)).collect::<Read<Vec<i64>>>()?)
            }
        };
        let under = match json.get("layers_pattern").filter(|value| set(value)) {
            None => vec![],
            Some(_) if layers.is_none() => return Err("layers_pattern is set without layers_to_transform".into()),
            Some(Value::String(one)) => vec![one.clone()],
            Some(list) => strings("layers_pattern", list)?,
        };
        let any = under.is_empty().then(|| Pattern::block_number("layers_to_transform", None));
        let named = under.iter().map(|text| Pattern::block_number("layers_pattern", Some(text)));
        Ok(Rule {
            written: shown(targets),
            targets: match word.is_some_and(|word| word.to_lowercase() == "all-linear") {
                true => None,
                false => Some(Choice::read("target_modules", targets)?),
            },
            exclude: match json.get("exclude_modules").filter(|value| set(value)) {
                Some(value) => Some(Choice::read("exclude_modules", value)?),
                None => None,
            },
            layers: layers.filter(|layers| !layers.is_empty()),
            layers_pattern: any.into_iter().chain(named).collect::<Read<_>>()?,
        })
    }

    /// Whether the module of this name is meant.
    fn matches(&self, module: &str, linear: bool) -> Read<bool> {
        if let Some(exclude) = &self.exclude
            && exclude.matches(module)?
        {
            return Ok(false);
        }
        let Some(targets) = &self.targets else { return Ok(linear) };
        let (Choice::Names(list), Some(layers)) = (targets, &self.layers) else { return targets.matches(module) };
        // A full name is meant whatever its block.
        if list.iter().any(|target| target == module) || !targets.matches(module)? {
            return Ok(list.iter().any(|target| target == module));
        }
        for pattern in &self.layers_pattern {
            if let Some(block) = pattern.number(module)? {
                return Ok(block.is_some_and(|block| layers.contains(&block)));
            }
        }
        Ok(false)
    }
}

/// One layer that is adapted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub layer: usize,
    pub place: usize,
    pub r: usize,
    pub alpha: f64,
}

/// The layers that a config adapts in this model, in the order of the forward; and the patterns
/// of ranks and alphas that none of them has.
pub(super) fn matched(config: &AdapterConfig, model: &Model) -> Read<(Vec<Target>, Vec<String>)> {
    for module in others(model) {
        if config.rule.matches(&module, false)? {
            let why = match module.as_str() {
                "lm_head" if model.config.tied => {
                    "the head is the embedding (tie_word_embeddings), so an update of one would change both"
                }
                "lm_head" => "adapters on the head are not supported",
                "model.embed_tokens" => "adapters on the embedding are not supported",
                _ => "it is not a linear layer",
            };
            return Err(format!("target_modules {} match \"{module}\": {why}", config.rule.written));
        }
    }
    let mut found = Vec::new();
    let (mut ranks, mut alphas) = (vec![false; config.ranks.len()], vec![false; config.alphas.len()]);
    for (layer, place) in (0..model.blocks.len()).flat_map(|layer| (0..TARGETS.len()).map(move |place| (layer, place)))
    {
        let name = linear_name(layer, place);
        if config.rule.matches(&name, true)? {
            let r = first(&config.ranks, &name, &mut ranks)?.unwrap_or(config.lora.r);
            let alpha = first(&config.alphas, &name, &mut alphas)?.unwrap_or(config.lora.alpha);
            found.push(Target { layer, place, r, alpha });
        }
    }
    if found.is_empty() {
        let (last, of) = (model.blocks.len().saturating_sub(1), TARGETS.join(", "));
        return Err(format!(
            "target_modules {} match no module of this model; it has {of} in blocks 0 to {last}, such as \"{}\"",
            config.rule.written,
            linear_name(0, 0)
        ));
    }
    let idle = |(key, pattern): (&str, &Pattern)| format!("{key}.{}", pattern.text);
    let unused_ranks =
        config.ranks.iter().zip(&ranks).filter(|(_, used)| !**used).map(|((p, _), _)| ("rank_pattern", p));
    let unused_alphas =
        config.alphas.iter().zip(&alphas).filter(|(_, used)| !**used).map(|((p, _), _)| ("alpha_pattern", p));
    Ok((found, unused_ranks.chain(unused_alphas).map(idle).collect()))
}

/// What the first pattern says that matches.
fn first<T: Copy>(patterns: &[(Pattern, T)], name: &str, used: &mut [bool]) -> Read<Option<T>> {
    for ((pattern, value), used) in patterns.iter().zip(used) {
        if pattern.matches(name)? {
            *used = true;
            return Ok(Some(*value));
        }
    }
    Ok(None)
}

/// Every module of the model that is no linear layer of a block, as `named_modules` lists them.
fn others(model: &Model) -> Vec<String> {
    let mut all = ["model", "model.embed_tokens", "model.layers"].map(str::to_owned).to_vec();
    for layer in 0..model.blocks.len() {
        let at = format!("model.layers.{layer}");
        let parts = ["self_attn", "mlp", "mlp.act_fn", "input_layernorm", "post_attention_layernorm"];
        let norms: &[&str] =
            if model.config.family == Family::Qwen3 { &["self_attn.q_norm", "self_attn.k_norm"] } else { &[] };
        all.extend(parts.iter().chain(norms).map(|part| format!("{at}.{part}")));
        all.push(at);
    }
    all.extend(["model.norm", "model.rotary_emb", "lm_head"].map(str::to_owned));
    all
}
