//! Where the student computes. `cfg(feature = "cuda")` stands only in this file.

use super::error::{Result, StudentError};
use burn::tensor::Device;

/// A device that computes, and what a person should know of it.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The device.
    pub device: Device,
    /// What it is: `CPU`, or the number and the name of a GPU.
    pub name: String,
    /// Why it is not the GPU that `auto` looked for.
    pub note: Option<String>,
}

/// Opens a device: `auto`, `cpu`, `cuda` or `cuda:n`.
///
/// `auto` is the first GPU where the program was built for one and finds it, else the CPU. A GPU
/// has computed something before this returns: a driver or a toolkit that is missing is an error
/// here, in one line, and not a panic later.
///
/// # Errors
/// If the name is unknown, or what the device needs is missing.
pub fn open(asked: &str) -> Result<Opened> {
    let refuse = |cause: String| StudentError::Device { asked: asked.to_owned(), cause };
    let gpu = |index| gpu::open(index).map_err(|cause| refuse(format!("{cause}, or pass --device cpu")));
    match asked.split_once(':') {
        None if asked == "auto" => Ok(auto()),
        None if asked == "cpu" => Ok(cpu(None)),
        None if asked == "cuda" => gpu(0),
        Some(("cuda", index)) => {
            gpu(index.parse().map_err(|_| refuse("expected a GPU number, as in cuda:0".to_owned()))?)
        }
        _ => Err(refuse("unknown; pass auto, cpu, cuda or cuda:n".to_owned())),
    }
}

fn auto() -> Opened {
    if !gpu::BUILT {
        return cpu(None);
    }
    gpu::open(0).unwrap_or_else(|cause| cpu(Some(format!("no GPU is used: {cause}"))))
}

fn cpu(note: Option<String>) -> Opened {
    Opened { device: Device::flex(), name: "CPU".to_owned(), note }
}

/// As many devices as are asked for, to train on side by side: a GPU and those numbered after it.
/// A CPU is given as often as it is asked for; that gains nothing.
///
/// # Errors
/// If there are not so many GPUs.
pub fn side_by_side(first: &Device, count: usize) -> Result<Vec<Device>> {
    let first = first.clone().inner();
    if count == 1 || first == Device::flex() {
        return Ok(vec![first; count]);
    }
    let all = gpu::all();
    let found: Vec<Device> = all.into_iter().skip_while(|device| *device != first).take(count).collect();
    match found.len() == count {
        true => Ok(found),
        false => Err(StudentError::Device {
            asked: format!("{count} GPUs"),
            cause: format!("{} found, from --device on; lower train.devices", found.len()),
        }),
    }
}

#[cfg(not(feature = "cuda"))]
mod gpu {
    use super::{Device, Opened};

    pub const BUILT: bool = false;

    pub fn open(_index: usize) -> Result<Opened, String> {
        Err("this program was built without CUDA; build it with `cargo build --release --features cuda`".to_owned())
    }

    pub fn all() -> Vec<Device> {
        Vec::new()
    }
}

#[cfg(feature = "cuda")]
mod gpu {
    use super::{Device, Opened};
    use burn::tensor::{DeviceType, Tensor};
    use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

    pub const BUILT: bool = true;

    pub fn open(index: usize) -> Result<Opened, String> {
        let all = quietly(all)?;
        let Some(device) = all.get(index).cloned() else {
            return Err(match all.len() {
                0 => "no NVIDIA driver (libcuda.so.1) or no GPU was found; install the driver".to_owned(),
                count => format!("this machine has cuda:0 to cuda:{}; pass one of them", count - 1),
            });
        };
        // burn's kernels are compiled where they run, by NVRTC and with these headers.
        if cubecl_cuda::install::cuda_path().is_none() {
            return Err("the CUDA toolkit's headers, which kernels are compiled with, were not found; install \
                        them, or set CUDA_PATH to where its `include` stands"
                .to_owned());
        }
        let first = quietly(|| {
            let three = (Tensor::<1>::ones([3], &device) * 2.0).sum().try_into_data().map_err(|e| format!("{e:?}"))?;
            let name = device.identity().map_or_else(|| "GPU".to_owned(), |identity| identity.name);
            match three.try_into_vec::<f32>() {
                Ok(numbers) if numbers == [6.0] => Ok(name),
                other => Err(format!("three times two is {other:?}")),
            }
        });
        match first.and_then(|computed| computed) {
            Ok(name) => Ok(Opened { device, name: format!("cuda:{index}, {name}"), note: None }),
            Err(cause) => Err(format!(
                "the GPU is there, but a first kernel failed: {}; see that driver and CUDA toolkit (NVRTC) fit \
                 each other",
                line(&cause)
            )),
        }
    }

    /// Every GPU; none where there is no driver.
    pub fn all() -> Vec<Device> {
        Device::enumerate(DeviceType::Cuda).into_iter().collect()
    }

    /// A library below that misses a file or a symbol panics; this gives the panic's first line
    /// instead, and prints nothing.
    fn quietly<T>(work: impl FnOnce() -> T) -> Result<T, String> {
        let told = take_hook();
        set_hook(Box::new(|_| {}));
        let done = catch_unwind(AssertUnwindSafe(work));
        set_hook(told);
        done.map_err(|cause| {
            let text = cause.downcast_ref::<String>().map(String::as_str);
            line(text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("the CUDA library failed"))
        })
    }

    /// One line of what may be many; what a debugger would want behind it is left out.
    fn line(text: &str) -> String {
        let text = text.split("backtrace").next().unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_opened_by_name_or_refused_with_the_way_out() {
        let cpu = open("cpu").unwrap();
        assert_eq!((cpu.device, cpu.name.as_str(), cpu.note), (Device::flex(), "CPU", None));
        for (asked, says) in [("tpu", "auto, cpu, cuda"), ("cuda:x", "GPU number"), ("cpu:1", "unknown")] {
            let error = open(asked).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(asked), "{error}");
        }
    }

    #[test]
    fn a_gpu_that_cannot_be_had_is_one_line_with_the_way_out() {
        for asked in ["cuda", "cuda:7777"] {
            let Err(error) = open(asked) else { continue };
            let error = error.to_string();
            assert!(error.starts_with(&format!("device \"{asked}\": ")) && error.lines().count() == 1, "{error}");
            assert!(error.ends_with(", or pass --device cpu"), "{error}");
            assert!(gpu::BUILT || error.contains("cargo build --release --features cuda"), "{error}");
        }
    }

    #[test]
    fn auto_computes_somewhere_and_says_why_not_on_a_gpu_it_was_built_for() {
        let auto = open("auto").unwrap();
        let on_cpu = auto.device == Device::flex();
        assert_eq!(auto.note.is_some(), on_cpu && gpu::BUILT, "{auto:?}");
        assert!(auto.note.is_none_or(|note| note.lines().count() == 1));
    }

    #[test]
    fn devices_side_by_side_are_as_many_as_asked_for() {
        assert_eq!(side_by_side(&Device::flex(), 3).unwrap(), vec![Device::flex(); 3]);
        assert_eq!(side_by_side(&Device::flex().autodiff(), 1).unwrap().len(), 1);
    }
}
