//! Sizes as people write them: binary units. `24M`, `24mb` and `24 MiB` are the same, 24 times 1024 times 1024 bytes.

/// Parses `24MiB`, `512KiB`, `1.5GiB`, `4096` (bytes). `24M` and `24MB` are MiB, too; case does not matter.
pub fn parse(text: &str) -> Result<u64, String> {
    if text.starts_with('-') {
        return Err(format!("`{text}` is negative: a size is at least 1 byte"));
    }
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "ki" | "kb" | "kib" => 10,
        "m" | "mi" | "mb" | "mib" => 20,
        "g" | "gi" | "gb" | "gib" => 30,
        _ => {
            return Err(format!(
                "`{text}` is not a size: write bytes or a number with KiB, MiB or GiB, as in 24MiB (24M and 24MB are \
                 the same)"
            ));
        }
    };
    let value: f64 = number
        .parse()
        .map_err(|_| format!("`{text}` is not a size: write a number such as 24MiB"))?;
    let bytes = value * (1u64 << shift) as f64;
    if value == 0.0 {
        return Err(format!("`{text}` is no memory at all: a size is at least 1 byte"));
    }
    if bytes < 1.0 {
        return Err(format!("`{text}` is too small: a size is at least 1 byte"));
    }
    if bytes >= LARGEST as f64 {
        return Err(format!("`{text}` is too large: a size is less than {}", human(LARGEST)));
    }
    Ok(bytes as u64)
}

/// Sizes stay below this, so that sums of them do not overflow.
const LARGEST: u64 = 1 << 50;

/// Two or three significant digits: `24 MiB`, `1.5 GiB`.
pub fn human(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value.fract() < 0.005 || value >= 100.0 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// Readable and exact: `24 MiB (25165824 bytes)`.
pub fn exact(bytes: u64) -> String {
    if bytes < 1024 {
        format!("{bytes} bytes")
    } else {
        format!("{} ({bytes} bytes)", human(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        assert_eq!(parse("24MiB"), Ok(24 << 20));
        assert_eq!(parse("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse("4096"), Ok(4096));
        for same in ["6m", "6M", "6mb", "6MB", "6 MB", "6Mi", "6mib", " 6MiB "] {
            assert_eq!(parse(same), Ok(6 << 20), "{same}");
        }
        assert_eq!((parse("2kB"), parse("2gb")), (Ok(2048), Ok(2 << 30)));
        for bad in ["", "MiB", "12MB5", "24MBs", "1e9", "12 parsecs", "1.2.3K"] {
            assert!(parse(bad).unwrap_err().contains("is not a size"), "{bad}");
        }
        for (bad, text) in [
            ("0", "`0` is no memory at all"),
            ("0MiB", "`0MiB` is no memory at all"),
            ("0.4", "is too small: a size is at least 1 byte"),
            ("-1", "`-1` is negative"),
            ("-3MiB", "`-3MiB` is negative"),
            ("100000000000000000000", "is too large: a size is less than 1024 TiB"),
            ("9999999GiB", "is too large"),
        ] {
            assert!(parse(bad).unwrap_err().contains(text), "{bad}");
        }
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(human(24 << 20), "24 MiB");
        assert_eq!(human(3 << 29), "1.5 GiB");
        assert_eq!(human(1000), "1000 B");
        assert_eq!(human(123_456_789), "118 MiB");
    }
}
