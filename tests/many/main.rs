//! The team over many servers, many processes and many documents, against servers on loopback that
//! answer, fail and hold back as a test says.

mod answers;
mod desk;
mod fleet;
mod scale;
mod shards;
mod spending;
mod stub;
