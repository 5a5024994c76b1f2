//! Which server is asked: the one with the fewest requests in flight among those that work. One
//! that fails is set aside for a growing while, or until a request that is still in flight there
//! succeeds. Time is an argument: nothing here waits or looks at a clock.

use std::time::Duration;

/// The first while that a failing server is set aside.
const FIRST_ASIDE: Duration = Duration::from_millis(250);
/// The longest, unless the server itself asks for more.
const LONGEST_ASIDE: Duration = Duration::from_secs(30);

/// The servers, by ordinal.
pub(super) struct Servers {
    all: Vec<Server>,
    most: usize,
}

#[derive(Clone, Default)]
struct Server {
    in_flight: usize,
    /// Failures since the last success, those while it was aside not counted.
    failures: u32,
    aside: Duration,
}

/// Where a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// To this server, now.
    Server(usize),
    /// A server has to end a request first.
    Full,
    /// All are set aside; the first comes back then.
    Aside(Duration),
}

impl Servers {
    /// `count` servers, each with at most `most` requests in flight.
    pub fn new(count: usize, most: usize) -> Servers {
        Servers { all: vec![Server::default(); count], most }
    }

    /// The least loaded server that works, ties in order; `failed_on` only if no other works.
    pub fn choose(&self, now: Duration, failed_on: Option<usize>) -> Choice {
        let working = |at: &usize| self.all[*at].aside <= now;
        let all = 0..self.all.len();
        let others: Vec<usize> = all.clone().filter(working).filter(|at| Some(*at) != failed_on).collect();
        let candidates = if others.is_empty() { all.filter(working).collect() } else { others };
        match candidates.iter().min_by_key(|at| (self.all[**at].in_flight, **at)) {
            Some(&at) if self.all[at].in_flight < self.most => Choice::Server(at),
            Some(_) => Choice::Full,
            None => Choice::Aside(self.all.iter().map(|server| server.aside).min().unwrap_or(now)),
        }
    }

    /// Whether another server than this works.
    pub fn another_works(&self, at: usize, now: Duration) -> bool {
        self.all.iter().enumerate().any(|(other, server)| other != at && server.aside <= now)
    }

    /// Whether every server failed last.
    pub fn all_fail(&self) -> bool {
        self.all.iter().all(|server| server.failures > 0)
    }

    /// A request goes there.
    pub fn begin(&mut self, at: usize) {
        self.all[at].in_flight += 1;
    }

    /// A request came back with an answer, or with a refusal that another server would give too;
    /// whether the server was set aside until then.
    pub fn succeeded(&mut self, at: usize) -> bool {
        let server = &mut self.all[at];
        server.in_flight -= 1;
        server.failures = 0;
        std::mem::take(&mut server.aside) > Duration::ZERO
    }

    /// A request came back without; the server may have asked for a delay. Of the requests that
    /// fail together, the first counts.
    pub fn failed(&mut self, at: usize, now: Duration, delay: Option<Duration>) {
        let server = &mut self.all[at];
        server.in_flight -= 1;
        if server.aside <= now {
            server.failures = server.failures.saturating_add(1);
            let growing = (FIRST_ASIDE * (1 << (server.failures - 1).min(7))).min(LONGEST_ASIDE);
            server.aside = now + delay.unwrap_or(growing);
        } else {
            server.aside = server.aside.max(now + delay.unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn after(millis: u64) -> Duration {
        NOW + Duration::from_millis(millis)
    }

    #[test]
    fn the_least_loaded_is_chosen_and_ties_go_in_order() {
        let mut servers = Servers::new(3, 2);
        let mut chosen = Vec::new();
        while let Choice::Server(at) = servers.choose(NOW, None) {
            servers.begin(at);
            chosen.push(at);
        }
        assert_eq!(chosen, [0, 1, 2, 0, 1, 2]);
        assert_eq!(servers.choose(NOW, None), Choice::Full);
        servers.succeeded(1);
        assert_eq!(servers.choose(NOW, None), Choice::Server(1));
    }

    #[test]
    fn a_failing_server_is_set_aside_for_a_growing_while() {
        let mut servers = Servers::new(1, 1);
        let (mut now, mut whiles) = (NOW, Vec::new());
        for _ in 0..10 {
            assert_eq!(servers.choose(now, None), Choice::Server(0), "it is tried again");
            servers.begin(0);
            servers.failed(0, now, None);
            let Choice::Aside(until) = servers.choose(now, None) else { panic!("it is set aside") };
            whiles.push((until - now).as_millis());
            now = until;
        }
        assert_eq!(whiles, [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
        servers.begin(0);
        servers.succeeded(0);
        servers.begin(0);
        servers.failed(0, now, None);
        assert_eq!(servers.choose(now, None), Choice::Aside(now + FIRST_ASIDE), "a success forgives");
    }

    #[test]
    fn requests_that_fail_together_count_once_and_a_success_among_them_ends_the_while() {
        let mut servers = Servers::new(1, 9);
        (0..9).for_each(|_| servers.begin(0));
        (0..8).for_each(|_| servers.failed(0, NOW, None));
        assert_eq!(servers.choose(NOW, None), Choice::Aside(after(250)));
        servers.succeeded(0);
        assert_eq!(servers.choose(NOW, None), Choice::Server(0));
    }

    #[test]
    fn a_server_that_names_a_delay_gets_it_and_others_take_over() {
        let mut servers = Servers::new(2, 4);
        servers.begin(0);
        servers.failed(0, NOW, Some(Duration::from_secs(60)));
        assert!(servers.another_works(0, NOW) && !servers.another_works(1, NOW) && !servers.all_fail());
        (0..3).for_each(|_| servers.begin(1));
        assert_eq!(servers.choose(after(59_999), None), Choice::Server(1));
        assert_eq!(servers.choose(after(60_000), None), Choice::Server(0));
        servers.begin(1);
        assert_eq!(servers.choose(after(59_999), None), Choice::Full, "the other is full, the first aside");
    }

    #[test]
    fn a_request_goes_elsewhere_than_where_it_failed_if_there_is_an_elsewhere() {
        let mut servers = Servers::new(2, 4);
        servers.begin(1);
        assert_eq!(servers.choose(NOW, Some(0)), Choice::Server(1), "more load, but another");
        servers.failed(1, NOW, None);
        assert_eq!(servers.choose(NOW, Some(0)), Choice::Server(0), "the other is aside");
        servers.begin(0);
        servers.failed(0, NOW, None);
        assert!(servers.all_fail());
        assert_eq!(servers.choose(NOW, Some(0)), Choice::Aside(after(250)));
    }
}
