//! 2. The team: agents that read documents and debate. `corpus ─▶ team ─▶ trace`.
//!
//! A protocol is one published way to use an LLM for extraction, one file each below
//! [`protocol`]; all share the client, the parser, the trace and the scorer. Agents are asked one
//! after the other, each for all documents, so that a server reuses the shared instruction.

pub mod client;
mod debate;
mod floor;
pub mod protocol;
#[cfg(test)]
mod tests;

pub use client::{Client, ClientError};
pub use floor::{Progress, Sampling, Team};
pub use protocol::Protocol;
