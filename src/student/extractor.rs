//! The student at work: documents in, extractions out, through the same prompts and the same
//! parser as the team. Two questions a document: its entities, then their relations.

use super::generate::{Finish, Generated, generate};
use super::{ChatTokenizer, Model, Result};
use crate::ie::{Cost, Document, Entity, Extractor, Message, Prediction, Schema, Status};
use crate::template::answer::{self, Reading, RelationReading, read_answer, read_relations};
use crate::template::prompt::Prompts;
use std::time::Instant;

/// A model that reads documents.
pub struct Reader<'a> {
    name: String,
    model: Model,
    tokenizer: &'a ChatTokenizer,
    prompts: Prompts,
    max_new_tokens: usize,
}

/// A reading in progress.
struct Case {
    reading: Option<Reading>,
    relations: Option<RelationReading>,
    cost: Cost,
}

impl<'a> Reader<'a> {
    /// A reader; adapters are merged into a copy of the weights.
    pub fn new(
        name: &str,
        model: &Model,
        tokenizer: &'a ChatTokenizer,
        schema: Schema,
        max_new_tokens: usize,
    ) -> Reader<'a> {
        let model = if model.lora().is_some() { model.merged() } else { model.untracked() };
        Reader { name: name.into(), model, tokenizer, prompts: Prompts::new(schema), max_new_tokens }
    }

    /// Reads every document.
    ///
    /// # Errors
    /// If the device or the chat template fails; an answer that cannot be read is a failed
    /// prediction, not an error.
    pub fn read(&self, documents: &[Document]) -> Result<Vec<Prediction>> {
        let empty = || Case {
            reading: None,
            relations: None,
            cost: Cost { prompt_tokens: Some(0), completion_tokens: Some(0), ..Cost::default() },
        };
        let mut cases: Vec<Case> = documents.iter().map(|_| empty()).collect();
        let asked = documents.iter().enumerate().filter(|(_, document)| !document.is_blank());
        let asked = asked.map(|(at, document)| (at, self.prompts.entities(&document.text))).collect();
        for (at, said) in self.ask(asked, &mut cases)? {
            let schema = self.prompts.schema();
            cases[at].reading = Some(read_answer(&said.text, finish(&said), &documents[at].text, schema));
        }
        let mut asked = Vec::new();
        for (at, case) in cases.iter().enumerate() {
            let found = case.reading.as_ref().map_or(&[][..], |reading| &reading.extraction.entities);
            asked.extend(self.prompts.relations(&documents[at].text, found).map(|messages| (at, messages)));
        }
        for (at, said) in self.ask(asked, &mut cases)? {
            let found: &[Entity] = cases[at].reading.as_ref().map_or(&[], |reading| &reading.extraction.entities);
            cases[at].relations = Some(read_relations(&said.text, finish(&said), self.prompts.schema(), found));
        }
        Ok(documents.iter().zip(cases).map(|(document, case)| concluded(document, case)).collect())
    }

    /// Answers to the prompts, each with its share of the time and its own tokens in the cost.
    fn ask(&self, asked: Vec<(usize, Vec<Message>)>, cases: &mut [Case]) -> Result<Vec<(usize, Generated)>> {
        let start = Instant::now();
        let prompts = asked.iter().map(|(_, messages)| self.tokenizer.prompt(messages)).collect::<Result<Vec<_>>>()?;
        let said = generate(&self.model, self.tokenizer, &prompts, self.max_new_tokens)?;
        let share = start.elapsed().as_secs_f64() / asked.len().max(1) as f64;
        for (((at, _), prompt), said) in asked.iter().zip(&prompts).zip(&said) {
            let spent = Cost {
                calls: 1,
                prompt_tokens: Some(prompt.len() as u64),
                completion_tokens: Some(said.ids.len() as u64),
                seconds: (share * 1e3).round() / 1e3,
            };
            cases[*at].cost = cases[*at].cost.plus(spent);
        }
        Ok(asked.into_iter().map(|(at, _)| at).zip(said).collect())
    }
}

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
        Finish::Length => answer::Finish::Length,
    }
}

fn concluded(document: &Document, case: Case) -> Prediction {
    let Some(reading) = case.reading else {
        return Prediction::read(&document.id, Default::default(), case.cost);
    };
    if matches!(reading.status, Status::Failed | Status::Refused) {
        return Prediction::failed(&document.id, reading.status, reading.error.unwrap_or_default(), case.cost);
    }
    let mut extraction = reading.extraction;
    // An unreadable second answer costs its relations, not the entities of the first.
    extraction.relations = case.relations.map(|read| read.relations).unwrap_or_default();
    Prediction::read(&document.id, extraction, case.cost)
}
