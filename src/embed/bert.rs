//! BERT's encoder (Devlin et al. 2018) on texts of different lengths at once: their rows stand one
//! behind the other, so nothing is padded and nothing has to be masked; attention goes from text to
//! text. Config, init, forward.

use super::config::Shape;
use super::error::EmbedError;
use super::product::{Matrix, product};
use super::tensors::Tensors;
use std::f64::consts::FRAC_1_SQRT_2;

/// A linear layer: `weight: [in, out]`, the transpose of what files hold, so that the kernels need
/// not copy it into the order they read it in.
struct Linear {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// One layer: attention and two linear layers, each with a sum and a norm behind it.
struct Block {
    /// Query, key and value in one.
    qkv: Linear,
    out: Linear,
    attention_norm: Norm,
    up: Linear,
    down: Linear,
    norm: Norm,
}

/// The encoder's weights.
pub(super) struct Bert {
    shape: Shape,
    /// `[vocab, hidden]`.
    words: Vec<f32>,
    /// `[tokens, hidden]`: the vector of a position plus that of the first token type.
    places: Vec<f32>,
    norm: Norm,
    blocks: Vec<Block>,
}

impl Bert {
    /// Takes every weight out of the file.
    pub fn read(shape: Shape, tensors: &mut Tensors) -> Result<Bert, EmbedError> {
        let hidden = shape.hidden;
        let words = tensors.take("embeddings.word_embeddings.weight", &[shape.vocab, hidden])?;
        let mut places = tensors.take("embeddings.position_embeddings.weight", &[shape.positions, hidden])?;
        let types = tensors.take("embeddings.token_type_embeddings.weight", &[shape.types, hidden])?;
        places.truncate(shape.tokens * hidden);
        for row in places.chunks_exact_mut(hidden) {
            row.iter_mut().zip(&types).for_each(|(place, kind)| *place += kind);
        }
        let norm = Norm::read(tensors, "embeddings.LayerNorm", hidden)?;
        let mut blocks = Vec::new();
        for layer in 0..shape.layers {
            blocks.push(Block::read(tensors, &format!("encoder.layer.{layer}"), &shape)?);
        }
        Ok(Bert { shape, words, places, norm, blocks })
    }

    /// The mean of the last layer's states of each text. Every text has 1 to `shape.tokens` ids,
    /// all below `shape.vocab`.
    pub fn means(&self, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
        let hidden = self.shape.hidden;
        let mut rows = Vec::with_capacity(texts.iter().map(Vec::len).sum::<usize>() * hidden);
        for (place, id) in texts.iter().flat_map(|ids| ids.iter().enumerate()) {
            let word = &self.words[*id as usize * hidden..][..hidden];
            rows.extend(word.iter().zip(&self.places[place * hidden..]).map(|(word, place)| word + place));
        }
        self.norm.apply(&mut rows, self.shape.epsilon);
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        for block in &self.blocks {
            block.forward(&self.shape, &mut rows, &lengths);
        }
        let mut rest = &rows[..];
        let mean = |length: &usize| {
            let (own, others) = rest.split_at(length * hidden);
            rest = others;
            let mut sum = vec![0.0; hidden];
            for row in own.chunks_exact(hidden) {
                sum.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
            }
            sum.iter_mut().for_each(|sum| *sum /= *length as f32);
            sum
        };
        lengths.iter().map(mean).collect()
    }
}

impl Block {
    fn read(tensors: &mut Tensors, name: &str, shape: &Shape) -> Result<Block, EmbedError> {
        let Shape { hidden, inner, .. } = *shape;
        let parts = ["query", "key", "value"].map(|part| format!("{name}.attention.self.{part}"));
        Ok(Block {
            qkv: Linear::read(tensors, &parts, hidden, hidden)?,
            out: Linear::read(tensors, &[format!("{name}.attention.output.dense")], hidden, hidden)?,
            attention_norm: Norm::read(tensors, &format!("{name}.attention.output.LayerNorm"), hidden)?,
            up: Linear::read(tensors, &[format!("{name}.intermediate.dense")], hidden, inner)?,
            down: Linear::read(tensors, &[format!("{name}.output.dense")], inner, hidden)?,
            norm: Norm::read(tensors, &format!("{name}.output.LayerNorm"), hidden)?,
        })
    }

    /// # Shapes
    /// `rows: [sum of lengths, hidden]`
    fn forward(&self, shape: &Shape, rows: &mut [f32], lengths: &[usize]) {
        let qkv = self.qkv.forward(rows, shape.hidden);
        let mut heads = vec![0.0; rows.len()];
        let mut from = 0;
        for length in lengths {
            let own = from * shape.hidden..(from + length) * shape.hidden;
            let all = 3 * from * shape.hidden..3 * (from + length) * shape.hidden;
            attend(shape, &mut heads[own], &qkv[all], *length);
            from += length;
        }
        drop(qkv);
        let attended = self.out.forward(&heads, shape.hidden);
        add(rows, &attended);
        self.attention_norm.apply(rows, shape.epsilon);
        let mut wide = self.up.forward(rows, shape.hidden);
        pulp::Arch::new().dispatch(Gelu(&mut wide));
        let narrow = self.down.forward(&wide, shape.inner);
        add(rows, &narrow);
        self.norm.apply(rows, shape.epsilon);
    }
}

/// Attention of one text, head by head.
///
/// # Shapes
/// `out: [length, hidden]`, `qkv: [length, 3·hidden]`
fn attend(shape: &Shape, out: &mut [f32], qkv: &[f32], length: usize) {
    let (hidden, columns) = (shape.hidden, shape.hidden / shape.heads);
    let scale = 1.0 / (columns as f32).sqrt();
    let mut scores = vec![0.0; length * length];
    for head in 0..shape.heads {
        let part = |which: usize| Matrix {
            numbers: &qkv[which * hidden + head * columns..],
            rows: length,
            columns,
            stride: 3 * hidden,
        };
        product(&mut scores, length, scale, part(0), part(1), true);
        for row in scores.chunks_exact_mut(length) {
            let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row.iter_mut().for_each(|score| *score = (*score - most).exp());
            let sum: f32 = row.iter().sum();
            row.iter_mut().for_each(|share| *share /= sum);
        }
        let shares = Matrix { numbers: &scores, rows: length, columns: length, stride: length };
        product(&mut out[head * columns..], hidden, 1.0, shares, part(2), false);
    }
}

fn add(rows: &mut [f32], more: &[f32]) {
    rows.iter_mut().zip(more).for_each(|(row, more)| *row += more);
}

impl Linear {
    /// Reads layers with the same input side by side: `[out, in]` in the file, `[in, all outs]` here.
    fn read(tensors: &mut Tensors, names: &[String], inputs: usize, outputs: usize) -> Result<Linear, EmbedError> {
        let all = outputs * names.len();
        let (mut weight, mut bias) = (vec![0.0; inputs * all], Vec::with_capacity(all));
        for (part, name) in names.iter().enumerate() {
            let rows = tensors.take(&format!("{name}.weight"), &[outputs, inputs])?;
            for (output, row) in rows.chunks_exact(inputs).enumerate() {
                for (input, number) in row.iter().enumerate() {
                    weight[input * all + part * outputs + output] = *number;
                }
            }
            bias.extend(tensors.take(&format!("{name}.bias"), &[outputs])?);
        }
        Ok(Linear { weight, bias })
    }

    /// # Shapes
    /// `rows: [length, inputs]` to `[length, outputs]`
    fn forward(&self, rows: &[f32], inputs: usize) -> Vec<f32> {
        let (length, outputs) = (rows.len() / inputs, self.bias.len());
        let mut out = vec![0.0; length * outputs];
        let left = Matrix { numbers: rows, rows: length, columns: inputs, stride: inputs };
        let right = Matrix { numbers: &self.weight, rows: inputs, columns: outputs, stride: outputs };
        product(&mut out, outputs, 1.0, left, right, false);
        out.chunks_exact_mut(outputs).for_each(|row| add(row, &self.bias));
        out
    }
}

impl Norm {
    fn read(tensors: &mut Tensors, name: &str, size: usize) -> Result<Norm, EmbedError> {
        let weight = tensors.take(&format!("{name}.weight"), &[size])?;
        Ok(Norm { weight, bias: tensors.take(&format!("{name}.bias"), &[size])? })
    }

    /// LayerNorm of each row, in place.
    fn apply(&self, rows: &mut [f32], epsilon: f32) {
        let size = self.weight.len();
        for row in rows.chunks_exact_mut(size) {
            let mean = row.iter().sum::<f32>() / size as f32;
            let variance = row.iter().map(|number| (number - mean) * (number - mean)).sum::<f32>() / size as f32;
            let scale = 1.0 / (variance + epsilon).sqrt();
            for ((number, weight), bias) in row.iter_mut().zip(&self.weight).zip(&self.bias) {
                *number = (*number - mean) * scale * weight + bias;
            }
        }
    }
}

/// GELU with the error function, in place: the loop is compiled for each width of vectors.
struct Gelu<'a>(&'a mut [f32]);

impl pulp::NullaryFnOnce for Gelu<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for number in self.0 {
            let x = f64::from(*number);
            *number = (0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))) as f32;
        }
    }
}

/// The error function, within 3e-7: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.28.
#[inline(always)]
fn erf(x: f64) -> f64 {
    let z = x.abs();
    let inner = 0.000_276_567_2 + z * 0.000_043_063_8;
    let inner = 0.009_270_527_2 + z * (0.000_152_014_3 + z * inner);
    let sum = 1.0 + z * (0.070_523_078_4 + z * (0.042_282_012_3 + z * inner));
    let square = sum * sum;
    let fourth = square * square;
    let eighth = fourth * fourth;
    (1.0 - 1.0 / (eighth * eighth)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_keeps_its_published_bound() {
        // Python 3.11, math.erf.
        for (x, expected) in [
            (0.0, 0.0),
            (1e-3, 0.001_128_378_790_969_236_4),
            (0.1, 0.112_462_916_018_284_89),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (4.0, 0.999_999_984_582_742_1),
            (40.0, 1.0),
        ] {
            assert!((erf(x) - expected).abs() < 3e-7, "{x}");
            assert_eq!(erf(-x), -erf(x));
        }
        assert!(erf(f64::INFINITY) == 1.0 && erf(f64::NEG_INFINITY) == -1.0);
    }
}
