//! The JSON Schema of the experiment file, made from its own structs: what an editor completes and
//! checks is what the program reads.

use super::Config;
use serde_json::Value;

/// Keys with a few words to choose from; the plan refuses any other.
const CHOICES: [(&str, &[&str]); 18] = [
    ("team.protocol", &["aeio", "type_agents", "crossagentie", "cooperkgc"]),
    (
        "team.constrained_output",
        &["none", "auto", "response_format", "structured_outputs", "guided_json", "json_schema", "grammar"],
    ),
    ("team.debate", &["none", "entities", "relations", "events", "both"]),
    ("team.tasks", &["entities", "relations", "events"]),
    ("team.language", &["auto", "en", "zh", "ko"]),
    ("filter.mode", &["all", "cases_per_type"]),
    ("filter.pii", &["keep", "drop", "mask"]),
    ("filter.score", &["product", "votes", "least", "margin"]),
    ("filter.calibration", &["none", "isotonic", "platt"]),
    ("filter.precision_bound", &["estimate", "wilson"]),
    ("filter.unsure_item", &["drop", "mask", "document"]),
    ("filter.contradictory", &["keep", "surer", "document"]),
    ("filter.nesting", &["keep", "outermost", "innermost"]),
    ("train.lr_scheduler", &["constant", "constant_with_warmup", "linear", "cosine"]),
    ("train.excess_length_strategy", &["raise", "drop"]),
    ("train.on_divergence", &["stop", "rollback"]),
    ("train.report_to", &["tensorboard", "none"]),
    ("eval.systems", &["base", "aeio", "type_agents", "crossagentie", "cooperkgc"]),
];

/// Numbers with a range; the plan refuses what is outside.
const RANGES: [(&str, f64, Option<f64>); 37] = [
    ("data.max_leaked_share", 0.0, Some(1.0)),
    ("data.max_shared_tuples", 0.0, Some(1.0)),
    ("data.train_limit", 1.0, None),
    ("team.temperature", 0.0, Some(2.0)),
    ("team.frequency_penalty", -2.0, Some(2.0)),
    ("team.repeats", 1.0, Some(1000.0)),
    ("team.in_flight", 1.0, None),
    ("team.max_attempts", 1.0, None),
    ("team.max_requests_per_minute", 1.0, None),
    ("team.max_tokens_per_minute", 1.0, None),
    ("team.max_tokens", 1.0, None),
    ("team.debate_max_tokens", 1.0, None),
    ("filter.threshold", 0.0, Some(1.0)),
    ("filter.relation_threshold", 0.0, Some(1.0)),
    ("filter.max_dropped_share", 0.0, Some(1.0)),
    ("filter.negatives_share", 0.0, Some(1.0)),
    ("filter.dedup_threshold", 0.0, Some(1.0)),
    ("filter.event_threshold", 0.0, Some(1.0)),
    ("filter.target_precision", 0.0, Some(1.0)),
    ("filter.share_kept", 0.0, Some(1.0)),
    ("filter.subset_share", 0.0, Some(1.0)),
    ("filter.max_type_ratio", 1.0, None),
    ("filter.cases_per_type", 1.0, None),
    ("filter.calibration_documents", 1.0, None),
    ("filter.max_entity_chars", 1.0, None),
    ("filter.max_document_chars", 1.0, None),
    ("lora.r", 1.0, None),
    ("train.num_epochs", 1.0, None),
    ("train.warmup_ratio", 0.0, Some(1.0)),
    ("train.loraplus_lr_ratio", 0.001, Some(1000.0)),
    ("train.micro_batch_size", 1.0, None),
    ("train.gradient_accumulation_steps", 1.0, None),
    ("train.devices", 1.0, None),
    ("train.save_steps", 1.0, None),
    ("eval.max_new_tokens", 1.0, None),
    ("eval.lanes", 1.0, None),
    ("prices.machine_hour", 0.0, None),
];

/// The schema, as JSON Schema 2020-12. Keys stand in the order of the sections.
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Config).to_value();
    schema["title"] = "understudy experiment".into();
    without_null(&mut schema);
    for (key, words) in CHOICES {
        if let Some(leaf) = leaf_mut(&mut schema, key) {
            let place = if leaf["type"] == "array" { &mut leaf["items"] } else { leaf };
            place["enum"] = words.into();
        }
    }
    for (key, least, most) in RANGES {
        if let Some(leaf) = leaf_mut(&mut schema, key) {
            let whole = leaf["type"] == "integer";
            let number = |bound: f64| if whole { Value::from(bound as i64) } else { Value::from(bound) };
            leaf["minimum"] = number(least);
            if let Some(most) = most {
                leaf["maximum"] = number(most);
            }
        }
    }
    schema
}

/// Every key that holds a value: `seed`, `train.num_epochs` and so on.
pub fn keys() -> Vec<String> {
    leaves(&json_schema()).into_iter().map(|(key, _)| key).collect()
}

/// Every value's key with its part of the schema.
fn leaves(schema: &Value) -> Vec<(String, Value)> {
    let mut leaves = Vec::new();
    for (name, property) in properties(schema) {
        match section(schema, property).map(|at| &schema["$defs"][at]) {
            Some(section) => {
                leaves.extend(properties(section).map(|(key, value)| (format!("{name}.{key}"), value.clone())));
            }
            None => leaves.push((name.clone(), property.clone())),
        }
    }
    leaves
}

fn leaf_mut<'a>(schema: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    let (name, key) = key.split_once('.')?;
    let at = section(schema, &schema["properties"][name])?.to_owned();
    schema["$defs"][&at]["properties"].get_mut(key)
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// The name of the section that a property is, where it is one.
fn section<'a>(schema: &Value, property: &'a Value) -> Option<&'a str> {
    let name = property["$ref"].as_str()?.strip_prefix("#/$defs/")?;
    schema["$defs"][name].get("properties").map(|_| name)
}

/// TOML knows no null: a key without a value is left out.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            match map.get_mut("default") {
                Some(Value::Null) => drop(map.remove("default")),
                Some(Value::Object(section)) => section.retain(|_, value| !value.is_null()),
                _ => {}
            }
            if let Some([kind, Value::String(null)]) = map.get("type").and_then(Value::as_array).map(Vec::as_slice)
                && null == "null"
            {
                let kind = kind.clone();
                map.insert("type".into(), kind);
            }
            if let Some(Value::Array(ways)) = map.get_mut("anyOf") {
                ways.retain(|way| way["type"] != "null");
            }
            map.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Plan;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    const LEAST: &str = "title = 'x'\nbase_model = 'm'\n\
        [data]\nschema = 'HOME/s.toml'\ntrain = 'HOME/t.jsonl'\ndev = 'HOME/t.jsonl'\ntest = 'HOME/t.jsonl'\n\
        [team]\nprotocol = 'aeio'\nmodel = 'm'\ncassette = 'c'\n";

    /// A config with nothing but what must be there, and the files that it names.
    fn least(home: &Path) -> PathBuf {
        std::fs::write(home.join("s.toml"), "[[entities]]\nlabel = \"PER\"\n").unwrap();
        std::fs::write(home.join("t.jsonl"), "").unwrap();
        let path = home.join("least.toml");
        std::fs::write(&path, LEAST.replace("HOME", &home.display().to_string())).unwrap();
        path
    }

    #[test]
    fn the_schema_has_the_keys_of_the_config_and_no_other() {
        let home = tempfile::tempdir().unwrap();
        let plan = Plan::read(&least(home.path()), &[]).unwrap();
        let written = serde_json::to_value(plan.config()).unwrap();
        let mut expected = BTreeSet::new();
        for (name, value) in written.as_object().unwrap() {
            match value.as_object() {
                Some(section) => expected.extend(section.keys().map(|key| format!("{name}.{key}"))),
                None => {
                    expected.insert(name.clone());
                }
            }
        }
        assert_eq!(keys().into_iter().collect::<BTreeSet<_>>(), expected);
        assert!(expected.len() > 40, "{}", expected.len());
    }

    #[test]
    fn every_section_is_closed_and_every_key_is_explained() {
        let schema = json_schema();
        let text = schema.to_string();
        assert!(!text.contains(":null") && !text.contains("\"null\""), "TOML knows no null");
        let defined = schema["$defs"].as_object().unwrap().values().filter(|one| one.get("properties").is_some());
        let sections: Vec<&Value> = defined.chain([&schema]).collect();
        assert_eq!(sections.len(), 12);
        for section in sections {
            assert_eq!(section["additionalProperties"], Value::Bool(false));
            for (key, property) in properties(section) {
                assert!(property["description"].as_str().is_some_and(|said| said.len() > 10), "{key}: {property}");
            }
        }
    }

    #[test]
    fn a_default_of_the_schema_is_what_a_key_left_out_means() {
        let home = tempfile::tempdir().unwrap();
        let plan = Plan::read(&least(home.path()), &[]).unwrap();
        let written = serde_json::to_value(plan.config()).unwrap();
        let with_default: Vec<(String, Value)> =
            leaves(&json_schema()).into_iter().filter(|(_, leaf)| leaf.get("default").is_some()).collect();
        assert!(with_default.len() > 25, "{}", with_default.len());
        for (key, leaf) in with_default {
            let found = written.pointer(&format!("/{}", key.replace('.', "/"))).unwrap();
            assert_eq!(&leaf["default"], found, "{key}");
        }
    }

    #[test]
    fn what_the_schema_forbids_the_plan_refuses_by_name() {
        let home = tempfile::tempdir().unwrap();
        let path = least(home.path());
        let refused = |key: &str, value: &str| Plan::read(&path, &[format!("{key}={value}")]).unwrap_err().to_string();
        for (key, words) in CHOICES {
            let listed = keys().contains(&key.to_owned());
            assert!(listed, "{key} is no key");
            let value = if ["eval.systems", "team.tasks", "train.report_to"].contains(&key) {
                "[\"zyzzyva\"]"
            } else {
                "\"zyzzyva\""
            };
            let said = refused(key, value);
            // The plan's own list, word for word: neither may know one that the other lacks.
            assert!(said.ends_with(&format!("{key} is \"zyzzyva\"; expected {}", words.join(", "))), "{said}");
        }
        let schema = json_schema();
        for (key, least, most) in RANGES {
            let (_, leaf) = leaves(&schema).into_iter().find(|(name, _)| name == key).expect(key);
            assert_eq!(leaf["minimum"].as_f64(), Some(least), "{key}");
            let step = if leaf["type"] == "integer" { 1.0 } else { 0.5 };
            for outside in [Some(least - step), most.map(|most| most + step)].into_iter().flatten() {
                let value = if step == 1.0 { format!("{outside}") } else { format!("{outside:?}") };
                let said = refused(key, &value);
                assert!(said.contains(&format!("{key} is ")), "{key} = {value}: {said}");
            }
        }
    }
}
