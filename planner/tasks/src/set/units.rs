//! Quantities as people write them: times, sizes and rates.

use eyelet::tasks::LONGEST_NS;

/// Parses `100ms`, `73.5us`, `2s`, `40ns`: a time of a task, up to [`LONGEST_NS`].
pub fn time_ns(text: &str) -> Result<u64, String> {
    time_up_to(text, LONGEST_NS)
}

/// Parses how long something goes on: longer than a time of a task, up to 104 days.
pub fn duration_ns(text: &str) -> Result<u64, String> {
    time_up_to(text, MOST)
}

fn time_up_to(text: &str, most: u64) -> Result<u64, String> {
    let found = quantity(text, &TIMES, most);
    found.map_err(|wrong| match wrong {
        Wrong::Form => {
            format!("`{text}` is not a time: write one such as 100ms, with ns, us, ms or s")
        }
        Wrong::Size => format!("`{text}` is too long: the longest time is {}", human_ns(most)),
    })
}

/// Parses `24GB`, `512KiB`, `4096B`: powers of 1000, or of 1024 with an i.
pub fn bytes(text: &str) -> Result<u64, String> {
    let found = quantity(text, &SIZES, MOST);
    found.map_err(|wrong| match wrong {
        Wrong::Form => format!("`{text}` is not a size: write one such as 24MB or 24MiB"),
        Wrong::Size => format!("`{text}` is too large: the largest size is {}", human_bytes(MOST)),
    })
}

/// Parses `2.5GB/s`.
pub fn bytes_per_second(text: &str) -> Result<u64, String> {
    let size = text.strip_suffix("/s").ok_or(Wrong::Form);
    let rate = size.and_then(|size| quantity(size, &SIZES, MOST));
    rate.and_then(|rate| if rate > 0 { Ok(rate) } else { Err(Wrong::Form) }).map_err(|wrong| {
        match wrong {
            Wrong::Form => format!("`{text}` is not a rate: write one such as 90MB/s"),
            Wrong::Size => {
                format!("`{text}` is too fast: the highest rate is {}/s", human_bytes(MOST))
            }
        }
    })
}

const TIMES: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

const SIZES: [(&str, f64); 7] = [
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("B", 1.0),
];

/// Why a text is no quantity.
enum Wrong {
    Form,
    Size,
}

/// A number and one of these units, rounded to a whole number of the smallest.
fn quantity(text: &str, units: &[(&str, f64)], most: u64) -> Result<u64, Wrong> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(Wrong::Form)?;
    let (number, unit) = text.split_at(end);
    let scale = units.iter().find(|(name, _)| *name == unit.trim()).ok_or(Wrong::Form)?.1;
    let value = (number.parse::<f64>().map_err(|_| Wrong::Form)? * scale).round();
    if value <= most as f64 { Ok(value as u64) } else { Err(Wrong::Size) }
}

/// Whole numbers up to here are exact as floating point: 104 days in nanoseconds, 9 PB.
pub(super) const MOST: u64 = 9_000_000_000_000_000;

/// `12.5 ms`: three to four digits.
pub fn human_ns(ns: u64) -> String {
    human(ns, &PRINTED_TIMES)
}

/// The least time from this one on that [`human_ns`] prints exactly: what it prints can be typed in.
pub fn printed_ns(ns: u64) -> u64 {
    printed(ns, &PRINTED_TIMES)
}

/// `24 GB`, `1.5 MB`: powers of 1000.
pub fn human_bytes(bytes: u64) -> String {
    human(bytes, &PRINTED_SIZES)
}

/// The least size from this one on that [`human_bytes`] prints exactly: what it prints can be typed in.
pub fn printed_bytes(bytes: u64) -> u64 {
    printed(bytes, &PRINTED_SIZES)
}

const PRINTED_TIMES: [(&str, u64); 4] =
    [("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1000), ("ns", 1)];
const PRINTED_SIZES: [(&str, u64); 4] =
    [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000), ("B", 1)];

/// Numbers from here on have one digit behind the point, smaller ones two.
const LARGE: u64 = 100;

/// The largest unit of which a value has at least one, or the smallest.
fn unit_of(value: u64, units: &[(&'static str, u64)]) -> (&'static str, u64) {
    let found = units.iter().find(|(_, scale)| value >= *scale).or(units.last());
    found.copied().unwrap_or(("", 1))
}

fn human(value: u64, units: &[(&'static str, u64)]) -> String {
    let (unit, scale) = unit_of(value, units);
    let digits = match value {
        whole if whole.is_multiple_of(scale) => 0,
        large if large / scale >= LARGE => 1,
        _ => 2,
    };
    format!("{:.digits$} {unit}", value as f64 / scale as f64)
}

fn printed(value: u64, units: &[(&'static str, u64)]) -> u64 {
    let (_, scale) = unit_of(value, units);
    let digit = if value / scale >= LARGE { scale / 10 } else { scale / 100 };
    value.next_multiple_of(digit.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units() {
        assert_eq!(time_ns("100ms"), Ok(100_000_000));
        assert_eq!(time_ns("73.5us"), Ok(73_500));
        assert_eq!(time_ns("1000000s"), Ok(LONGEST_NS));
        assert_eq!(duration_ns("1000001s"), Ok(LONGEST_NS + 1_000_000_000));
        assert_eq!(bytes("24GB"), Ok(24_000_000_000));
        assert_eq!(bytes("1.5 KiB"), Ok(1536));
        assert_eq!(bytes_per_second("2.5GB/s"), Ok(2_500_000_000));
        for bad in ["", "5", "ms", "-5ms", "5 parsecs", "1e9ms", "1.2.3ms"] {
            assert!(time_ns(bad).unwrap_err().contains("is not a time"), "{bad}");
        }
        for bad in ["5", "5GB", "0GB/s", "GB/s"] {
            assert!(bytes_per_second(bad).unwrap_err().contains("is not a rate"), "{bad}");
        }
    }

    #[test]
    fn what_is_too_much_is_said_with_the_most_there_may_be() {
        let huge = "99999999999999999999";
        let wrong = time_ns(&format!("{huge}s")).unwrap_err();
        assert_eq!(wrong, format!("`{huge}s` is too long: the longest time is 1000000 s"));
        assert!(time_ns("1000000.1s").unwrap_err().contains("too long"));
        assert!(duration_ns("9000001s").unwrap_err().contains("the longest time is 9000000 s"));
        let wrong = bytes(&format!("{huge}GB")).unwrap_err();
        assert_eq!(wrong, format!("`{huge}GB` is too large: the largest size is 9000000 GB"));
        let wrong = bytes_per_second(&format!("{huge}GB/s")).unwrap_err();
        assert_eq!(wrong, format!("`{huge}GB/s` is too fast: the highest rate is 9000000 GB/s"));
    }

    #[test]
    fn what_is_printed_can_be_typed_in() {
        let mut ns = 1u64;
        while ns < LONGEST_NS / 2 {
            let up = printed_ns(ns);
            assert!(up >= ns && (up - ns) as f64 <= ns as f64 * 0.01 + 1.0, "{ns}: {up}");
            assert_eq!(time_ns(&human_ns(up)), Ok(up));
            assert_eq!(bytes(&human_bytes(printed_bytes(ns))), Ok(printed_bytes(ns)));
            assert_eq!(printed_ns(up), up);
            ns = ns + ns / 37 + 1;
        }
        assert_eq!((printed_ns(12_345_678), printed_bytes(123_456_789)), (12_350_000, 123_500_000));
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
