//! Changing the budget between two inferences: another plan of the same pack.
//!
//! All plans of a pack cut the same panels of the same weights, so that nothing is written again
//! and nothing is computed anew: the new plan's tables are read to where the old one's were,
//! residents of both are kept or moved, others are read. The loader does it, because it has the
//! storage and the allocator of weights; the compute side asks and waits, without a plan meanwhile.

use super::current::Current;
use super::header::{Unfit, choose};
use super::model::{Feed, Model};
use super::switch::{PlanError, Switch};
use crate::arena::Lapsing;
use crate::pack::{PlanEntry, PlanView};
use bytemuck::bytes_of;

/// Why the budget cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetError {
    /// An inference is under way: finish it first. Nothing has changed.
    Running,
    /// The arena that the pack was opened in is smaller. Nothing has changed.
    Arena {
        /// Bytes asked for.
        asked: u64,
        /// Bytes of the arena.
        arena: u64,
    },
    /// No plan of the pack is that small. Nothing has changed.
    Budget {
        /// Bytes asked for.
        asked: u64,
        /// Bytes that the pack's smallest plan needs.
        smallest: u64,
    },
    /// The plans that are small enough have scratch for fewer threads than the pack was opened for.
    /// Nothing has changed.
    Threads {
        /// Threads that the pack was opened for: [`Options::threads`](super::Options::threads).
        opened: u32,
        /// Threads of the plans.
        planned: u32,
    },
    /// The new plan's tables or residents could not be read. The model has no plan until some
    /// budget is set successfully.
    Plan(PlanError),
}

impl core::fmt::Display for BudgetError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Running => f.write_str(
                "the budget can only be changed between two inferences: finish the current one",
            ),
            Self::Arena { asked, arena } => write!(
                f,
                "a budget of {asked} bytes asked for, the arena has {arena}: open the pack in a larger one"
            ),
            Self::Budget { asked, smallest } => write!(
                f,
                "a budget of {asked} bytes asked for, the pack's smallest plan needs {smallest}; give it \
                 more or plan for a smaller budget"
            ),
            Self::Threads { opened, planned } => write!(
                f,
                "the pack was opened for {opened} threads, the plans of this budget have scratch for \
                 {planned}; plan with --threads {opened} or open it for fewer"
            ),
            Self::Plan(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for BudgetError {}

impl<F: Feed> Model<'_, '_, F> {
    /// The plan that is followed; an empty one after a change of budget that failed.
    #[doc(hidden)]
    pub fn plan(&self) -> &PlanView<'_> {
        self.current.plan()
    }

    /// The entry of the current plan in the pack's header. After a change of budget that failed: of
    /// the plan that was asked for.
    pub fn entry(&self) -> &PlanEntry {
        &self.current.entry
    }

    /// Changes to the plan with the largest budget that needs at most `bytes` of arena, between two
    /// inferences. It costs nothing if that is the current plan. Inputs and outputs lose their
    /// values. The results of the next inference are those of a model that was opened with this
    /// plan.
    ///
    /// `bytes` is at most the length of the arena that the pack was opened in. What the plan leaves
    /// of it is [`unused`](Self::unused).
    pub fn set_budget(&mut self, bytes: u64) -> Result<Switch, BudgetError> {
        let shared = self.shared;
        if self.position != 0 {
            return Err(BudgetError::Running);
        }
        if bytes > shared.arena {
            return Err(BudgetError::Arena { asked: bytes, arena: shared.arena });
        }
        let opened = shared.threads;
        let chosen = choose(shared.page(), shared.header, bytes, opened);
        let entry = chosen.map_err(|unfit| match unfit {
            Unfit::Budget { smallest } => BudgetError::Budget { asked: bytes, smallest },
            Unfit::Threads { planned } => BudgetError::Threads { opened, planned },
        })?;
        let same = bytes_of(&entry) == bytes_of(&self.current.entry);
        if same && self.current.proven.get().is_some() {
            return Ok(Switch::default());
        }
        *self.current = Current { entry, proven: Lapsing::NONE };
        self.feed.switch(&entry);
        let answer = shared.answer.get();
        shared.answer.clear();
        self.rewind();
        match answer {
            Some(Ok((proven, switch))) => {
                self.current.proven = proven;
                Ok(switch)
            }
            Some(Err(error)) => Err(BudgetError::Plan(error)),
            // Not without a loader, which is not before the model's end.
            None => Err(BudgetError::Running),
        }
    }

    /// The end of the arena, which the plan does not use. Its owner may use it until the budget is
    /// raised, which may overwrite it. Empty after a change of budget that failed.
    pub fn unused(&mut self) -> &mut [u8] {
        match self.current.proven.get() {
            Some(proven) => self.activations.unused(proven),
            None => &mut [],
        }
    }
}
