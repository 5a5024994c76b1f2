//! Tokens with one tag each, as JSON: the Hugging Face layout `{tokens, ner_tags}` (tags as words or
//! as numbers whose names only the data set's card knows), and `{text: [characters], label: [tags]}`.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::Kind;
use super::format::{Format, Sample};
use super::input::each_record;
use super::join::Joiner;
use super::tags::{Evidence, decode};
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

pub(super) const TAGGED: Format = Format {
    name: "tagged",
    about: "JSON with a tag for each token: Hugging Face tokens and ner_tags (--tag-names for numbers), text and label",
    fits,
    read,
};

#[derive(Deserialize)]
struct Row {
    #[serde(alias = "text", alias = "words")]
    tokens: Vec<String>,
    #[serde(alias = "tags", alias = "label", alias = "labels", alias = "ner")]
    ner_tags: Option<Vec<Value>>,
    id: Option<Value>,
}

fn fits(sample: &Sample) -> Option<String> {
    let list = |names: [&str; 3]| {
        names.iter().find_map(|name| sample.field(name)).and_then(Value::as_array).filter(|list| !list.is_empty())
    };
    let tokens = list(["tokens", "text", "words"])?;
    let tags = list(["ner_tags", "tags", "label"]).or_else(|| list(["labels", "ner", "ner_tags"]))?;
    let words = tokens.iter().all(Value::is_string) && tags.iter().all(|tag| tag.is_string() || tag.is_u64());
    (words && tokens.len() == tags.len() && !sample.has(&["relations"])).then(|| "a tag for each token".into())
}

/// The tags as words.
fn named(tags: &[Value], names: &[String]) -> Result<Vec<String>, String> {
    let name = |tag: &Value| {
        match (tag.as_str(), tag.as_u64()) {
        (Some(word), _) => Ok(word.to_string()),
        (None, Some(number)) => {
            usize::try_from(number).ok().and_then(|number| names.get(number).cloned()).ok_or_else(|| {
                format!(
                    "tag {number} has no name: {} are given — pass --tag-names O,B-PER,I-PER,… in the order of the data set's card (copies of one set differ in it)",
                    names.len()
                )
            })
        }
        _ => Err(format!("expected a tag, found {tag}")),
    }
    };
    tags.iter().map(name).collect()
}

fn read(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let names = |line: usize, tags: &[Value]| {
        named(tags, &options.tag_names).map_err(|said| StoreError::line(path, line, said))
    };
    let mut evidence = Evidence::default();
    each_record(path, |line, row: Row| {
        evidence.take(&names(line, row.ner_tags.as_deref().unwrap_or_default())?);
        Ok(())
    })?;
    let scheme = options.scheme.unwrap_or_else(|| evidence.scheme().0);
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, row: Row| {
        let mut draft = Draft::of_tokens(line, &row.tokens, joiner.join(&row.tokens));
        draft.id = row.id.as_ref().map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_string));
        let Some(tags) = &row.ner_tags else { return sink(draft.without_gold()) };
        if tags.len() != row.tokens.len() {
            let said = format!("{} tokens, but {} tags; expected one for each", row.tokens.len(), tags.len());
            return Err(StoreError::line(path, line, said));
        }
        let read = decode(&names(line, tags)?, scheme);
        for (at, said) in read.irregular {
            draft.say(Kind::Tags, format!("token {at}: {said}"));
        }
        for chunk in read.chunks {
            if let Some(span) = draft.token_span(&chunk.label, chunk.start as i64, chunk.end as i64) {
                draft.entity(&chunk.label, Some(span), "");
            }
        }
        sink(draft)
    })
}
