//! (to be written)

pub mod schema_file;
