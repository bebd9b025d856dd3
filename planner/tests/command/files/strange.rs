//! What has a path and is no file.

use crate::common::command::{eyelet_in, packed};
use std::os::unix::net::UnixListener;

#[test]
fn fifos_folders_sockets_and_devices_are_refused_at_once() {
    let folder = packed();
    let at = |name: &str| folder.path().join(name);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo.x"), fifo, mode, 0).unwrap();
    std::fs::create_dir(at("folder.x")).unwrap();
    let _socket = UnixListener::bind(at("socket.x")).unwrap();
    let strange = [
        ("fifo.x", "FIFO"),
        ("folder.x", "directory"),
        ("socket.x", "socket"),
        ("/dev/zero", "character device"),
    ];
    for (path, what) in strange {
        let fails = |args: &[&str]| eyelet_in(folder.path(), args).fails(&[path, what]);
        fails(&["plan", path, "--budget", "1MiB", "-o", "new.pack"]);
        fails(&["sweep", path, "--budgets", "64KiB..1MiB"]);
        fails(&["chunks", path]);
        fails(&["inspect", path]);
        fails(&["check", path]);
        for io in ["direct", "buffered", "memory"] {
            fails(&["run", path, "--io", io]);
        }
        fails(&["run", "digits.pack", "--io", "buffered", "--input", path]);
        fails(&["plan", "digits.onnx", "--budget", "1MiB", "--profile", path]);
        fails(&["inspect", "digits.pack", "--profile", path]);
        if what != "directory" {
            // A folder has a board in it.
            fails(&["plan", "digits.onnx", "--budget", "1MiB", "--board", path]);
            fails(&["run", "digits.pack", "--io", "buffered", "--pace", path]);
            // A folder may be a set.
            fails(&["schedule", path]);
            fails(&["serve", path]);
        }
    }
}

#[test]
fn a_pack_may_be_shorter_than_what_it_lies_in() {
    let folder = packed();
    let pack = std::fs::read(folder.path().join("digits.pack")).unwrap();
    let digest = |pack: &str, io: &str| {
        let run = ["run", pack, "--io", io, "--json"];
        let done = eyelet_in(folder.path(), &run);
        match done.err.contains("without direct I/O") {
            true => None,
            false => Some(done.json()["output_digest"].clone()),
        }
    };
    for more in [1, 4096, 3 << 20] {
        let longer = [&pack[..], &vec![0xaa; more]].concat();
        std::fs::write(folder.path().join("longer.pack"), longer).unwrap();
        for io in ["direct", "buffered", "memory"] {
            assert_eq!(digest("longer.pack", io), digest("digits.pack", io), "{more} {io}");
        }
        for verb in ["check", "inspect", "chunks"] {
            eyelet_in(folder.path(), &[verb, "longer.pack"]).text();
        }
    }
}
