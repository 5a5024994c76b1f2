//! Where the block enters burn's autodiff graph: numbers in and out of burn's tensors, and one node
//! whose parents are the block's input and the factors of its adapters.

use super::forward::{self, Adapter, Kept, Linear};
use super::{Layout, Turns, backward};
use crate::student::attention::Heads;
use crate::student::block::Block;
use crate::student::error::{Result, StudentError};
use crate::student::linear;
use crate::student::model::Model;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::{Autodiff, AutodiffBackend, Flex};
use burn::tensor::{DType, Shape, Tensor, TensorData};
use std::sync::Arc;

/// Seven layers with two factors each, and the input.
const PARENTS: usize = 15;

/// Whether this model computes in f32 on burn's CPU backend, and so with these operations.
pub(crate) fn runs(model: &Model) -> bool {
    !model.composed && model.blocks.first().is_some_and(|block| floats(block.linear(0).weight.clone()).is_some())
}

/// The numbers of a tensor in place, if it is f32 on the CPU and outside autodiff.
pub(crate) fn floats<const D: usize>(x: Tensor<D>) -> Option<FlexTensor> {
    let x = x.try_into_primitive::<Flex>().ok()?;
    let x = if x.is_contiguous() { x } else { x.to_contiguous() };
    (x.dtype() == DType::F32).then_some(x)
}

fn slice(x: &FlexTensor) -> &[f32] {
    x.as_slice().expect("`floats` lets only contiguous f32 pass")
}

fn taken<const D: usize>(x: Tensor<D>) -> Result<FlexTensor> {
    floats(x).ok_or_else(|| StudentError::Compute("a weight is not f32 on the CPU".into()))
}

/// A block's numbers, shared with the model.
#[derive(Debug)]
pub(super) struct Frozen {
    pub heads: Heads,
    pub eps: f32,
    norms: [FlexTensor; 2],
    head_norms: Option<[FlexTensor; 2]>,
    layers: [Layer; 7],
}

#[derive(Debug)]
struct Layer {
    weight: FlexTensor,
    bias: Option<FlexTensor>,
    dims: [usize; 2],
    factors: Option<Factors>,
}

#[derive(Debug)]
struct Factors {
    a: FlexTensor,
    b: FlexTensor,
    rank: usize,
    scale: f32,
}

impl Frozen {
    pub fn of(block: &Block, heads: Heads) -> Result<Frozen> {
        let layers: Vec<Layer> = (0..7).map(|place| Layer::of(block.linear(place))).collect::<Result<_>>()?;
        let head_norms = match (&block.attention.q_norm, &block.attention.k_norm) {
            (Some(q), Some(k)) => Some([taken(q.weight.clone())?, taken(k.weight.clone())?]),
            _ => None,
        };
        Ok(Frozen {
            heads,
            eps: block.input_norm.eps as f32,
            norms: [taken(block.input_norm.weight.clone())?, taken(block.mlp_norm.weight.clone())?],
            head_norms,
            layers: layers.try_into().expect("seven places give seven layers"),
        })
    }

    pub fn input_norm(&self) -> &[f32] {
        slice(&self.norms[0])
    }

    pub fn mlp_norm(&self) -> &[f32] {
        slice(&self.norms[1])
    }

    /// Of queries and of keys, `[head_dim]` each.
    pub fn head_norms(&self) -> Option<[&[f32]; 2]> {
        self.head_norms.as_ref().map(|norms| norms.each_ref().map(slice))
    }

    pub fn linears(&self) -> [Linear<'_>; 7] {
        self.layers.each_ref().map(|layer| Linear {
            weight: slice(&layer.weight),
            bias: layer.bias.as_ref().map(slice),
            inputs: layer.dims[0],
            outputs: layer.dims[1],
            adapter: layer.factors.as_ref().map(|f| Adapter {
                a: slice(&f.a),
                b: slice(&f.b),
                rank: f.rank,
                scale: f.scale,
            }),
        })
    }
}

impl Layer {
    fn of(linear: &linear::Linear) -> Result<Layer> {
        let factors = linear.adapter.as_ref().map(|adapter| {
            let (a, b) = (taken(adapter.a.clone().inner())?, taken(adapter.b.clone().inner())?);
            Ok(Factors { a, b, rank: adapter.b.dims()[0], scale: adapter.scale as f32 })
        });
        Ok(Layer {
            weight: taken(linear.weight.clone())?,
            bias: linear.bias.clone().map(taken).transpose()?,
            dims: linear.weight.dims(),
            factors: factors.transpose()?,
        })
    }
}

/// What one block's node remembers.
#[derive(Debug)]
struct Remembered {
    frozen: Frozen,
    input: FlexTensor,
    /// `None` where the backward is to compute it again.
    kept: Option<Kept>,
    layout: Arc<Layout>,
    turns: Arc<Turns>,
}

/// One block. With `recompute`, only its input is remembered, and the backward pays for a second
/// forward.
///
/// # Shapes
/// x `[tokens, d_model]` → the same
pub(crate) fn block(
    block: &Block,
    heads: Heads,
    x: Tensor<2>,
    (layout, turns): (&Arc<Layout>, &Arc<Turns>),
    recompute: bool,
) -> Result<Tensor<2>> {
    let frozen = Frozen::of(block, heads)?;
    let dims = x.dims();
    let input = taken(x.clone().inner())?;
    let factors: Vec<_> = (0..7).map(|place| block.linear(place).adapter.as_ref()).collect();
    let tracked = x.is_autodiff() || factors.iter().flatten().any(|adapter| adapter.a.is_autodiff());
    let (out, kept) = forward::forward(&frozen, slice(&input), layout, turns);
    let out = tensor(out.into_vec(), dims);
    if !tracked {
        return Ok(Tensor::from_primitive::<Flex>(out));
    }
    let parent = |x: Option<Tensor<2>>| match x {
        Some(x) => {
            let x = if x.is_autodiff() { x } else { x.autodiff() };
            x.try_into_primitive::<Autodiff<Flex>>().map_err(|e| StudentError::Compute(format!("{e:?}")))
        }
        None => Ok(Autodiff::<Flex>::from_inner(tensor(Vec::new(), [0, 0]))),
    };
    let mut parents = vec![parent(Some(x))?];
    for adapter in factors {
        parents.push(parent(adapter.map(|adapter| adapter.a.clone()))?);
        parents.push(parent(adapter.map(|adapter| adapter.b.clone()))?);
    }
    let nodes: Vec<_> = parents.iter().map(|parent| parent.node()).collect();
    let nodes: [_; PARENTS] = nodes.try_into().map_err(|_| StudentError::Compute("a block has 15 parents".into()))?;
    let out = match BlockStep.prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(step) => {
            let kept = (!recompute).then_some(kept);
            let (layout, turns) = (layout.clone(), turns.clone());
            step.finish(Arc::new(Remembered { frozen, input, kept, layout, turns }), out)
        }
        OpsKind::UnTracked(step) => step.finish(out),
    };
    Ok(Tensor::from_primitive::<Autodiff<Flex>>(out))
}

fn tensor(numbers: Vec<f32>, dims: [usize; 2]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(numbers, Shape::from(dims)))
}

#[derive(Debug)]
struct BlockStep;

impl Backward<Flex, PARENTS> for BlockStep {
    type State = Arc<Remembered>;

    fn backward(self, ops: Ops<Arc<Remembered>, PARENTS>, grads: &mut Gradients, _: &mut Checkpointer) {
        let Remembered { frozen, input, kept, layout, turns } = &*ops.state;
        let above = grads.consume::<Flex>(&ops.node).to_contiguous();
        let [input_node, factor_nodes @ ..] = ops.parents;
        let again;
        let kept = match kept {
            Some(kept) => kept,
            None => {
                again = forward::forward(frozen, slice(input), layout, turns).1;
                &again
            }
        };
        let wanted = input_node.is_some();
        let (slope, slopes) = backward::backward(frozen, slice(input), kept, (layout, turns), slice(&above), wanted);
        if let (Some(node), Some(slope)) = (input_node, slope) {
            let width = slope.len() / layout.tokens();
            grads.register::<Flex>(node.id, tensor(slope.into_vec(), [layout.tokens(), width]));
        }
        let mut nodes = factor_nodes.into_iter();
        for (layer, slopes) in frozen.layers.iter().zip(slopes) {
            let [a_node, b_node] = [nodes.next().flatten(), nodes.next().flatten()];
            let Some(([a_slope, b_slope], factors)) = slopes.zip(layer.factors.as_ref()) else { continue };
            if let Some(node) = a_node {
                grads.register::<Flex>(node.id, tensor(a_slope, [layer.dims[0], factors.rank]));
            }
            if let Some(node) = b_node {
                grads.register::<Flex>(node.id, tensor(b_slope, [factors.rank, layer.dims[1]]));
            }
        }
    }
}
