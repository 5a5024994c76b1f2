//! Native data sets into documents, one document at a time.

use super::draft::Draft;
use super::format::Format;
use super::join::Join;
use super::report::Report;
use super::tags::Scheme;
use crate::ie::{Document, Schema};
use crate::store::StoreError;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What a reader gives its documents to.
pub(super) type Sink<'a> = dyn FnMut(Draft) -> Result<(), StoreError> + 'a;

/// What one document is made of, where a format has sentences inside documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// What the set is usually scored by.
    #[default]
    Usual,
    /// One sentence.
    Sentence,
    /// The whole document.
    Document,
}

/// How files are read; the default asks the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What stands between tokens; `None` goes by the script.
    pub join: Option<Join>,
    /// How tags mark mentions; `None` goes by the tags.
    pub scheme: Option<Scheme>,
    /// What one document is made of.
    pub unit: Unit,
    /// Which column holds the tag, counting from 1; `None` is the last.
    pub tag_column: Option<usize>,
    /// Names of numbered tags, in the order of the data set's card.
    pub tag_names: Vec<String>,
    /// Checked against, where given.
    pub schema: Option<Schema>,
    /// Leaves out what cannot be kept or the schema does not have, instead of stopping there.
    pub drop_broken: bool,
    /// Never stops at what is broken: everything is to be found.
    pub check: bool,
}

/// Takes a document and where its words stand; an error ends the conversion.
pub type Output<'a> = &'a mut dyn FnMut(&Document, &[Range<usize>]) -> Result<(), StoreError>;

/// Reads all inputs, each in its format, and gives every document to `sink`, in order; with the byte
/// ranges of its tokens, where the format has tokens.
///
/// # Errors
/// A file that cannot be read, by file and line; the first broken item, unless the options say
/// otherwise; what the sink says.
pub fn convert(inputs: &[(PathBuf, &'static Format)], options: &Options, sink: Output) -> Result<Report, StoreError> {
    let mut report = Report::default();
    for (path, format) in inputs {
        (format.read)(path, options, &mut |draft: Draft| {
            let (document, tokens) = report.take(draft, path, options.schema.as_ref(), options.drop_broken);
            stop_at_broken(&report, path, options)?;
            sink(&document, &tokens)
        })?;
    }
    if let Some((path, _)) = inputs.first() {
        report.close(path);
        stop_at_broken(&report, path, options)?;
    }
    Ok(report)
}

fn stop_at_broken(report: &Report, path: &Path, options: &Options) -> Result<(), StoreError> {
    match report.first_broken() {
        Some(first) if !options.check && !options.drop_broken => {
            let prefix = format!("{}:", path.display());
            let said = first.strip_prefix(&prefix).unwrap_or(first);
            let (line, said) = said.split_once(": ").unwrap_or(("1", said));
            let message =
                format!("{said} — `--check` lists all that is broken, `--drop-broken` leaves it out of the documents");
            Err(StoreError::line(path, line.parse().unwrap_or(1), message))
        }
        _ => Ok(()),
    }
}
