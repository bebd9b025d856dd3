//! Turns the board that `EYELET_BOARD` names into what firmware is built from: the constants of
//! `eyelet::board`, a fragment of a linker script, and a header for C.
//!
//! The variable is the name of a board that comes with eyelet, or the absolute path of a `board.toml`
//! or its folder. Without it, the library has no module `board`. A crate that uses the library finds
//! the other two files by `DEP_EYELET_BOARD_LINKER` and `DEP_EYELET_BOARD_HEADER` in its build script.

use eyelet_board::{Board, Document, Source, emit};
use std::env;
use std::path::{Path, PathBuf};

const VARIABLE: &str = "EYELET_BOARD";

/// Writes the files, and returns the board, if one is named.
pub fn build() -> Option<Board> {
    println!("cargo::rustc-check-cfg=cfg(eyelet_board)");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let name = env::var(VARIABLE).ok().filter(|name| !name.is_empty())?;
    match write(&name) {
        Ok(board) => Some(board),
        Err(error) => {
            // Cargo prints this line as it is.
            println!("cargo::error={VARIABLE}: {}", error.replace('\n', " "));
            None
        }
    }
}

fn write(name: &str) -> Result<Board, String> {
    let known = eyelet_board::names().any(|known| known == name);
    if !known && Path::new(name).is_relative() {
        let known: Vec<&str> = eyelet_board::names().collect();
        return Err(format!(
            "there is no board `{name}`; the boards are: {}; or give an absolute path of a board.toml, as \
             `EYELET_BOARD = {{ value = \"board.toml\", relative = true }}` does in [env] of .cargo/config.toml",
            known.join(", ")
        ));
    }
    let source = Source::find(name).map_err(|error| error.to_string())?;
    if let Some(path) = &source.path {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let document =
        Document::parse(&source.file, &source.text).map_err(|error| error.to_string())?;
    let board = document.board();
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    for (file, text, metadata) in [
        ("board.rs", emit::constants(board), None),
        ("eyelet_board.x", emit::linker(board), Some("board_linker")),
        ("eyelet_board.h", emit::header(board), Some("board_header")),
    ] {
        let path = out.join(file);
        let wrote = std::fs::write(&path, text);
        wrote.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        if let Some(name) = metadata {
            println!("cargo::metadata={name}={}", path.display());
        }
    }
    println!("cargo::rustc-cfg=eyelet_board");
    Ok(board.clone())
}
