//! Numbers and addresses of people in a text: e-mail, telephone, IBAN, payment card, IP address. By their form,
//! and by their check digits where they have some; names are not looked for, they are what is extracted.

use std::net::IpAddr;
use std::ops::Range;

/// What a stretch of text is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PiiKind {
    /// `name@host.tld`.
    Email,
    /// International (`+41 44 668 18 00`, `0041 …`) or North American (`212-555-0100`, `(212) 555-0100`).
    Phone,
    /// With a right checksum (ISO 7064, modulo 97).
    Iban,
    /// 13 to 19 digits with a right check digit (Luhn).
    Card,
    /// Version 4 or 6.
    Ip,
}

impl PiiKind {
    /// As in the README of a corpus.
    pub fn name(self) -> &'static str {
        match self {
            PiiKind::Email => "e-mail address",
            PiiKind::Phone => "telephone number",
            PiiKind::Iban => "IBAN",
            PiiKind::Card => "card number",
            PiiKind::Ip => "IP address",
        }
    }
}

/// Where they stand, in order; no two overlap.
pub fn pii(text: &str) -> Vec<(Range<usize>, PiiKind)> {
    let bytes = text.as_bytes();
    // Most texts: neither a digit nor a sign that any of them needs.
    if !bytes.iter().any(|byte| byte.is_ascii_digit() || matches!(byte, b'@' | b':')) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for at in 0..bytes.len() {
        let behind = found.last().map_or(0, |(range, _): &(Range<usize>, PiiKind)| range.end);
        if at < behind {
            continue;
        }
        // Only where a word begins; an e-mail address is entered at its sign.
        let begins = at == 0 || !is_word(bytes[at - 1]);
        let here = match bytes[at] {
            b'@' => email(bytes, at).filter(|range| range.start >= behind).map(|range| (range, PiiKind::Email)),
            byte if begins && byte.is_ascii_alphanumeric() => {
                let ip = ip(text, at).map(|range| (range, PiiKind::Ip));
                let iban = || iban(bytes, at).map(|range| (range, PiiKind::Iban));
                ip.or_else(iban).or_else(|| number(bytes, at))
            }
            b'+' | b'(' if begins => number(bytes, at),
            b':' if begins => ip(text, at).map(|range| (range, PiiKind::Ip)),
            _ => None,
        };
        found.extend(here);
    }
    found
}

/// The text with every letter of these stretches as `x` and every digit as `0`: as long as before, so that
/// all else stands where it stood.
pub fn masked(text: &str, found: &[(Range<usize>, PiiKind)]) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    for (range, _) in found {
        masked.push_str(&text[at..range.start]);
        masked.extend(text[range.clone()].chars().map(|c| match c {
            _ if c.is_ascii_alphabetic() => 'x',
            _ if c.is_ascii_digit() => '0',
            _ => c,
        }));
        at = range.end;
    }
    masked.push_str(&text[at..]);
    masked
}

/// Part of a word; bytes of other scripts count as such.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

fn email(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let local = |byte: &u8| byte.is_ascii_alphanumeric() || b"._%+-".contains(byte);
    let mut start = at - bytes[..at].iter().rev().take_while(|byte| local(byte)).count();
    start += bytes[start..at].iter().take_while(|byte| **byte == b'.').count();
    let host = |byte: &u8| byte.is_ascii_alphanumeric() || b".-".contains(byte);
    let mut end = at + 1 + bytes[at + 1..].iter().take_while(|byte| host(byte)).count();
    while end > at + 1 && b".-".contains(&bytes[end - 1]) {
        end -= 1;
    }
    let parts: Vec<&[u8]> = bytes[at + 1..end].split(|byte| *byte == b'.').collect();
    let top = parts.last()?;
    let sound = start < at && parts.len() >= 2 && parts.iter().all(|part| !part.is_empty());
    (sound && top.len() >= 2 && top.iter().all(u8::is_ascii_alphabetic)).then_some(start..end)
}

fn ip(text: &str, at: usize) -> Option<Range<usize>> {
    let address = |byte: &u8| byte.is_ascii_hexdigit() || b".:".contains(byte);
    let mut end = at + text.as_bytes()[at..].iter().take_while(|byte| address(byte)).count();
    while end > at && text[at..end].ends_with(['.', ':']) && !text[at..end].ends_with("::") {
        end -= 1;
    }
    let written = &text[at..end];
    // `::` and `a::b` are signs of programs.
    let plenty = written.contains('.') || written.matches(':').count() >= 3;
    let alone = text.as_bytes().get(end).is_none_or(|byte| !is_word(*byte));
    (plenty && alone && written.parse::<IpAddr>().is_ok()).then_some(at..end)
}

fn iban(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let head = bytes.get(at..at + 4)?;
    if !(head[..2].iter().all(u8::is_ascii_uppercase) && head[2..].iter().all(u8::is_ascii_digit)) {
        return None;
    }
    let mut signs: Vec<u8> = Vec::new();
    let mut ends = Vec::new();
    for (place, byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b' ' if signs.len().is_multiple_of(4) => {}
            byte if byte.is_ascii_digit() || byte.is_ascii_uppercase() => {
                signs.push(*byte);
                let closes = bytes.get(place + 1).is_none_or(|next| !is_word(*next));
                ends.extend(((15..=34).contains(&signs.len()) && closes).then_some((signs.len(), place + 1)));
            }
            _ => break,
        }
    }
    // The country code moves to the end, letters count from 10; the whole is 1 modulo 97.
    let right = |count: &usize| {
        let turned = signs[4..*count].iter().chain(&signs[..4]);
        turned.fold(0, |rest, sign| match sign {
            b'0'..=b'9' => (rest * 10 + u32::from(sign - b'0')) % 97,
            _ => (rest * 100 + u32::from(sign - b'A') + 10) % 97,
        }) == 1
    };
    ends.into_iter().rev().find(|(count, _)| right(count)).map(|(_, end)| at..end)
}

/// A card or a telephone number.
fn number(bytes: &[u8], at: usize) -> Option<(Range<usize>, PiiKind)> {
    let sign = |byte: &u8| byte.is_ascii_digit() || b" -.()/".contains(byte);
    let first = usize::from(bytes[at] == b'+');
    let mut end = at + first + bytes[at + first..].iter().take_while(|byte| sign(byte)).count();
    while end > at && !bytes[end - 1].is_ascii_digit() {
        end -= 1;
    }
    if bytes.get(end).is_some_and(|byte| is_word(*byte)) {
        return None;
    }
    let written = &bytes[at..end];
    let digits: Vec<u8> = written.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0').collect();
    let by_groups = !written.iter().any(|byte| b".()/".contains(byte));
    let abroad = first == 1 || written.starts_with(b"00");
    if !abroad && by_groups && (13..=19).contains(&digits.len()) && luhn(&digits) {
        return Some((at..end, PiiKind::Card));
    }
    let phone = (abroad && (8..=15).contains(&digits.len())) || is_north_american(written);
    phone.then_some((at..end, PiiKind::Phone))
}

/// `ddd-ddd-dddd`, with `.` or a space as well, or `(ddd) ddd-dddd`.
fn is_north_american(written: &[u8]) -> bool {
    let shape: Vec<u8> = written.iter().map(|byte| if byte.is_ascii_digit() { b'd' } else { *byte }).collect();
    [&b"ddd-ddd-dddd"[..], b"ddd.ddd.dddd", b"ddd ddd dddd", b"(ddd) ddd-dddd", b"(ddd)ddd-dddd"]
        .contains(&shape.as_slice())
}

/// Every second digit from the right doubled, its digits summed: the sum ends in 0.
fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, u32::from(*digit)) {
            (0, digit) => digit,
            (_, digit) => digit * 2 / 10 + digit * 2 % 10,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str) -> Vec<(&str, PiiKind)> {
        pii(text).into_iter().map(|(range, kind)| (&text[range], kind)).collect()
    }

    #[test]
    fn each_kind_is_found_by_its_form_and_check_digits() {
        use PiiKind::*;
        for (text, wanted) in [
            ("Write to ann.lee+x@mail.example.org.", vec![("ann.lee+x@mail.example.org", Email)]),
            (
                "Call +41 44 668 18 00, or 0041 44 668 18 00!",
                vec![("+41 44 668 18 00", Phone), ("0041 44 668 18 00", Phone)],
            ),
            ("(212) 555-0100 and 212-555-0100", vec![("(212) 555-0100", Phone), ("212-555-0100", Phone)]),
            // The examples of ISO 13616's registry for the United Kingdom and Germany.
            ("GB29 NWBK 6016 1331 9268 19 is", vec![("GB29 NWBK 6016 1331 9268 19", Iban)]),
            ("DE89370400440532013000.", vec![("DE89370400440532013000", Iban)]),
            // The test number of Luhn's check that card networks publish.
            ("4111 1111 1111 1111", vec![("4111 1111 1111 1111", Card)]),
            ("from 192.168.0.1, 2001:db8::8a2e:370:7334", vec![("192.168.0.1", Ip), ("2001:db8::8a2e:370:7334", Ip)]),
            ("李雷的邮箱是lilei@example.cn。", vec![("lilei@example.cn", Email)]),
        ] {
            assert_eq!(found(text), wanted, "{text}");
        }
    }

    #[test]
    fn dates_prices_scores_and_wrong_check_digits_are_left_alone() {
        for text in [
            "On 2019-08-25 Team OG took $15 million, 1999/2000, 3.14159, 612 of them.",
            "GB29 NWBK 6016 1331 9268 18", // one digit off
            "4111 1111 1111 1112",
            "999.1.2.3 and 12:30 and std::vec::Vec and @home and a@b",
            "ISBN 978-3-16-148410-0",
            "Population: 1 234 567 890",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn a_masked_text_is_as_long_and_holds_none_of_it() {
        let text = "李雷: lilei@example.cn, 4111 1111 1111 1111.";
        let masked = masked(text, &pii(text));
        assert_eq!(masked, "李雷: xxxxx@xxxxxxx.xx, 0000 0000 0000 0000.");
        assert_eq!(masked.len(), text.len());
    }

    proptest! {
        #[test]
        fn whatever_the_text_stretches_lie_in_order_on_borders(text in "[a-c@+0-9.:()  é李-]{0,60}") {
            let mut behind = 0;
            for (range, _) in pii(&text) {
                prop_assert!(range.start >= behind && !text[range.clone()].is_empty());
                behind = range.end;
            }
            let masked = masked(&text, &pii(&text));
            prop_assert_eq!(masked.chars().count(), text.chars().count());
        }
    }
}
