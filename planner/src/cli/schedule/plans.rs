//! The plans of a set's packs and models: what they cost, found once for each source.

use super::costs::{Known, Where, of_model, of_pack};
use crate::cli::calibrate::Calibration;
use crate::cli::output::Output;
use eyelet_planner::open::{LIST, read_to_string};
use eyelet_tasks::set::file::Source;
use eyelet_tasks::set::{Cost, measured};

/// Sources, and their plans.
pub struct Plans {
    calibration: Calibration,
    output: Output,
    known: Vec<(Source, Vec<Known>)>,
}

impl Plans {
    pub fn new(calibration: Calibration, output: Output) -> Self {
        Self { calibration, output, known: Vec::new() }
    }

    /// What networks are planned for.
    pub fn place<'a>(&self, board: Option<&'a str>) -> Where<'a> {
        Where { board, calibration: self.calibration, output: self.output }
    }

    /// What the plans of a source cost, on a board or on this machine.
    pub fn costs(&mut self, source: &Source, board: Option<&str>) -> Result<Vec<Cost>, String> {
        let costs = |plans: &[Known]| plans.iter().map(|known| known.cost.clone()).collect();
        if let Some((_, plans)) = self.known.iter().find(|(known, _)| known == source) {
            return Ok(costs(plans));
        }
        let plans = match source {
            Source::Pack(path) => {
                of_pack(path, self.place(board)).map_err(|error| error.to_string())?
            }
            Source::Model { path, budgets } => {
                of_model(path, budgets, self.place(board)).map_err(|error| error.to_string())?
            }
            Source::Measured(path) => {
                let json = read_to_string(path, LIST).map_err(|error| error.to_string())?;
                return measured(&json).map(|cost| vec![cost]);
            }
        };
        let found = costs(&plans);
        self.known.push((source.clone(), plans));
        Ok(found)
    }

    /// The budget of the plan of a source that costs so much.
    pub fn budget(&self, source: &Source, cost: &Cost) -> Option<u64> {
        let (_, plans) = self.known.iter().find(|(known, _)| known == source)?;
        plans.iter().find(|known| known.cost == *cost).map(|known| known.budget)
    }
}
