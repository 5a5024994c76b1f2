//! Debates with scripted agents: silence, agreement, ties, and the record that is kept of them.

#[cfg(test)]
mod cooperkgc;
#[cfg(test)]
mod tasks;

use super::{Client, Protocol, Sampling, Team};
use crate::ie::{Document, EntityType, Schema, Status};
use crate::store::{AnswerStore, StoredAnswer, StoredRequest};
use crate::trace::{Course, Settled, Support, Trace};

const TEXT: &str = "Acme opened a shop.";

fn schema() -> Schema {
    let entity =
        |label: &str| EntityType { label: label.into(), definition: String::new(), aliases: vec![], examples: vec![] };
    Schema { entities: ["person", "organization", "location"].map(entity).to_vec(), ..Schema::default() }
}

fn sampling() -> Sampling {
    Sampling {
        model: "m".into(),
        temperature: 0.0,
        max_tokens: 50,
        debate_max_tokens: 20,
        frequency_penalty: 0.0,
        seed: 1,
        logprobs: false,
        max_rounds: 2,
    }
}

/// Who is asked what: the agent, whether it is a debate, and the question.
struct Asked<'a> {
    agent: &'a str,
    debate: bool,
    question: &'a str,
}

impl Asked<'_> {
    fn of(request: &StoredRequest) -> Asked<'_> {
        let system = request.messages[0].content.as_str();
        let named = system.strip_prefix("You are the ").and_then(|rest| rest.split([' ', '.']).next());
        let debate = system.contains("disagrees about") || system.contains("did not agree");
        Asked { agent: named.unwrap_or("all-in-one"), debate, question: &request.messages[1].content }
    }

    /// The ballot for the option that ends so.
    fn choose(&self, reading: &str) -> Option<String> {
        let option = self.question.lines().find(|line| line.ends_with(reading))?;
        Some(format!(r#"{{"choice":"{}","confidence":0.9,"reason":"it opened a shop"}}"#, option.get(..1)?))
    }
}

/// Asks until the script has answered all that it answers; where it gives `None`, nobody speaks.
/// The trace of a team that `gather` makes, and all that it asked.
fn play(
    gather: impl for<'c> Fn(&'c Client) -> Team<'c>,
    text: &str,
    script: impl Fn(&StoredRequest) -> Option<String>,
) -> (Trace, Vec<StoredRequest>) {
    let documents = [Document::new("d", text)];
    let client = Client::replay(AnswerStore::new());
    loop {
        let team = gather(&client).recording();
        let mut traces = team.debate(&documents);
        let mut fresh = 0;
        for request in team.requests() {
            let unheard = client.store().get(&request).is_none();
            if let Some(content) = script(&request).filter(|_| unheard) {
                client.store().put(&request, &said(content)).unwrap();
                fresh += 1;
            }
        }
        if fresh == 0 {
            return (traces.remove(0), team.requests());
        }
    }
}

/// The trace of the type agents of [`schema`].
fn debate(text: &str, script: impl Fn(&Asked) -> Option<String>) -> Trace {
    let script = |request: &StoredRequest| script(&Asked::of(request));
    play(|client| Team::new(Protocol::Crossagentie, schema(), client, sampling()), text, script).0
}

fn said(content: String) -> StoredAnswer {
    StoredAnswer {
        content,
        finish: "stop".into(),
        refusal: None,
        tokens: None,
        prompt_tokens: Some(9),
        completion_tokens: Some(3),
        ..StoredAnswer::default()
    }
}

/// Person and organization agents both claim Acme; the location agent finds nothing.
fn claim(agent: &str) -> Option<String> {
    Some(if agent == "location" { "{}".into() } else { format!(r#"{{"{agent}":["Acme"]}}"#) })
}

fn failed_agents(trace: &Trace) -> Vec<&str> {
    trace.turns.iter().filter(|turn| turn.status == Status::Failed).map(|turn| turn.agent.as_str()).collect()
}

#[test]
fn an_agent_without_a_usable_answer_stays_in_the_record_and_keeps_the_document_out() {
    let trace = debate(TEXT, |asked| match asked.agent {
        "person" => None,
        "organization" => Some(r#"{"organization":["Acme"]}"#.into()),
        _ => Some("I think the shop was quite nice.".into()),
    });
    assert_eq!(trace.turns.len(), 3);
    assert_eq!(failed_agents(&trace), ["person", "location"]);
    assert!(trace.turns[0].error.as_deref().unwrap().starts_with("no recorded answer"));
    assert_eq!(trace.turns[2].raw, "I think the shop was quite nice.");
    assert_eq!((trace.status, trace.extraction.entities[0].text.as_str()), (Status::Ok, "Acme"));
    assert!(!trace.is_whole(), "a document with a silent agent is no training data");
}

#[test]
fn silence_of_all_is_a_failure_and_never_an_empty_answer() {
    let trace = debate(TEXT, |_| None);
    assert_eq!((trace.status, trace.failed_turns(), trace.is_whole()), (Status::Failed, 3, false));
    let prediction = trace.prediction(&Document::new("d", TEXT));
    assert_eq!(prediction.status, Status::Failed);
    assert!(prediction.error.unwrap().starts_with("no recorded answer"));
}

/// What a debate leaves behind the item that it decided.
fn course(rounds: u32, settled: Settled) -> Option<Course> {
    Some(Course { rounds, settled })
}

#[test]
fn agreement_of_all_claimants_ends_a_debate_in_its_first_round() {
    let trace = debate(TEXT, |asked| match asked.debate {
        true => asked.choose("is an organization"),
        false => claim(asked.agent),
    });
    let conflict = &trace.conflicts[0];
    assert_eq!((conflict.settled, conflict.rounds), (Settled::Consensus, 1));
    assert_eq!(conflict.outcome.as_deref(), Some("\"Acme\" is an organization"));
    assert_eq!(
        trace.entity_support,
        [Support { votes: 2, voters: 2, debate: course(1, Settled::Consensus), ..Support::default() }]
    );
    assert_eq!(trace.extraction.entities[0].label, "organization");
    assert!(trace.turns.iter().all(|turn| turn.agent != "summarizer") && trace.is_whole());
}

#[test]
fn silence_in_a_debate_is_no_consent() {
    let trace = debate(TEXT, |asked| match (asked.debate, asked.agent) {
        (true, "person") => None,
        (true, _) => asked.choose("is an organization"),
        (false, agent) => claim(agent),
    });
    let conflict = &trace.conflicts[0];
    assert_eq!((conflict.settled, conflict.rounds), (Settled::Summarizer, 2));
    assert_eq!(
        trace.entity_support,
        [Support { votes: 1, voters: 2, judged: true, debate: course(2, Settled::Summarizer), ..Support::default() }]
    );
    assert_eq!(failed_agents(&trace), ["person", "person"], "one silence a round");
}

#[test]
fn a_debate_that_nobody_speaks_in_leaves_no_label() {
    let trace = debate(TEXT, |asked| if asked.debate { None } else { claim(asked.agent) });
    assert_eq!((trace.conflicts[0].settled, trace.conflicts[0].outcome.as_ref()), (Settled::Failed, None));
    assert!(trace.extraction.entities.is_empty());
    assert!(!trace.is_whole());
}

#[test]
fn a_tie_without_a_summarizer_falls_to_the_earlier_letter_every_time() {
    let tied = || {
        debate(TEXT, |asked| match (asked.debate, asked.agent) {
            (true, "summarizer") => None,
            (true, "person") => asked.choose("is a person"),
            (true, _) => asked.choose("is an organization"),
            (false, agent) => claim(agent),
        })
    };
    let trace = tied();
    let first = trace.conflicts[0].options.iter().find(|option| !option.ends_with("none of these is right")).unwrap();
    assert_eq!(trace.conflicts[0].outcome.as_deref(), first.get(3..));
    assert_eq!(trace.conflicts[0].settled, Settled::Majority);
    assert_eq!(trace.entity_support[0].votes, 1);
    assert!(!trace.is_whole(), "the summarizer's silence keeps the document out");
    assert_eq!(trace, tied());
}

#[test]
fn a_blank_text_is_answered_without_a_call() {
    // Case C12.
    let trace = debate(" \t\n", |_| panic!("nothing is asked about a blank text"));
    assert_eq!((trace.status, trace.turns.len()), (Status::Empty, 0));
}

#[test]
fn a_name_that_the_text_does_not_hold_is_dropped_and_counted() {
    // Case C08.
    let trace = debate(TEXT, |asked| {
        Some(if asked.agent == "person" { r#"{"person":["Marie Curie"]}"#.into() } else { "{}".into() })
    });
    assert_eq!((trace.status, trace.turns[0].status), (Status::Empty, Status::Empty));
    assert_eq!(trace.turns[0].dropped[0].0, "Marie Curie");
}
