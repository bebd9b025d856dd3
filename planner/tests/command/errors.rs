//! Every error that a user of the command can cause: its text and its exit code.

use crate::common::command::{self, Done, SMALL, digits, eyelet_in, folder, packed};
use bytes::Bytes;
use eyelet::pack::crc32c::crc32c;
use eyelet_planner::import::onnx::{Dimension, DimensionProto, ModelProto, StringStringEntryProto};
use eyelet_planner::npy;
use prost::Message;
use std::path::Path;

/// Plans the digits' model as `change` leaves it, in a folder of its own inside `folder`.
fn plan_changed(folder: &Path, change: impl FnOnce(&mut ModelProto)) -> Done {
    let inside = folder.join("model");
    std::fs::create_dir_all(&inside).unwrap();
    let bytes = std::fs::read(digits()).unwrap();
    let mut model = ModelProto::decode(Bytes::from(bytes)).unwrap();
    change(&mut model);
    std::fs::write(inside.join("changed.onnx"), model.encode_to_vec()).unwrap();
    plan(folder, "model/changed.onnx", &[])
}

fn plan(folder: &Path, model: &str, more: &[&str]) -> Done {
    eyelet_in(folder, &[&["plan", model, "--budget", "1MiB"], more].concat())
}

fn run(folder: &Path, pack: &str, more: &[&str]) -> Done {
    eyelet_in(folder, &[&["run", pack, "--io", "buffered"], more].concat())
}

/// Writes a changed copy of the pack.
fn change_pack(folder: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(folder.join("digits.pack")).unwrap();
    change(&mut bytes);
    std::fs::write(folder.join("changed.pack"), bytes).unwrap();
}

/// Fails for every verb that reads packs.
#[track_caller]
fn pack_fails(folder: &Path, pack: &str, parts: &[&str]) {
    run(folder, pack, &[]).fails(parts);
    for io in ["direct", "memory"] {
        let done = eyelet_in(folder, &["run", pack, "--io", io]);
        if !done.err.contains("without direct I/O") {
            done.fails(parts);
        }
    }
    for verb in ["check", "inspect"] {
        eyelet_in(folder, &[verb, pack]).fails(parts);
    }
}

#[test]
fn missing_files() {
    let folder = folder();
    plan(folder.path(), "no.onnx", &[]).fails(&["cannot read the model no.onnx", "No such file"]);
    eyelet_in(folder.path(), &["plan", "no.onnx"]).fails(&["cannot read no.onnx", "No such file"]);
    pack_fails(folder.path(), "no.pack", &["cannot read no.pack", "No such file"]);
}

/// A board whose flash is read like memory: its packs are used where they lie.
#[test]
fn packs_for_mapped_flash_need_memory() {
    let folder = folder();
    let board = include_str!("../../../boards/portable/board.toml");
    let mapped = format!("{board}\n[profile.mapped]\ngbs = 0.1\n");
    std::fs::write(folder.path().join("mapped.toml"), mapped).unwrap();
    let plan = |board: &str, pack: &str, budget: &str| {
        let model = digits();
        let args =
            ["plan", model.to_str().unwrap(), "--board", board, "--exact", "--budget", budget];
        eyelet_in(folder.path(), &[&args[..], &["-o", pack]].concat())
    };
    let planned = plan("mapped.toml", "mapped.pack", "16KiB").text();
    assert!(planned.contains("of weights where they lie in the pack"), "{planned}");
    plan("mapped.toml", "none.pack", "4KiB").fails(&["smallest feasible one is 12 KiB"]);
    plan("portable", "read.pack", "1MiB").text();
    for io in ["direct", "buffered"] {
        let done = eyelet_in(folder.path(), &["run", "mapped.pack", "--io", io]);
        if !done.err.contains("without direct I/O") {
            done.fails(&["mapped.pack", "used where it lies", "give --io memory"]);
        }
    }
    let digest = |pack: &str| {
        let done = eyelet_in(folder.path(), &["run", pack, "--io", "memory", "--json"]);
        done.json()["output_digest"].as_str().unwrap().to_owned()
    };
    assert_eq!(digest("mapped.pack"), digest("read.pack"));
    eyelet_in(folder.path(), &["check", "mapped.pack"]).text();
    let inspected = eyelet_in(folder.path(), &["inspect", "mapped.pack"]).text();
    assert!(inspected.contains("of weights where they lie in the pack"), "{inspected}");
}

#[test]
fn not_an_onnx_file() {
    let folder = folder();
    std::fs::write(folder.path().join("x.onnx"), "#!/bin/sh\necho this is no model\n").unwrap();
    plan(folder.path(), "x.onnx", &[]).fails(&["x.onnx: ", "not an ONNX model"]);
    std::fs::write(folder.path().join("x.onnx"), "").unwrap();
    plan(folder.path(), "x.onnx", &[]).fails(&["not an ONNX model", "empty"]);
}

#[test]
fn truncated_onnx() {
    let folder = folder();
    let bytes = std::fs::read(digits()).unwrap();
    std::fs::write(folder.path().join("x.onnx"), &bytes[..bytes.len() / 2]).unwrap();
    plan(folder.path(), "x.onnx", &[]).fails(&["x.onnx: ", "truncated", "copy or export"]);
}

#[test]
fn external_data() {
    let folder = folder();
    std::fs::write(folder.path().join("secret"), [0; 4096]).unwrap();
    let at = |location: &'static str| {
        plan_changed(folder.path(), move |model| {
            let graph = model.graph.as_mut().unwrap();
            let tensor = graph.initializer.iter_mut().find(|t| !t.raw_data.is_empty()).unwrap();
            tensor.raw_data = Bytes::new();
            tensor.data_location = 1;
            let (key, value) = ("location".to_owned(), location.to_owned());
            tensor.external_data = vec![StringStringEntryProto { key, value }];
        })
    };
    at("weights.bin").fails(&["weights.bin", "No such file", "put the file beside the model"]);
    at("../secret").fails(&["`../secret`, outside the model's folder"]);
    at("/etc/passwd").fails(&["`/etc/passwd`, outside the model's folder"]);
}

/// An open dimension is an error whose last line is the command that fixes it.
#[test]
fn open_dimensions() {
    let folder = folder();
    let done = plan_changed(folder.path(), |model| {
        let input = &mut model.graph.as_mut().unwrap().input[0];
        let tensor = input.r#type.as_mut().unwrap().tensor_type.as_mut().unwrap();
        let value = Some(Dimension::Param("batch size".into()));
        tensor.shape.as_mut().unwrap().dim[0] = DimensionProto { value };
    });
    let command = "eyelet plan model/changed.onnx --budget 1MiB --dim 'batch size'=1";
    done.fails(&["1 of the model's inputs is not fixed", &format!("\n  {command}")]);
    let model = "model/changed.onnx";
    let fixed = plan(folder.path(), model, &["--dim", "batch size=1", "-o", "fixed.pack"]);
    assert!(fixed.text().contains("fixed.pack"));
    plan(folder.path(), model, &["--dim", "batch size=-1"]).misused(&["`-1` is no extent"]);
    let until = plan(folder.path(), model, &["--dim", "batch size=1", "--until", "nowhere"]);
    until.fails(&["--until nowhere: the model has no node or tensor of that name"]);
}

#[test]
fn unsupported_operator() {
    let folder = folder();
    let done = plan_changed(folder.path(), |model| {
        let node = &mut model.graph.as_mut().unwrap().node[1];
        (node.op_type, node.name) = ("Bernoulli".to_owned(), "middle".to_owned());
    });
    done.fails(&[
        "changed.onnx",
        "node `middle`",
        "operator `Bernoulli`",
        "opset 13",
        "not supported",
    ]);
}

/// Of a model with several faults all are reported, as text and for programs.
#[test]
fn all_blockers_of_a_model() {
    let folder = folder();
    let change = |model: &mut ModelProto| {
        let graph = model.graph.as_mut().unwrap();
        let last = graph.node.len() - 1;
        for (index, operator) in [(1, "Bernoulli"), (2, "Frobnicate"), (last, "Bernoulli")] {
            graph.node[index].op_type = operator.to_owned();
            graph.node[index].name = format!("n{index}");
        }
    };
    let done = plan_changed(folder.path(), change);
    let last = format!("`n{}`", digits_nodes() - 1);
    done.fails(&[
        "changed.onnx: 3 things stand between this model and a pack:",
        &format!("\n  operator `Bernoulli`, 2 nodes (`n1`, {last}): not supported; "),
        "\n  operator `Frobnicate`, 1 node (`n2`): not supported; ",
    ]);
    let done = plan(folder.path(), "model/changed.onnx", &["--json"]);
    assert_eq!(done.code, Some(1));
    let report: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let blockers = report["blockers"].as_array().unwrap();
    let named: Vec<&str> = blockers.iter().map(|one| one["operator"].as_str().unwrap()).collect();
    assert_eq!(named, ["Bernoulli", "Frobnicate", "Bernoulli"]);
    assert_eq!(blockers[1]["node"], "n2");
    assert!(blockers[1]["reason"].as_str().unwrap().starts_with("not supported; "), "{report}");
    assert!(report["error"].as_str().unwrap().contains("3 things"), "{report}");
}

fn digits_nodes() -> usize {
    let bytes = std::fs::read(digits()).unwrap();
    ModelProto::decode(Bytes::from(bytes)).unwrap().graph.unwrap().node.len()
}

#[test]
fn dynamic_shape() {
    let folder = folder();
    let done = plan_changed(folder.path(), |model| {
        let input = &mut model.graph.as_mut().unwrap().input[0];
        let tensor = input.r#type.as_mut().unwrap().tensor_type.as_mut().unwrap();
        let batch = DimensionProto { value: Some(Dimension::Param("batch".into())) };
        tensor.shape.as_mut().unwrap().dim[0] = batch;
    });
    done.fails(&["`input` [batch, 1, 8, 8]", "--budget 1MiB --dim batch=1"]);
}

#[test]
fn budget_too_small() {
    let folder = folder();
    std::fs::copy(digits(), folder.path().join("d.onnx")).unwrap();
    let small =
        |budget: &str| eyelet_in(folder.path(), &["plan", "d.onnx", "--budget", budget, "--json"]);
    let done = small("10KiB");
    let smallest: u64 = {
        let (_, after) = done.err.split_once("smallest feasible one is").expect(&done.err);
        let (_, bytes) = after.split_once('(').unwrap();
        bytes.split_once(" bytes").unwrap().0.parse().unwrap()
    };
    done.fails(&["a budget of 10 KiB (10240 bytes) is too small", "set by layer `"]);
    assert!(!folder.path().join("d.pack").exists());
    // It is feasible, and it is the smallest.
    small(&smallest.to_string()).json();
    small(&(smallest - 1).to_string()).fails(&[&format!("({smallest} bytes)")]);
}

#[test]
fn not_a_size() {
    let folder = packed();
    for (size, text) in [
        ("lots", "is not a size"),
        ("12MBs", "is not a size"),
        ("0", "a size is at least 1 byte"),
        ("-1MiB", "`-1MiB` is negative"),
        ("1.2.3K", "is not a size"),
        ("", "is not a size"),
    ] {
        let budget = format!("--budget={size}");
        eyelet_in(folder.path(), &["plan", "digits.onnx", &budget]).misused(&[text]);
        run(folder.path(), "digits.pack", &[&budget]).misused(&[text]);
    }
}

#[test]
fn nonsense_on_the_command_line() {
    let folder = packed();
    let misused = |args: &[&str], part: &str| eyelet_in(folder.path(), args).misused(&[part]);
    misused(&[], "Usage: eyelet");
    misused(&["fly"], "unrecognized subcommand 'fly'");
    misused(&["plan", "digits.onnx"], "--budget <SIZE>");
    misused(&["plan", "--board", "portable", "--budget", "1MiB"], "<MODEL>");
    misused(&["sizes", "image.elf"], "--board <BOARD>");
    misused(&["zoo"], "<NAME>");
    misused(&["run", "digits.pack", "--runs", "0"], "0 is not in 1..=");
    misused(&["run", "digits.pack", "--threads", "0"], "0 is not in 1..=");
    misused(&["run", "digits.pack", "--threads", "1000"], "1000 is not in 1..=");
    misused(&["run", "digits.pack", "--io", "psychic"], "direct, buffered, memory");
    misused(&["profile"], "--output <FILE.toml>");
}

#[test]
fn unknown_names() {
    let folder = packed();
    let path = folder.path();
    plan(path, "digits.onnx", &["--board", "etch-a-sketch"])
        .fails(&["no board `etch-a-sketch`", "jetson-nano"]);
    plan(path, "digits.onnx", &["--strategy", "hope"]).misused(&["no strategy `hope`", "flexnn"]);
    eyelet_in(path, &["zoo", "resnet34", "-o", "x.onnx"])
        .fails(&["no network \"resnet34\"", "resnet18"]);
    assert!(!path.join("x.onnx").exists());
}

#[test]
fn profiles_that_cannot_be_used() {
    let folder = packed();
    let path = folder.path();
    let with =
        |more: &[&str]| plan(path, "digits.onnx", &[&["--profile", "p.toml"], more].concat());
    with(&[]).fails(&["p.toml", "cannot be read", "No such file"]);
    std::fs::write(path.join("p.toml"), "threads = 2\n").unwrap();
    with(&[]).fails(&["p.toml:1: name: it is missing"]);
    let nano = eyelet_planner::board::Board::load("jetson-nano").unwrap().profile;
    std::fs::write(path.join("p.toml"), nano.to_toml()).unwrap();
    with(&["--board", "portable"]).fails(&["p.toml: the profile is for neon", "portable"]);
    let plan = ["plan", "digits.onnx", "--budget", "1MiB", "--board", "portable"];
    eyelet_in(path, &plan).text();
    eyelet_in(path, &["inspect", "digits.pack", "--profile", "p.toml"])
        .fails(&["p.toml: the profile is for neon", "digits.pack is for portable"]);
    let other = if cfg!(target_arch = "aarch64") { "host-avx2" } else { "jetson-nano" };
    eyelet_in(path, &["profile", "--board", other, "-o", "x.toml"])
        .fails(&[other, "on the board itself"]);
}

#[test]
fn pack_of_another_version() {
    let folder = packed();
    // The version is checked before the checksum, whose place another version may have elsewhere.
    change_pack(folder.path(), |bytes| bytes[8] = 77);
    let own = format!("reads version {}", eyelet::pack::VERSION);
    pack_fails(folder.path(), "changed.pack", &["changed.pack: ", "version 77", &own]);
}

#[test]
fn pack_for_another_instruction_set() {
    let folder = packed();
    let (board, isa) = match cfg!(target_arch = "aarch64") {
        true => ("host-avx2", "avx2"),
        false => ("jetson-nano", "neon"),
    };
    plan(folder.path(), "digits.onnx", &["--board", board, "-o", "other.pack"]).text();
    run(folder.path(), "other.pack", &[]).fails(&[
        "other.pack: the pack is for instruction set",
        isa,
        "plan the model for another board",
    ]);
}

#[test]
fn truncated_pack() {
    let folder = packed();
    let whole = std::fs::metadata(folder.path().join("digits.pack")).unwrap().len();
    for kept in [whole - 1, whole / 2, 5000, 4096, 4000, 100, 3] {
        change_pack(folder.path(), |bytes| bytes.truncate(kept as usize));
        let found = format!("changed.pack: the pack is {kept} bytes long");
        pack_fails(folder.path(), "changed.pack", &[&found, "truncated"]);
    }
}

#[test]
fn corrupted_pack() {
    let folder = packed();
    let path = folder.path();
    // The last byte of the weights: some layer's, or padding that is loaded with them.
    change_pack(path, |bytes| *bytes.last_mut().unwrap() ^= 0x10);
    let damage = ["changed.pack: load ", "checksum of the weights", "damaged"];
    run(path, "changed.pack", &[]).fails(&damage);
    eyelet_in(path, &["check", "changed.pack"]).fails(&damage);
    // Streamed weights are found during the inference that needs them.
    run(path, "changed.pack", &["--budget", SMALL, "--runs", "2"]).fails(&[
        "changed.pack: inference 1: load ",
        damage[1],
        damage[2],
    ]);
    run(path, "changed.pack", &["--no-verify"]).text();

    for (byte, section) in [(60, "header"), (4096, "skeleton"), (8192, "plan")] {
        change_pack(path, |bytes| bytes[byte] ^= 1);
        pack_fails(path, "changed.pack", &[&format!("checksum of the pack's {section}")]);
    }

    // What no inference needs is noticed by what does.
    change_pack(path, |bytes| {
        let size = size_of::<eyelet::pack::Header>();
        let header: eyelet::pack::Header = bytemuck::pod_read_unaligned(&bytes[..size]);
        bytes[header.names_offset as usize] ^= 1;
    });
    run(path, "changed.pack", &[]).text();
    eyelet_in(path, &["inspect", "changed.pack"]).fails(&["checksum of the pack's layers' names"]);
}

/// Checksums that fit do not make a plan right: here one whose arena ends before its last load does.
#[test]
fn forged_pack() {
    let folder = packed();
    change_pack(folder.path(), |bytes| {
        // arena_bytes of the first plan's entry, then the header's checksum.
        let entry = eyelet::pack::PLANS;
        let arena = u64::from_le_bytes(bytes[entry + 8..][..8].try_into().unwrap());
        bytes[entry + 8..][..8].copy_from_slice(&(arena - 4096).to_le_bytes());
        bytes[12..16].fill(0);
        let crc = crc32c(0, &bytes[..4096]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    });
    let path = folder.path();
    run(path, "changed.pack", &["--budget", SMALL]).fails(&["the pack is malformed", "against"]);
    eyelet_in(path, &["check", "changed.pack"]).fails(&["the pack is malformed", "against"]);
}

#[test]
fn not_a_pack() {
    let folder = packed();
    pack_fails(folder.path(), "digits.onnx", &["digits.onnx: not a pack", "eyelet plan"]);
    std::fs::write(folder.path().join("x.pack"), "hello").unwrap();
    pack_fails(folder.path(), "x.pack", &["x.pack: not a pack"]);
    std::fs::write(folder.path().join("x.pack"), "").unwrap();
    pack_fails(folder.path(), "x.pack", &["x.pack: not a pack"]);
    std::fs::create_dir(folder.path().join("dir.pack")).unwrap();
    pack_fails(folder.path(), "dir.pack", &["cannot read dir.pack", "directory"]);
}

/// Where nothing can be written. (Permissions do not stop root, a folder that is no folder does.)
#[test]
fn outputs_that_cannot_be_written() {
    let folder = packed();
    let path = folder.path();
    for (target, reason) in [
        ("missing/x", "No such file or directory"),
        ("digits.onnx/x", "Not a directory"),
        ("/proc/x", "No such file or directory"),
        (".", "directory"),
    ] {
        let named = format!("cannot write {target}: ");
        plan(path, "digits.onnx", &["-o", target]).fails(&[&named, reason]);
        let zoo = ["zoo", "squeezenet1_1", "-o", target];
        eyelet_in(path, &zoo).fails(&["cannot write ", target, reason]);
    }
    run(path, "digits.pack", &["--output", "digits.onnx"])
        .fails(&["cannot write digits.onnx", "exists"]);
    run(path, "digits.pack", &["--output", "/proc/self/x"]).fails(&["cannot write /proc/self/x"]);
    eyelet_in(path, &["demo", "--dir", "digits.onnx/x"]).fails(&["cannot write digits.onnx/x"]);
    let left: Vec<_> = std::fs::read_dir(path).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn full_device() {
    let folder = packed();
    let path = folder.path();
    eyelet_in(path, &["zoo", "squeezenet1_1", "-o", "/dev/full"])
        .fails(&["/dev/full", "No space left on device"]);
    // The size of a pack is set first, which a device refuses in its own way.
    plan(path, "digits.onnx", &["-o", "/dev/full"]).fails(&["cannot write /dev/full"]);
    let script = "\"$0\" inspect digits.pack > /dev/full";
    let done = shell(path, "sh", &["-c", script]);
    done.fails(&["cannot print: No space left on device"]);
}

/// Runs a script with the command as `$0`, and tells what it left.
fn shell(folder: &Path, program: &str, args: &[&str]) -> Done {
    let done = command::program(program)
        .args(args)
        .arg(env!("CARGO_BIN_EXE_eyelet"))
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done { code: done.status.code(), out: text(done.stdout), err: text(done.stderr) }
}

/// Disks that are truly full and truly read-only, where this user may mount such: in a name space of its
/// own, that is most often everyone.
#[test]
fn full_and_read_only_disks() {
    let folder = packed();
    let path = folder.path();
    std::fs::create_dir(path.join("disk")).unwrap();
    let mounted = |options: &str, verb: &str| {
        let script =
            format!("mount -t tmpfs -o {options} none disk || exit 77; exec \"$0\" {verb}");
        shell(path, "unshare", &["-rm", "sh", "-c", &script])
    };
    if mounted("size=64k", "--version").code != Some(0) {
        return;
    }
    let verbs = [
        ("plan digits.onnx --budget 1MiB -o disk/x", "cannot write disk/x: "),
        ("zoo squeezenet1_1 -o disk/x", "disk/x: "),
        ("profile -o disk/x", "disk"),
        ("demo --json --dir disk", "disk"),
    ];
    for (verb, named) in verbs {
        if verb.starts_with("profile") {
            // It has to write what it reads.
            mounted("ro", verb).fails(&[named]);
            continue;
        }
        mounted("size=64k", verb).fails(&[named, "No space left on device"]);
        mounted("ro", verb).fails(&[named, "Read-only file system (os error 30)\n"]);
    }
    let output = "run digits.pack --io buffered --output disk";
    mounted("ro", output).fails(&["cannot write disk/", "Read-only file system (os error 30)\n"]);
}

/// A pack in memory has no storage behind it that could be read directly.
#[test]
fn storage_without_direct_io() {
    let shared = Path::new("/dev/shm");
    if !shared.is_dir() {
        return;
    }
    let folder = packed();
    let memory = tempfile::tempdir_in(shared).unwrap();
    std::fs::copy(folder.path().join("digits.pack"), memory.path().join("digits.pack")).unwrap();
    let direct = eyelet_in(memory.path(), &["run", "digits.pack"]);
    direct.fails(&["digits.pack: storage without direct I/O", "use --io buffered"]);
    run(memory.path(), "digits.pack", &[]).text();
}

#[test]
fn more_threads_than_planned() {
    let folder = packed();
    run(folder.path(), "digits.pack", &["--threads", "3"]).fails(&[
        "3 threads asked for, the plan has scratch for 2",
        "plan with --threads 3 or run with fewer",
    ]);
}

#[test]
fn no_plan_for_the_budget() {
    let folder = packed();
    run(folder.path(), "digits.pack", &["--budget", "64KiB"])
        .fails(&["digits.pack: no plan fits a budget of 64 KiB", "it has plans for 96 KiB, 1 MiB"]);
}

#[test]
fn inputs_that_do_not_fit() {
    let folder = packed();
    let path = folder.path();
    let with = |files: &[&str]| {
        let options: Vec<&str> = files.iter().flat_map(|file| ["--input", file]).collect();
        run(path, "digits.pack", &options)
    };
    with(&["x.npy"]).fails(&["x.npy", "No such file"]);
    npy::write(path.join("x.npy"), &[1, 1, 8, 9], &[0.0; 72]).unwrap();
    with(&["x.npy"]).fails(&["input `", "x.npy has shape [1, 1, 8, 9]; needed is [1, 1, 8, 8]"]);
    npy::write(path.join("x.npy"), &[1, 1, 8, 8], &[0.0; 64]).unwrap();
    with(&["x.npy", "x.npy"]).fails(&["the network has 1 input", "but 2 --input options"]);
    with(&["x.npy"]).text();
    with(&["digits.onnx"]).fails(&["digits.onnx is not a .npy file"]);

    // Complex numbers, and one element short.
    let whole = std::fs::read(path.join("x.npy")).unwrap();
    let text = whole.iter().map(|byte| *byte as char).collect::<String>().replace("<f4", "<c8");
    std::fs::write(path.join("y.npy"), text.chars().map(|c| c as u8).collect::<Vec<u8>>()).unwrap();
    with(&["y.npy"]).fails(&["y.npy holds elements of type", "c8", ".astype('f4')"]);
    std::fs::write(path.join("y.npy"), &whole[..whole.len() - 4]).unwrap();
    with(&["y.npy"]).fails(&["y.npy is truncated", "256 bytes of data, the file has 252"]);
}
