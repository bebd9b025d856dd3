//! The compiled kernels that are in the program, and which of them suit a GPU.
//!
//! A cubin is machine code: it runs on GPUs of the same major version and no lower minor one,
//! except that those of the integrated GPUs and those of the others are not for each other. PTX is
//! compiled by the driver, which must be as new as the PTX; it runs on every GPU that is not older.
//! Cubins come first, then PTX; among each the newest.

use super::capability::{Arch, Version};
use core::fmt;

/// The kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Machine code.
    Cubin,
    /// Text that the driver compiles. It ends with a zero byte.
    Ptx,
}

/// All kernels, compiled for an architecture.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// For which: 87 of `sm_87`.
    pub arch: u32,
    /// How.
    pub kind: Kind,
    /// The version of the PTX: 65 is 6.5. 0 for machine code.
    pub ptx_version: u32,
    /// The bytes that the driver loads. It reads as far as they say themselves, not to the end of
    /// the slice.
    pub(crate) bytes: &'static [u8],
}

impl Image {
    /// An image that was not compiled with this crate.
    ///
    /// # Safety
    /// The driver must not read beyond `bytes`: PTX ends with a zero byte, and machine code is a
    /// whole, intact file.
    pub const unsafe fn new(arch: u32, kind: Kind, ptx_version: u32, bytes: &'static [u8]) -> Self {
        Self { arch, kind, ptx_version, bytes }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arch, ptx_version: version, .. } = self;
        match self.kind {
            Kind::Cubin => write!(f, "sm_{arch}"),
            Kind::Ptx => write!(f, "PTX {}.{} for sm_{arch}", version / 10, version % 10),
        }
    }
}

/// The images that the build has compiled. `build/cuda/images.rs` writes the table.
pub fn images() -> &'static [Image] {
    IMAGES
}

/// Machine code where the headers in it are aligned. Where none was built there is nothing to
/// align.
#[allow(dead_code)]
#[repr(C, align(64))]
struct Aligned<B: ?Sized>(B);

/// A file's bytes, aligned.
#[allow(unused_macros)]
macro_rules! aligned {
    ($path:literal) => {{
        const BYTES: &Aligned<[u8]> = &Aligned(*include_bytes!($path));
        &BYTES.0
    }};
}

const IMAGES: &[Image] = include!(concat!(env!("OUT_DIR"), "/cuda/images.rs"));

/// The newest PTX that a driver compiles. One newer than all that are known here takes what the
/// newest known does.
fn newest_ptx(driver: Version) -> u32 {
    match driver.0 / 10 {
        ..1002 => 64,
        1002..1100 => 65,
        cuda @ 1100..1200 => 70 + (cuda - 1100).min(8) as u32,
        cuda @ 1200..1206 => 80 + (cuda - 1200) as u32,
        1206 => 85,
        cuda @ 1207..1300 => 86 + (cuda - 1207).min(2) as u32,
        1300.. => 90,
    }
}

/// How well an image suits: the higher the better; `None` where it does not.
fn rank(image: &Image, device: Arch, driver: Version) -> Option<u32> {
    const CUBIN: u32 = 1 << 24;
    let arch = Arch::from_number(image.arch);
    match image.kind {
        Kind::Cubin => {
            let family = arch.major == device.major && !arch.is_tegra() && !device.is_tegra();
            let runs = arch == device || family && arch.minor <= device.minor;
            runs.then_some(CUBIN + image.arch)
        }
        Kind::Ptx => (arch <= device && image.ptx_version <= newest_ptx(driver))
            .then_some(image.arch * 1000 + image.ptx_version),
    }
}

/// The images that suit a GPU, the best first.
pub(super) fn suitable(
    images: &[Image],
    device: Arch,
    driver: Version,
) -> impl Iterator<Item = &Image> {
    let mut below = u32::MAX;
    core::iter::from_fn(move || {
        let ranks = images.iter().filter_map(|image| Some((rank(image, device, driver)?, image)));
        let best = ranks.filter(|(rank, _)| *rank < below).max_by_key(|(rank, _)| *rank)?;
        below = best.0;
        Some(best.1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const fn cubin(arch: u32) -> Image {
        Image { arch, kind: Kind::Cubin, ptx_version: 0, bytes: b"" }
    }
    const fn ptx(arch: u32, version: u32) -> Image {
        Image { arch, kind: Kind::Ptx, ptx_version: version, bytes: b"\0" }
    }

    const BUILT: [Image; 9] = [
        cubin(53),
        cubin(72),
        cubin(80),
        cubin(87),
        cubin(90),
        ptx(53, 64),
        ptx(72, 74),
        ptx(87, 82),
        ptx(90, 88),
    ];

    /// Architectures, and versions of PTX.
    fn chosen(device: u32, driver: i32) -> Vec<(u32, u32)> {
        suitable(&BUILT, Arch::from_number(device), Version(driver))
            .map(|image| (image.arch, image.ptx_version))
            .collect()
    }

    #[test]
    fn cubins_come_first_then_ptx_that_the_driver_accepts() {
        let cubin = 0;
        assert_eq!(chosen(53, 10020), [(53, cubin), (53, 64)]);
        assert_eq!(chosen(72, 11040), [(72, cubin), (72, 74), (53, 64)]);
        assert_eq!(chosen(72, 10020), [(72, cubin), (53, 64)]);
        assert_eq!(chosen(90, 12020), [(90, cubin), (87, 82), (72, 74), (53, 64)]);
        assert_eq!(chosen(90, 12090)[..2], [(90, cubin), (90, 88)]);
        // Not the cubin of an integrated GPU for another one, nor the other way round.
        assert_eq!(chosen(89, 12020)[..2], [(80, cubin), (87, 82)]);
        assert_eq!(chosen(87, 12020)[..2], [(87, cubin), (87, 82)]);
        assert_eq!(chosen(75, 12020), [(72, 74), (53, 64)]);
        // Older than everything.
        assert_eq!(chosen(52, 12020), []);
    }

    #[test]
    fn drivers_compile_ptx_of_their_time() {
        for (driver, ptx) in [
            (10020, 65),
            (11000, 70),
            (11040, 74),
            (11080, 78),
            (12000, 80),
            (12020, 82),
            (12050, 85),
            (12060, 85),
            (12080, 87),
            (12090, 88),
            (13000, 90),
            (13010, 90),
        ] {
            assert_eq!(newest_ptx(Version(driver)), ptx, "{driver}");
        }
    }
}
