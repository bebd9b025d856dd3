//! Has the image linked by its script.

fn main() {
    let script = format!("{}/link.ld", env!("CARGO_MANIFEST_DIR"));
    println!("cargo::rustc-link-arg=-T{script}");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rerun-if-changed=src/start.s");
}
