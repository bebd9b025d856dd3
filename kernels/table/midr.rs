//! Whether this ARM processor executes in order: such processors want other schedules.
//!
//! Linux lets programs read the main identification register, MIDR_EL1, of the core they run on.
//! Where cores differ, the one that asks decides for all threads. Elsewhere the register may not be
//! readable, and the build says it (`EYELET_CORE`, see `build.rs`); unsaid, execution is taken to
//! be out of order, whose kernels are the better guess on an unknown core.

/// Whether the kernels for in-order execution are to be used.
pub fn in_order() -> bool {
    match (cfg!(eyelet_core = "in-order"), cfg!(eyelet_core = "out-of-order")) {
        (true, _) => true,
        (_, true) => false,
        _ => identification().is_some_and(is_in_order),
    }
}

/// Whether MIDR_EL1 names a core for which the kernels for in-order execution are made.
const fn is_in_order(midr: u64) -> bool {
    let (implementer, part) = (midr >> 24 & 0xff, midr >> 4 & 0xfff);
    matches!(
        (implementer, part),
        // Cortex-A53, A35 and A55.
        (0x41, 0xd03..=0xd05)
        // Qualcomm's Kryo 2xx Silver (of the A53), 3xx and 4xx Silver (of the A55).
        | (0x51, 0x801 | 0x803 | 0x805)
    )
}

/// MIDR_EL1, where it may be read.
#[cfg(all(feature = "linux", target_os = "linux"))]
fn identification() -> Option<u64> {
    // SAFETY: reads the vector of values that the kernel handed to this process.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP) };
    if capabilities & libc::HWCAP_CPUID == 0 {
        return None;
    }
    let midr: u64;
    // SAFETY: reads one register, which Linux allows and emulates where it says HWCAP_CPUID.
    unsafe {
        core::arch::asm!("mrs {}, midr_el1", out(reg) midr, options(nomem, nostack, preserves_flags));
    }
    Some(midr)
}

#[cfg(not(all(feature = "linux", target_os = "linux")))]
fn identification() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_cores() {
        // As found in /proc/cpuinfo: Raspberry Pi 3 (A53), A55 r1p0, Pi 4 (A72), Nano (A57), N1.
        let in_order = [0x410f_d034, 0x411f_d050];
        let out_of_order = [0x410f_d083, 0x411f_d071, 0x413f_d0c1, 0];
        assert!(in_order.into_iter().all(is_in_order));
        assert!(!out_of_order.into_iter().any(is_in_order));
    }

    /// Under the emulator, which takes the processor's name from this variable.
    #[test]
    fn the_emulated_processor_is_recognised() {
        let expected = match std::env::var("QEMU_CPU").as_deref() {
            Ok("cortex-a35" | "cortex-a53" | "cortex-a55") => true,
            Ok("cortex-a57" | "cortex-a72" | "cortex-a76" | "neoverse-n1") => false,
            _ => return,
        };
        assert_eq!(identification().map(is_in_order), Some(expected));
    }
}
