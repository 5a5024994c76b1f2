//! The last rung before "no JSON in the answer": items written as tuples or as lines.
//!
//! `(person, Ann)`, `（人物，王芳）`, `(Ann, works_for, Acme)`; `person: Ann, Bob`, `- **인물**: 김민수`.
//! Only where a label of the schema stands in its place is it read at all; a sentence with a
//! colon stays a sentence.

use super::json::{Node, Notes, Text, Value, read_tuple};
use std::ops::Range;

/// Edge marks of a label on a line: bullets, emphasis, quotes.
const MARKS: &[char] = &['-', '*', '•', '·', '#', '>', '"', '\'', '`', '“', '”', '「', '」', ' ', '\t'];

/// The items of `raw[range]`, as the values that JSON would have held; empty if it has none.
pub(super) fn forms(
    raw: &str,
    range: Range<usize>,
    is_label: &mut dyn FnMut(&str) -> bool,
    notes: &mut Notes,
) -> Vec<Node> {
    let tuples = tuples(raw, range.clone(), is_label, notes);
    if tuples.is_empty() {
        return lines(raw, range, is_label, notes);
    }
    vec![Node { value: Value::List(tuples), bytes: range }]
}

fn tuples(raw: &str, range: Range<usize>, is_label: &mut dyn FnMut(&str) -> bool, notes: &mut Notes) -> Vec<Node> {
    let (mut at, mut values, mut made) = (range.start, Vec::new(), Notes::new());
    while let Some(open) = raw[at..range.end].find(['(', '（']).map(|found| at + found) {
        let mut own = Notes::new();
        match read_tuple(raw, open..range.end, &mut own) {
            Ok(node) => {
                at = node.bytes.end;
                if holds_label(&node, is_label) {
                    own.into_iter().for_each(|(kind, count)| *made.entry(kind).or_default() += count);
                    values.push(node);
                }
            }
            Err(fault) => {
                at = fault.at.max(open + 1);
                while !raw.is_char_boundary(at) {
                    at += 1;
                }
            }
        }
    }
    if !values.is_empty() {
        made.into_iter().for_each(|(kind, count)| *notes.entry(kind).or_default() += count);
    }
    values
}

fn holds_label(node: &Node, is_label: &mut dyn FnMut(&str) -> bool) -> bool {
    let Value::List(items) = &node.value else { return false };
    let texts = items.iter().filter_map(|item| match &item.value {
        Value::Text(text) => Some(text.content.as_str()),
        _ => None,
    });
    let texts: Vec<&str> = texts.take(4).collect();
    matches!(items.len(), 2 | 3) && texts.len() == items.len() && texts.iter().any(|text| is_label(text))
}

fn lines(raw: &str, range: Range<usize>, is_label: &mut dyn FnMut(&str) -> bool, notes: &mut Notes) -> Vec<Node> {
    let (mut at, mut values) = (range.start, Vec::new());
    for line in raw[range].split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some((colon, mark)) = line.char_indices().find(|(_, c)| matches!(c, ':' | '：')) else { continue };
        let key = text(raw, start..start + colon);
        if key.content.chars().count() > 80 || !is_label(&key.content) {
            continue;
        }
        let mut items = Vec::new();
        let mut from = start + colon + mark.len_utf8();
        for part in raw[from..at].split_inclusive([',', '，', '、', ';', '；']) {
            let item = text(raw, from..from + part.trim_end_matches([',', '，', '、', ';', '；']).len());
            from += part.len();
            if !item.content.is_empty() {
                items.push(Node { bytes: item.bytes.clone(), value: Value::Text(item) });
            }
        }
        let bytes = start..at;
        let list = Node { value: Value::List(items), bytes: bytes.clone() };
        values.push(Node { value: Value::Map(vec![(key, list)]), bytes });
    }
    if !values.is_empty() {
        *notes.entry("items read from lines").or_default() += values.len();
    }
    values
}

/// `raw[range]` without its edge marks.
fn text(raw: &str, range: Range<usize>) -> Text {
    let whole = &raw[range.clone()];
    let edge = |c: char| c.is_whitespace() || MARKS.contains(&c);
    let start = range.start + (whole.len() - whole.trim_start_matches(edge).len());
    let content = whole.trim_matches(edge);
    Text { content: content.to_owned(), bytes: start..start + content.len(), spoilt: false }
}
