//! The strategies of published systems, as they are published, by eyelet's kernels and runtime; and
//! simple strategies.
//!
//! [`JOINT`] is predicted to be no slower than any of them.

mod contest;
pub mod demand;
pub mod flexnn;
mod simple;
pub mod swapnet;

use demand::Demand;
use eyelet_plan::search::{Joint, Strategy};
use flexnn::FlexNn;
pub use simple::{Direct, OnDemand, Preload};
use swapnet::SwapNet;

/// One of each system, which is compared with all its variants, then the simple strategies.
static RIVALS: [&dyn Strategy; 5] =
    [&FlexNn::WHOLE, &Demand::ALL[0], &SwapNet, &Preload, &OnDemand];

/// The joint search, no slower than its rivals.
pub static JOINT: Joint<'static> = Joint { rivals: &RIVALS };

static ALL: [&dyn Strategy; 15] = [
    &FlexNn::ALL[0],
    &Preload,
    &OnDemand,
    &JOINT,
    &Direct,
    &FlexNn::ALL[2],
    &FlexNn::ALL[1],
    &FlexNn::ALL[3],
    &Demand::ALL[0],
    &Demand::ALL[1],
    &Demand::ALL[2],
    &Demand::ALL[3],
    &Demand::ALL[4],
    &Demand::ALL[5],
    &SwapNet,
];

/// All strategies: the published ones, the simple ones, and the joint search.
pub fn all() -> &'static [&'static dyn Strategy] {
    &ALL
}

/// The names of all strategies.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> + Clone {
    ALL.iter().map(|strategy| strategy.name())
}

/// No strategy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy `{0}`; there are: {list}", list = names().collect::<Vec<_>>().join(", "))]
pub struct Unknown(String);

/// The strategy of a name.
pub fn named(name: &str) -> Result<&'static dyn Strategy, Unknown> {
    let found = ALL.iter().find(|strategy| strategy.name() == name);
    found.copied().ok_or_else(|| Unknown(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_packs() {
        for name in names() {
            let strategy = named(name).unwrap();
            assert_eq!(strategy.name(), name);
            let alike = all().iter().filter(|one| one.about() == strategy.about());
            assert_eq!(alike.count(), 1, "{name}");
            let Some(FlexNn { static_plan, preload }) =
                FlexNn::ALL.into_iter().find(|one| one.name() == name)
            else {
                let demand = Demand::named(name);
                assert_eq!(demand.is_some(), name.starts_with("demand"));
                let least_delay = demand.is_some_and(|demand| demand.least_delay);
                assert_eq!(least_delay, name.ends_with("-md"));
                continue;
            };
            assert!(name.starts_with("flexnn"));
            assert_eq!(static_plan, !name.contains("dynamic"), "{name}");
            assert_eq!(preload, !name.contains("no-preload"), "{name}");
        }
        assert_eq!(JOINT.name(), "joint");
        assert!(named("magic").unwrap_err().to_string().contains("demand-2s-md"));
    }
}
