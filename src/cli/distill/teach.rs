//! What a chosen document becomes: its conversations, with where they come from.

use super::hygiene::{self, Hygiene, People};
use super::pairs::Pairs;
use crate::cli::session::{self, Reporter};
use crate::config::Plan;
use crate::filter::{Cause, Chosen, Fate, Heard, Kind, Rules, Settled, Sift, SiftError, Weighed, subset};
use crate::ie::{Cost, Document, Extraction, Schema};
use crate::store::{Scratch, hash_bytes};
use crate::template::corpus::{Conversation, Line, Provenance, Task, about_entities, about_relations};
use crate::template::prompt::{Language, Prompts};
use crate::trace::{Support, Trace};
use anyhow::{Result, anyhow};

/// The first reading: every document is weighed, and it is chosen among them. Nothing is written
/// but what waits on the disk; `scratch` says where.
pub fn choose(
    plan: &Plan,
    rules: &Rules,
    pairs: &mut Pairs,
    scratch: Scratch,
    reporter: &Reporter,
) -> Result<(Chosen, Cost, People)> {
    let schema = plan.schema();
    let mut sift = Sift::new(schema, rules, scratch);
    let mut cost = Cost::default();
    let mut hygiene = Hygiene::of(plan)?;
    let eye = hygiene.eye();
    let masks = hygiene::masks(plan);
    let work = |_: usize, mut document: Document, mut trace: Trace| {
        // What is looked at is the text as it was: a masked one says nothing of people.
        let seen = eye.look(&document, &trace);
        if masks {
            hygiene::mask(&mut document, &mut trace);
        }
        let heard = Heard::of(&document, &trace, rules).map_err(|error| anyhow!(error))?;
        Ok((heard.weighed(&document, &trace, schema, rules), trace.cost(), seen))
    };
    pairs.each(
        |_| true,
        work,
        |at, (weighed, spent, seen)| {
            cost = cost.plus(spent);
            hygiene.note(at, seen)?;
            reporter.count("weighed", at + 1);
            Ok(sift.put(&weighed)?)
        },
    )?;
    let people = hygiene.rule_out(&mut sift)?;
    let chosen = sift.choose().map_err(|error| match error {
        SiftError::Store(error) => error.into(),
        SiftError::Refused(refusal) => session::refused(refusal),
    })?;
    Ok((chosen, cost, people))
}

/// The prompts of one run, for all labels and for some.
pub struct Teacher<'a> {
    schema: &'a Schema,
    rules: &'a Rules,
    chosen: &'a Chosen,
    language: Language,
    prompts: Prompts,
}

impl<'a> Teacher<'a> {
    /// For what was chosen.
    pub fn new(schema: &'a Schema, rules: &'a Rules, chosen: &'a Chosen) -> Teacher<'a> {
        let language = Language::of(schema);
        Teacher { schema, rules, chosen, language, prompts: Prompts::spoken(language, schema.clone()) }
    }

    /// The lines of a document that is taught.
    pub fn lines(&self, ordinal: usize, document: &Document, trace: &Trace) -> Result<Vec<Line>> {
        let heard = Heard::of(document, trace, self.rules).map_err(|error| anyhow!(error))?;
        let weighed = heard.weighed(document, trace, self.schema, self.rules);
        let settled = Settled::of(&weighed, &self.chosen.gauges, self.rules);
        let confidence = settled
            .document
            .map_err(|cause: Cause| anyhow!("\"{}\" was chosen and is left out: {cause}", document.id))?;
        let mut lines = Vec::new();
        // ── entities ──
        let (found, learned) =
            self.written(&heard, &weighed, &settled, |fate| fate != Fate::Kept && fate != Fate::Masked);
        let asked = subset::entities(weighed.lot, self.schema, self.rules);
        let (prompts, labels) = self.asked(asked.as_deref(), None);
        let prompts = prompts.as_ref().unwrap_or(&self.prompts);
        let spoken = about_entities(prompts, &document.text, &found, |at| learned[0][at]);
        lines.push(line(document, trace, spoken, confidence, labels));
        // ── relations ──
        if !self.chosen.unasked.contains(&ordinal) {
            let (found, learned) = self.written(&heard, &weighed, &settled, |fate| fate != Fate::Kept);
            let asked = subset::relations(weighed.lot, self.schema, self.rules);
            let (prompts, labels) = self.asked(None, asked.as_deref());
            let prompts = prompts.as_ref().unwrap_or(&self.prompts);
            let spoken = about_relations(prompts, &document.text, &found, |at| learned[1][at]);
            lines.extend(spoken.map(|spoken| line(document, trace, spoken, confidence, labels)));
        }
        Ok(lines)
    }

    /// What is written of an outcome, and which entities and relations of it are learned. Entities for
    /// which `without` holds are left out; relations are written where their own fate says so.
    fn written(
        &self,
        heard: &Heard,
        weighed: &Weighed,
        settled: &Settled,
        without: impl Fn(Fate) -> bool,
    ) -> (Extraction, [Vec<bool>; 2]) {
        let mut found = heard.extraction.clone();
        let first = found.entities.len();
        let mut at = first;
        found.relations.retain(|_| {
            at += 1;
            settled.writes(at - 1)
        });
        let mut at = 0;
        found.retain_entities(|_| {
            at += 1;
            !without(settled.fates[at - 1])
        });
        let entities =
            weighed.of(Kind::Entity).filter(|(at, _)| !without(settled.fates[*at])).map(|(at, _)| settled.keeps(at));
        let relations =
            weighed.of(Kind::Relation).filter(|(at, _)| settled.writes(*at)).map(|(at, _)| settled.keeps(at));
        (found, [entities.collect(), relations.collect()])
    }

    /// Prompts that ask for some labels, and those labels; neither where all are asked.
    fn asked(&self, entities: Option<&[bool]>, relations: Option<&[bool]>) -> (Option<Prompts>, Vec<String>) {
        if entities.is_none() && relations.is_none() {
            return (None, Vec::new());
        }
        let mut schema = self.schema.clone();
        let mut labels = Vec::new();
        if let Some(asked) = entities {
            let mut asked = asked.iter();
            schema.entities.retain(|_| *asked.next().unwrap_or(&true));
            labels.extend(schema.entities.iter().map(|kind| kind.label.clone()));
        }
        if let Some(asked) = relations {
            let mut asked = asked.iter();
            schema.relations.retain(|_| *asked.next().unwrap_or(&true));
            labels.extend(schema.relations.iter().map(|kind| kind.label.clone()));
        }
        (Some(Prompts::spoken(self.language, schema)), labels)
    }
}

fn line(document: &Document, trace: &Trace, spoken: Conversation, confidence: f64, asked: Vec<String>) -> Line {
    let Conversation { task, messages, unlearned } = spoken;
    let support: &[Support] = if task == Task::Entities { &trace.entity_support } else { &trace.relation_support };
    let cost: Cost = trace.cost();
    let meta = Provenance {
        documents: vec![document.id.clone()],
        task,
        protocol: trace.protocol.clone(),
        rounds: trace.conflicts.iter().map(|conflict| conflict.rounds).max().unwrap_or(0),
        votes: support.iter().map(|support| (support.votes, support.voters)).collect(),
        confidence: (confidence * 1e6).round() / 1e6,
        prompt: hash_bytes(messages[0].content.as_bytes()),
        tokens: cost.prompt_tokens.zip(cost.completion_tokens).map(|(read, written)| read + written),
        asked,
    };
    Line { messages, unlearned, meta }
}

/// The conversations of a document's gold.
pub fn gold_lines(prompts: &Prompts, document: &Document) -> Vec<Line> {
    let Some(gold) = &document.gold else { return Vec::new() };
    let line = |spoken: Conversation| Line::of_gold(&document.id, spoken, hash_bytes);
    crate::template::corpus::conversations(prompts, &document.text, gold).into_iter().map(line).collect()
}
