//! What the experts of CooperKGC are asked (sections 4.2 and 4.3), in our words and our answer
//! format.
//!
//! The system message holds what stays: opening statement P_o, task definition P_t with the
//! schema's list; the demonstrations P_c follow as solved questions. The last message holds what
//! changes, in the order of Algorithm 1: the text, the replicas D, the collaboration prompt P_v.

use super::{Prompts, brief, object};
use crate::config::ExpertTask;
use crate::ie::{Document, EventType, Extraction, Message, RelationType, Schema};
use crate::template::answer::{render_entities, render_events, render_relations};
use minijinja::{Value, context};
use serde_json::json;

/// Who is asked, and what it knows before it reads.
#[derive(Clone, Copy, Debug)]
pub struct Briefing<'a> {
    /// The expert's name.
    pub name: &'a str,
    /// What it looks for.
    pub task: ExpertTask,
    /// Its schema.
    pub schema: &'a Schema,
    /// Everybody in the team, itself included.
    pub team: &'a [(&'a str, ExpertTask)],
    /// Whether the prompt opens with the team's purpose and the expert's own field.
    pub background: bool,
    /// Documents whose gold shows how it is done, in the order shown.
    pub shown: &'a [Document],
}

/// An answer of the last round, as it reaches another expert.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica<'a> {
    /// Whose it is.
    pub name: &'a str,
    /// What that expert looks for.
    pub task: ExpertTask,
    /// What it said.
    pub answer: String,
}

impl Prompts {
    /// An expert's first question.
    pub fn expert(&self, briefing: &Briefing, text: &str) -> Vec<Message> {
        let mut messages = vec![Message::system(self.background(briefing))];
        for document in briefing.shown {
            let gold = document.gold.as_ref().cloned().unwrap_or_default();
            messages.push(Message::user(self.text(&document.text)));
            messages.push(Message::assistant(replica(briefing.task, &gold, briefing.schema)));
        }
        messages.push(Message::user(self.text(text)));
        messages
    }

    /// The same question once it and others have answered; `last` is its own answer.
    pub fn collaboration(
        &self,
        briefing: &Briefing,
        text: &str,
        last: Option<&str>,
        others: &[Replica],
    ) -> Vec<Message> {
        let others: Vec<Value> = others
            .iter()
            .map(|other| context! { name => other.name, task => other.task.name(), answer => other.answer.as_str() })
            .collect();
        // Without its opening brace: the reason stands in front.
        let example = self.example(briefing.task, briefing.schema);
        let asked = self.render("cooper_replicas", context! { last, others, example => &example[1..] });
        let mut messages = self.expert(briefing, text);
        if let Some(question) = messages.last_mut() {
            question.content = format!("{}\n{asked}", question.content);
        }
        messages
    }

    /// P_o and P_t.
    fn background(&self, briefing: &Briefing) -> String {
        let Briefing { name, task, schema, team, background, .. } = *briefing;
        let team: Vec<Value> =
            team.iter().map(|(name, task)| context! { name => *name, task => task.name() }).collect();
        let types: Vec<Value> = match task {
            ExpertTask::Entities => {
                let kinds = schema.entities.iter();
                kinds.map(|t| context! { label => t.label.as_str(), brief => brief(&t.definition, &t.label) }).collect()
            }
            ExpertTask::Relations => schema.relations.iter().map(|relation| self.relation(relation)).collect(),
            ExpertTask::Events => schema.events.iter().map(|kind| self.event(kind)).collect(),
        };
        let template = match task {
            ExpertTask::Entities => "cooper_entities",
            ExpertTask::Relations => "cooper_relations",
            ExpertTask::Events => "cooper_events",
        };
        let (example, nothing) = (self.example(task, schema), format!("{{\"{}\":{{}}}}", task.name()));
        let defined = self.render(template, context! { name, background, types, example, nothing });
        match background {
            true => format!("{}\n\n{defined}", self.render("cooper_opening", context! { team })),
            false => defined,
        }
    }

    /// An answer made of the schema's own examples: `{"entities":{"person":["Ann"]}}`.
    fn example(&self, task: ExpertTask, schema: &Schema) -> String {
        let inner = match task {
            ExpertTask::Entities => {
                let kinds = schema.entities.iter().take(2);
                object(kinds.map(|t| (t.label.clone(), json!([self.named(t)]))).collect())
            }
            ExpertTask::Relations => {
                let kinds = schema.relations.iter().take(2);
                object(kinds.map(|t| (t.label.clone(), json!([self.ends(t, schema)]))).collect())
            }
            ExpertTask::Events => {
                let kinds = schema.events.iter().take(1);
                object(kinds.map(|t| (t.label.clone(), json!([self.happening(t, schema)]))).collect())
            }
        };
        format!("{{\"{}\":{inner}}}", task.name())
    }

    fn ends(&self, relation: &RelationType, schema: &Schema) -> [String; 2] {
        let (head, tail) = (relation.head.first(), relation.tail.first());
        [self.filler(head, schema, 0), self.filler(tail, schema, usize::from(head == tail))]
    }

    fn happening(&self, kind: &EventType, schema: &Schema) -> serde_json::Value {
        let roles = kind.roles.iter().take(2).enumerate();
        let arguments =
            roles.map(|(at, role)| (role.label.clone(), json!([self.filler(role.types.first(), schema, at)])));
        let arguments: serde_json::Map<String, serde_json::Value> = arguments.collect();
        json!({ "trigger": self.pack.words.trigger_of.replace("{}", &kind.label), "arguments": arguments })
    }

    /// An example name of a type, the `at`th of it where there are so many.
    fn filler(&self, label: Option<&String>, schema: &Schema, at: usize) -> String {
        match label.and_then(|label| schema.entity(label)) {
            Some(kind) => kind.examples.get(at).cloned().unwrap_or_else(|| self.named(kind)),
            None => "…".into(),
        }
    }
}

/// The items of a task as they are answered and sent on: `{"entities":{"person":["Ann"]}}`.
pub fn replica(task: ExpertTask, extraction: &Extraction, schema: &Schema) -> String {
    let items = match task {
        ExpertTask::Entities => render_entities(extraction, schema),
        ExpertTask::Relations => render_relations(extraction, schema),
        ExpertTask::Events => render_events(extraction, schema),
    };
    format!("{{\"{}\":{items}}}", task.name())
}

#[cfg(test)]
mod tests {
    use super::super::Language;
    use super::*;
    use crate::ie::record::ExtractionRecord;

    fn schema() -> Schema {
        toml::from_str(
            "entities = [{ label = 'person', definition = 'A human being. No animal.', examples = ['Ada', 'Bob'] },\n\
             { label = 'place' }]\n\
             relations = [{ label = 'lives_in', head = ['person'], tail = ['place'], definition = 'Has a home there' },\n\
             { label = 'near' }]\n\
             events = [{ label = 'attack', definition = 'A violent act; with a victim.',\n\
             roles = [{ label = 'attacker', types = ['person', 'place'] }, { label = 'tool' }] }, { label = 'rain' }]\n",
        )
        .unwrap()
    }

    fn shown() -> Document {
        let text = "Ann hit Bob in Rome.";
        let gold: ExtractionRecord = serde_json::from_str(
            r#"{"entities":[{"type":"person","text":"Ann","start":0,"end":3},{"type":"place","text":"Rome","start":15,"end":19}],
            "relations":[{"type":"lives_in","head":0,"tail":1}],
            "events":[{"type":"attack","trigger":{"text":"hit","start":4,"end":7},
            "arguments":[{"role":"attacker","text":"Ann","start":0,"end":3}]}]}"#,
        )
        .unwrap();
        Document { gold: Some(gold.read(text).unwrap()), ..Document::new("d", text) }
    }

    fn written(messages: &[Message]) -> String {
        messages.iter().map(|message| format!("[{:?}]\n{}\n", message.role, message.content)).collect()
    }

    #[test]
    fn every_prompt_of_the_experts_reads_as_snapshotted() {
        insta::assert_snapshot!(Language::ALL.map(prompts_in).join("\n"));
    }

    fn prompts_in(language: Language) -> String {
        let (prompts, schema, shown) = (Prompts::spoken(language, schema()), schema(), [shown()]);
        let team = [("NER", ExpertTask::Entities), ("RE", ExpertTask::Relations), ("EE", ExpertTask::Events)];
        let mut all = format!("##### {}\n", language.name());
        for (name, task) in team {
            let briefing = Briefing { name, task, schema: &schema, team: &team, background: true, shown: &shown };
            all += &format!("===== {name}, round 0\n{}", written(&prompts.expert(&briefing, "Eve met Sam.")));
            let others: Vec<Replica> = team
                .iter()
                .filter(|other| other.0 != name)
                .map(|&(name, task)| Replica { name, task, answer: replica(task, &Extraction::default(), &schema) })
                .collect();
            let plain = Briefing { background: false, shown: &[], ..briefing };
            let last = (task != ExpertTask::Relations).then_some("{}");
            let others = if task == ExpertTask::Events { &[] } else { &others[..] };
            let later = prompts.collaboration(&plain, "Eve met Sam.", last, others);
            all += &format!("===== {name}, a later round, no background\n{}", written(&later));
        }
        all
    }
}
