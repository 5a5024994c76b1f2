//! DocRED and Re-DocRED (Yao et al., 2019): documents of tokens, entities as clusters of mentions,
//! relations between clusters. A relation is put between the first mentions of both; the clusters
//! stand in `meta.clusters` as ordinals.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::format::Format;
use super::input::each_record;
use super::join::Joiner;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

pub(super) const DOCRED: Format = Format {
    name: "docred",
    about: "DocRED, Re-DocRED: title, sents, vertexSet, labels",
    fits: |sample| {
        (sample.field("sents")?.is_array() && sample.has(&["vertexSet"])).then(|| "sents and vertexSet".into())
    },
    read,
};

#[derive(Deserialize)]
struct Row {
    title: Option<String>,
    sents: Vec<Vec<String>>,
    #[serde(rename = "vertexSet")]
    clusters: Vec<Vec<Mention>>,
    labels: Option<Vec<Link>>,
}

#[derive(Deserialize)]
struct Mention {
    sent_id: i64,
    pos: (i64, i64),
    #[serde(rename = "type")]
    label: String,
}

#[derive(Deserialize)]
struct Link {
    h: i64,
    t: i64,
    r: String,
}

fn read(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, row: Row| {
        let join = row.sents.iter().map(|sentence| joiner.join(sentence)).next_back().unwrap_or(super::Join::Space);
        let sentences: Vec<&[String]> = row.sents.iter().map(Vec::as_slice).collect();
        let mut draft = Draft::of_sentences(line, &sentences, join);
        draft.id = row.title.clone();
        let starts: Vec<i64> =
            row.sents.iter().scan(0, |at, sentence| Some(std::mem::replace(at, *at + sentence.len() as i64))).collect();
        let mut clusters: Vec<Vec<usize>> = Vec::new();
        for cluster in &row.clusters {
            let mut places = Vec::new();
            for mention in cluster {
                let start = usize::try_from(mention.sent_id).ok().and_then(|at| starts.get(at).copied());
                // A sentence that is not there puts the mention outside the text.
                let start = start.unwrap_or(i64::MAX / 2);
                let (from, to) = (start.saturating_add(mention.pos.0), start.saturating_add(mention.pos.1));
                if let Some(span) = draft.token_span(&mention.label, from, to) {
                    places.push(draft.entity(&mention.label, Some(span), ""));
                }
            }
            clusters.push(places);
        }
        let first = |at: i64| usize::try_from(at).ok().and_then(|at| clusters.get(at)?.first().copied());
        for link in row.labels.iter().flatten() {
            draft.relation_between(&link.r, (link.h, first(link.h)), (link.t, first(link.t)));
        }
        draft.meta.insert("clusters".into(), json!(clusters));
        sink(if row.labels.is_some() { draft } else { draft.without_gold() })
    })
}
