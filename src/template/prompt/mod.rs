//! What is asked: a pack of prompt templates for each language, filled from the schema. The
//! all-in-one prompts are shared by the single-prompt team and the student; training and inference
//! render the same bytes.

mod cooper;
mod pack;

pub use cooper::{Briefing, Replica, replica};
pub use pack::Language;

use crate::ie::{Entity, EntityType, EventType, Message, RelationType, Schema};
use minijinja::context;
use pack::{Pack, Words};
use serde_json::json;

/// Characters of an unreadable answer that are shown to whoever gave it.
const REPEATED: usize = 2000;

/// Renders prompts for one schema.
pub struct Prompts {
    pack: Pack,
    schema: Schema,
}

/// What a debate is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Which type a mention has.
    Entities,
    /// Which relation holds between two mentions.
    Relations,
    /// Which type of event a trigger names.
    Events,
}

impl Topic {
    /// As in traces.
    pub fn name(self) -> &'static str {
        match self {
            Topic::Entities => "entities",
            Topic::Relations => "relations",
            Topic::Events => "events",
        }
    }

    fn about(self, words: &Words) -> &'static str {
        match self {
            Topic::Entities => words.a_name,
            Topic::Relations => words.a_relation,
            Topic::Events => words.an_event,
        }
    }
}

/// One option of a debate, as the debaters read it.
#[derive(Clone, Debug, PartialEq)]
pub struct DebateOption {
    /// `A`, `B`, …
    pub letter: char,
    /// What choosing it means, as one clause.
    pub reading: String,
}

/// What a debater said, as the others read it.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The agent's name.
    pub agent: String,
    /// The option's letter.
    pub choice: char,
    /// Why.
    pub reason: String,
    /// In `0..=1`, as the agent says it.
    pub confidence: Option<f64>,
}

impl Prompts {
    /// Prompts about this schema, in the schema's own language.
    pub fn new(schema: Schema) -> Prompts {
        let language = Language::of(&schema);
        Prompts::spoken(language, schema)
    }

    /// Prompts about this schema in this language.
    pub fn spoken(language: Language, schema: Schema) -> Prompts {
        Prompts { pack: Pack::of(language), schema }
    }

    /// The schema that is asked.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// All entity types in one prompt.
    pub fn entities(&self, text: &str) -> Vec<Message> {
        let example = self.schema.entities.iter().map(|t| (t.label.clone(), json!([self.named(t)]))).collect();
        let system = self.render("entities", context! { types => self.types(), example => object(example) });
        vec![Message::system(system), Message::user(self.text(text))]
    }

    /// All relation types in one prompt, over the entities already found. `None` if no signature
    /// fits any pair of them: the answer is known to be empty, and nothing is asked.
    pub fn relations(&self, text: &str, entities: &[Entity]) -> Option<Vec<Message>> {
        if !self.schema.relations.iter().any(|relation| has_pair(relation, entities)) {
            return None;
        }
        let types: Vec<_> = self.schema.relations.iter().map(|relation| self.relation(relation)).collect();
        let example = self.schema.relations.iter().take(2).map(|t| (t.label.clone(), self.pair(t))).collect();
        let system = self.render("relations", context! { types, example => object(example) });
        Some(vec![
            Message::system(system),
            Message::user(format!("{}\n{}", self.text(text), candidates(entities, |_| true))),
        ])
    }

    /// One agent for one entity type (CROSSAGENTIE, section 3.2).
    pub fn type_agent(&self, agent: &EntityType, text: &str) -> Vec<Message> {
        let others: Vec<&str> =
            self.schema.entities.iter().map(|t| t.label.as_str()).filter(|l| *l != agent.label).collect();
        let example = object(vec![(agent.label.clone(), json!([self.named(agent)]))]);
        let kind = context! { label => agent.label.clone(), definition => agent.definition.clone(), examples => agent.examples.join(", ") };
        let system = self.render("type_agent", context! { type => kind, others => others.join(", "), example });
        vec![Message::system(system), Message::user(self.text(text))]
    }

    /// One agent for one relation type, over typed candidates only (CROSSAGENTIE, section 3.4).
    /// `None` if its signature fits no pair of them.
    pub fn relation_agent(&self, agent: &RelationType, text: &str, entities: &[Entity]) -> Option<Vec<Message>> {
        if !has_pair(agent, entities) {
            return None;
        }
        let example = object(vec![(agent.label.clone(), self.pair(agent))]);
        let system = self.render("relation_agent", context! { type => self.relation(agent), example });
        let fits = |label: &str| {
            agent.head.iter().chain(&agent.tail).any(|t| t == label) || agent.head.is_empty() || agent.tail.is_empty()
        };
        Some(vec![
            Message::system(system),
            Message::user(format!("{}\n{}", self.text(text), candidates(entities, fits))),
        ])
    }

    /// The same agent again, with what the other tasks found of the text and its own last answer
    /// (CROSSAGENTIE, section 3.4: relation statements as context of the entity agents).
    pub fn type_agent_again(&self, agent: &EntityType, text: &str, facts: &[String], own: &[&str]) -> Vec<Message> {
        let mut messages = self.type_agent(agent, text);
        let label = &agent.label;
        let own = if own.is_empty() { "{}".into() } else { object(vec![(label.clone(), json!(own))]) };
        messages[1].content =
            self.render("feedback", context! { text => self.text(text), facts => facts.to_vec(), own, label });
        messages
    }

    /// One agent for one event type, over the typed entities found. Roles that ask for entity types
    /// get their candidates.
    pub fn event_agent(&self, agent: &EventType, text: &str, entities: &[Entity]) -> Vec<Message> {
        let arguments: Vec<_> = agent.roles.iter().take(2).map(|r| json!({"role": r.label, "text": "…"})).collect();
        let example = json!({"events": [{"type": agent.label, "trigger": "…", "arguments": arguments}]}).to_string();
        let system = self.render("event_agent", context! { type => self.event(agent), example });
        let fits = |label: &str| agent.roles.iter().any(|role| role.types.iter().any(|kind| kind == label));
        let candidates = candidates(entities, fits);
        let text = self.text(text);
        vec![
            Message::system(system),
            Message::user(if candidates.is_empty() { text } else { format!("{text}\n{candidates}") }),
        ]
    }

    /// How a relation is told to the entity agents: `"Reagan" live in "America"`.
    pub fn relation_statement(&self, label: &str, head: &str, tail: &str) -> String {
        self.render("statement", context! { label => label.replace(['_', '-'], " "), head, tail })
    }

    /// How an event is told to the entity agents.
    pub fn event_statement(&self, label: &str, trigger: &str, arguments: &[(String, String)]) -> String {
        self.render("happening", context! { label, trigger, arguments => arguments.to_vec() })
    }

    /// How a name is told that a relation needs and no entity agent gave.
    pub fn wanted(&self, name: &str) -> String {
        self.render("wanted", context! { name })
    }

    /// How a reading of a trigger is put in a debate.
    pub fn trigger_reading(&self, label: &str, trigger: &str) -> String {
        self.render("trigger", context! { label, trigger })
    }

    /// A claimant's turn in a debate about one conflict (CROSSAGENTIE, section 3.3).
    pub fn debate(
        &self,
        topic: Topic,
        label: &str,
        text: &str,
        options: &[DebateOption],
        said: &[Statement],
    ) -> Vec<Message> {
        let system = self
            .render("debate", context! { label, about => topic.about(self.pack.words), types => self.debated(topic) });
        vec![Message::system(system), Message::user(self.contested(text, options, said))]
    }

    /// The summarizer's turn, where the debate ended without consensus.
    pub fn summarizer(&self, topic: Topic, text: &str, options: &[DebateOption], said: &[Statement]) -> Vec<Message> {
        let system =
            self.render("summarizer", context! { about => topic.about(self.pack.words), types => self.debated(topic) });
        vec![Message::system(system), Message::user(self.contested(text, options, said))]
    }

    /// The same question once more, after an answer that could not be read.
    pub fn again(&self, asked: &[Message], answer: &str, error: &str) -> Vec<Message> {
        let mut messages = asked.to_vec();
        messages.push(Message::assistant(answer.chars().take(REPEATED).collect::<String>()));
        messages.push(Message::user(self.render("again", context! { error })));
        messages
    }

    /// How a reading of a mention is put in a debate: `"Acme" is an organization`.
    pub fn mention_reading(&self, label: &str, text: &str) -> String {
        let an = label.starts_with(['a', 'e', 'i', 'o', 'u']);
        self.render("reading", context! { label, text, article => if an { "an" } else { "a" } })
    }

    /// The last option of every debate.
    pub fn none_is_right(&self) -> &'static str {
        self.pack.words.none_is_right
    }

    /// The option that several readings stand side by side.
    pub fn all_are_right(&self) -> &'static str {
        self.pack.words.all_are_right
    }

    fn render(&self, name: &str, values: minijinja::Value) -> String {
        self.pack.render(name, values)
    }

    fn text(&self, text: &str) -> String {
        format!("{}{text}", self.pack.words.text)
    }

    fn debated(&self, topic: Topic) -> Vec<minijinja::Value> {
        match topic {
            Topic::Entities => self.types(),
            Topic::Relations => self.schema.relations.iter().map(|relation| self.relation(relation)).collect(),
            Topic::Events => self.schema.events.iter().map(|event| self.event(event)).collect(),
        }
    }

    fn types(&self) -> Vec<minijinja::Value> {
        self.schema
            .entities
            .iter()
            .map(|t| context! { label => t.label.clone(), brief => brief(&t.definition, &t.label) })
            .collect()
    }

    fn relation(&self, relation: &RelationType) -> minijinja::Value {
        let words = self.pack.words;
        let ends = |types: &[String]| if types.is_empty() { words.any.to_string() } else { types.join(words.or) };
        context! {
            label => relation.label.clone(),
            definition => relation.definition.clone(),
            brief => brief(&relation.definition, &relation.label),
            head => ends(&relation.head),
            tail => ends(&relation.tail),
        }
    }

    fn named(&self, kind: &EntityType) -> String {
        kind.examples.first().cloned().unwrap_or_else(|| self.pack.words.name_of.replace("{}", &kind.label))
    }

    fn contested(&self, text: &str, options: &[DebateOption], said: &[Statement]) -> String {
        let words = self.pack.words;
        let mut lines = vec![self.text(text), words.options.to_string()];
        lines.extend(options.iter().map(|option| format!("{}: {}", option.letter, option.reading)));
        if !said.is_empty() {
            lines.push(words.said.into());
        }
        lines.extend(said.iter().map(|statement| {
            let sure = statement.confidence.map(|c| format!(" ({} {c})", words.confidence)).unwrap_or_default();
            format!("{}: {}{sure} {}", statement.agent, statement.choice, statement.reason).trim().to_string()
        }));
        lines.join("\n")
    }

    fn event(&self, event: &EventType) -> minijinja::Value {
        let roles: Vec<_> = event
            .roles
            .iter()
            .map(|role| {
                let types = role.types.join(self.pack.words.or);
                context! { label => role.label.clone(), definition => role.definition.clone(), types }
            })
            .collect();
        context! {
            label => event.label.clone(),
            definition => event.definition.clone(),
            brief => brief(&event.definition, &event.label),
            roles,
        }
    }

    /// An example pair made of the schema's own example names.
    fn pair(&self, relation: &RelationType) -> serde_json::Value {
        let name = |types: &[String], at: usize| {
            let label = types.first().or(self.schema.entities.first().map(|t| &t.label));
            let kind = label.and_then(|label| self.schema.entity(label));
            kind.map_or_else(|| "…".to_string(), |t| t.examples.get(at).cloned().unwrap_or_else(|| self.named(t)))
        };
        json!([[
            name(&relation.head, 0),
            name(&relation.tail, usize::from(relation.head.first() == relation.tail.first()))
        ]])
    }
}

/// The definition up to its first full stop or semicolon, of any of the languages: what the long prompts have room for.
fn brief(definition: &str, label: &str) -> String {
    let ends = ["; ", ". ", "；", "。"].into_iter().filter_map(|end| definition.find(end));
    let brief = definition[..ends.min().unwrap_or(definition.len())].trim().trim_end_matches(['.', ';']);
    if brief.is_empty() { label.to_string() } else { brief.to_string() }
}

fn object(fields: Vec<(String, serde_json::Value)>) -> String {
    serde_json::Value::Object(fields.into_iter().collect()).to_string()
}

fn has_pair(relation: &RelationType, entities: &[Entity]) -> bool {
    entities.iter().enumerate().any(|(at, head)| {
        let mut others = entities.iter().enumerate().filter(|(other, tail)| *other != at && tail.text != head.text);
        others.any(|(_, tail)| relation.allows(&head.label, &tail.label))
    })
}

/// The entities by type, one line a type, each name once, in text order.
fn candidates(entities: &[Entity], fits: impl Fn(&str) -> bool) -> String {
    let mut lines: Vec<(&str, Vec<&str>)> = Vec::new();
    for entity in entities.iter().filter(|entity| fits(&entity.label)) {
        match lines.iter_mut().find(|(label, _)| *label == entity.label) {
            Some((_, names)) if names.contains(&entity.text.as_str()) => {}
            Some((_, names)) => names.push(&entity.text),
            None => lines.push((&entity.label, vec![&entity.text])),
        }
    }
    lines.iter().map(|(label, names)| format!("{label}: {}", names.join("; "))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ie::{Role, Span};

    fn schema() -> Schema {
        let entity = |label: &str, definition: &str, example: &str| EntityType {
            label: label.into(),
            definition: definition.into(),
            aliases: vec![],
            examples: vec![example.into()],
        };
        Schema {
            entities: vec![
                entity("person", "Name of a human being; without title.", "Jane Goodall"),
                entity("organization", "Named company, agency or team. Not a country.", "NASA"),
            ],
            relations: vec![RelationType {
                label: "works_for".into(),
                definition: "The person works for the organization. Not studying there.".into(),
                head: vec!["person".into()],
                tail: vec!["organization".into()],
                symmetric: false,
                aliases: vec![],
            }],
            events: vec![],
        }
    }

    fn entities(text: &str) -> Vec<Entity> {
        [("person", "Ann"), ("organization", "Acme")]
            .map(|(label, name)| {
                let at = text.find(name).unwrap();
                Entity {
                    label: label.into(),
                    text: name.into(),
                    span: Span::new(text, at..at + name.len()).ok(),
                    confidence: None,
                }
            })
            .to_vec()
    }

    #[test]
    fn every_prompt_of_the_pack_reads_as_snapshotted() {
        let (prompts, text) = (Prompts::new(schema()), "Ann joined Acme.");
        let options = [('A', "\"Acme\" is an organization"), ('B', "\"Acme\" is a person"), ('C', "none of these")]
            .map(|(letter, reading)| DebateOption { letter, reading: reading.into() });
        let said =
            [Statement { agent: "person".into(), choice: 'B', reason: "it hires".into(), confidence: Some(0.7) }];
        let relation = prompts.schema().relations[0].clone();
        let person = prompts.schema().entities[0].clone();
        let all = [
            prompts.entities(text),
            prompts.relations(text, &entities(text)).unwrap(),
            prompts.type_agent(&person, text),
            prompts.relation_agent(&relation, text, &entities(text)).unwrap(),
            prompts.debate(Topic::Entities, "person", text, &options, &said),
            prompts.summarizer(Topic::Entities, text, &options, &said),
        ];
        let shown: Vec<String> = all.iter().map(|m| format!("{}\n-----\n{}", m[0].content, m[1].content)).collect();
        insta::assert_snapshot!(shown.join("\n==========\n"));
    }

    #[test]
    fn every_template_renders_in_every_language() {
        let event = EventType {
            label: "dismissal".into(),
            definition: "Somebody loses a post.".into(),
            roles: vec![Role {
                label: "who".into(),
                types: vec!["person".into()],
                definition: "The one who goes.".into(),
            }],
        };
        let asked = Schema { events: vec![event.clone()], ..schema() };
        let (text, options) = ("Ann joined Acme.", [DebateOption { letter: 'A', reading: "x".into() }]);
        let shown = Language::ALL.map(|language| {
            let prompts = Prompts::spoken(language, asked.clone());
            let schema = prompts.schema();
            let question = prompts.event_agent(&event, text, &entities(text));
            let all = [
                prompts.entities(text),
                prompts.relations(text, &entities(text)).unwrap(),
                prompts.type_agent(&schema.entities[0], text),
                prompts.type_agent_again(
                    &schema.entities[0],
                    text,
                    &[prompts.relation_statement("works_for", "Ann", "Acme")],
                    &["Ann"],
                ),
                prompts.relation_agent(&schema.relations[0], text, &entities(text)).unwrap(),
                prompts.debate(Topic::Relations, "person", text, &options, &[]),
                prompts.summarizer(Topic::Events, text, &options, &[]),
                prompts.again(&question, "hm", "no JSON"),
                question,
                vec![
                    Message::system(prompts.mention_reading("person", "Ann")),
                    Message::user(prompts.trigger_reading("dismissal", "fired")),
                    Message::user(prompts.event_statement("dismissal", "fired", &[("who".into(), "Ann".into())])),
                    Message::user(prompts.wanted("Ann")),
                ],
            ];
            let said = |messages: &Vec<Message>| {
                messages.iter().map(|m| m.content.as_str()).collect::<Vec<_>>().join("\n-----\n")
            };
            format!("##### {}\n{}", language.name(), all.iter().map(said).collect::<Vec<_>>().join("\n==========\n"))
        });
        insta::assert_snapshot!(shown.join("\n\n"));
    }

    #[test]
    fn a_relation_without_a_fitting_pair_is_not_asked() {
        let (prompts, text) = (Prompts::new(schema()), "Ann joined Acme.");
        let person = &entities(text)[..1];
        assert!(prompts.relations(text, person).is_none());
        assert!(prompts.relation_agent(&prompts.schema().relations[0], text, person).is_none());
    }
}
