//! What a store of answers promises: nothing lost, nothing doubled, the same bytes; and what it says
//! of files that are not its own.

use super::*;
use crate::ie::Message;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn request(text: &str) -> StoredRequest {
    StoredRequest {
        model: "m".into(),
        messages: vec![Message::system("Read."), Message::user(text)],
        max_tokens: 8,
        seed: 1,
        logprobs: true,
        ..StoredRequest::default()
    }
}

fn answer(content: &str) -> StoredAnswer {
    StoredAnswer {
        content: content.into(),
        tokens: Some(vec![StoredToken("{".into(), Some(-0.5)), StoredToken("}".into(), None)]),
        prompt_tokens: Some(3),
        seconds: 0.25,
        ..StoredAnswer::default()
    }
}

/// Requests and answers in which every field has been something else than by default.
fn various() -> Vec<(StoredRequest, StoredAnswer)> {
    let schema = serde_json::json!({"type": "object", "properties": {"z": {}, "a": {"maximum": 1e300}}});
    let long = vec![Message::system("Decide."), Message::user("?"), Message::assistant("A"), Message::user("Sure?")];
    vec![
        (request("a"), answer("李雷\0🗼 \"quoted\"\nline")),
        (request("b"), StoredAnswer { refusal: Some("no".into()), finish: "content_filter".into(), ..answer("") }),
        (StoredRequest { schema: Some(schema), ..request("a") }, StoredAnswer { tokens: None, ..answer("{}") }),
        (
            StoredRequest { messages: long, temperature: 0.1 + 0.2, ..request("") },
            StoredAnswer { attempts: 4, ..answer("A") },
        ),
        (StoredRequest { messages: vec![Message::user("no system")], ..request("") }, StoredAnswer::default()),
        (StoredRequest { messages: vec![], model: "n".into(), ..request("") }, answer("nothing was asked")),
        (StoredRequest { class: "local".into(), ..request("a") }, answer("of another endpoint")),
        (StoredRequest { sample: 2, ..request("a") }, answer("the third of several")),
        (StoredRequest { seed: u64::MAX, frequency_penalty: -2.0, ..request("a") }, answer("far out")),
    ]
}

fn fill(path: &Path, rows: &[(StoredRequest, StoredAnswer)]) {
    let mut store = AnswerStore::new();
    store.open_file(path).unwrap();
    rows.iter().for_each(|(request, answer)| store.put(request, answer).unwrap());
    store.settle().unwrap();
}

fn home() -> (TempDir, std::path::PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("answers.sqlite");
    (home, path)
}

#[test]
fn what_was_kept_is_there_again_and_the_first_answer_stands() {
    let (home, path) = home();
    fill(&path, &various());
    let names: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "one file and its lock: {names:?}");
    let mut store = AnswerStore::new();
    assert_eq!(store.open_file(&path).unwrap(), Opened { answers: various().len(), adopted: None });
    for (request, first) in various() {
        assert_eq!(store.get(&request), Some(first.clone()));
        assert!(store.has(&request_key(&request)));
        let stands = store.keep(&request_key(&request), &request, answer("later")).unwrap();
        assert_eq!(stands, first);
    }
    assert_eq!((store.len(), store.get(&request("c")), store.has("no key")), (various().len(), None, false));
    let huge = StoredAnswer { prompt_tokens: Some(u64::MAX), ..answer("x") };
    let kept = store.keep(&request_key(&request("c")), &request("c"), huge).unwrap();
    assert_eq!((kept.prompt_tokens, Some(kept)), (None, store.get(&request("c"))), "what is kept is what is heard");
    let said = AnswerStore::new().open_file(&path).unwrap_err().to_string();
    assert!(said.contains("answers.sqlite: another process writes it; wait for its end"), "{said}");
}

/// Names the file for the process that [`a_kill_loses_no_answer_that_was_acknowledged`] starts.
const CHILD: &str = "UNDERSTUDY_TEST_KEEP_INTO";

#[test]
fn a_kill_loses_no_answer_that_was_acknowledged() {
    if let Some(path) = std::env::var_os(CHILD) {
        keep_until_killed(Path::new(&path));
    }
    let (_home, path) = home();
    let mut acknowledged = Vec::new();
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::answers::tests::a_kill_loses_no_answer_that_was_acknowledged", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heard = 0;
        // SIGKILL comes while eight threads keep; what they had said until then is read to the end.
        while let Some(Ok(line)) = lines.next() {
            // The first line may stand behind the name of the test.
            if let Some((_, number)) = line.rsplit_once("kept ")
                && let Some(number) = number.strip_suffix('.')
            {
                acknowledged.push(number.to_string());
                heard += 1;
                if heard == 400 {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        assert!(heard >= 400, "round {round}: only {heard}");
        let mut store = AnswerStore::new();
        let found = store.open_file(&path).unwrap().answers;
        let lost: Vec<_> = acknowledged.iter().filter(|number| store.get(&request(number)).is_none()).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        assert!(found >= acknowledged.len(), "round {round}: {found}");
    }
    assert_eq!(acknowledged.iter().collect::<HashSet<_>>().len(), acknowledged.len(), "each was new");
}

fn keep_until_killed(path: &Path) -> ! {
    let mut store = AnswerStore::new();
    let begin = store.open_file(path).unwrap().answers;
    let next = AtomicUsize::new(begin);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let text = next.fetch_add(1, Ordering::Relaxed).to_string();
                    // A number that was in flight at a kill may have been kept without a word.
                    if !store.has(&request_key(&request(&text))) {
                        store.put(&request(&text), &answer(&text)).unwrap();
                        let line = format!("kept {text}.\n");
                        std::io::stdout().write_all(line.as_bytes()).unwrap();
                    }
                }
            });
        }
    });
    unreachable!("nobody returns")
}

/// A request of which 2 KB are the same for all.
fn one_of_many(at: usize) -> StoredRequest {
    StoredRequest {
        messages: vec![
            Message::system("You are one of many. ".repeat(100)),
            Message::user(format!("Text number {at} about nothing much.")),
        ],
        ..request("")
    }
}

/// Keeps answers from many threads, `each` from every one; what each thread heard, and the keeps per
/// second.
fn kept_at_once(
    store: &AnswerStore,
    threads: usize,
    each: usize,
    place: &(dyn Fn(usize, usize) -> usize + Sync),
) -> (Vec<Vec<String>>, f64) {
    let start = std::time::Instant::now();
    let heard = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let keep = |at: usize| {
                        let request = one_of_many(place(thread, at));
                        let key = request_key(&request);
                        let answer = StoredAnswer { tokens: None, ..answer(&thread.to_string()) };
                        store.keep(&key, &request, answer).unwrap().content
                    };
                    (0..each).map(keep).collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    (heard, (threads * each) as f64 / start.elapsed().as_secs_f64())
}

/// `UNDERSTUDY_SCALE_KEEPS=1000 … --nocapture` keeps more from each thread, and tells how fast.
#[test]
fn hundreds_of_threads_keep_each_answer_once() {
    let each = std::env::var("UNDERSTUDY_SCALE_KEEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let (_home, path) = home();
    let mut store = AnswerStore::new();
    store.open_file(&path).unwrap();
    // Neighbours keep the same: the answer of one of them stands for both.
    let (heard, _) = kept_at_once(&store, 256, 10, &|thread, at| thread / 2 * 10 + at);
    for pair in heard.chunks(2) {
        assert_eq!(pair[0], pair[1], "both hear the answer that stands");
    }
    assert_eq!(store.len(), 1280);
    let (_, many) = kept_at_once(&store, 256, each, &|thread, at| 1280 + thread * each + at);
    let (_, alone) = kept_at_once(&store, 1, each, &|_, at| 1280 + 256 * each + at);
    let rows = 1280 + 257 * each;
    assert_eq!(store.len(), rows);
    let start = std::time::Instant::now();
    let absent = (0..each * 100).filter(|at| store.has(&request_key(&request(&at.to_string())))).count();
    let looks = (each * 100) as f64 / start.elapsed().as_secs_f64();
    assert_eq!(absent, 0);
    store.settle().unwrap();
    drop(store);
    let size = std::fs::metadata(&path).unwrap().len() as usize / rows;
    let start = std::time::Instant::now();
    assert_eq!(AnswerStore::new().open_file(&path).unwrap().answers, rows);
    let open = start.elapsed().as_secs_f64();
    eprintln!(
        "{many:.0} keeps a second from 256 threads, {alone:.0} from one, {looks:.0} looks for absent keys; \
         {rows} rows of {size} bytes, opened in {open:.2} s"
    );
    assert!(size < 450, "2 KB that all requests share stand once: {size}");
}

#[test]
fn whoever_keeps_without_waiting_is_told_what_stands() {
    let (_home, path) = home();
    let mut store = AnswerStore::new();
    store.put(&request("b"), &answer("elsewhere")).unwrap();
    store.open_file(&path).unwrap();
    store.put(&request("d"), &answer("before")).unwrap();
    let asked: Vec<_> = ["a", "b", "c", "d", "a"].map(request).to_vec();
    let keys: Vec<_> = asked.iter().map(request_key).collect();
    let kept = |store: &AnswerStore| {
        let (told, heard) = std::sync::mpsc::channel();
        for at in 0..asked.len() {
            let (told, row) = (told.clone(), store.row(&keys[at], &asked[at], answer(&at.to_string())).unwrap());
            store.keep_later(row, move |kept| told.send((at, kept.unwrap().content)).unwrap());
        }
        drop(told);
        let mut stands: Vec<(usize, String)> = heard.iter().collect();
        stands.sort();
        stands
    };
    for store in [&store, &AnswerStore::new()] {
        let first = kept(store);
        assert_eq!(kept(store), first);
        assert_eq!((first[0].1.as_str(), first[2].1.as_str(), first[4].1.as_str()), ("0", "2", "0"));
    }
    let stand: Vec<_> = asked.iter().map(|request| store.get(request).unwrap().content).collect();
    assert_eq!(stand, ["0", "elsewhere", "2", "before", "0"]);
    assert_eq!(store.len(), 4);
}

#[test]
fn the_same_answers_in_any_order_are_the_same_cassette_and_come_back_from_it() {
    let (home, path) = home();
    let file = |name: &str| home.path().join(name);
    let mut rows = various();
    fill(&path, &rows);
    rows.reverse();
    fill(&file("other.sqlite"), &rows);
    let header = CassetteHeader { cassette: 1, model: "m".into(), ..CassetteHeader::default() };
    for (store, out) in [("answers.sqlite", "a.jsonl"), ("other.sqlite", "b.jsonl"), ("other.sqlite", "b.jsonl.zst")] {
        assert_eq!(export_answers(&file(store), &file(out), &header).unwrap(), rows.len());
    }
    let bytes = std::fs::read(file("a.jsonl")).unwrap();
    assert_eq!(bytes, std::fs::read(file("b.jsonl")).unwrap());
    assert_eq!(bytes, zstd::decode_all(std::fs::File::open(file("b.jsonl.zst")).unwrap()).unwrap());
    // Into a new store and out again: the same bytes, with the header that came along.
    let all = Imported { read: rows.len(), new: rows.len() };
    for from in ["b.jsonl.zst", "answers.sqlite"] {
        let into = file(&format!("from-{from}.sqlite"));
        assert_eq!(import_answers(&[file(from)], &into).unwrap(), all);
        assert_eq!(import_answers(&[file(from)], &into).unwrap(), Imported { new: 0, ..all });
        export_answers(&into, &file("c.jsonl"), &header).unwrap();
        assert_eq!(std::fs::read(file("c.jsonl")).unwrap(), bytes, "{from}");
    }
    let told = answer_stats(&file("from-b.jsonl.zst.sqlite")).unwrap();
    assert_eq!(told.suggested_header(), header);
    let models: Vec<_> =
        told.models.iter().map(|m| (m.model.as_str(), m.class.as_str(), m.answers, m.attempts)).collect();
    assert_eq!(models, [("m", "chat", 7, 10), ("m", "local", 1, 1), ("n", "chat", 1, 1)]);
    let said = import_answers(std::slice::from_ref(&path), &path).unwrap_err().to_string();
    assert!(said.contains("is the store itself"), "{said}");
}

#[test]
fn a_cassette_holds_each_asked_answer_once_and_replays_it() {
    let home = tempfile::tempdir().unwrap();
    let store = AnswerStore::new();
    store.put(&request("a"), &answer("李雷")).unwrap();
    store.put(&request("b"), &answer("2")).unwrap();
    for name in ["c.jsonl", "c.jsonl.zst"] {
        let path = home.path().join(name);
        let header = CassetteHeader { cassette: 1, model: "m".into(), ..CassetteHeader::default() };
        assert_eq!(store.write_cassette(&path, &header, &[request("a"), request("a")]).unwrap(), 1);
        let mut replayed = AnswerStore::new();
        assert_eq!(replayed.load(&path).unwrap(), 1);
        assert_eq!(replayed.header(), Some(&header));
        assert_eq!(replayed.get(&request("a")), Some(answer("李雷")));
        assert_eq!(replayed.get(&request("b")), None);
        assert!(store.write_cassette(&path, &header, &[request("c")]).is_err());
        assert_eq!(AnswerStore::new().load(&path).unwrap(), 1, "what stood there stands still");
    }
}

#[test]
fn a_torn_last_line_costs_that_line_and_any_other_broken_line_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("c.jsonl");
    let store = AnswerStore::new();
    store.put(&request("a"), &answer("1")).unwrap();
    store.put(&request("b"), &answer("李雷")).unwrap();
    let header = CassetteHeader { cassette: 1, ..CassetteHeader::default() };
    store.write_cassette(&path, &header, &[request("a"), request("b")]).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1 - bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
    for cut in 2..last {
        std::fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
        let mut torn = AnswerStore::new();
        assert_eq!(torn.load(&path).unwrap(), 1, "cut {cut}");
        assert_eq!((torn.get(&request("a")), torn.get(&request("b"))), (Some(answer("1")), None));
    }
    for (text, says) in [
        (&b"{\"cassette\":1}\nnonsense\n\n"[..], "c.jsonl:1: not a line of a cassette"),
        (b"{\"system\":\"x\",\"content\":\"\"}\n\xff\n", "c.jsonl:2: not a line of a cassette"),
        (&bytes[bytes.len() - last..], "c.jsonl:1: refers to the system message"),
    ] {
        std::fs::write(&path, text).unwrap();
        let said = AnswerStore::new().load(&path).unwrap_err().to_string();
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn the_log_of_before_is_read_once_and_again_only_where_it_has_grown() {
    let (home, path) = home();
    let log = home.path().join("answers.jsonl");
    let before = AnswerStore::new();
    let header = CassetteHeader { cassette: 1, ..CassetteHeader::default() };
    let texts = ["a", "b", "c"].map(request);
    texts.iter().for_each(|request| before.put(request, &answer(&request.messages[1].content)).unwrap());
    for (count, adopted) in [(2, Some(2)), (2, None), (3, Some(3)), (3, None)] {
        before.write_cassette(&log, &header, &texts[..count]).unwrap();
        let mut store = AnswerStore::new();
        assert_eq!(store.open_file(&path).unwrap(), Opened { answers: count, adopted });
        assert_eq!(store.get(&texts[count - 1]), before.get(&texts[count - 1]));
    }
    let writes = std::fs::File::open(&log).unwrap();
    writes.try_lock().unwrap();
    std::fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(b"\n").unwrap();
    let said = AnswerStore::new().open_file(&path).unwrap_err().to_string();
    assert!(said.contains("answers.jsonl: another process writes it"), "{said}");
}

#[test]
fn files_together_answer_each_request_once_and_the_nearest_counts() {
    let (home, path) = home();
    let file = |name: &str| home.path().join(name);
    let header = CassetteHeader { cassette: 1, server: "s".into(), ..CassetteHeader::default() };
    let row = |text: &str, said: &str| (request(text), answer(said));
    fill(&file("x.sqlite"), &[row("a", "cassette"), row("b", "cassette"), row("c", "cassette")]);
    export_answers(&file("x.sqlite"), &file("x.jsonl"), &header).unwrap();
    fill(&file("answers-001-of-002.sqlite"), &[row("b", "part"), row("c", "part"), row("d", "part")]);
    fill(&path, &[row("c", "own"), row("e", "own")]);
    let said = |store: &AnswerStore| -> Vec<String> {
        ["a", "b", "c", "d", "e", "f"]
            .map(|text| store.get(&request(text)).map_or("-".into(), |answer| answer.content))
            .to_vec()
    };
    let mut live = AnswerStore::new();
    live.load(&file("x.jsonl")).unwrap();
    live.load(&file("answers-001-of-002.sqlite")).unwrap();
    live.open_file(&path).unwrap();
    assert_eq!(
        (live.len(), said(&live)),
        (5, ["cassette", "part", "own", "part", "own", "-"].map(String::from).to_vec())
    );
    live.put(&request("a"), &answer("again")).unwrap();
    live.put(&request("f"), &answer("new")).unwrap();
    // While that one writes, another reads what is there, but does not copy it.
    let mut replay = AnswerStore::new();
    for name in ["x.jsonl", "answers-001-of-002.sqlite", "answers.sqlite"] {
        replay.attach(&file(name)).unwrap();
    }
    assert_eq!(said(&replay), ["cassette", "part", "own", "part", "own", "new"]);
    assert_eq!((replay.len(), replay.header().unwrap().server.as_str()), (6, "s"));
    assert!(matches!(AnswerStore::new().load(&path), Err(StoreError::Busy { .. })));
    drop(live);
    let mut copy = AnswerStore::new();
    assert_eq!(copy.load(&path).unwrap(), 3, "\"a\" had an answer elsewhere and was not kept again");
}
