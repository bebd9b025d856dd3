//! Serial ports, written byte by byte.

use core::fmt::{self, Write};

/// A serial port.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    /// The register that takes bytes.
    data: usize,
    /// The register that says whether it does, and the bit that says it does not.
    full: (usize, u32),
}

impl Console {
    /// An ARM PrimeCell PL011.
    ///
    /// # Safety
    /// One lies at this address for ever, where memory is mapped as a device's.
    pub const unsafe fn pl011(base: usize) -> Self {
        Self { data: base, full: (base + 0x18, 1 << 5) }
    }

    /// An APB UART of ARM's Cortex-M system design kit, switched on.
    ///
    /// # Safety
    /// One lies at this address for ever, where memory is mapped as a device's.
    pub unsafe fn cmsdk(base: usize) -> Self {
        // SAFETY: registers of the device, by the caller's promise: the divisor of the clock, and
        // the bit that enables the transmitter.
        unsafe {
            ((base + 0x10) as *mut u32).write_volatile(16);
            ((base + 0x08) as *mut u32).write_volatile(1);
        }
        Self { data: base, full: (base + 0x04, 1) }
    }

    fn put(&mut self, byte: u8) {
        let (register, bit) = self.full;
        // SAFETY: registers of the device, by the constructor's promise.
        unsafe {
            while (register as *const u32).read_volatile() & bit != 0 {
                core::hint::spin_loop();
            }
            (self.data as *mut u32).write_volatile(byte.into());
        }
    }
}

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.put(b'\r');
            }
            self.put(byte);
        }
        Ok(())
    }
}
