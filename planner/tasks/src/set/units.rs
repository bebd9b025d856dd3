//! Quantities as people write them: times, sizes and rates.

/// Parses `100ms`, `73.5us`, `2s`, `40ns`.
pub fn time_ns(text: &str) -> Result<u64, String> {
    let wanted = "write a time such as 100ms, with ns, us, ms or s";
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    quantity(text, &units).ok_or_else(|| format!("`{text}` is not a time: {wanted}"))
}

/// Parses `24GB`, `512KiB`, `4096B`: powers of 1000, or of 1024 with an i.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wanted = "write a size such as 24MB or 24MiB";
    quantity(text, &SIZES).ok_or_else(|| format!("`{text}` is not a size: {wanted}"))
}

/// Parses `2.5GB/s`.
pub fn bytes_per_second(text: &str) -> Result<u64, String> {
    let rate =
        text.strip_suffix("/s").and_then(|size| quantity(size, &SIZES)).filter(|&rate| rate > 0);
    rate.ok_or_else(|| format!("`{text}` is not a rate: write one such as 90MB/s"))
}

const SIZES: [(&str, f64); 7] = [
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("B", 1.0),
];

/// A number and one of these units, rounded to a whole number of the smallest.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit.trim())?;
    let value = number.parse::<f64>().ok()? * scale;
    (value < MOST).then(|| value.round() as u64)
}

/// Whole numbers up to here are exact as floating point: 104 days in nanoseconds, 9 PB.
const MOST: f64 = 9e15;

/// `12.5 ms`: three to four digits.
pub fn human_ns(ns: u64) -> String {
    human(ns as f64, &[("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)])
}

/// `24 GB`, `1.5 MB`: powers of 1000.
pub fn human_bytes(bytes: u64) -> String {
    human(bytes as f64, &[("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)])
}

fn human(value: f64, units: &[(&str, f64)]) -> String {
    let found = units.iter().find(|(_, scale)| value >= *scale).or(units.last());
    let Some((unit, scale)) = found else { return value.to_string() };
    let scaled = value / scale;
    let digits = match scaled {
        whole if whole.fract() == 0.0 => 0,
        large if large >= 100.0 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units() {
        assert_eq!(time_ns("100ms"), Ok(100_000_000));
        assert_eq!(time_ns("73.5us"), Ok(73_500));
        assert_eq!(bytes("24GB"), Ok(24_000_000_000));
        assert_eq!(bytes("1.5 KiB"), Ok(1536));
        assert_eq!(bytes_per_second("2.5GB/s"), Ok(2_500_000_000));
        for bad in ["", "5", "ms", "-5ms", "5 parsecs", "1e9ms", "1.2.3ms", "99999999999999999999s"]
        {
            assert!(time_ns(bad).unwrap_err().contains("is not a time"), "{bad}");
        }
        for bad in ["5", "5GB", "0GB/s", "GB/s"] {
            assert!(bytes_per_second(bad).unwrap_err().contains("is not a rate"), "{bad}");
        }
    }

    #[test]
    fn quantities_print_short() {
        assert_eq!(human_ns(12_500_000), "12.50 ms");
        assert_eq!(human_ns(2_000_000_000), "2 s");
        assert_eq!(human_ns(0), "0 ns");
        assert_eq!(human_bytes(24_000_000_000), "24 GB");
        assert_eq!(human_bytes(575_500_000), "575.5 MB");
    }
}
