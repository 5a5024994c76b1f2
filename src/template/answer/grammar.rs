//! The language of [`render_entities`](super::render_entities) and
//! [`render_relations`](super::render_relations) for one document, byte by byte: constrained
//! decoding lets a student write nothing else.
//!
//! An answer is in the language exactly if rendering writes it for some extraction whose items the
//! reader would keep if each stood alone. That leaves out:
//! - mentions that begin or end with white space or inside a word, as [`read_answer`] places them
//!   (Han, Kana, Hangul, Thai, Lao, Khmer and Myanmar have no words to cut), and mentions without a
//!   place in the text;
//! - pairs that the signature does not allow in the direction in which they would be written, and
//!   pairs of two mentions of one type that are the same once folded.
//!
//! Gold that holds such items can be learned from; it cannot be written under this grammar, and
//! the reader would drop it. What is in the language reads without repairs. Relations read without
//! drops; of entities the reader drops those that stand only inside longer ones of the answer, and
//! one surface under several types where it occurs too seldom for all of them.
//!
//! Text order: of every surface any occurrence may be meant, and the items of a type follow one
//! another in the order of spans. Reading marks *every* occurrence, so an answer that means a later
//! one may come back in another order, and a symmetric pair of surfaces that occur several times
//! may come back turned; where each surface occurs once, rendering what was read gives the same
//! bytes.
//!
//! [`read_answer`]: super::read_answer

mod escape;
mod mentions;
mod options;
mod pairs;

use crate::ie::{Entity, Schema};
use escape::escaped;
use mentions::{Matches, Mentions};
use options::Options;
use pairs::Pairs;
use std::sync::Arc;

/// The answers to one question about one document.
#[derive(Clone, Debug)]
pub struct Grammar {
    /// `"person":[` of every type that can have an item, in schema order.
    keys: Vec<Vec<u8>>,
    items: Items,
}

/// What may stand in the lists.
#[derive(Clone, Debug)]
enum Items {
    Mentions(Mentions),
    Pairs(Pairs),
}

/// How far an answer is written. Belongs to the [`Grammar`] that made it.
#[derive(Clone, Debug)]
pub struct State {
    place: Place,
    /// Types behind us, the one being written included.
    types: usize,
    /// Items of the type being written.
    written: Arc<Vec<(usize, usize)>>,
    /// Earliest place that the last of them can stand for.
    last: Option<(usize, usize)>,
    /// Bytes behind the last byte at which only brackets were missing.
    loose: usize,
    /// Those brackets.
    brackets: &'static [u8],
}

/// Which byte is due.
#[derive(Clone, Debug)]
enum Place {
    Start,
    /// Behind `{`.
    Opened,
    /// In a key and the `":[` behind it.
    Key(Options),
    /// Before the quote of a mention.
    Quote,
    /// Behind that quote.
    Mention(Matches),
    /// In `["head","`.
    Head(Options),
    /// In `tail"]`, behind the head with this number.
    Tail(usize, Options),
    /// Behind an item.
    Item,
    /// Behind the list of a type.
    List,
    End,
}

/// The way to a whole answer from where the token limit stopped one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// Bytes to take back from the end: what stands behind the last finished item.
    pub back: usize,
    /// Bytes to append then.
    pub append: Vec<u8>,
}

impl Grammar {
    /// The answers to the question for entities: mentions are stretches of the text.
    pub fn entities(schema: &Schema, text: &str) -> Grammar {
        let mentions = Mentions::of(text);
        let labels = schema.entities.iter().filter(|_| mentions.any()).map(|kind| kind.label.as_str());
        Grammar { keys: labels.map(key).collect(), items: Items::Mentions(mentions) }
    }

    /// The answers to the question for relations among these entities.
    pub fn relations(schema: &Schema, entities: &[Entity]) -> Grammar {
        let (pairs, kinds) = Pairs::of(schema, entities);
        Grammar { keys: kinds.into_iter().map(key).collect(), items: Items::Pairs(pairs) }
    }

    /// Nothing is written yet.
    pub fn start(&self) -> State {
        State { place: Place::Start, types: 0, written: Arc::default(), last: None, loose: 0, brackets: b"{}" }
    }

    /// The state behind one more byte; `None` if no answer goes on with it.
    pub fn step(&self, state: &State, byte: u8) -> Option<State> {
        let mut next = state.clone();
        self.advance(&mut next, byte).then_some(next)
    }

    /// Whether a whole answer stands; nothing follows it.
    pub fn finished(&self, state: &State) -> bool {
        matches!(state.place, Place::End)
    }

    /// The bytes that must follow, up to the first choice or the end.
    pub fn forced(&self, state: &State) -> Vec<u8> {
        let (mut forced, mut state) = (Vec::new(), state.clone());
        while let Some((byte, next)) = self.only(&state) {
            forced.push(byte);
            state = next;
        }
        forced
    }

    /// The way to a whole answer that keeps every finished item: an unfinished one is taken back,
    /// with the comma or key that only it needed.
    pub fn closing(&self, state: &State) -> Closing {
        Closing { back: state.loose, append: state.brackets.to_vec() }
    }

    /// [`Grammar::step`] in place; false leaves a state that is of no further use.
    pub(crate) fn advance(&self, state: &mut State, byte: u8) -> bool {
        state.loose += 1;
        let next = match std::mem::replace(&mut state.place, Place::End) {
            Place::Start => (byte == b'{').then(|| state.stand(b"}", Place::Opened)),
            Place::Opened if byte == b'}' => Some(state.stand(b"", Place::End)),
            Place::Opened => self.key(state, Options::new(0..self.keys.len()), byte),
            Place::Key(options) => self.key(state, options, byte),
            Place::Quote => (byte == b'"').then(|| Place::Mention(Matches::default())),
            Place::Mention(matches) => self.mention(state, matches, byte),
            Place::Head(options) => self.head(state, options, byte),
            Place::Tail(head, options) => self.tail(state, head, options, byte),
            Place::Item if byte == b']' => Some(state.stand(b"}", Place::List)),
            Place::Item => (byte == b',').then(|| self.item(state)).flatten(),
            Place::List if byte == b'}' => Some(state.stand(b"", Place::End)),
            Place::List => (byte == b',').then(|| self.further_keys(state)).flatten(),
            Place::End => None,
        };
        let goes_on = next.is_some();
        state.place = next.unwrap_or(Place::End);
        goes_on
    }

    /// Bytes that may follow, and perhaps some that may not: a cheap choice for [`Grammar::step`].
    pub(crate) fn candidates(&self, state: &State) -> [bool; 256] {
        let mut bytes = [false; 256];
        let mut mark = |found: &[u8]| found.iter().for_each(|byte| bytes[usize::from(*byte)] = true);
        match (&state.place, &self.items) {
            (Place::Start, _) => mark(b"{"),
            (Place::Opened, _) if self.keys.is_empty() => mark(b"}"),
            (Place::Opened, _) => mark(b"\"}"),
            (Place::Key(options), _) => options.next(&self.keys, mark),
            (Place::Quote, _) => mark(b"\""),
            (Place::Item, _) => mark(b",]"),
            (Place::List, _) => mark(b",}"),
            (Place::Mention(matches), Items::Mentions(mentions)) => mentions.next(matches, state.last, mark),
            (Place::Head(options), Items::Pairs(pairs)) => options.next(&pairs.heads, mark),
            (Place::Tail(_, options), Items::Pairs(pairs)) => options.next(&pairs.tails, mark),
            (Place::End | Place::Mention(_) | Place::Head(_) | Place::Tail(..), _) => {}
        }
        bytes
    }

    /// The one byte that may follow, and the state behind it.
    fn only(&self, state: &State) -> Option<(u8, State)> {
        let candidates = self.candidates(state);
        let mut found = (0..=u8::MAX)
            .filter(|byte| candidates[usize::from(*byte)])
            .filter_map(|byte| Some((byte, self.step(state, byte)?)));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    fn key(&self, state: &mut State, mut options: Options, byte: u8) -> Option<Place> {
        options.narrow(&self.keys, byte)?;
        let Some(kind) = options.complete(&self.keys) else { return Some(Place::Key(options)) };
        state.types = kind + 1;
        state.written = Arc::default();
        state.last = None;
        self.item(state)
    }

    fn further_keys(&self, state: &State) -> Option<Place> {
        let options = Options::new(state.types..self.keys.len());
        (!options.is_empty()).then_some(Place::Key(options))
    }

    /// The place before an item, if the type being written can have one more.
    fn item(&self, state: &State) -> Option<Place> {
        match &self.items {
            Items::Mentions(mentions) => mentions.more(&state.written, state.last).then_some(Place::Quote),
            Items::Pairs(pairs) => {
                let heads = Options::new(pairs.open_heads(state.types - 1, &state.written, state.last));
                (!heads.is_empty()).then_some(Place::Head(heads))
            }
        }
    }

    fn mention(&self, state: &mut State, matches: Matches, byte: u8) -> Option<Place> {
        let Items::Mentions(mentions) = &self.items else { return None };
        if byte == b'"' && !mentions.continues(&matches, byte) {
            let place = mentions.close(&matches, &state.written, state.last)?;
            return Some(state.finish(place, place));
        }
        mentions.extend(matches, byte, &state.written, state.last).map(Place::Mention)
    }

    fn head(&self, state: &State, mut options: Options, byte: u8) -> Option<Place> {
        let Items::Pairs(pairs) = &self.items else { return None };
        options.narrow(&pairs.heads, byte)?;
        let Some(head) = options.complete(&pairs.heads) else { return Some(Place::Head(options)) };
        let tails = Options::new(pairs.open_tails(state.types - 1, head, &state.written, state.last));
        Some(Place::Tail(head, tails))
    }

    fn tail(&self, state: &mut State, head: usize, mut options: Options, byte: u8) -> Option<Place> {
        let Items::Pairs(pairs) = &self.items else { return None };
        options.narrow(&pairs.tails, byte)?;
        let Some(tail) = options.complete(&pairs.tails) else { return Some(Place::Tail(head, options)) };
        let place = pairs.earliest(state.types - 1, (head, tail), state.last)?;
        Some(state.finish((head, tail), place))
    }
}

impl State {
    /// From here only these brackets are missing.
    fn stand(&mut self, brackets: &'static [u8], place: Place) -> Place {
        (self.loose, self.brackets) = (0, brackets);
        place
    }

    /// An item is written; `place` is the earliest that it can stand for.
    fn finish(&mut self, item: (usize, usize), place: (usize, usize)) -> Place {
        Arc::make_mut(&mut self.written).push(item);
        self.last = Some(place);
        self.stand(b"]}", Place::Item)
    }
}

fn key(label: &str) -> Vec<u8> {
    format!("\"{}\":[", escaped(label)).into_bytes()
}
