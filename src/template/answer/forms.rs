//! The last rung before "no JSON in the answer": items written as tuples without a list around them.
//!
//! `(person, Ann)`, `（人物，王芳）`, `(Ann, works_for, Acme)`. Only where a part is a label of the
//! schema is a bracket read at all. `person: Ann` stays words: where its mentions end is not plain,
//! and asking again costs one call.

use super::json::{Node, Notes, Value, read_tuple};
use std::ops::Range;

/// The items of `raw[range]`, as the values that JSON would have held; empty if it has none.
pub(super) fn forms(
    raw: &str,
    range: Range<usize>,
    is_label: &mut dyn FnMut(&str) -> bool,
    notes: &mut Notes,
) -> Vec<Node> {
    let tuples = tuples(raw, range.clone(), is_label, notes);
    if tuples.is_empty() { vec![] } else { vec![Node { value: Value::List(tuples), bytes: range }] }
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
