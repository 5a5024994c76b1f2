//! Inference on the CPU: any number of texts at once, each as far as it has come. One pass appends
//! some tokens to every text, whole prompts beside single new tokens, so that every matrix product
//! is over all of them; only attention knows which text a token belongs to. What texts begin with
//! in common is held once, and all that stand on it ask it in one product per key head (Juravsky et
//! al. 2024, arXiv:2402.05099); the two parts are joined by the logarithms of their sums.

use super::buffer::Buffer;
use super::product::{Matrix, Onto, Target, product, product_here};
use super::tape::{Frozen, floats};
use super::vector::{norm, softmax, swiglu, turn};
use crate::student::attention::Heads;
use crate::student::error::{Result, StudentError};
use crate::student::model::Model;
use crate::student::rope::Rope;
use burn::backend::flex::FlexTensor;
use rayon::prelude::*;
use std::sync::Arc;

/// Queries that one task answers.
const QUERIES: usize = 64;

/// Keys and values of tokens that were read.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Of every layer, of every key head.
    layers: Vec<Vec<Pair>>,
    tokens: usize,
}

/// Of one key head, `[tokens, head_dim]` each.
#[derive(Debug, Default)]
struct Pair {
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// A text in progress: perhaps the beginning of a memory that others share, then its own.
#[derive(Debug)]
pub(crate) struct Lane {
    shared: Option<(Arc<Memory>, usize)>,
    own: Memory,
}

impl Lane {
    /// Tokens read so far.
    pub fn tokens(&self) -> usize {
        self.behind() + self.own.tokens
    }

    fn behind(&self) -> usize {
        self.shared.as_ref().map_or(0, |(_, tokens)| *tokens)
    }

    /// Forgets the last tokens; no more than were appended to this lane.
    pub fn forget(&mut self, tokens: usize) {
        let left = self.own.tokens.saturating_sub(tokens);
        for pair in self.own.layers.iter_mut().flatten() {
            let numbers = pair.keys.len() / self.own.tokens.max(1) * left;
            pair.keys.truncate(numbers);
            pair.values.truncate(numbers);
        }
        self.own.tokens = left;
    }

    /// Makes what this lane has read a memory that others can stand on.
    pub fn into_memory(self) -> Option<Memory> {
        self.shared.is_none().then_some(self.own)
    }
}

/// What one pass appends to a lane.
pub(crate) struct Piece<'a> {
    /// The text.
    pub lane: &'a mut Lane,
    /// Its next tokens.
    pub tokens: &'a [u32],
    /// After how many of these, counted from the last, the scores of the next token are wanted.
    pub scored: usize,
}

/// The weights, as slices.
pub(crate) struct Decoder {
    heads: Heads,
    blocks: Vec<Frozen>,
    embed: FlexTensor,
    norm: FlexTensor,
    head: FlexTensor,
    rope: Rope,
    eps: f32,
    d_model: usize,
    vocab: usize,
}

/// Where the tokens of a piece stand in the pass.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    length: usize,
}

/// Pieces that stand on the same part of the same memory.
struct Crowd {
    memory: Arc<Memory>,
    behind: usize,
    /// Tokens of the pass.
    tokens: Vec<usize>,
}

/// What some queries found, `[queries, head_dim]`, and the logarithms of their sums.
struct Found {
    out: Vec<f32>,
    log_sums: Vec<f32>,
}

impl Decoder {
    /// The decoder of a model in f32 on burn's CPU backend; `None` for any other. Weights are
    /// shared with the model; adapters count.
    pub fn of(model: &Model) -> Result<Option<Decoder>> {
        if !super::runs(model) {
            return Ok(None);
        }
        let taken = |x: Option<FlexTensor>| x.ok_or_else(|| StudentError::Compute("a weight is not f32".into()));
        let heads = model.heads();
        Ok(Some(Decoder {
            heads,
            blocks: model.blocks.iter().map(|block| Frozen::of(block, heads)).collect::<Result<_>>()?,
            embed: taken(floats(model.embed.clone()))?,
            norm: taken(floats(model.norm.weight.clone()))?,
            head: taken(floats(model.head.clone()))?,
            rope: model.rope.clone(),
            eps: model.norm.eps as f32,
            d_model: model.config.d_model,
            vocab: model.config.vocab,
        }))
    }

    /// Scores per position.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// A text that begins with the first tokens of a memory, or with nothing.
    pub fn lane(&self, shared: Option<(Arc<Memory>, usize)>) -> Lane {
        let layers = self.blocks.iter().map(|_| (0..self.heads.kv).map(|_| Pair::default()).collect()).collect();
        let shared = shared.filter(|(_, tokens)| *tokens > 0);
        Lane { shared, own: Memory { layers, tokens: 0 } }
    }

    /// Appends every piece to its lane and returns the scores that were asked for, piece by piece.
    ///
    /// # Shapes
    /// → `[Σ scored, vocab]`
    pub fn forward(&self, pieces: &mut [Piece]) -> Buffer {
        let (heads, d_model) = (self.heads, self.d_model);
        let places = places(pieces);
        let tokens: usize = places.iter().map(|place| place.length).sum();
        let positions: Vec<usize> =
            pieces.iter().flat_map(|p| p.lane.tokens()..p.lane.tokens() + p.tokens.len()).collect();
        let turns = self.rope.turns(&positions);
        let crowds = crowds(pieces, &places);

        let mut x = Buffer::new(tokens * d_model);
        let embed = slice(&self.embed);
        for (x, id) in x.chunks_exact_mut(d_model).zip(pieces.iter().flat_map(|piece| piece.tokens)) {
            let from = (*id as usize).min(embed.len() / d_model - 1) * d_model;
            x.copy_from_slice(&embed[from..from + d_model]);
        }
        let mut normed = Buffer::new(tokens * d_model);
        let mut inverse = Buffer::new(tokens);
        for (layer, frozen) in self.blocks.iter().enumerate() {
            let [q_layer, k_layer, v_layer, o_layer, gate_layer, up_layer, down_layer] = frozen.linears();

            // ── attention ──
            norm(&x, frozen.input_norm(), frozen.eps, &mut normed, &mut inverse);
            let mut q = Buffer::new(tokens * heads.query_width());
            let mut k = Buffer::new(tokens * heads.key_width());
            let mut v = Buffer::new(tokens * heads.key_width());
            q_layer.forward(&normed, &mut q, Onto::Nothing);
            k_layer.forward(&normed, &mut k, Onto::Nothing);
            v_layer.forward(&normed, &mut v, Onto::Nothing);
            if let Some([q_weight, k_weight]) = frozen.head_norms() {
                for (x, weight) in [(&mut q, q_weight), (&mut k, k_weight)] {
                    let (raw, mut inverse) = (Buffer::of(x), Buffer::new(x.len() / heads.dim));
                    norm(&raw, weight, frozen.eps, x, &mut inverse);
                }
            }
            turn(&mut q, heads.kv * heads.group, &turns, false);
            turn(&mut k, heads.kv, &turns, false);
            self.remember(pieces, &places, layer, &k, &v);
            let mut attended = Buffer::new(tokens * heads.query_width());
            self.attend(pieces, &places, &crowds, layer, &q, &mut attended);
            o_layer.forward(&attended, &mut x, Onto::Sum);

            // ── SwiGLU ──
            norm(&x, frozen.mlp_norm(), frozen.eps, &mut normed, &mut inverse);
            let mut gate = Buffer::new(tokens * gate_layer.outputs);
            let mut up = Buffer::new(tokens * up_layer.outputs);
            gate_layer.forward(&normed, &mut gate, Onto::Nothing);
            up_layer.forward(&normed, &mut up, Onto::Nothing);
            let mut joined = Buffer::new(gate.len());
            swiglu(&gate, &up, &mut joined);
            down_layer.forward(&joined, &mut x, Onto::Sum);
        }
        for piece in pieces.iter_mut() {
            piece.lane.own.tokens += piece.tokens.len();
        }
        self.scores(pieces, &places, &x)
    }

    fn scores(&self, pieces: &[Piece], places: &[Place], x: &[f32]) -> Buffer {
        let wanted: Vec<usize> = pieces
            .iter()
            .zip(places)
            .flat_map(|(piece, place)| {
                place.start + place.length - piece.scored.min(place.length)..place.start + place.length
            })
            .collect();
        let mut last = Buffer::new(wanted.len() * self.d_model);
        for (row, from) in last.chunks_exact_mut(self.d_model).zip(&wanted) {
            row.copy_from_slice(&x[from * self.d_model..(from + 1) * self.d_model]);
        }
        let (mut normed, mut inverse) = (Buffer::new(last.len()), Buffer::new(wanted.len()));
        norm(&last, slice(&self.norm), self.eps, &mut normed, &mut inverse);
        let mut scores = Buffer::new(wanted.len() * self.vocab);
        let (left, right) = (
            Matrix::new(&normed, wanted.len(), self.d_model),
            Matrix::new(slice(&self.head), self.d_model, self.vocab),
        );
        product(Target::new(&mut scores, wanted.len(), self.vocab), Onto::Nothing, 1.0, left, right);
        scores
    }

    /// Appends the keys and values of a layer to the lanes.
    fn remember(&self, pieces: &mut [Piece], places: &[Place], layer: usize, k: &[f32], v: &[f32]) {
        let (dim, width) = (self.heads.dim, self.heads.key_width());
        pieces.par_iter_mut().zip(places).for_each(|(piece, place)| {
            for (head, pair) in piece.lane.own.layers[layer].iter_mut().enumerate() {
                for (into, from) in [(&mut pair.keys, k), (&mut pair.values, v)] {
                    let room = (place.length * dim).max(GROWTH * dim);
                    if into.capacity() - into.len() < place.length * dim {
                        into.reserve_exact(room);
                    }
                    for token in place.start..place.start + place.length {
                        let at = token * width + head * dim;
                        into.extend_from_slice(&from[at..at + dim]);
                    }
                }
            }
        });
    }

    /// Every query sees what its lane stands on, and its lane up to itself.
    fn attend(&self, pieces: &[Piece], places: &[Place], crowds: &Crowds, layer: usize, q: &[f32], out: &mut [f32]) {
        let Heads { kv, group, dim } = self.heads;
        let width = self.heads.query_width();
        // ── what is shared: all queries of a crowd and a key head in one product ──
        let far_tasks: Vec<(&Crowd, usize, &[usize])> = crowds
            .all
            .iter()
            .flat_map(|crowd| {
                crowd.tokens.chunks(QUERIES).flat_map(move |part| (0..kv).map(move |head| (crowd, head, part)))
            })
            .collect();
        let far: Vec<Found> = far_tasks
            .par_iter()
            .map(|(crowd, head, part)| {
                let queries = self.gathered(q, part.iter().copied(), *head);
                let pair = &crowd.memory.layers[layer][*head];
                self.ask(&queries, pair, |_| crowd.behind)
            })
            .collect();
        // ── what is a lane's own ──
        let near_tasks: Vec<(usize, usize, usize)> = places
            .iter()
            .enumerate()
            .flat_map(|(at, place)| {
                (0..place.length).step_by(QUERIES).flat_map(move |from| (0..kv).map(move |head| (at, from, head)))
            })
            .collect();
        let near: Vec<Found> = near_tasks
            .par_iter()
            .map(|(at, from, head)| {
                let (place, lane) = (places[*at], &pieces[*at].lane);
                let count = QUERIES.min(place.length - from);
                let queries = self.gathered(q, place.start + from..place.start + from + count, *head);
                // The lane's count of tokens is raised after the last layer.
                let seen = lane.own.tokens + from + 1;
                let mut found = self.ask(&queries, &lane.own.layers[layer][*head], |query| seen + query);
                if let Some((crowd, offset)) = crowds.of_piece[*at] {
                    for query in 0..count {
                        let task = crowds.first_task[crowd] * kv + (offset + from + query) / QUERIES * kv + head;
                        let row = (offset + from + query) % QUERIES;
                        for g in 0..group {
                            join(&mut found, query * group + g, &far[task], row * group + g, dim);
                        }
                    }
                }
                found
            })
            .collect();
        for ((at, from, head), found) in near_tasks.iter().zip(&near) {
            for (row, numbers) in found.out.chunks_exact(dim).enumerate() {
                let (token, g) = (places[*at].start + from + row / group, row % group);
                let to = token * width + (head * group + g) * dim;
                out[to..to + dim].copy_from_slice(numbers);
            }
        }
    }

    /// The queries that use one key head, token by token, `[tokens·group, head_dim]`.
    fn gathered(&self, q: &[f32], tokens: impl Iterator<Item = usize>, head: usize) -> Vec<f32> {
        let (width, span) = (self.heads.query_width(), self.heads.group * self.heads.dim);
        tokens.flat_map(|token| &q[token * width + head * span..][..span]).copied().collect()
    }

    /// Answers queries from the keys and values of one head; query `i` sees the first `seen(i)`.
    fn ask(&self, queries: &[f32], pair: &Pair, seen: impl Fn(usize) -> usize) -> Found {
        let Heads { group, dim, .. } = self.heads;
        let rows = queries.len() / dim;
        let columns = seen(rows / group - 1);
        let mut scores = vec![0f32; rows * columns];
        let keys = Matrix::new(&pair.keys[..columns * dim], columns, dim).t();
        let factor = 1.0 / (dim as f32).sqrt();
        product_here(
            Target::new(&mut scores, rows, columns),
            Onto::Nothing,
            factor,
            Matrix::new(queries, rows, dim),
            keys,
        );
        let log_sums = scores
            .chunks_exact_mut(columns)
            .enumerate()
            .map(|(row, scores)| {
                let (seen, unseen) = scores.split_at_mut(seen(row / group));
                unseen.fill(0.0);
                softmax(seen)
            })
            .collect();
        let mut out = vec![0f32; rows * dim];
        let values = Matrix::new(&pair.values[..columns * dim], columns, dim);
        let shares = Matrix::new(&scores, rows, columns);
        product_here(Target::new(&mut out, rows, dim), Onto::Nothing, 1.0, shares, values);
        Found { out, log_sums }
    }
}

/// Slots that a lane grows by at least.
const GROWTH: usize = 32;

/// Joins what a query found far away to what it found near.
fn join(near: &mut Found, at: usize, far: &Found, from: usize, dim: usize) {
    let (a, b) = (near.log_sums[at], far.log_sums[from]);
    let share = 1.0 / (1.0 + (b - a).exp());
    let numbers = near.out[at * dim..(at + 1) * dim].iter_mut().zip(&far.out[from * dim..(from + 1) * dim]);
    numbers.for_each(|(near, far)| *near = share * *near + (1.0 - share) * far);
}

/// Who stands on what.
struct Crowds {
    all: Vec<Crowd>,
    /// Of every piece: its crowd, and how many tokens of the crowd come before its own.
    of_piece: Vec<Option<(usize, usize)>>,
    /// Of every crowd: how many parts of [`QUERIES`] tokens the crowds before it have.
    first_task: Vec<usize>,
}

fn crowds(pieces: &[Piece], places: &[Place]) -> Crowds {
    let mut crowds = Crowds { all: Vec::new(), of_piece: Vec::new(), first_task: Vec::new() };
    for (piece, place) in pieces.iter().zip(places) {
        let Some((memory, behind)) = &piece.lane.shared else {
            crowds.of_piece.push(None);
            continue;
        };
        let same = |crowd: &Crowd| Arc::ptr_eq(&crowd.memory, memory) && crowd.behind == *behind;
        let at = crowds.all.iter().position(same).unwrap_or_else(|| {
            crowds.all.push(Crowd { memory: memory.clone(), behind: *behind, tokens: Vec::new() });
            crowds.all.len() - 1
        });
        let crowd = &mut crowds.all[at];
        crowds.of_piece.push(Some((at, crowd.tokens.len())));
        crowd.tokens.extend(place.start..place.start + place.length);
    }
    let mut before = 0;
    for crowd in &crowds.all {
        crowds.first_task.push(before);
        before += crowd.tokens.len().div_ceil(QUERIES);
    }
    crowds
}

fn places(pieces: &[Piece]) -> Vec<Place> {
    let next = |start: &mut usize, piece: &Piece| {
        let place = Place { start: *start, length: piece.tokens.len() };
        *start += place.length;
        Some(place)
    };
    pieces.iter().scan(0, next).collect()
}

fn slice(x: &FlexTensor) -> &[f32] {
    x.as_slice().expect("`floats` lets only contiguous f32 pass")
}
