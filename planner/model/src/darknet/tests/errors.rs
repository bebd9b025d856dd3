//! Errors say where and why; no bytes make the reader panic.

use super::*;

/// A description with these sections after `[net]` of an image 3x8x8.
fn with(sections: &str) -> String {
    format!("[net]\nchannels=3\nheight=8\nwidth=8\n{sections}\n")
}

#[track_caller]
fn refused(text: &str, parts: &[&str]) {
    let error = import_bytes("net", text.as_bytes(), file([0, 2], &[])).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

#[test]
fn what_is_wrong_with_a_description() {
    refused("", &["no layers"]);
    refused("[net]\nchannels=3\nheight=8\nwidth=8", &["no layers"]);
    refused("layers=3\n", &["line 1", "before [net]"]);
    refused("[avgpool]\n", &["line 1", "begins with [net]"]);
    refused("[net]\nchannels=3\n[avgpool]\n", &["line 1", "height and width"]);
    refused("[net]\nheight=0\n", &["line 2", "height=0", "1 to"]);
    refused(&with("[avgpool"), &["line 5", "[avgpool", "bracket"]);
    refused(&with("[avgpool]\nwhat is this"), &["line 6", "whatisthis", "key=value"]);
    refused(&with("[lstm]"), &["line 5", "[lstm]", "supported are convolutional"]);
    refused(&with("[conv]\nfilter=3"), &["line 6", "filter=3", "no such key"]);
    refused(&with("[conv]\nxnor=1\nactivation=relu"), &["line 6", "xnor=1", "not supported"]);
    refused(&with("[conv]\nsize=x"), &["line 6", "size=x", "whole number"]);
    refused(&with("[conv]\nsize=9"), &["size=9", "over 9 places", "there are 8"]);
    refused(&with("[conv]\nactivation=stair"), &["activation=stair", "leaky"]);
    refused(&with("[conv]\ngroups=2\nactivation=relu"), &["groups=2", "3 channels", "1 filters"]);
    refused(&with("[conv]\nsize=3\ndilation=2\nactivation=relu"), &["dilation=2", "pad=1"]);
    refused(&with("[maxpool]\nsize=2\npadding=9"), &["padding=9", "in the padding alone"]);
    refused(&with("[dropout]\n[route]\nlayers=-2"), &["layers=-2", "no layer -2; 1 come"]);
    refused(&with("[dropout]\n[route]\nlayers=4"), &["no layer 4"]);
    refused(&with("[route]"), &["layers: is missing"]);
    refused(
        &with("[dropout]\n[maxpool]\nstride=2\n[route]\nlayers=0,1"),
        &["layer 1 has 4x4", "8x8"],
    );
    refused(&with("[maxpool]\nstride=2\n[upsample]\n[shortcut]\nfrom=0"), &["4x4 places", "8x8"]);
    refused(&with("[dropout]\n[shortcut]\nfrom=0\nweights_type=per_channel"), &["only none"]);
    refused(&with("[reorg]\nstride=2"), &["stride=2", "3x8x8"]);
    refused(&with("[yolo]\nclasses=80\nmask=0,1,2"), &["3 boxes of 80 classes need 255", "are 3"]);
    refused(&with("[yolo]\nclasses=0\nmask=0"), &["need 5 channels"]);
    refused(
        &with("[region]\nclasses=1\nnum=1\ncoords=1\n[route]\nlayers=0"),
        &["layer 0 is a head"],
    );
    refused(&with("[upsample]\nstride=2147483647"), &["2^40"]);
    refused(
        &with("[connected]\noutput=2147483647\nactivation=relu\n[connected]\noutput=2147483647"),
        &["2^40"],
    );
}

#[test]
fn what_is_wrong_with_weights() {
    let text = with("[conv]\nfilters=2\nactivation=leaky\n[conv]\nactivation=linear");
    let read = |bytes: Bytes| import_bytes("net", text.as_bytes(), bytes).map(|_| ());
    // 2 + 6, then 1 + 2 numbers.
    assert!(read(file([0, 2], &[0; 44])).is_ok());
    assert!(read(file([0, 1], &[0; 44])).is_ok());
    for (bytes, parts) in [
        (Bytes::from(vec![0; 15]), &["15 bytes", "header of 16"][..]),
        (Bytes::from(vec![1; 16]), &["truncated", "need 60", "has 16"]),
        (file([0, 2], &[]).slice(..19), &["19 bytes", "header of 20"]),
        (file([0, 2], &[0; 43]), &["need 64 bytes", "has 63", "conv_1", "line 8"]),
        (file([0, 2], &[0; 31]), &["need 64 bytes", "has 51", "conv_0", "line 5"]),
        (file([0, 2], &[0; 48]), &["has 68 bytes", "need 64"]),
    ] {
        let error = read(bytes).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("net.cfg");
    let error = import(&config, None).unwrap_err().to_string();
    assert!(error.contains("net.cfg") && error.contains("No such file"), "{error}");
    std::fs::write(&config, with("[avgpool]")).unwrap();
    let error = import(&config, None).unwrap_err().to_string();
    assert!(error.contains("net.weights") && error.contains("--weights-file"), "{error}");
    let weights = folder.path().join("other");
    std::fs::write(&weights, file([0, 2], &[])).unwrap();
    assert_eq!(import(&config, Some(&weights)).unwrap().name, "net");
    std::fs::rename(&weights, folder.path().join("net.weights")).unwrap();
    assert_eq!(crate::import::import(&config).unwrap().name, "net");
    assert_eq!(crate::import::external_files(&config), [folder.path().join("net.weights")]);
}

#[test]
fn random_changes_never_panic() {
    let text = with(
        "[conv]\nfilters=4\nsize=3\npad=1\nbatch_normalize=1\nactivation=leaky\n[maxpool]\nsize=2\nstride=2\n\
         [conv]\nfilters=4\ngroups=2\nactivation=mish\n[shortcut]\nfrom=-2\n[upsample]\n[route]\nlayers=-1,0\n\
         [reorg]\nstride=2\n[avgpool]\n[connected]\noutput=6\nactivation=linear\n[softmax]",
    );
    let numbers = described(text.as_bytes()).unwrap().numbers();
    let weights = file([0, 2], &vec![0; 4 * numbers]);
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let (mut read, original) = (0, text.into_bytes());
    for _ in 0..10_000 {
        let mut bytes = original.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            match random.random_range(0..4) {
                0 => bytes[at] = *b"0123456789-=[],".choose(&mut random).unwrap(),
                1 => bytes[at] = random.random(),
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"0123456789"[random.random_range(0..10)]),
            }
        }
        // As many numbers as it asks for, if they are few.
        let asked = described(&bytes).map(|layers| layers.numbers());
        let own = match asked {
            Ok(asked) if asked < 1 << 16 => file([0, 2], &vec![0; 4 * asked]),
            _ => weights.clone(),
        };
        let Ok(graph) = import_bytes("net", &bytes, own) else { continue };
        read += 1;
        let work: usize = graph.values.iter().map(|value| value.elements()).max().unwrap();
        if work < 4000 {
            let input = |id: &usize| vec![1.0; graph.values[*id].elements()];
            reference::run(&graph, &graph.inputs.iter().map(input).collect::<Vec<_>>());
        }
    }
    assert!(read > 50, "{read}");
}
