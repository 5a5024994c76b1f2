//! Keys and values of what was read already: once for a prefix that all rows share, and per row.

use super::attention;
use super::model::Model;
use burn::tensor::{Tensor, TensorData};

/// Slots are added this many at a time; each growth copies the buffers once.
const GROWTH: usize = 64;

/// What all rows begin with.
#[derive(Clone)]
pub(crate) struct Prefix {
    /// One pair per layer, `[kv, 1, prefix, head_dim]`.
    layers: Vec<(Tensor<4>, Tensor<4>)>,
    tokens: usize,
}

impl Prefix {
    /// Reads the prefix; an empty one costs nothing.
    pub fn read(model: &Model, tokens: &[u32]) -> Prefix {
        let mut layers = Vec::new();
        if tokens.is_empty() {
            return Prefix { layers, tokens: 0 };
        }
        let heads = model.heads();
        let mask = attention::causal(heads.group, tokens.len(), model.device());
        let positions: Vec<usize> = (0..tokens.len()).collect();
        model.run(tokens, &positions, None, |_, q, k, v| {
            let pair = (heads.keys(k, 1, tokens.len()), heads.keys(v, 1, tokens.len()));
            layers.push(pair.clone());
            attention::alone(heads, q, pair.0, pair.1, mask.clone())
        });
        Prefix { layers, tokens: tokens.len() }
    }
}

/// Rows that grow by one token each step. All rows write to the same slot; a row that was shorter
/// at the start has slots that nobody sees.
pub(crate) struct Rows {
    prefix: Prefix,
    /// One pair per layer, `[kv, rows, slots, head_dim]`; `None` before the first reading.
    layers: Vec<Option<(Tensor<4>, Tensor<4>)>>,
    /// Slots written.
    used: usize,
    /// Which slots hold a token, per row.
    seen: Vec<Vec<bool>>,
    /// The position of the next token, per row.
    next: Vec<usize>,
}

impl Rows {
    /// Reads what follows the prefix in each row (at least one token each); returns the hidden
    /// state of each row's last token.
    ///
    /// # Shapes
    /// → `[rows, d_model]`
    pub fn read(model: &Model, prefix: &Prefix, suffixes: &[&[u32]]) -> (Rows, Tensor<2>) {
        let width = suffixes.iter().map(|row| row.len()).max().unwrap_or(0);
        let padded: Vec<u32> = suffixes.iter().flat_map(|row| pad(row, width)).collect();
        let mut rows = Rows {
            prefix: prefix.clone(),
            layers: vec![None; model.config().layers],
            used: 0,
            seen: suffixes.iter().map(|row| (0..width).map(|slot| slot < row.len()).collect()).collect(),
            next: suffixes.iter().map(|row| prefix.tokens + row.len()).collect(),
        };
        let positions: Vec<usize> = suffixes.iter().flat_map(|_| prefix.tokens..prefix.tokens + width).collect();
        let mask = attention::causal(model.heads().group, width, model.device());
        let hidden = rows.forward(model, &padded, &positions, width, mask);
        let last = suffixes.iter().enumerate().map(|(row, suffix)| (row * width + suffix.len() - 1) as i64);
        (rows, hidden.select(0, super::model::indices(last, model.device())))
    }

    /// Appends one token to every row.
    ///
    /// # Shapes
    /// tokens `[rows]` → `[rows, d_model]`
    pub fn step(&mut self, model: &Model, tokens: &[u32]) -> Tensor<2> {
        let positions = self.next.clone();
        self.next.iter_mut().for_each(|next| *next += 1);
        self.seen.iter_mut().for_each(|seen| seen.push(true));
        let mask = attention::slots(&self.seen, model.device());
        self.forward(model, tokens, &positions, 1, mask)
    }

    /// Drops all rows but these, in this order.
    pub fn keep(&mut self, model: &Model, rows: &[usize]) {
        let at = super::model::indices(rows.iter().map(|row| *row as i64), model.device());
        for (k, v) in self.layers.iter_mut().flatten() {
            *k = k.clone().select(1, at.clone());
            *v = v.clone().select(1, at.clone());
        }
        self.seen = rows.iter().map(|row| self.seen[*row].clone()).collect();
        self.next = rows.iter().map(|row| self.next[*row]).collect();
    }

    fn forward(
        &mut self,
        model: &Model,
        tokens: &[u32],
        positions: &[usize],
        width: usize,
        mask: Tensor<4>,
    ) -> Tensor<2> {
        let (heads, rows) = (model.heads(), self.seen.len());
        let (start, end) = (self.used, self.used + width);
        self.used = end;
        let (layers, prefix) = (&mut self.layers, &self.prefix.layers);
        model.run(tokens, positions, None, |layer, q, k, v| {
            let (k, v) = (heads.keys(k, rows, width), heads.keys(v, rows, width));
            let own = store(&mut layers[layer], k, v, start, end);
            match prefix.get(layer) {
                Some(prefix) => attention::behind_prefix(heads, q, prefix.clone(), own, mask.clone()),
                None => attention::alone(heads, q, own.0, own.1, mask.clone()),
            }
        })
    }
}

/// A row, filled up with token 0 behind its end, where causality hides it.
pub(crate) fn pad(row: &[u32], width: usize) -> impl Iterator<Item = u32> {
    row.iter().copied().chain(std::iter::repeat(0)).take(width)
}

/// Writes slots `start..end` and returns a view of everything written so far.
fn store(
    slots: &mut Option<(Tensor<4>, Tensor<4>)>,
    k: Tensor<4>,
    v: Tensor<4>,
    start: usize,
    end: usize,
) -> (Tensor<4>, Tensor<4>) {
    let grown = |old: Option<Tensor<4>>, new: Tensor<4>| {
        let [kv, rows, width, dim] = new.dims();
        let have = old.as_ref().map_or(0, |old| old.dims()[2]);
        let fresh = |slots: usize| Tensor::zeros([kv, rows, slots, dim], &new.device());
        let buffer = match old {
            Some(old) if have >= end => old,
            Some(old) => Tensor::cat(vec![old, fresh(width + GROWTH)], 2),
            None => fresh(end + GROWTH),
        };
        buffer.slice_assign([0..kv, 0..rows, start..end, 0..dim], new)
    };
    let (old_k, old_v) = slots.take().map_or((None, None), |(k, v)| (Some(k), Some(v)));
    let (k, v) = (grown(old_k, k), grown(old_v, v));
    let seen = |x: &Tensor<4>| x.clone().narrow(2, 0, end);
    let view = (seen(&k), seen(&v));
    *slots = Some((k, v));
    view
}

/// Numbers of a matrix, row by row.
pub(crate) fn to_rows(x: Tensor<2>) -> Result<Vec<Vec<f32>>, super::error::StudentError> {
    let columns = x.dims()[1];
    let data: TensorData = x.try_into_data().map_err(|e| super::error::StudentError::Compute(e.to_string()))?;
    let values = data.try_into_vec::<f32>().map_err(|e| super::error::StudentError::Compute(format!("{e:?}")))?;
    Ok(values.chunks(columns).map(<[f32]>::to_vec).collect())
}
