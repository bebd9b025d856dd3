//! Networks of Darknet, from description and weights to outputs.

use crate::common::command::eyelet_in;
use eyelet_planner::npy;
use std::fs;
use std::path::{Path, PathBuf};

/// A detector of a few layers, with weights of its own.
fn detector(folder: &Path) -> PathBuf {
    let text = "[net]\nchannels=3\nheight=32\nwidth=32\n\
        [convolutional]\nfilters=16\nsize=3\npad=1\nstride=2\nbatch_normalize=1\nactivation=mish\n\
        [maxpool]\nsize=5\nstride=1\n[route]\nlayers=-1,0\n\
        [convolutional]\nfilters=16\nsize=1\nbatch_normalize=1\nactivation=leaky\n[shortcut]\nfrom=0\n\
        [convolutional]\nfilters=18\nactivation=linear\n[yolo]\nclasses=1\nmask=0,1,2\n[route]\nlayers=-3\n\
        [upsample]\n[convolutional]\nfilters=18\nactivation=linear\n[yolo]\nclasses=1\nmask=0,1,2\n";
    let bytes = eyelet_planner::darknet::weights_bytes(text.as_bytes()).unwrap();
    let header = [0u32, 2, 0, 0, 0].into_iter().flat_map(u32::to_le_bytes);
    // All positive, as variances must be.
    let numbers =
        (0..bytes / 4 - 5).flat_map(|at| ((at * 37 % 64) as f32 / 256.0 + 0.1).to_le_bytes());
    fs::write(folder.join("net.cfg"), text).unwrap();
    fs::write(folder.join("net.weights"), header.chain(numbers).collect::<Vec<u8>>()).unwrap();
    folder.join("net.cfg")
}

#[test]
fn a_network_of_darknet_is_planned_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let config = detector(folder.path());
    let input: Vec<f32> = (0..3 * 32 * 32).map(|at| (at * 13 % 101) as f32 / 101.0).collect();
    npy::write(folder.path().join("x.npy"), &[1, 3, 32, 32], &input).unwrap();
    let least = eyelet_in(folder.path(), &["plan", "net.cfg", "--min-budget", "--json"]).json();
    let least = least["min_budget_bytes"].as_u64().unwrap().to_string();
    eyelet_in(folder.path(), &["plan", "net.cfg", "--budget", &least, "8MiB", "--exact"]).text();
    eyelet_in(folder.path(), &["check", "net.pack"]).text();
    let args =
        ["--io", "buffered", "--input", "x.npy", "--output", "y", "--budget", &least, "--json"];
    let report = eyelet_in(folder.path(), &[&["run", "net.pack"][..], &args].concat()).json();
    let graph = eyelet_planner::import::import(&config).unwrap();
    let input = input.into_iter().map(f64::from).collect();
    let expected = eyelet_planner::reference::run(&graph, &[input]);
    assert_eq!(expected.len(), 2);
    for (at, (name, expected)) in ["yolo_6", "yolo_10"].into_iter().zip(expected).enumerate() {
        let file = report["outputs"][at]["file"].as_str().unwrap();
        assert!(file.contains(name), "{file}");
        let (_, found) = npy::read(folder.path().join(file)).unwrap();
        let scale = expected.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        assert_eq!(found.len(), expected.len());
        let near =
            |(found, expected): (&f32, &f64)| (f64::from(*found) - expected).abs() <= 1e-5 * scale;
        assert!(found.iter().zip(&expected).all(near), "{name}");
    }
}

#[test]
fn the_weights_of_a_network_of_darknet_may_be_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    detector(folder.path());
    let at = |name: &str| folder.path().join(name);
    fs::rename(at("net.weights"), at("other")).unwrap();
    let plan = ["plan", "net.cfg", "--budget", "8MiB"];
    eyelet_in(folder.path(), &plan).fails(&["net.weights", "--weights-file"]);
    eyelet_in(folder.path(), &[&plan[..], &["--weights-file", "other"]].concat()).text();
    let onto = [&plan[..], &["--weights-file", "other", "-o", "other"]].concat();
    eyelet_in(folder.path(), &onto).fails(&["would be replaced"]);
    fs::copy(at("net.cfg"), at("net.onnx")).unwrap();
    eyelet_in(folder.path(), &[&plan[..], &["--dim", "n=1"]].concat()).fails(&["--dim", "Darknet"]);
    let onnx = ["plan", "net.onnx", "--budget", "8MiB", "--weights-file", "other"];
    eyelet_in(folder.path(), &onnx).fails(&["--weights-file", ".cfg"]);
    fs::write(at("net.weights"), [0; 99]).unwrap();
    eyelet_in(folder.path(), &plan).fails(&["net.cfg: ", "truncated", "99"]);
}
