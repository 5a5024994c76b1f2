//! The types of `cubecl-llvm` that `cubecl-cuda` 0.11.3 names, and nothing behind them.
//!
//! `cubecl-cuda` compiles kernels by NVRTC (its feature `cpp`) or by LLVM, and always links both.
//! The real crate's build script downloads LLVM from a code host, so a build without network, or
//! with package registries alone, fails. `Cargo.toml` gives this crate in its place; kernels go
//! through NVRTC, and whoever asks for the LLVM path is refused with one line.

use cubecl_core::ir::nvidia::SmArch;
use cubecl_core::prelude::KernelDefinition;
use cubecl_environment::backtrace::BackTrace;
use cubecl_server::compiler::CompilationError;
use cubecl_server::kernel::BufferIOAttr;
use std::ffi::c_char;

const REFUSED: &str =
    "this build has no LLVM: build understudy with its feature `cuda`, which compiles kernels by NVRTC";

/// What LLVM would emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlvmTarget {
    Nvptx,
}

/// The compiler that is absent.
#[derive(Clone, Debug)]
pub struct PlironCompiler {
    pub target: LlvmTarget,
}

impl PlironCompiler {
    pub fn compile(&mut self, _: KernelDefinition, _: &PlironOptions) -> Result<PlironArtifact, CompilationError> {
        Err(CompilationError::Generic { reason: REFUSED.to_owned(), backtrace: BackTrace::capture() })
    }

    pub fn lang_tag(&self) -> &'static str {
        "llvm"
    }
}

/// What it would be told.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    pub arch: Option<String>,
    pub sm_arch: Option<SmArch>,
    pub ptx_version: Option<nvptx::ptx_version::PtxVersion>,
    pub grid_constants: bool,
}

/// What it would give.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlironArtifact {
    NvptxCode(NvptxModule),
}

/// A compiled kernel; none is ever made.
#[derive(Debug)]
pub struct NvptxModule {
    pub ir: String,
    pub ptx: Vec<c_char>,
    pub shared_memory_size: usize,
    pub io: Vec<BufferIOAttr>,
}

pub mod nvptx {
    pub mod ptx_version {
        /// A version of PTX; no driver has one here, since nothing is emitted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct PtxVersion(i32);

        impl PtxVersion {
            pub fn for_driver(_: i32) -> Option<PtxVersion> {
                None
            }
        }

        impl std::fmt::Display for PtxVersion {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    }
}

pub mod shared {
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// A family of devices.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GpuTarget {
            Nvptx,
        }

        /// Called only where the LLVM path is chosen; its compiler refuses later, with the way out.
        pub fn restrict_features(_: &mut DeviceProperties, _: GpuTarget) {}
    }
}
