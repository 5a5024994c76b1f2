//! The XML of the LDC: ACE 2005 (`.apf.xml` beside its `.sgm`) and Rich ERE (`.rich_ere.xml` with its
//! source beside it or in `../source`). A file or a directory of them.
//!
//! ACE counts the characters of the text without its tags, ends inclusive, and mentions are scored
//! by their heads. ERE counts those of the source as it stands, by offset and length. Both count a
//! reference such as `&amp;` as it is written; the document has it resolved, and offsets follow.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::{Format, Sample};
use super::xml::{Piece, Pieces, reference};
use crate::ie::Span;
use crate::store::StoreError;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

pub(super) const ACE: Format = Format {
    name: "ace",
    about: "ACE 2005: .apf.xml with its .sgm, a file or a directory; mentions by their heads",
    fits: |sample| match sample {
        Sample::Folder(endings) => (endings.contains_key("sgm") && endings.contains_key("xml"))
            .then(|| "a directory with .sgm and .xml".into()),
        _ => opens_with(sample, "<source_file"),
    },
    read: |path, _: &Options, sink| each_file(path, ".apf.xml", sink, ace),
};

pub(super) const ERE: Format = Format {
    name: "ere",
    about: "Rich ERE: .rich_ere.xml with its source beside it or in ../source",
    fits: |sample| match sample {
        Sample::Folder(_) => None,
        _ => opens_with(sample, "<deft_ere"),
    },
    read: |path, _: &Options, sink| each_file(path, ".rich_ere.xml", sink, ere),
};

/// Longest file that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// Lines in which the root element must open.
const HEAD: usize = 10;

fn opens_with(sample: &Sample, root: &str) -> Option<String> {
    let Sample::Text(lines) = sample else { return None };
    lines.iter().take(HEAD).any(|line| line.contains(root)).then(|| format!("{root}…>"))
}

fn each_file(
    path: &Path,
    ending: &str,
    sink: &mut Sink,
    read: fn(&Path) -> Result<Draft, StoreError>,
) -> Result<(), StoreError> {
    if !path.is_dir() {
        return sink(read(path)?);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(StoreError::io(path, "reading the directory"))? {
        let file = entry.map_err(StoreError::io(path, "reading the directory"))?.path();
        files.extend(file.to_string_lossy().ends_with(ending).then_some(file));
    }
    files.sort();
    files.iter().try_for_each(|file| sink(read(file)?))
}

fn whole(path: &Path) -> Result<String, StoreError> {
    let file = std::fs::File::open(path).map_err(StoreError::io(path, "opening"))?;
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(StoreError::io(path, "reading"))?;
    if bytes.len() as u64 > LONGEST {
        return Err(StoreError::file(path, format!("the file is longer than {} MiB", LONGEST >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| StoreError::file(path, "the file is not UTF-8; convert it with iconv"))
}

/// A text with its references resolved, and where each code point of the source went.
struct Source {
    text: String,
    /// Code point of the text by code point of the source.
    places: Vec<i64>,
}

impl Source {
    /// With `tags`, what stands in angle brackets counts and stays.
    fn new(raw: &str, tags: bool) -> Source {
        let (mut text, mut places, mut length) = (String::new(), Vec::new(), 0);
        let mut rest = raw;
        while let Some(c) = rest.chars().next() {
            let tag = if c == '<' && !tags { rest.find('>') } else { None };
            if let Some(end) = tag {
                rest = &rest[end + 1..];
                continue;
            }
            let (c, bytes) = if c == '&' { reference(rest).unwrap_or((c, 1)) } else { (c, c.len_utf8()) };
            places.extend(rest[..bytes].chars().map(|_| length));
            text.push(c);
            length += 1;
            rest = &rest[bytes..];
        }
        places.push(length);
        Source { text, places }
    }

    /// Offsets of the source as offsets of the text; what lies outside stays outside.
    fn span(&self, draft: &mut Draft, what: &str, words: &str, start: i64, end: i64) -> Option<Span> {
        let place = |at: i64| usize::try_from(at).ok().and_then(|at| self.places.get(at).copied()).unwrap_or(at);
        draft.point_span(what, Some(words).filter(|words| !words.is_empty()), place(start), place(end))
    }
}

/// A file as a list of elements with their text: enough for files in which order says the rest.
struct Element {
    line: usize,
    piece: Piece,
    text: String,
}

impl Element {
    fn name(&self) -> &str {
        match &self.piece {
            Piece::Open { name, .. } => name,
            _ => "",
        }
    }

    fn get(&self, key: &str) -> &str {
        self.piece.attribute(key).unwrap_or_default()
    }

    fn number(&self, key: &str) -> i64 {
        self.get(key).parse().unwrap_or(-1)
    }
}

fn elements(path: &Path) -> Result<Vec<Element>, StoreError> {
    let text = whole(path)?;
    let mut pieces = Pieces::new(&text);
    let mut found: Vec<Element> = Vec::new();
    // Text belongs to the element that opened last and has not closed.
    let mut fresh = false;
    loop {
        let line = pieces.line();
        match pieces.next().map_err(|said| StoreError::line(path, line, said))? {
            None => return Ok(found),
            Some(Piece::Text(text)) if fresh => {
                if let Some(last) = found.last_mut() {
                    last.text.push_str(&text);
                }
            }
            Some(Piece::Text(_)) => {}
            Some(Piece::Close(_)) => fresh = false,
            Some(piece) => {
                fresh = !matches!(piece, Piece::Open { closed: true, .. });
                found.push(Element { line, piece, text: String::new() });
            }
        }
    }
}

/// Mentions by id, as they were found.
type Places = HashMap<String, (Option<usize>, Option<Span>)>;

fn stem(path: &Path, ending: &str) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(ending).or_else(|| name.strip_suffix(".xml")).unwrap_or(&name).to_string()
}

// ────────────────────────────────────────── ACE ──────────────────────────────────────────

fn ace(path: &Path) -> Result<Draft, StoreError> {
    let stem = stem(path, ".apf.xml");
    let raw = whole(&path.with_file_name(format!("{stem}.sgm")))?;
    let source = Source::new(&raw, false);
    let elements = elements(path)?;
    let mut draft = Draft::of_text(1, source.text.as_str());
    draft.id = Some(stem);
    let mut places = Places::new();
    // What encloses the present element.
    let (mut label, mut mention, mut part) = (String::new(), String::new(), String::new());
    let mut heads: HashMap<String, usize> = HashMap::new();
    let mut spans: Vec<(String, String, i64, i64, String, usize)> = Vec::new();
    for element in &elements {
        match element.name() {
            "entity" | "value" | "timex2" => {
                let kind = element.get("TYPE");
                label = if element.name() == "timex2" { "TIME".into() } else { kind.to_string() };
            }
            "entity_mention" | "value_mention" | "timex2_mention" => mention = element.get("ID").into(),
            "relation" | "event" => mention.clear(),
            name @ ("extent" | "head") => part = name.into(),
            "charseq" if !mention.is_empty() && (part == "head" || part == "extent") => {
                let (start, end) = (element.number("START"), element.number("END").saturating_add(1));
                let item = (mention.clone(), label.clone(), start, end, element.text.clone(), element.line);
                match heads.get(&mention).copied().filter(|_| part == "head") {
                    Some(at) => spans[at] = item,
                    None => {
                        heads.insert(mention.clone(), spans.len());
                        spans.push(item);
                    }
                }
            }
            _ => {}
        }
    }
    for (id, label, start, end, words, line) in spans {
        draft.line = line;
        let span = source.span(&mut draft, &label, &words, start, end);
        let at = span.map(|span| draft.entity(&label, Some(span), ""));
        places.insert(id, (at, span));
    }
    ace_links(&mut draft, &source, &elements, &places);
    Ok(draft)
}

/// Relations and events, whose mentions name mentions.
fn ace_links(draft: &mut Draft, source: &Source, elements: &[Element], places: &Places) {
    let (mut label, mut anchored) = (String::new(), false);
    let mut ends: [Option<String>; 2] = [None, None];
    let mut event: Option<usize> = None;
    let mut waiting: Vec<(String, String)> = Vec::new();
    for element in elements {
        draft.line = element.line;
        match element.name() {
            "relation" => {
                label = element.get("TYPE").into();
                ends = [None, None];
            }
            "relation_mention" => ends = [None, None],
            "relation_mention_argument" => {
                let at = match element.get("ROLE") {
                    "Arg-1" => 0,
                    "Arg-2" => 1,
                    _ => continue,
                };
                ends[at] = Some(element.get("REFID").into());
                if let [Some(head), Some(tail)] = &ends {
                    let place = |id: &str| (shown(id), places.get(id).and_then(|(at, _)| *at));
                    draft.relation_between(&label, place(head), place(tail));
                    ends = [None, None];
                }
            }
            "event" => {
                label = format!("{}:{}", element.get("TYPE"), element.get("SUBTYPE"));
                event = None;
            }
            "event_mention" => {
                (event, anchored) = (None, false);
                waiting.clear();
            }
            "anchor" => anchored = true,
            "charseq" if anchored => {
                anchored = false;
                let (start, end) = (element.number("START"), element.number("END").saturating_add(1));
                let span = source.span(draft, &label, &element.text, start, end);
                event = span.map(|span| draft.event(&label, Some(span), ""));
                for (role, id) in std::mem::take(&mut waiting) {
                    argument(draft, event, &role, &id, places);
                }
            }
            "event_mention_argument" => {
                let (role, id) = (element.get("ROLE"), element.get("REFID"));
                match event {
                    Some(_) => argument(draft, event, role, id, places),
                    None => waiting.push((role.into(), id.into())),
                }
            }
            _ => {}
        }
    }
    draft.line = 1;
}

fn argument(draft: &mut Draft, event: Option<usize>, role: &str, id: &str, places: &Places) {
    let Some(event) = event else { return };
    match places.get(id) {
        Some((_, Some(span))) => draft.argument(event, role, Some(*span), ""),
        _ => draft.say(Kind::MissingEnd, format!("{role} {} is no mention", shown(id))),
    }
}

// ────────────────────────────────────────── ERE ──────────────────────────────────────────

/// The source of an ERE file: beside it, or in a neighbouring `source`.
fn ere_source(path: &Path, stem: &str) -> Option<PathBuf> {
    let here = path.parent()?;
    let beside = here.parent().map(|above| above.join("source"));
    let folders = [Some(here.to_path_buf()), beside];
    let endings = ["txt", "cmp.txt", "mp.txt", "xml", "mpdf.xml"];
    let candidates =
        folders.into_iter().flatten().flat_map(|folder| endings.map(|end| folder.join(format!("{stem}.{end}"))));
    candidates.into_iter().find(|candidate| candidate.is_file() && candidate != path)
}

fn ere(path: &Path) -> Result<Draft, StoreError> {
    let stem = stem(path, ".rich_ere.xml");
    let Some(file) = ere_source(path, &stem) else {
        let said = format!(
            "its source {stem}.txt, .cmp.txt, .mp.txt or .xml stands neither beside it nor in ../source; put it there"
        );
        return Err(StoreError::file(path, said));
    };
    let source = Source::new(&whole(&file)?, true);
    let elements = elements(path)?;
    let mut draft = Draft::of_text(1, source.text.as_str());
    draft.id = Some(stem);
    let mut places = Places::new();
    let mut label = String::new();
    for (at, element) in elements.iter().enumerate() {
        let words = match element.name() {
            "entity" => {
                label = element.get("type").into();
                continue;
            }
            "filler" => {
                label = element.get("type").into();
                element.text.clone()
            }
            "entity_mention" => {
                let next = elements.get(at + 1).filter(|next| next.name() == "mention_text");
                next.map_or(String::new(), |next| next.text.clone())
            }
            _ => continue,
        };
        draft.line = element.line;
        let (start, length) = (element.number("offset"), element.number("length"));
        let span = source.span(&mut draft, &label, &words, start, start.saturating_add(length));
        let at = span.map(|span| draft.entity(&label, Some(span), ""));
        places.insert(element.get("id").into(), (at, span));
    }
    ere_links(&mut draft, &source, &elements, &places);
    Ok(draft)
}

fn ere_links(draft: &mut Draft, source: &Source, elements: &[Element], places: &Places) {
    let (mut relation, mut label, mut event) = (String::new(), String::new(), None);
    let mut head: Option<String> = None;
    let id = |element: &Element| {
        let mention = element.get("entity_mention_id");
        if mention.is_empty() { element.get("filler_id").to_string() } else { mention.to_string() }
    };
    for element in elements {
        draft.line = element.line;
        match element.name() {
            "relation" => relation = format!("{}.{}", element.get("type"), element.get("subtype")),
            "rel_arg1" => head = Some(id(element)),
            "rel_arg2" => {
                let place = |id: &str| (shown(id), places.get(id).and_then(|(at, _)| *at));
                let from = head.take().unwrap_or_default();
                draft.relation_between(&relation, place(&from), place(&id(element)));
            }
            "event_mention" => {
                label = format!("{}.{}", element.get("type"), element.get("subtype"));
                event = None;
            }
            "trigger" => {
                let (start, length) = (element.number("offset"), element.number("length"));
                let span = source.span(draft, &label, &element.text, start, start.saturating_add(length));
                event = span.map(|span| draft.event(&label, Some(span), ""));
            }
            "em_arg" => argument(draft, event, element.get("role"), &id(element), places),
            _ => {}
        }
    }
    draft.line = 1;
}
