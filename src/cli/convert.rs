//! `convert`: native data sets into documents, checked, with the schema that they imply.

use super::{Common, Outcome, printed, usage};
use crate::config::schema_file::read_schema;
use crate::corpus::{self, FORMATS, Format, Join, Options, Report, Scheme, Target, Unit, WayBack, Weight};
use crate::ie::{Document, Schema};
use crate::store::{DocumentWriter, LineWriter, StoreError, document_line, write_atomic};
use anyhow::{Context, bail};
use std::fmt::Write;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Arguments of `convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// Files in the native format; a directory where the format is one
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,
    /// Native format of the files; `auto` asks each file and says what it took it for
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = parse_format)]
    from: Asked,
    /// Documents are written here (.jsonl, .jsonl.zst or .parquet); `-` is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What is written to --out: documents, or back to conll (IOB2), conll-bioes, spert, gliner,
    /// instructuie, universalner or iepile; the last two ask for the labels of --schema
    #[arg(long, default_value = "documents", value_parser = TARGETS)]
    to: String,
    /// What ends a token on the way back, where the source has none: words (also signs) or space
    #[arg(long, default_value = "words", value_parser = ["words", "space"])]
    tokens: String,
    /// Look for what is broken, without stopping at the first; exit code 1 if anything is
    #[arg(long)]
    check: bool,
    /// Hold labels and signatures against this schema (.toml or .json)
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Write the schema that the data imply: labels found, signatures found (.toml or .json)
    #[arg(long, value_name = "FILE")]
    schema_out: Option<PathBuf>,
    /// Leave out what is broken or not in the schema, counted, instead of stopping there
    #[arg(long)]
    drop_broken: bool,
    /// What stands between tokens: auto (by script), space or nothing
    #[arg(long, default_value = "auto", value_parser = ["auto", "space", "nothing"])]
    join: String,
    /// How tags mark mentions: auto (by the tags), io, iob1, iob2 or bioes (also BILOU, BMES)
    #[arg(long, default_value = "auto", value_parser = ["auto", "io", "iob1", "iob2", "bioes"])]
    scheme: String,
    /// Which column holds the tag, from 1; default: the last
    #[arg(long, value_name = "N")]
    tag_column: Option<usize>,
    /// Names of numbered tags, in the order of the data set's card: O,B-PER,I-PER,…
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tag_names: Vec<String>,
    /// What one document is made of, where a format has both: auto, sentence or document
    #[arg(long, default_value = "auto", value_parser = ["auto", "sentence", "document"])]
    unit: String,
}

/// A format by name, or the one that the file shows.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Auto,
    Named(&'static Format),
}

fn parse_format(name: &str) -> Result<Asked, String> {
    if name == "auto" {
        return Ok(Asked::Auto);
    }
    corpus::format(name).map(Asked::Named).ok_or_else(|| {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        let near = names.iter().map(|known| (strsim::jaro_winkler(known, name), known)).filter(|(near, _)| *near > 0.8);
        let near = near
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(String::new(), |(_, known)| format!("did you mean {known}? "));
        format!("{near}known: auto, {}", names.join(", "))
    })
}

fn after_help() -> String {
    let mut page = String::from(
        "\
Examples:
  understudy convert train.json dev.json --out docs.jsonl --schema-out schema.toml
  understudy convert --from conll eng.train --out - --unit document | head -1
  understudy convert --check --schema schema.toml from-a-colleague.jsonl
  understudy convert docs.jsonl --to conll --out docs.conll

Formats:
",
    );
    let width = FORMATS.iter().map(|format| format.name.len()).max().unwrap_or(0);
    for format in FORMATS {
        let _ = writeln!(page, "  {:<width$}  {}", format.name, format.about);
    }
    page + "
Offsets are put into code points, end exclusive. What is put right on the way (an offset that is off by \
one, a tag that its scheme does not allow) is counted and shown; what cannot be put right stops the \
conversion unless --drop-broken or --check says otherwise."
}

/// Converts, checks, or both.
///
/// # Errors
/// Exit code 2 for a command line that asks for nothing, 1 for data that cannot be read or, with
/// `--check`, have faults.
pub fn run(args: &Args, common: &Common) -> anyhow::Result<Outcome> {
    if args.out.is_none() && !args.check && args.schema_out.is_none() {
        return Err(usage("convert: nothing is asked for; give --out FILE, --schema-out FILE or --check"));
    }
    let to_stdout = args.out.as_deref() == Some(Path::new("-"));
    if to_stdout && common.json {
        return Err(usage("convert: --out - and --json both write to standard output; give --out a file"));
    }
    if let Some(own) = args.out.as_ref().and_then(|out| out.canonicalize().ok())
        && args.inputs.iter().any(|input| input.canonicalize().is_ok_and(|input| input == own))
    {
        return Err(usage(format!("convert: --out {} is one of the inputs; it would be overwritten", own.display())));
    }
    let options = options(args)?;
    let inputs = formats(args)?;
    if inputs.iter().all(|(_, format)| format.name == "schema") {
        return schemas(args, common, &inputs);
    }
    let asked = options.schema.clone().unwrap_or_default();
    if options.schema.is_none() && target(&args.to).is_some_and(Target::needs_schema) {
        return Err(usage(format!(
            "convert: --to {} asks for every label; give the schema with --schema FILE",
            args.to
        )));
    }
    let mut output = Output::open(args, asked)?;
    let report = corpus::convert(&inputs, &options, &mut |document, tokens| output.take(document, tokens))?;
    if report.census.documents == 0 {
        bail!("{}: no document was found", args.inputs[0].display());
    }
    output.finish()?;
    if let Some(path) = &args.schema_out {
        let schema = report.census.schema();
        write_schema(path, &schema)?;
        if let Err(error) = schema.check() {
            eprintln!("warning: {}: {error}", path.display());
        }
    }
    tell(args, common, &report, to_stdout)?;
    let (broken, repaired) = (report.count(Weight::Broken), report.count(Weight::Repaired));
    if args.check && broken + repaired > 0 {
        bail!("the check found {broken} broken and {repaired} repaired items");
    }
    Ok(Outcome::Done)
}

/// What `--to` may name.
const TARGETS: [&str; 8] =
    ["documents", "conll", "conll-bioes", "spert", "gliner", "instructuie", "universalner", "iepile"];

/// The native format by name; `None` for documents.
pub(super) fn target(name: &str) -> Option<Target> {
    Some(match name {
        "conll" => Target::Conll,
        "conll-bioes" => Target::ConllBioes,
        "spert" => Target::Spert,
        "gliner" => Target::Gliner,
        "instructuie" => Target::InstructUie,
        "universalner" => Target::UniversalNer,
        "iepile" => Target::IePile,
        _ => return None,
    })
}

fn options(args: &Args) -> anyhow::Result<Options> {
    if args.tag_column == Some(0) {
        return Err(usage("convert: --tag-column counts from 1"));
    }
    let schema = args.schema.as_deref().map(read_schema).transpose().map_err(|error| usage(error.to_string()))?;
    Ok(Options {
        join: match args.join.as_str() {
            "space" => Some(Join::Space),
            "nothing" => Some(Join::Nothing),
            _ => None,
        },
        scheme: match args.scheme.as_str() {
            "io" => Some(Scheme::Io),
            "iob1" => Some(Scheme::Iob1),
            "iob2" => Some(Scheme::Iob2),
            "bioes" => Some(Scheme::Bioes),
            _ => None,
        },
        unit: match args.unit.as_str() {
            "sentence" => Unit::Sentence,
            "document" => Unit::Document,
            _ => Unit::Usual,
        },
        tag_column: args.tag_column,
        tag_names: args.tag_names.clone(),
        schema,
        drop_broken: args.drop_broken,
        check: args.check,
    })
}

/// Schemas in native forms, merged into one.
fn schemas(args: &Args, common: &Common, inputs: &[(PathBuf, &'static Format)]) -> anyhow::Result<Outcome> {
    let Some(path) = &args.schema_out else {
        return Err(usage("convert: schemas hold no documents; give --schema-out FILE"));
    };
    let paths: Vec<&Path> = inputs.iter().map(|(path, _)| path.as_path()).collect();
    let schema = corpus::native_schema(&paths)?;
    schema.check().map_err(|error| anyhow::anyhow!("{}: {error}", args.inputs[0].display()))?;
    write_schema(path, &schema)?;
    let (entities, relations, events) = (schema.entities.len(), schema.relations.len(), schema.events.len());
    let roles: usize = schema.events.iter().map(|event| event.roles.len()).sum();
    if common.json {
        let told = serde_json::json!({"entity_types": entities, "relation_types": relations, "event_types": events, "roles": roles});
        printed(&format!("{told}\n"))?;
    } else {
        let types = format!("{entities} entity, {relations} relation and {events} event types with {roles} roles");
        printed(&format!("{types}\nwritten: {}\n", path.display()))?;
    }
    Ok(Outcome::Done)
}

/// Each input with its format; what a file was taken for is said on stderr.
fn formats(args: &Args) -> anyhow::Result<Vec<(PathBuf, &'static Format)>> {
    let each = args.inputs.iter().map(|path| {
        if !path.exists() {
            bail!("{}: no such file", path.display());
        }
        let format = match args.from {
            Asked::Named(format) => format,
            Asked::Auto => {
                let (format, why) = corpus::detect(path)?;
                eprintln!("{}: taken for {} ({why})", path.display(), format.name);
                format
            }
        };
        Ok((path.clone(), format))
    });
    each.collect()
}

/// Where documents go, and as what.
struct Output {
    place: Place,
    /// `None` for documents.
    back: Option<WayBack>,
}

enum Place {
    Nowhere,
    Stdout,
    File(LineWriter),
    Documents(DocumentWriter),
}

impl Output {
    /// `asked` is the schema whose labels are asked for.
    fn open(args: &Args, asked: Schema) -> anyhow::Result<Output> {
        let target = target(&args.to);
        let place = match args.out.as_deref() {
            None => Place::Nowhere,
            Some(path) if path == Path::new("-") => Place::Stdout,
            Some(path) => {
                let name = path.to_string_lossy();
                let known = [".jsonl", ".jsonl.zst", ".parquet"].iter().any(|ending| name.ends_with(ending));
                match target {
                    None if known => Place::Documents(DocumentWriter::create(path)?),
                    None => {
                        return Err(usage(format!("{name}: documents are written as .jsonl, .jsonl.zst or .parquet")));
                    }
                    Some(_) => Place::File(LineWriter::create(path)?),
                }
            }
        };
        let back = target.map(|target| WayBack::new(target, args.tokens == "space").asking(asked));
        Ok(Output { place, back })
    }

    fn take(&mut self, document: &Document, tokens: &[Range<usize>]) -> Result<(), StoreError> {
        if let Place::Documents(writer) = &mut self.place {
            return writer.write(document);
        }
        let bytes = match &mut self.back {
            Some(back) => back.document(document, tokens),
            None => document_line(document),
        };
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let stdout = |source| StoreError::Io { path: "standard output".into(), action: "writing", source };
        match &mut self.place {
            Place::Nowhere | Place::Documents(_) => Ok(()),
            Place::Stdout => match std::io::stdout().lock().write_all(bytes) {
                // A reader that went away, such as `head`, has what it wanted.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
                written => written.map_err(stdout),
            },
            Place::File(writer) => writer.write(bytes),
        }
    }

    /// Closes the file and says what it could not hold.
    fn finish(mut self) -> Result<(), StoreError> {
        if let Some(back) = self.back.take() {
            self.write(back.end())?;
            for (what, (count, example)) in &back.left_out {
                eprintln!("warning: left out: {count} {what}, as in {example}");
            }
        }
        match self.place {
            Place::File(writer) => writer.finish(),
            Place::Documents(writer) => writer.finish(),
            Place::Nowhere | Place::Stdout => Ok(()),
        }
    }
}

/// Says what was found: one object on stdout, or a table there; beside documents on stderr.
fn tell(args: &Args, common: &Common, report: &Report, to_stdout: bool) -> anyhow::Result<()> {
    if common.json {
        return printed(&format!("{}\n", report.to_json()));
    }
    let page = report.table(args.check);
    if to_stdout {
        eprint!("{page}");
        return Ok(());
    }
    let names: Vec<String> = args.out.iter().chain(&args.schema_out).map(|path| path.display().to_string()).collect();
    let written = if names.is_empty() { String::new() } else { format!("written: {}\n", names.join(", ")) };
    printed(&(page + &written))
}

/// Writes a schema by extension; fields that say nothing are left out.
pub(super) fn write_schema(path: &Path, schema: &Schema) -> anyhow::Result<()> {
    let text = match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => format!("{:#}\n", serde_json::to_value(schema).context("a schema is JSON")?),
        Some("toml") => as_toml(schema),
        _ => return Err(usage(format!("{}: a schema is written as .toml or .json", path.display()))),
    };
    Ok(write_atomic(path, text.as_bytes())?)
}

fn as_toml(schema: &Schema) -> String {
    let quoted = |text: &str| toml::Value::String(text.into()).to_string();
    let list = |items: &[String]| items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", ");
    let mut page = String::new();
    let mut line = |text: String| {
        page.push_str(&text);
        page.push('\n');
    };
    for entity in &schema.entities {
        line(format!("[[entities]]\nlabel = {}", quoted(&entity.label)));
        line(format!("definition = {}\n", quoted(&entity.definition)));
    }
    for relation in &schema.relations {
        line(format!("[[relations]]\nlabel = {}", quoted(&relation.label)));
        line(format!("definition = {}", quoted(&relation.definition)));
        line(format!("head = [{}]\ntail = [{}]", list(&relation.head), list(&relation.tail)));
        line(format!("symmetric = {}\n", relation.symmetric));
    }
    for event in &schema.events {
        line(format!("[[events]]\nlabel = {}", quoted(&event.label)));
        line(format!("definition = {}", quoted(&event.definition)));
        let roles = event
            .roles
            .iter()
            .map(|role| format!("    {{ label = {}, types = [{}] }},\n", quoted(&role.label), list(&role.types)));
        line(format!("roles = [\n{}]\n", roles.collect::<String>()));
    }
    page
}
