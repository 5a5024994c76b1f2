//! How fast and how far: requests and tokens a minute, calls and money in all. Time is an
//! argument: nothing here waits or looks at a clock.

use crate::store::{StoredAnswer, StoredRequest};
use std::time::Duration;

/// What a million tokens cost, in the currency of the user's price list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// A million tokens read.
    pub prompt: f64,
    /// A million tokens written.
    pub completion: f64,
}

impl Price {
    /// What so many tokens cost.
    pub fn of(self, prompt: f64, completion: f64) -> f64 {
        (prompt * self.prompt + completion * self.completion) / 1e6
    }
}

/// How much may be asked, and how fast.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Requests a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, read and written.
    pub tokens_per_minute: Option<u32>,
    /// Requests in all, attempts that failed included.
    pub calls: Option<u64>,
    /// Money in all; without a price it limits nothing.
    pub cost: Option<f64>,
    /// What tokens cost.
    pub price: Option<Price>,
}

/// What was asked of servers so far; stored answers cost nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Requests sent, attempts that failed included.
    pub calls: u64,
    /// Tokens read, where servers say so; else as estimated.
    pub prompt_tokens: u64,
    /// Tokens written, likewise.
    pub completion_tokens: u64,
    /// Money, where tokens have a price.
    pub cost: Option<f64>,
    /// Whether a server left its counts out, so that tokens and money are estimates.
    pub estimated: bool,
}

/// A flow of so many units a minute, evenly: no minute holds more than that and one request.
#[derive(Default)]
struct Flow {
    /// Seconds that one unit takes; 0 is no limit.
    each: f64,
    next: f64,
}

impl Flow {
    fn new(per_minute: Option<u32>) -> Flow {
        Flow { each: per_minute.map_or(0.0, |most| 60.0 / f64::from(most.max(1))), next: 0.0 }
    }

    fn take(&mut self, now: f64, units: f64) {
        self.next = self.next.max(now) + units * self.each;
    }
}

/// Keeps the limits.
pub(super) struct Pace {
    limits: Limits,
    requests: Flow,
    tokens: Flow,
    spent: Spent,
    /// Tokens read and bytes of the requests that they were counted for.
    counted: (f64, f64),
    /// Most tokens a byte so far.
    densest: f64,
    /// What the requests in flight may cost at most.
    reserved: f64,
}

/// What a request in flight was taken to need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reserved {
    bytes: f64,
    tokens: f64,
    cost: f64,
}

impl Pace {
    pub fn new(limits: Limits) -> Pace {
        let (requests, tokens) = (Flow::new(limits.requests_per_minute), Flow::new(limits.tokens_per_minute));
        let spent = Spent { cost: limits.price.map(|_| 0.0), ..Spent::default() };
        Pace { limits, requests, tokens, spent, counted: (0.0, 0.0), densest: DENSEST, reserved: 0.0 }
    }

    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// When the next request may be sent.
    pub fn ready(&self) -> Duration {
        Duration::from_secs_f64(self.requests.next.max(self.tokens.next).max(0.0))
    }

    /// Takes a request into account, or says which limit it would break.
    pub fn admit(&mut self, request: &StoredRequest, now: Duration) -> Result<Reserved, String> {
        let Limits { calls, cost, price, .. } = self.limits;
        if let Some(most) = calls.filter(|most| self.spent.calls >= *most) {
            return Err(format!("stopped at --max-calls {most}"));
        }
        let bytes: f64 = request.messages.iter().map(|message| message.content.len() as f64).sum();
        let written = f64::from(request.max_tokens);
        let worst = price.map_or(0.0, |price| price.of(bytes * self.densest, written));
        if let Some(most) = cost.filter(|most| self.spent.cost.unwrap_or(0.0) + self.reserved + worst > *most) {
            return Err(format!("stopped at --max-cost {most}: the next request could exceed it"));
        }
        let reserved = Reserved { bytes, tokens: bytes * self.density() + written, cost: worst };
        self.spent.calls += 1;
        self.reserved += reserved.cost;
        self.requests.take(now.as_secs_f64(), 1.0);
        self.tokens.take(now.as_secs_f64(), reserved.tokens);
        Ok(reserved)
    }

    /// A request came back: what it took in truth replaces what it was taken to need. One that
    /// failed costs nothing.
    pub fn settle(&mut self, reserved: Reserved, answer: Option<&StoredAnswer>) {
        self.reserved = (self.reserved - reserved.cost).max(0.0);
        let Some(answer) = answer else {
            self.tokens.next -= reserved.tokens * self.tokens.each;
            return;
        };
        let read = answer.prompt_tokens.map_or(reserved.bytes * self.density(), |count| count as f64);
        let written =
            answer.completion_tokens.map_or(answer.content.len() as f64 * self.density(), |count| count as f64);
        if answer.prompt_tokens.is_some() && reserved.bytes > 0.0 {
            self.counted = (self.counted.0 + read, self.counted.1 + reserved.bytes);
            self.densest = self.densest.max(read / reserved.bytes);
        }
        self.tokens.next += (read + written - reserved.tokens) * self.tokens.each;
        let spent = &mut self.spent;
        spent.estimated |= answer.prompt_tokens.is_none() || answer.completion_tokens.is_none();
        spent.prompt_tokens += read.round() as u64;
        spent.completion_tokens += written.round() as u64;
        if let Some(price) = self.limits.price {
            spent.cost = Some(spent.cost.unwrap_or(0.0) + price.of(read, written));
        }
    }

    /// Tokens a byte: as counted so far, else a quarter.
    fn density(&self) -> f64 {
        if self.counted.1 > 0.0 { self.counted.0 / self.counted.1 } else { DENSITY }
    }
}

/// Tokens a byte before any were counted: English prose in the vocabularies of the day.
pub const DENSITY: f64 = 0.25;
/// Tokens a byte that no text is expected to exceed before any were counted: the price of a request that must
/// not exceed a limit.
const DENSEST: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ie::Message;

    fn request(bytes: usize, max_tokens: u32) -> StoredRequest {
        StoredRequest {
            model: "m".into(),
            messages: vec![Message::user("x".repeat(bytes))],
            temperature: 0.0,
            max_tokens,
            frequency_penalty: 0.0,
            seed: 1,
            logprobs: false,
            ..StoredRequest::default()
        }
    }

    fn answer(read: Option<u64>, written: Option<u64>) -> StoredAnswer {
        StoredAnswer {
            content: "{}".into(),
            finish: "stop".into(),
            refusal: None,
            tokens: None,
            prompt_tokens: read,
            completion_tokens: written,
            ..StoredAnswer::default()
        }
    }

    /// Sends as fast as it may for some minutes; the most requests and tokens of any minute.
    fn busiest(limits: Limits, sent: usize, read: u64) -> (usize, u64) {
        let mut pace = Pace::new(limits);
        let mut times = Vec::new();
        for _ in 0..sent {
            let now = pace.ready();
            let reserved = pace.admit(&request(400, 50), now).unwrap();
            pace.settle(reserved, Some(&answer(Some(read), Some(10))));
            times.push(now);
        }
        let within = |from: usize| {
            let end = times[from] + Duration::from_secs(60);
            times[from..].iter().filter(|time| **time < end).count()
        };
        let most = (0..sent).map(within).max().unwrap();
        (most, most as u64 * (read + 10))
    }

    #[test]
    fn no_minute_holds_more_requests_than_the_limit() {
        let limits = Limits { requests_per_minute: Some(30), ..Limits::default() };
        assert_eq!(busiest(limits, 200, 100).0, 30);
    }

    #[test]
    fn no_minute_holds_more_tokens_than_the_limit_and_one_request() {
        // Far more tokens than the text lets expect: what servers count is what counts.
        for read in [100, 700] {
            let limits = Limits { tokens_per_minute: Some(9000), ..Limits::default() };
            let (_, tokens) = busiest(limits, 100, read);
            assert!(tokens <= 9000 + read + 10, "{tokens}");
            assert!(tokens + 2 * (read + 10) >= 9000, "the limit is used: {tokens}");
        }
    }

    #[test]
    fn calls_are_counted_before_they_are_sent() {
        let mut pace = Pace::new(Limits { calls: Some(2), ..Limits::default() });
        pace.admit(&request(9, 9), Duration::ZERO).unwrap();
        let second = pace.admit(&request(9, 9), Duration::ZERO).unwrap();
        assert_eq!(pace.admit(&request(9, 9), Duration::ZERO).unwrap_err(), "stopped at --max-calls 2");
        pace.settle(second, None);
        assert!(pace.admit(&request(9, 9), Duration::ZERO).is_err(), "one that failed was sent all the same");
    }

    #[test]
    fn money_is_never_spent_beyond_the_limit_whatever_comes_back() {
        let price = Price { prompt: 1.0, completion: 4.0 };
        let limits = Limits { cost: Some(0.01), price: Some(price), ..Limits::default() };
        let mut pace = Pace::new(limits);
        let mut open = Vec::new();
        // The worst: every answer is as long as it may be, eight at once.
        let said = loop {
            match pace.admit(&request(400, 100), Duration::ZERO) {
                Ok(reserved) => open.push(reserved),
                Err(said) => break said,
            }
            if open.len() == 8 {
                open.drain(..).for_each(|reserved| pace.settle(reserved, Some(&answer(Some(200), Some(100)))));
            }
        };
        open.drain(..).for_each(|reserved| pace.settle(reserved, Some(&answer(Some(200), Some(100)))));
        let cost = pace.spent().cost.unwrap();
        assert!(said.starts_with("stopped at --max-cost 0.01"), "{said}");
        assert!(cost <= 0.01 && cost > 0.009, "{cost}");
        assert_eq!(pace.spent().calls, 16, "0.0006 each");
    }

    #[test]
    fn what_a_server_does_not_count_is_estimated_and_said_so() {
        let mut pace = Pace::new(Limits { price: Some(Price { prompt: 1.0, completion: 1.0 }), ..Limits::default() });
        let reserved = pace.admit(&request(400, 100), Duration::ZERO).unwrap();
        pace.settle(reserved, Some(&answer(None, Some(7))));
        let spent = pace.spent();
        assert_eq!((spent.prompt_tokens, spent.completion_tokens, spent.estimated), (100, 7, true));
    }
}
