//! Where verbs write: what cannot be written is refused before the work, and nobody is waited for.

use crate::common::command::{Done, at_once, packed};
use std::fs;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;

/// A folder with what verbs read, and with destinations that are no files.
fn strange() -> tempfile::TempDir {
    let folder = packed();
    let at = |name: &str| folder.path().join(name);
    for name in ["fifo", "fifo.pack", "fifo.csv", "fifo.cfg", "fifo.svg"] {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at(name), fifo, mode, 0).unwrap();
    }
    for name in ["self", "self.pack", "self.csv", "self.cfg", "self.svg"] {
        symlink(name, at(name)).unwrap();
    }
    for name in ["dir", "dir.csv", "dir.cfg", "dir.svg"] {
        fs::create_dir(at(name)).unwrap();
    }
    image::GrayImage::new(8, 8).save(at("grey.png")).unwrap();
    let set = "memory = \"2MiB\"\nchunks = [\"4KiB\"]\n[storage]\nread = \"1GB/s\"\n\
        [[task]]\nname = \"pack\"\nperiod = \"10s\"\npack = \"digits.pack\"\n";
    fs::write(at("set.toml"), set).unwrap();
    folder
}

/// Calls with `OUT` where the destination goes, and the extension that it must have.
const WRITERS: [(&[&str], &str); 15] = [
    (&["zoo", "squeezenet1_1", "-o", "OUT"], ""),
    (&["zoo", "yolov3", "-o", "OUT"], ".cfg"),
    (&["taskgen", "-o", "OUT"], ""),
    (&["profile", "--once", "-o", "OUT"], ""),
    (&["sweep", "digits.onnx", "--budgets", "64KiB..1MiB", "-o", "OUT"], ".csv"),
    (&["plan", "digits.onnx", "--budget", "1MiB", "-o", "new.pack", "--report", "OUT"], ""),
    (&["run", "digits.pack", "--io", "buffered", "--trace", "OUT"], ""),
    (&["run", "digits.pack", "--io", "buffered", "--report", "OUT"], ""),
    (&["run", "digits.pack", "--io", "buffered", "--image", "grey.png", "--csv", "OUT"], ""),
    (&["run", "digits.pack", "--io", "buffered", "--image", "grey.png", "--draw", "OUT"], ""),
    (&["bench", "digits.pack", "--io", "buffered", "--export", "OUT"], ".csv"),
    (&["schedule", "set.toml", "--report", "OUT"], ""),
    (&["serve", "set.toml", "--trace", "OUT"], ""),
    (&["sizes", "digits.pack", "--board", "mps3-an547", "--save", "OUT"], ""),
    (&["sweep", "digits.onnx", "--budgets", "64KiB..1MiB", "-o", "OUT"], ".svg"),
];

fn call(folder: &Path, args: &[&str], to: &str) -> Done {
    let args: Vec<&str> = args.iter().map(|word| if *word == "OUT" { to } else { word }).collect();
    at_once(folder, &args)
}

#[test]
fn what_cannot_be_written_is_refused_and_nobody_waited_for() {
    let folder = strange();
    for (args, extension) in WRITERS {
        for (name, why) in [
            ("fifo", "FIFO (a named pipe) that nobody reads"),
            ("self", "symbolic links"),
            ("dir", "directory"),
        ] {
            let to = format!("{name}{extension}");
            call(folder.path(), args, &to).fails(&["cannot write", &to, why]);
        }
        assert!(!folder.path().join("new.pack").exists(), "{args:?}: found after the work");
    }
}

/// Packs are read back while they are written.
#[test]
fn packs_are_written_to_files_alone() {
    let folder = strange();
    let plan = ["plan", "digits.onnx", "--budget", "1KiB", "-o", "OUT"];
    for (to, why) in [
        ("fifo", "it is no regular file"),
        ("/dev/null", "it is no regular file"),
        ("/dev/full", "it is no regular file"),
        ("self", "symbolic links"),
        ("dir", "directory"),
    ] {
        call(folder.path(), &plan, to).fails(&["cannot write", to, why]);
    }
    let schedule = ["schedule", "set.toml", "-o", "OUT"];
    for (to, why) in [
        ("fifo", "it is no regular file"),
        ("self", "symbolic links"),
        ("/dev/null", "it is no regular file"),
    ] {
        call(folder.path(), &schedule, to).fails(&["cannot write", to, why]);
    }
    for (to, why) in [("fifo", "exists"), ("self", "exists"), ("/dev/null", "exists")] {
        let run = ["run", "digits.pack", "--io", "buffered", "--output", "OUT"];
        call(folder.path(), &run, to).fails(&["cannot write", to, why]);
        call(folder.path(), &["man", "OUT"], to).fails(&["cannot write", to, why]);
    }
}

#[test]
fn devices_and_fifos_with_a_reader_are_written_to() {
    let folder = strange();
    let taskgen = ["taskgen", "-o", "OUT"];
    call(folder.path(), &taskgen, "/dev/null").text();
    call(folder.path(), &taskgen, "/dev/full").fails(&["cannot write /dev/full", "No space left"]);
    let fifo = folder.path().join("fifo");
    let reader = fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(fifo);
    call(folder.path(), &taskgen, "fifo").text();
    let written = std::io::read_to_string(reader.unwrap()).unwrap();
    assert!(written.contains("[[task]]"), "{written}");
}
