//! CoNLL column files: a token and its tag on a line, other columns between them, a blank line
//! after a sentence, `-DOCSTART-` before a document.
//!
//! Read twice: the tags of the whole file say which scheme they follow, and a file is never held
//! in memory. CoNLL-2003 (IOB1), CoNLL++, WNUT17 (IOB2), WikiGold (IO), Weibo (a digit behind each
//! character) and BIOES copies come out of one reader.

use super::convert::{Options, Sink, Unit};
use super::draft::Draft;
use super::finding::Kind;
use super::format::{Format, Sample};
use super::input::Lines;
use super::join::{Joiner, is_unspaced};
use super::tags::{Evidence, Scheme, decode, is_tag};
use crate::store::StoreError;
use serde_json::json;
use std::path::Path;

pub(super) const CONLL: Format = Format {
    name: "conll",
    about: "columns, token first, tag last: IO, IOB1, IOB2, BIOES, BILOU (CoNLL-2003, WNUT17)",
    fits,
    read,
};

/// Tokens after which a file in characters is held for one that carries segmentation digits.
const ENOUGH: usize = 20;

/// A line as it is read.
enum Row<'a> {
    Blank,
    Border,
    Comment,
    Token { token: String, tag: &'a str, mended: bool },
}

/// How the columns of a file stand; the first token's line fixes their number.
#[derive(Default)]
struct Columns {
    expected: Option<usize>,
    /// Counting from 0; `None` is the last.
    tag: Option<usize>,
}

impl Columns {
    fn row<'a>(&mut self, line: &'a str) -> Result<Row<'a>, String> {
        if line.trim_matches([' ', '\t']).is_empty() {
            return Ok(Row::Blank);
        }
        if line.starts_with("-DOCSTART-") {
            return Ok(Row::Border);
        }
        let tabs = line.contains('\t');
        let fields: Vec<&str> =
            if tabs { line.split('\t').collect() } else { line.split(' ').filter(|field| !field.is_empty()).collect() };
        let odd = fields.len() - self.expected.unwrap_or(fields.len()).min(fields.len());
        let tag = match self.tag {
            Some(at) => fields.get(at.saturating_add(odd)).copied(),
            None => fields.last().copied(),
        };
        let tag = tag.unwrap_or_default().trim_matches(' ');
        if line.starts_with('#') && (!is_tag(tag) || self.expected.is_some_and(|expected| expected != fields.len())) {
            return Ok(Row::Comment);
        }
        let expected = *self.expected.get_or_insert(fields.len());
        if fields.len() < 2 || self.tag.is_some_and(|at| at >= fields.len()) {
            let wanted = self.tag.map_or("a token and its tag".into(), |at| format!("a tag in column {}", at + 1));
            return Err(format!(
                "expected {wanted}, found {} column(s): {}",
                fields.len(),
                super::finding::shown(line)
            ));
        }
        if fields.len() < expected || (odd > 0 && tabs) {
            let found = fields.len();
            return Err(format!("expected {expected} columns as in the lines before, found {found}"));
        }
        // More columns between spaces than elsewhere: the token has a space in it.
        Ok(Row::Token { token: fields[..=odd].join(" "), tag, mended: odd > 0 })
    }
}

fn fits(sample: &Sample) -> Option<String> {
    let Sample::Text(lines) = sample else { return None };
    let mut columns = Columns::default();
    let (mut tags, mut tokens) = (0, 0);
    for line in lines {
        match columns.row(line).ok()? {
            Row::Token { tag, .. } => {
                tokens += 1;
                tags += usize::from(is_tag(tag));
            }
            Row::Blank | Row::Border | Row::Comment => {}
        }
    }
    let columns = columns.expected?;
    (tokens > 0 && tags == tokens).then(|| format!("{columns} columns, the last of which is a tag"))
}

/// What the first reading shows.
#[derive(Default)]
struct Survey {
    evidence: Evidence,
    tokens: usize,
    /// Tokens of one character with a digit behind it.
    digits: usize,
    unspaced: usize,
}

impl Survey {
    fn take(&mut self, sentence: &Sentence) {
        self.evidence.take(&sentence.tags);
        for token in &sentence.tokens {
            self.tokens += 1;
            self.unspaced += usize::from(token.chars().any(is_unspaced));
            self.digits += usize::from(segmented(token).is_some());
        }
    }

    /// Whether every token is a character with its place in its word, as in Weibo NER.
    fn has_digits(&self) -> bool {
        self.tokens >= ENOUGH && self.digits == self.tokens && self.unspaced * 2 > self.tokens
    }
}

/// The character in front of a segmentation digit.
fn segmented(token: &str) -> Option<&str> {
    let mut rest = token.chars();
    let ends = rest.next_back().is_some_and(|c| c.is_ascii_digit());
    let character = rest.as_str();
    (ends && rest.next().is_some() && rest.next().is_none()).then_some(character)
}

/// One sentence with the lines of its tokens.
#[derive(Default)]
struct Sentence {
    tokens: Vec<String>,
    tags: Vec<String>,
    lines: Vec<usize>,
    /// Lines on which a token had spaces in it.
    mended: Vec<usize>,
}

/// Gives every sentence to `take`, with the ordinal of its document.
fn each_sentence(
    path: &Path,
    tag_column: Option<usize>,
    mut take: impl FnMut(Sentence, usize) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut columns = Columns { expected: None, tag: tag_column.map(|column| column.saturating_sub(1)) };
    let mut lines = Lines::open(path)?;
    let mut sentence = Sentence::default();
    let mut document = 0;
    while let Some((number, line)) = lines.next()? {
        let row = columns.row(line).map_err(|said| StoreError::line(path, number, said))?;
        let border = matches!(row, Row::Border);
        match row {
            Row::Comment => {}
            Row::Blank | Row::Border => {
                if !sentence.tokens.is_empty() {
                    take(std::mem::take(&mut sentence), document)?;
                }
                document += usize::from(border);
            }
            Row::Token { token, tag, mended } => {
                sentence.tokens.push(token);
                sentence.tags.push(tag.to_string());
                sentence.lines.push(number);
                sentence.mended.extend(mended.then_some(number));
            }
        }
    }
    if !sentence.tokens.is_empty() {
        take(sentence, document)?;
    }
    Ok(())
}

fn read(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut survey = Survey::default();
    each_sentence(path, options.tag_column, |sentence, _| {
        survey.take(&sentence);
        Ok(())
    })?;
    let scheme = options.scheme.unwrap_or_else(|| survey.evidence.scheme().0);
    let mut writer = Writer { scheme, digits: survey.has_digits(), joiner: Joiner::new(options.join), first: true };
    if options.unit != Unit::Document {
        return each_sentence(path, options.tag_column, |sentence, document| sink(writer.draft(&[sentence], document)));
    }
    let mut gathered: Vec<Sentence> = Vec::new();
    let mut current = 0;
    each_sentence(path, options.tag_column, |sentence, document| {
        if document != current && !gathered.is_empty() {
            sink(writer.draft(&std::mem::take(&mut gathered), current))?;
        }
        current = document;
        gathered.push(sentence);
        Ok(())
    })?;
    if gathered.is_empty() { Ok(()) } else { sink(writer.draft(&gathered, current)) }
}

/// Turns sentences into drafts, all in the same way.
struct Writer {
    scheme: Scheme,
    digits: bool,
    joiner: Joiner,
    first: bool,
}

impl Writer {
    fn draft(&mut self, sentences: &[Sentence], document: usize) -> Draft {
        let line = sentences.first().and_then(|sentence| sentence.lines.first()).copied().unwrap_or(1);
        let bare = |token: &String| match segmented(token) {
            Some(character) if self.digits => character.to_string(),
            _ => token.clone(),
        };
        let tokens: Vec<Vec<String>> =
            sentences.iter().map(|sentence| sentence.tokens.iter().map(bare).collect()).collect();
        let join = tokens.iter().map(|tokens| self.joiner.join(tokens)).next_back().unwrap_or(super::Join::Space);
        let tokens: Vec<&[String]> = tokens.iter().map(Vec::as_slice).collect();
        let mut draft = Draft::of_sentences(line, &tokens, join);
        if document > 0 {
            draft.meta.insert("document".into(), json!(document));
        }
        if std::mem::take(&mut self.first) && self.digits {
            draft.say(Kind::Mended, "every token is a character with a segmentation digit, which was taken off");
        }
        let mut before = 0;
        for sentence in sentences {
            for line in &sentence.mended {
                draft.say_at(*line, Kind::Mended, "more columns than elsewhere; the token has a space in it");
            }
            let read = decode(&sentence.tags, self.scheme);
            for (at, said) in read.irregular {
                let said = format!("{said}; the file reads as {} — pass --scheme if it is another", self.scheme.name());
                draft.say_at(sentence.lines[at], Kind::Tags, said);
            }
            for chunk in read.chunks {
                let (start, end) = ((before + chunk.start) as i64, (before + chunk.end) as i64);
                if let Some(span) = draft.token_span(&chunk.label, start, end) {
                    draft.entity(&chunk.label, Some(span), "");
                }
            }
            before += sentence.tokens.len();
        }
        draft
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Report, convert};
    use crate::ie::Document;

    fn converted(bytes: &[u8], options: &Options) -> Result<(Vec<Document>, Report), String> {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.conll");
        std::fs::write(&path, bytes).unwrap();
        let mut documents = Vec::new();
        let report = convert(&[(path, &CONLL)], options, &mut |document, _| {
            documents.push(document.clone());
            Ok(())
        });
        report.map(|report| (documents, report)).map_err(|error| error.to_string())
    }

    fn told(documents: &[Document]) -> Vec<(String, String)> {
        let gold = |document: &Document| {
            let gold = document.gold.as_ref().unwrap();
            gold.entities.iter().map(|e| format!("{} {}", e.label, e.text)).collect::<Vec<_>>().join(", ")
        };
        documents.iter().map(|document| (document.text.clone(), gold(document))).collect()
    }

    fn wanted(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(text, gold)| (text.to_string(), gold.to_string())).collect()
    }

    #[test]
    fn c20_mark_line_ends_tabs_and_a_missing_last_newline_change_nothing() {
        let text = "-DOCSTART- O\n\nBern B-LOC\n\t\nAnn B-PER\n \n\nOslo B-LOC\n\n\n";
        let rows = wanted(&[("Bern", "LOC Bern"), ("Ann", "PER Ann"), ("Oslo", "LOC Oslo")]);
        let crlf = format!("\u{feff}{}", text.trim_end().replace('\n', "\r\n"));
        for bytes in [text.as_bytes(), crlf.as_bytes()] {
            let (documents, report) = converted(bytes, &Options::default()).unwrap();
            assert_eq!(told(&documents), rows);
            assert_eq!(report.census.entities, [("LOC".to_string(), 2), ("PER".to_string(), 1)].into());
        }
        assert_eq!(converted(text.as_bytes(), &Options::default()).unwrap().0[0].meta, r#"{"document":1}"#);
    }

    #[test]
    fn other_columns_comments_and_hash_tags_are_told_apart() {
        let text =
            "# sent_id = 1\nAnn NNP I-NP B-PER\nleft VBD I-VP O\n\n# O O O\n#Bern NNP I-NP B-LOC\n# sent_id = 2\n";
        let (documents, _) = converted(text.as_bytes(), &Options::default()).unwrap();
        assert_eq!(told(&documents), wanted(&[("Ann left", "PER Ann"), ("# #Bern", "LOC #Bern")]));
        let second = Options { tag_column: Some(2), scheme: Some(Scheme::Io), ..Options::default() };
        let (documents, _) = converted(b"Ann PER x\nLee PER x\n", &second).unwrap();
        assert_eq!(told(&documents), wanted(&[("Ann Lee", "PER Ann Lee")]));
    }

    #[test]
    fn one_document_or_one_sentence_is_the_unit() {
        let text = "-DOCSTART- O\n\nAnn B-PER\nleft O\n\nBo B-PER\nslept O\n\n-DOCSTART- O\n\nOslo B-LOC\n";
        let whole = Options { unit: Unit::Document, ..Options::default() };
        let (documents, _) = converted(text.as_bytes(), &whole).unwrap();
        assert_eq!(told(&documents), wanted(&[("Ann left\nBo slept", "PER Ann, PER Bo"), ("Oslo", "LOC Oslo")]));
        let spans: Vec<_> = documents[0].gold.as_ref().unwrap().entities.iter().map(|e| e.span.unwrap()).collect();
        assert_eq!(spans[1].range(), 9..11);
        assert_eq!(converted(text.as_bytes(), &Options::default()).unwrap().0.len(), 3);
    }

    #[test]
    fn characters_with_segmentation_digits_lose_them() {
        let line = |token: &str, tag: &str| format!("{token}\t{tag}\n");
        let mut text = line("北0", "B-GPE.NAM") + &line("京1", "I-GPE.NAM");
        text += &"的0\tO\n10\tO\n".repeat(12).replacen("10\tO", "人0\tB-PER.NOM", 1);
        let (documents, report) = converted(text.as_bytes(), &Options::default()).unwrap();
        assert!(documents[0].text.starts_with("北京的人的1的1"), "{}", documents[0].text);
        assert_eq!(told(&documents)[0].1, "GPE.NAM 北京, PER.NOM 人");
        assert_eq!(report.faults[&Kind::Mended].count, 1);
    }

    #[test]
    fn a_tag_against_its_scheme_is_named_with_its_line() {
        let text = "Ann B-PER\nLee I-PER\n\nBo B-PER\nin O\nBern I-LOC\n";
        let (documents, report) = converted(text.as_bytes(), &Options::default()).unwrap();
        assert_eq!(told(&documents)[1].1, "PER Bo, LOC Bern");
        let said = &report.faults[&Kind::Tags].examples[0];
        assert!(
            said.ends_with(
                "x.conll:6: tag \"I-LOC\" follows \"O\"; the file reads as iob2 — pass --scheme if it is another"
            ),
            "{said}"
        );
        let iob1 = Options { scheme: Some(Scheme::Iob1), ..Options::default() };
        assert_eq!(converted(text.as_bytes(), &iob1).unwrap().1.faults[&Kind::Tags].count, 2, "the two B-PER");
    }

    #[test]
    fn broken_columns_are_an_error_with_the_line() {
        let said = |text: &str| converted(text.as_bytes(), &Options::default()).unwrap_err();
        assert!(
            said("Ann B-PER\nleft\n").ends_with("x.conll:2: expected a token and its tag, found 1 column(s): \"left\"")
        );
        assert!(
            said("Ann x B-PER\nleft O\n").ends_with("x.conll:2: expected 3 columns as in the lines before, found 2")
        );
        assert!(said("Ann\tB-PER\nNew\tYork\tB-LOC\n").contains("expected 2 columns"));
        let (documents, report) = converted(b"Ann B-PER\n12 1/2 O\n", &Options::default()).unwrap();
        assert_eq!((documents[0].text.as_str(), report.faults[&Kind::Mended].count), ("Ann 12 1/2", 1));
    }
}
