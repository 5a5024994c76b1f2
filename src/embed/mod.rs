//! Texts as points: a sentence encoder in this process, and the demonstrations that stand nearest
//! to a text in its space (CooperKGC, section 4.2: N-way K-shot by Euclidean distance). Beside the
//! arrow, in front of the team's prompts.
//!
//! [`MiniLm`] is the encoder of our own; a server's is `team::client::EmbeddingClient`. Which of
//! them is used is always said by somebody: nothing here falls back to another.

mod bert;
mod cache;
mod config;
mod demonstrations;
mod error;
mod minilm;
mod pool;
mod product;
mod tensors;
mod wordpiece;

pub use demonstrations::{Demonstrations, Kind, Shots};
pub use error::EmbedError;
pub use minilm::MiniLm;

/// What turns texts into vectors whose distance means something.
pub trait Encoder: Send + Sync {
    /// What decides the vectors; equal for two encoders only if they give the same ones. Names what
    /// is kept on disk.
    fn identity(&self) -> String;

    /// One vector a text, in their order, all of one length and finite.
    ///
    /// # Errors
    /// If the encoder is a server that does not answer, or gives what is no vector.
    fn encode(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}
