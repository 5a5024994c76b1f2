//! 2. The team: agents that read documents and debate. `corpus ─▶ team ─▶ trace`.
//!
//! A protocol is one published way to use an LLM for extraction, one file each below
//! [`protocol`], which reads one document; all share the client, the parser, the trace and the
//! scorer. Many documents are read side by side (`hall`), and what waits to be asked is asked
//! agent by agent, so that a server reuses the shared instruction.

pub mod client;
mod debate;
mod demonstrator;
mod floor;
mod hall;
pub mod protocol;
mod room;
#[cfg(test)]
mod tests;

pub use client::{Client, ClientError};
pub use demonstrator::Demonstrator;
pub use floor::{Debated, Options, Sampling, Team};
pub use protocol::Protocol;
