//! Compiles the kernels that are written in C for the target, each with its own flags.
//!
//! Without a C compiler for the target the library still builds, with the portable kernels only; a
//! warning says so. `kernels/table` learns what was compiled from the `eyelet_x86` and
//! `eyelet_neon` configuration flags.
//!
//! `EYELET_CORE=in-order` or `out-of-order` says how the processor works for which it is built,
//! where kernels differ by that and nobody can be asked at run time: without Linux. The board of
//! `EYELET_BOARD` may say it, too.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

/// One kernel: its source and the flags that its instruction set needs.
struct Kernel {
    source: &'static str,
    flags: &'static [&'static str],
}

const AVX2: &[&str] = &["-mavx2", "-mfma"];
const AVX2_F16C: &[&str] = &["-mavx2", "-mf16c"];
const AVX512: &[&str] = &["-mavx512f", "-mfma", "-mprfchw"];
// Scheduling before registers are given out would load everything first, and spill or copy.
const NEON: &[&str] = &["-fno-schedule-insns"];

const X86: &[Kernel] = &[
    Kernel { source: "kernels/x86/f32-igemm-6x16-avx2.c", flags: AVX2 },
    Kernel { source: "kernels/x86/f32-dwconv-4x16-avx2.c", flags: AVX2 },
    Kernel { source: "kernels/x86/f32-gconv-6x16-avx2.c", flags: AVX2 },
    Kernel { source: "kernels/x86/f32-winograd-avx2.c", flags: AVX2 },
    Kernel { source: "kernels/x86/f32-elementwise-avx2.c", flags: AVX2 },
    Kernel { source: "kernels/x86/f32-pool-avx2.c", flags: AVX2 },
    Kernel { source: "kernels/x86/f32-rows-avx2.c", flags: AVX2 },
    Kernel { source: "kernels/x86/widen-avx2.c", flags: AVX2_F16C },
    Kernel { source: "kernels/x86/f32-igemm-14x32-avx512.c", flags: AVX512 },
    Kernel { source: "kernels/x86/f32-dwconv-7x32-avx512.c", flags: AVX512 },
    Kernel { source: "kernels/x86/f32-dwconv3x3-4x16-avx512.c", flags: AVX512 },
    Kernel { source: "kernels/x86/f32-gconv-7x32-avx512.c", flags: AVX512 },
    Kernel { source: "kernels/x86/f32-winograd-avx512.c", flags: AVX512 },
    Kernel { source: "kernels/x86/f32-elementwise-avx512.c", flags: AVX512 },
    Kernel { source: "kernels/x86/f32-pool-avx512.c", flags: AVX512 },
    Kernel { source: "kernels/x86/f32-rows-avx512.c", flags: AVX512 },
    Kernel { source: "kernels/x86/widen-avx512.c", flags: AVX512 },
];

const ARM: &[Kernel] = &[
    Kernel { source: "kernels/neon/f32-igemm-8x8-neon.c", flags: NEON },
    Kernel { source: "kernels/neon/f32-igemm-8x8-neon-inorder.c", flags: NEON },
    Kernel { source: "kernels/neon/f32-dwconv-8x8-neon.c", flags: NEON },
    Kernel { source: "kernels/neon/f32-dwconv-8x8-neon-inorder.c", flags: NEON },
    Kernel { source: "kernels/neon/f32-dwconv3x3-4x4-neon-inorder.c", flags: NEON },
    Kernel { source: "kernels/neon/f32-gconv-8x8-neon.c", flags: NEON },
    Kernel { source: "kernels/neon/f32-winograd-neon.c", flags: NEON },
    Kernel { source: "kernels/neon/f32-elementwise-neon.c", flags: NEON },
    Kernel { source: "kernels/neon/f32-pool-neon.c", flags: NEON },
    Kernel { source: "kernels/neon/f32-rows-neon.c", flags: NEON },
    Kernel { source: "kernels/neon/widen-neon.c", flags: NEON },
];

/// Compiles kernels. `pipeline` is how the board's cores work, where its description says so.
pub fn build(pipeline: Option<&str>) {
    println!("cargo::rustc-check-cfg=cfg(eyelet_x86)");
    println!("cargo::rustc-check-cfg=cfg(eyelet_neon)");
    println!("cargo::rustc-check-cfg=cfg(eyelet_core, values(\"in-order\", \"out-of-order\"))");
    println!("cargo::rustc-check-cfg=cfg(eyelet_vfma)");
    println!("cargo::rerun-if-env-changed=EYELET_CORE");
    match env::var("EYELET_CORE").as_deref() {
        Ok(core @ ("in-order" | "out-of-order")) => {
            println!("cargo::rustc-cfg=eyelet_core={core:?}")
        }
        Ok("") | Err(env::VarError::NotPresent) => {
            if let Some(core) = pipeline {
                println!("cargo::rustc-cfg=eyelet_core={core:?}");
            }
        }
        other => panic!("EYELET_CORE is in-order or out-of-order, not {other:?}"),
    }
    let var = |name: &str| env::var(name).unwrap_or_default();
    let target = var("TARGET");
    if has_vfma(&target) {
        println!("cargo::rustc-cfg=eyelet_vfma");
    }
    let neon = var("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "neon");
    let (kernels, cfg) = match var("CARGO_CFG_TARGET_ARCH").as_str() {
        "x86_64" => (X86, "eyelet_x86"),
        "aarch64" if neon && var("CARGO_CFG_TARGET_ENDIAN") == "little" => (ARM, "eyelet_neon"),
        _ => return,
    };
    let mut why = String::from("none was found");
    for compiler in compilers(&target) {
        match compile(kernels, compiler.as_deref(), &target) {
            Ok(()) => {
                println!("cargo::rustc-cfg={cfg}");
                return;
            }
            Err(error) => why = error.to_string().replace('\n', " "),
        }
    }
    println!(
        "cargo::warning=no C compiler made the kernels for {target} ({why}): only the slow portable \
         ones are built. Set CC_{} to one.",
        target.replace('-', "_")
    );
}

/// The compilers to try, in order; `None` is what the `cc` crate picks (the CC environment
/// variables first, then the target's usual compiler).
fn compilers(target: &str) -> Vec<Option<String>> {
    let mut list = vec![None];
    if target.starts_with("aarch64") && env::var("HOST").ok().as_deref() != Some(target) {
        for name in ["aarch64-linux-gnu-gcc", "aarch64-none-elf-gcc", "clang"] {
            if runs(name) {
                list.push(Some(name.to_string()));
            }
        }
    }
    list
}

fn runs(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn compile(kernels: &[Kernel], compiler: Option<&str>, target: &str) -> Result<(), cc::Error> {
    let build = || {
        let mut build = cc::Build::new();
        build.cargo_warnings(false).opt_level(2).debug(false).warnings(true).extra_warnings(true);
        if let Some(compiler) = compiler {
            build.compiler(compiler);
        }
        // Nothing is contracted or reordered by surprise: results are the same bits everywhere.
        build.flag("-ffp-contract=off").flag("-fno-math-errno").flag("-fno-stack-protector");
        if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
            build.flag("-ffreestanding");
        }
        if compiler == Some("clang") {
            build.flag(format!("--target={target}"));
        }
        build
    };
    let mut objects = Vec::new();
    // Kernels with the same flags are compiled at the same time, as far as Cargo has jobs.
    for group in kernels.chunk_by(|a, b| a.flags == b.flags) {
        let mut build = build();
        for kernel in group {
            assert!(Path::new(kernel.source).exists(), "{} is missing", kernel.source);
            println!("cargo::rerun-if-changed={}", kernel.source);
            build.file(kernel.source);
        }
        for flag in group[0].flags {
            build.flag_if_supported(flag);
        }
        objects.extend(build.try_compile_intermediates()?);
    }
    build().objects(&objects).try_compile("eyelet_kernels")
}

/// Whether a target is Cortex-M with floating point, which fuses multiply-adds. The compiler has no
/// stable name for that.
fn has_vfma(target: &str) -> bool {
    ["thumbv7em-", "thumbv8m.main-"].iter().any(|cpu| target.starts_with(cpu))
        && target.ends_with("eabihf")
}
