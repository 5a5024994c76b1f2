//! Where the strings of an answer stand in the document.
//!
//! The rule: a listed string marks every whole-word occurrence that does not lie inside a longer
//! mention listed in the same answer; of overlapping occurrences of one string the first counts.
//! - A word boundary is asked for only between two alphanumerics of scripts that separate words;
//!   Han, Kana, Hangul, Thai, Lao, Khmer and Myanmar have none to ask for.
//! - Exact occurrences are taken if there are any, folded ones otherwise (see [`super::fold`]).
//! - A base character is never split from its combining marks.
//! - One string under several labels: if it occurs at least as often as it is claimed, occurrences
//!   are dealt in the order of the claims and those left over take the first claim's label;
//!   otherwise the first label wins and the others are dropped as conflicts.
//!
//! Time is linear in text and answer: one Aho-Corasick pass (Aho and Corasick 1975) over the text
//! and one over its folded form finds all strings together.

use super::fold::{Folded, boundary, fold};
use super::search::{Hits, Search};
use crate::ie::Span;
use std::collections::{HashMap, HashSet};

/// A listed string and its label.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed<'a> {
    pub text: &'a str,
    pub label: &'a str,
    /// Only an exact occurrence counts: a word for "nothing" may be meant as such.
    pub exact_only: bool,
}

/// One occurrence, and the ordinal of the listed string that marks it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    pub listed: usize,
    pub span: Span,
}

/// What grounding found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Grounded {
    /// In text order.
    pub marks: Vec<Mark>,
    /// Listed strings without a mark, and why; in listed order.
    pub dropped: Vec<(usize, &'static str)>,
}

/// What is known of one distinct string.
#[derive(Clone, Default)]
struct Seen {
    spans: Vec<Span>,
    /// Stands somewhere, if only inside a word.
    somewhere: bool,
    /// Stands inside a longer listed mention.
    covered: bool,
}

/// Marks every listed string in the text.
pub(super) fn ground(text: &str, listed: &[Listed]) -> Grounded {
    let mut place: HashMap<&str, usize> = HashMap::new();
    let mut surfaces: Vec<&str> = Vec::new();
    let mut exact_only = Vec::new();
    let mut of: Vec<usize> = listed
        .iter()
        .map(|item| {
            let surface = item.text.trim();
            *place.entry(surface).or_insert_with(|| {
                surfaces.push(surface);
                exact_only.push(item.exact_only);
                surfaces.len() - 1
            })
        })
        .collect();
    let mut seen = vec![Seen::default(); surfaces.len()];
    exact(text, &surfaces, &mut seen);
    uncover(&mut seen);
    let missing: Vec<usize> = (0..surfaces.len()).filter(|&at| seen[at].spans.is_empty() && !exact_only[at]).collect();
    if !missing.is_empty() {
        let twins = folded(text, &surfaces, &missing, &mut seen);
        uncover(&mut seen);
        of.iter_mut().for_each(|at| *at = twins.get(at).copied().unwrap_or(*at));
    }
    seen.iter_mut().for_each(|seen| apart(&mut seen.spans));
    deal(listed, &of, &seen)
}

/// Searches the text as it is.
fn exact(text: &str, surfaces: &[&str], seen: &mut [Seen]) {
    let search = Search::new(surfaces.iter().map(|surface| surface.bytes().map(u32::from)));
    let lengths: Vec<usize> = surfaces.iter().map(|surface| surface.len()).collect();
    let hits = search.run(text.bytes().map(u32::from), |pattern, end| {
        boundary(text, end - lengths[pattern], end).then(|| Span::new(text, end - lengths[pattern]..end).ok()).flatten()
    });
    record(hits, &(0..surfaces.len()).collect::<Vec<_>>(), seen);
}

/// Searches the folded text; says which strings are the same as an earlier one once folded.
fn folded(text: &str, surfaces: &[&str], missing: &[usize], seen: &mut [Seen]) -> HashMap<usize, usize> {
    let Folded { symbols, places } = fold(text);
    let patterns: Vec<Vec<char>> = missing.iter().map(|&at| fold(surfaces[at]).symbols).collect();
    let search = Search::new(patterns.iter().map(|pattern| pattern.iter().map(|&c| u32::from(c))));
    let hits = search.run(symbols.iter().map(|&c| u32::from(c)), |pattern, end| {
        let start = end - patterns[pattern].len();
        let range = places.range(start, end)?;
        boundary(text, range.start, range.end).then(|| Span::new(text, range).ok()).flatten()
    });
    let twins = hits.twins.iter().zip(missing).map(|(&twin, &surface)| (surface, missing[twin])).collect();
    record(hits, missing, seen);
    twins
}

/// Files the hits of a search under the strings they belong to; `of` maps pattern to string.
fn record(hits: Hits, of: &[usize], seen: &mut [Seen]) {
    for (pattern, span) in hits.found {
        seen[of[pattern]].spans.push(span);
    }
    for (pattern, &surface) in of.iter().enumerate() {
        seen[surface].somewhere |= hits.somewhere[pattern];
        seen[surface].covered |= hits.hidden[pattern];
    }
}

/// Takes away every span that lies inside a longer one.
fn uncover(seen: &mut [Seen]) {
    let mut all: Vec<Span> = seen.iter().flat_map(|seen| seen.spans.iter().copied()).collect();
    all.sort_by_key(|span| (span.start(), std::cmp::Reverse(span.end())));
    all.dedup();
    let mut outermost: Vec<Span> = Vec::with_capacity(all.len());
    for span in all {
        if outermost.last().is_none_or(|last| last.end() < span.end()) {
            outermost.push(span);
        }
    }
    for seen in seen {
        let before = seen.spans.len();
        seen.spans.retain(|span| outermost.binary_search(span).is_ok());
        seen.covered |= seen.spans.len() < before;
    }
}

/// Of overlapping occurrences of one string ("a a" in "a a a") keeps the first.
fn apart(spans: &mut Vec<Span>) {
    let mut end = 0;
    spans.retain(|span| {
        let free = end <= span.start();
        if free {
            end = span.end();
        }
        free
    });
}

/// Gives every occurrence to one listed string.
fn deal(listed: &[Listed], of: &[usize], seen: &[Seen]) -> Grounded {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut by_first: HashMap<Span, usize> = HashMap::new();
    let mut grounded = Grounded::default();
    for (item, &surface) in of.iter().enumerate() {
        let seen = &seen[surface];
        match seen.spans.first() {
            Some(&first) => {
                let group = *by_first.entry(first).or_insert_with(|| {
                    groups.push(Vec::new());
                    groups.len() - 1
                });
                groups[group].push(item);
            }
            None if seen.covered => grounded.dropped.push((item, "only inside a longer mention")),
            None if seen.somewhere => grounded.dropped.push((item, "only inside a word")),
            None => grounded.dropped.push((item, "not in the text")),
        }
    }
    let mut taken: HashMap<Span, &str> = HashMap::new();
    for group in &groups {
        let spans = &seen[of[group[0]]].spans;
        let turns = turns(listed, group, spans.len());
        let mut labels: Vec<&str> = Vec::new();
        for (at, &span) in spans.iter().enumerate() {
            let item = *turns.get(at).unwrap_or(&turns[0]);
            let label = *taken.entry(span).or_insert(listed[item].label);
            if label == listed[item].label {
                labels.push(label);
                grounded.marks.push(Mark { listed: item, span });
            }
        }
        labels.sort_unstable();
        labels.dedup();
        let lost = group.iter().filter(|&&item| labels.binary_search(&listed[item].label).is_err());
        grounded.dropped.extend(lost.map(|&item| (item, "label conflict")));
    }
    grounded.marks.sort_by_key(|mark| (mark.span, mark.listed));
    grounded.marks.dedup_by_key(|mark| mark.span);
    grounded.dropped.sort_unstable();
    grounded
}

/// The claims of one string in the order in which they take occurrences; never empty.
fn turns(listed: &[Listed], group: &[usize], occurrences: usize) -> Vec<usize> {
    let mut distinct: Vec<usize> = Vec::new();
    let mut labels: HashSet<&str> = HashSet::new();
    for &item in group {
        if labels.insert(listed[item].label) {
            distinct.push(item);
        }
    }
    if distinct.len() == 1 || group.len() <= occurrences {
        return group.to_vec();
    }
    if distinct.len() <= occurrences { distinct } else { vec![group[0]] }
}
