//! Tells Cortex-M from other ARM: the compiler has no stable name for it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(cortex_m)");
    if std::env::var("TARGET").is_ok_and(|target| target.starts_with("thumb")) {
        println!("cargo::rustc-cfg=cortex_m");
    }
}
