//! What is wrong, or odd, in a native data set: each fault has a kind, a weight and a place.

/// How much a fault weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The item cannot be kept as it is written.
    Broken,
    /// The item is kept, but not as it is written.
    Repaired,
    /// Odd, and kept as it is written.
    Note,
}

impl Weight {
    /// The word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Weight::Broken => "broken",
            Weight::Repaired => "repaired",
            Weight::Note => "note",
        }
    }
}

/// Kinds of faults, the heavy ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Offsets or token indexes that lie outside the text.
    Outside,
    /// A surface that is not the text under its offsets and stands nowhere near them.
    Mismatch,
    /// A relation or argument that names a mention which is not there.
    MissingEnd,
    /// Most relations of a set lead from a mention to itself: arguments were collapsed.
    Collapsed,
    /// A label that the schema does not have, or an empty one.
    UnknownLabel,
    /// A relation whose ends have types that the schema does not allow.
    Signature,
    /// Offsets that were moved to where the surface stands.
    Moved,
    /// A surface that does not stand in the text; kept without offsets.
    NotFound,
    /// Tags that their scheme does not allow, read as conlleval reads them.
    Tags,
    /// An id that an earlier document has; a number was added.
    DuplicateId,
    /// Something else that the reader put right, as it says.
    Mended,
    /// A mention that begins or ends inside a word.
    CutsWord,
    /// A surface without offsets that stands several times in the text; a rule chose one.
    Ambiguous,
    /// An item that is written twice.
    DuplicateItem,
    /// A text that an earlier document has.
    DuplicateText,
    /// A relation from a mention to itself.
    SelfRelation,
    /// One mention with two types.
    TwoTypes,
    /// A token without a character.
    EmptyToken,
    /// A document without a text.
    EmptyText,
    /// What the format says and documents cannot hold.
    LeftOut,
}

/// All kinds, in the order of tables.
pub(super) const KINDS: [Kind; 20] = [
    Kind::Outside,
    Kind::Mismatch,
    Kind::MissingEnd,
    Kind::Collapsed,
    Kind::UnknownLabel,
    Kind::Signature,
    Kind::Moved,
    Kind::NotFound,
    Kind::Tags,
    Kind::DuplicateId,
    Kind::Mended,
    Kind::CutsWord,
    Kind::Ambiguous,
    Kind::DuplicateItem,
    Kind::DuplicateText,
    Kind::SelfRelation,
    Kind::TwoTypes,
    Kind::EmptyToken,
    Kind::EmptyText,
    Kind::LeftOut,
];

impl Kind {
    /// How much it weighs.
    pub fn weight(self) -> Weight {
        match self {
            Kind::Outside
            | Kind::Mismatch
            | Kind::MissingEnd
            | Kind::Collapsed
            | Kind::UnknownLabel
            | Kind::Signature => Weight::Broken,
            Kind::Moved | Kind::NotFound | Kind::Tags | Kind::DuplicateId | Kind::Mended => Weight::Repaired,
            _ => Weight::Note,
        }
    }

    /// The word for `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Outside => "outside_text",
            Kind::Mismatch => "text_mismatch",
            Kind::MissingEnd => "missing_end",
            Kind::Collapsed => "collapsed_relations",
            Kind::UnknownLabel => "unknown_label",
            Kind::Signature => "signature",
            Kind::Moved => "offsets_moved",
            Kind::NotFound => "not_found",
            Kind::Tags => "irregular_tags",
            Kind::DuplicateId => "duplicate_id",
            Kind::Mended => "mended",
            Kind::CutsWord => "cuts_word",
            Kind::Ambiguous => "ambiguous_surface",
            Kind::DuplicateItem => "duplicate_item",
            Kind::DuplicateText => "duplicate_text",
            Kind::SelfRelation => "self_relation",
            Kind::TwoTypes => "two_types",
            Kind::EmptyToken => "empty_token",
            Kind::EmptyText => "empty_text",
            Kind::LeftOut => "left_out",
        }
    }

    /// What it means, for tables.
    pub fn meaning(self) -> &'static str {
        match self {
            Kind::Outside => "offsets outside the text",
            Kind::Mismatch => "surface differs from the text under its offsets",
            Kind::MissingEnd => "relation or argument names a mention that is not there",
            Kind::Collapsed => "relations lead from mentions to themselves throughout",
            Kind::UnknownLabel => "label that the schema does not have, or an empty one",
            Kind::Signature => "ends whose types the schema does not allow",
            Kind::Moved => "offsets moved to where the surface stands",
            Kind::NotFound => "surface that is not in the text; kept without offsets",
            Kind::Tags => "tags that their scheme does not allow; read as conlleval does",
            Kind::DuplicateId => "id of an earlier document; a number was added",
            Kind::Mended => "put right by the reader",
            Kind::CutsWord => "mention that begins or ends inside a word",
            Kind::Ambiguous => "surface without offsets that stands several times; one was chosen",
            Kind::DuplicateItem => "item written twice",
            Kind::DuplicateText => "text of an earlier document",
            Kind::SelfRelation => "relation from a mention to itself",
            Kind::TwoTypes => "mention with two types",
            Kind::EmptyToken => "token without a character",
            Kind::EmptyText => "document without a text",
            Kind::LeftOut => "annotation that documents cannot hold",
        }
    }
}

/// One fault, with its place inside the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// Line of the document or record, counting from 1.
    pub line: usize,
    /// Expected and found.
    pub message: String,
}

/// Longest message that is shown, in code points: labels and words of a file may be of any length.
pub(super) const LONGEST: usize = 400;

/// A text, cut where it is too long for a message.
pub(super) fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_string(),
    }
}

/// A text for a message: in quotes, and not longer than a line.
pub(super) fn shown(text: &str) -> String {
    let mut start = text.chars();
    let head: String = start.by_ref().take(60).collect();
    if start.next().is_some() { format!("{:?}…", head) } else { format!("{head:?}") }
}
