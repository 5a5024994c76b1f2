//! Many documents, slow answers, two of a hundred of them faults: nothing lost, nothing doubled,
//! the same bytes in two runs and after three kills.
//!
//! The small form always runs. `UNDERSTUDY_SCALE_DOCUMENTS=10000` runs the large one (20 calls a
//! document, 256 in flight, answers after 20 ms) and prints its throughput beside that of a plain
//! loop over the same server; run it with `--nocapture`.

use crate::desk::{Asked, Desk};
use crate::stub::{Reply, Stub};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How a request may be answered, in turn.
const FAULTS: usize = 6;

/// What the server said, and to whom.
#[derive(Default)]
struct Tally {
    /// Answers by agent and document, faults aside.
    good: Mutex<BTreeMap<Asked, usize>>,
    /// Requests by agent and document.
    asked: Mutex<BTreeMap<Asked, usize>>,
    faults: [AtomicUsize; FAULTS],
    /// The longest request, as it came.
    sample: Mutex<String>,
}

/// A server that answers after `delay`; one question of fifty is answered wrongly at first, and
/// one of ten of those twice.
fn server(types: usize, delay: Duration) -> (Stub, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    let notes = Arc::clone(&tally);
    let stub = Stub::new(move |ordinal, heard| {
        let asked = Asked::of(heard);
        if ordinal == 0 {
            *notes.sample.lock().unwrap() = heard.body.to_string();
        }
        let before = {
            let mut counts = notes.asked.lock().unwrap();
            let count = counts.entry(asked).or_default();
            *count += 1;
            *count - 1
        };
        std::thread::sleep(delay);
        let place = asked.document * types + asked.kind;
        // Spread over agents and documents by Knuth's multiplicative hash.
        let lot = place.wrapping_mul(2_654_435_761) >> 12;
        let faults = if lot % 50 != 7 { 0 } else { 1 + usize::from((lot / 50).is_multiple_of(10)) };
        if before >= faults {
            *notes.good.lock().unwrap().entry(asked).or_default() += 1;
            return Reply::Send(200, String::new(), asked.answer(types));
        }
        let kind = (lot / 50 + before) % FAULTS;
        notes.faults[kind].fetch_add(usize::from(before == 0), Ordering::SeqCst);
        let html = "<html><body>Bad gateway</body></html>";
        match kind {
            // A connection that ends without a word, where the fault comes a second time.
            _ if before > 0 => Reply::Close,
            0 => Reply::Send(429, "Retry-After: 0.05\r\n".into(), "slow down".into()),
            1 => Reply::Send(500, String::new(), "oops".into()),
            2 => Reply::Silent,
            3 => Reply::Cut(asked.answer(types)),
            4 => Reply::Send(200, "Content-Type: text/html\r\n".into(), html.into()),
            _ => Reply::Send(200, String::new(), r#"{"choices":[{"message":{"content":null}}]}"#.into()),
        }
    });
    (stub, tally)
}

/// The arguments of a debate with this server.
fn arguments(url: &str, in_flight: usize) -> Vec<String> {
    let mut arguments: Vec<String> = ["debate", "many.toml", "--progress", "none"].map(String::from).to_vec();
    for set in [format!("team.base_url={url}"), format!("team.in_flight={in_flight}"), "team.timeout_s=1".into()] {
        arguments.extend(["--set".into(), set]);
    }
    arguments
}

/// Debates to the end; what the program says.
fn debate(desk: &Desk, url: &str, in_flight: usize) -> String {
    let arguments = arguments(url, in_flight);
    let (code, out, said) = desk.call(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, 0, "{said}");
    out
}

/// Every agent has one answer about every document, and no other stands in the store.
fn assert_complete(desk: &Desk, documents: usize) {
    let mut answered = desk.answered("out/answers.sqlite");
    let lines = answered.len();
    answered.sort();
    answered.dedup();
    assert_eq!((lines, answered.len()), (documents * desk.types, documents * desk.types), "lost or doubled");
    let ids: Vec<String> = desk.traces("out/traces.jsonl");
    assert_eq!(ids.len(), documents);
}

fn corpus(desk: &Desk) -> String {
    let (code, _, said) = desk.call(&["distill", "many.toml"]);
    assert_eq!(code, 0, "{said}");
    desk.read("out/corpus/train.jsonl")
}

#[test]
fn faults_and_kills_lose_nothing_and_change_nothing() {
    // In several blocks at once, which a debate with four in flight is not.
    let (documents, types, in_flight) = (200, 5, 16);
    let (stub, tally) = server(types, Duration::from_millis(2));
    let first = Desk::new(documents, types);
    debate(&first, &stub.base_url, in_flight);
    assert_complete(&first, documents);
    assert!(
        tally.faults.iter().all(|count| count.load(Ordering::SeqCst) > 0),
        "every fault was met: {:?}",
        tally.faults
    );

    let (stub, _) = server(types, Duration::from_millis(2));
    let second = Desk::new(documents, types);
    debate(&second, &stub.base_url, 4);
    assert_eq!(first.traces("out/traces.jsonl"), second.traces("out/traces.jsonl"));

    let (stub, tally) = server(types, Duration::from_millis(2));
    let third = Desk::new(documents, types);
    // At each kill: what the server has just answered, and as many that are on their way to the disk.
    let mut unheard = 3 * 2 * in_flight;
    for _ in 0..3 {
        // The server holds its answers from there on, so the kill comes in the midst of the work.
        stub.hold_after(250);
        let kept =
            if third.path("out/answers.sqlite").exists() { third.answered("out/answers.sqlite") } else { vec![] };
        let before = tally.asked.lock().unwrap().clone();
        let mut child =
            third.command(&arguments(&stub.base_url, in_flight).iter().map(String::as_str).collect::<Vec<_>>());
        let mut child = child.spawn().unwrap();
        stub.wait_for_held();
        child.kill().unwrap();
        child.wait().unwrap();
        unheard += stub.release();
        let after = tally.asked.lock().unwrap();
        assert!(kept.iter().all(|asked| before.get(asked) == after.get(asked)), "what is stored is not asked again");
    }
    assert!(third.answered("out/answers.sqlite").len() > 400, "the kills came in the midst of the work");
    debate(&third, &stub.base_url, in_flight);
    assert_complete(&third, documents);
    let paid: usize = tally.good.lock().unwrap().values().map(|count| count - 1).sum();
    assert!(
        paid <= unheard,
        "only what was in flight or not on the disk at a kill is paid for twice: {paid} of {unheard}"
    );
    assert_eq!(first.traces("out/traces.jsonl"), third.traces("out/traces.jsonl"));
    assert_eq!(corpus(&first), corpus(&third));
}

#[test]
fn the_large_form_runs_where_it_is_asked_for() {
    let wished = std::env::var("UNDERSTUDY_SCALE_DOCUMENTS").ok();
    let Some(documents) = wished.and_then(|text| text.parse::<usize>().ok()) else { return };
    let (types, in_flight, delay) = (20, 256, Duration::from_millis(20));
    let (stub, tally) = server(types, delay);
    let desk = Desk::new(documents, types);
    let mut command =
        desk.command(&arguments(&stub.base_url, in_flight).iter().map(String::as_str).collect::<Vec<_>>());
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    let (mut peak, mut busy) = (0usize, 0f64);
    while child.try_wait().unwrap().is_none() {
        let about = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap_or_default();
        let kib = about("status")
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak = kib.unwrap_or(peak).max(peak);
        // Clock ticks in user and system mode, a hundredth of a second each.
        let ticks: Vec<f64> =
            about("stat").rsplit(')').next().unwrap().split_whitespace().filter_map(|t| t.parse().ok()).collect();
        busy = ticks.get(10).zip(ticks.get(11)).map_or(busy, |(user, system)| (user + system) / 100.0);
        std::thread::sleep(Duration::from_millis(50));
    }
    let ours = start.elapsed().as_secs_f64();
    assert!(child.wait().unwrap().success());
    let calls = documents * types;
    let good: usize = tally.good.lock().unwrap().values().sum();
    assert_eq!(good, calls);
    assert_complete(&desk, documents);
    eprintln!(
        "debate: {calls} answers in {ours:.1} s, {:.0} a second; {busy:.1} s of processor time, {} MiB at most",
        calls as f64 / ours,
        peak / 1024
    );

    let (stub, tally) = server(types, delay);
    let sample = desk_sample(&desk, &stub, &tally);
    let start = Instant::now();
    let good = plain_loop(&stub, &sample, documents, types, in_flight);
    let plain = start.elapsed().as_secs_f64();
    eprintln!("plain loop: {good} answers in {plain:.1} s, {:.0} a second", good as f64 / plain);
    eprintln!("share: {:.3}", (calls as f64 / ours) / (good as f64 / plain));
}

/// A request as the program sends it.
fn desk_sample(desk: &Desk, stub: &Stub, tally: &Tally) -> String {
    std::fs::remove_dir_all(desk.path("out")).unwrap();
    let mut arguments = arguments(&stub.base_url, 1);
    arguments.extend(["--max-calls".into(), "1".into()]);
    desk.call(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    tally.sample.lock().unwrap().clone()
}

/// The least that a client can do: threads with a connection each, requests made of one pattern,
/// answers that are read and thrown away; a fault is no answer and is not tried again.
fn plain_loop(stub: &Stub, sample: &str, documents: usize, types: usize, in_flight: usize) -> usize {
    let (next, good) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let asked = Asked::in_text(sample).unwrap();
    let (kind, number) = (format!("You are the kind_{:02}", asked.kind), format!("number {}.", asked.document));
    std::thread::scope(|scope| {
        for _ in 0..in_flight {
            scope.spawn(|| {
                let mut connection: Option<TcpStream> = None;
                let mut buffer = [0; 16 << 10];
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= documents * types {
                        return;
                    }
                    let body = sample
                        .replace(&kind, &format!("You are the kind_{:02}", at / documents))
                        .replace(&number, &format!("number {}.", at % documents));
                    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ";
                    let request = format!("{head}{}\r\n\r\n{body}", body.len());
                    let mut stream = connection.take().unwrap_or_else(|| {
                        let stream = TcpStream::connect(stub.address).unwrap();
                        stream.set_nodelay(true).unwrap();
                        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
                        stream
                    });
                    // Answers are shorter than the buffer; a cut one ends the connection.
                    let read = stream.write_all(request.as_bytes()).and_then(|()| stream.read(&mut buffer)).unwrap_or(0);
                    let text = String::from_utf8_lossy(&buffer[..read]);
                    if text.ends_with('}') {
                        good.fetch_add(usize::from(text.contains("\"usage\"")), Ordering::Relaxed);
                        connection = Some(stream);
                    }
                }
            });
        }
    });
    good.into_inner()
}
