//! The native formats by name, and which of them a file is in.

use super::convert::{Options, Sink};
use super::input::{Lines, Records};
use crate::store::StoreError;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Lines that are looked at to tell a text format.
const LINES: usize = 200;

/// A native format: how it is called, known and read.
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// Sets and tools that use it.
    pub about: &'static str,
    /// Why a file might be in this format; `None` if it is not.
    pub(super) fits: fn(&Sample) -> Option<String>,
    /// Gives every document of a file to the sink.
    pub(super) read: fn(&Path, &Options, &mut Sink) -> Result<(), StoreError>,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All formats, in the order of tables.
pub const FORMATS: [&Format; 36] = [
    &super::documents::DOCUMENTS,
    &super::conll::CONLL,
    &super::tagged::TAGGED,
    &super::ontonotes::ONTONOTES,
    &super::spert::SPERT,
    &super::multihead::MULTIHEAD,
    &super::dygie::DYGIE,
    &super::oneie::ONEIE,
    &super::uie::UIE,
    &super::gliner::GLINER,
    &super::universalner::UNIVERSALNER,
    &super::instructuie::INSTRUCTUIE,
    &super::iepile::IEPILE,
    &super::brat::BRAT,
    &super::tools::DOCCANO,
    &super::tools::LABEL_STUDIO,
    &super::tools::SPACY,
    &super::uie::PADDLE,
    &super::semeval::SEMEVAL,
    &super::pairs::TACRED,
    &super::pairs::FEWREL,
    &super::docred::DOCRED,
    &super::triples::CASREL,
    &super::triples::COPYRE,
    &super::baidu::DUIE,
    &super::baidu::DUEE,
    &super::ldc::ACE,
    &super::ldc::ERE,
    &super::events::RAMS,
    &super::events::MAVEN,
    &super::events::CASIE,
    &super::uie::OMNIEVENT,
    &super::keyed::CLUENER,
    &super::keyed::MRC,
    &super::keyed::LITERAL,
    &super::schemas::SCHEMA,
];

/// The format with this name.
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.into_iter().find(|format| format.name == name)
}

/// The beginning of a file, as far as it is needed to tell its format.
pub(super) enum Sample {
    /// A directory: how many files have which extension.
    Folder(BTreeMap<String, usize>),
    /// The first record of a JSON file.
    Json {
        /// That record.
        first: Value,
        /// Whether the file is one array.
        array: bool,
    },
    /// The first lines of any other file.
    Text(Vec<String>),
}

impl Sample {
    /// Looks at a file or directory.
    ///
    /// # Errors
    /// If it cannot be read, is not UTF-8, or holds nothing.
    pub(super) fn of(path: &Path) -> Result<Sample, StoreError> {
        if path.is_dir() {
            let mut extensions = BTreeMap::new();
            for entry in std::fs::read_dir(path).map_err(StoreError::io(path, "reading the directory"))? {
                let name = entry.map_err(StoreError::io(path, "reading the directory"))?.path();
                let extension = name.extension().unwrap_or_default().to_string_lossy().into_owned();
                *extensions.entry(extension).or_default() += 1;
            }
            return Ok(Sample::Folder(extensions));
        }
        let mut records = Records::open(path)?;
        if let Ok(Some(record)) = records.next()
            && let Ok(first) = record.parse(path)
        {
            return Ok(Sample::Json { first, array: records.is_array() });
        }
        let mut lines = Lines::open(path)?;
        let mut found = Vec::new();
        while found.len() < LINES {
            match lines.next()? {
                Some((_, line)) => found.push(line.to_string()),
                None => break,
            }
        }
        if found.iter().all(|line| line.trim().is_empty()) {
            return Err(StoreError::file(path, "the file is empty; a format cannot be told from it"));
        }
        Ok(Sample::Text(found))
    }

    /// The first record's field, if this is a JSON file of objects.
    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        match self {
            Sample::Json { first, .. } => first.get(name),
            _ => None,
        }
    }

    /// Whether the first record has all these fields.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.field(name).is_some())
    }

    /// What stands there, for a message.
    fn told(&self) -> String {
        match self {
            Sample::Folder(extensions) => {
                let listed: Vec<String> =
                    extensions.iter().map(|(name, count)| format!("{count} .{name}")).take(12).collect();
                format!("a directory of {}", listed.join(", "))
            }
            Sample::Json { first: Value::Object(fields), .. } => {
                let names: Vec<&str> = fields.keys().take(12).map(String::as_str).collect();
                let names: Vec<String> = names.iter().map(|name| super::finding::short(name, 40)).collect();
                format!("JSON records with the fields {}", names.join(", "))
            }
            Sample::Json { .. } => "JSON records that are no objects".into(),
            Sample::Text(lines) => {
                let first = lines.iter().find(|line| !line.trim().is_empty()).map_or("", String::as_str);
                format!("text that begins with {}", super::finding::shown(first))
            }
        }
    }
}

/// The format of a file, and why it is taken for it.
///
/// # Errors
/// If no format fits, or several do: the message names them and the way out.
pub fn detect(path: &Path) -> Result<(&'static Format, String), StoreError> {
    let sample = Sample::of(path)?;
    let mut fitting = FORMATS.into_iter().filter_map(|format| Some((format, (format.fits)(&sample)?)));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok(only),
        (Some((first, why_first)), Some((second, why_second))) => Err(StoreError::file(
            path,
            format!(
                "the format is not clear: {} ({why_first}) or {} ({why_second}) — pass --from {} or --from {}",
                first.name, second.name, first.name, second.name
            ),
        )),
        (None, _) => {
            let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
            let known = names.join(", ");
            Err(StoreError::file(path, format!("no known format: {} — pass --from with one of {known}", sample.told())))
        }
    }
}
