//! The causal language model: embedding, blocks, head; frozen weights with adapters on top.
//!
//! One forward serves training and inference: tokens are one flat list, so that every norm and
//! every linear layer is one product over all of them, and only attention knows who follows whom.

use super::attention::{self, Heads};
use super::block::{Attention, Block, Mlp, Norm};
use super::cache::pad;
use super::config::ModelConfig;
use super::error::{Result, StudentError};
use super::fused::{self, Layout};
use super::linear::Linear;
use super::lora::{Adapter, LoraConfig, TARGETS, materialised};
use super::rope::Rope;
use super::weights::Weights;
use burn::tensor::{Device, GradientCheckpointingStrategy, Int, Tensor, TensorData};
use rand_chacha::ChaCha12Rng;
use std::sync::Arc;

/// A loaded model. A clone shares the weights.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) config: ModelConfig,
    pub(crate) device: Device,
    pub(crate) embed: Tensor<2>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) norm: Norm,
    /// `[d_model, vocab]`
    pub(crate) head: Tensor<2>,
    /// `[vocab, d_model]`, the same numbers; the embedding where the two are tied
    pub(crate) head_rows: Tensor<2>,
    pub(crate) rope: Rope,
    pub(crate) lora: Option<LoraConfig>,
    /// Whether training keeps only the inputs of blocks.
    pub(crate) recompute: bool,
    /// Whether blocks are composed of burn's operations on the CPU too.
    pub(crate) composed: bool,
}

impl Model {
    /// Reads every weight onto the device; also names the stored tensors that were not needed.
    pub fn load(mut weights: Weights, device: &Device) -> Result<(Model, Vec<String>)> {
        let config = weights.config().clone();
        let device = device.clone().inner();
        let mut loader = Loader { weights: &mut weights, config: &config, device: &device };
        let embed = loader.matrix("model.embed_tokens", config.vocab, config.d_model)?;
        let blocks = (0..config.layers).map(|layer| loader.block(layer)).collect::<Result<_>>()?;
        let norm = loader.norm("model.norm", config.d_model)?;
        let head_rows = match config.tied {
            true => embed.clone(),
            false => loader.matrix("lm_head", config.vocab, config.d_model)?,
        };
        let head = materialised(head_rows.clone().transpose(), &device);
        let rope = Rope::new(&config, &device);
        let unused = weights.finish()?;
        let (lora, recompute, composed) = (None, false, false);
        Ok((Model { config, device, embed, blocks, norm, head, head_rows, rope, lora, recompute, composed }, unused))
    }

    /// The model's shape.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Where the model lives, without autodiff.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How the model is adapted, where it is.
    pub fn lora(&self) -> Option<&LoraConfig> {
        self.lora.as_ref()
    }

    /// Puts fresh adapters on the model; the same seed gives the same bits on every machine.
    pub fn adapted(mut self, config: &LoraConfig, seed: u64) -> Result<Model> {
        config.check_for(self.blocks.len())?;
        let device = self.device.clone();
        for (layer, block) in self.blocks.iter_mut().enumerate() {
            for place in 0..TARGETS.len() {
                let linear = block.linear_mut(place);
                let ordinal = (layer * TARGETS.len() + place) as u64;
                let new = || Adapter::new(config, linear.weight.dims(), seed, ordinal, &device);
                linear.adapter = config.adapts(&linear_name(layer, place)).then(new);
            }
        }
        self.lora = Some(config.clone());
        Ok(self)
    }

    /// The adapters' factors, A before B, layer by layer, named as PEFT names them. A is
    /// `[in, rank]` and B `[rank, out]`, the transpose of what PEFT stores.
    pub fn adapters(&self) -> Vec<(String, Tensor<2>)> {
        let mut all = Vec::new();
        for (layer, block) in self.blocks.iter().enumerate() {
            for place in 0..TARGETS.len() {
                if let Some(adapter) = &block.linear(place).adapter {
                    let name = linear_name(layer, place);
                    all.push((format!("{name}.lora_A.weight"), adapter.a.clone()));
                    all.push((format!("{name}.lora_B.weight"), adapter.b.clone()));
                }
            }
        }
        all
    }

    /// Name, dimensions and strength of every factor, in the order of [`Model::adapters`].
    pub(crate) fn adapter_forms(&self) -> Vec<(String, [usize; 2], f64)> {
        let linears = self.blocks.iter().flat_map(|block| (0..TARGETS.len()).map(|place| block.linear(place)));
        let scales = linears.filter_map(|linear| linear.adapter.as_ref()).flat_map(|adapter| [adapter.scale; 2]);
        self.adapters().into_iter().zip(scales).map(|((name, factor), scale)| (name, factor.dims(), scale)).collect()
    }

    /// Puts other numbers into the adapters, in the order of [`Model::adapters`].
    pub fn with_adapters(mut self, factors: Vec<Tensor<2>>) -> Result<Model> {
        let expected = self.adapters();
        if expected.len() != factors.len() {
            let cause = format!("expected {} factors, found {}", expected.len(), factors.len());
            return Err(StudentError::Adapter(cause));
        }
        for ((name, old), new) in expected.iter().zip(&factors) {
            if old.dims() != new.dims() {
                let cause = format!("{name}: expected dimensions {:?}, found {:?}", old.dims(), new.dims());
                return Err(StudentError::Adapter(cause));
            }
        }
        let mut factors = factors.into_iter();
        for block in &mut self.blocks {
            for place in 0..TARGETS.len() {
                if let Some(adapter) = &mut block.linear_mut(place).adapter
                    && let (Some(a), Some(b)) = (factors.next(), factors.next())
                {
                    (adapter.a, adapter.b) = (a, b);
                }
            }
        }
        Ok(self)
    }

    /// Chooses what training keeps between forward and backward: everything dear, or less. On a CPU
    /// that is only the input of each block, and a second forward; on other devices all but what
    /// elementwise passes give, which are computed again.
    pub fn recomputing(mut self, recompute: bool) -> Model {
        self.recompute = recompute;
        self
    }

    /// The model as devices other than the CPU compute it: blocks and loss composed of burn's own
    /// operations. Slower on a CPU; there to compare the two.
    pub fn composed(mut self) -> Model {
        self.composed = true;
        self
    }

    /// The model with the products of its blocks in bf16: half the memory for their weights. Norms,
    /// attention's softmax, adapters, the head and the loss stay f32. On burn's CPU backend this is
    /// slower, as it computes such products in f32 and rounds.
    pub fn in_bf16(mut self) -> Model {
        for block in &mut self.blocks {
            for place in 0..TARGETS.len() {
                let rounded = block.linear(place).in_bf16();
                *block.linear_mut(place) = rounded;
            }
        }
        self
    }

    /// The model to train: the same weights, adapters as leaves that keep their gradients.
    pub fn tracked(&self) -> Model {
        // Where blocks are composed, burn decides what is dear: it computes elementwise passes again.
        let strategy = match self.recompute && !fused::runs(self) {
            true => GradientCheckpointingStrategy::Balanced,
            false => GradientCheckpointingStrategy::Disabled,
        };
        self.map_adapters(|factor| {
            factor.inner().autodiff().with_gradient_checkpointing_strategy(strategy).require_grad()
        })
    }

    /// The model to ask: the same weights and adapters, nothing recorded.
    pub fn untracked(&self) -> Model {
        self.map_adapters(Tensor::inner)
    }

    fn map_adapters(&self, change: impl Fn(Tensor<2>) -> Tensor<2>) -> Model {
        let mut model = self.clone();
        for block in &mut model.blocks {
            for place in 0..TARGETS.len() {
                if let Some(adapter) = &mut block.linear_mut(place).adapter {
                    adapter.a = change(adapter.a.clone());
                    adapter.b = change(adapter.b.clone());
                }
            }
        }
        model
    }

    /// The model with its adapters added into the weights, in f32; needs memory for a second copy
    /// of the adapted layers, and saves three small products per layer and token.
    pub fn merged(&self) -> Model {
        // What training left idle is needed for the copy.
        fused::release();
        let mut model = self.untracked();
        for block in &mut model.blocks {
            for place in 0..TARGETS.len() {
                let merged = block.linear(place).merged();
                *block.linear_mut(place) = merged;
            }
        }
        model.lora = None;
        model
    }

    /// Runs the blocks over flat tokens; `attend(layer, q, k, v)` decides who sees whom.
    ///
    /// # Shapes
    /// tokens and positions `[tokens]` → `[tokens, d_model]`, normed
    pub(crate) fn run(
        &self,
        tokens: &[u32],
        positions: &[usize],
        mut rng: Option<&mut ChaCha12Rng>,
        mut attend: impl FnMut(usize, Tensor<3>, Tensor<3>, Tensor<3>) -> Tensor<2>,
    ) -> Tensor<2> {
        let keys = self.rope.angles(positions, &self.device);
        let queries = keys.scaled(1.0 / (self.config.head_dim as f64).sqrt());
        let mut x = self.embed.clone().select(0, indices(tokens.iter().map(|id| *id as i64), &self.device));
        for (layer, block) in self.blocks.iter().enumerate() {
            let normed = block.input_norm.forward(x.clone());
            let (q, k, v) = block.attention.project(normed, &queries, &keys, rng.as_deref_mut());
            x = x + block.attention.o.forward(attend(layer, q, k, v), rng.as_deref_mut());
            let normed = block.mlp_norm.forward(x.clone());
            x = x + block.mlp.forward(normed, rng.as_deref_mut());
        }
        self.norm.forward(x)
    }

    /// Hidden states of a prefix and of equally long rows that each continue it.
    ///
    /// # Shapes
    /// prefix `[prefix]`, rows `[rows·width]` → `[prefix + rows·width, d_model]`
    pub(crate) fn hidden(
        &self,
        prefix: &[u32],
        rows: &[u32],
        width: usize,
        rng: Option<&mut ChaCha12Rng>,
    ) -> Tensor<2> {
        let (shared, heads) = (prefix.len(), self.heads());
        let count = rows.len().checked_div(width).unwrap_or(0);
        let tokens = [prefix, rows].concat();
        let positions: Vec<usize> = (0..shared).chain((0..count).flat_map(|_| shared..shared + width)).collect();
        let of_prefix = attention::causal(heads.group, shared.max(1), &self.device);
        let of_rows = attention::causal(heads.group, width.max(1), &self.device);
        self.run(&tokens, &positions, rng, |_, q, k, v| {
            if count == 0 {
                return attention::alone(
                    heads,
                    q,
                    heads.keys(k, 1, shared),
                    heads.keys(v, 1, shared),
                    of_prefix.clone(),
                );
            }
            if shared == 0 {
                let (k, v) = (heads.keys(k, count, width), heads.keys(v, count, width));
                return attention::alone(heads, q, k, v, of_rows.clone());
            }
            let part = |x: &Tensor<3>| (x.clone().narrow(0, 0, shared), x.clone().narrow(0, shared, count * width));
            let ((q_far, q_near), (k_far, k_near), (v_far, v_near)) = (part(&q), part(&k), part(&v));
            let (k_far, v_far) = (heads.keys(k_far, 1, shared), heads.keys(v_far, 1, shared));
            let own = (heads.keys(k_near, count, width), heads.keys(v_near, count, width));
            let first = attention::alone(heads, q_far, k_far.clone(), v_far.clone(), of_prefix.clone());
            let rest = attention::behind_prefix(heads, q_near, (k_far, v_far), own, of_rows.clone());
            Tensor::cat(vec![first, rest], 0)
        })
    }

    /// Hidden states of a prefix and of rows that each continue it, and where each row begins. Rows
    /// stand one behind the other without padding where the block runs as one operation; elsewhere,
    /// and with dropout, they are filled up to the longest.
    ///
    /// # Shapes
    /// prefix `[prefix]` → `[tokens, d_model]`
    pub(crate) fn rows(
        &self,
        prefix: &[u32],
        rows: &[&[u32]],
        rng: Option<&mut ChaCha12Rng>,
    ) -> Result<(Tensor<2>, Vec<usize>)> {
        let dropout = rng.is_some() && self.lora.as_ref().is_some_and(|lora| lora.dropout > 0.0);
        if !dropout && fused::runs(self) {
            let layout = Layout { shared: prefix.len(), rows: rows.iter().map(|row| row.len()).collect() };
            return Ok((self.fused(&[prefix, &rows.concat()].concat(), &Arc::new(layout.clone()))?, layout.starts()));
        }
        let width = rows.iter().map(|row| row.len()).max().unwrap_or(0).max(1);
        let padded: Vec<u32> = rows.iter().flat_map(|row| pad(row, width)).collect();
        let starts = (0..rows.len()).map(|row| prefix.len() + row * width).collect();
        Ok((self.hidden(prefix, &padded, width, rng), starts))
    }

    fn fused(&self, tokens: &[u32], layout: &Arc<Layout>) -> Result<Tensor<2>> {
        let turns = Arc::new(self.rope.turns(&layout.positions()));
        let mut x = self.embed.clone().select(0, indices(tokens.iter().map(|id| *id as i64), &self.device));
        for block in &self.blocks {
            x = fused::block(block, self.heads(), x, (layout, &turns), self.recompute)?;
        }
        Ok(self.norm.forward(x))
    }

    /// Scores of every next token, for some of the hidden states.
    ///
    /// # Shapes
    /// hidden `[tokens, d_model]`, at `[k]` → `[k, vocab]`
    pub fn logits_at(&self, hidden: &Tensor<2>, at: &[usize]) -> Tensor<2> {
        let at = indices(at.iter().map(|i| *i as i64), &self.device);
        hidden.clone().select(0, at).matmul(self.head.clone())
    }

    /// Scores of every next token after each token of one text, without any cache.
    ///
    /// # Shapes
    /// tokens `[tokens]` → `[tokens, vocab]`
    pub fn logits(&self, tokens: &[u32]) -> Tensor<2> {
        let all: Vec<usize> = (0..tokens.len()).collect();
        self.logits_at(&self.states(tokens), &all)
    }

    /// The normed hidden state after each token of one text.
    ///
    /// # Shapes
    /// tokens `[tokens]` → `[tokens, d_model]`
    pub fn states(&self, tokens: &[u32]) -> Tensor<2> {
        self.hidden(tokens, &[], 0, None)
    }

    pub(crate) fn heads(&self) -> Heads {
        Heads { kv: self.config.kv_heads, group: self.config.group(), dim: self.config.head_dim }
    }
}

/// The full name of a linear layer: `model.layers.0.self_attn.q_proj`.
pub(crate) fn linear_name(layer: usize, place: usize) -> String {
    let part = if place < 4 { "self_attn" } else { "mlp" };
    format!("model.layers.{layer}.{part}.{}", TARGETS[place])
}

/// Row numbers, on the device.
pub(crate) fn indices(rows: impl Iterator<Item = i64>, device: &Device) -> Tensor<1, Int> {
    let rows: Vec<i64> = rows.collect();
    let count = rows.len();
    Tensor::from_data(TensorData::new(rows, [count]), device)
}

struct Loader<'a> {
    weights: &'a mut Weights,
    config: &'a ModelConfig,
    device: &'a Device,
}

impl Loader<'_> {
    fn tensor<const D: usize>(&mut self, name: &str, dims: &[usize], shape: [usize; D]) -> Result<Tensor<D>> {
        Ok(Tensor::from_data(TensorData::new(self.weights.take(name, dims)?, shape), self.device))
    }

    fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<Tensor<2>> {
        self.tensor(&format!("{name}.weight"), &[rows, columns], [rows, columns])
    }

    fn norm(&mut self, name: &str, width: usize) -> Result<Norm> {
        let weight = self.tensor(&format!("{name}.weight"), &[width], [width])?;
        Ok(Norm { weight, eps: self.config.norm_eps })
    }

    fn linear(&mut self, layer: usize, place: usize, outputs: usize, inputs: usize, bias: bool) -> Result<Linear> {
        let name = linear_name(layer, place);
        let weight = materialised(self.matrix(&name, outputs, inputs)?.transpose(), self.device);
        let bias = bias.then(|| self.tensor(&format!("{name}.bias"), &[outputs], [1, outputs])).transpose()?;
        Ok(Linear { weight, bias, adapter: None })
    }

    fn block(&mut self, layer: usize) -> Result<Block> {
        let c = self.config;
        let (queries, keys) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        let at = format!("model.layers.{layer}");
        let head_norm = |loader: &mut Self, name: &str| {
            let normed = c.family == super::config::Family::Qwen3;
            normed.then(|| loader.norm(&format!("{at}.self_attn.{name}"), c.head_dim)).transpose()
        };
        Ok(Block {
            input_norm: self.norm(&format!("{at}.input_layernorm"), c.d_model)?,
            attention: Attention {
                q: self.linear(layer, 0, queries, c.d_model, c.qkv_bias)?,
                k: self.linear(layer, 1, keys, c.d_model, c.qkv_bias)?,
                v: self.linear(layer, 2, keys, c.d_model, c.qkv_bias)?,
                o: self.linear(layer, 3, c.d_model, queries, c.out_bias)?,
                q_norm: head_norm(self, "q_norm")?,
                k_norm: head_norm(self, "k_norm")?,
                head_dim: c.head_dim,
            },
            mlp_norm: self.norm(&format!("{at}.post_attention_layernorm"), c.d_model)?,
            mlp: Mlp {
                gate: self.linear(layer, 4, c.mlp, c.d_model, false)?,
                up: self.linear(layer, 5, c.mlp, c.d_model, false)?,
                down: self.linear(layer, 6, c.d_model, c.mlp, false)?,
            },
        })
    }
}
