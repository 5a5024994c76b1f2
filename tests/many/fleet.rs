//! Requests over several servers: who is asked, who is set aside, and what stays out of sight.

use crate::stub::{Heard, Reply, Stub, nobody, says};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use understudy::ie::Message;
use understudy::store::{AnswerStore, StoredRequest, request_key};
use understudy::team::client::shape::{Form, entities};
use understudy::team::client::{Endpoint, Fleet, HttpClient, Limits};
use understudy::team::{Client, ClientError};

fn endpoint(base_url: &str) -> Endpoint {
    Endpoint { base_url: base_url.into(), api_key: None, timeout: Duration::from_secs(20), form: None }
}

fn fleet(urls: &[&str], in_flight: usize, max_attempts: u32) -> Fleet {
    let endpoints = urls.iter().map(|url| endpoint(url)).collect();
    Fleet::new(endpoints, in_flight, max_attempts, Limits::default())
}

fn request(text: &str) -> StoredRequest {
    StoredRequest {
        model: "m".into(),
        messages: vec![Message::user(text)],
        temperature: 0.0,
        max_tokens: 8,
        frequency_penalty: 0.0,
        seed: 7,
        logprobs: false,
        ..StoredRequest::default()
    }
}

fn requests(count: usize) -> Vec<StoredRequest> {
    (0..count).map(|at| request(&format!("question {at}."))).collect()
}

/// Says again what it is asked.
fn echo(heard: &Heard) -> Reply {
    let body: serde_json::Value = serde_json::from_str(heard.body).unwrap();
    says(body["messages"][0]["content"].as_str().unwrap())
}

fn quiet(_: usize) {}

#[test]
fn every_request_is_answered_once_by_whoever_works_and_the_address_is_in_no_key() {
    let (first, second) = (Stub::new(|_, heard| echo(heard)), Stub::new(|_, heard| echo(heard)));
    let all = requests(60);
    let client = Client::live(AnswerStore::new(), fleet(&[&nobody(), &first.base_url, &second.base_url], 4, 3));
    for (request, answer) in all.iter().zip(client.ask_all(&all, &quiet)) {
        assert_eq!(answer.unwrap().content, request.messages[0].content);
    }
    assert_eq!(first.count() + second.count(), 60, "each was asked once of a server that works");
    assert!(first.count() > 0 && second.count() > 0);
    // Another server, the same store: nothing is asked.
    let third = Stub::new(|_, heard| echo(heard));
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("answers.sqlite");
    let mut store = AnswerStore::new();
    store.open_file(&file).unwrap();
    all.iter().for_each(|request| store.put(request, &client.store().get(request).unwrap()).unwrap());
    drop(store);
    let mut store = AnswerStore::new();
    assert_eq!(store.load(&file).unwrap(), 60);
    let elsewhere = Client::live(store, fleet(&[&third.base_url], 4, 3));
    assert!(elsewhere.ask_all(&all, &quiet).iter().all(Result::is_ok));
    assert_eq!((third.count(), elsewhere.spent().calls), (0, 0));
}

#[test]
fn questions_of_every_length_arrive_whole_over_one_connection() {
    // Around 8 and 16 KiB, where a request no longer fits into the connection's buffer beside its head.
    let stub = Stub::new(|_, heard| echo(heard));
    let fleet = fleet(&[&stub.base_url], 1, 1);
    let lengths = [0, 1, 7_900, 8_192, 15_800].into_iter().chain((15_950..16_500).step_by(7));
    for length in lengths.chain([16_383, 16_384, 16_385, 32_768, 40_000, 300_000]) {
        let text: String = (0..length).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        let answer = fleet.complete(&request(&text), &AtomicBool::new(false));
        assert_eq!(answer.unwrap().content, text, "{length}");
    }
}

#[test]
fn one_at_a_time_goes_to_the_first_server_and_all_at_once_to_all() {
    let (first, second) = (Stub::new(|_, heard| echo(heard)), Stub::new(|_, heard| echo(heard)));
    let fleet = fleet(&[&first.base_url, &second.base_url], 2, 1);
    let go_on = AtomicBool::new(false);
    for request in requests(5) {
        fleet.complete(&request, &go_on).unwrap();
    }
    assert_eq!((first.count(), second.count()), (5, 0), "a tie goes to the first");
    // Both hold their answers until each has the two that it may have: else this never ends.
    for stub in [&first, &second] {
        stub.hold_after(1);
    }
    let client = Client::live(AnswerStore::new(), fleet);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| client.ask_all(&requests(12), &quiet));
        for stub in [&first, &second] {
            stub.wait_for_held();
        }
        first.release();
        second.release();
        assert!(asking.join().unwrap().iter().all(Result::is_ok));
    });
}

#[test]
fn no_server_has_more_in_flight_than_it_may() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counting, peak) = (Arc::clone(&now), Arc::clone(&most));
    let stub = Stub::new(move |_, heard| {
        peak.fetch_max(counting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        counting.fetch_sub(1, Ordering::SeqCst);
        echo(heard)
    });
    let client = Client::live(AnswerStore::new(), fleet(&[&stub.base_url], 3, 1));
    assert!(client.ask_all(&requests(60), &quiet).iter().all(Result::is_ok));
    assert!(most.load(Ordering::SeqCst) <= 3, "{most:?}");
}

#[test]
fn a_failing_server_costs_an_attempt_and_all_down_is_an_error_after_the_last() {
    let broken = Stub::new(|_, _| Reply::Send(503, String::new(), "busy".into()));
    let sound = Stub::new(|_, heard| echo(heard));
    let go_on = AtomicBool::new(false);
    let pair = fleet(&[&broken.base_url, &sound.base_url], 1, 2);
    pair.complete(&request("a"), &go_on).unwrap();
    assert_eq!((broken.count(), sound.count()), (1, 1), "two attempts are enough where one server works");
    assert_eq!(pair.spent().calls, 2);
    let down = fleet(&[&broken.base_url, &nobody()], 1, 3);
    let said = down.complete(&request("b"), &go_on).unwrap_err().to_string();
    assert!(said.ends_with("(attempt 3)"), "{said}");
    assert_eq!(down.spent().calls, 3);
}

#[test]
fn where_nobody_answers_the_rest_is_not_asked() {
    let client = Client::live(AnswerStore::new(), fleet(&[&nobody()], 1, 1));
    let answers = client.ask_all(&requests(40), &quiet);
    assert!(answers.iter().all(Result::is_err));
    assert_eq!(client.spent().calls, 5, "five in a row are enough to see it");
    let why = client.halted().unwrap();
    assert!(why.starts_with("5 requests in a row got no answer; the last: http://127.0.0.1:"), "{why}");
    assert!(matches!(answers[39], Err(ClientError::Halted(_))));
    // One that answers in between, or one that fails for a text alone, is not nobody.
    let stub =
        Stub::new(|at, heard| if at % 3 == 2 { echo(heard) } else { Reply::Send(500, String::new(), String::new()) });
    let client = Client::live(AnswerStore::new(), fleet(&[&stub.base_url], 1, 1));
    assert_eq!(client.ask_all(&requests(9), &quiet).iter().filter(|answer| answer.is_ok()).count(), 3);
    assert_eq!(client.halted(), None);
}

#[test]
fn equal_requests_are_asked_once() {
    let stub = Stub::new(|_, heard| echo(heard));
    let client = Client::live(AnswerStore::new(), fleet(&[&stub.base_url], 8, 1));
    let done = Mutex::new(Vec::new());
    let all: Vec<StoredRequest> = (0..30).map(|at| request(&format!("question {}.", at % 3))).collect();
    let answers = client.ask_all(&all, &|count| done.lock().unwrap().push(count));
    for (request, answer) in all.iter().zip(answers) {
        assert_eq!(answer.unwrap().content, request.messages[0].content);
    }
    assert_eq!((stub.count(), client.store().len()), (3, 3));
    // The second time all are there: as many notices as requests.
    done.lock().unwrap().clear();
    client.ask_all(&all, &|count| done.lock().unwrap().push(count));
    assert_eq!(done.into_inner().unwrap(), (1..=30).collect::<Vec<_>>());
}

#[test]
fn a_delay_that_a_server_names_is_kept_in_every_form() {
    // No clock is looked at: a delay that is not read would be drawn from the backoff instead, and
    // two minutes (the longest) would end this test's patience, not its assertions.
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let forms = ["Retry-After: 0\r\n", "retry-after: 0.01\r\n", "Retry-After-Ms: 5\r\nRetry-After: 100\r\n", date];
    let stub = Stub::new(move |at, heard| match forms.get(at) {
        Some(form) => Reply::Send(429, (*form).to_string(), "slow down".into()),
        None => echo(heard),
    });
    fleet(&[&stub.base_url], 1, 5).complete(&request("a"), &AtomicBool::new(false)).unwrap();
    assert_eq!(stub.count(), 5);
}

#[test]
fn a_body_without_end_is_given_up() {
    let huge = format!("{{\"choices\":[{{\"message\":{{\"content\":\"{}\"}}}}]}}", "x".repeat(17 << 20));
    let stub = Stub::new(move |_, _| Reply::Send(200, String::new(), huge.clone()));
    let said = fleet(&[&stub.base_url], 1, 1).complete(&request("a"), &AtomicBool::new(false)).unwrap_err();
    assert!(said.to_string().contains("the body is longer than 16384 KiB"), "{said}");
}

#[test]
fn a_redirect_is_an_error_and_takes_the_key_nowhere() {
    let thief = Stub::new(|_, heard| panic!("{}", heard.head));
    let there = format!("Location: {}/chat/completions\r\n", thief.base_url);
    let stub = Stub::new(move |_, _| Reply::Send(307, there.clone(), String::new()));
    let endpoint = Endpoint { api_key: Some("sk-secret".into()), ..endpoint(&stub.base_url) };
    let fleet = Fleet::new(vec![endpoint], 1, 3, Limits::default());
    let error = fleet.complete(&request("a"), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, ClientError::Status { status: 307, attempts: 1, .. }), "{error:?}");
    assert_eq!(thief.count(), 0);
}

#[test]
fn an_answer_that_repeats_the_key_is_kept_without_it() {
    let key = "sk-01/23456789";
    let stub = Stub::new(move |_, heard| {
        let line = heard.head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization")).unwrap();
        // Escaped as some servers escape it, and as it is.
        let body = crate::stub::completion(&format!("{line} or {line}"));
        Reply::Send(200, String::new(), body.replacen(key, &key.replace('/', "\\/"), 1))
    });
    let endpoint = Endpoint { api_key: Some(key.into()), ..endpoint(&stub.base_url) };
    let fleet = Fleet::new(vec![endpoint], 1, 1, Limits::default());
    let answer = fleet.complete(&request("a"), &AtomicBool::new(false)).unwrap();
    assert_eq!(answer.content.to_ascii_lowercase(), "authorization: bearer [key] or authorization: bearer [key]");
}

#[test]
fn a_schema_is_sent_under_the_servers_own_name_and_is_part_of_the_key() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&bodies);
    let stub = Stub::new(move |_, heard| {
        let body: serde_json::Value = serde_json::from_str(heard.body).unwrap();
        notes.lock().unwrap().push(body);
        says("{}")
    });
    let plain = request("a");
    let held = StoredRequest { schema: Some(entities(&["person"])), ..plain.clone() };
    assert_ne!(request_key(&plain), request_key(&held));
    for form in Form::ALL {
        let endpoint = Endpoint { form: Some(form), ..endpoint(&stub.base_url) };
        let fleet = Fleet::new(vec![endpoint], 1, 1, Limits::default());
        for request in [&plain, &held] {
            fleet.complete(request, &AtomicBool::new(false)).unwrap();
        }
    }
    let bodies = bodies.lock().unwrap();
    for (pair, form) in bodies.chunks(2).zip(Form::ALL) {
        assert!(pair[0].get(form.name()).is_none() && pair[1].get(form.name()).is_some(), "{form:?}");
        assert_eq!(pair[0].as_object().unwrap().len() + 1, pair[1].as_object().unwrap().len());
    }
    assert_eq!(bodies[1]["response_format"]["json_schema"]["schema"], held.schema.unwrap());
}

#[test]
fn a_form_is_believed_where_an_answer_keeps_to_it() {
    let only = |form: Form| {
        Stub::new(move |_, heard| {
            let body: serde_json::Value = serde_json::from_str(heard.body).unwrap();
            match body.get(form.name()) {
                Some(_) => says(r#"{"understudy_city":"Bern"}"#),
                None if body.get("response_format").is_some() => {
                    Reply::Send(400, String::new(), "unknown field".into())
                }
                None => says("Hello there."),
            }
        })
    };
    for form in Form::ALL {
        let stub = only(form);
        let client = HttpClient::new(endpoint(&stub.base_url), 1);
        assert_eq!(client.form("m", &Form::ALL), Some(form));
        let others: Vec<Form> = Form::ALL.into_iter().filter(|other| *other != form).collect();
        assert_eq!(client.form("m", &others), None);
    }
}
