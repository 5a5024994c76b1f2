//! The student at work: documents in, extractions out, through the same prompts and the same
//! parser as the team. Two questions a document: its entities, then their relations; the relations
//! of one document are asked beside the entities of the next.

use super::constrain::Vocabulary;
use super::engine::{Engine, Request, Settings, Tally, Work};
use super::generate::{Finish, Generated};
use super::{ChatTokenizer, Model, Result};
use crate::ie::{Cost, Document, Entity, Extractor, Message, Prediction, Schema, Status};
use crate::template::answer::{self, Grammar, Reading, RelationReading, read_answer, read_relations};
use crate::template::prompt::Prompts;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How a reader answers.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// Tokens after which an answer ends at the latest.
    pub max_new_tokens: usize,
    /// Whether answers are held to the schema's labels and the document's own words. Default true.
    pub constrained: bool,
    /// How the engine works.
    pub engine: Settings,
}

impl Default for ReaderOptions {
    fn default() -> ReaderOptions {
        ReaderOptions { max_new_tokens: 128, constrained: true, engine: Settings::default() }
    }
}

/// A model that reads documents.
pub struct Reader<'a> {
    name: String,
    model: Model,
    tokenizer: &'a ChatTokenizer,
    prompts: Prompts,
    options: ReaderOptions,
}

/// A reading in progress.
struct Case {
    document: Document,
    reading: Option<Reading>,
    relations: Option<RelationReading>,
    /// Why it cannot be read at all.
    error: Option<String>,
    cost: Cost,
}

impl<'a> Reader<'a> {
    /// A reader; adapters are merged into a copy of the weights.
    pub fn new(
        name: &str,
        model: &Model,
        tokenizer: &'a ChatTokenizer,
        schema: Schema,
        options: ReaderOptions,
    ) -> Reader<'a> {
        let model = if model.lora().is_some() { model.merged() } else { model.untracked() };
        Reader { name: name.into(), model, tokenizer, prompts: Prompts::new(schema), options }
    }

    /// Reads every document.
    ///
    /// # Errors
    /// If the device or the chat template fails; an answer that cannot be read is a failed
    /// prediction, not an error.
    pub fn read(&self, documents: &[Document]) -> Result<Vec<Prediction>> {
        let mut predictions = Vec::with_capacity(documents.len());
        self.read_each(&mut documents.iter().cloned(), &mut |_, prediction| predictions.push(prediction))?;
        Ok(predictions)
    }

    /// Reads documents as they come and hands each on with what was found, in their order; holds
    /// those in progress alone. Where the documents end, those in progress are finished.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn read_each(
        &self,
        documents: &mut dyn Iterator<Item = Document>,
        out: &mut dyn FnMut(Document, Prediction),
    ) -> Result<Tally> {
        let mut engine = Engine::new(&self.model, self.tokenizer, self.options.engine.clone())?;
        let vocabulary = if self.options.constrained { Some(engine.vocabulary()?) } else { None };
        let mut desk = Desk {
            reader: self,
            vocabulary,
            documents,
            out,
            open: BTreeMap::new(),
            more: VecDeque::new(),
            begun: 0,
            finished: BTreeMap::new(),
            handed: 0,
        };
        engine.run(&mut desk)?;
        Ok(engine.tally())
    }
}

/// The documents in progress. A question's number is twice its document's, plus one for relations.
struct Desk<'d, 'a> {
    reader: &'d Reader<'a>,
    /// Where answers are held to a grammar.
    vocabulary: Option<Arc<Vocabulary>>,
    documents: &'d mut dyn Iterator<Item = Document>,
    out: &'d mut dyn FnMut(Document, Prediction),
    open: BTreeMap<usize, (Case, u64)>,
    /// Questions about relations, which come before those of new documents.
    more: VecDeque<(usize, Request)>,
    begun: usize,
    /// Finished before a document that came earlier.
    finished: BTreeMap<usize, (Document, Prediction)>,
    handed: usize,
}

impl Desk<'_, '_> {
    /// Why a question does not fit into the model's context, if it does not.
    fn too_long(&self, request: &Request) -> Option<String> {
        let (read, written) = (request.prompt.len(), request.max_new_tokens);
        let context = self.reader.model.config().context;
        (read + written > context).then(|| {
            format!(
                "too long: the question takes {read} tokens and its answer up to {written}, the model reads {context}; \
                 split the document"
            )
        })
    }

    fn request(
        &self,
        messages: &[Message],
        grammar: impl FnOnce(&ChatTokenizer, &Vocabulary) -> Result<Grammar>,
    ) -> Result<Request> {
        let tokenizer = self.reader.tokenizer;
        let grammar = self.vocabulary.as_ref().map(|vocabulary| grammar(tokenizer, vocabulary)).transpose()?;
        Ok(Request {
            prompt: tokenizer.prompt(messages)?,
            grammar: grammar.map(Arc::new),
            max_new_tokens: self.reader.options.max_new_tokens,
        })
    }

    fn conclude(&mut self, number: usize, case: Case) {
        let Case { document, reading, relations, error, cost } = case;
        let prediction = match error {
            Some(error) => Prediction::failed(&document.id, Status::Failed, error, cost),
            None => concluded(&document, reading, relations, cost),
        };
        self.finished.insert(number, (document, prediction));
        while let Some((document, prediction)) = self.finished.remove(&self.handed) {
            (self.out)(document, prediction);
            self.handed += 1;
        }
    }
}

impl Work for Desk<'_, '_> {
    fn next(&mut self, _: bool) -> Result<Option<(usize, Request)>> {
        if let Some(question) = self.more.pop_front() {
            return Ok(Some(question));
        }
        // What waits for an earlier document is bounded.
        while self.finished.len() < MOST_FINISHED
            && let Some(document) = self.documents.next()
        {
            let number = self.begun;
            self.begun += 1;
            let cost = Cost { prompt_tokens: Some(0), completion_tokens: Some(0), ..Cost::default() };
            let mut case = Case { document, reading: None, relations: None, error: None, cost };
            if case.document.is_blank() {
                self.conclude(number, case);
                continue;
            }
            let text = &case.document.text;
            let prompts = &self.reader.prompts;
            let request = self.request(&prompts.entities(text), |tokenizer, vocabulary| {
                Ok(Grammar::entities(prompts.schema(), &vocabulary.spelled(tokenizer, text)?))
            })?;
            case.error = self.too_long(&request);
            if case.error.is_some() {
                self.conclude(number, case);
                continue;
            }
            let read = request.prompt.len() as u64;
            self.open.insert(number, (case, read));
            return Ok(Some((2 * number, request)));
        }
        Ok(None)
    }

    fn done(&mut self, number: usize, said: Generated) -> Result<()> {
        let document = number / 2;
        let Some((mut case, read)) = self.open.remove(&document) else { return Ok(()) };
        let spent = Cost {
            calls: 1,
            prompt_tokens: Some(read),
            completion_tokens: Some(said.ids.len() as u64),
            seconds: (said.seconds * 1e3).round() / 1e3,
        };
        case.cost = case.cost.plus(spent);
        let (prompts, text) = (&self.reader.prompts, &case.document.text);
        if number % 2 == 1 {
            let found: &[Entity] = case.reading.as_ref().map_or(&[], |reading| &reading.extraction.entities);
            case.relations = Some(read_relations(&said.text, finish(&said), prompts.schema(), found));
            self.conclude(document, case);
            return Ok(());
        }
        let reading = read_answer(&said.text, finish(&said), text, prompts.schema());
        let found = &reading.extraction.entities;
        let asked = prompts.relations(text, found);
        let grammar = |_: &ChatTokenizer, _: &Vocabulary| Ok(Grammar::relations(prompts.schema(), found));
        let request = asked.map(|messages| self.request(&messages, grammar)).transpose()?;
        case.reading = Some(reading);
        case.error = request.as_ref().and_then(|request| self.too_long(request));
        match request.filter(|_| case.error.is_none()) {
            Some(request) => {
                self.open.insert(document, (case, request.prompt.len() as u64));
                self.more.push_back((number + 1, request));
            }
            None => self.conclude(document, case),
        }
        Ok(())
    }
}

/// Predictions that wait for one of an earlier document at most.
const MOST_FINISHED: usize = 1024;

impl Extractor for Reader<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn extract(&self, documents: &[Document]) -> Vec<Prediction> {
        self.read(documents).unwrap_or_else(|error| {
            let failed = |document: &Document| {
                Prediction::failed(&document.id, Status::Failed, error.to_string(), Cost::default())
            };
            documents.iter().map(failed).collect()
        })
    }
}

fn finish(said: &Generated) -> answer::Finish {
    match said.finish {
        Finish::Stop => answer::Finish::Stop,
        // Whole behind its last item; the engine counts it.
        Finish::Length if said.closed => answer::Finish::Stop,
        Finish::Length => answer::Finish::Length,
    }
}

fn concluded(
    document: &Document,
    reading: Option<Reading>,
    relations: Option<RelationReading>,
    cost: Cost,
) -> Prediction {
    let Some(reading) = reading else {
        return Prediction::read(&document.id, Default::default(), cost);
    };
    if matches!(reading.status, Status::Failed | Status::Refused) {
        return Prediction::failed(&document.id, reading.status, reading.error.unwrap_or_default(), cost);
    }
    let mut extraction = reading.extraction;
    // An unreadable second answer costs its relations, not the entities of the first.
    extraction.relations = relations.map(|read| read.relations).unwrap_or_default();
    Prediction::read(&document.id, extraction, cost)
}
