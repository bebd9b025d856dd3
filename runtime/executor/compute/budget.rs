//! Changing the budget or the shape between two inferences: another plan of the same pack.
//!
//! All plans of a pack cut the same panels of the same weights, so that nothing is written again
//! and nothing is computed anew: the new plan's tables, and the skeleton of another shape, are read
//! to where the old ones were, residents of both are kept or moved, others are read. The loader does it, because it has the
//! storage and the allocator of weights; the compute side asks and waits, without a plan meanwhile.

use super::model::{Feed, Model};
use crate::arena::Lapsing;
use crate::executor::current::Current;
use crate::executor::error::OpenError;
use crate::executor::header::{Room, Unfit, choose};
use crate::executor::switch::{PlanError, Switch};
use crate::pack::{PlanEntry, PlanView};
use bytemuck::bytes_of;

/// Why the budget cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetError {
    /// An inference is in progress: finish it first. Nothing has changed.
    Running,
    /// The arena that the pack was opened in is smaller. Nothing has changed.
    Arena {
        /// Bytes asked for.
        asked: u64,
        /// Bytes of the arena.
        arena: u64,
    },
    /// No plan of the shape is that small. Nothing has changed.
    Budget {
        /// Bytes asked for.
        asked: u64,
        /// Bytes that the shape's smallest plan needs.
        smallest: u64,
    },
    /// The plans that are small enough need more fast memory than the pack was opened in. Nothing
    /// has changed.
    Fast {
        /// Bytes of fast memory.
        fast: u64,
        /// The least that one of these plans needs.
        smallest: u64,
    },
    /// The plans that are small enough have scratch for fewer threads than the pack was opened for.
    /// Nothing has changed.
    Threads {
        /// Threads that the pack was opened for:
        /// [`Options::threads`](crate::executor::Options::threads).
        opened: u32,
        /// Threads of the plans.
        planned: u32,
    },
    /// The new plan's tables or residents could not be read. The model has no plan until some
    /// budget or shape is set successfully.
    Plan(PlanError),
}

/// Why the shape cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// The pack has no shape of that number. Nothing has changed.
    Absent {
        /// The number asked for, from 0 on.
        asked: u32,
        /// How many shapes the pack has.
        shapes: u32,
    },
    /// The change fails as one of budget does: no plan of the shape fits the budget that was set
    /// last, for example.
    Change(BudgetError),
}

impl core::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Absent { asked, shapes } => OpenError::Shape { asked, shapes }.fmt(f),
            Self::Change(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ShapeError {}

impl core::fmt::Display for BudgetError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Running => f.write_str(
                "budget and shape can only be changed between two inferences: finish the current one",
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
            Self::Fast { fast, smallest } => OpenError::Fast { fast: *fast, smallest: *smallest }.fmt(f),
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
    /// The plan that is followed; an empty one after a change that failed.
    #[doc(hidden)]
    pub fn plan(&self) -> &PlanView<'_> {
        self.current.plan()
    }

    /// The entry of the current plan in the pack's header. After a change that failed: of
    /// the plan that was asked for.
    pub fn entry(&self) -> &PlanEntry {
        &self.current.entry
    }

    /// How many shapes the pack has.
    pub fn shapes(&self) -> u32 {
        self.shared.header.shapes
    }

    /// The number of the shape that is computed. After a change that failed: of the one that was
    /// asked for.
    pub fn shape(&self) -> u32 {
        self.current.entry.shape.into()
    }

    /// Changes to the plan with the largest budget that needs at most `bytes` of arena, between two
    /// inferences. It costs nothing if that is the current plan. Inputs and outputs lose their
    /// values. The results of the next inference are those of a model that was opened with this
    /// plan.
    ///
    /// `bytes` is at most the length of the arena that the pack was opened in. The plan leaves the
    /// rest of it [`unused`](Self::unused).
    pub fn set_budget(&mut self, bytes: u64) -> Result<Switch, BudgetError> {
        let arena = self.shared.arena;
        if bytes > arena && self.position == 0 {
            return Err(BudgetError::Arena { asked: bytes, arena });
        }
        self.change(self.shape(), bytes)
    }

    /// Changes to shape number `shape` of the pack, between two inferences: to its plan with the
    /// largest budget within the budget that was set last. Inputs and outputs then have that
    /// shape's extents, and lose their values. Residents that both plans have stay in the arena, as
    /// far as both cut them into the same loads. The results of the next inference are those of a
    /// model that was opened in that shape.
    pub fn set_shape(&mut self, shape: u32) -> Result<Switch, ShapeError> {
        let shapes = self.shapes();
        if shape >= shapes {
            return Err(ShapeError::Absent { asked: shape, shapes });
        }
        self.change(shape, self.current.budget).map_err(ShapeError::Change)
    }

    /// The best plan of a shape within a budget.
    pub(in crate::executor) fn planned(
        &self,
        shape: u32,
        budget: u64,
    ) -> Result<PlanEntry, BudgetError> {
        if self.position != 0 {
            return Err(BudgetError::Running);
        }
        self.chosen(shape, budget)
    }

    /// The best plan of a shape within a budget, whether or not an inference has begun.
    pub(in crate::executor) fn chosen(
        &self,
        shape: u32,
        budget: u64,
    ) -> Result<PlanEntry, BudgetError> {
        let shared = self.shared;
        let opened = shared.threads;
        let (arena, fast) = (budget, shared.fast);
        let chosen = choose(shared.front, shared.header, shape, Room { arena, fast }, opened);
        chosen.map_err(|unfit| match unfit {
            Unfit::Budget { smallest } => BudgetError::Budget { asked: budget, smallest },
            Unfit::Fast { smallest } => BudgetError::Fast { fast, smallest },
            Unfit::Threads { planned } => BudgetError::Threads { opened, planned },
        })
    }

    /// Changes to the best plan of a shape within a budget.
    pub(in crate::executor) fn change(
        &mut self,
        shape: u32,
        budget: u64,
    ) -> Result<Switch, BudgetError> {
        let (shared, entry) = (self.shared, self.planned(shape, budget)?);
        self.current.budget = budget;
        let same = bytes_of(&entry) == bytes_of(&self.current.entry);
        if same && self.current.proven.get().is_some() {
            return Ok(Switch::default());
        }
        *self.current = Current { entry, budget, proven: Lapsing::NONE };
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
    /// raised, which may overwrite it. Empty after a change that failed.
    pub fn unused(&mut self) -> &mut [u8] {
        match self.current.proven.get() {
            Some(proven) => self.activations.unused(proven),
            None => &mut [],
        }
    }
}
