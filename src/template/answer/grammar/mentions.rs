//! Mentions: stretches of one text, as they stand escaped in a JSON string. While one is written,
//! the state is the set of places that the bytes so far may come from.
//!
//! All offsets are those of the escaped text, which keep the order of those of the text itself.

use super::super::fold::boundary;
use super::escape::escape;

/// Start and end of a mention.
type Place = (usize, usize);

/// Where mentions may begin and end.
#[derive(Clone, Debug)]
pub(super) struct Mentions {
    text: Vec<u8>,
    /// Ascending.
    starts: Vec<usize>,
    /// For every offset the first end at or behind it; [`NONE`] behind the last.
    ends: Vec<usize>,
}

const NONE: usize = usize::MAX;

/// The places that an unfinished mention may come from.
#[derive(Clone, Debug, Default)]
pub(super) struct Matches {
    /// Where it may begin, ascending; not filled in while nothing is written.
    starts: Vec<usize>,
    /// Bytes so far.
    depth: usize,
}

impl Mentions {
    pub fn of(text: &str) -> Mentions {
        let (mut written, mut starts, mut ends) = (String::with_capacity(text.len()), Vec::new(), Vec::new());
        let mut before: Option<char> = None;
        for (at, next) in text.char_indices().map(|(at, c)| (at, Some(c))).chain([(text.len(), None)]) {
            let outside = |c: Option<char>| c.is_none_or(char::is_whitespace);
            let (begins, finishes) = (!outside(next), !outside(before));
            if (begins || finishes) && boundary(text, at, at) {
                starts.extend(begins.then_some(written.len()));
                ends.extend(finishes.then_some(written.len()));
            }
            next.into_iter().for_each(|c| escape(c, &mut written));
            before = next;
        }
        let mut nearest = vec![NONE; written.len() + 1];
        ends.iter().for_each(|end| nearest[*end] = *end);
        for at in (0..written.len()).rev() {
            nearest[at] = nearest[at].min(nearest[at + 1]);
        }
        Mentions { text: written.into_bytes(), starts, ends: nearest }
    }

    /// Whether the text has a mention at all.
    pub fn any(&self) -> bool {
        self.more(&[], None)
    }

    /// Whether one more mention can follow the last.
    pub fn more(&self, written: &[Place], last: Option<Place>) -> bool {
        self.beginning(last).iter().any(|start| self.reaches(*start, 0, written, last))
    }

    /// Whether some place goes on with this byte of the text.
    pub fn continues(&self, matches: &Matches, byte: u8) -> bool {
        matches.starts.iter().any(|start| self.text.get(start + matches.depth) == Some(&byte))
    }

    /// One more byte; `None` if no mention that may follow the last goes on with it.
    pub fn extend(&self, matches: Matches, byte: u8, written: &[Place], last: Option<Place>) -> Option<Matches> {
        let Matches { mut starts, depth } = matches;
        let goes_on = |start: &usize| self.text.get(start + depth) == Some(&byte);
        match depth {
            0 => starts = self.beginning(last).iter().copied().filter(goes_on).collect(),
            _ => starts.retain(goes_on),
        }
        let depth = depth + 1;
        starts.iter().any(|start| self.reaches(*start, depth, written, last)).then_some(Matches { starts, depth })
    }

    /// Where the finished mention stands at the earliest; `None` if it may not end here.
    pub fn close(&self, matches: &Matches, written: &[Place], last: Option<Place>) -> Option<Place> {
        let places = matches.starts.iter().map(|start| (*start, start + matches.depth));
        places
            .filter(|place| self.ends[place.1] == place.1 && last.is_none_or(|last| last < *place))
            .find(|place| self.unused(*place, written))
    }

    /// The bytes that may follow, and perhaps some that may not.
    pub fn next(&self, matches: &Matches, last: Option<Place>, mut mark: impl FnMut(&[u8])) {
        let starts = if matches.depth == 0 { self.beginning(last) } else { &matches.starts };
        let next = starts.iter().filter_map(|start| self.text.get(start + matches.depth..start + matches.depth + 1));
        next.for_each(&mut mark);
        mark(b"\"");
    }

    /// Where a mention may begin that follows the last.
    fn beginning(&self, last: Option<Place>) -> &[usize] {
        let from = last.map_or(0, |last| self.starts.partition_point(|start| *start < last.0));
        &self.starts[from..]
    }

    /// Whether a mention that begins here, has at least `depth` bytes and was not written yet may
    /// follow the last. Of n + 1 ends one is unused if n mentions are written, so this is short.
    fn reaches(&self, start: usize, depth: usize, written: &[Place], last: Option<Place>) -> bool {
        let mut end = self.ends.get(start + depth.max(1)).copied().unwrap_or(NONE);
        while end != NONE {
            if last.is_none_or(|last| last < (start, end)) && self.unused((start, end), written) {
                return true;
            }
            end = self.ends.get(end + 1).copied().unwrap_or(NONE);
        }
        false
    }

    fn unused(&self, place: Place, written: &[Place]) -> bool {
        let surface = &self.text[place.0..place.1];
        written.iter().all(|(start, end)| &self.text[*start..*end] != surface)
    }
}
