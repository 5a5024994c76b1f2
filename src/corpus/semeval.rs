//! SemEval-2010 Task 8 (Hendrickx et al., 2010): a number, a quoted sentence with two marked
//! nominals, a relation with its direction, a comment, a blank line. CRLF throughout.
//!
//! The nominals have no types; they are called `nominal`. `Other` is no relation. The head of
//! `Relation(e2,e1)` is e2.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::shown;
use super::format::{Format, Sample};
use super::input::Lines;
use crate::ie::Span;
use crate::store::StoreError;
use serde_json::json;
use std::path::Path;

pub(super) const SEMEVAL: Format =
    Format { name: "semeval2010", about: "SemEval-2010 Task 8: TRAIN_FILE.TXT, TEST_FILE_FULL.TXT", fits, read };

/// The type of both marked nominals.
const NOMINAL: &str = "nominal";

fn fits(sample: &Sample) -> Option<String> {
    let Sample::Text(lines) = sample else { return None };
    let first = lines.iter().find(|line| !line.trim().is_empty())?;
    (head(first).is_some() && first.contains("<e1>")).then(|| "numbered sentences with <e1> and <e2>".into())
}

/// The number and the sentence of an item's first line.
fn head(line: &str) -> Option<(&str, &str)> {
    let (number, sentence) = line.split_once('\t')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then_some((number, sentence.trim_end()))
}

fn read(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut lines = Lines::open(path)?;
    let mut open: Option<Item> = None;
    while let Some((number, line)) = lines.next()? {
        if let Some((id, sentence)) = head(line) {
            if let Some(item) = open.take() {
                sink(item.draft())?;
            }
            open = Some(Item::new(number, id, sentence).map_err(|said| StoreError::line(path, number, said))?);
        } else if line.trim().is_empty() {
            continue;
        } else if let Some(item) = &mut open {
            item.more(line.trim_end()).map_err(|said| StoreError::line(path, number, said))?;
        } else {
            let said = format!("expected a number, a tab and a sentence in quotes, found {}", shown(line));
            return Err(StoreError::line(path, number, said));
        }
    }
    open.map_or(Ok(()), |item| sink(item.draft()))
}

/// One sentence with its two nominals and its relation.
struct Item {
    line: usize,
    id: String,
    text: String,
    nominals: [Span; 2],
    /// Label, and whether it leads from e1 to e2; `None` before its line.
    relation: Option<(String, bool)>,
    comment: String,
}

impl Item {
    fn new(line: usize, id: &str, sentence: &str) -> Result<Item, String> {
        let inside = sentence.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(sentence);
        let mut text = String::new();
        let mut rest = inside;
        let mut nominals = Vec::new();
        for mark in ["e1", "e2"] {
            let parts = rest.split_once(&format!("<{mark}>")).and_then(|(before, rest)| {
                let (nominal, rest) = rest.split_once(&format!("</{mark}>"))?;
                Some((before, nominal, rest))
            });
            let Some((before, nominal, after)) = parts else {
                return Err(format!(
                    "expected <{mark}>…</{mark}>, with e1 in front of e2, in {} — TEST_FILE_KEY.TXT has neither sentences nor directions; read TEST_FILE_FULL.TXT",
                    shown(sentence)
                ));
            };
            text.push_str(before);
            let start = text.len();
            text.push_str(nominal);
            nominals.push(start..text.len());
            rest = after;
        }
        text.push_str(rest);
        let span = |at: usize| Span::new(&text, nominals[at].clone()).map_err(|_| format!("<e{}> is empty", at + 1));
        let nominals = [span(0)?, span(1)?];
        Ok(Item { line, id: id.into(), text, nominals, relation: None, comment: String::new() })
    }

    fn more(&mut self, line: &str) -> Result<(), String> {
        if let Some(comment) = line.strip_prefix("Comment:") {
            self.comment = comment.trim().to_string();
            return Ok(());
        }
        if self.relation.is_some() {
            // A comment over several lines.
            self.comment = format!("{} {}", self.comment, line.trim()).trim().to_string();
            return Ok(());
        }
        let direction = |end: &str| line.strip_suffix(end).map(str::to_string);
        self.relation = match (direction("(e1,e2)"), direction("(e2,e1)")) {
            (Some(label), _) => Some((label, true)),
            (_, Some(label)) => Some((label, false)),
            _ if line == "Other" => Some((line.to_string(), true)),
            _ => {
                let said = "expected Other, or a relation with its direction as in Cause-Effect(e1,e2)";
                return Err(format!("{said}, found {}", shown(line)));
            }
        };
        Ok(())
    }

    fn draft(self) -> Draft {
        let mut draft = Draft::of_text(self.line, self.text);
        draft.id = Some(self.id);
        if !self.comment.is_empty() {
            draft.meta.insert("comment".into(), json!(self.comment));
        }
        let [first, second] = self.nominals.map(|span| draft.entity(NOMINAL, Some(span), ""));
        match self.relation {
            Some((label, _)) if label == "Other" => draft,
            Some((label, true)) => {
                draft.relation(&label, first, second);
                draft
            }
            Some((label, false)) => {
                draft.relation(&label, second, first);
                draft
            }
            None => draft.without_gold(),
        }
    }
}
