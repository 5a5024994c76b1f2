//! Triples of words without offsets: CasRel and OneRel (NYT, WebNLG), CopyRE and SPN4RE, and the
//! native form of HRL-RE (NYT11). The places of words are looked for, at word borders first.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::format::{Format, Sample};
use super::input::each_record;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

pub(super) const CASREL: Format = Format {
    name: "casrel",
    about: "CasRel, OneRel: text, triple_list (NYT24, WebNLG)",
    fits: |sample| {
        (sample.field("text")?.is_string() && sample.field("triple_list")?.is_array())
            .then(|| "text and triple_list".into())
    },
    read: read_casrel,
};

pub(super) const COPYRE: Format = Format {
    name: "copyre",
    about: "CopyRE, SPN4RE, HRL-RE raw: sentText with relationMentions (NYT)",
    fits: fits_copyre,
    read: read_copyre,
};

/// The type of ends that have none.
const UNTYPED: &str = "entity";

#[derive(Deserialize)]
struct CasrelRow {
    text: String,
    triple_list: Vec<(String, String, String)>,
    id: Option<Value>,
}

fn read_casrel(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: CasrelRow| {
        let mut draft = Draft::of_text(line, row.text);
        draft.id = row.id.map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_string));
        for (head, label, tail) in &row.triple_list {
            draft.triple((UNTYPED, head), label, (UNTYPED, tail));
        }
        sink(draft)
    })
}

#[derive(Deserialize)]
struct CopyreRow {
    #[serde(alias = "sentext")]
    #[serde(rename = "sentText")]
    text: String,
    #[serde(default, rename = "relationMentions", alias = "relations")]
    relations: Vec<Pair>,
    #[serde(default, rename = "entityMentions")]
    entities: Vec<Named>,
}

#[derive(Deserialize)]
struct Pair {
    #[serde(rename = "em1Text", alias = "em1")]
    head: String,
    #[serde(rename = "em2Text", alias = "em2")]
    tail: String,
    #[serde(alias = "rtext")]
    label: String,
}

#[derive(Deserialize)]
struct Named {
    text: String,
    label: String,
}

fn fits_copyre(sample: &Sample) -> Option<String> {
    let raw = sample.has(&["sentText", "relationMentions"]);
    let native = sample.has(&["sentext", "relations"]);
    (raw || native).then(|| "a sentence with pairs of mentions".into())
}

fn read_copyre(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: CopyreRow| {
        let mut draft = Draft::of_text(line, row.text.trim_end_matches(['\r', '\n']));
        let mut types: HashMap<&str, &str> = HashMap::new();
        for entity in &row.entities {
            types.entry(&entity.text).or_insert(&entity.label);
        }
        let label = |text: &str| types.get(text).copied().unwrap_or(UNTYPED);
        for pair in row.relations.iter().filter(|pair| pair.label != "None") {
            draft.triple((label(&pair.head), &pair.head), &pair.label, (label(&pair.tail), &pair.tail));
        }
        // A mention that takes part in no relation is one all the same.
        for entity in &row.entities {
            if !draft.entities().iter().any(|known| known.label == entity.label && known.text == entity.text) {
                draft.listed_entity(&entity.label, &entity.text);
            }
        }
        sink(draft)
    })
}
