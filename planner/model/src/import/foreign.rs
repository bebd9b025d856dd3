//! Files of other formats: what they are, and how their owner gets an ONNX model.

use super::ImportError;
use std::path::Path;

/// A format that is not ONNX.
pub(super) struct Format {
    pub name: &'static str,
    pub advice: &'static str,
    /// Whether a file of this format begins so.
    begins: fn(&[u8]) -> bool,
    /// What names of its files end in, where their bytes do not say it.
    ends: &'static [&'static str],
}

/// Bytes at a place.
fn has(bytes: &[u8], at: usize, magic: &[u8]) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.starts_with(magic))
}

/// Whether the first bytes have this text, in letters of any case.
fn says(bytes: &[u8], text: &str) -> bool {
    let head = &bytes[..bytes.len().min(1024)].to_ascii_lowercase();
    head.windows(text.len()).any(|window| window == text.as_bytes())
}

/// An archive with an entry whose name ends so.
fn zip_of(bytes: &[u8], entry: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(1 << 16)];
    has(bytes, 0, b"PK\x03\x04") && head.windows(entry.len()).any(|window| window == entry)
}

const NO_BYTES: fn(&[u8]) -> bool = |_| false;

pub(super) const FORMATS: [Format; 25] = [
    Format {
        name: "a pack of eyelet",
        advice: "it has been planned: run it (eyelet run)",
        begins: |bytes| has(bytes, 0, &eyelet::pack::MAGIC),
        ends: &[],
    },
    Format {
        name: "a pointer of Git LFS",
        advice: "fetch the file that it stands for: git lfs pull",
        begins: |bytes| has(bytes, 0, b"version https://git-lfs"),
        ends: &[],
    },
    Format {
        name: "a web page",
        advice: "a server has answered with a page in place of the file: download the file itself",
        begins: |bytes| {
            let page = says(bytes, "<!doctype html") || says(bytes, "<html");
            page && bytes.trim_ascii_start().starts_with(b"<")
        },
        ends: &[],
    },
    Format {
        name: "compressed",
        advice: "unpack it first (gunzip, xz -d, zstd -d, bunzip2)",
        begins: |bytes| {
            let magics: [&[u8]; 4] = [b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"BZh"];
            magics.iter().any(|magic| has(bytes, 0, magic))
        },
        ends: &[".gz", ".xz", ".zst", ".bz2"],
    },
    Format {
        name: "of PyTorch (.pt, .pth)",
        advice: "load it in Python and export the model: torch.onnx.export(model, inputs, \"model.onnx\")",
        begins: |bytes| {
            let pickle = bytes.len() > 2 && bytes[0] == 0x80 && (2..=5).contains(&bytes[1]);
            zip_of(bytes, b"data.pkl") || pickle
        },
        ends: &[".pt", ".pth", ".ckpt", ".torchscript", ".pt2"],
    },
    Format {
        name: "of Keras (.h5, .keras)",
        advice: "convert it: python -m tf2onnx.convert --keras FILE --output model.onnx",
        begins: |bytes| has(bytes, 0, b"\x89HDF\r\n\x1a\n") || zip_of(bytes, b"model.weights.h5"),
        ends: &[".h5", ".hdf5", ".keras"],
    },
    Format {
        name: "an archive (.zip, .tar)",
        advice: "unpack it first",
        begins: |bytes| has(bytes, 0, b"PK\x03\x04") || has(bytes, 257, b"ustar"),
        ends: &[".zip", ".tar"],
    },
    Format {
        name: "of llama.cpp (.gguf)",
        advice: "it has weights and no network: export the model that it was made from \
                 (optimum-cli export onnx --model NAME folder)",
        begins: |bytes| has(bytes, 0, b"GGUF") || has(bytes, 0, b"lmgg"),
        ends: &[".gguf", ".ggml"],
    },
    Format {
        name: "of safetensors",
        advice: "it has weights and no network: export the model that they belong to (torch.onnx.export, or \
                 optimum-cli export onnx --model NAME folder)",
        begins: |bytes| has(bytes, 8, b"{\"") && has(bytes, 6, b"\0\0"),
        ends: &[".safetensors"],
    },
    Format {
        name: "of TensorFlow Lite (.tflite)",
        advice: "convert it: python -m tf2onnx.convert --tflite FILE --output model.onnx",
        begins: |bytes| has(bytes, 4, b"TFL3"),
        ends: &[".tflite", ".lite"],
    },
    Format {
        name: "of TensorFlow (.pb)",
        advice: "convert it: python -m tf2onnx.convert --saved-model FOLDER --output model.onnx (of a frozen graph: \
                 --graphdef FILE --inputs NAME:0 --outputs NAME:0)",
        begins: NO_BYTES,
        ends: &[".pb", ".pbtxt"],
    },
    Format {
        name: "of onnxruntime (.ort)",
        advice: "give the ONNX model that it was made from",
        begins: |bytes| has(bytes, 4, b"ORTM"),
        ends: &[".ort"],
    },
    Format {
        name: "of ExecuTorch (.pte)",
        advice: "export the model in Python: torch.onnx.export(model, inputs, \"model.onnx\")",
        begins: |bytes| has(bytes, 4, b"ET1"),
        ends: &[".pte"],
    },
    Format {
        name: "of TensorRT (.engine)",
        advice: "it is made for one GPU: give the ONNX model that it was built from",
        begins: |bytes| has(bytes, 0, b"ftrt"),
        ends: &[".engine", ".plan", ".trt"],
    },
    Format {
        name: "of ncnn (.param, .bin)",
        advice: "give the ONNX model that it was made from; of PyTorch: torch.onnx.export",
        begins: |bytes| has(bytes, 0, b"7767517"),
        ends: &[".param", ".param.bin", ".ncnn.bin"],
    },
    Format {
        name: "of MNN",
        advice: "give the ONNX model that it was made from",
        begins: NO_BYTES,
        ends: &[".mnn"],
    },
    Format {
        name: "of OpenVINO (.xml, .bin)",
        advice: "give the ONNX model that it was made from; of PyTorch: torch.onnx.export",
        begins: |bytes| has(bytes, 0, b"<?xml") && says(bytes, "<net"),
        ends: &[".xml"],
    },
    Format {
        name: "of Core ML (.mlmodel)",
        advice: "export the model that it was made from: torch.onnx.export, or tf2onnx",
        begins: NO_BYTES,
        ends: &[".mlmodel", ".mlpackage"],
    },
    Format {
        name: "of Caffe (.caffemodel, .prototxt)",
        advice: "convert it: python -m caffe2onnx.convert --prototxt FILE --caffemodel FILE --onnx model.onnx",
        begins: NO_BYTES,
        ends: &[".caffemodel", ".prototxt"],
    },
    Format {
        name: "of PaddlePaddle (.pdmodel)",
        advice: "convert it: paddle2onnx --model_dir FOLDER --model_filename FILE --params_filename FILE \
                 --save_file model.onnx",
        begins: NO_BYTES,
        ends: &[".pdmodel", ".pdiparams"],
    },
    Format {
        name: "of RKNN",
        advice: "it is made for one chip: give the ONNX model that it was built from",
        begins: |bytes| has(bytes, 0, b"RKNN"),
        ends: &[".rknn"],
    },
    Format {
        name: "weights of Darknet",
        advice: "give the .cfg, with the weights next to it (--weights-file)",
        begins: NO_BYTES,
        ends: &[".weights"],
    },
    Format {
        name: "weights of an ONNX model",
        advice: "give the .onnx file that names them; it finds them next to it",
        begins: NO_BYTES,
        ends: &[".onnx.data", ".onnx_data", ".data"],
    },
    Format {
        name: "of numpy (.npy, .npz)",
        advice: "it has tensors and no network: give the ONNX model",
        begins: |bytes| has(bytes, 0, b"\x93NUMPY"),
        ends: &[".npy", ".npz"],
    },
    Format {
        name: "JSON",
        advice: "it describes no network: give the ONNX model",
        begins: |bytes| has(bytes, 0, b"{"),
        ends: &[".json"],
    },
];

/// What a file is that could not be read as ONNX, in place of what is wrong with it as such. Its bytes say it; where they
/// are no model's at all, its name may.
pub(super) fn instead(path: &Path, bytes: &[u8], error: ImportError) -> ImportError {
    let unreadable = matches!(
        error,
        ImportError::NotOnnx { .. }
            | ImportError::Damaged { .. }
            | ImportError::Truncated { .. }
            | ImportError::Incomplete { .. }
    );
    if bytes.is_empty() || !unreadable {
        return error;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let named = |format: &&Format| format.ends.iter().any(|end| name.ends_with(end));
    let by_bytes = FORMATS.iter().find(|format| (format.begins)(bytes));
    let found = match error {
        ImportError::NotOnnx { .. } => by_bytes.or_else(|| FORMATS.iter().find(named)),
        _ => by_bytes,
    };
    match found {
        Some(Format { name, advice, .. }) => ImportError::Foreign { format: name, advice },
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, bytes: &[u8]) -> String {
        let error = ImportError::NotOnnx { reason: "other".into() };
        instead(Path::new(name), bytes, error).to_string()
    }

    #[test]
    fn formats_are_told_by_their_bytes_and_by_their_names() {
        for (name, bytes, says) in [
            ("m.onnx", &b"GGUF\x03\0\0\0"[..], "of llama.cpp (.gguf), not an ONNX model; it has"),
            ("m", b"\x1c\0\0\0TFL3\0", "of TensorFlow Lite"),
            ("m.onnx", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
            ("m.onnx", b"\n<!DOCTYPE HTML><html>", "a web page"),
            ("m.onnx", b"\x1f\x8b\x08", "compressed, not an ONNX model; unpack it"),
            (
                "m.onnx",
                b"PK\x03\x04....m/data.pkl",
                "of PyTorch (.pt, .pth), not an ONNX model; load",
            ),
            ("m.onnx", b"PK\x03\x04....readme", "an archive"),
            ("m.onnx", b"@\0\0\0\0\0\0\0{\"w\":{}}", "of safetensors"),
            ("m.xml", b"<?xml version=\"1.0\"?>\n<net name=\"m\">", "of OpenVINO"),
            ("m.PB", b"\x0a\x10\x0a\x01x", "of TensorFlow (.pb), not an ONNX model; convert it"),
            ("m.onnx", b"\x0a\x10\x0a\x01x", "not an ONNX model: other"),
            ("m.gguf", b"", "not an ONNX model: other"),
        ] {
            assert!(of(name, bytes).contains(says), "{}", of(name, bytes));
        }
        // A model that is cut short is one, whatever it is called.
        let truncated = ImportError::Incomplete { missing: "a graph", bytes: 2 };
        let error = instead(Path::new("m.pb"), b"\x08\x07", truncated).to_string();
        assert!(error.contains("truncated"), "{error}");
    }

    /// The table of the page has each format with its advice.
    #[test]
    fn the_page_names_all_formats() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/import.md");
        let page = std::fs::read_to_string(page).unwrap();
        for Format { name, advice, .. } in &FORMATS {
            let line = format!("| {name} | {advice} |");
            assert!(page.contains(&line), "docs/import.md lacks: {line}");
        }
    }
}
