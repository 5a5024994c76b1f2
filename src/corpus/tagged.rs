//! Tokens with one tag each, as JSON: the Hugging Face layout `{tokens, ner_tags}` (tags as words or
//! as numbers whose names only the data set's card knows), and `{text: [characters], label: [tags]}`.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::{Format, Sample};
use super::input::each_record;
use super::join::Joiner;
use super::tags::{Evidence, decode};
use crate::store::StoreError;
use serde_json::{Map, Value};
use std::path::Path;

pub(super) const TAGGED: Format =
    Format { name: "tagged", about: "JSON with a tag for each token: tokens and ner_tags, text and label", fits, read };

/// Names under which tokens and tags stand, the first that is a list counts.
const TOKENS: [&str; 3] = ["tokens", "words", "text"];
const TAGS: [&str; 5] = ["ner_tags", "tags", "label", "labels", "ner"];

/// Tokens, and tags where there are some.
struct Row {
    tokens: Vec<String>,
    tags: Option<Vec<Value>>,
    id: Option<Value>,
}

fn list<'a>(names: &[&str], get: impl Fn(&str) -> Option<&'a Value>) -> Option<&'a Vec<Value>> {
    names.iter().find_map(|name| get(name)?.as_array())
}

impl Row {
    fn of(record: &Map<String, Value>) -> Result<Row, String> {
        let tokens =
            list(&TOKENS, |name| record.get(name)).ok_or("expected a list of tokens in \"tokens\" or \"text\"")?;
        let word = |token: &Value| {
            token
                .as_str()
                .map(String::from)
                .ok_or_else(|| format!("expected a token, found {}", shown(&token.to_string())))
        };
        let tokens = tokens.iter().map(word).collect::<Result<Vec<_>, _>>()?;
        let tags = list(&TAGS, |name| record.get(name)).cloned();
        match &tags {
            Some(tags) if tags.len() != tokens.len() => {
                Err(format!("{} tokens, but {} tags; expected one for each", tokens.len(), tags.len()))
            }
            _ => Ok(Row { tokens, tags, id: record.get("id").cloned() }),
        }
    }
}

fn fits(sample: &Sample) -> Option<String> {
    let tokens = list(&TOKENS, |name| sample.field(name)).filter(|list| !list.is_empty())?;
    let tags = list(&TAGS, |name| sample.field(name))?;
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
        _ => Err(format!("expected a tag, found {}", shown(&tag.to_string()))),
    }
    };
    tags.iter().map(name).collect()
}

fn read(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let parsed = |line: usize, record: &Map<String, Value>| {
        let row = Row::of(record).map_err(|said| StoreError::line(path, line, said))?;
        let tags = row.tags.as_deref().map(|tags| named(tags, &options.tag_names)).transpose();
        Ok((row, tags.map_err(|said| StoreError::line(path, line, said))?))
    };
    let mut evidence = Evidence::default();
    each_record(path, |line, record: Map<String, Value>| {
        evidence.take(&parsed(line, &record)?.1.unwrap_or_default());
        Ok(())
    })?;
    let scheme = options.scheme.unwrap_or_else(|| evidence.scheme().0);
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, record: Map<String, Value>| {
        let (row, tags) = parsed(line, &record)?;
        let mut draft = Draft::of_tokens(line, &row.tokens, joiner.join(&row.tokens));
        draft.id = row.id.as_ref().map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_string));
        let Some(tags) = tags else { return sink(draft.without_gold()) };
        let read = decode(&tags, scheme);
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
