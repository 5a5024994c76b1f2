//! Documents beside their traces, block by block: a corpus may be larger than memory. Lines are read
//! in order, understood side by side, and given on in order.

use crate::config::Plan;
use crate::ie::Document;
use crate::store::{DocumentLine, LineIndex, RawLine, RawLines, id_of, lot};
use crate::trace::Trace;
use anyhow::{Context, Result, anyhow, bail};
use rayon::prelude::*;
use std::collections::HashSet;
use std::path::PathBuf;

/// Pairs that are in memory at once. A trace has some ten kilobytes.
const BLOCK: usize = 2048;

/// The two files.
pub struct Pairs {
    documents: PathBuf,
    traces: PathBuf,
    limit: usize,
    /// Where the traces stand, once they are known to be in another order.
    index: Option<LineIndex>,
}

impl Pairs {
    /// The files of a plan.
    pub fn of(plan: &Plan) -> Result<Pairs> {
        let data = &plan.config().data;
        let traces = plan.output_dir().join("traces.jsonl");
        RawLines::open(&traces).context("the debate has to run first: understudy debate CONFIG")?;
        let limit = data.train_limit.unwrap_or(usize::MAX);
        let mut pairs = Pairs { documents: data.train.clone(), traces, limit, index: None };
        pairs.check()?;
        Ok(pairs)
    }

    /// Reads the ids of both files: each document has one, and its trace stands beside it or anywhere.
    fn check(&mut self) -> Result<()> {
        let (mut documents, mut traces) = (RawLines::open(&self.documents)?, RawLines::open(&self.traces)?);
        let mut seen = HashSet::new();
        let mut beside = true;
        while let Some(line) = documents.read()?.filter(|_| seen.len() < self.limit) {
            let id = id_of(&line, &self.documents)?;
            if !seen.insert(lot(&id)) {
                let place = self.documents.display();
                bail!("{place}:{}: the id \"{id}\" is taken by an earlier document; ids must be unique", line.number);
            }
            if beside {
                let trace = traces.read()?.map(|line| id_of(&line, &self.traces)).transpose()?;
                beside = trace.as_deref() == Some(&id);
            }
        }
        if !beside {
            self.index = Some(LineIndex::of(&self.traces)?);
        }
        Ok(())
    }

    /// Works on the pairs that are `wanted`, several at a time, and gives what comes of each to `take`
    /// in the order of the documents. Returns how many documents there are.
    pub fn each<T: Send>(
        &mut self,
        wanted: impl Fn(usize) -> bool,
        work: impl Fn(usize, Document, Trace) -> Result<T> + Sync,
        mut take: impl FnMut(usize, T) -> Result<()>,
    ) -> Result<usize> {
        let (mut documents, mut traces) = (RawLines::open(&self.documents)?, RawLines::open(&self.traces)?);
        let (mut count, mut ended) = (0, false);
        while !ended {
            let mut block: Vec<(usize, RawLine, RawLine)> = Vec::with_capacity(BLOCK);
            while block.len() < BLOCK {
                let Some(line) = documents.read()?.filter(|_| count < self.limit) else {
                    ended = true;
                    break;
                };
                let trace = if self.index.is_some() { None } else { traces.read()? };
                if wanted(count) {
                    let trace = self.trace_of(&line, trace)?;
                    block.push((count, line, trace));
                }
                count += 1;
            }
            let (of_documents, of_traces) = (&self.documents, &self.traces);
            let one = |(at, line, trace): (usize, RawLine, RawLine)| -> Result<(usize, T)> {
                let document = line.parse::<DocumentLine>(of_documents)?.read(of_documents)?;
                Ok((at, work(at, document, trace.parse(of_traces)?)?))
            };
            let done: Vec<Result<(usize, T)>> = block.into_par_iter().map(one).collect();
            for one in done {
                let (at, made) = one?;
                take(at, made)?;
            }
        }
        Ok(count)
    }

    fn trace_of(&mut self, document: &RawLine, beside: Option<RawLine>) -> Result<RawLine> {
        if let Some(line) = beside {
            return Ok(line);
        }
        let id = id_of(document, &self.documents)?;
        let found = self.index.as_mut().map(|index| index.get(&id)).transpose()?.flatten();
        found.ok_or_else(|| anyhow!("traces.jsonl has no trace of \"{id}\"; run the debate again"))
    }

    /// The pair of one id with its ordinal; the ids that are most like it where there is none.
    pub fn find(&mut self, wanted: &str) -> Result<Result<(usize, Document, Trace), Vec<String>>> {
        let mut documents = RawLines::open(&self.documents)?;
        let (mut count, mut near): (usize, Vec<(f64, String)>) = (0, Vec::new());
        let mut traces = RawLines::open(&self.traces)?;
        while let Some(line) = documents.read()?.filter(|_| count < self.limit) {
            let trace = if self.index.is_some() { None } else { traces.read()? };
            let id = id_of(&line, &self.documents)?;
            if id == wanted {
                let trace = self.trace_of(&line, trace)?.parse(&self.traces)?;
                return Ok(Ok((count, line.parse::<DocumentLine>(&self.documents)?.read(&self.documents)?, trace)));
            }
            near.push((strsim::jaro_winkler(wanted, &id), id));
            near.sort_by(|a, b| b.0.total_cmp(&a.0));
            near.truncate(3);
            count += 1;
        }
        Ok(Err(near.into_iter().map(|(_, id)| id).collect()))
    }
}
