//! Mentions keyed by type or by words: CLUENER (inclusive code points), the MRC rows of GPT-NER
//! (inclusive token indexes, one row a type), and sets whose gold is a Python dictionary in a string.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::Format;
use super::input::each_record;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;

pub(super) const CLUENER: Format = Format {
    name: "cluener",
    about: "CLUENER: text, label by type and words",
    fits: |sample| {
        (sample.field("text")?.is_string() && sample.field("label")?.is_object())
            .then(|| "text with labels by type".into())
    },
    read: read_cluener,
};

pub(super) const MRC: Format = Format {
    name: "mrc",
    about: "MRC-NER, GPT-NER: context, entity_label, start_position, end_position",
    fits: |sample| {
        (sample.field("context")?.is_string() && sample.has(&["start_position", "end_position"]))
            .then(|| "context with start_position and end_position".into())
    },
    read: read_mrc,
};

pub(super) const LITERAL: Format = Format {
    name: "literal",
    about: "sentence with label as a Python dictionary in a string (WikiGold of Self-Improve)",
    fits: |sample| {
        let label = sample.field("label")?.as_str()?.trim();
        let sentence = sample.field("sentence").or(sample.field("text"))?.is_string();
        (sentence && label.starts_with('{') && label.ends_with('}')).then(|| "a dictionary in a string".into())
    },
    read: read_literal,
};

fn word(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_string)
}

#[derive(Deserialize)]
struct CluenerRow {
    text: String,
    #[serde(default)]
    label: Option<Map<String, Value>>,
    id: Option<Value>,
}

fn read_cluener(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: CluenerRow| {
        let mut draft = Draft::of_text(line, row.text);
        draft.id = row.id.as_ref().map(word);
        let Some(types) = row.label else { return sink(draft.without_gold()) };
        for (label, mentions) in &types {
            for (surface, places) in mentions.as_object().into_iter().flatten() {
                for place in places.as_array().into_iter().flatten() {
                    let number = |at: usize| place.get(at).and_then(Value::as_i64);
                    let (Some(first), Some(last)) = (number(0), number(1)) else {
                        draft.say(
                            Kind::Outside,
                            format!("{label}: expected [start, end], found {}", shown(&place.to_string())),
                        );
                        continue;
                    };
                    if let Some(span) = draft.point_span(label, Some(surface), first, last.saturating_add(1)) {
                        draft.entity(label, Some(span), "");
                    }
                }
            }
        }
        sink(draft)
    })
}

#[derive(Deserialize)]
struct MrcRow {
    context: String,
    entity_label: String,
    start_position: Vec<i64>,
    end_position: Vec<i64>,
    qas_id: Option<Value>,
}

/// Rows of one context stand one behind the other and become one document.
fn read_mrc(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut open: Option<(String, Draft, BTreeSet<String>)> = None;
    let close = |(_, mut draft, asked): (String, Draft, BTreeSet<String>)| {
        draft.meta.insert("asked".into(), json!(asked));
        draft
    };
    each_record(path, |line, row: MrcRow| {
        if row.start_position.len() != row.end_position.len() {
            let said = format!("{} starts, but {} ends", row.start_position.len(), row.end_position.len());
            return Err(StoreError::line(path, line, said));
        }
        // Two equal sentences behind one another: the second asks its first type anew.
        let other =
            |open: &(String, Draft, BTreeSet<String>)| open.0 != row.context || open.2.contains(&row.entity_label);
        if open.as_ref().is_some_and(other)
            && let Some(done) = open.take()
        {
            sink(close(done))?;
        }
        let (_, draft, asked) = open.get_or_insert_with(|| {
            let mut draft = Draft::of_text(line, row.context.as_str());
            let mut at = 0;
            let tokens = row.context.split(' ').map(|token| {
                let range = at..at + token.len();
                at = range.end + 1;
                range
            });
            draft.set_tokens(tokens.collect());
            draft.id = row.qas_id.as_ref().map(|id| word(id).split('.').next().unwrap_or_default().to_string());
            (row.context.clone(), draft, BTreeSet::new())
        });
        asked.insert(row.entity_label.clone());
        draft.line = line;
        for (first, last) in row.start_position.iter().zip(&row.end_position) {
            if let Some(span) = draft.token_span(&row.entity_label, *first, last.saturating_add(1)) {
                draft.entity(&row.entity_label, Some(span), "");
            }
        }
        Ok(())
    })?;
    open.map_or(Ok(()), |done| sink(close(done)))
}

#[derive(Deserialize)]
struct LiteralRow {
    sentence: Option<String>,
    text: Option<String>,
    label: String,
    idx: Option<Value>,
    id: Option<Value>,
}

/// The pairs of a Python dictionary of strings; `None` if it is something else.
fn dictionary(text: &str) -> Option<Vec<(String, String)>> {
    let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let (key, behind) = string(rest)?;
        let (value, behind) = string(behind.trim_start().strip_prefix(':')?.trim_start())?;
        pairs.push((key, value));
        let behind = behind.trim_start();
        rest = if behind.is_empty() { behind } else { behind.strip_prefix(',')?.trim_start() };
    }
    Some(pairs)
}

/// A Python string in either quotes, and what stands behind it.
fn string(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let mut found = String::new();
    let mut signs = text.char_indices().skip(1);
    while let Some((at, sign)) = signs.next() {
        match sign {
            '\\' => match signs.next()?.1 {
                'n' => found.push('\n'),
                't' => found.push('\t'),
                other => found.push(other),
            },
            _ if sign == quote => return Some((found, &text[at + 1..])),
            _ => found.push(sign),
        }
    }
    None
}

fn read_literal(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: LiteralRow| {
        let Some(text) = row.sentence.or(row.text) else {
            return Err(StoreError::line(path, line, "expected a text in \"sentence\" or \"text\", found neither"));
        };
        let mut draft = Draft::of_text(line, text);
        draft.id = row.idx.or(row.id).as_ref().map(word);
        let Some(pairs) = dictionary(&row.label) else {
            let said = format!("expected a dictionary of words as {{'UK': 'Location'}}, found {}", shown(&row.label));
            return Err(StoreError::line(path, line, said));
        };
        for (surface, label) in &pairs {
            draft.listed_entity(label, surface);
        }
        sink(draft)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_of_python_strings_are_read_in_both_quotes() {
        let pairs =
            |text| dictionary(text).map(|pairs| pairs.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>());
        assert_eq!(pairs("{'UK': 'Location', \"O'Hare\": 'Location'}").unwrap(), ["UK=Location", "O'Hare=Location"]);
        assert_eq!(pairs("{'it\\'s': \"x\"}").unwrap(), ["it's=x"]);
        assert_eq!(pairs("{}").unwrap(), [""; 0]);
        for broken in ["{'a'}", "{'a': 1}", "{'a': 'b'", "{'a': 'b' 'c': 'd'}", "['a']", "{'é"] {
            assert_eq!(pairs(broken), None, "{broken}");
        }
    }
}
