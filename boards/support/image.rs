//! The build script of the images: links an image by its `link.ld` and the board's memories, and
//! gives it its pack.
//!
//! `EYELET_BOARD` names the board. `EYELET_PACK` is the absolute path of the pack; without it the
//! image has none (and no `cfg(packed)`), and reads one from a disk.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(packed)");
    println!("cargo::rerun-if-env-changed=EYELET_PACK");
    let folder = |name| PathBuf::from(env::var_os(name).expect("cargo sets it"));
    let manifest = folder("CARGO_MANIFEST_DIR");
    let script = manifest.join("link.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rustc-link-arg=-T{}", script.display());

    // What the script includes: the fragment that the library's build has made of the board.toml.
    let Some(fragment) = env::var_os("DEP_EYELET_BOARD_LINKER") else {
        let name = manifest.file_name().unwrap_or_default().display();
        println!("cargo::error=EYELET_BOARD is not set: build the image with EYELET_BOARD={name}");
        return;
    };
    let memories = Path::new(&fragment).parent().expect("a file in a folder");
    println!("cargo::rustc-link-arg=-L{}", memories.display());

    let pack = env::var_os("EYELET_PACK").filter(|path| !path.is_empty());
    let bytes = pack.as_ref().map_or_else(Vec::new, |path| {
        println!("cargo::rerun-if-changed={}", path.display());
        println!("cargo::rustc-cfg=packed");
        fs::read(path).unwrap_or_else(|error| panic!("EYELET_PACK={}: {error}", path.display()))
    });
    fs::write(folder("OUT_DIR").join("board.pack"), bytes).expect("a file in OUT_DIR");
}
