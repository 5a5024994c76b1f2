//! The JSON inside a raw answer: past reasoning, fences and prose, with the repairs it took.
//!
//! Everything is found by narrowing a byte range of the raw answer, never by rewriting it, so
//! offsets stay true. The first brace is not the answer: of several blocks of JSON with words
//! between them the last counts.

use super::json::{Fault, Node, Notes, Value, read_strict, read_value};
use std::ops::Range;

/// What a raw answer holds.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// Values one after the other (JSON Lines), and whether words stood around them.
    Json { values: Vec<Node>, around: String },
    /// No JSON: the words, and where they stand.
    Words(String, Range<usize>),
    /// JSON that breaks or never ends.
    Broken(String),
}

const REASONING: [&str; 5] = ["think", "thinking", "reasoning", "thought", "analysis"];

/// Finds the JSON of `raw`, adding what it took to `notes`.
pub(super) fn find(raw: &str, notes: &mut Notes) -> Found {
    if let Ok(node) = read_strict(raw, 0..raw.len()) {
        return Found::Json { values: vec![node], around: String::new() };
    }
    let Some(rest) = without_reasoning(raw) else {
        return Found::Broken("the reasoning block never ends, so there is no answer after it".into());
    };
    if rest != (0..raw.len()) {
        *notes.entry("reasoning removed").or_default() += 1;
    }
    let inside = without_fence(raw, rest.clone());
    if inside != rest {
        *notes.entry("fence removed").or_default() += 1;
    }
    if let Ok(node) = read_strict(raw, inside.clone()) {
        return Found::Json { values: vec![node], around: String::new() };
    }
    scan(raw, inside, notes)
}

/// The range that is left without `<think>…</think>`; `None` if the reasoning never ends.
/// Tags count only where a message starts with one, or where a closing one stands in a message
/// that starts with neither JSON nor a fence: templates often supply the opening tag.
fn without_reasoning(raw: &str) -> Option<Range<usize>> {
    let mut start = 0;
    loop {
        let rest = &raw[start..];
        let lead = rest.len() - rest.trim_start().len();
        let Some((name, open)) = tag_at(&rest[lead..], "<") else { break };
        let body = start + lead + open;
        let (at, length) = find_close(&raw[body..], Some(name))?;
        start = body + at + length;
    }
    let rest = raw[start..].trim_start();
    if !rest.starts_with(['{', '[', '`', '~']) {
        while let Some((at, length)) = find_close(&raw[start..], None) {
            start += at + length;
        }
    }
    let end = find_open(&raw[start..]).map_or(raw.len(), |at| start + at);
    if raw[start..end].trim().is_empty() { Some(start..raw.len()) } else { Some(start..end) }
}

/// The name of a reasoning tag at the start of `text` and the tag's length.
fn tag_at(text: &str, open: &str) -> Option<(&'static str, usize)> {
    let inside = text.strip_prefix(open)?;
    REASONING.into_iter().find_map(|name| {
        let head = inside.get(..name.len())?;
        let closed = inside[name.len()..].starts_with('>');
        (head.eq_ignore_ascii_case(name) && closed).then_some((name, open.len() + name.len() + 1))
    })
}

fn find_close(text: &str, name: Option<&str>) -> Option<(usize, usize)> {
    text.match_indices("</").find_map(|(at, _)| {
        let (found, length) = tag_at(&text[at..], "</")?;
        name.is_none_or(|name| name == found).then_some((at, length))
    })
}

/// An opening reasoning tag at the start of a line, outside JSON as far as that can be seen.
fn find_open(text: &str) -> Option<usize> {
    if text.trim_start().starts_with(['{', '[', '`', '~']) {
        let trailing =
            text.rmatch_indices("\n<").map(|(at, _)| at + 1).find(|&at| tag_at(&text[at..], "<").is_some())?;
        return find_close(&text[trailing..], None).map(|_| trailing);
    }
    None
}

/// The inside of a fence that wraps the whole message; otherwise the range itself. A fence of n
/// marks is closed by a last line of at least n of them, so back-ticks inside strings are safe.
fn without_fence(raw: &str, range: Range<usize>) -> Range<usize> {
    let text = raw[range.clone()].trim();
    let Some(mark) = text.chars().next().filter(|c| matches!(c, '`' | '~')) else { return range };
    let marks = text.len() - text.trim_start_matches(mark).len();
    let Some(line) = text.find('\n').filter(|_| marks >= 3) else { return range };
    if text[marks..line].contains(mark) {
        return range;
    }
    let before = text.trim_end_matches(mark);
    if text.len() - before.len() < marks
        || before.len() <= line
        || !before.trim_end_matches([' ', '\t']).ends_with('\n')
    {
        return range;
    }
    let first = range.start + (raw[range.clone()].len() - raw[range].trim_start().len());
    first + line + 1..first + before.len()
}

/// Reads every block of JSON between words and keeps the last that can be an answer.
fn scan(raw: &str, range: Range<usize>, notes: &mut Notes) -> Found {
    let mut blocks: Vec<(Vec<Node>, Notes)> = Vec::new();
    let (mut at, mut last_end) = (range.start, range.start);
    let mut words = String::new();
    while let Some(open) = raw[at..range.end].find(['{', '[', '｛', '［']).map(|found| at + found) {
        let (node, made) = match read_either(raw, open..range.end) {
            Ok(read) => read,
            Err(fault) if fault.began => return Found::Broken(broken(raw, &fault)),
            Err(fault) => {
                at = fault.at.max(open + 1);
                while !raw.is_char_boundary(at) {
                    at += 1;
                }
                continue;
            }
        };
        let between = &raw[last_end..open];
        let joined = between.chars().all(|c| c.is_whitespace() || ",，、".contains(c));
        (at, last_end) = (node.bytes.end, node.bytes.end);
        match blocks.last_mut() {
            Some((values, all)) if joined => {
                values.push(node);
                made.into_iter().for_each(|(kind, count)| *all.entry(kind).or_default() += count);
            }
            _ => blocks.push((vec![node], made)),
        }
        if !joined {
            words.push_str(between);
        }
    }
    words.push_str(&raw[last_end..range.end]);
    choose(blocks, words, range, notes)
}

fn choose(mut blocks: Vec<(Vec<Node>, Notes)>, words: String, range: Range<usize>, notes: &mut Notes) -> Found {
    let Some(at) = blocks.iter().rposition(|(values, _)| values.iter().any(may_answer)).or(blocks.len().checked_sub(1))
    else {
        return Found::Words(words, range);
    };
    let mut note = |kind, count| *notes.entry(kind).or_default() += count;
    if blocks.len() > 1 {
        note("other JSON in the answer set aside", blocks.len() - 1);
    }
    let (values, made) = blocks.swap_remove(at);
    made.into_iter().for_each(|(kind, count)| note(kind, count));
    if values.len() > 1 {
        note("several JSON values joined", 1);
    }
    if !words.trim().is_empty() {
        note("words around the JSON", 1);
    }
    Found::Json { values, around: words }
}

/// A bracket in prose, such as `[1]`, is no answer.
fn may_answer(node: &Node) -> bool {
    match &node.value {
        Value::Map(_) => true,
        Value::List(items) => {
            items.is_empty() || items.iter().any(|item| matches!(item.value, Value::Map(_)) || is_tuple(item))
        }
        _ => false,
    }
}

/// Two strings, or three.
fn is_tuple(node: &Node) -> bool {
    let Value::List(items) = &node.value else { return false };
    matches!(items.len(), 2 | 3) && items.iter().all(|item| matches!(item.value, Value::Text(_)))
}

fn read_either(raw: &str, range: Range<usize>) -> Result<(Node, Notes), Fault> {
    let mut notes = Notes::new();
    match read_value(raw, range.clone(), None) {
        Ok(node) => Ok((node, notes)),
        Err(_) => read_value(raw, range, Some(&mut notes)).map(|node| (node, notes)),
    }
}

fn broken(raw: &str, fault: &Fault) -> String {
    if fault.cut {
        return format!("the answer ends before its JSON does, at byte {}: {}", fault.at, fault.what);
    }
    let seen: String = raw[fault.at..].chars().take(20).collect();
    format!("the answer's JSON breaks at byte {}: {}, found {seen:?}", fault.at, fault.what)
}
