//! The client against a real server on loopback that fails in every way servers fail, and a team
//! that goes on when one document does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use understudy::ie::{Document, Message, Schema, Status};
use understudy::store::{AnswerStore, StoredAnswer, StoredRequest};
use understudy::team::client::{Endpoint, Fleet, Limits};
use understudy::team::{Client, ClientError, Protocol, Sampling, Team};

const KEY: &str = "sk-0123456789abcdefghij";

/// What the server does with a request.
enum Reply {
    Send(String),
    /// Closes the connection without a word.
    Hang,
    /// Says nothing for so long.
    Wait(Duration),
}

/// A status, one more header and a body that is as long as it says.
fn reply(status: &str, header: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::Send(format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{header}\r\n\r\n{body}"))
}

fn soon(status: &str, body: &str) -> Reply {
    reply(status, "Retry-After: 0", body)
}

fn completion(content: &str) -> String {
    serde_json::json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).to_string()
}

/// A server, and what was sent to it: head and body of each request.
struct Server {
    base_url: String,
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    /// Answers each request with what `play` makes of its ordinal and body.
    fn new(play: impl Fn(usize, &str) -> Reply + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some((head, body)) = hear(&stream) else { continue };
                let mut notes = notes.lock().unwrap();
                let answer = play(notes.len(), &body);
                notes.push((head, body));
                drop(notes);
                match answer {
                    // The client may have hung up.
                    Reply::Send(text) => drop(stream.write_all(text.as_bytes())),
                    Reply::Hang => {}
                    Reply::Wait(time) => std::thread::sleep(time),
                }
            }
        });
        Server { base_url, seen }
    }

    fn client(&self, max_attempts: u32, timeout: Duration, in_flight: usize) -> Fleet {
        let (base_url, api_key) = (self.base_url.clone(), Some(KEY.to_string()));
        let endpoint = Endpoint { base_url, api_key, timeout, form: None };
        Fleet::new(vec![endpoint], in_flight, max_attempts, Limits::default())
    }

    fn ask(&self, max_attempts: u32) -> Result<StoredAnswer, ClientError> {
        let client = self.client(max_attempts, Duration::from_secs(20), 1);
        client.complete(&request(true), &AtomicBool::new(false))
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

fn hear(stream: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        let line = line.trim_end().to_string();
        if let Some((_, value)) = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            length = value.trim().parse().unwrap();
        }
        head += &(line + "\n");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).unwrap()))
}

fn request(logprobs: bool) -> StoredRequest {
    StoredRequest {
        model: "m".into(),
        messages: vec![Message::system("Read."), Message::user("Text: Ann left.")],
        temperature: 0.0,
        max_tokens: 8,
        frequency_penalty: 0.0,
        seed: 7,
        logprobs,
        ..StoredRequest::default()
    }
}

#[test]
fn every_passing_failure_is_tried_again_until_an_answer_comes() {
    // Cases C13 and C14. The third is longer by its own word than it is, the last is an event stream.
    let failures = 10;
    let server = Server::new(move |at, _| match at {
        0 => Reply::Hang,
        1 => soon("500 Internal Server Error", "oops"),
        2 => Reply::Send("HTTP/1.1 200 OK\r\nRetry-After: 0\r\nContent-Length: 999\r\n\r\n{\"choices\":".into()),
        3 => soon("429 Too Many Requests", "slow down"),
        4 => soon("200 OK", "{\"choices\":[{\"mess"),
        5 => soon("200 OK", "<html><body>Bad gateway</body></html>"),
        6 => soon("200 OK", "{\"choices\":[],\"usage\":null}"),
        7 => soon("200 OK", "{\"choices\":[{\"message\":{\"content\":null}}]}"),
        8 => soon("502 Bad Gateway", "<html></html>"),
        9 => soon("200 OK", "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n"),
        _ => reply("200 OK", "Server: play", &completion("{\"person\":[\"Ann\"]}")),
    });
    let answer = server.ask(failures + 1).unwrap();
    assert_eq!((answer.content.as_str(), answer.finish.as_str()), ("{\"person\":[\"Ann\"]}", "stop"));
    assert_eq!((answer.prompt_tokens, answer.tokens), (None, None), "unknown is not zero");
    assert_eq!(server.count(), failures as usize + 1);
}

#[test]
fn attempts_are_bounded_and_the_error_says_how_many_there_were() {
    let server = Server::new(|_, _| soon("503 Service Unavailable", "busy"));
    let error = server.ask(3).unwrap_err();
    assert_eq!(server.count(), 3);
    let said = error.to_string();
    assert!(said.ends_with("/v1/chat/completions: HTTP 503: busy (attempt 3)"), "{said}");
}

#[test]
fn what_is_our_fault_is_not_tried_again() {
    for status in ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found"] {
        let server = Server::new(move |_, _| soon(status, "no"));
        let error = server.ask(5).unwrap_err();
        assert!(matches!(error, ClientError::Status { attempts: 1, .. }), "{error:?}");
        assert_eq!(server.count(), 1, "{status}");
    }
}

#[test]
fn no_error_shows_the_key_or_a_part_of_it() {
    // A server that echoes what it was sent, with the key at every place around the length at
    // which messages are cut.
    for padding in (0..20).map(|step| 240 + 4 * step) {
        for status in ["401 Unauthorized", "200 OK"] {
            let server = Server::new(move |_, _| {
                let echo = format!("{}Bearer {KEY} is not known", "x".repeat(padding));
                reply(status, "Server: play", &serde_json::json!({ "error": echo }).to_string())
            });
            let said = server.ask(1).unwrap_err();
            assert!(!format!("{said} {said:?}").contains(&KEY[..4]), "{said}");
        }
    }
    let server = Server::new(|_, _| reply("200 OK", "Server: play", &format!("<p>Bearer {KEY}</p>")));
    let said = server.ask(1).unwrap_err().to_string();
    assert!(said.contains("no chat completion") && said.contains("[key]") && !said.contains(KEY), "{said}");
}

#[test]
fn the_request_asks_for_one_whole_answer_with_log_probabilities() {
    let server = Server::new(|_, _| reply("200 OK", "Server: play", &completion("{}")));
    let client = server.client(1, Duration::from_secs(20), 1);
    for logprobs in [true, false] {
        client.complete(&request(logprobs), &AtomicBool::new(false)).unwrap();
    }
    let seen = server.seen.lock().unwrap();
    let (head, body) = &seen[0];
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\n"), "{head}");
    assert!(head.lines().any(|line| line.eq_ignore_ascii_case(&format!("authorization: Bearer {KEY}"))), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({
            "model": "m",
            "messages": [{"role": "system", "content": "Read."}, {"role": "user", "content": "Text: Ann left."}],
            "temperature": 0.0, "max_tokens": 8, "seed": 7, "stream": false, "logprobs": true, "top_logprobs": 1,
        })
    );
    assert!(!seen[1].1.contains("logprobs"));
}

#[test]
fn a_silent_server_and_no_server_are_errors_in_time() {
    let server = Server::new(|_, _| Reply::Wait(Duration::from_secs(30)));
    let error = server.client(1, Duration::from_millis(300), 1).complete(&request(true), &AtomicBool::new(false));
    assert!(matches!(error, Err(ClientError::Transport { attempts: 1, .. })), "{error:?}");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = Endpoint {
        base_url: format!("http://user:secret@{free}/v1"),
        api_key: None,
        timeout: Duration::from_secs(5),
        form: None,
    };
    let nobody = Fleet::new(vec![nobody], 1, 1, Limits::default());
    let said = nobody.complete(&request(true), &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(said.starts_with(&format!("http://{free}/v1/chat/completions: ")) && !said.contains("secret"), "{said}");
}

#[test]
fn one_documents_failure_stops_neither_the_others_nor_a_second_call() {
    // Cases C07, C13, C15 and C18.
    let server = Server::new(|_, body| match body {
        _ if body.contains("Bad luck") => reply("400 Bad Request", "Server: play", "{\"error\":\"context too long\"}"),
        _ if body.contains("Secret") => {
            let message = serde_json::json!({"content": null, "refusal": "I can't help with that."});
            reply("200 OK", "Server: play", &serde_json::json!({"choices": [{"message": message}]}).to_string())
        }
        _ => {
            let token =
                |text: &str, logprob: f64| serde_json::json!({"token": text, "logprob": logprob, "top_logprobs": []});
            let tokens = [token("{\"person\":[\"", -0.5), token("Ann", -0.1), token(" Lee", -0.3), token("\"]}", -0.5)];
            let message = serde_json::json!({"content": "{\"person\":[\"Ann Lee\"]}"});
            let choice =
                serde_json::json!({"message": message, "finish_reason": "stop", "logprobs": {"content": tokens}});
            reply("200 OK", "Server: play", &serde_json::json!({ "choices": [choice] }).to_string())
        }
    });
    let schema: Schema = serde_json::from_str(r#"{"entities":[{"label":"person"}]}"#).unwrap();
    let client = Client::live(AnswerStore::new(), server.client(3, Duration::from_secs(20), 2));
    let sampling = Sampling {
        model: "m".into(),
        temperature: 0.0,
        max_tokens: 50,
        debate_max_tokens: 20,
        frequency_penalty: 0.0,
        seed: 1,
        logprobs: true,
        max_rounds: 2,
    };
    let team = Team::new(Protocol::Aeio, schema, &client, sampling).recording();
    let texts = ["Ann Lee left.", "Bad luck.", "Secret.", "Then Ann Lee came."];
    let documents: Vec<Document> =
        texts.iter().enumerate().map(|(at, text)| Document::new(format!("d{at}"), *text)).collect();
    let traces = team.debate(&documents);
    let ended: Vec<(&str, Status)> = traces.iter().map(|trace| (trace.id.as_str(), trace.status)).collect();
    assert_eq!(ended, [("d0", Status::Ok), ("d1", Status::Failed), ("d2", Status::Refused), ("d3", Status::Ok)]);
    let failed = traces[1].error.as_deref().unwrap();
    assert!(failed.contains("HTTP 400") && failed.contains("context too long"), "{failed}");
    assert_eq!(traces[2].error.as_deref(), Some("I can't help with that."));
    assert!(!traces[1].is_whole() && !traces[2].is_whole() && traces[3].is_whole());
    assert_eq!((traces[3].extraction.entities[0].start, traces[3].extraction.entities[0].end), (Some(5), Some(12)));
    // The name's own tokens: the mean of -0.1 and -0.3; empty alternatives are no reason to drop them.
    let logprob = traces[0].entity_support[0].logprob.unwrap();
    assert!((logprob + 0.2).abs() < 1e-9, "{logprob}");
    assert_eq!(server.count(), 4, "neither the refusal nor the wrong request was sent again");
    team.debate(&documents);
    assert_eq!(server.count(), 5, "only the failed one is asked again");
}
