//! What has a path and is no file.

use crate::common::command::{at_once, eyelet_in, packed, within};
use std::os::unix::net::UnixListener;

#[test]
fn fifos_folders_sockets_and_devices_are_refused_at_once() {
    let folder = packed();
    let at = |name: &str| folder.path().join(name);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo.x"), fifo, mode, 0).unwrap();
    std::fs::create_dir(at("folder.x")).unwrap();
    image::GrayImage::new(8, 8).save(at("grey.png")).unwrap();
    let _socket = UnixListener::bind(at("socket.x")).unwrap();
    let strange = [
        ("fifo.x", "FIFO"),
        ("folder.x", "directory"),
        ("socket.x", "socket"),
        ("/dev/zero", "character device"),
    ];
    for (path, what) in strange {
        let fails = |args: &[&str]| at_once(folder.path(), args).fails(&[path, what]);
        fails(&["plan", path, "--budget", "1MiB", "-o", "new.pack"]);
        fails(&["sweep", path, "--budgets", "64KiB..1MiB"]);
        fails(&["chunks", path]);
        fails(&["inspect", path]);
        fails(&["check", path]);
        for io in ["direct", "buffered", "memory"] {
            fails(&["run", path, "--io", io]);
        }
        let run = ["run", "digits.pack", "--io", "buffered"];
        for option in ["--input", "--image", "--labels"] {
            let picture = if option == "--labels" { &["--image", "grey.png"][..] } else { &[] };
            fails(&[&run[..], picture, &[option, path]].concat());
        }
        fails(&["sizes", path, "--board", "mps3-an547"]);
        fails(&["bench", path]);
        fails(&["plan", "digits.onnx", "--budget", "1MiB", "--profile", path]);
        fails(&["inspect", "digits.pack", "--profile", path]);
        if what != "directory" {
            // A folder has a board in it.
            fails(&["plan", "digits.onnx", "--budget", "1MiB", "--board", path]);
            fails(&["run", "digits.pack", "--io", "buffered", "--pace", path]);
        }
        fails(&["schedule", path]);
        fails(&["serve", path]);
    }
}

/// Its bytes are zeros that take no room, and its length is a terabyte.
#[test]
fn long_files_are_refused_before_they_are_read() {
    let folder = packed();
    let at = |name: &str| folder.path().join(name);
    image::GrayImage::new(8, 8).save(at("grey.png")).unwrap();
    for name in ["long.toml", "long.txt", "long.json"] {
        std::fs::File::create(at(name)).unwrap().set_len(1 << 40).unwrap();
    }
    let fails = |file: &str, most: u64, args: &[&str]| {
        let most = format!("at most {most}");
        let parts = [file, "1099511627776 bytes", &most];
        within(folder.path(), 64 << 20, args).fails(&parts);
    };
    let (description, list) = (1 << 20, 64 << 20);
    let image = ["run", "digits.pack", "--io", "buffered", "--image", "grey.png"];
    fails("long.txt", list, &[&image[..], &["--labels", "long.txt"]].concat());
    fails("long.toml", description, &[&image[..], &["--preprocess", "long.toml"]].concat());
    fails("long.toml", list, &["schedule", "long.toml"]);
    fails("long.toml", list, &["serve", "long.toml"]);
    let plan = ["plan", "digits.onnx", "--budget", "1MiB"];
    for option in ["--board", "--profile"] {
        fails("long.toml", description, &[&plan[..], &[option, "./long.toml"]].concat());
    }
    std::fs::rename(at("long.toml"), at("eyelet.toml")).unwrap();
    let done = eyelet_in(folder.path(), &plan);
    done.misused(&["eyelet.toml", "1099511627776 bytes", "at most 1048576"]);
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
