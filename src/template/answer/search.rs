//! All of many patterns in one pass over a text: Aho and Corasick, "Efficient string matching"
//! (CACM 1975), over symbols of `u32` so that bytes and folded characters share it.

use crate::ie::Span;
use std::collections::HashMap;

const NONE: u32 = u32::MAX;

/// The automaton.
pub(super) struct Search {
    edges: HashMap<(u32, u32), u32>,
    /// Longest proper suffix that is a prefix of some pattern.
    fail: Vec<u32>,
    /// Pattern that ends at a node.
    ends: Vec<u32>,
    /// Nearest node on the chain of suffixes at which a pattern ends, the node itself excluded.
    link: Vec<u32>,
    /// Nodes by depth.
    order: Vec<u32>,
    /// For each pattern the first pattern with the same symbols.
    twins: Vec<usize>,
}

/// What a pass found.
pub(super) struct Hits {
    /// Pattern and span, by end: at every end the longest that was accepted.
    pub found: Vec<(usize, Span)>,
    /// Whether a pattern stands anywhere, accepted or not.
    pub somewhere: Vec<bool>,
    /// Whether a pattern ends where a longer one was accepted.
    pub hidden: Vec<bool>,
    /// For each pattern the first pattern with the same symbols, which stands for it above.
    pub twins: Vec<usize>,
}

impl Search {
    /// Builds the automaton; an empty pattern is never found.
    pub fn new<P: Iterator<Item = u32>>(patterns: impl Iterator<Item = P>) -> Search {
        let mut search = Search {
            edges: HashMap::new(),
            fail: vec![0],
            ends: vec![NONE],
            link: vec![NONE],
            order: vec![0],
            twins: Vec::new(),
        };
        let mut cameby: Vec<(u32, u32, u32)> = vec![(0, 0, 0)]; // parent, symbol, depth
        for (pattern, symbols) in patterns.enumerate() {
            let mut node = 0u32;
            for symbol in symbols {
                let next = cameby.len() as u32;
                let child = *search.edges.entry((node, symbol)).or_insert(next);
                if child == next {
                    cameby.push((node, symbol, cameby[node as usize].2 + 1));
                    search.ends.push(NONE);
                }
                node = child;
            }
            if node != 0 && search.ends[node as usize] == NONE {
                search.ends[node as usize] = pattern as u32;
            }
            let first = search.ends[node as usize];
            search.twins.push(if first == NONE { pattern } else { first as usize });
        }
        search.fail = vec![0; cameby.len()];
        search.link = vec![NONE; cameby.len()];
        search.order = (0..cameby.len() as u32).collect();
        search.order.sort_by_key(|&node| cameby[node as usize].2);
        for at in 1..search.order.len() {
            let node = search.order[at];
            let (parent, symbol, depth) = cameby[node as usize];
            let fail = if depth == 1 { 0 } else { search.step(search.fail[parent as usize], symbol) };
            search.fail[node as usize] = fail;
            search.link[node as usize] =
                if search.ends[fail as usize] == NONE { search.link[fail as usize] } else { fail };
        }
        search
    }

    fn step(&self, mut node: u32, symbol: u32) -> u32 {
        loop {
            match self.edges.get(&(node, symbol)) {
                Some(&next) => return next,
                None if node == 0 => return 0,
                None => node = self.fail[node as usize],
            }
        }
    }

    /// Passes over the text once. `accept` says which span a pattern that ends before symbol
    /// `end` covers, or refuses it; at each end the longest accepted pattern is reported.
    pub fn run(&self, symbols: impl Iterator<Item = u32>, accept: impl Fn(usize, usize) -> Option<Span>) -> Hits {
        let (mut node, mut found) = (0u32, Vec::new());
        let mut visited = vec![false; self.fail.len()];
        let mut behind = vec![false; self.fail.len()];
        for (at, symbol) in symbols.enumerate() {
            node = self.step(node, symbol);
            visited[node as usize] = true;
            let mut end = if self.ends[node as usize] == NONE { self.link[node as usize] } else { node };
            while end != NONE {
                let pattern = self.ends[end as usize] as usize;
                if let Some(span) = accept(pattern, at + 1) {
                    found.push((pattern, span));
                    if self.link[end as usize] != NONE {
                        behind[self.link[end as usize] as usize] = true;
                    }
                    break;
                }
                end = self.link[end as usize];
            }
        }
        let mut hits = Hits {
            found,
            somewhere: vec![false; self.twins.len()],
            hidden: vec![false; self.twins.len()],
            twins: self.twins.clone(),
        };
        // Deepest first, so that what is true of a node reaches all its suffixes.
        for &node in self.order.iter().rev() {
            let (here, fail, link) = (node as usize, self.fail[node as usize] as usize, self.link[node as usize]);
            visited[fail] |= visited[here];
            if link != NONE {
                behind[link as usize] |= behind[here];
            }
            if self.ends[here] != NONE {
                hits.somewhere[self.ends[here] as usize] |= visited[here];
                hits.hidden[self.ends[here] as usize] |= behind[here];
            }
        }
        hits
    }
}
