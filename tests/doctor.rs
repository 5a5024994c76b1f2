//! `doctor` against a server on loopback that can or cannot do things.

use assert_cmd::Command;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

/// The body of a request.
fn hear(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// A server that answers a request's body with a status and a body; its base address.
fn serve(play: impl Fn(&Value) -> (u16, Value) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some(asked) = hear(&stream) else { continue };
            let (status, body) = play(&asked);
            let body = body.to_string();
            let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            drop(stream.write_all((head + &body).as_bytes()));
        }
    });
    base_url
}

fn says(content: &str, more: Value) -> Value {
    let mut body = json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]});
    for (key, value) in more.as_object().unwrap() {
        match key.as_str() {
            "logprobs" => body["choices"][0]["logprobs"] = value.clone(),
            _ => body[key] = value.clone(),
        }
    }
    body
}

/// A server with everything.
fn able(asked: &Value) -> (u16, Value) {
    assert_eq!((asked["model"].as_str(), asked["stream"].as_bool()), (Some("m"), Some(false)));
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 1});
    let content = match (&asked["response_format"], &asked["seed"]) {
        (Value::Null, Value::Null) => "yes".into(),
        (Value::Null, seed) => format!("digits of {seed}"),
        _ => r#"{"understudy_city":"Bern"}"#.into(),
    };
    let mut more = json!({"usage": usage});
    if asked["logprobs"] == true {
        more["logprobs"] = json!({"content": [{"token": "yes", "logprob": -0.1}]});
    }
    (200, says(&content, more))
}

/// A server with nothing: it refuses log-probabilities and answers in prose.
fn plain(asked: &Value) -> (u16, Value) {
    match asked["logprobs"] == true {
        true => (400, json!({"error": "logprobs are not supported"})),
        false => (200, says("Hello there.", json!({}))),
    }
}

fn doctor(folder: &Path, base_url: Option<&str>) -> (i32, Value, String) {
    doctor_of(folder, base_url, &[])
}

/// With these keys of `[team.demonstrations]`.
fn doctor_of(folder: &Path, base_url: Option<&str>, demonstrations: &[&str]) -> (i32, Value, String) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("s.toml", "[[entities]]\nlabel = \"person\"\n");
    write("d.jsonl", "");
    write(
        "a.toml",
        "title = 'x'\nbase_model = 'model.gguf'\noutput_dir = 'out'\n[data]\nschema = 's.toml'\ntrain = 'd.jsonl'\n\
         dev = 'd.jsonl'\ntest = 'd.jsonl'\n[team]\nprotocol = 'aeio'\nmodel = 'm'\nbase_url = 'http://127.0.0.1:1/v1'\n",
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    command.args(["doctor", "a.toml", "--json", "--offline"]).current_dir(folder).env("OPENAI_API_KEY", "sk-secret");
    command.env("UNDERSTUDY_CACHE", folder.join("cache"));
    for set in demonstrations {
        command.args(["--set", &format!("team.demonstrations.{set}")]);
    }
    if let Some(url) = base_url {
        command.args(["--set", &format!("team.base_url={url}")]);
    }
    let done = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, said) = (text(done.stdout), text(done.stderr));
    assert!(!out.contains("sk-secret") && !said.contains("sk-secret"));
    (done.status.code().unwrap(), serde_json::from_str(&out).unwrap(), said)
}

fn state(found: &Value, what: &str) -> (String, String) {
    let row = found["checks"].as_array().unwrap().iter().find(|check| check["what"] == what).unwrap();
    (row["state"].as_str().unwrap().into(), row["found"].as_str().unwrap().into())
}

#[test]
fn a_server_is_told_by_what_it_does() {
    let home = tempfile::tempdir().unwrap();
    let (_, found, _) = doctor(home.path(), Some(&serve(able)));
    for what in ["server", "logprobs", "usage", "seed", "json_schema"] {
        assert_eq!(state(&found, what).0, "ok", "{found}");
    }
    let (_, found, _) = doctor(home.path(), Some(&serve(plain)));
    assert_eq!(state(&found, "server").0, "ok");
    let without = [
        ("usage", "no: the cost of the team will be unknown"),
        ("seed", "cannot be told: a second recording may differ"),
        ("json_schema", "no: nothing here depends on it"),
    ];
    for (what, says) in without {
        let (state, found) = state(&found, what);
        assert!(state == "weak" && found.starts_with(says), "{what}: {found}");
    }
    let (state, found) = state(&found, "logprobs");
    assert!(state == "missing" && found.contains("set team.logprobs = false to go by votes alone"), "{found}");
}

#[test]
fn what_is_missing_is_exit_code_4_with_the_way_out() {
    let home = tempfile::tempdir().unwrap();
    let (code, found, said) = doctor(home.path(), None);
    assert_eq!(code, 4);
    // The disk of the machine that tests may be short, too.
    let lack = said.replace("model, disk, server", "model, server");
    assert!(lack.contains("a run would lack: model, server"), "{said}");
    let (state_of_model, model) = state(&found, "model");
    assert!(state_of_model == "missing" && model.contains("model.gguf"), "{model}");
    let (state_of_server, server) = state(&found, "server");
    assert!(state_of_server == "missing" && server.contains("correct team.base_url"), "{server}");
    let (state_of_device, device) = state(&found, "device");
    assert!(state_of_device == "ok" && device.contains("threads"), "{device}");
    // Another machine is not asked under --offline.
    let (_, found, _) = doctor(home.path(), Some("http://203.0.113.1/v1"));
    assert_eq!(state(&found, "server"), ("weak".into(), "not asked, because of --offline".into()));
}

#[test]
fn the_encoder_of_demonstrations_is_named_and_tried() {
    let home = tempfile::tempdir().unwrap();
    let golden = concat!("encoder=", env!("CARGO_MANIFEST_DIR"), "/tests/golden/minilm");
    let (_, found, _) = doctor_of(home.path(), None, &["pool=d.jsonl", "shots=2", golden]);
    let (state_of_encoder, said) = state(&found, "encoder");
    assert!(state_of_encoder == "ok" && said.ends_with("/minilm: vectors of 24 numbers, for 2 shots"), "{said}");
    let (code, found, _) = doctor_of(home.path(), None, &["pool=d.jsonl", "shots=2", "encoder=minilm"]);
    let (state_of_encoder, said) = state(&found, "encoder");
    assert!(
        state_of_encoder == "missing" && said.starts_with("E101: the weights of minilm are not in the cache"),
        "{said}"
    );
    assert!(code == 4 && said.contains("run `understudy model fetch minilm` once with a network"), "{said}");
    let url = serve(|asked| match asked["input"].as_array() {
        Some(texts) => {
            let data: Vec<Value> = (0..texts.len()).map(|at| json!({"index": at, "embedding": [0.5, 1.0]})).collect();
            (200, json!({"data": data}))
        }
        None => plain(asked),
    });
    let (_, found, _) =
        doctor_of(home.path(), Some(&url), &["pool=d.jsonl", "shots=1", "encoder=endpoint", "model=bge"]);
    let (state_of_encoder, said) = state(&found, "encoder");
    assert!(
        state_of_encoder == "ok" && said == format!("endpoint: bge at {url}: vectors of 2 numbers, for 1 shots"),
        "{said}"
    );
    let (_, found, _) = doctor_of(home.path(), None, &["pool=d.jsonl", "shots=0"]);
    assert!(found["checks"].as_array().unwrap().iter().all(|check| check["what"] != "encoder"), "{found}");
}
