//! OntoNotes 5 in the columns of CoNLL-2012 (`*_gold_conll`): `#begin document`, a token a line, and
//! named entities as brackets `(PERSON*`, `*`, `*)` in the eleventh column.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::{Format, Sample};
use super::input::Lines;
use super::join::Joiner;
use crate::store::StoreError;
use serde_json::json;
use std::path::Path;

pub(super) const ONTONOTES: Format =
    Format { name: "ontonotes", about: "OntoNotes 5 in CoNLL-2012 columns (*_gold_conll)", fits, read };

/// Columns, counting from 0.
const WORD: usize = 3;
const NAMES: usize = 10;

fn fits(sample: &Sample) -> Option<String> {
    let Sample::Text(lines) = sample else { return None };
    let mut lines = lines.iter().filter(|line| !line.trim().is_empty());
    let opens = lines.next()?.starts_with("#begin document");
    let columns = lines.next()?.split_whitespace().count();
    (opens && columns > NAMES).then(|| "`#begin document` and CoNLL-2012 columns".into())
}

#[derive(Default)]
struct Sentence {
    line: usize,
    tokens: Vec<String>,
    /// Label, first token, one past the last.
    names: Vec<(String, usize, usize)>,
    open: Option<(String, usize)>,
    odd: Vec<(usize, String)>,
}

impl Sentence {
    /// Takes one token with its bracket column.
    fn take(&mut self, number: usize, word: &str, name: &str) {
        let at = self.tokens.len();
        self.tokens.push(word.to_string());
        if let Some(label) = name.strip_prefix('(') {
            let label = label.trim_end_matches([')', '*']).to_string();
            if let Some((open, _)) = self.open.replace((label, at)) {
                self.odd.push((number, format!("{} begins inside {open}", shown(name))));
            }
        }
        if name.ends_with(')') {
            match self.open.take() {
                Some((label, start)) => self.names.push((label, start, at + 1)),
                None => self.odd.push((number, format!("{} ends what never began", shown(name)))),
            }
        }
    }
}

fn read(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    let mut lines = Lines::open(path)?;
    let mut sentence = Sentence::default();
    let mut document = String::new();
    while let Some((number, line)) = lines.next()? {
        if let Some(name) = line.strip_prefix("#begin document") {
            document = name.trim().to_string();
            continue;
        }
        if line.trim().is_empty() || line.starts_with("#end document") {
            if !sentence.tokens.is_empty() {
                sink(draft(std::mem::take(&mut sentence), &document, &mut joiner))?;
            }
            continue;
        }
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (Some(word), Some(name)) = (columns.get(WORD), columns.get(NAMES)) else {
            let said = format!("expected more than {NAMES} columns, found {}", columns.len());
            return Err(StoreError::line(path, number, said));
        };
        if *word == "[WORD]" {
            let said = "this is a skeleton without words; put in the words of your OntoNotes release first";
            return Err(StoreError::line(path, number, said));
        }
        if sentence.tokens.is_empty() {
            sentence.line = number;
        }
        sentence.take(number, word, name);
    }
    if sentence.tokens.is_empty() { Ok(()) } else { sink(draft(sentence, &document, &mut joiner)) }
}

fn draft(sentence: Sentence, document: &str, joiner: &mut Joiner) -> Draft {
    let mut draft = Draft::of_tokens(sentence.line, &sentence.tokens, joiner.join(&sentence.tokens));
    draft.meta.insert("document".into(), json!(document));
    for (line, said) in sentence.odd {
        draft.say_at(line, Kind::Tags, said);
    }
    if let Some((label, _)) = sentence.open {
        draft.say(Kind::Tags, format!("{label} is open at the end of the sentence"));
    }
    for (label, start, end) in sentence.names {
        if let Some(span) = draft.token_span(&label, start as i64, end as i64) {
            draft.entity(&label, Some(span), "");
        }
    }
    draft
}
