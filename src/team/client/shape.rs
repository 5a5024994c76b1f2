//! How a server is held to the shape of an answer: the JSON Schema of what is asked, and the
//! parameters by which servers take one.

use crate::config::ExpertTask;
use crate::ie::Schema;
use serde_json::{Map, Value, json};

/// A way to send a schema, by the parameter that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// OpenAI's, and that of most servers by now.
    ResponseFormat,
    /// vLLM from 0.12 on.
    StructuredOutputs,
    /// vLLM before 0.12.
    GuidedJson,
    /// llama.cpp's server.
    JsonSchema,
    /// llama.cpp's server before it read schemas: a GBNF grammar.
    Grammar,
}

impl Form {
    /// All, those first that most servers know.
    pub const ALL: [Form; 5] =
        [Form::ResponseFormat, Form::StructuredOutputs, Form::GuidedJson, Form::JsonSchema, Form::Grammar];

    /// The parameter's name.
    pub fn name(self) -> &'static str {
        match self {
            Form::ResponseFormat => "response_format",
            Form::StructuredOutputs => "structured_outputs",
            Form::GuidedJson => "guided_json",
            Form::JsonSchema => "json_schema",
            Form::Grammar => "grammar",
        }
    }

    /// The form of that name.
    pub fn named(name: &str) -> Option<Form> {
        Form::ALL.into_iter().find(|form| form.name() == name)
    }

    /// What is sent beside the messages.
    pub(super) fn parameters(self, schema: &Value) -> Map<String, Value> {
        let value = match self {
            Form::ResponseFormat => {
                json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}})
            }
            Form::StructuredOutputs => json!({ "json": schema }),
            Form::GuidedJson | Form::JsonSchema => schema.clone(),
            Form::Grammar => Value::String(grammar(schema)),
        };
        Map::from_iter([(self.name().to_string(), value)])
    }
}

/// What an answer about these labels may be: `{"person":["Ann"]}`.
pub fn entities(labels: &[&str]) -> Value {
    object(labels, &json!({"type": "array", "items": {"type": "string"}}))
}

/// What an answer about these relations may be: `{"works_for":[["Ann","Acme"]]}`.
pub fn relations(labels: &[&str]) -> Value {
    let pair = json!({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2});
    object(labels, &json!({"type": "array", "items": pair}))
}

/// What a ballot may be: `{"choice":"A","confidence":0.8,"reason":"…"}`.
pub fn ballot() -> Value {
    let letters: Vec<String> = ('A'..='Z').map(String::from).collect();
    json!({
        "type": "object",
        "properties": {
            "choice": {"type": "string", "enum": letters},
            "confidence": {"type": "number"},
            "reason": {"type": "string"},
        },
        "required": ["choice", "confidence", "reason"],
        "additionalProperties": false,
    })
}

/// What an answer about these events may be:
/// `{"attack":[{"trigger":"seized","arguments":{"attacker":["troops"]}}]}`.
pub fn events(schema: &Schema) -> Value {
    let names = json!({"type": "array", "items": {"type": "string"}});
    let kinds = schema.events.iter().map(|kind| {
        let roles: Vec<&str> = kind.roles.iter().map(|role| role.label.as_str()).collect();
        let happening = fields([("trigger", json!({"type": "string"})), ("arguments", object(&roles, &names))]);
        (kind.label.as_str(), json!({"type": "array", "items": happening}))
    });
    fields(kinds)
}

/// What an expert may answer: its items under the name of its task, in later rounds with the
/// reason in front.
pub fn expert(task: ExpertTask, schema: &Schema, reasoned: bool) -> Value {
    let items = match task {
        ExpertTask::Entities => entities(&task.labels(schema)),
        ExpertTask::Relations => relations(&task.labels(schema)),
        ExpertTask::Events => events(schema),
    };
    let reason = reasoned.then(|| ("reason", json!({"type": "string"})));
    fields(reason.into_iter().chain([(task.name(), items)]))
}

/// The shape of the answer of `agent` at a stage of a debate; `None` where nobody has said it.
pub fn of(stage: &str, agent: &str, schema: &Schema) -> Option<Value> {
    let mine = |label: &&str| *label == agent;
    let entity: Vec<&str> = schema.entities.iter().map(|kind| kind.label.as_str()).collect();
    let relation: Vec<&str> = schema.relations.iter().map(|kind| kind.label.as_str()).collect();
    let own = |labels: Vec<&str>, shape: fn(&[&str]) -> Value| match labels.iter().copied().find(mine) {
        Some(label) => Some(shape(&[label])),
        None => (agent == "all-in-one").then(|| shape(&labels)),
    };
    match stage {
        "entities" => own(entity, entities),
        "relations" => own(relation, relations),
        "debate" | "summary" => Some(ballot()),
        _ => None,
    }
}

fn object(labels: &[&str], value: &Value) -> Value {
    fields(labels.iter().map(|label| (*label, value.clone())))
}

/// Every property is required, as OpenAI's strict mode demands; none may be added.
fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let properties: Map<String, Value> = fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// A schema made of the functions above, as a GBNF grammar of compact JSON.
fn grammar(schema: &Value) -> String {
    format!("root ::= {}\n{TERMINALS}", expression(schema))
}

/// Strings as in RFC 8259, of at most 400 characters: an endless string is no answer.
const TERMINALS: &str = r#"string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})){0,400} "\""
number ::= "-"? ("0" | [1-9] [0-9]{0,8}) ("." [0-9]{1,8})?
"#;

fn expression(schema: &Value) -> String {
    let quoted = |text: &str| Value::String(text.to_string()).to_string();
    if let Some(words) = schema["enum"].as_array() {
        // Twice quoted: the word as JSON, and that as a literal of the grammar.
        let words: Vec<String> = words.iter().map(|word| quoted(&word.to_string())).collect();
        return format!("({})", words.join(" | "));
    }
    match schema["type"].as_str() {
        Some("object") => {
            let fields: Vec<String> = schema["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| format!("{} {}", quoted(&format!("{}:", quoted(key))), expression(value)))
                .collect();
            format!("\"{{\" {} \"}}\"", fields.join(" \",\" "))
        }
        Some("array") => {
            let item = expression(&schema["items"]);
            match schema["minItems"].as_u64() {
                Some(2) => format!("\"[\" {item} \",\" {item} \"]\""),
                _ => format!("\"[\" ({item} (\",\" {item})*)? \"]\""),
            }
        }
        Some("number") => "number".into(),
        _ => "string".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ie::{EntityType, RelationType};

    fn schema() -> Schema {
        let kind = |label: &str| EntityType {
            label: label.into(),
            definition: String::new(),
            aliases: vec![],
            examples: vec![],
        };
        let relation: RelationType = serde_json::from_str(r#"{"label":"works_for"}"#).unwrap();
        Schema { entities: vec![kind("person"), kind("a \"b\"")], relations: vec![relation], ..Schema::default() }
    }

    #[test]
    fn an_agent_is_held_to_its_own_label_and_a_debater_to_a_ballot() {
        let shape = |stage: &str, agent: &str| of(stage, agent, &schema());
        assert_eq!(shape("entities", "person").unwrap()["required"], json!(["person"]));
        assert_eq!(shape("entities", "all-in-one").unwrap()["required"], json!(["person", "a \"b\""]));
        assert_eq!(shape("relations", "works_for").unwrap()["properties"]["works_for"]["items"]["minItems"], 2);
        assert_eq!(shape("debate", "person").unwrap()["required"], json!(["choice", "confidence", "reason"]));
        assert_eq!(shape("entities", "nobody"), None);
        assert_eq!(shape("poetry", "person"), None);
    }

    #[test]
    fn an_expert_is_held_to_its_task_with_the_reason_in_front_of_a_later_answer() {
        let mut schema = schema();
        let kind = r#"{"label":"attack","roles":[{"label":"attacker"},{"label":"tool"}]}"#;
        schema.events.push(serde_json::from_str(kind).unwrap());
        let first = expert(ExpertTask::Entities, &schema, false);
        assert_eq!(first["required"], json!(["entities"]));
        assert_eq!(first["properties"]["entities"], entities(&["person", "a \"b\""]));
        let later = expert(ExpertTask::Events, &schema, true);
        assert_eq!(later["required"], json!(["reason", "events"]));
        let names = r#""[" (string ("," string)*)? "]""#;
        let roles = format!(r#""{{" "\"attacker\":" {names} "," "\"tool\":" {names} "}}""#);
        let event = format!(r#""{{" "\"trigger\":" string "," "\"arguments\":" {roles} "}}""#);
        let attacks = format!(r#""{{" "\"attack\":" "[" ({event} ("," {event})*)? "]" "}}""#);
        let answer = format!(r#"root ::= "{{" "\"reason\":" string "," "\"events\":" {attacks} "}}""#);
        assert_eq!(grammar(&later).lines().next(), Some(answer.as_str()));
    }

    #[test]
    fn each_form_carries_the_schema_under_its_own_name() {
        let schema = entities(&["person"]);
        for form in Form::ALL {
            let sent = form.parameters(&schema);
            assert_eq!(sent.keys().collect::<Vec<_>>(), [form.name()]);
            assert_eq!(Form::named(form.name()), Some(form));
            let carried = match form {
                Form::ResponseFormat => &sent["response_format"]["json_schema"]["schema"],
                Form::StructuredOutputs => &sent["structured_outputs"]["json"],
                Form::Grammar => continue,
                _ => &sent[form.name()],
            };
            assert_eq!(carried, &schema);
        }
    }

    #[test]
    fn a_grammar_spells_compact_json() {
        let first = |schema: &Value| grammar(schema).lines().next().unwrap().to_string();
        assert_eq!(
            first(&entities(&["person", "a \"b\""])),
            r#"root ::= "{" "\"person\":" "[" (string ("," string)*)? "]" "," "\"a \\\"b\\\"\":" "[" (string ("," string)*)? "]" "}""#
        );
        assert_eq!(
            first(&relations(&["r"])),
            r#"root ::= "{" "\"r\":" "[" ("[" string "," string "]" ("," "[" string "," string "]")*)? "]" "}""#
        );
        let ballot = first(&ballot());
        assert!(ballot.starts_with(r#"root ::= "{" "\"choice\":" ("\"A\"" | "\"B\""#), "{ballot}");
        assert!(ballot.ends_with(r#""," "\"confidence\":" number "," "\"reason\":" string "}""#), "{ballot}");
    }
}
