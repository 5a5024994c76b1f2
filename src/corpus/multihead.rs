//! The columns of multi-head selection (Bekoulis et al., 2018): `#doc ID`, then for each token its
//! index, the token, a BIO tag, relation labels and the tokens that they lead to, as Python lists.
//! A relation stands at the last token of its head and names the last token of its tail; `N` is none.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::{Format, Sample};
use super::input::Lines;
use super::join::Joiner;
use super::tags::{Scheme, decode};
use crate::store::StoreError;
use std::collections::HashMap;
use std::path::Path;

pub(super) const MULTIHEAD: Format = Format {
    name: "multihead",
    about: "columns with relations as Python lists (CoNLL04 of Bekoulis et al.)",
    fits,
    read,
};

#[derive(Default)]
struct Sentence {
    id: Option<String>,
    line: usize,
    tokens: Vec<String>,
    tags: Vec<String>,
    /// Token, label, token.
    links: Vec<(usize, String, i64)>,
}

fn fits(sample: &Sample) -> Option<String> {
    let Sample::Text(lines) = sample else { return None };
    let mut lines = lines.iter().filter(|line| !line.trim().is_empty());
    let opens = lines.next()?.starts_with("#doc");
    let columns = lines.next()?.split('\t').count();
    (opens && columns == 5).then(|| "`#doc` and five columns".into())
}

/// The items of a Python list of words or numbers.
fn list(field: &str) -> Option<Vec<&str>> {
    let inside = field.trim().strip_prefix('[')?.strip_suffix(']')?;
    let items = inside.split(',').map(|item| item.trim().trim_matches(['\'', '"']));
    Some(items.filter(|item| !item.is_empty()).collect())
}

fn read(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    let mut lines = Lines::open(path)?;
    let mut sentence = Sentence::default();
    while let Some((number, line)) = lines.next()? {
        if let Some(id) = line.strip_prefix("#doc") {
            if !sentence.tokens.is_empty() {
                sink(draft(std::mem::take(&mut sentence), &mut joiner))?;
            }
            sentence.id = Some(id.trim().to_string()).filter(|id| !id.is_empty());
            sentence.line = number;
        } else if !line.trim().is_empty() {
            token(line, &mut sentence).map_err(|said| StoreError::line(path, number, said))?;
        }
    }
    if sentence.tokens.is_empty() { Ok(()) } else { sink(draft(sentence, &mut joiner)) }
}

fn token(line: &str, sentence: &mut Sentence) -> Result<(), String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [index, token, tag, labels, heads] = fields.as_slice() else {
        let found = fields.len();
        return Err(format!("expected 5 columns between tabs (index, token, tag, relations, tokens), found {found}"));
    };
    let at = sentence.tokens.len();
    if index.trim().parse() != Ok(at) {
        return Err(format!("expected the token index {at}, found {}", shown(index)));
    }
    let (Some(labels), Some(heads)) = (list(labels), list(heads)) else {
        return Err(format!("expected two lists as ['N'] and [0], found {} and {}", shown(labels), shown(heads)));
    };
    if labels.len() != heads.len() {
        return Err(format!("{} relations, but {} tokens that they lead to", labels.len(), heads.len()));
    }
    for (label, head) in labels.into_iter().zip(heads).filter(|(label, _)| *label != "N") {
        let head = head.parse().map_err(|_| format!("expected a token index, found {}", shown(head)))?;
        sentence.links.push((at, label.to_string(), head));
    }
    sentence.tokens.push(token.to_string());
    sentence.tags.push(tag.to_string());
    Ok(())
}

fn draft(sentence: Sentence, joiner: &mut Joiner) -> Draft {
    let join = joiner.join(&sentence.tokens);
    let mut draft = Draft::of_tokens(sentence.line, &sentence.tokens, join);
    draft.id = sentence.id;
    let first = sentence.line + 1;
    let read = decode(&sentence.tags, Scheme::Iob2);
    for (at, said) in read.irregular {
        draft.say_at(first + at, Kind::Tags, said);
    }
    let mut ending = HashMap::new();
    for chunk in read.chunks {
        if let Some(span) = draft.token_span(&chunk.label, chunk.start as i64, chunk.end as i64) {
            ending.insert(chunk.end as i64 - 1, draft.entity(&chunk.label, Some(span), ""));
        }
    }
    for (at, label, to) in sentence.links {
        let (head, tail) = (ending.get(&(at as i64)).copied(), ending.get(&to).copied());
        draft.relation_between(
            &label,
            (format!("ending at token {at}"), head),
            (format!("ending at token {to}"), tail),
        );
    }
    draft
}
