//! brat standoff (Stenetorp et al., 2012): a directory of `.txt` files, each with its `.ann`, or with
//! `.a1` and `.a2` as in the BioNLP shared tasks; or one of these files. Code points, end exclusive.
//!
//! `T` is a mention or trigger, `R` a relation, `E` an event whose participants may be events;
//! discontinuous mentions are kept from their first to their last code point, and said. Attributes
//! (`A`, `M`), normalisations (`N`), notes (`#`) and equivalences (`*`) are counted as left out.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::{Format, Sample};
use super::input::Lines;
use crate::ie::Span;
use crate::store::StoreError;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};

pub(super) const BRAT: Format = Format {
    name: "brat",
    about: "brat standoff: a directory of .txt with .ann, or .a1 and .a2 (BioNLP, GENIA)",
    fits,
    read,
};

/// Longest text that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// Endings of annotation files.
const ENDINGS: [&str; 3] = ["ann", "a1", "a2"];

fn fits(sample: &Sample) -> Option<String> {
    let annotation = |line: &str| {
        let mut fields = line.split('\t');
        let id = fields.next().unwrap_or_default();
        let known = id.starts_with(['T', 'R', 'E', 'A', 'M', 'N', '#', '*']);
        let digits = id.get(1..).is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
        let numbered = id == "*" || digits;
        known && numbered && fields.next().is_some_and(|told| told.contains(' ') || told.contains(':'))
    };
    match sample {
        Sample::Folder(extensions) => ENDINGS
            .iter()
            .any(|ending| extensions.contains_key(*ending))
            .then(|| "a directory with .ann, .a1 or .a2 files".into()),
        Sample::Text(lines) => {
            let mut lines = lines.iter().filter(|line| !line.trim().is_empty()).peekable();
            (lines.peek().is_some() && lines.all(|line| annotation(line))).then(|| "lines of brat annotations".into())
        }
        Sample::Json { .. } => None,
    }
}

fn read(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    if !path.is_dir() {
        return sink(document(&path.with_extension("txt"))?);
    }
    let mut texts: BTreeSet<PathBuf> = BTreeSet::new();
    for entry in std::fs::read_dir(path).map_err(StoreError::io(path, "reading the directory"))? {
        let file = entry.map_err(StoreError::io(path, "reading the directory"))?.path();
        let ending = file.extension().unwrap_or_default().to_string_lossy().into_owned();
        if ending == "txt" || ENDINGS.contains(&ending.as_str()) {
            texts.insert(file.with_extension("txt"));
        }
    }
    texts.iter().try_for_each(|text| sink(document(text)?))
}

/// One text with its annotation files.
fn document(path: &Path) -> Result<Draft, StoreError> {
    let file = std::fs::File::open(path).map_err(StoreError::io(path, "opening the text of annotations"))?;
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(StoreError::io(path, "reading"))?;
    if bytes.len() as u64 > LONGEST {
        return Err(StoreError::file(path, format!("the text is longer than {} MiB", LONGEST >> 20)));
    }
    let text =
        String::from_utf8(bytes).map_err(|_| StoreError::file(path, "the text is not UTF-8; convert it with iconv"))?;
    let mut draft = Draft::of_text(1, text);
    draft.id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut marks = Marks::default();
    let mut annotated = false;
    for file in ENDINGS.map(|ending| path.with_extension(ending)) {
        // The test part of a shared task has .a1 alone: mentions are given, events are asked.
        if file.exists() {
            annotated |= file.extension().is_none_or(|ending| ending != "a1") || path.with_extension("a2").exists();
            marks.read(&file)?;
        }
    }
    marks.fill(&mut draft);
    Ok(if annotated { draft } else { draft.without_gold() })
}

/// A line with its number and the words behind its id.
struct Mark {
    line: usize,
    label: String,
    rest: Vec<String>,
    surface: String,
}

/// The annotations of one text, by kind and in order.
#[derive(Default)]
struct Marks {
    mentions: Vec<(String, Mark)>,
    relations: Vec<Mark>,
    events: Vec<(String, Mark)>,
    left_out: BTreeMap<&'static str, usize>,
}

impl Marks {
    fn read(&mut self, path: &Path) -> Result<(), StoreError> {
        let mut lines = Lines::open(path)?;
        while let Some((number, line)) = lines.next()? {
            if line.trim().is_empty() {
                continue;
            }
            let mut fields = line.splitn(3, '\t');
            let (id, told) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
            let mut words = told.split([' ', ';']).filter(|word| !word.is_empty()).map(str::to_string);
            let label = words.next().unwrap_or_default();
            let surface = fields.next().unwrap_or_default().to_string();
            let mark = Mark { line: number, label, rest: words.collect(), surface };
            match id.chars().next() {
                _ if mark.label.is_empty() => {
                    let said = format!("expected an id, a tab and a label, found {}", shown(line));
                    return Err(StoreError::line(path, number, said));
                }
                Some('T') => self.mentions.push((id.into(), mark)),
                Some('R') => self.relations.push(mark),
                Some('E') => self.events.push((id.into(), mark)),
                Some('A' | 'M') => *self.left_out.entry("attributes").or_default() += 1,
                Some('N') => *self.left_out.entry("normalisations").or_default() += 1,
                Some('#') => *self.left_out.entry("notes").or_default() += 1,
                Some('*') => *self.left_out.entry("equivalences").or_default() += 1,
                _ => {
                    let said = format!("expected an id that begins with T, R, E, A, M, N, # or *, found {}", shown(id));
                    return Err(StoreError::line(path, number, said));
                }
            }
        }
        Ok(())
    }

    fn fill(&self, draft: &mut Draft) {
        let triggers: BTreeSet<&str> =
            self.events.iter().filter_map(|(_, event)| colon(&event.label)).map(|(_, id)| id).collect();
        let mut spans: HashMap<&str, Span> = HashMap::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (id, mark) in &self.mentions {
            draft.line = mark.line;
            let Some(span) = located(draft, mark) else { continue };
            spans.insert(id, span);
            if !triggers.contains(id.as_str()) {
                places.insert(id, draft.entity(&mark.label, Some(span), ""));
            }
        }
        for relation in &self.relations {
            draft.line = relation.line;
            let ends: Vec<&str> = relation.rest.iter().filter_map(|word| colon(word)).map(|(_, id)| id).collect();
            let end = |at: usize| {
                let id = ends.get(at).copied().unwrap_or_default();
                (shown(id), places.get(id).copied())
            };
            draft.relation_between(&relation.label, end(0), end(1));
        }
        let by_id: HashMap<&str, &str> =
            self.events.iter().filter_map(|(id, event)| Some((id.as_str(), colon(&event.label)?.1))).collect();
        for (_, mark) in &self.events {
            draft.line = mark.line;
            self.event(draft, mark, &spans, &by_id);
        }
        draft.line = 1;
        for (what, count) in &self.left_out {
            draft.say(Kind::LeftOut, format!("{count} {what}"));
        }
    }

    /// An event; one that takes part in another is stood for by its trigger.
    fn event(&self, draft: &mut Draft, mark: &Mark, spans: &HashMap<&str, Span>, events: &HashMap<&str, &str>) {
        let (label, trigger) = colon(&mark.label).unwrap_or((&mark.label, ""));
        let Some(span) = spans.get(trigger).copied() else {
            draft.say(Kind::MissingEnd, format!("event {label}: its trigger {} is no mention", shown(trigger)));
            return;
        };
        let at = draft.event(label, Some(span), "");
        for (role, id) in mark.rest.iter().filter_map(|word| colon(word)) {
            let target = events.get(id).copied().unwrap_or(id);
            match spans.get(target) {
                Some(span) => draft.argument(at, role, Some(*span), ""),
                None => draft.say(Kind::MissingEnd, format!("event {label}: its {role} {} is no mention", shown(id))),
            }
        }
    }
}

fn colon(word: &str) -> Option<(&str, &str)> {
    word.split_once(':')
}

/// The span of a mention, from its first to its last code point.
fn located(draft: &mut Draft, mark: &Mark) -> Option<Span> {
    let numbers: Option<Vec<i64>> = mark.rest.iter().map(|word| word.parse().ok()).collect();
    let (first, last) = match numbers.as_deref() {
        Some([first, .., last]) => (*first, *last),
        _ => {
            draft.say(
                Kind::Outside,
                format!("{}: expected two code points, found {}", mark.label, shown(&mark.rest.join(" "))),
            );
            return None;
        }
    };
    if mark.rest.len() > 2 {
        draft.say(Kind::LeftOut, format!("{}: the gaps of a discontinuous mention", mark.label));
        return draft.point_span(&mark.label, None, first, last);
    }
    let surface = Some(mark.surface.as_str()).filter(|surface| !surface.is_empty());
    // brat writes a line break inside a mention as a space.
    let there = draft.span(first, last).map(|span| span.slice(draft.text()).replace(['\n', '\r'], " "));
    match (surface, there) {
        (Some(surface), Some(there)) if surface == there => draft.span(first, last),
        _ => draft.point_span(&mark.label, surface, first, last),
    }
}
