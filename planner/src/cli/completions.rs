//! `eyelet completions` and `eyelet man`: what shells and `man` know of the command.

use super::output::Output;
use super::{Command, Error};
use clap::CommandFactory;
use clap_complete::Shell;
use eyelet_planner::replace::replace;
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

/// Prints what a shell needs to complete verbs and options.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

const COMPLETIONS: &str = "\
Example:
  eyelet completions bash > ~/.local/share/bash-completion/completions/eyelet
  eyelet completions zsh > ~/.zfunc/_eyelet";

/// Writes the manual: a page for the command and one for each verb.
#[derive(Debug, clap::Args)]
#[command(after_help = MAN)]
pub struct Man {
    /// Where to write the pages. The folder is made if it is missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

const MAN: &str = "\
Example:
  eyelet man ~/.local/share/man/man1";

/// The pages that were written.
#[derive(Debug, Serialize)]
struct Pages {
    pages: Vec<PathBuf>,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pages.iter().try_for_each(|page| writeln!(f, "{}", page.display()))
    }
}

/// Prints the completions as they are, whatever the output.
pub fn completions(args: &Completions) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Command::command(), "eyelet", &mut script);
    std::io::stdout().write_all(&script).map_err(Error::Print)
}

pub fn man(args: Man, output: Output) -> Result<(), Error> {
    let folder = args.folder;
    std::fs::create_dir_all(&folder)
        .map_err(|source| Error::Write { path: folder.clone(), source })?;
    let mut command = Command::command();
    command.build();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs = verbs.map(|verb| (format!("eyelet-{}", verb.get_name()), verb.clone()));
    let mut pages = Vec::new();
    for (name, verb) in std::iter::once(("eyelet".to_owned(), command.clone())).chain(verbs) {
        let path = folder.join(format!("{name}.1"));
        let failed = |source| Error::Write { path: path.clone(), source };
        let mut page = Vec::new();
        clap_mangen::Man::new(verb).title(name).render(&mut page).map_err(failed)?;
        replace(&path, |file| file.write_all(&page)).map_err(failed)?;
        pages.push(path);
    }
    output.report(&Pages { pages })
}
