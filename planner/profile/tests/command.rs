//! The command, but for measuring: the tests of `eyelet profile` measure, by the same function.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn command(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eyelet-profile"));
    command.args(args).current_dir(folder).env_remove("EYELET_HOST_BOARD").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The object on stdout, which is all that is there.
fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn it_says_what_it_does_and_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let help = text(&command(folder.path(), &["--help"]).stdout);
    for said in ["Usage: eyelet-profile [OPTIONS] --output <FILE.toml>", "--brief", "Example"] {
        assert!(help.contains(said), "{help}");
    }
    let version = concat!("eyelet-profile ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(text(&command(folder.path(), &["--version"]).stdout), version);
    for args in [&["--json"][..], &["--json", "--threads", "0", "-o", "x.toml"]] {
        let misused = command(folder.path(), args);
        assert_eq!(misused.status.code(), Some(2), "{misused:?}");
        let said = object(&misused)["error"].as_str().unwrap().to_owned();
        assert!(text(&misused.stderr).contains(&said) && said.contains("<"), "{said}");
    }
    let misused = command(folder.path(), &[]);
    assert!(misused.stdout.is_empty() && misused.status.code() == Some(2), "{misused:?}");
    assert!(text(&misused.stderr).contains("not provided:\n  --output <FILE.toml>"), "{misused:?}");
}

#[test]
fn boards_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let listed = command(folder.path(), &["--board", "list", "--json"]);
    let boards = object(&listed)["boards"].as_array().unwrap().clone();
    assert!(boards.iter().any(|board| board["name"] == "raspberry-pi-4"), "{boards:?}");
    let listed = text(&command(folder.path(), &["--board", "list"]).stdout);
    assert_eq!(listed.lines().count(), boards.len());
}

#[test]
fn nothing_is_measured_in_vain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("wrong.toml"), "name = 7\n").unwrap();
    let other = if cfg!(target_arch = "aarch64") { "host-avx2" } else { "jetson-nano" };
    for (args, said) in [
        (&["-o", "missing/x.toml"][..], "cannot write missing/x.toml: "),
        (&["-o", "x.toml", "--board", other], "on the board itself"),
        (&["-o", "x.toml", "--dir", "missing", "--brief"], "missing"),
        (&["-o", "wrong.toml", "--board", "wrong.toml"], "which would be replaced"),
        (&["-o", "x.toml", "--board", "wrong.toml"], "wrong.toml:1: name: "),
    ] {
        let failed = command(path, &[args, &["--json"]].concat());
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
        let object = object(&failed);
        let error = object["error"].as_str().unwrap();
        assert!(error.contains(said), "{error}");
        assert_eq!(text(&failed.stderr), format!("eyelet-profile: error: {error}\n"));
        assert_eq!(object["line"].is_number(), said.contains("name"), "{object}");
        assert!(!path.join("x.toml").exists());
    }
}
