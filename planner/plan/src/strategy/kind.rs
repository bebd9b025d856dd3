//! The strategies there are, by the names that the command line and packs have for them.

use super::PlanError;
use super::demand::{Demand, Pipeline};
use super::flexnn::Parts;
use crate::profile::Profile;
use eyelet::pack::STRATEGIES;
use std::fmt;
use std::str::FromStr;

/// A way to plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// Searches slices, residents, load times, addresses and algorithms together.
    #[default]
    Joint,
    /// FlexNN, or what is left of it without some parts.
    FlexNn(Parts),
    /// All weights stay in memory.
    Preload,
    /// The same, with the algorithms that need the least memory.
    Direct,
    /// Each layer's weights are loaded when its turn comes.
    OnDemand,
    /// A pipeline of Demand Layering.
    Demand(Demand),
    /// SwapNet's blocks of layers, two in memory.
    SwapNet,
}

const fn flexnn(static_plan: bool, preload: bool) -> Strategy {
    Strategy::FlexNn(Parts { static_plan, preload })
}

const fn demand(pipeline: Pipeline, least_delay: bool) -> Strategy {
    Strategy::Demand(Demand { pipeline, least_delay })
}

impl Strategy {
    /// All of them, in the order of [`STRATEGIES`].
    pub const ALL: [Self; STRATEGIES.len()] = [
        flexnn(true, true),
        Self::Preload,
        Self::OnDemand,
        Self::Joint,
        Self::Direct,
        flexnn(true, false),
        flexnn(false, true),
        flexnn(false, false),
        demand(Pipeline::Sequential, false),
        demand(Pipeline::Synchronous, false),
        demand(Pipeline::Asynchronous, false),
        demand(Pipeline::Asynchronous, true),
        demand(Pipeline::TwoStage, false),
        demand(Pipeline::TwoStage, true),
        Self::SwapNet,
    ];

    pub fn name(self) -> &'static str {
        let index = Self::ALL.iter().position(|one| *one == self);
        index.map_or("joint", |index| STRATEGIES[index])
    }

    /// What it does, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Self::Joint => {
                "slices, residents, load times, addresses and algorithms searched together"
            }
            Self::Preload => "all weights stay in memory",
            Self::Direct => "all weights stay in memory, by the algorithms that need the least",
            Self::OnDemand => "each layer's weights are loaded when its turn comes",
            Self::FlexNn(Parts { static_plan: true, preload: true }) => {
                "FlexNN: slices loaded ahead, memory planned statically"
            }
            Self::FlexNn(Parts { static_plan: true, preload: false }) => {
                "FlexNN without loading ahead"
            }
            Self::FlexNn(Parts { static_plan: false, preload: true }) => {
                "FlexNN with memory given out while the network runs"
            }
            Self::FlexNn(Parts { static_plan: false, preload: false }) => "FlexNN without either",
            Self::Demand(Demand { pipeline, least_delay }) => match (pipeline, least_delay) {
                (Pipeline::Sequential, _) => "Demand Layering: read, copy and compute in turn",
                (Pipeline::Synchronous, _) => "Demand Layering: stages advance together",
                (Pipeline::Asynchronous, false) => "Demand Layering: stages advance by themselves",
                (Pipeline::Asynchronous, true) => {
                    "Demand Layering, asynchronous, with queues for the least delay"
                }
                (Pipeline::TwoStage, false) => "Demand Layering: read and compute, without copies",
                (Pipeline::TwoStage, true) => {
                    "Demand Layering, two stages, with queues for the least delay"
                }
            },
            Self::SwapNet => "SwapNet: blocks of layers, two in memory",
        }
    }

    /// Whether it is for a board. Pipelines of two stages need a device that computes in the memory
    /// that is read into.
    pub fn serves(self, profile: &Profile) -> bool {
        let two = matches!(self, Self::Demand(Demand { pipeline: Pipeline::TwoStage, .. }));
        !(two && profile.transfer.is_some())
    }

    /// Whether it may have steps transform the weights of their layers.
    pub fn transforms(self) -> bool {
        self == Self::Joint
    }

    /// For each of so many layers: whether steps use its weights where they lie, in a pack that lies
    /// in memory. Published strategies copy all weights.
    pub fn in_place(self, layers: usize) -> Vec<bool> {
        vec![self == Self::Joint; layers]
    }

    /// Whether all layers are to be computed by the algorithm with the least memory.
    pub fn computes_directly(self) -> bool {
        self == Self::Direct
    }

    /// Whether it looks for the queues with the least delay.
    pub fn has_least_delay(self) -> bool {
        matches!(self, Self::Demand(Demand { least_delay: true, .. }))
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Strategy {
    type Err = PlanError;

    fn from_str(name: &str) -> Result<Self, PlanError> {
        let index = STRATEGIES.iter().position(|known| *known == name);
        let found = index.map(|index| Self::ALL[index]);
        found.ok_or_else(|| PlanError::Strategy(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_packs() {
        for name in STRATEGIES {
            let strategy: Strategy = name.parse().unwrap();
            assert_eq!(strategy.name(), name);
            let alike = Strategy::ALL.iter().filter(|one| one.about() == strategy.about());
            assert_eq!(alike.count(), 1, "{name}");
            let Strategy::FlexNn(Parts { static_plan, preload }) = strategy else {
                assert_eq!(matches!(strategy, Strategy::Demand(_)), name.starts_with("demand"));
                assert_eq!(strategy.has_least_delay(), name.ends_with("-md"));
                continue;
            };
            assert_eq!(static_plan, !name.contains("dynamic"), "{name}");
            assert_eq!(preload, !name.contains("no-preload"), "{name}");
        }
        assert_eq!(Strategy::default().name(), "joint");
        assert!("magic".parse::<Strategy>().unwrap_err().to_string().contains("demand-2s-md"));
    }
}
