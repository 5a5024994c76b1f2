//! Mentions from tags, one a token: IO, IOB1, IOB2 (BIO), BIOES (BMES, BMEWO) and BILOU.
//!
//! One decoder reads them all as conlleval does: a mention begins where its tag says so, and where
//! a tag continues what is not there. So a wrong tag costs no mention, and is counted.

/// How tags mark where mentions begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The label alone, or `I-` alone: touching mentions of one type are one.
    Io,
    /// `B-` only between two touching mentions of one type.
    Iob1,
    /// `B-` begins every mention.
    Iob2,
    /// The last token is marked too, and so is a single one: BIOES, BILOU, BMES.
    Bioes,
}

impl Scheme {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Io => "io",
            Scheme::Iob1 => "iob1",
            Scheme::Iob2 => "iob2",
            Scheme::Bioes => "bioes",
        }
    }
}

/// What a tag says of its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Outside,
    Begin,
    Inside,
    End,
    Single,
}

/// A tag in its parts; `None` if it is no tag at all.
fn parts(tag: &str) -> Option<(Place, &str)> {
    if tag == "O" || tag == "o" {
        return Some((Place::Outside, ""));
    }
    let mut letters = tag.char_indices();
    let (_, first) = letters.next()?;
    let (at, _) = letters.next().filter(|(_, sign)| matches!(sign, '-' | '_'))?;
    let label = &tag[at + 1..];
    let place = match first.to_ascii_uppercase() {
        'B' => Place::Begin,
        'I' | 'M' => Place::Inside,
        'E' | 'L' => Place::End,
        'S' | 'U' | 'W' => Place::Single,
        _ => return None,
    };
    (!label.is_empty()).then_some((place, label))
}

/// Whether a word could be a tag.
pub(super) fn is_tag(word: &str) -> bool {
    parts(word).is_some()
}

/// A mention over tokens `start..end`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chunk {
    pub(super) label: String,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Mentions of one sentence, and the tokens whose tags the scheme does not allow.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Decoded {
    pub(super) chunks: Vec<Chunk>,
    /// Token and what is wrong there.
    pub(super) irregular: Vec<(usize, String)>,
}

/// Reads the tags of one sentence. A word that is no tag is read as a bare label in [`Scheme::Io`],
/// and is irregular elsewhere.
pub(super) fn decode(tags: &[impl AsRef<str>], scheme: Scheme) -> Decoded {
    let mut found = Decoded::default();
    let mut open: Option<Chunk> = None;
    // Whether the mention that is open may end here: only BIOES marks ends.
    let mut closed = true;
    let mut last = ("O".to_string(), "".to_string());
    for (at, tag) in tags.iter().map(AsRef::as_ref).enumerate() {
        let (place, label) = match parts(tag) {
            Some(parts) => parts,
            None if scheme == Scheme::Io => (Place::Inside, tag),
            None => {
                found.irregular.push((at, format!("{tag:?} is no tag; read as O")));
                (Place::Outside, "")
            }
        };
        let goes_on = open.as_ref().is_some_and(|chunk| chunk.label == label) && !closed_by(scheme, &last.0);
        let wrong = match (place, scheme) {
            (Place::Inside, Scheme::Iob1 | Scheme::Io) => false,
            (Place::Inside | Place::End, _) => !goes_on,
            (Place::Begin, Scheme::Iob1) => open.as_ref().is_none_or(|chunk| chunk.label != label),
            (Place::Outside | Place::Begin | Place::Single, Scheme::Bioes) => open.is_some() && !closed,
            _ => false,
        };
        if wrong {
            found.irregular.push((at, format!("tag {tag:?} follows {:?}", last.0)));
        }
        let continues = matches!(place, Place::Inside | Place::End) && goes_on;
        if !continues {
            found.chunks.extend(open.take());
        }
        match (place, open.as_mut()) {
            (Place::Outside, _) => {}
            (_, Some(chunk)) => chunk.end = at + 1,
            (_, None) => open = Some(Chunk { label: label.into(), start: at, end: at + 1 }),
        }
        closed = matches!(place, Place::Outside | Place::End | Place::Single);
        last = (tag.into(), label.into());
    }
    if scheme == Scheme::Bioes && open.is_some() && !closed {
        found.irregular.push((tags.len() - 1, format!("tag {:?} ends the sentence", last.0)));
    }
    found.chunks.extend(open);
    found
}

/// Whether this tag ended its mention: what follows begins a new one.
fn closed_by(scheme: Scheme, tag: &str) -> bool {
    scheme == Scheme::Bioes && matches!(parts(tag), Some((Place::End | Place::Single, _)))
}

/// What the tags of a file have shown so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    bare: usize,
    ends: usize,
    begins: usize,
    /// `B-` where IOB1 would write `I-`.
    needless: usize,
    /// `I-` that begins a mention.
    orphans: usize,
}

impl Evidence {
    /// Looks at one sentence.
    pub(super) fn take(&mut self, tags: &[impl AsRef<str>]) {
        let mut before = (Place::Outside, "");
        for tag in tags {
            let Some((place, label)) = parts(tag.as_ref()) else {
                self.bare += 1;
                before = (Place::Outside, "");
                continue;
            };
            let same = before.0 != Place::Outside && before.1 == label;
            match place {
                Place::Begin => {
                    self.begins += 1;
                    self.needless += usize::from(!same);
                }
                Place::Inside => self.orphans += usize::from(!same),
                Place::End | Place::Single => self.ends += 1,
                Place::Outside => {}
            }
            before = (place, label);
        }
    }

    /// The scheme that explains most, and why.
    pub(super) fn scheme(&self) -> (Scheme, String) {
        let Evidence { bare, ends, begins, needless, orphans } = self;
        match self {
            _ if *ends > 0 => (Scheme::Bioes, format!("{ends} tags mark an end or a single token")),
            _ if *bare > 0 && *begins == 0 => (Scheme::Io, format!("{bare} tags are bare labels")),
            _ if *begins == 0 => (Scheme::Io, "no tag begins with B".into()),
            _ if needless <= orphans && *orphans > 0 => {
                (Scheme::Iob1, format!("{orphans} mentions begin with I, and {needless} need no B but have one"))
            }
            _ => (Scheme::Iob2, format!("{needless} mentions begin with B")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tags: &str, scheme: Scheme) -> (String, usize) {
        let tags: Vec<&str> = tags.split(' ').collect();
        let found = decode(&tags, scheme);
        let listed: Vec<String> =
            found.chunks.iter().map(|chunk| format!("{}:{}-{}", chunk.label, chunk.start, chunk.end)).collect();
        (listed.join(" "), found.irregular.len())
    }

    fn guessed(tags: &str) -> Scheme {
        let mut evidence = Evidence::default();
        for sentence in tags.split('/') {
            evidence.take(&sentence.split(' ').collect::<Vec<_>>());
        }
        evidence.scheme().0
    }

    #[test]
    fn four_schemes_say_the_same_in_their_own_way() {
        // PER over two tokens, LOC, LOC touching it, nothing, ORG.
        let wanted = ("PER:0-2 LOC:2-3 LOC:3-4 ORG:5-6".to_string(), 0);
        for (tags, scheme) in [
            ("I-PER I-PER I-LOC B-LOC O I-ORG", Scheme::Iob1),
            ("B-PER I-PER B-LOC B-LOC O B-ORG", Scheme::Iob2),
            ("B-PER E-PER S-LOC S-LOC O S-ORG", Scheme::Bioes),
            ("B-PER L-PER U-LOC U-LOC O U-ORG", Scheme::Bioes),
        ] {
            assert_eq!(read(tags, scheme), wanted, "{tags}");
            assert_eq!(guessed(tags), scheme, "{tags}");
        }
        assert_eq!(read("B-PER M-PER E-PER", Scheme::Bioes), ("PER:0-3".into(), 0));
    }

    #[test]
    fn a_label_is_what_stands_behind_the_first_hyphen() {
        assert_eq!(read("B-creative-work I-creative-work", Scheme::Iob2), ("creative-work:0-2".into(), 0));
        assert_eq!(read("B-PER.NOM", Scheme::Iob2), ("PER.NOM:0-1".into(), 0));
    }

    #[test]
    fn a_wrong_tag_costs_no_mention_and_is_counted() {
        // The reading of conlleval: each begins a mention of its own.
        assert_eq!(read("O I-LOC I-PER", Scheme::Iob2), ("LOC:1-2 PER:2-3".into(), 2));
        assert_eq!(read("B-LOC I-PER", Scheme::Iob2), ("LOC:0-1 PER:1-2".into(), 1));
        assert_eq!(read("B-LOC O E-LOC O", Scheme::Bioes), ("LOC:0-1 LOC:2-3".into(), 2));
        assert_eq!(read("O B-LOC O", Scheme::Iob1), ("LOC:1-2".into(), 1));
        assert_eq!(read("B-LOC I-LOC", Scheme::Bioes), ("LOC:0-2".into(), 1));
        assert_eq!(read("B-LOC ?? I-LOC", Scheme::Iob2), ("LOC:0-1 LOC:2-3".into(), 2));
        assert_eq!(read("S-LOC I-LOC E-LOC", Scheme::Bioes), ("LOC:0-1 LOC:1-3".into(), 1));
    }

    #[test]
    fn bare_labels_and_missing_begin_marks_are_read_as_io() {
        assert_eq!(guessed("I-LOC I-LOC O/O I-PER"), Scheme::Io);
        assert_eq!(guessed("LOC LOC O/O PER"), Scheme::Io);
        assert_eq!(read("LOC LOC O PER", Scheme::Io), ("LOC:0-2 PER:3-4".into(), 0));
    }

    #[test]
    fn one_slip_does_not_change_the_scheme() {
        assert_eq!(guessed("B-LOC I-LOC/B-PER/B-PER/O I-ORG"), Scheme::Iob2);
        assert_eq!(guessed("I-LOC I-LOC/I-PER/O I-ORG/O B-MISC/I-LOC B-LOC"), Scheme::Iob1);
    }
}
