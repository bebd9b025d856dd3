//! `eyelet plan --report`: a pack's plans as one page that needs nothing else. `eyelet run --report` has what was measured next to
//! what was predicted.
//!
//! The page (folder `page/`) is the same for every pack; what it draws stands in it as JSON.
//! Everything is recovered from the pack, so that it shows what will run, and predicted anew.

mod data;
mod graph;

use super::Error;
use super::output::Output;
use super::pack_file::{PackFile, planner_types};
use super::progress::Progress;
use data::{Curve, Data};
use eyelet::pack::PlanEntry;
use eyelet_planner::network::Network;
use eyelet_planner::plan::Plan;
use eyelet_planner::profile::Profile;
use eyelet_planner::replace::replace;
use eyelet_planner::search::{PackRequest, Request};
use std::io::Write;
use std::path::Path;

pub use data::Measured;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// One function's body, in the order of what uses what.
const SCRIPT: &str = concat!(
    include_str!("page/words.js"),
    include_str!("page/plan.js"),
    include_str!("page/map.js"),
    include_str!("page/graph.js"),
    include_str!("page/curve.js"),
    include_str!("page/layers.js"),
    include_str!("page/choices.js"),
);

/// Where the parts go, in the order in which they stand in the page.
const MARKS: [&str; 3] = ["/*style*/", "/*data*/", "/*script*/"];

/// What plans are predicted with.
#[derive(Clone, Copy)]
pub struct By<'a> {
    pub profile: &'a Profile,
    pub threads: u32,
    pub exact: bool,
}

/// Writes the page of a pack that was made for a request.
pub fn write(
    file: &Path,
    pack: &Path,
    wanted: &PackRequest<'_>,
    output: Output,
) -> Result<(), Error> {
    let found = PackFile::open(pack)?;
    let PackRequest { profile, threads, exact, .. } = wanted;
    let by = By { profile, threads: *threads, exact: *exact };
    draw(file, &found, &found.entries, by, None, output)
}

/// Writes the page of some plans of a pack: with the curve of others, or the first with what was measured of it.
pub fn draw(
    file: &Path,
    found: &PackFile,
    entries: &[PlanEntry],
    by: By<'_>,
    measured: Option<Measured>,
    output: Output,
) -> Result<(), Error> {
    let mut plans: Vec<(Network, Plan)> = Vec::new();
    for entry in entries {
        let proven = found.prove(entry)?;
        plans.push(planner_types(found, &proven, entry)?);
    }
    let Some((network, first)) = plans.first() else {
        return Err(Error::Internal("the pack has no plans".to_owned()));
    };
    let request = Request {
        network,
        weights_bytes: found.header.weights_bytes,
        budget: first.budget,
        threads: first.threads.min(by.threads),
        profile: by.profile,
        exact: by.exact,
        holds_all: false,
    };
    // To plan takes memory that a board may not have, whose budget its arena had.
    let curve = measured.is_none().then(|| {
        let progress = Progress::count(output, "drawing", Curve::POINTS as u64);
        Curve::new(&request, &plans, |done| progress.set(done as u64))
    });
    let mut data = Data::new(&request, first, curve);
    for (network, plan) in &plans {
        data.plans
            .push(data::Plan::new(&Request { network, budget: plan.budget, ..request }, plan));
    }
    if let Some(plan) = data.plans.first_mut() {
        plan.measured = measured;
    }
    let json = serde_json::to_string(&data)
        .map_err(|error| Error::Internal(format!("the report as JSON: {error}")))?;
    let page = assemble([STYLE, &escape(&json), SCRIPT]);
    replace(file, |sink| sink.write_all(page.as_bytes()))
        .map_err(|source| Error::Write { path: file.to_owned(), source })
}

/// The page with its parts.
fn assemble(parts: [&str; 3]) -> String {
    let mut text = String::new();
    let mut rest = PAGE;
    for (mark, part) in MARKS.into_iter().zip(parts) {
        // A test sees to it that every mark is there.
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        text += before;
        text += part;
        rest = after;
    }
    text + rest
}

/// JSON that cannot end the element it stands in, nor begin another.
fn escape(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_its_parts_once_and_in_order() {
        let places = MARKS.map(|mark| {
            assert_eq!(PAGE.matches(mark).count(), 1, "{mark}");
            PAGE.find(mark)
        });
        assert!(places.is_sorted());
        let page = assemble(["a", "/*script*/", "c"]);
        assert!(page.contains("/*script*/") && page.contains("\nc\n"), "{page}");
        for part in [STYLE, SCRIPT] {
            assert!(!part.contains("</"), "would end its element");
        }
    }

    #[test]
    fn no_name_can_leave_its_place() {
        let name = "</script><script>alert(\"&\")//<!--";
        let json = escape(&serde_json::to_string(name).unwrap());
        assert!(!json.contains(['<', '>', '&']), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), name);
    }

    #[test]
    fn nothing_is_fetched() {
        for text in [PAGE, STYLE, SCRIPT] {
            for address in ["http:", "https:", "url(", "@import", "fetch(", "src="] {
                let found = text.replace("http://www.w3.org/2000/svg", "").contains(address);
                assert!(!found, "{address}");
            }
        }
    }
}
