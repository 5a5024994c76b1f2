//! Where the student computes. `cfg(feature = "cuda")` stands only in this file.
#![allow(unexpected_cfgs, reason = "the feature is declared where the crate is built for a GPU")]

use super::error::{Result, StudentError};
use burn::tensor::Device;

/// Opens a device: `auto`, `cpu`, `cuda` or `cuda:n`.
///
/// `auto` is the GPU where the program was built for one, else the CPU.
pub fn open(asked: &str) -> Result<Device> {
    let refuse = |cause: &str| StudentError::Device { asked: asked.to_owned(), cause: cause.to_owned() };
    match asked.split_once(':') {
        None if asked == "auto" => Ok(auto()),
        None if asked == "cpu" => Ok(Device::flex()),
        None if asked == "cuda" => cuda(0).ok_or_else(|| refuse(NO_CUDA)),
        Some(("cuda", index)) => {
            let index = index.parse().map_err(|_| refuse("expected a GPU number, as in cuda:0"))?;
            cuda(index).ok_or_else(|| refuse(NO_CUDA))
        }
        _ => Err(refuse("unknown; pass auto, cpu, cuda or cuda:n")),
    }
}

const NO_CUDA: &str = "this version computes on the CPU only; pass --device cpu";

#[cfg(feature = "cuda")]
fn auto() -> Device {
    Device::cuda(0usize)
}

#[cfg(not(feature = "cuda"))]
fn auto() -> Device {
    Device::flex()
}

#[cfg(feature = "cuda")]
fn cuda(index: usize) -> Option<Device> {
    Some(Device::cuda(index))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_index: usize) -> Option<Device> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_opened_by_name_or_refused_with_the_way_out() {
        assert_eq!(open("cpu").unwrap(), Device::flex());
        assert!(open("auto").is_ok());
        for (asked, says) in [("tpu", "auto, cpu, cuda"), ("cuda:x", "GPU number"), ("cpu:1", "unknown")] {
            let error = open(asked).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(asked), "{error}");
        }
        if cfg!(not(feature = "cuda")) {
            assert!(open("cuda:1").unwrap_err().to_string().contains("--device cpu"));
        }
    }
}
