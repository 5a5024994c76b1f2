//! `schema` and `completions`: the shape of the config and of the command line, for editors and
//! shells. Both are made from what the program itself reads.

use super::{Cli, Common, Outcome, printed};
use crate::config::json_schema;
use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

/// Arguments of `schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  understudy schema > understudy.schema.json

An editor with Even Better TOML completes and checks a config that begins with
  #:schema ./understudy.schema.json")]
pub struct SchemaArgs {}

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  understudy completions bash > ~/.local/share/bash-completion/completions/understudy
  understudy completions zsh > ~/.zfunc/_understudy
  understudy completions fish > ~/.config/fish/completions/understudy.fish")]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Prints the JSON Schema of the config.
pub fn schema(_: &SchemaArgs, _: &Common) -> Result<Outcome> {
    printed(&format!("{:#}\n", json_schema()))?;
    Ok(Outcome::Done)
}

/// Prints a shell's completion script.
pub fn completions(args: &CompletionsArgs, _: &Common) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "understudy", &mut script);
    printed(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound_and_every_shell_gets_every_verb() {
        Cli::command().debug_assert();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "understudy", &mut script);
            let script = String::from_utf8(script).unwrap();
            for verb in Cli::command().get_subcommands() {
                assert!(script.contains(verb.get_name()), "{shell}: {}", verb.get_name());
            }
        }
    }
}
