//! Reference networks, written as ONNX files (detectors as Darknet's) with random weights.
//!
//! Each has the operators, shapes and parameters of torchvision's network of the same name (transformers': of
//! GPT-2) as `torch.onnx.export` writes it: in evaluation mode, batch norms folded into the convolutions,
//! 224x224 images (Inception: 299x299; FCN: 520x520; GPT-2: 64 tokens; RNN: 32 characters), batch 1. Planning, memory and speed depend on
//! nothing else, so measurements need no download; weights are scaled so that activations keep their size through the
//! whole depth, and the outputs can be compared.
//!
//! The same name and seed give the same bytes on every machine.

mod darknet;
mod encode;
mod fill;
mod inception;
mod inception_v4;
mod model;
mod nasnet;
mod networks;
mod parts;
mod recurrent;
mod resnet;
mod segmentation;
mod transformers;
mod yolov8;

pub use encode::encode;
pub use model::{Initializer, Model};

use crate::darknet::{is_config, weights_of};
use crate::replace::{Sink, replace};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The networks there are.
pub const NAMES: &[&str] = &[
    "squeezenet1_1",
    "mobilenet_v2",
    "resnet18",
    "resnet50",
    "resnet101",
    "resnet152",
    "vgg19",
    "densenet121",
    "densenet201",
    "resnext50_32x4d",
    "resnext101_32x8d",
    "wide_resnet50_2",
    "wide_resnet152",
    "inception_v3",
    "inception_v4",
    "nasnet_a",
    "vit_b_16",
    "vit_b_16_384",
    "ds_cnn",
    "gpt2",
    "yolov8n",
    "fcn_resnet50",
    "unet",
    "rnn",
    "brnn",
    "yolov3",
    "yolov4",
    "yolov4_p6",
];

/// Why a network could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the zoo has no network {name:?}; it has {}", NAMES.join(", "))]
    UnknownName { name: String },
    #[error("cannot write {name} ({bytes} bytes) to {}: {source}", path.display())]
    Write { name: String, bytes: u64, path: PathBuf, source: io::Error },
    #[error("{name} is a network of Darknet, and {} has not the extension .cfg; give -o {name}.cfg", path.display())]
    NotConfig { name: String, path: PathBuf },
}

/// Describes the network of that name, without its weights.
pub fn model(name: &str) -> Result<Model, Error> {
    networks::build(name).ok_or_else(|| Error::UnknownName { name: name.to_string() })
}

/// Writes the network, ONNX or of Darknet; on failure nothing is left at `path` but what was there.
///
/// The weights are made as they are written: memory stays below a mebibyte whatever the network. Of a network of Darknet
/// `path` gets the description, and the weights lie next to it.
pub fn write(name: &str, seed: u64, path: impl AsRef<Path>) -> Result<(), Error> {
    write_through(&model(name)?, path.as_ref(), |model, sink| encode(model, seed, sink))
}

/// Writes a network by a function that encodes it.
pub fn write_through(
    model: &Model,
    path: &Path,
    encode: impl FnOnce(&Model, &mut Sink) -> io::Result<()>,
) -> Result<(), Error> {
    let failed = |path: &Path| {
        let (name, bytes, path) = (model.name().into(), model.encoded_bytes(), path.into());
        move |source| Error::Write { name, bytes, path, source }
    };
    let mut weights = path.to_path_buf();
    if let Some(config) = model.config() {
        if !is_config(path) {
            return Err(Error::NotConfig { name: model.name().into(), path: path.into() });
        }
        replace(path, |sink| sink.write_all(config.as_bytes())).map_err(failed(path))?;
        weights = weights_of(path);
    }
    replace(&weights, |sink| encode(model, sink)).map_err(failed(&weights))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::onnx::ModelProto;
    use prost::Message;
    use std::collections::HashSet;

    /// Parameters with batch norms folded (a bias per channel instead of scale and shift),
    /// convolutions, and multiply-accumulates in millions as torchvision states them.
    const LITERATURE: &[(&str, usize, usize, u64)] = &[
        ("squeezenet1_1", 1_235_496, 26, 349),
        ("mobilenet_v2", 3_504_872 - 17_056, 52, 301),
        ("resnet18", 11_689_512 - 4_800, 20, 1_814),
        ("resnet50", 25_557_032 - 26_560, 53, 4_089),
        ("resnet101", 44_549_160 - 52_672, 104, 7_801),
        ("resnet152", 60_192_808 - 75_712, 155, 11_514),
        ("vgg19", 143_667_240, 16, 19_632),
        ("densenet121", 7_978_856 - 7_488, 120, 2_834),
        ("densenet201", 20_013_928 - 12_608, 200, 4_291),
        ("resnext50_32x4d", 25_028_904 - 34_112, 53, 4_230),
        ("resnext101_32x8d", 88_791_336 - 101_440, 104, 16_414),
        ("wide_resnet50_2", 68_883_240 - 34_112, 53, 11_398),
        // four times resnet152's, but for the first and the last layer
        ("wide_resnet152", 236_199_144, 155, 45_814),
        // without the auxiliary classifier
        ("inception_v3", 27_161_264 - 3_326_696 - 17_216, 94, 5_713),
        ("vit_b_16", 86_567_656, 1, 17_564),
        ("inception_v4", 42_679_816 - 31_584, 149, 12_254),
        // 4 cells a stage, 1056 channels: as in Keras; the paper has 564 million
        ("nasnet_a", 5_289_978 - 18_369, 356, 564),
        ("vit_b_16_384", 86_567_656 + 380 * 768, 1, 55_484),
        ("ds_cnn", 22_604, 9, 2),
        // without the layer that decodes boxes
        ("yolov8n", 3_151_904 - 16, 63, 4_371),
        // without the auxiliary head, which torchvision's 35,322,218 and 152,717 contain
        ("fcn_resnet50", 35_322_218 - 2_365_205 - 26_560 - 512, 55, 142_726),
        ("unet", 31_030_658, 19, 150_428),
        // the embedding is the last matrix, too; 64 tokens
        ("gpt2", 124_439_808, 0, 7_981),
        // layers of LSTM as PyTorch has them, an embedding of 256 characters and a linear layer
        ("rnn", 8 * 2_101_248 + 131_072 + 131_328, 0, 541),
        ("brnn", 4_202_496 + 3 * 6_299_648 + 131_072 + 262_400, 0, 747),
        // What Darknet's files hold: means and variances, too. Those of the papers have 236.5, 245.8 and 487.2 MiB.
        ("yolov3", 62_001_757, 75, 32_932),
        ("yolov4", 64_429_405, 110, 30_052),
        ("yolov4_p6", 127_717_040, 205, 358_509),
    ];

    #[test]
    fn sizes_are_those_of_torchvision() {
        assert_eq!(NAMES.len(), LITERATURE.len());
        for &(name, parameters, convolutions, mega_macs) in LITERATURE {
            let model = model(name).unwrap();
            assert_eq!(model.parameters(), parameters, "{name}");
            let count = model.config().map_or(0, |text| text.matches("[convolutional]").count());
            let count = count + model.nodes().iter().filter(|node| node.op_type == "Conv").count();
            assert_eq!(count, convolutions, "{name}");
            // torchvision truncates or rounds, from one network to the next.
            assert!(
                (model.macs() / 1_000_000).abs_diff(mega_macs) <= 1,
                "{name}: {}",
                model.macs()
            );
        }
    }

    #[test]
    fn every_name_resolves_and_every_tensor_is_complete() {
        let few = |model: &Model| model.parameters() < 50_000_000 && model.config().is_none();
        for name in NAMES.iter().filter(|name| few(&model(name).unwrap())) {
            let mut file = Vec::new();
            encode(&model(name).unwrap(), 1, &mut file).unwrap();
            let graph = ModelProto::decode(&file[..]).unwrap().graph.unwrap();
            let mut known: HashSet<&str> = HashSet::new();
            let named = |tensor: &'_ str| !tensor.is_empty();
            assert!(graph.input.iter().all(|input| known.insert(&input.name)));
            for tensor in &graph.initializer {
                assert!(known.insert(&tensor.name), "{name}: {} twice", tensor.name);
                let elements: i64 = tensor.dims.iter().product();
                assert_eq!(tensor.raw_data.len() as i64, 4 * elements, "{name}: {}", tensor.name);
            }
            for node in &graph.node {
                let found = |input: &String| input.is_empty() || known.contains(input.as_str());
                assert!(node.input.iter().all(found), "{node:?}");
                assert!(node.output.iter().all(|output| named(output) && known.insert(output)));
            }
            assert!(known.contains(graph.output[0].name.as_str()), "{name}");
        }
    }

    #[test]
    fn length_is_known_beforehand() {
        struct Counter(u64);
        impl io::Write for Counter {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += bytes.len() as u64;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let all = std::env::var_os("EYELET_TEST_ALL").is_some();
        for name in NAMES {
            let model = model(name).unwrap();
            if model.parameters() > 100_000_000 && !all {
                continue;
            }
            let mut counter = Counter(0);
            encode(&model, 1, &mut counter).unwrap();
            assert_eq!(counter.0, model.encoded_bytes(), "{name}");
        }
    }

    #[test]
    fn descriptions_ask_for_the_weights_that_are_written() {
        for name in ["yolov3", "yolov4", "yolov4_p6"] {
            let model = model(name).unwrap();
            let text = model.config().unwrap().as_bytes();
            assert_eq!(
                crate::darknet::weights_bytes(text).unwrap(),
                model.encoded_bytes(),
                "{name}"
            );
        }
    }

    #[test]
    fn seeds_repeat_and_differ() {
        let model = model("squeezenet1_1").unwrap();
        let file = |seed| {
            let mut file = Vec::new();
            encode(&model, seed, &mut file).unwrap();
            file
        };
        assert_eq!(
            fnv1a(&file(1)),
            8_697_395_695_348_322_189,
            "the weights of a seed have changed"
        );
        assert!(file(2) != file(1));
    }

    fn fnv1a(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    #[test]
    fn errors_say_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let error = write("resnet34", 1, directory.path().join("x.onnx")).unwrap_err().to_string();
        assert!(error.contains("resnet34") && error.contains("resnet18"), "{error}");

        let error = write("squeezenet1_1", 1, "/dev/full").unwrap_err().to_string();
        assert!(error.contains("/dev/full") && error.contains("No space left"), "{error}");

        let missing = directory.path().join("missing/x.onnx");
        let error = write("squeezenet1_1", 1, &missing).unwrap_err().to_string();
        assert!(error.contains("missing/x.onnx") && error.contains("No such file"), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
