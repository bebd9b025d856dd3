//! PTX that an old driver loads.
//!
//! A compiler stamps the newest version of the language that it knows, and a driver refuses a stamp
//! newer than itself, although these kernels use nothing that is new. So the stamp is lowered to
//! what the boards' oldest drivers take, and what compilers add as mere hints is left out; ptxas
//! confirms that the text fits (`tools/cuda_check.py`).

/// Major and minor version, as in `.version 6.4`.
pub type Version = (u32, u32);

/// The version to ask for at most: that which introduced the architecture, and 6.4 (CUDA 10.1)
/// before.
///
/// | board | its driver | newest it loads |
/// |---|---|---|
/// | Jetson Nano, sm_53 | 10.2 | 6.5 |
/// | Jetson Xavier NX, sm_72 | 10.2 to 11.4 | 6.5 to 7.4 |
/// | Jetson Orin, sm_87 | 11.4 to 12.6 | 7.4 to 8.5 |
fn wanted(arch: u32) -> Version {
    match arch {
        0..=75 => (6, 4),
        80 => (7, 0),
        86 => (7, 1),
        87 => (7, 4),
        89 | 90 => (7, 8),
        _ => (u32::MAX, 0),
    }
}

/// What of a loaded vector is used, which code can do without: it came with 8.3, and drivers refuse
/// what they do not know.
const HINT: &str = ".pragma \"used_bytes_mask";

/// The text with its version lowered and without such hints, and that version.
pub fn lower(text: &str, arch: u32) -> Result<(String, Version), String> {
    let missing = || format!("PTX for sm_{arch} has no .version");
    let line = text.lines().find(|line| line.starts_with(".version ")).ok_or_else(missing)?;
    let (major, minor) = line[".version ".len()..].trim().split_once('.').ok_or_else(missing)?;
    let made = (major.parse().map_err(|_| missing())?, minor.parse().map_err(|_| missing())?);
    let version = wanted(arch).min(made);
    let text = text.replacen(line, &format!(".version {}.{}", version.0, version.1), 1);
    let lines = text.split_inclusive('\n').filter(|line| !line.trim_start().starts_with(HINT));
    Ok((lines.collect(), version))
}
