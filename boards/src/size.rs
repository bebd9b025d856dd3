//! Sizes as people write them: bytes, or a number with a binary unit.

/// Sizes stay below this, so that sums of them do not overflow.
pub const LARGEST: u64 = 1 << 50;

/// Parses `24MiB`, `512KiB`, `1GiB`. Says why it cannot.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => {
            return Err(format!(
                "`{text}` is not a size: write a whole number with KiB, MiB or GiB, as in \"512KiB\", or bytes \
                 without quotes"
            ));
        }
    };
    let value: Option<u64> = number.parse().ok();
    let bytes = value.and_then(|value| value.checked_mul(1 << shift));
    bytes.filter(|bytes| *bytes < LARGEST).ok_or_else(|| {
        format!("`{text}` is not a size: the number must be whole and the size below 1024 TiB")
    })
}

/// Readable and exact: `24 KiB (24576 bytes)`.
pub fn exact(bytes: u64) -> String {
    let shift = (bytes.trailing_zeros() / 10 * 10).min(30);
    match shift {
        _ if bytes < 1024 => format!("{bytes} bytes"),
        0 => format!("{:.1} KiB ({bytes} bytes)", bytes as f64 / 1024.0),
        shift => {
            let unit = ["KiB", "MiB", "GiB"][shift as usize / 10 - 1];
            format!("{} {unit} ({bytes} bytes)", bytes >> shift)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(parse("24KiB"), Ok(24 << 10));
        assert_eq!(parse("3GiB"), Ok(3 << 30));
        for bad in ["24KB", "24 KiB", "1.5MiB", "KiB", "-1KiB", "24", "", "9999999999999GiB"] {
            assert!(parse(bad).unwrap_err().contains(&format!("`{bad}`")), "{bad}");
        }
        assert_eq!(exact(0), "0 bytes");
        assert_eq!(exact(24 << 10), "24 KiB (24576 bytes)");
        assert_eq!(exact(2 << 20), "2 MiB (2097152 bytes)");
        assert_eq!(exact(1536), "1.5 KiB (1536 bytes)");
    }
}
