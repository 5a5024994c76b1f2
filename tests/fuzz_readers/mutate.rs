//! What is done to sound files; the same seed does the same on every machine.

use rand::RngExt;
use rand_chacha::ChaCha12Rng;
use serde_json::{Value, json};

const NUMBERS: [u64; 22] = [
    0,
    1,
    2,
    3,
    7,
    8,
    31,
    32,
    127,
    128,
    255,
    256,
    4096,
    65535,
    1 << 20,
    i32::MAX as u64,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 53,
    i64::MAX as u64,
    u64::MAX,
];
const WORDS: [&str; 24] = [
    "null",
    "true",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "-1",
    "1e999",
    "1e-999",
    "18446744073709551615",
    "0.5",
    "\\u0000",
    "\\ud800",
    "../",
    "F16",
    "BF16",
    "{%",
    "%}",
    "{{ x }}",
    "\u{FEFF}",
    "é",
];

pub fn pick<'a, T>(rng: &mut ChaCha12Rng, from: &'a [T]) -> &'a T {
    &from[rng.random_range(0..from.len())]
}

/// A range of up to `most` bytes; heads of files are hit more often than their numbers.
fn range(rng: &mut ChaCha12Rng, bytes: &[u8], most: usize) -> std::ops::Range<usize> {
    let end = if rng.random_range(0..4) == 0 { bytes.len() } else { bytes.len().min(3000) };
    let start = rng.random_range(0..=end);
    start..(start + rng.random_range(0..=most)).min(bytes.len())
}

pub fn mutated(rng: &mut ChaCha12Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = pick(rng, seeds).clone();
    for _ in 0..rng.random_range(1..=5) {
        let at = range(rng, &bytes, 0).start;
        match rng.random_range(0..11) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = rng.random(),
            2 => {
                let number = pick(rng, &NUMBERS).to_le_bytes();
                let width = *pick(rng, &[1, 2, 4, 8, 8]);
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&number[..end - at]);
            }
            3 => drop(bytes.drain(range(rng, &bytes, 64))),
            4 => {
                let copy = bytes[range(rng, &bytes, 64)].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => {
                drop(bytes.splice(at..at, (0..rng.random_range(1..9)).map(|_| rng.random::<u8>()).collect::<Vec<_>>()))
            }
            6 if rng.random_range(0..3) == 0 => bytes.truncate(at),
            7 => {
                let other = pick(rng, seeds).clone();
                let from = range(rng, &other, 512);
                bytes.splice(at..(at + from.len()).min(bytes.len()), other[from].to_vec());
            }
            8 => drop(bytes.splice(at..at, pick(rng, &WORDS).bytes())),
            9 => {
                // A number in a text becomes another.
                let digits = bytes[at..].iter().position(u8::is_ascii_digit).map(|skip| at + skip);
                if let Some(start) = digits {
                    let end =
                        bytes[start..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| start + n);
                    bytes.splice(start..end, pick(rng, &NUMBERS).to_string().bytes());
                }
            }
            _ => {
                let (a, b) = (range(rng, &bytes, 0).start, range(rng, &bytes, 0).start);
                if a < bytes.len() && b < bytes.len() {
                    bytes.swap(a, b);
                }
            }
        }
    }
    bytes
}

/// Changes some nodes of a JSON tree, so that what comes out is JSON again.
fn mutated_json(rng: &mut ChaCha12Rng, json: &mut Value) {
    for _ in 0..rng.random_range(1..=3) {
        let mut left = rng.random_range(0..nodes(json).min(400));
        change(rng, json, &mut left);
    }
}

fn nodes(json: &Value) -> usize {
    1 + match json {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(fields) => fields.values().map(nodes).sum::<usize>(),
        _ => 0,
    }
}

fn change(rng: &mut ChaCha12Rng, json: &mut Value, left: &mut usize) -> bool {
    if *left == 0 {
        change_here(rng, json);
        return true;
    }
    *left -= 1;
    match json {
        Value::Array(items) => items.iter_mut().any(|item| change(rng, item, left)),
        Value::Object(fields) => fields.values_mut().any(|field| change(rng, field, left)),
        _ => false,
    }
}

fn change_here(rng: &mut ChaCha12Rng, json: &mut Value) {
    *json = match (rng.random_range(0..14), &*json) {
        (0, _) => Value::Null,
        (1, _) => rng.random::<bool>().into(),
        (2, _) => (*pick(rng, &NUMBERS)).into(),
        (3, _) => (-(*pick(rng, &NUMBERS) as f64) * 0.75).into(),
        (4, _) => (*pick(rng, &WORDS)).into(),
        (5, _) => "\u{10FFFF}a".repeat(rng.random_range(0..2000)).into(),
        (6, _) => json!([]),
        (7, _) => json!({}),
        (8, _) => (0..rng.random_range(1..200)).fold(json.clone(), |inner, _| Value::Array(vec![inner])),
        (9, Value::Array(items)) => items.iter().chain(items).cloned().collect(),
        (_, Value::Array(items)) => items.iter().filter(|_| rng.random_range(0..4) > 0).cloned().collect(),
        (9, Value::Object(fields)) => {
            let renamed =
                fields.iter().map(|(key, value)| (format!("{key}{}", pick(rng, &["", "", "_", "é"])), value.clone()));
            Value::Object(renamed.collect())
        }
        (_, Value::Object(fields)) => Value::Object(
            fields.iter().filter(|_| rng.random_range(0..4) > 0).map(|(k, v)| (k.clone(), v.clone())).collect(),
        ),
        (_, Value::Number(number)) => {
            let number = number.as_f64().unwrap_or(0.0);
            match rng.random_range(0..4) {
                0 => json!(number + 1.0),
                1 => json!((number * 2.0) as i64),
                2 => json!((number - 1.0) as i64),
                _ => json!(-number),
            }
        }
        (_, Value::String(text)) => {
            let cut = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
            format!("{}{}{}", &text[..cut], pick(rng, &WORDS), &text[cut..]).into()
        }
        (_, other) => other.clone(),
    };
}

pub fn mutated_text(rng: &mut ChaCha12Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let seed = pick(rng, seeds);
    match serde_json::from_slice::<Value>(seed) {
        Ok(mut json) if rng.random_range(0..3) > 0 => {
            mutated_json(rng, &mut json);
            json.to_string().into_bytes()
        }
        _ => mutated(rng, seeds),
    }
}

/// A safetensors file whose header was changed as JSON and whose length field is right.
pub fn mutated_header(rng: &mut ChaCha12Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let seed = pick(rng, seeds);
    let length = u64::from_le_bytes(seed[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&seed[8..8 + length]).unwrap();
    mutated_json(rng, &mut header);
    let header = header.to_string().into_bytes();
    [&(header.len() as u64).to_le_bytes()[..], &header, &seed[8 + length..]].concat()
}
