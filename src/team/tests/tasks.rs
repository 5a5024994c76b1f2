//! The tasks together: feedback from relations and events to entities, withdrawal, Δ, events,
//! ablations, languages. Agents are scripted by what stands in their prompts.

use super::{play, sampling};
use crate::ie::{EntityType, EventType, RelationType, Role, Schema};
use crate::store::StoredRequest;
use crate::team::{Debated, Options, Protocol, Team};
use crate::template::prompt::Language;
use crate::trace::Trace;

const TEXT: &str = "Reagan lives in America. Bo was fired in America.";

fn entity(label: &str) -> EntityType {
    EntityType { label: label.into(), definition: format!("A {label}."), aliases: vec![], examples: vec![] }
}

fn schema() -> Schema {
    let relation = |label: &str, head: &str, tail: &str| RelationType {
        label: label.into(),
        definition: String::new(),
        head: vec![head.into()],
        tail: vec![tail.into()],
        symmetric: false,
        aliases: vec![],
    };
    let role =
        |label: &str, kind: &str| Role { label: label.into(), types: vec![kind.into()], definition: String::new() };
    let event = |label: &str| EventType {
        label: label.into(),
        definition: String::new(),
        roles: vec![role("who", "person"), role("place", "location")],
    };
    Schema {
        entities: ["person", "organization", "location"].map(entity).to_vec(),
        relations: vec![relation("live_in", "person", "location"), relation("work_for", "person", "organization")],
        events: vec![event("dismissal"), event("attack")],
    }
}

/// What is asked: the system prompt and the question.
type Script<'a> = &'a dyn Fn(&str, &str) -> Option<String>;

/// Asks until the script has answered all that it answers.
fn read(
    schema: &Schema,
    text: &str,
    options: &Options,
    language: Language,
    script: Script,
) -> (Trace, Vec<StoredRequest>) {
    play(
        |client| {
            let team = Team::new(Protocol::Crossagentie, schema.clone(), client, sampling());
            team.working(options.clone()).speaking(language)
        },
        text,
        |request| script(&request.messages[0].content, &request.messages[request.messages.len() - 1].content),
    )
}

fn feedback(rounds: u32) -> Options {
    Options { feedback_rounds: rounds, ..Options::default() }
}

fn named(trace: &Trace) -> Vec<String> {
    trace.extraction.entities.iter().map(|entity| format!("{} {}", entity.label, entity.text)).collect()
}

/// The one who speaks, by the first words of the English and other prompts.
fn agent(system: &str) -> &str {
    let rest = system.strip_prefix("You are the ").unwrap_or(system);
    rest.split(' ').next().unwrap_or_default()
}

/// The paper's own example: a second look, told that Reagan lives in America, takes America for an
/// organization too; the relation's signature says that it is none.
fn reagan(system: &str, question: &str) -> Option<String> {
    let again = question.contains("Other experts read");
    Some(
        match agent(system) {
            "person" if again => r#"{"person":["Reagan","Bo"]}"#,
            "person" => r#"{"person":["Reagan"]}"#,
            "organization" if again => r#"{"organization":["America"]}"#,
            "location" => r#"{"location":["America"]}"#,
            "live_in" => r#"{"live_in":[["Reagan","America"]]}"#,
            _ => "{}",
        }
        .into(),
    )
}

#[test]
fn a_label_that_contradicts_a_confirmed_relation_is_withdrawn_and_a_missing_name_is_found() {
    let (trace, requests) = read(&schema(), TEXT, &feedback(1), Language::English, &reagan);
    assert_eq!(named(&trace), ["person Reagan", "location America", "person Bo", "location America"]);
    let told = requests.iter().find(|request| request.messages[1].content.contains("Other experts read")).unwrap();
    assert!(told.messages[1].content.contains(r#""Reagan" live in "America""#), "{}", told.messages[1].content);
    assert!(told.messages[1].content.contains(r#"Your last answer: {"person":["Reagan"]}"#));
    assert_eq!(trace.withdrawn, [r#"organization "America": contradicts "Reagan" live in "America""#]);
    assert!(trace.conflicts.is_empty(), "what is withdrawn is not debated");
}

#[test]
fn feedback_ends_where_nothing_changes_and_is_not_asked_where_nothing_is_confirmed() {
    let steady = |system: &str, _: &str| reagan(system, "");
    let (trace, requests) = read(&schema(), TEXT, &feedback(5), Language::English, &steady);
    let again = |request: &&StoredRequest| request.messages[1].content.contains("Other experts read");
    assert_eq!(requests.iter().filter(again).count(), 3, "one round, an agent each");
    let stages: Vec<(&str, u32)> = trace.snapshots.iter().map(|at| (at.stage.as_str(), at.round)).collect();
    assert_eq!(stages, [("first", 0), ("debate", 0)]);
    let without =
        |system: &str, _: &str| Some(if agent(system) == "live_in" { "{}".into() } else { reagan(system, "")? });
    let (_, requests) = read(&schema(), TEXT, &feedback(5), Language::English, &without);
    assert_eq!(requests.iter().filter(again).count(), 0);
}

#[test]
fn delta_counts_what_one_task_has_and_the_other_lacks_and_a_round_that_widens_it_is_the_last() {
    // Given and used: Reagan and one America; given and unused: the other America.
    let (trace, _) = read(&schema(), TEXT, &feedback(1), Language::English, &|system, _| reagan(system, ""));
    assert_eq!(trace.snapshots[1].delta, Some(1));
    // The relation wants Bo, whom nobody listed.
    let wants = |system: &str, _: &str| match agent(system) {
        "live_in" => Some(r#"{"live_in":[["Reagan","America"],["Bo","America"]]}"#.into()),
        _ => reagan(system, ""),
    };
    let (trace, requests) = read(&schema(), TEXT, &feedback(1), Language::English, &wants);
    assert_eq!(trace.snapshots[1].delta, Some(2));
    assert!(requests.iter().any(|request| request.messages[1].content.contains(r#"seems to need "Bo""#)));
    // Feedback that adds an unused name widens Δ: no other round follows.
    let (trace, _) = read(&schema(), TEXT, &feedback(5), Language::English, &|system, question| match agent(system) {
        "organization" => Some("{}".into()),
        _ => reagan(system, question),
    });
    let last = trace.snapshots.last().unwrap();
    assert_eq!((last.stage.as_str(), last.round, last.delta), ("feedback", 1, Some(2)));
    assert_eq!(named(&trace), ["person Reagan", "location America", "person Bo", "location America"]);
}

/// As [`reagan`], and two agents read "fired" differently.
fn fired(system: &str, question: &str) -> Option<String> {
    let event = |label: &str| {
        format!(
            r#"{{"events":[{{"type":"{label}","trigger":"fired","arguments":[{{"role":"who","text":"Bo"}},{{"role":"place","text":"Reagan"}}]}}]}}"#
        )
    };
    if system.contains("disagrees about") {
        let option = question.lines().find(|line| line.ends_with("event dismissal"))?;
        return Some(format!(r#"{{"choice":"{}","reason":"from work"}}"#, option.get(..1)?));
    }
    match agent(system) {
        label @ ("dismissal" | "attack") => Some(event(label)),
        _ => reagan(system, question),
    }
}

#[test]
fn event_agents_debate_a_trigger_and_an_argument_of_a_wrong_type_is_dropped() {
    let (trace, _) = read(&schema(), TEXT, &feedback(0), Language::English, &fired);
    let events = &trace.extraction.events;
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].label.as_str(), events[0].trigger.start), ("dismissal", Some(32)));
    let arguments: Vec<&str> = events[0].arguments.iter().map(|argument| argument.text.as_str()).collect();
    assert_eq!(arguments, ["Bo"], "Reagan is a person, and a place is asked for");
    let turn = trace.turns.iter().find(|turn| turn.agent == "dismissal" && turn.stage == "events").unwrap();
    assert!(turn.dropped[0].1.contains("the role does not allow person"), "{:?}", turn.dropped);
    let conflict = trace.conflicts.iter().find(|conflict| conflict.stage == "events").unwrap();
    assert_eq!(conflict.claimants, ["attack", "dismissal"]);
    assert_eq!((trace.event_support.len(), trace.event_support[0].votes), (1, 2));
}

#[test]
fn each_ablation_leaves_out_its_own_debates() {
    let claims = |system: &str, question: &str| match agent(system) {
        "organization" => Some(r#"{"organization":["America"]}"#.into()),
        "work_for" => Some(r#"{"work_for":[["Reagan","America"]]}"#.into()),
        _ => fired(system, question),
    };
    let stages = |entities: bool, relations: bool, events: bool| {
        let options = Options { debated: Debated { entities, relations, events }, ..feedback(0) };
        let (trace, _) = read(&schema(), TEXT, &options, Language::English, &claims);
        let mut stages: Vec<String> = trace.conflicts.iter().map(|conflict| conflict.stage.clone()).collect();
        stages.dedup();
        stages
    };
    assert_eq!(stages(false, false, false), Vec::<String>::new());
    assert_eq!(stages(true, false, false), ["entities"]);
    assert_eq!(stages(false, true, false), ["relations"]);
    assert_eq!(stages(false, false, true), ["events"]);
}

#[test]
fn an_agent_that_is_silent_in_the_feedback_keeps_its_claims_and_is_counted() {
    let (trace, _) = read(&schema(), TEXT, &feedback(1), Language::English, &|system, question| {
        let silent = agent(system) == "location" && question.contains("Other experts read");
        if silent { Some("Well, it depends.".into()) } else { reagan(system, question) }
    });
    assert!(named(&trace).contains(&"location America".to_string()));
    assert!(trace.failed_turns() == 1 && !trace.is_whole());
}

#[test]
fn an_unreadable_answer_is_asked_for_once_more_and_both_are_kept() {
    let script =
        |system: &str, question: &str| match (agent(system), question.starts_with("Your answer could not be read")) {
            ("person", false) => Some("I think it is Reagan.".into()),
            ("location", _) => Some("Hm.".into()),
            _ => reagan(system, ""),
        };
    let options = Options { reask: true, ..feedback(0) };
    let (trace, requests) = read(&schema(), TEXT, &options, Language::English, &script);
    assert_eq!(named(&trace), ["person Reagan"]);
    assert_eq!(trace.superseded.len(), 2);
    let (person, location) = (&trace.turns[0], &trace.turns[2]);
    assert!(person.asked_again && person.error.is_none() && person.raw.contains("Reagan"));
    assert!(location.asked_again && location.error.is_some(), "asked once more, not twice");
    let again: Vec<&StoredRequest> = requests.iter().filter(|request| request.messages.len() == 4).collect();
    assert_eq!(again.len(), 2);
    assert!(again[0].messages[3].content.contains("no JSON in the answer"), "{}", again[0].messages[3].content);
    assert_eq!(trace.cost().calls as usize, requests.len(), "first answers were paid for too");
}

#[test]
fn chinese_and_korean_documents_are_read_in_their_own_language() {
    let chinese = |label: &str, definition: &str| EntityType { definition: definition.into(), ..entity(label) };
    let schema = Schema {
        entities: vec![chinese("人物", "人的姓名。不含称谓。"), chinese("地点", "城市、国家等地名。")],
        relations: vec![RelationType {
            label: "居住地".into(),
            definition: "人物住在地点。".into(),
            head: vec!["人物".into()],
            tail: vec!["地点".into()],
            symmetric: false,
            aliases: vec![],
        }],
        events: vec![],
    };
    assert_eq!(Language::of(&schema), Language::Chinese);
    let text = "里根住在美国。";
    let (trace, requests) = read(&schema, text, &feedback(1), Language::of(&schema), &|system, question| {
        Some(match () {
            () if system.contains("“人物”的专家") => r#"{"人物":["里根"]}"#.into(),
            () if system.contains("“地点”的专家") => r#"{"地点":["美国"]}"#.into(),
            () if system.contains("“居住地”关系") => r#"{"居住地":[["里根","美国"]]}"#.into(),
            () => format!("{system}{question}"),
        })
    });
    assert_eq!(named(&trace), ["人物 里根", "地点 美国"]);
    assert_eq!((trace.extraction.entities[1].start, trace.extraction.entities[1].end), (Some(4), Some(6)));
    assert_eq!(trace.extraction.relations.len(), 1);
    assert!(requests[0].messages[1].content.starts_with("文本：里根"));
    assert!(requests.iter().any(|request| request.messages[1].content.contains("“里根”与“美国”的关系是：居住地")));

    let korean = Schema {
        entities: vec![chinese("인물", "사람의 이름."), chinese("장소", "도시나 나라의 이름.")],
        ..Schema::default()
    };
    assert_eq!(Language::of(&korean), Language::Korean);
    let (trace, _) =
        read(&korean, "레이건은 미국에 산다.", &feedback(0), Language::of(&korean), &|system, _| {
            Some(
                if system.contains("인물 담당") {
                    r#"{"인물":["레이건"]}"#
                } else {
                    r#"{"장소":["미국"]}"#
                }
                .into(),
            )
        });
    assert_eq!(named(&trace), ["인물 레이건", "장소 미국"]);
    assert_eq!(Language::of(&super::schema()), Language::English);
}
