//! What there is to export: documents with what is taught of them, one by one, in their order.

use crate::cli::distill;
use crate::config::Plan;
use crate::ie::{Document, Extraction, Message, Schema, Status};
use crate::store::{StoreError, each_document, each_line, hash_bytes};
use crate::template::answer::{Finish, read_answer, read_relations, render_entities, render_relations};
use crate::template::corpus::{Line, Task, conversations};
use crate::template::prompt::Prompts;
use crate::trace::{Settled, Trace};
use anyhow::{Context, Result, anyhow};
use std::iter::Peekable;
use std::path::Path;

/// A document, its gold replaced by what is taught of it.
pub struct Taught {
    pub document: Document,
    /// The conversations about it.
    pub lines: Vec<Line>,
    schema: Schema,
}

type Documents = Box<dyn Iterator<Item = Result<Document, StoreError>>>;
type Lines = Box<dyn Iterator<Item = Result<Line, StoreError>>>;

/// Documents of a run with the lines of its corpus, or documents with their own gold.
pub struct Source {
    documents: Documents,
    /// `None` for documents with gold.
    lines: Option<Peekable<Lines>>,
    schema: Schema,
    prompts: Option<Prompts>,
    ended: bool,
}

impl Source {
    /// What `distill` kept: the corpus, read back by the student's own parser.
    pub fn of_run(plan: &Plan) -> Result<Source> {
        let corpus = distill::corpus_path(plan.output_dir());
        let lines: Lines =
            Box::new(each_line(&corpus).context("the corpus has to be there first: understudy distill CONFIG")?);
        let documents = each_document(&plan.config().data.train)?;
        let documents = documents.take(plan.config().data.train_limit.unwrap_or(usize::MAX));
        let (documents, schema): (Documents, _) = (Box::new(documents), plan.schema().clone());
        Ok(Source { documents, lines: Some(lines.peekable()), schema, prompts: None, ended: false })
    }

    /// The gold of documents.
    pub fn of_documents(path: &Path, schema: Option<Schema>) -> Result<Source> {
        let documents: Documents = Box::new(each_document(path)?);
        let prompts = schema.clone().map(Prompts::new);
        Ok(Source { documents, lines: None, schema: schema.unwrap_or_default(), prompts, ended: false })
    }

    fn next_of_run(&mut self) -> Result<Option<Taught>> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        for document in &mut self.documents {
            let document = document?;
            let mut of_it = Vec::new();
            let is_of_it = |line: &Result<Line, StoreError>| {
                line.as_ref().map_or(true, |line| line.meta.documents == [document.id.as_str()])
            };
            while let Some(line) = lines.next_if(is_of_it) {
                of_it.push(line?);
            }
            if !of_it.is_empty() {
                return Ok(Some(taught(document, of_it, &self.schema)?));
            }
        }
        match lines.next() {
            None => Ok(None),
            Some(line) => Err(anyhow!(
                "the corpus teaches document {:?}, which data.train does not hold at its place; run distill again",
                line?.meta.documents
            )),
        }
    }

    fn next_of_documents(&mut self) -> Result<Option<Taught>> {
        let Some(document) = self.documents.find(|one| one.as_ref().map_or(true, |one| one.gold.is_some())) else {
            return Ok(None);
        };
        let document = document?;
        let gold = document.gold.clone().unwrap_or_default();
        let asked = self.prompts.iter().flat_map(|prompts| conversations(prompts, &document.text, &gold));
        let lines = asked.map(|spoken| Line::of_gold(&document.id, spoken, hash_bytes)).collect();
        Ok(Some(Taught { document, lines, schema: self.schema.clone() }))
    }
}

impl Iterator for Source {
    type Item = Result<Taught>;

    fn next(&mut self) -> Option<Result<Taught>> {
        if self.ended {
            return None;
        }
        let next = if self.lines.is_some() { self.next_of_run() } else { self.next_of_documents() };
        self.ended = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

/// What the lines about a document say, as the student's answers would be read.
fn taught(mut document: Document, lines: Vec<Line>, schema: &Schema) -> Result<Taught> {
    let mut found = Extraction::default();
    for line in &lines {
        let answer = line.messages.last().map_or("", |message| message.content.as_str());
        let error = match line.meta.task {
            Task::Entities => {
                let reading = read_answer(answer, Finish::Stop, &document.text, schema);
                found = reading.extraction;
                reading.error
            }
            Task::Relations => {
                let reading = read_relations(answer, Finish::Stop, schema, &found.entities);
                found.relations = reading.relations;
                reading.error
            }
        };
        if let Some(error) = error {
            return Err(anyhow!("corpus: the answer about \"{}\" cannot be read back: {error}", document.id));
        }
    }
    document.gold = Some(found);
    Ok(Taught { document, lines, schema: schema.clone() })
}

/// The traces of a run, asked for in the order of the documents.
pub struct Traces(Box<dyn Iterator<Item = Result<Trace, StoreError>>>);

impl Traces {
    /// Opens them.
    pub fn of_run(plan: &Plan) -> Result<Traces> {
        let path = plan.output_dir().join("traces.jsonl");
        Ok(Traces(Box::new(each_line(&path).context("preferences come from debates: understudy debate CONFIG")?)))
    }

    /// The trace of the next document that is asked for.
    pub fn of(&mut self, id: &str) -> Result<Trace> {
        for trace in &mut self.0 {
            let trace = trace?;
            if trace.id == id {
                return Ok(trace);
            }
        }
        Err(anyhow!("traces.jsonl has no trace of \"{id}\" behind those before it; run the debate again"))
    }
}

/// Question, what is taught, and what the team would have said before it debated: where a debate
/// that somebody won changed the answer.
pub fn pairs<'t>(taught: &'t Taught, trace: &Trace) -> Vec<(&'t [Message], &'t str, String)> {
    let won = |settled| matches!(settled, Settled::Consensus | Settled::Summarizer);
    let Some(before) = trace.snapshots.first().filter(|_| trace.status != Status::Failed) else { return Vec::new() };
    if !trace.conflicts.iter().any(|conflict| won(conflict.settled)) {
        return Vec::new();
    }
    let text = &taught.document.text;
    let (Ok(before), Ok(after)) = (before.extraction.clone().read(text), trace.extraction.clone().read(text)) else {
        return Vec::new();
    };
    let schema = &taught.schema;
    let same_names = render_entities(&before, schema) == render_entities(&after, schema);
    let mut pairs = Vec::new();
    for Line { messages, meta, .. } in &taught.lines {
        let (was, is) = match meta.task {
            Task::Entities => (render_entities(&before, schema), render_entities(&after, schema)),
            // Relations are asked over names: other names are another question.
            // Without relations the first record was made before anybody was asked for them.
            Task::Relations if before.relations.is_empty() => continue,
            Task::Relations if same_names => (render_relations(&before, schema), render_relations(&after, schema)),
            Task::Relations => continue,
        };
        if let Some((answer, asked)) = messages.split_last().filter(|(answer, _)| was != is && answer.content != was) {
            pairs.push((asked, answer.content.as_str(), was));
        }
    }
    pairs
}
