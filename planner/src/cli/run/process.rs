//! What the kernel says of this process.

/// A line of `/proc/self/status` that is a size: `VmRSS` (resident now), `VmHWM` (the most it has been).
/// `None` where the kernel does not tell.
pub fn status_bytes(field: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    size_in(&text, field)
}

/// A line of another process's status that is a size.
pub fn status_bytes_of(process: u32, field: &str) -> Option<u64> {
    size_in(&std::fs::read_to_string(format!("/proc/{process}/status")).ok()?, field)
}

/// A line that is a size in KiB, of what the kernel says: its bytes.
pub fn size_in(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_by_their_whole_name() {
        let text = "Name:\teyelet\nVmHWMx:\t 7 kB\nVmHWM:\t    3504 kB\nVmRSS:\t    3100 kB\n";
        assert_eq!(size_in(text, "VmHWM"), Some(3504 * 1024));
        assert_eq!(size_in(text, "VmRSS"), Some(3100 * 1024));
        assert_eq!(size_in(text, "VmSwap"), None);
        let text = "MemTotal: 4096 kB\nMemFree: 7 kB\nMemAvailable:    2048 kB\n";
        let available = |text| size_in(text, "MemAvailable");
        assert_eq!(available(text), Some(2 << 20));
        assert_eq!((available(""), available("MemAvailable: x kB")), (None, None));
        assert!(status_bytes("VmHWM") >= status_bytes("VmRSS").map(|bytes| bytes / 2));
    }
}
