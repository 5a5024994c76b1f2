//! The answer ladder and the grounding of what it reads, on answers that models might give and on
//! worse ones, in three languages: no panic, time in proportion to the input, and whatever is kept
//! stands in the text. Mutations are seeded: case `n` is the same on every machine.
//!
//! Two seconds; `UNDERSTUDY_FUZZ_SECONDS=600` runs longer, and `UNDERSTUDY_FUZZ_CASE=n` repeats
//! one case. Run with `--nocapture` for the figures.

mod seeds;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use seeds::{ANSWERS, PIECES, TEXTS, schema};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use understudy::ie::{Schema, Span, Status};
use understudy::template::answer::{Finish, Reading, claims, read_answer, read_relations};

fn pick(rng: &mut ChaCha12Rng, of: &[&'static str]) -> &'static str {
    of[rng.random_range(0..of.len())]
}

/// Processor time of this thread, where the system tells; a process may be held for minutes.
fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// A place between two characters.
fn place(rng: &mut ChaCha12Rng, text: &str) -> usize {
    let mut at = rng.random_range(0..=text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A part of a text, of at most so many bytes.
fn part<'a>(rng: &mut ChaCha12Rng, text: &'a str, most: usize) -> &'a str {
    let start = place(rng, text);
    let mut end = (start + rng.random_range(0..=most)).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[start..end.max(start)]
}

/// An answer, changed in some places as models and transports change them.
fn answer(rng: &mut ChaCha12Rng, text: &str) -> String {
    let mut raw = pick(rng, &ANSWERS).to_string();
    for _ in 0..rng.random_range(0..=5) {
        let at = place(rng, &raw);
        match rng.random_range(0..12) {
            0 => raw.insert_str(at, pick(rng, &PIECES)),
            1 => {
                let mut end = (at + rng.random_range(0..=12)).min(raw.len());
                while !raw.is_char_boundary(end) {
                    end += 1;
                }
                raw.replace_range(at..end, "");
            }
            2 => raw.insert_str(at, part(rng, text, 40)),
            3 => {
                let copy = part(rng, &raw, 80).to_owned();
                raw.insert_str(at, &copy);
            }
            4 => {
                let answer = pick(rng, &ANSWERS);
                let other = part(rng, answer, 120).to_owned();
                raw.insert_str(at, &other);
            }
            5 if rng.random_range(0..3) == 0 => raw.truncate(at),
            6 => {
                let (from, to) = (pick(rng, &PIECES), pick(rng, &PIECES));
                raw = raw.replacen(from, to, rng.random_range(1..4));
            }
            7 => {
                // A text of one language in an answer of another.
                let label = pick(rng, &["人物", "인물", "person", "org", "组织"]);
                let surface = part(rng, text, 24).replace(['"', '\\'], "");
                raw.insert_str(at, &format!("{{\"{label}\":[\"{surface}\"]}}"));
            }
            8 => {
                let replaced = pick(rng, &["\"", "'", "“", "”", "「", "」", "＂", "‘", "’"]);
                raw = raw.replace('"', replaced);
            }
            9 => raw = format!("{}{raw}{}", pick(rng, &PIECES), pick(rng, &PIECES)),
            10 => {
                let c = char::from_u32(rng.random_range(0..0x3_0000)).unwrap_or('\u{fffd}');
                raw.insert(at, c);
            }
            _ => raw = raw.replace(':', "：").replace(',', pick(rng, &["，", "、", ",,", ", "])),
        }
    }
    if rng.random_range(0..400) == 0 {
        // A loop of the model, up to the longest answer that is read.
        let loops = part(rng, &raw, 60).to_owned();
        let times = (1 << rng.random_range(8..20)) / loops.len().max(1);
        let at = place(rng, &raw);
        raw.insert_str(at, &loops.repeat(times));
    }
    raw
}

fn text(rng: &mut ChaCha12Rng) -> String {
    let mut text = pick(rng, &TEXTS).to_string();
    for _ in 0..rng.random_range(0..4) {
        let (at, other) = (place(rng, &text), pick(rng, &TEXTS));
        match rng.random_range(0..4) {
            0 => text.insert_str(at, part(rng, other, 30)),
            1 => text.insert_str(at, pick(rng, &PIECES)),
            2 => text.insert_str(at, other),
            _ => text.truncate(at),
        }
    }
    if rng.random_range(0..800) == 0 {
        text = text.repeat(200);
    }
    text
}

/// What must be true of every reading.
fn check(reading: &Reading, raw: &str, text: &str, schema: &Schema) {
    let stands = |span: Option<Span>, surface: &str| assert_eq!(span.expect("a span").slice(text), surface);
    let found = &reading.extraction;
    let mut places = BTreeSet::new();
    for entity in &found.entities {
        stands(entity.span, &entity.text);
        assert!(schema.entity(&entity.label).is_some() && places.insert(entity.span), "{entity:?}");
    }
    for relation in &found.relations {
        let kind = schema.relation(&relation.label).unwrap();
        assert_ne!(relation.head, relation.tail);
        assert!(kind.allows(&found.entities[relation.head].label, &found.entities[relation.tail].label));
    }
    for event in &found.events {
        stands(event.trigger.span, &event.trigger.text);
        event.arguments.iter().for_each(|argument| stands(argument.span, &argument.text));
    }
    assert_eq!(reading.provenance.len(), found.entities.len());
    let claimed = reading.provenance.iter().flatten();
    claimed.for_each(|bytes| assert!(raw.get(bytes.clone()).is_some_and(|claim| !claim.is_empty())));
    assert_eq!(reading.status == Status::Ok, !found.is_empty());
    assert_eq!(reading.error.is_some(), matches!(reading.status, Status::Failed | Status::Refused));
    assert!(reading.error.as_ref().is_none_or(|error| error.len() < 1200 && !error.is_empty()));
    assert!(reading.dropped.iter().all(|dropped| dropped.item.chars().count() <= 81), "{:?}", reading.dropped);
}

fn one(rng: &mut ChaCha12Rng, schema: &Schema) -> Status {
    let text = text(rng);
    let raw = answer(rng, &text);
    let reading = read_answer(&raw, Finish::Stop, &text, schema);
    check(&reading, &raw, &text, schema);
    if raw.len() < 4000 {
        assert_eq!(read_answer(&raw, Finish::Stop, &text, schema), reading);
        let cut = read_answer(&raw, Finish::Length, &text, schema);
        assert!(cut.status == Status::Failed && cut.extraction.is_empty());
        let links = read_relations(&raw, Finish::Stop, schema, &reading.extraction.entities);
        let many = reading.extraction.entities.len();
        assert!(links.relations.iter().all(|relation| relation.head < many && relation.tail < many));
        for claim in claims(&raw, Finish::Stop, schema).into_iter().flatten() {
            assert!(raw.get(claim.bytes).is_some());
        }
    }
    reading.status
}

#[test]
fn answers_of_every_shape_end_in_a_reading_that_stands_in_the_text() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let only = variable("UNDERSTUDY_FUZZ_CASE");
    let time = Duration::from_secs(variable("UNDERSTUDY_FUZZ_SECONDS").unwrap_or(2));
    let (schema, start, mut case) = (schema(), Instant::now(), only.unwrap_or(0));
    let (mut ended, mut slowest) = ([0u64; 4], Duration::ZERO);
    while start.elapsed() < time || case < 400 {
        let mut rng = ChaCha12Rng::seed_from_u64(case);
        let before = busy();
        let outcome = catch_unwind(AssertUnwindSafe(|| one(&mut rng, &schema)));
        let repeat = format!("answers, case {case}: repeat with UNDERSTUDY_FUZZ_CASE={case}");
        let status = outcome.unwrap_or_else(|_| panic!("{repeat}: it panicked"));
        ended[status as usize] += 1;
        let took = busy().saturating_sub(before);
        // Input is at most some MiB: what takes this long grows faster than it.
        assert!(took < Duration::from_secs(20), "{repeat}: {took:?} of processor time");
        slowest = slowest.max(took);
        if only.is_some() {
            println!("{repeat}: {status:?}");
            return;
        }
        case += 1;
    }
    let [ok, empty, failed, refused] = ended;
    println!(
        "answers: {case} cases, {ok} ok, {empty} empty, {failed} failed, {refused} refused; slowest {} ms",
        slowest.as_millis()
    );
    assert!(ok > 0 && empty > 0 && failed > 0 && refused > 0, "{ended:?}: the mutations test nothing");
}
