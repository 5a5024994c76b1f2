//! What the filter remembers of a document between its two readings: for each item a label, a score
//! and what rules it out, in some twenty bytes each; texts and turns are read again.

use std::fmt;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A typed mention.
    Entity,
    /// A link between two.
    Relation,
    /// A happening.
    Event,
}

impl Kind {
    /// All, in the order in which items stand.
    pub const ALL: [Kind; 3] = [Kind::Entity, Kind::Relation, Kind::Event];

    /// As in manifests: `entities`.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Entity => "entities",
            Kind::Relation => "relations",
            Kind::Event => "events",
        }
    }
}

macro_rules! reasons {
    ($(#[$about:meta])* $name:ident: $($(#[$doc:meta])* $variant:ident $text:literal)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant),* }

        impl $name {
            const ALL: &[$name] = &[$($name::$variant),*];

            /// In words, as they are counted.
            pub fn text(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}

reasons! {
    /// Why an item is not taught.
    Reason:
    /// It has no place in the text.
    NotFound "not found in the text"
    /// Its label is not asked.
    NoLabel "label that the schema does not have"
    /// The types of its ends are not those of its signature.
    Signature "relation that its signature does not allow"
    /// Its two ends are one mention.
    Itself "relation of a mention with itself"
    /// Longer than `filter.max_entity_chars`.
    TooLong "entity longer than filter.max_entity_chars"
    /// It overlaps another one that `filter.nesting` prefers.
    Nested "entity that overlaps another"
    /// The same symmetric relation stands in the other direction.
    Mirrored "symmetric relation said in both directions"
    /// The same item stands before it.
    Repeated "said twice"
    /// Another reading of the same place is surer.
    Contradicted "contradicted by a surer reading"
    /// Another reading of the same place is as sure.
    Undecided "contradicted by a reading that is as sure"
    /// Nobody was asked how sure.
    Unknown "nobody was asked how sure"
    /// Its confidence is below the threshold of entities.
    EntityUnsure "entity below the threshold"
    /// An end of it is not kept.
    Orphan "relation of a dropped entity"
    /// Its confidence is below the threshold of relations.
    RelationUnsure "relation below the threshold"
    /// Its confidence is below the threshold of events.
    EventUnsure "event below the threshold"
}

reasons! {
    /// Why a document is not taught.
    Cause:
    /// There is no text.
    Blank "blank"
    /// The record of its debate is not whole.
    NotWhole "an agent gave no usable answer"
    /// Longer than `filter.max_document_chars`.
    TooLong "longer than filter.max_document_chars"
    /// Too large a share of its entities is unsure.
    TooUnsure "too many items below the threshold"
    /// One of its items is unsure, and `filter.unsure_item` is `document`.
    Unsure "an item below the threshold"
    /// Two of its items contradict each other, and `filter.contradictory` is `document`.
    Contradictory "items that contradict each other"
    /// Another document has the same text.
    Copy "copy of another document"
    /// Another document has nearly the same text.
    NearCopy "nearly a copy of another document"
    /// It stands, in whole or nearly, in a measured split.
    Leaked "stands in a measured split"
    /// It holds numbers or addresses of people, and `filter.pii` is `drop`.
    People "numbers or addresses of people"
    /// Not among the surest of any of its types.
    NotSurest "not among the surest of a type"
    /// Its types have more documents than `filter.max_type_ratio` allows.
    Balanced "more documents of its types than the balance allows"
    /// More of those without an entity than `filter.negatives_share` allows.
    Negative "more empty documents than the share allows"
}

/// A label that the schema does not have.
pub(super) const NO_LABEL: u16 = u16::MAX;

/// One item of an outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// Ordinal of its label among the schema's of this kind; [`u16::MAX`] if there is none.
    pub label: u16,
    /// How sure the team is; `None` if nobody knows.
    pub score: Option<f64>,
    /// What rules it out whatever its score.
    pub ruled_out: Option<Reason>,
    /// Whether the gold has it; `None` where there is no gold.
    pub right: Option<bool>,
    /// Of a relation, the ordinals of its entities; of an entity, that of the first entity with its
    /// text, twice.
    pub ends: [u32; 2],
}

/// A document and its trace, weighed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weighed {
    /// A hash of the document's id: what decides where chance must.
    pub lot: u64,
    /// What rules it out whatever its items say.
    pub cause: Option<Cause>,
    /// Entities of the gold; `None` where there is none.
    pub gold: Option<u32>,
    /// Entities, relations, events, each in the order of the trace.
    pub items: Vec<Item>,
}

impl Weighed {
    /// The items of a kind with their ordinals among all.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = (usize, &Item)> {
        self.items.iter().enumerate().filter(move |(_, item)| item.kind == kind)
    }

    /// As bytes, for the disk.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(14 + 22 * self.items.len());
        bytes.extend(self.lot.to_le_bytes());
        bytes.push(self.cause.map_or(u8::MAX, |cause| cause as u8));
        bytes.extend(self.gold.unwrap_or(u32::MAX).to_le_bytes());
        for item in &self.items {
            bytes.push(item.kind as u8);
            bytes.push(item.ruled_out.map_or(u8::MAX, |reason| reason as u8));
            bytes.push(item.right.map_or(u8::MAX, u8::from));
            bytes.extend(item.label.to_le_bytes());
            bytes.extend(item.score.unwrap_or(f64::NAN).to_le_bytes());
            bytes.extend(item.ends.iter().flat_map(|end| end.to_le_bytes()));
        }
        bytes
    }

    /// What [`Weighed::bytes`] wrote; `None` for any other bytes.
    pub(super) fn read(bytes: &[u8]) -> Option<Weighed> {
        let (lot, rest) = bytes.split_first_chunk::<8>()?;
        let (&cause, rest) = rest.split_first()?;
        let (gold, rest) = rest.split_first_chunk::<4>()?;
        let item = |bytes: &[u8]| -> Option<Item> {
            let (&[kind, ruled_out, right], rest) = bytes.split_first_chunk::<3>()?;
            let (label, rest) = rest.split_first_chunk::<2>()?;
            let (score, rest) = rest.split_first_chunk::<8>()?;
            let (head, tail) = rest.split_first_chunk::<4>()?;
            let score = f64::from_le_bytes(*score);
            Some(Item {
                kind: *Kind::ALL.get(usize::from(kind))?,
                label: u16::from_le_bytes(*label),
                score: (!score.is_nan()).then_some(score),
                ruled_out: Reason::ALL.get(usize::from(ruled_out)).copied(),
                right: (right != u8::MAX).then_some(right == 1),
                ends: [u32::from_le_bytes(*head), u32::from_le_bytes(tail.try_into().ok()?)],
            })
        };
        let gold = u32::from_le_bytes(*gold);
        Some(Weighed {
            lot: u64::from_le_bytes(*lot),
            cause: Cause::ALL.get(usize::from(cause)).copied(),
            gold: (gold != u32::MAX).then_some(gold),
            items: rest.chunks(21).map(item).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn item() -> impl Strategy<Value = Item> {
        let reason = prop::option::of(0..Reason::ALL.len()).prop_map(|at| at.map(|at| Reason::ALL[at]));
        let score = prop::option::of(0.0..=1.0f64);
        (0..3usize, any::<u16>(), score, reason, any::<Option<bool>>(), any::<[u32; 2]>()).prop_map(
            |(kind, label, score, ruled_out, right, ends)| Item {
                kind: Kind::ALL[kind],
                label,
                score,
                ruled_out,
                right,
                ends,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            lot: u64,
            cause in prop::option::of(0..Cause::ALL.len()),
            gold in prop::option::of(0..1000u32),
            items in prop::collection::vec(item(), 0..9),
        ) {
            let weighed = Weighed { lot, cause: cause.map(|at| Cause::ALL[at]), gold, items };
            prop_assert_eq!(Weighed::read(&weighed.bytes()), Some(weighed.clone()));
            let mut cut = weighed.bytes();
            cut.pop();
            prop_assert_eq!(Weighed::read(&cut), None);
        }
    }
}
