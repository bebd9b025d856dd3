//! Pictures of strangers: what they take of memory stays bounded, and is no part of what a run promises.

use crate::common::command::{Done, eyelet_in, folder, packed, within};
use eyelet_planner::import::onnx::{
    DataType, Dimension, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use image::{Rgb, RgbImage};
use prost::Message;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

const MIB: u64 = 1 << 20;

/// What a hostile picture may take in these tests, with all else of a run.
const ROOM: u64 = 64 * MIB;

/// A grey-green pixel.
const PIXEL: [u8; 3] = [40, 200, 120];

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let named = [&name[..], data].concat();
    let length = (data.len() as u32).to_be_bytes();
    [&length[..], &named, &crc32fast::hash(&named).to_be_bytes()].concat()
}

fn deflated(mut data: impl Read) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    io::copy(&mut data, &mut encoder).unwrap();
    encoder.finish().unwrap()
}

/// A PNG file with such a header, with chunks before its pixels.
fn png(
    [width, height]: [u32; 2],
    [depth, interlaced]: [u8; 2],
    chunks: &[u8],
    pixels: &[u8],
) -> Vec<u8> {
    let extents = [width.to_be_bytes(), height.to_be_bytes()].concat();
    let header = [&extents[..], &[depth, 2, 0, 0, interlaced]].concat();
    [
        b"\x89PNG\r\n\x1a\n",
        &chunk(b"IHDR", &header)[..],
        chunks,
        &chunk(b"IDAT", pixels),
        &chunk(b"IEND", &[]),
    ]
    .concat()
}

/// Rows of one pixel, each after its filter.
fn rows([width, height]: [u32; 2], pixel: &[u8]) -> Vec<u8> {
    let row = [&[0], &pixel.repeat(width as usize)[..]].concat();
    if width == 0 { Vec::new() } else { row.repeat(height as usize) }
}

/// The rows of a picture in seven passes.
fn interlaced([width, height]: [u32; 2], pixel: &[u8]) -> Vec<u8> {
    let passes = [
        (0, 8, 0, 8),
        (4, 8, 0, 8),
        (0, 4, 4, 8),
        (2, 4, 0, 4),
        (0, 2, 2, 4),
        (1, 2, 0, 2),
        (0, 1, 1, 2),
    ];
    let count = |extent: u32, first: u32, step: u32| extent.saturating_sub(first).div_ceil(step);
    let pass =
        |(x, across, y, down)| rows([count(width, x, across), count(height, y, down)], pixel);
    passes.into_iter().flat_map(pass).collect()
}

/// Runs the digits' network on a picture, in little memory.
fn see(folder: &Path, name: &str, bytes: &[u8]) -> Done {
    fs::write(folder.join(name), bytes).unwrap();
    let run = ["run", "digits.pack", "--io", "buffered", "--json", "--image", name];
    within(folder, ROOM, &run)
}

#[test]
fn pictures_that_unpack_to_much_are_refused_or_need_not_be_unpacked() {
    let folder = packed();
    let see = |name: &str, bytes: &[u8]| see(folder.path(), name, bytes);
    let few = deflated(&rows([16, 16], &PIXEL)[..]);
    let plain = see("plain.png", &png([16, 16], [8, 0], &[], &few)).json();
    // A colour profile, and text, of which nothing is used.
    let zeros = deflated(io::repeat(0).take(2 * ROOM));
    let profile = chunk(b"iCCP", &[b"name\0\0", &zeros[..]].concat());
    let text = chunk(b"zTXt", &[b"Comment\0\0", &zeros[..]].concat());
    for (name, chunks) in [("profile.png", profile), ("text.png", text)] {
        let seen = see(name, &png([16, 16], [8, 0], &chunks, &few)).json();
        assert_eq!(seen["output_digest"], plain["output_digest"], "{name}");
    }
    // A chunk that is itself long.
    let long = chunk(b"iTXt", &vec![b'x'; 8 << 20]);
    see("long.png", &png([16, 16], [8, 0], &long, &few)).fails(&["cannot decode long.png"]);
    let black = deflated(io::repeat(0).take(13_000 * (1 + 3 * 13_000)));
    assert!(black.len() < 1 << 20);
    let parts = ["13000 x 13000 pixels", "input of 8 x 8", "takes 499 MiB", "may take 128 MiB"];
    see("black.png", &png([13_000; 2], [8, 0], &[], &black)).fails(&parts);
    // Headers without pixels.
    for [width, height] in [[0x7fff_ffff; 2], [1, 0x7fff_ffff], [0x7fff_ffff, 1], [0, 0]] {
        see("claims.png", &png([width, height], [16, 1], &[], &few)).fails(&["claims.png"]);
    }
}

#[test]
fn depths_passes_and_cut_files() {
    let folder = packed();
    let see = |name: &str, bytes: &[u8]| see(folder.path(), name, bytes);
    let size = [37, 29];
    let plain = png(size, [8, 0], &[], &deflated(&rows(size, &PIXEL)[..]));
    let expected = see("plain.png", &plain).json()["output_digest"].clone();
    let deep: Vec<u8> = PIXEL.iter().flat_map(|value| [*value; 2]).collect();
    for (name, depth, pixels) in [
        ("interlaced.png", [8, 1], interlaced(size, &PIXEL)),
        ("deep.png", [16, 0], rows(size, &deep)),
        ("both.png", [16, 1], interlaced(size, &deep)),
    ] {
        let seen = see(name, &png(size, depth, &[], &deflated(&pixels[..]))).json();
        assert_eq!(seen["output_digest"], expected, "{name}");
    }
    for length in [0, 7, 20, 40, plain.len() - 20] {
        see("cut.png", &plain[..length]).fails(&["cannot decode cut.png"]);
    }
    let [gif, text] = [&b"GIF89a"[..], b"P6 8 8 255 "];
    for bytes in [gif, text] {
        see("other.png", bytes).fails(&["cannot decode other.png", "neither PNG nor JPEG"]);
    }
}

#[test]
fn jpeg_files_are_bounded_too() {
    let folder = packed();
    let path = folder.path().join("small.jpg");
    RgbImage::from_pixel(64, 64, Rgb(PIXEL)).save(&path).unwrap();
    let small = fs::read(&path).unwrap();
    see(folder.path(), "small.jpg", &small).json();
    let frame = small.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    let claims = |marker: u8, height: u16, width: u16| {
        let mut bytes = small.clone();
        bytes[frame + 1] = marker;
        bytes[frame + 5..][..2].copy_from_slice(&height.to_be_bytes());
        bytes[frame + 7..][..2].copy_from_slice(&width.to_be_bytes());
        see(folder.path(), "claims.jpg", &bytes)
    };
    claims(0xc0, 65_000, 65_000).fails(&["claims.jpg has 65000 x 65000 pixels", "128 MiB"]);
    // Scans that add up to the picture keep its coefficients.
    claims(0xc2, 3000, 4500).fails(&["claims.jpg has 4500 x 3000 pixels", "128 MiB"]);
    for length in [2, 20, frame + 6] {
        see(folder.path(), "cut.jpg", &small[..length]).fails(&["cannot decode cut.jpg"]);
    }
    let mut long = fs::File::create(folder.path().join("long.jpg")).unwrap();
    long.write_all(&small).unwrap();
    long.set_len(1 << 40).unwrap();
    let run = ["run", "digits.pack", "--io", "buffered", "--image", "long.jpg"];
    let parts = ["cannot read long.jpg", "1099511627776 bytes", "at most 25165824"];
    within(folder.path(), ROOM, &run).fails(&parts);
}

fn port(name: &str, shape: &[i64]) -> ValueInfoProto {
    let dim = |extent: &i64| DimensionProto { value: Some(Dimension::Value(*extent)) };
    let shape = Some(TensorShapeProto { dim: shape.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: DataType::Float as i32, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

/// A small picture's pixels, each times 65,536 weights: 48 MiB.
fn write_weights(path: &Path) {
    let node = |op_type: &str, input: &[&str], output: &str| NodeProto {
        op_type: op_type.into(),
        input: input.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    };
    let weights = TensorProto {
        name: "w".into(),
        data_type: DataType::Float as i32,
        dims: vec![192, 65_536],
        raw_data: vec![0; 192 * 65_536 * 4].into(),
        ..TensorProto::default()
    };
    let graph = GraphProto {
        node: vec![node("Flatten", &["x"], "flat"), node("MatMul", &["flat", "w"], "y")],
        name: "net".into(),
        initializer: vec![weights],
        input: vec![port("x", &[1, 3, 8, 8])],
        output: vec![port("y", &[1, 65_536])],
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    let model = ModelProto { opset_import, graph: Some(graph), ..ModelProto::default() };
    fs::write(path, model.encode_to_vec()).unwrap();
}

/// It takes 34 MiB. If these were taken next to the arena, or stayed, the peak would be higher by so much.
#[test]
fn a_picture_is_decoded_before_there_is_an_arena() {
    let folder = folder();
    write_weights(&folder.path().join("net.onnx"));
    eyelet_in(folder.path(), &["plan", "net.onnx", "--budget", "96MiB"]).text();
    RgbImage::new(4000, 3000).save(folder.path().join("large.png")).unwrap();
    let run = ["run", "net.pack", "--io", "buffered", "--image", "large.png", "--json"];
    let report = eyelet_in(folder.path(), &run).json();
    let [peak, arena] = ["peak_rss_bytes", "arena_bytes"].map(|key| report[key].as_u64().unwrap());
    assert!(arena > 48 * MIB, "{report}");
    assert!(peak < arena + 16 * MIB, "{peak} bytes at most, {arena} of them arena");
}
