//! The same model on another device, so that several can learn side by side.

use super::block::{Attention, Block, Mlp, Norm};
use super::linear::Linear;
use super::lora::Adapter;
use super::model::Model;
use burn::tensor::{Device, Tensor};

impl Model {
    /// The same numbers on this device; where they are there already, they are shared.
    pub fn on(&self, device: &Device) -> Model {
        let device = device.clone().inner();
        if device == self.device {
            return self.clone();
        }
        let embed = moved(&self.embed, &device);
        Model {
            config: self.config.clone(),
            blocks: self.blocks.iter().map(|block| block.on(&device)).collect(),
            norm: self.norm.on(&device),
            head: moved(&self.head, &device),
            head_rows: if self.config.tied { embed.clone() } else { moved(&self.head_rows, &device) },
            rope: self.rope.on(&device),
            lora: self.lora.clone(),
            recompute: self.recompute,
            composed: self.composed,
            embed,
            device,
        }
    }
}

/// A tensor on this device.
pub(super) fn moved<const D: usize>(x: &Tensor<D>, device: &Device) -> Tensor<D> {
    x.clone().inner().to_device(device)
}

impl Block {
    fn on(&self, device: &Device) -> Block {
        let linear = |place: usize| self.linear(place).on(device);
        Block {
            input_norm: self.input_norm.on(device),
            attention: Attention {
                q: linear(0),
                k: linear(1),
                v: linear(2),
                o: linear(3),
                q_norm: self.attention.q_norm.as_ref().map(|norm| norm.on(device)),
                k_norm: self.attention.k_norm.as_ref().map(|norm| norm.on(device)),
                head_dim: self.attention.head_dim,
            },
            mlp_norm: self.mlp_norm.on(device),
            mlp: Mlp { gate: linear(4), up: linear(5), down: linear(6) },
        }
    }
}

impl Norm {
    fn on(&self, device: &Device) -> Norm {
        Norm { weight: moved(&self.weight, device), eps: self.eps }
    }
}

impl Linear {
    fn on(&self, device: &Device) -> Linear {
        Linear {
            weight: moved(&self.weight, device),
            bias: self.bias.as_ref().map(|bias| moved(bias, device)),
            adapter: self.adapter.as_ref().map(|adapter| Adapter {
                a: moved(&adapter.a, device),
                b: moved(&adapter.b, device),
                ..adapter.clone()
            }),
        }
    }
}
