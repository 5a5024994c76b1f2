//! `/v1/embeddings` of a real server on loopback that fails, dawdles and answers out of order; the
//! key stays out of what is said.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use understudy::embed::Encoder;
use understudy::team::client::{EmbeddingClient, Endpoint};

const KEY: &str = "sk-0123456789abcdefghij";

/// A server, and the first line, the authorization and the body of each request.
struct Server {
    base_url: String,
    seen: Arc<Mutex<Vec<(String, String, Value)>>>,
}

impl Server {
    /// Answers each request with the status and body that `play` makes of its ordinal and texts.
    fn new(play: impl Fn(usize, &[String]) -> (&'static str, String) + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(heard) = hear(&stream) else { continue };
                let texts: Vec<String> = serde_json::from_value(heard.2["input"].clone()).unwrap();
                let mut notes = notes.lock().unwrap();
                let (status, body) = play(notes.len(), &texts);
                notes.push(heard);
                drop(notes);
                let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nRetry-After: 0\r\n");
                // The client may have hung up.
                let _ = stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
            }
        });
        Server { base_url, seen }
    }

    fn client(&self, max_attempts: u32) -> EmbeddingClient {
        let timeout = Duration::from_secs(60);
        let endpoint = Endpoint { base_url: self.base_url.clone(), api_key: Some(KEY.into()), timeout, form: None };
        EmbeddingClient::new(endpoint, "bge", max_attempts)
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

fn hear(stream: &TcpStream) -> Option<(String, String, Value)> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut key, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap(),
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => key = value.into(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first.trim().into(), key, serde_json::from_slice(&body).unwrap()))
}

/// A vector a text, the last first.
fn answer(texts: &[String]) -> String {
    let one = |(index, text): (usize, &String)| json!({"index": index, "embedding": [text.len(), index]});
    let data: Vec<Value> = texts.iter().enumerate().rev().map(one).collect();
    json!({"object": "list", "data": data, "model": "bge", "usage": {"prompt_tokens": 1}}).to_string()
}

#[test]
fn texts_go_in_batches_and_vectors_come_back_in_their_order() {
    let server = Server::new(|_, texts| ("200 OK", answer(texts)));
    let texts: Vec<String> = (1..=130).map(|length| "x".repeat(length)).collect();
    let asked: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = server.client(1).encode(&asked).unwrap();
    for (at, vector) in vectors.iter().enumerate() {
        assert_eq!(vector, &[(at + 1) as f32, (at % 64) as f32]);
    }
    let seen = server.seen.lock().unwrap();
    let sizes: Vec<usize> = seen.iter().map(|(_, _, body)| body["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [64, 64, 2]);
    for (first, key, body) in seen.iter() {
        assert!(first.starts_with("POST /v1/embeddings "), "{first}");
        assert_eq!(key, &format!("Bearer {KEY}"));
        assert_eq!((&body["model"], &body["encoding_format"]), (&json!("bge"), &json!("float")));
    }
}

#[test]
fn passing_failures_are_tried_again_and_others_are_not() {
    let server = Server::new(|at, texts| match at {
        0 => ("503 Service Unavailable", "loading".into()),
        1 => ("429 Too Many Requests", String::new()),
        2 => ("200 OK", "{\"data\":[{\"index\":0,".into()),
        3 => ("200 OK", json!({"data": [{"index": 0, "embedding": "AACAPw=="}]}).to_string()),
        _ => ("200 OK", answer(texts)),
    });
    assert_eq!(server.client(5).encode(&["abc"]).unwrap(), [vec![3.0, 0.0]]);
    assert_eq!(server.count(), 5);
    let server = Server::new(|_, _| ("500 Internal Server Error", "oops".into()));
    let said = server.client(3).encode(&["abc"]).unwrap_err().to_string();
    assert!(said.contains("/v1/embeddings: HTTP 500: oops (attempt 3)") && said.contains("\"bge\""), "{said}");
    assert_eq!(server.count(), 3);
    let server = Server::new(|_, _| ("404 Not Found", format!("no such model; you sent {KEY}")));
    let said = server.client(3).encode(&["abc"]).unwrap_err().to_string();
    assert!(said.contains("HTTP 404: no such model; you sent [key]") && !said.contains(KEY), "{said}");
    assert_eq!(server.count(), 1);
}

#[test]
fn a_body_without_end_is_not_read_to_its_end() {
    let server = Server::new(|_, _| ("200 OK", "[".repeat((16 << 20) + 2)));
    let said = server.client(1).encode(&["abc"]).unwrap_err().to_string();
    assert!(said.contains("the body is longer than 16384 KiB"), "{said}");
}
