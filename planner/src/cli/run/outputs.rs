//! The files of the outputs: one for each, whatever outputs are called. They are decided before the inferences.

use super::report::Tensor;
use crate::cli::Error;
use eyelet::executor::{Feed, Model};
use eyelet::pack::Port;
use eyelet::pack::crc32c::crc32c;
use eyelet_planner::npy;
use std::collections::{HashMap, HashSet};
use std::path::Path;

const EXTENSION: &str = ".npy";

/// Most bytes of a name where the file system does not say, and least that it is believed.
const LONGEST_NAME: u64 = 255;
const SHORTEST_NAME: u64 = 64;

/// Makes the folder and says in which file of it each output will be.
pub fn decide(folder: &Path, outputs: &mut [Tensor]) -> Result<(), Error> {
    std::fs::create_dir_all(folder)
        .map_err(|source| Error::Write { path: folder.to_owned(), source })?;
    let longest = rustix::fs::statvfs(folder).map_or(LONGEST_NAME, |found| found.f_namemax);
    let longest = longest.clamp(SHORTEST_NAME, LONGEST_NAME) as usize;
    let names: Vec<&str> = outputs.iter().map(|tensor| tensor.name.as_str()).collect();
    let stems = stems(&names, longest - EXTENSION.len());
    for (tensor, stem) in outputs.iter_mut().zip(stems) {
        tensor.file = Some(folder.join(stem + EXTENSION));
    }
    Ok(())
}

/// Writes the outputs to their files.
pub fn write(model: &mut Model<'_, '_, impl Feed>, outputs: &[Tensor]) -> Result<(), Error> {
    for (index, tensor) in outputs.iter().enumerate() {
        let Some(path) = &tensor.file else { continue };
        let kind = model.outputs().get(index).map(Port::kind).unwrap_or_default();
        if let Ok(words) = model.output_words(index) {
            npy::write_words(path, &tensor.shape, kind, words)?;
        } else if let Ok(floats) = model.output(index) {
            npy::write_floats(path, &tensor.shape, kind, floats)?;
        }
    }
    Ok(())
}

/// For each name one that a file can have, of at most so many bytes, all different even where case does not count. What had
/// to be changed to that end has the name's checksum behind it, which does not depend on other names.
fn stems(names: &[&str], longest: usize) -> Vec<String> {
    // Names of tensors may look like paths.
    let plain = |c: char| if c.is_control() || "/\\".contains(c) { '_' } else { c };
    let plain: Vec<String> = names.iter().map(|name| name.chars().map(plain).collect()).collect();
    let mut alike: HashMap<String, usize> = HashMap::new();
    for stem in &plain {
        *alike.entry(stem.to_lowercase()).or_default() += 1;
    }
    let fits = |index: usize| plain[index].len() <= longest && !plain[index].is_empty();
    let alone = |index: usize| alike[&plain[index].to_lowercase()] == 1;
    let mut stems = vec![String::new(); names.len()];
    let mut taken = HashSet::new();
    // Names that stay as they are come first: no other is in their way.
    for (index, stem) in stems.iter_mut().enumerate() {
        let unchanged = plain[index] == names[index];
        if fits(index) && (alone(index) || unchanged) && taken.insert(plain[index].to_lowercase()) {
            stem.clone_from(&plain[index]);
        }
    }
    for (index, stem) in stems.iter_mut().enumerate().filter(|(_, stem)| stem.is_empty()) {
        let crc = crc32c(0, names[index].as_bytes());
        // Two names may have one checksum, or another look like it.
        let suffixes = (1..).map(|time| match time {
            1 => format!("-{crc:08x}"),
            time => format!("-{crc:08x}-{time}"),
        });
        let candidates = suffixes.map(|suffix| {
            let front = plain[index].floor_char_boundary(longest - suffix.len());
            format!("{}{suffix}", &plain[index][..front])
        });
        *stem = candidates
            .into_iter()
            .find(|candidate| taken.insert(candidate.to_lowercase()))
            .unwrap_or_default();
    }
    stems
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stems of names, all different, and none too long.
    #[track_caller]
    fn of(names: &[&str], longest: usize) -> Vec<String> {
        let stems = stems(names, longest);
        let different: HashSet<String> = stems.iter().map(|stem| stem.to_lowercase()).collect();
        assert_eq!(different.len(), names.len(), "{stems:?}");
        assert!(stems.iter().all(|stem| (1..=longest).contains(&stem.len())), "{stems:?}");
        stems
    }

    #[test]
    fn names_stay_as_they_are_where_that_can_be() {
        assert_eq!(of(&["probs", "a/b", "x:0", "ü"], 251), ["probs", "a_b", "x:0", "ü"]);
    }

    #[test]
    fn names_that_clash_get_suffixes_of_their_own() {
        let clash = of(&["a/b", "a_b", "a\\b"], 251);
        assert_eq!(clash[1], "a_b");
        assert!(clash[0].starts_with("a_b-") && clash[2].starts_with("a_b-"), "{clash:?}");
        // In another order, and with others, the same.
        let again = of(&["c", "a_b", "a\\b", "a/b"], 251);
        assert_eq!([&again[3], &again[1], &again[2]], [&clash[0], &clash[1], &clash[2]]);
        of(&["Out", "out", "OUT"], 251);
        of(&["same", "same", "same", ""], 251);
        of(&[&clash[0], "a/b", "a_b"], 251);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let long = "é".repeat(200);
        let other = format!("{long}e");
        let stems = of(&[&long, &other, "short"], 251);
        assert!(stems[0].starts_with("éé") && stems[2] == "short");
        assert_eq!(of(&["exactly"], 7), ["exactly"]);
        for longest in 60..70 {
            of(&[&long, &other], longest);
        }
    }
}
