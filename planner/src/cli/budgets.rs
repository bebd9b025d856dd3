//! Budgets as they are written: a size, several with commas between them, or a range. All verbs read them alike.

use eyelet::pack::PAGE;
use eyelet_planner::size;

/// Sizes, and ranges of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets(Vec<Part>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    One(u64),
    /// From one to the other, which is larger.
    Range(u64, u64),
}

/// Budgets that a range stands for, where no option says how many.
pub const POINTS: u32 = 4;

impl Budgets {
    /// Parses `24MiB`, `8MiB,16MiB`, `8MiB..64MiB`.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(Part::parse).collect::<Result<_, _>>().map(Self)
    }

    /// The sizes in the order in which they are written. A range stands for `points` of them.
    pub fn list(&self, points: u32) -> Vec<u64> {
        let list = self.0.iter().flat_map(|part| match *part {
            Part::One(bytes) => vec![bytes],
            Part::Range(low, high) => spaced((low, high), points),
        });
        list.collect()
    }

    /// The sizes of several, each once, the smallest first.
    pub fn sorted<'a>(all: impl IntoIterator<Item = &'a Self>, points: u32) -> Vec<u64> {
        let mut list: Vec<u64> = all.into_iter().flat_map(|one| one.list(points)).collect();
        list.sort_unstable();
        list.dedup();
        list
    }
}

impl Part {
    fn parse(text: &str) -> Result<Self, String> {
        let Some((low, high)) = text.split_once("..") else {
            return size::parse(text.trim()).map(Self::One);
        };
        let (low, high) = (size::parse(low.trim())?, size::parse(high.trim())?);
        match low < high {
            true => Ok(Self::Range(low, high)),
            false => Err(format!("`{text}` is empty: the smaller size comes first")),
        }
    }
}

/// Budgets evenly spaced in their logarithms, in whole pages but for the ends, each once.
fn spaced((low, high): (u64, u64), points: u32) -> Vec<u64> {
    let ratio = high as f64 / low as f64;
    let at = |index: u32| match index {
        0 => low,
        last if last + 1 == points => high,
        index => {
            let share = f64::from(index) / f64::from(points - 1);
            let bytes = (low as f64 * ratio.powf(share)) as u64;
            bytes.next_multiple_of(PAGE).clamp(low, high)
        }
    };
    let mut budgets: Vec<u64> = (0..points).map(at).collect();
    budgets.dedup();
    budgets
}

/// A word after `--budget`, which may be the model: `--budget 24MiB model.onnx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    Budgets(Budgets),
    /// No size at all, and perhaps a path.
    Path(String),
}

impl Word {
    /// Budgets, or the path of a file that is there or begins like a name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let named = |text: &str| text.starts_with(|c: char| c.is_alphabetic() || c == '/');
        match Budgets::parse(text) {
            Ok(budgets) => Ok(Self::Budgets(budgets)),
            Err(_) if named(text) || std::path::Path::new(text).is_file() => {
                Ok(Self::Path(text.to_owned()))
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_read() {
        let list = |text: &str| Budgets::parse(text).map(|budgets| budgets.list(4));
        assert_eq!(list("24MiB"), Ok(vec![24 << 20]));
        assert_eq!(list("16M, 8mb"), Ok(vec![16 << 20, 8 << 20]));
        assert_eq!(list("8MiB..64MiB"), Ok(vec![8 << 20, 16 << 20, 32 << 20, 64 << 20]));
        assert_eq!(list("1KiB,8MiB..64MiB").map(|sizes| sizes.len()), Ok(5));
        for (bad, says) in [
            ("8MiB..4MiB", "the smaller size comes first"),
            ("8MiB..x", "is not a size"),
            ("8MiB,,4MiB", "is not a size"),
            ("8MiB,0", "no memory at all"),
        ] {
            assert!(Budgets::parse(bad).unwrap_err().contains(says), "{bad}");
        }
        let two = ["2MiB,1MiB", "1MiB"].map(|text| Budgets::parse(text).unwrap());
        assert_eq!(Budgets::sorted(&two, 4), [1 << 20, 2 << 20]);
    }

    #[test]
    fn budgets_are_spaced_by_their_ratio() {
        assert_eq!(spaced((8 << 20, 64 << 20), 4), [8 << 20, 16 << 20, 32 << 20, 64 << 20]);
        assert_eq!(spaced((4096, 8192), 9), [4096, 8192]);
        let odd = spaced((10_000, 1_000_001), 7);
        assert_eq!((odd[0], odd[6]), (10_000, 1_000_001));
        assert!(odd.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_path_is_told_from_a_wrong_size() {
        let path = |text: &str| Ok(Word::Path(text.to_owned()));
        assert_eq!(Word::parse("model.onnx"), path("model.onnx"));
        assert_eq!(Word::parse("/no/such.onnx"), path("/no/such.onnx"));
        assert!(matches!(Word::parse("1MiB"), Ok(Word::Budgets(_))));
        for bad in ["24parsecs", "-1", "0", "1.2.3K"] {
            assert!(Word::parse(bad).is_err(), "{bad}");
        }
    }
}
