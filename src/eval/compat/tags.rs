//! Mentions as tags of tokens, and the chunks that seqeval and conlleval read from tags.
//!
//! A token belongs to a mention that covers any part of it. Mentions are laid down by start, the
//! longer one first, then by label; one that meets a token already taken, that covers no token or
//! that has no place cannot be tagged: it counts as nothing there, and is reported. The tags are
//! IOB2.

use super::count::Sum;
use super::{Convention, Figure, Measure, Pair, Tally};
use crate::ie::Extraction;
use std::collections::BTreeSet;

/// How a text is cut into tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tokens {
    /// At white space; Chinese characters and kana each alone.
    #[default]
    Words,
    /// Every character that is not white space.
    Characters,
}

impl Tokens {
    /// The name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Tokens::Words => "words",
            Tokens::Characters => "characters",
        }
    }

    /// The byte ranges of the tokens.
    pub fn of(&self, text: &str) -> Vec<(usize, usize)> {
        let mut tokens = Vec::with_capacity(text.len() / 4);
        let mut open: Option<usize> = None;
        for (at, c) in text.char_indices() {
            if c.is_whitespace() {
                tokens.extend(open.take().map(|from| (from, at)));
            } else if *self == Tokens::Characters || stands_alone(c) {
                tokens.extend(open.take().map(|from| (from, at)));
                tokens.push((at, at + c.len_utf8()));
            } else {
                open.get_or_insert(at);
            }
        }
        tokens.extend(open.map(|from| (from, text.len())));
        tokens
    }
}

/// Scripts without blanks: Han, hiragana, katakana.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// A tag: its prefix (`O` outside) and its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    /// `B`, `I`, `O`, `E`, `S`, or whatever a file has.
    pub prefix: char,
    /// Behind the hyphen; empty where there is none.
    pub label: &'a str,
}

/// No mention.
pub const OUTSIDE: Tag<'static> = Tag { prefix: 'O', label: "" };

impl<'a> Tag<'a> {
    /// A tag as it stands in a file, `B-PER` or `O`.
    pub fn read(tag: &'a str) -> Tag<'a> {
        let mut rest = tag.chars();
        let prefix = rest.next().unwrap_or('O');
        let rest = rest.as_str();
        Tag { prefix, label: rest.strip_prefix('-').unwrap_or(rest) }
    }
}

/// A chunk: type, first token, token behind the last.
pub type Chunk<'a> = (&'a str, usize, usize);

/// IOB2 tags of the mentions, and how many could not be tagged.
pub fn tagged<'a>(of: &'a Extraction, tokens: &[(usize, usize)]) -> (Vec<Tag<'a>>, u64) {
    let mut tags = vec![OUTSIDE; tokens.len()];
    let mut lost = 0;
    let mut mentions = Vec::with_capacity(of.entities.len());
    for entity in &of.entities {
        let Some(span) = entity.span else {
            lost += 1;
            continue;
        };
        let first = tokens.partition_point(|token| token.1 <= span.start());
        let behind = tokens.partition_point(|token| token.0 < span.end());
        if first < behind {
            mentions.push((first, std::cmp::Reverse(behind), entity.label.as_str()));
        } else {
            lost += 1;
        }
    }
    mentions.sort_unstable();
    mentions.dedup();
    for (first, behind, label) in mentions {
        if tags[first..behind.0].iter().any(|tag| tag.prefix != 'O') {
            lost += 1;
            continue;
        }
        tags[first..behind.0].fill(Tag { prefix: 'I', label });
        tags[first].prefix = 'B';
    }
    (tags, lost)
}

/// The chunks of seqeval without mode: a change of type or any fitting pair of prefixes opens one.
pub fn seqeval<'a>(tags: &[Tag<'a>]) -> Vec<Chunk<'a>> {
    let (mut chunks, mut before, mut begin) = (Vec::new(), Tag { label: "", ..OUTSIDE }, 0);
    for (at, tag) in tags.iter().copied().chain([OUTSIDE]).enumerate() {
        let tag = Tag { label: if tag.label.is_empty() { "_" } else { tag.label }, ..tag };
        let (old, new) = (before.prefix, tag.prefix);
        let closes = matches!(old, 'E' | 'S')
            || (matches!(old, 'B' | 'I') && matches!(new, 'B' | 'S' | 'O'))
            || (!matches!(old, 'O' | '.') && before.label != tag.label);
        if closes {
            chunks.push((before.label, begin, at));
        }
        let opens = matches!(new, 'B' | 'S')
            || (matches!(old, 'E' | 'S' | 'O') && matches!(new, 'E' | 'I'))
            || (!matches!(new, 'O' | '.') && before.label != tag.label);
        if opens {
            begin = at;
        }
        before = tag;
    }
    chunks
}

/// The chunks of seqeval in mode strict, under IOB2 or IOBES. Hyphens at the edges of a type are
/// dropped, as the original drops them.
pub fn seqeval_strict<'a>(tags: &[Tag<'a>], iobes: bool) -> Vec<Chunk<'a>> {
    let label = |tag: &Tag<'a>| {
        let bare = tag.label.trim_matches('-');
        if bare.is_empty() { "_" } else { bare }
    };
    let opens = |tag: &Tag<'_>| tag.prefix == 'B' || (iobes && tag.prefix == 'S');
    let continues = |before: &Tag<'a>, tag: &Tag<'a>| {
        matches!(before.prefix, 'B' | 'I')
            && (tag.prefix == 'I' || (iobes && tag.prefix == 'E'))
            && label(before) == label(tag)
    };
    let (mut chunks, mut at) = (Vec::new(), 0);
    while at < tags.len() {
        if !opens(&tags[at]) {
            at += 1;
            continue;
        }
        let begin = at;
        at += 1;
        while at < tags.len() && continues(&tags[at - 1], &tags[at]) {
            at += 1;
        }
        // Under IOB2 whatever cannot continue a chunk ends it; under IOBES only its own last tag does.
        if !iobes || matches!(tags[at - 1].prefix, 'E' | 'S') {
            chunks.push((label(&tags[begin]), begin, at));
        }
    }
    chunks
}

/// What conlleval counts in one sentence, by type and in all: right, found, there.
///
/// Its own automaton: gold and prediction are walked together, and a chunk is right if both open
/// and close it at the same places. A type that Perl takes for false (`0`) is none.
pub(super) fn conlleval<'a>(gold: &[Tag<'a>], pred: &[Tag<'a>], mut take: impl FnMut(&'a str, Sum)) {
    let typed = |tag: &Tag<'a>| Tag { label: if tag.label == "0" { "" } else { tag.label }, ..*tag };
    let (mut last_gold, mut last_pred, mut inside) = (OUTSIDE, OUTSIDE, false);
    // A sentence ends with a boundary outside of chunks, which closes what is open.
    let ends = gold.iter().zip(pred).map(|(gold, pred)| (typed(gold), typed(pred))).chain([(OUTSIDE, OUTSIDE)]);
    for (gold, pred) in ends {
        if inside {
            let (gold_closes, pred_closes) = (closes(&last_gold, &gold), closes(&last_pred, &pred));
            if gold_closes && pred_closes && last_gold.label == last_pred.label {
                inside = false;
                take(last_gold.label, Sum { hit: 1.0, hit_gold: 1.0, ..Sum::default() });
            } else if gold_closes != pred_closes || gold.label != pred.label {
                inside = false;
            }
        }
        let (gold_opens, pred_opens) = (opens(&last_gold, &gold), opens(&last_pred, &pred));
        inside |= gold_opens && pred_opens && gold.label == pred.label;
        if gold_opens {
            take(gold.label, Sum { gold: 1.0, ..Sum::default() });
        }
        if pred_opens {
            take(pred.label, Sum { pred: 1.0, ..Sum::default() });
        }
        (last_gold, last_pred) = (gold, pred);
    }
}

fn closes(before: &Tag<'_>, tag: &Tag<'_>) -> bool {
    let (old, new) = (before.prefix, tag.prefix);
    (matches!(old, 'B' | 'I') && matches!(new, 'B' | 'O'))
        || (old == 'E' && matches!(new, 'E' | 'I' | 'O'))
        || (!matches!(old, 'O' | '.') && before.label != tag.label)
        || matches!(old, '[' | ']')
}

fn opens(before: &Tag<'_>, tag: &Tag<'_>) -> bool {
    let (old, new) = (before.prefix, tag.prefix);
    (matches!(old, 'B' | 'I' | 'O') && new == 'B')
        || (matches!(old, 'O' | 'E') && matches!(new, 'I' | 'E'))
        || (!matches!(new, 'O' | '.') && before.label != tag.label)
        || matches!(new, '[' | ']')
}

/// Counts one tagged sentence.
pub(super) fn sentence(of: Convention, iobes: bool, gold: &[Tag<'_>], pred: &[Tag<'_>], tally: &mut Tally) {
    if of == Convention::Conlleval {
        conlleval(gold, pred, |_, part| tally.sum(Measure::Entities, &part));
        return;
    }
    let read = |tags| match of {
        Convention::Seqeval => seqeval(tags),
        _ => seqeval_strict(tags, iobes),
    };
    let (gold, pred): (BTreeSet<_>, BTreeSet<_>) = (read(gold).into_iter().collect(), read(pred).into_iter().collect());
    tally.sum(Measure::Entities, &Sum::even(gold.intersection(&pred).count(), pred.len(), gold.len()));
}

/// Counts one document by the tags of its mentions.
pub(super) fn count(of: Convention, pair: &Pair<'_>, tokens: Tokens, tally: &mut Tally) {
    let tokens = tokens.of(pair.text);
    let ((gold, lost_gold), (pred, lost_pred)) = (tagged(pair.gold, &tokens), tagged(pair.found(), &tokens));
    tally.untagged.0 += lost_gold;
    tally.untagged.1 += lost_pred;
    sentence(of, false, &gold, &pred, tally);
}

/// The figures of one convention over sentences of tags as they stand in a file, gold and
/// predicted; IOBES where an `E` or `S` occurs, else IOB2.
pub fn of_sentences(of: Convention, sentences: &[(Vec<String>, Vec<String>)]) -> Vec<Figure> {
    let mut tally = Tally::default();
    let iobes = sentences.iter().any(|(gold, pred)| gold.iter().chain(pred).any(|tag| tag.starts_with(['E', 'S'])));
    for (gold, pred) in sentences {
        let [gold, pred] = [gold, pred].map(|side| side.iter().map(|tag| Tag::read(tag)).collect::<Vec<_>>());
        sentence(of, iobes, &gold, &pred, &mut tally);
    }
    super::figures::of_tally(of, &tally)
}
