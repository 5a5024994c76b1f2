//! The command line: parse, run, print the error chain, exit code.

use clap::Parser;
use std::process::ExitCode;
use understudy::cli::{self, Cli};

fn main() -> ExitCode {
    let ended = cli::run(Cli::parse());
    if let Err(error) = &ended {
        eprintln!("error: {error:#}");
    }
    cli::exit_code(&ended)
}
