//! `eyelet.toml` next to a model or a pack: what one would type each time.
//!
//! A table for each verb has its long options as keys. They stand on the command line as if they had been typed; what is typed there, and
//! what excludes them, goes before. Files that are written must be typed: a model that somebody else has packed up must not choose
//! what is replaced.
//!
//! ```toml
//! [plan]
//! board = "raspberry-pi-4"
//! budget = ["12MiB", "24MiB"]
//!
//! [run]
//! labels = "imagenet.txt"    # relative to this file
//! ```

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use eyelet_planner::open::{DESCRIPTION, read_to_string};
use eyelet_planner::replace::folder_of;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The file's name.
const NAME: &str = "eyelet.toml";

/// Options that name files or folders to write.
const WRITTEN: [&str; 6] = ["output", "report", "trace", "csv", "draw", "export"];

/// A command line with what the file next to its model or pack adds, and that file, if there is one.
#[derive(Debug)]
pub struct Typed {
    pub words: Vec<OsString>,
    pub file: Option<PathBuf>,
}

impl Typed {
    /// Of the words that were typed, the command's name first. An error says what is wrong with the file.
    pub fn new(command: fn() -> Command, words: Vec<OsString>) -> Result<Self, String> {
        let plain = |words| Ok(Self { words, file: None });
        // The usual case: nothing is parsed twice, which would take time and memory.
        let has_file = |word: &OsString| folder_of(Path::new(word)).join(NAME).is_file();
        if !words.iter().skip(1).any(has_file) {
            return plain(words);
        }
        let mut command = command().ignore_errors(true);
        command.build();
        let Ok(matches) = command.try_get_matches_from_mut(&words) else { return plain(words) };
        let Some((name, given)) = matches.subcommand() else { return plain(words) };
        let Some(verb) = command.find_subcommand(name) else { return plain(words) };
        let file = subject(verb, given, &words).map(|path| folder_of(&path).join(NAME));
        // Another word may be next to the one that was found.
        let Some(file) = file.filter(|file| file.is_file()) else { return plain(words) };
        let wrong = |reason: String| format!("{}: {reason}", file.display());
        let text = read_to_string(&file, DESCRIPTION).map_err(|error| wrong(error.to_string()))?;
        let all: Table = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if let Some(other) = all.keys().find(|key| command.find_subcommand(key).is_none()) {
            return Err(wrong(format!(
                "there is no verb `{other}`: its tables are those of verbs, as [plan]"
            )));
        }
        let Some(table) = all.get(name) else { return plain(words) };
        let table = table.as_table().ok_or_else(|| wrong(format!("`{name}` must be a table")))?;
        let mut added = Vec::new();
        for (key, value) in table {
            let of = |reason: String| wrong(format!("{name}.{key}: {reason}"));
            let option = verb.get_arguments().find(|arg| arg.get_long() == Some(key));
            let option =
                option.ok_or_else(|| of(format!("`eyelet {name}` has no option --{key}")))?;
            if !is_setting(option) {
                return Err(of(
                    "it replaces the work: it is given on the command line alone".to_owned()
                ));
            }
            if WRITTEN.contains(&key.as_str()) {
                return Err(of("files that are written are named on the command line".to_owned()));
            }
            if !is_excluded(verb, option, given) {
                added.extend(typed(option, value, folder_of(&file)).map_err(of)?);
            }
        }
        // Right after the verb: before words that take all that follows.
        let at = words.iter().position(|word| word == name).map_or(words.len(), |at| at + 1);
        let (before, after) = words.split_at(at);
        Ok(Self { words: [before, &added, after].concat(), file: Some(file) })
    }
}

/// The model or pack of a command line: its first path that is no option's.
fn subject(verb: &Command, given: &ArgMatches, words: &[OsString]) -> Option<PathBuf> {
    let path = verb.get_positionals().find(|arg| is_path(arg.get_value_parser()))?;
    let typed = given.try_get_one::<PathBuf>(path.get_id().as_str()).ok().flatten().cloned();
    // A word that an option has taken for its own.
    let other = || words.iter().skip(2).map(PathBuf::from).find(|path| path.is_file());
    typed.or_else(other)
}

/// Whether an option changes what a verb does, and does not take its place.
fn is_setting(option: &Arg) -> bool {
    use ArgAction::{Help, HelpLong, HelpShort, Version};
    !matches!(option.get_action(), Help | HelpLong | HelpShort | Version)
}

fn is_path(parser: &ValueParser) -> bool {
    parser.type_id() == std::any::TypeId::of::<PathBuf>()
}

/// Whether an option was typed, or another that excludes it.
fn is_excluded(verb: &Command, option: &Arg, given: &ArgMatches) -> bool {
    let is_typed = |arg: &Arg| {
        let id = arg.get_id().as_str();
        given.try_contains_id(id).is_ok()
            && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    let excludes = |arg: &Arg, other: &Arg| {
        verb.get_arg_conflicts_with(arg).iter().any(|found| found.get_id() == other.get_id())
    };
    let excluding = |arg: &&Arg| excludes(arg, option) || excludes(option, arg);
    is_typed(option) || verb.get_arguments().filter(excluding).any(is_typed)
}

/// An option with its value, as they would be typed. Paths are relative to a folder.
fn typed(option: &Arg, value: &Value, folder: &Path) -> Result<Vec<OsString>, String> {
    let name = format!("--{}", option.get_long().unwrap_or_default());
    let takes = option.get_action().takes_values();
    match value {
        Value::Boolean(set) if !takes => Ok(set.then(|| name.into()).into_iter().collect()),
        _ if !takes => Err("it must be true or false".to_owned()),
        Value::Array(values) => {
            let all = values.iter().map(|value| typed(option, value, folder));
            Ok(all.collect::<Result<Vec<_>, _>>()?.concat())
        }
        value => {
            let text = match value {
                Value::String(text) if is_path(option.get_value_parser()) => relative(text, folder),
                Value::String(text) => text.into(),
                Value::Integer(number) => number.to_string().into(),
                Value::Float(number) => number.to_string().into(),
                _ => return Err("it must be a text, a number, or a list of these".to_owned()),
            };
            let mut word = OsString::from(format!("{name}="));
            word.push(text);
            Ok(vec![word])
        }
    }
}

/// A path, or a name and a path as in `ids=ids.npy`, relative to a folder.
fn relative(text: &str, folder: &Path) -> OsString {
    let whole = folder.join(text);
    match text.split_once('=') {
        Some((name, path)) if !whole.exists() => {
            let mut word = OsString::from(format!("{name}="));
            word.push(folder.join(path));
            word
        }
        _ => whole.into_os_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn words(folder: &Path, file: &str, typed: &[&str]) -> Result<Vec<String>, String> {
        std::fs::write(folder.join(NAME), file).unwrap();
        let model = folder.join("m.onnx");
        std::fs::write(&model, "").unwrap();
        let words = typed.iter().map(|word| match *word {
            "MODEL" => model.clone().into_os_string(),
            word => word.into(),
        });
        let words = std::iter::once("eyelet".into()).chain(words).collect();
        let found = Typed::new(super::super::Command::command, words)?.words;
        let short = |word: OsString| {
            word.into_string().unwrap().replace(&format!("{}/", folder.display()), "")
        };
        Ok(found.into_iter().skip(1).map(short).collect())
    }

    #[test]
    fn options_are_added_unless_they_are_typed_or_excluded() {
        let folder = tempfile::tempdir().unwrap();
        let words = |file: &str, typed: &[&str]| words(folder.path(), file, typed).unwrap();
        let file =
            "[plan]\nbudget = ['1MiB', '2MiB']\nexact = true\nprofile = 'p.toml'\nthreads = 2\n";
        let all = ["--budget=1MiB", "--budget=2MiB", "--exact", "--profile=p.toml", "--threads=2"];
        let plan = |added: &[&str], typed: &[&str]| {
            assert_eq!(words(file, typed), [&["plan"], added, &typed[1..]].concat().map_model());
        };
        plan(&all, &["plan", "MODEL"]);
        plan(&all[..4], &["plan", "MODEL", "--threads", "1"]);
        plan(&all[2..], &["plan", "--budget", "4MiB", "MODEL"]);
        plan(&all[2..], &["plan", "MODEL", "--min-budget"]);
        assert_eq!(words(file, &["run", "MODEL"]), ["run", "m.onnx"]);
        assert_eq!(words("[plan]\nexact = false\n", &["plan", "MODEL"]), ["plan", "m.onnx"]);
        let labels = words("[run]\nlabels = 'l.txt'\n", &["run", "MODEL"]);
        assert_eq!(labels, ["run", "--labels=l.txt", "m.onnx"]);
        let inputs = words("[run]\ninput = ['ids=i.npy', 'x.npy']\n", &["run", "MODEL"]);
        assert_eq!(inputs, ["run", "--input=ids=i.npy", "--input=x.npy", "m.onnx"]);
    }

    #[test]
    fn files_next_to_other_words_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).into_os_string();
        std::fs::create_dir(at("other")).unwrap();
        std::fs::write(at("other/eyelet.toml"), "[plan\n").unwrap();
        std::fs::write(at("m.onnx"), "").unwrap();
        let words = ["eyelet".into(), "plan".into(), at("m.onnx"), "-o".into(), at("other/m.pack")];
        let found = Typed::new(super::super::Command::command, words.to_vec()).unwrap();
        assert_eq!(found.words, words);
    }

    trait MapModel {
        fn map_model(self) -> Vec<String>;
    }

    impl MapModel for Vec<&str> {
        fn map_model(self) -> Vec<String> {
            self.into_iter().map(|word| word.replace("MODEL", "m.onnx")).collect()
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for (file, says) in [
            ("[plan]\nbudgit = 1\n", "plan.budgit: `eyelet plan` has no option --budgit"),
            ("[fly]\n", "there is no verb `fly`"),
            ("[plan]\nexact = 3\n", "plan.exact: it must be true or false"),
            ("[plan]\nthreads = {}\n", "plan.threads: it must be a text"),
            ("[plan]\noutput = '/etc/passwd'\n", "plan.output: files that are written"),
            ("[plan]\nhelp = true\n", "plan.help: it replaces the work"),
            ("plan = 3\n", "`plan` must be a table"),
            ("[plan\n", "eyelet.toml: "),
        ] {
            let error = words(folder.path(), file, &["plan", "MODEL"]).unwrap_err();
            assert!(error.contains(says) && error.contains(NAME), "{error}");
        }
    }
}
