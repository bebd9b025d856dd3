//! The built command, and a small pack to try it on.
#![allow(dead_code)]

use super::board;
use eyelet_planner::board::HOST_BOARD;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// What a run of the command left.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// The command, which takes the board that tests plan for to be its host.
pub fn command() -> Command {
    program(env!("CARGO_BIN_EXE_eyelet"))
}

/// A program that may run the command.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    if std::env::var_os(HOST_BOARD).is_none() {
        command.env(HOST_BOARD, board::NAME);
    }
    command
}

/// Runs the command in `folder`.
pub fn eyelet_in(folder: &Path, args: &[impl AsRef<OsStr>]) -> Done {
    run_in(command(), folder, args)
}

fn run_in(mut command: Command, folder: &Path, args: &[impl AsRef<OsStr>]) -> Done {
    let done = command.args(args).current_dir(folder).stdin(Stdio::null()).output();
    let done = done.expect("the command starts");
    Done {
        code: done.status.code(),
        out: String::from_utf8(done.stdout).expect("UTF-8"),
        err: String::from_utf8(done.stderr).expect("UTF-8"),
    }
}

/// Runs the command in `folder`, where the kernel gives it no more than so much memory that is its own.
pub fn within(folder: &Path, bytes: u64, args: &[impl AsRef<OsStr>]) -> Done {
    let mut command = command();
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the child only sets its own limit.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_DATA, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    run_in(command, folder, args)
}

/// Runs the command in `folder`, and ends it where it waits: what it is to refuse at once would keep a test for ever.
pub fn at_once(folder: &Path, args: &[impl AsRef<OsStr>]) -> Done {
    let mut command = program("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_eyelet")]);
    run_in(command, folder, args)
}

impl Done {
    /// It worked: what it printed.
    #[track_caller]
    pub fn text(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// It worked and printed one JSON object, and nothing else.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let text = self.text();
        let value: serde_json::Value = serde_json::from_str(&text).expect("one JSON value");
        assert!(value.is_object(), "{text}");
        value
    }

    /// It failed, and says so as it should, with all these parts.
    #[track_caller]
    pub fn fails(self, parts: &[&str]) {
        assert_eq!(self.code, Some(1), "{self:?}");
        self.has_no_report();
        assert!(self.err.starts_with("eyelet: error: "), "{}", self.err);
        self.says(parts);
    }

    /// The command line made no sense.
    #[track_caller]
    pub fn misused(self, parts: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:?}");
        self.has_no_report();
        self.says(parts);
    }

    /// It printed nothing, or with `--json` what is wrong.
    #[track_caller]
    fn has_no_report(&self) {
        if !self.out.is_empty() {
            let object: serde_json::Value =
                serde_json::from_str(&self.out).expect("one JSON value");
            let text = object["error"].as_str().expect("an error");
            assert!(self.err.contains(text), "{self:?}");
        }
    }

    #[track_caller]
    fn says(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is not in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }
}

/// The model that is committed with the tests.
pub fn digits() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/digits/digits.onnx")
}

/// A folder on the disk that holds the build, where direct I/O is likelier than in the system's own for
/// temporary files.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// A budget that is less than the weights of the digits' network.
pub const SMALL: &str = "96KiB";
/// One that holds all of it.
pub const LARGE: &str = "1MiB";

/// A folder with `digits.onnx` and `digits.pack`, which has a plan for [`SMALL`] and one for [`LARGE`].
pub fn packed() -> tempfile::TempDir {
    static PACK: OnceLock<Vec<u8>> = OnceLock::new();
    let pack = PACK.get_or_init(|| {
        let folder = folder();
        let model = digits();
        let model = model.to_str().expect("UTF-8");
        let plan = ["plan", model, "--budget", SMALL, "--budget", LARGE, "--threads", "2"];
        eyelet_in(folder.path(), &[&plan[..], &["-o", "digits.pack"]].concat()).text();
        std::fs::read(folder.path().join("digits.pack")).expect("a pack")
    });
    let folder = folder();
    std::fs::copy(digits(), folder.path().join("digits.onnx")).expect("a copy");
    std::fs::write(folder.path().join("digits.pack"), pack).expect("a copy");
    folder
}
