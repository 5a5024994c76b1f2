//! The requests of one call that are not answered yet. Those of one agent stand together: a server
//! that has read their shared instruction reads the next of them cheaper.

use super::Asked;
use crate::store::StoredRequest;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

/// A request with what became of it so far.
pub(super) struct Entry {
    pub asked: Asked,
    /// How often it was sent.
    pub attempts: u32,
    /// When it was sent last.
    pub began: Duration,
    /// The server that failed last.
    pub failed_on: Option<usize>,
}

/// An entry that waits for its time.
struct Delayed {
    due: Duration,
    turn: u64,
    entry: Entry,
}

/// Fresh requests by agent, delayed ones by time.
#[derive(Default)]
pub(super) struct Queue {
    /// Agents in the order in which they first spoke.
    agents: BTreeMap<u64, VecDeque<Entry>>,
    /// The agent that is asked now, until nothing waits for it.
    current: u64,
    delayed: BinaryHeap<Delayed>,
    turn: u64,
    /// Requests that were pushed and are not done.
    open: usize,
}

impl Queue {
    /// Adds fresh requests.
    pub fn push(&mut self, asked: Vec<Asked>) {
        self.open += asked.len();
        for asked in asked {
            let entry = Entry { attempts: 0, began: Duration::ZERO, failed_on: None, asked };
            self.agents.entry(entry.asked.agent).or_default().push_back(entry);
        }
    }

    /// When something comes next: a delayed request that is due, a fresh one, or the delayed one
    /// that is due first; `None` if nothing waits.
    pub fn first(&self, now: Duration) -> Option<Duration> {
        let due = self.delayed.peek().map(|delayed| delayed.due);
        let fresh = (!self.agents.is_empty()).then_some(Duration::ZERO);
        due.filter(|due| *due <= now).or(fresh).or(due)
    }

    /// Whether nothing waits and nothing is asked.
    pub fn is_over(&self) -> bool {
        self.open == 0
    }

    fn next(&self, now: Duration) -> &Entry {
        let delayed = self.delayed.peek();
        let due = delayed.filter(|delayed| delayed.due <= now || self.agents.is_empty());
        match due {
            Some(delayed) => &delayed.entry,
            None => self.fresh().and_then(VecDeque::front).expect("only asked for where `first` found one"),
        }
    }

    fn fresh(&self) -> Option<&VecDeque<Entry>> {
        self.agents.get(&self.current).or_else(|| self.agents.values().max_by_key(|entries| entries.len()))
    }

    /// The server that failed on the one that comes next.
    pub fn failed_on(&self, now: Duration) -> Option<usize> {
        self.next(now).failed_on
    }

    /// The request that comes next.
    pub fn request(&self, now: Duration) -> &StoredRequest {
        &self.next(now).asked.request
    }

    /// Takes out the one that comes next.
    pub fn take(&mut self, now: Duration) -> Entry {
        let due = self.delayed.peek().is_some_and(|delayed| delayed.due <= now || self.agents.is_empty());
        if due && let Some(delayed) = self.delayed.pop() {
            return delayed.entry;
        }
        self.current = self.next(now).asked.agent;
        let entries = self.agents.get_mut(&self.current).expect("`next` found an entry of this agent");
        let entry = entries.pop_front().expect("an agent for whom nothing waits is removed");
        if entries.is_empty() {
            self.agents.remove(&self.current);
        }
        entry
    }

    /// Puts one back that will be tried again.
    pub fn again(&mut self, entry: Entry, due: Duration) {
        self.turn += 1;
        self.delayed.push(Delayed { due, turn: self.turn, entry });
    }

    /// Takes note that a request was heard; whether nothing is left.
    pub fn done(&mut self) -> bool {
        self.open -= 1;
        self.is_over()
    }
}

// The heap's greatest is the one that is due first, the earlier one of two.
impl Ord for Delayed {
    fn cmp(&self, other: &Delayed) -> Ordering {
        (other.due, other.turn).cmp(&(self.due, self.turn))
    }
}

impl PartialOrd for Delayed {
    fn partial_cmp(&self, other: &Delayed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Delayed {
    fn eq(&self, other: &Delayed) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Delayed {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ie::Message;

    fn asked(system: &str, question: &str) -> Asked {
        Asked::new(StoredRequest {
            messages: vec![Message::system(system), Message::user(question)],
            ..StoredRequest::default()
        })
    }

    fn taken(queue: &mut Queue) -> String {
        let entry = queue.take(Duration::ZERO);
        entry.asked.request.messages.iter().map(|message| message.content.as_str()).collect()
    }

    #[test]
    fn requests_of_one_agent_are_asked_together_and_in_order() {
        let mut queue = Queue::default();
        queue.push(vec![asked("a", "1"), asked("b", "1"), asked("b", "2"), asked("a", "2"), asked("b", "3")]);
        let first: Vec<String> = (0..3).map(|_| taken(&mut queue)).collect();
        assert_eq!(first, ["b1", "b2", "b3"]);
        queue.push(vec![asked("c", "1"), asked("a", "3")]);
        let rest: Vec<String> = (0..4).map(|_| taken(&mut queue)).collect();
        assert_eq!(rest, ["a1", "a2", "a3", "c1"]);
        assert!(queue.first(Duration::ZERO).is_none() && !queue.is_over());
    }

    #[test]
    fn a_delayed_request_comes_when_it_is_due_and_before_fresh_ones() {
        let (mut queue, second) = (Queue::default(), Duration::from_secs(1));
        queue.push(vec![asked("a", "1"), asked("a", "2")]);
        let entry = queue.take(Duration::ZERO);
        queue.again(entry, second);
        assert_eq!((queue.first(Duration::ZERO), queue.first(second)), (Some(Duration::ZERO), Some(second)));
        assert_eq!(queue.request(second).messages[1].content, "1");
        assert_eq!(queue.request(Duration::ZERO).messages[1].content, "2");
        queue.take(Duration::ZERO);
        assert!(!queue.done());
        assert_eq!(queue.first(Duration::ZERO), Some(second));
        queue.take(second);
        assert!(queue.done());
    }
}
