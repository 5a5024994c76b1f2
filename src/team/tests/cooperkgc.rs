//! Teams of scripted experts: who is asked what, who sees what, and what it comes to.

use super::{play, sampling};
use crate::config::{Cooperation, Expert, ExpertTask};
use crate::ie::record::ExtractionRecord;
use crate::ie::{Document, Schema, Status};
use crate::store::StoredRequest;
use crate::team::{Demonstrator, Options, Protocol, Team};
use crate::trace::{Support, Trace};
use std::sync::Arc;

const TEXT: &str = "Ann Lee joined Acme in Bern.";

const NER: &str = r#"{"entities":{"person":["Ann Lee"],"company":["Acme"]}}"#;
const RE: &str = r#"{"relations":{"works_for":[["Ann Lee","Acme"]]}}"#;
const EE: &str = r#"{"events":{"joining":[{"trigger":"joined","arguments":{"who":["Ann Lee"],"what":["Acme"]}}]}}"#;

fn schema() -> Schema {
    toml::from_str(
        "entities = [{ label = 'person' }, { label = 'company' }, { label = 'place' }]\n\
         relations = [{ label = 'works_for', head = ['person'], tail = ['company'] },\n\
         { label = 'located_in', head = ['company'], tail = ['place'] }]\n\
         events = [{ label = 'joining', roles = [{ label = 'who', types = ['person'] },\n\
         { label = 'what', types = ['company'] }] }]\n",
    )
    .unwrap()
}

/// The standard team with these rounds.
fn team(rounds: [u32; 3]) -> Cooperation {
    let mut team = Cooperation::standard(&schema());
    team.experts.iter_mut().zip(rounds).for_each(|(expert, rounds)| expert.rounds = rounds);
    team
}

/// Experts in entities that do not hear each other and answer once.
fn alone(names: &[&str]) -> Cooperation {
    let expert = |(at, name): (usize, &&str)| Expert {
        name: (*name).into(),
        task: ExpertTask::Entities,
        schema: None,
        rounds: 0,
        seed: 1000 * at as u64,
    };
    Cooperation { experts: names.iter().enumerate().map(expert).collect(), edges: vec![], ..team([0; 3]) }
}

/// Who is asked what: the expert, its last answer, and the last message.
struct Asked<'a> {
    expert: &'a str,
    last: Option<&'a str>,
    question: &'a str,
}

impl Asked<'_> {
    fn of(request: &StoredRequest) -> Asked<'_> {
        let system = request.messages[0].content.as_str();
        let named = system.split_once("You are ").and_then(|(_, rest)| rest.split('.').next());
        let question = request.messages.last().unwrap().content.as_str();
        let last = question.split_once("Your answer of the last round:\n").and_then(|(_, rest)| rest.lines().next());
        Asked { expert: named.unwrap_or("?"), last, question }
    }

    fn is_first(&self) -> bool {
        !self.question.contains("last round")
    }
}

/// What each expert of the standard team says, in every round.
fn steady(asked: &Asked) -> Option<String> {
    let said = match asked.expert {
        "NER" => NER,
        "RE" => RE,
        "EE" => EE,
        _ => return None,
    };
    Some(said.into())
}

/// The trace of the experts of these options, and all that they were asked.
fn read(text: &str, options: Options, script: impl Fn(&Asked) -> Option<String>) -> (Trace, Vec<StoredRequest>) {
    play(
        |client| Team::new(Protocol::Cooperkgc, schema(), client, sampling()).working(options.clone()),
        text,
        |request| script(&Asked::of(request)),
    )
}

fn working(cooperation: Cooperation) -> Options {
    Options { cooperation, ..Options::default() }
}

/// `person Ann Lee` of every entity.
fn names(found: &ExtractionRecord) -> Vec<String> {
    found.entities.iter().map(|entity| format!("{} {}", entity.label, entity.text)).collect()
}

/// What an expert is asked in its later rounds.
fn later<'a>(requests: &'a [StoredRequest], expert: &str) -> Vec<&'a str> {
    let asked = requests.iter().map(Asked::of).filter(|asked| asked.expert == expert && !asked.is_first());
    asked.map(|asked| asked.question).collect()
}

#[test]
fn all_three_tasks_are_answered_with_what_stands_behind_them() {
    let (trace, requests) = read(TEXT, Options::default(), steady);
    assert_eq!((trace.status, trace.is_whole(), requests.len()), (Status::Ok, true, 3 + 4 + 4));
    assert_eq!(names(&trace.extraction), ["person Ann Lee", "company Acme"]);
    let link = &trace.extraction.relations[0];
    assert_eq!((link.label.as_str(), link.head, link.tail), ("works_for", 0, 1));
    assert_eq!(trace.extraction.events[0].arguments.len(), 2);
    // Entities: three answers of NER, and the experts RE and EE with the same span and a fitting type.
    let support = |votes, voters| Support { votes, voters, ..Support::default() };
    assert_eq!(trace.entity_support, [support(5, 5), support(5, 5)]);
    // Relations: four answers of RE, and NER, which has typed both ends.
    assert_eq!((&trace.relation_support[..], &trace.event_support[..]), (&[support(5, 5)][..], &[support(4, 4)][..]));
}

#[test]
fn each_task_has_its_rounds_and_a_snapshot_stands_after_each() {
    let (trace, _) = read(TEXT, working(team([0, 1, 2])), steady);
    let spoken: Vec<String> = trace.turns.iter().map(|turn| format!("{}{}", turn.agent, turn.round)).collect();
    assert_eq!(spoken, ["NER0", "RE0", "EE0", "RE1", "EE1", "EE2"]);
    let stages: Vec<(&str, u32)> = trace.snapshots.iter().map(|shot| (shot.stage.as_str(), shot.round)).collect();
    assert_eq!(stages, [("collaboration", 0), ("collaboration", 1), ("collaboration", 2)]);
    assert_eq!(trace.snapshots[2].extraction, trace.extraction);
}

#[test]
fn edges_bring_answers_from_one_to_the_other_and_to_nobody_else() {
    let mut cooperation = team([1, 1, 1]);
    // NER to RE, RE to EE.
    cooperation.edges = vec![(0, 1), (1, 2)];
    let (_, requests) = read(TEXT, working(cooperation), steady);
    let heard = |expert: &str| {
        let question = later(&requests, expert)[0];
        ["NER", "RE", "EE"].map(|other| question.contains(&format!("Answer of {other},")))
    };
    assert_eq!(heard("NER"), [false, false, false]);
    assert_eq!(heard("RE"), [true, false, false]);
    assert_eq!(heard("EE"), [false, true, false]);
}

#[test]
fn an_expert_whose_rounds_are_over_keeps_its_answer_and_still_reaches_the_others() {
    let (_, requests) = read(TEXT, working(team([1, 2, 0])), |asked| match (asked.expert, asked.is_first()) {
        ("NER", true) => Some(r#"{"entities":{"person":["Ann Lee"]}}"#.into()),
        _ => steady(asked),
    });
    let asked = later(&requests, "RE");
    assert!(asked[0].contains("named entities:\n{\"entities\":{\"person\":[\"Ann Lee\"]}}\n"), "{}", asked[0]);
    assert!(asked[1].contains(&format!("named entities:\n{NER}\n")), "the answer of its last round: {}", asked[1]);
}

#[test]
fn an_answer_travels_as_its_items_alone_unless_it_is_not_simplified() {
    let wordy = r#"Let me think. {"reason":"a verb of joining","entities":{"company":["ACME","Initech"],"person":["Ann Lee"]}}"#;
    let script = |asked: &Asked| if asked.expert == "NER" { Some(wordy.into()) } else { steady(asked) };
    let mut cooperation = team([1, 1, 0]);
    let (trace, requests) = read(TEXT, working(cooperation.clone()), script);
    let seen = later(&requests, "RE")[0];
    assert!(seen.contains(&format!("named entities:\n{NER}\n")), "schema order, as the text has it: {seen}");
    assert!(!seen.contains("Let me think") && !seen.contains("Initech"));
    assert!(later(&requests, "NER")[0].contains(&format!("Your answer of the last round:\n{NER}\n")));
    assert_eq!(trace.turns[0].reason.as_deref(), Some("a verb of joining"));
    assert_eq!(trace.turns[0].dropped, [("Initech".to_string(), "not in the text".to_string())]);
    cooperation.simplify = false;
    let (_, requests) = read(TEXT, working(cooperation), script);
    assert!(later(&requests, "RE")[0].contains(wordy));
}

#[test]
fn a_reason_is_kept_beside_the_items() {
    let reasoned = r#"{"reason":"the others say so","entities":{"person":["Ann Lee"]}}"#;
    let script = |asked: &Asked| if asked.expert == "NER" { Some(reasoned.into()) } else { steady(asked) };
    let (trace, _) = read(TEXT, working(team([0; 3])), script);
    assert_eq!(trace.turns[0].reason.as_deref(), Some("the others say so"));
    assert_eq!(trace.turns[0].found, ["person \"Ann Lee\""]);
}

#[test]
fn without_background_the_list_of_types_stays_and_the_roles_go() {
    let mut cooperation = team([0; 3]);
    let (_, requests) = read(TEXT, working(cooperation.clone()), |_| None);
    assert!(requests[0].messages[0].content.starts_with("You belong to a team"));
    cooperation.background = false;
    let (_, requests) = read(TEXT, working(cooperation), |_| None);
    let system = &requests[0].messages[0].content;
    assert!(
        system.starts_with("Below stands a list of entity types") && system.contains("- person: person"),
        "{system}"
    );
    assert!(!system.contains("You are") && !system.contains("team"));
}

fn with_an_extra_expert() -> Cooperation {
    let mut cooperation = team([1, 0, 0]);
    let other = toml::from_str("[[entities]]\nlabel = 'city'\n").unwrap();
    let task = ExpertTask::Entities;
    cooperation.experts.push(Expert { name: "cities".into(), task, schema: Some(other), rounds: 0, seed: 0 });
    cooperation.edges = vec![(3, 0)];
    cooperation
}

#[test]
fn an_expert_with_another_schema_informs_and_never_answers() {
    let (trace, requests) = read(TEXT, working(with_an_extra_expert()), |asked| match asked.expert {
        "cities" => Some(r#"{"entities":{"city":["Bern"]}}"#.into()),
        "NER" if asked.question.contains(r#"{"city":["Bern"]}"#) => Some(r#"{"entities":{"place":["Bern"]}}"#.into()),
        _ => steady(asked),
    });
    assert!(later(&requests, "NER")[0].contains("Answer of cities, who looks for named entities:\n"));
    // Place is what NER made of it; the others are the ends of what RE says.
    assert_eq!(names(&trace.extraction), ["person Ann Lee", "company Acme", "place Bern"]);
    assert_eq!(trace.turns.iter().find(|turn| turn.agent == "cities").unwrap().found, ["city \"Bern\""]);
}

#[test]
fn an_answer_of_an_extra_expert_alone_is_no_answer_of_the_team() {
    let (trace, _) = read(TEXT, working(with_an_extra_expert()), |asked| {
        (asked.expert == "cities").then(|| r#"{"entities":{"city":["Bern"]}}"#.into())
    });
    assert_eq!((trace.status, trace.extraction.entities.len()), (Status::Failed, 0));
    assert!(trace.error.unwrap().starts_with("no recorded answer"));
}

#[test]
fn of_experts_that_are_asked_the_same_most_decide_and_a_tie_goes_to_the_first() {
    let answers = |asked: &Asked| {
        let said = match asked.expert {
            "a" => r#"{"entities":{"person":["Ann Lee"],"company":["Acme"]}}"#,
            "b" => r#"{"entities":{"person":["Ann Lee"],"place":["Bern"]}}"#,
            _ => r#"{"entities":{"person":["Ann Lee"],"place":["Acme"]}}"#,
        };
        Some(said.to_string())
    };
    let (trace, requests) = read(TEXT, working(alone(&["a", "b", "c"])), answers);
    assert_eq!(names(&trace.extraction), ["person Ann Lee"]);
    assert_eq!(trace.entity_support[0], Support { votes: 3, voters: 3, ..Support::default() });
    assert_eq!(requests.iter().map(|request| request.seed).collect::<Vec<_>>(), [1, 1001, 2001]);
    let (trace, _) = read(TEXT, working(alone(&["a", "b"])), answers);
    assert_eq!(names(&trace.extraction), ["person Ann Lee", "company Acme"]);
    assert_eq!(trace.entity_support[1], Support { votes: 1, voters: 2, ..Support::default() });
    // One that has not answered has no vote, and was asked.
    let (trace, _) =
        read(TEXT, working(alone(&["x", "b"])), |asked| if asked.expert == "x" { None } else { answers(asked) });
    assert_eq!(names(&trace.extraction), ["person Ann Lee", "place Bern"]);
    assert_eq!(trace.entity_support[0], Support { votes: 1, voters: 2, ..Support::default() });
}

#[test]
fn a_turn_that_fails_keeps_the_earlier_answer_and_is_counted() {
    let script = |asked: &Asked| match (asked.expert, asked.last) {
        ("NER", Some(_)) => Some("I would rather talk about the weather.".into()),
        _ => steady(asked),
    };
    let (trace, requests) = read(TEXT, working(team([2, 0, 0])), script);
    assert_eq!(names(&trace.extraction), ["person Ann Lee", "company Acme"]);
    assert_eq!((trace.status, trace.failed_turns(), trace.is_whole()), (Status::Ok, 2, false));
    assert!(later(&requests, "NER").iter().all(|asked| asked.contains(&format!("last round:\n{NER}\n"))));
    assert_eq!(trace.entity_support[0].votes, 3, "one of three answers of NER, and RE and EE");
    assert_eq!(trace.entity_support[0].voters, 5);
}

#[test]
fn silence_of_all_ends_it_after_the_first_round_as_a_failure() {
    let (trace, requests) = read(TEXT, Options::default(), |_| None);
    assert_eq!((trace.status, requests.len(), trace.snapshots.len()), (Status::Failed, 3, 0));
    assert!(!trace.is_whole());
}

#[test]
fn what_the_answers_contradict_together_is_dropped_and_counted() {
    // NER takes Acme for a person: no signature allows that.
    let script = |asked: &Asked| match asked.expert {
        "NER" => Some(r#"{"entities":{"person":["Ann Lee","Acme"]}}"#.into()),
        "RE" => Some(
            r#"{"relations":{"works_for":[["Ann Lee","Acme"]],"located_in":[["Acme","Rome"]],"owns":[["a","b"]]}}"#
                .into(),
        ),
        _ => steady(asked),
    };
    let (trace, _) = read(TEXT, working(team([0; 3])), script);
    let dropped = |agent: &str| -> Vec<&str> {
        let turn = trace.turns.iter().find(|turn| turn.agent == agent).unwrap();
        turn.dropped.iter().map(|(_, reason)| reason.as_str()).collect()
    };
    assert_eq!((trace.extraction.relations.len(), trace.extraction.events[0].arguments.len()), (0, 1));
    assert_eq!(
        dropped("RE"),
        [
            "unknown label \"owns\"",
            "the tail \"Rome\": not in the text",
            "the signature of \"works_for\" does not allow person -> person"
        ]
    );
    assert_eq!(dropped("EE"), ["role \"what\" does not allow person; it asks for company"]);
}

#[test]
fn names_that_only_a_relation_speaks_of_are_typed_by_its_signature() {
    let script = |asked: &Asked| match asked.expert {
        "NER" => Some(r#"{"entities":{"person":["Ann Lee"]}}"#.into()),
        "RE" => Some(r#"{"relations":{"located_in":[["Acme","Bern"]]}}"#.into()),
        _ => Some(r#"{"events":{}}"#.into()),
    };
    let (trace, _) = read(TEXT, working(team([0, 1, 0])), script);
    assert_eq!(names(&trace.extraction), ["person Ann Lee", "company Acme", "place Bern"]);
    // Both answers of RE, and NER, which has read the text without them.
    assert_eq!(trace.entity_support[1], Support { votes: 2, voters: 3, ..Support::default() });
    assert_eq!(trace.relation_support, [Support { votes: 2, voters: 2, ..Support::default() }]);
}

#[test]
fn places_count_characters_in_a_chinese_text() {
    let text = "李雷加入了华为。";
    let (trace, _) = read(text, working(team([0; 3])), |asked| {
        let said = match asked.expert {
            "NER" => r#"{"entities":{"person":["李雷"]}}"#,
            "RE" => r#"{"relations":{"works_for":[["李雷","华为"]]}}"#,
            _ => r#"{"events":{"joining":[{"trigger":"加入","arguments":{"who":["李雷"],"what":["华为"]}}]}}"#,
        };
        Some(said.into())
    });
    let places: Vec<_> = trace.extraction.entities.iter().map(|entity| (entity.start, entity.end)).collect();
    assert_eq!(places, [(Some(0), Some(2)), (Some(5), Some(7))]);
    let event = &trace.extraction.events[0];
    assert_eq!((event.trigger.start, event.arguments[1].start), (Some(2), Some(5)));
}

#[test]
fn a_blank_text_is_answered_without_a_call_and_equal_answers_give_equal_traces() {
    let (trace, requests) = read(" \n", Options::default(), |_| panic!("nothing is asked about a blank text"));
    assert_eq!((trace.status, requests.len()), (Status::Empty, 0));
    assert_eq!(read(TEXT, Options::default(), steady), read(TEXT, Options::default(), steady));
}

/// Shows one document for entities; nothing can be had for events.
struct Shelf;

impl Demonstrator for Shelf {
    fn nearest(&self, asked: &Document, task: ExpertTask, labels: &[&str]) -> Result<Vec<Document>, String> {
        assert_eq!(asked.text, TEXT);
        match task {
            ExpertTask::Entities => {
                assert_eq!(labels, ["person", "company", "place"]);
                let gold = r#"{"entities":[{"type":"place","text":"Rome","start":0,"end":4}]}"#;
                let gold: ExtractionRecord = serde_json::from_str(gold).unwrap();
                Ok(vec![Document { gold: Some(gold.read("Rome!").unwrap()), ..Document::new("x", "Rome!") }])
            }
            ExpertTask::Relations => Ok(vec![]),
            ExpertTask::Events => Err("the encoder is gone".into()),
        }
    }
}

#[test]
fn demonstrations_stand_as_solved_questions_and_without_them_an_expert_fails() {
    let options = Options { demonstrator: Some(Arc::new(Shelf)), ..working(team([1, 0, 1])) };
    let (trace, requests) = read(TEXT, options, steady);
    for request in requests.iter().filter(|request| Asked::of(request).expert == "NER") {
        let said: Vec<&str> = request.messages[1..3].iter().map(|message| message.content.as_str()).collect();
        assert_eq!(said, ["Text: Rome!", r#"{"entities":{"place":["Rome"]}}"#]);
    }
    assert!(requests.iter().all(|request| Asked::of(request).expert != "EE"));
    let failed: Vec<_> = trace.turns.iter().filter(|turn| turn.status == Status::Failed).collect();
    assert_eq!((failed.len(), failed[0].agent.as_str()), (1, "EE"));
    assert_eq!(failed[0].error.as_deref(), Some("not asked: no demonstrations: the encoder is gone"));
    assert_eq!((trace.status, trace.is_whole()), (Status::Ok, false));
}
