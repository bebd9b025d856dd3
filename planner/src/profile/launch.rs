//! What of a step's cost is a GPU's own: how many launches it takes, and how many of the multiprocessors it keeps busy.
//!
//! A GPU computes in tiles, each by a block of threads on one multiprocessor, which needs two at a time to be busy. A
//! step with fewer tiles than twice the multiprocessors leaves some idle, and takes as long as if it had as many:
//!
//! ```text
//! time = max(work / (rate · occupancy), bytes / memory rate) + launches · launch cost
//! occupancy = min(1, tiles / (2 · multiprocessors))
//! ```
//!
//! Work and tiles both grow with a step's panels, so that below full occupancy the time stays the same: that of one
//! round of tiles. Tiles are taken to be 64 rows of a panel, whatever the kernels choose.

use super::cost::Class;
use crate::network::Network;
use eyelet::device::DeviceError;
use eyelet::ops::cuda::{self, Call, Launch, Queue};
use eyelet::ops::{Slice, winograd};
use eyelet::pack::{ConvParams, Layer, WinogradParams, params};

/// Rows of a tile.
const TILE_ROWS: u64 = 64;

/// Tiles that keep a multiprocessor busy.
const TILES_EACH: f64 = 2.0;

/// How a GPU launches a layer's steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Launches {
    /// Of each step.
    pub count: f64,
    /// Panels (or as many channels of a layer without) that keep all multiprocessors busy: a step with fewer takes as long.
    pub busy_panels: f64,
}

impl Launches {
    pub(super) fn of(network: &Network, layer: &Layer, multiprocessors: u32) -> Self {
        let output = &network.tensors[layer.output as usize];
        let column = match Class::of(network, layer) {
            Class::Winograd => {
                let p: WinogradParams = params(layer);
                let points = u64::from(p.tile + 2).pow(2);
                points * winograd::tiles(layer, output).div_ceil(TILE_ROWS)
            }
            Class::Conv1x1 | Class::ConvKxK | Class::FullyConnected => {
                let p: ConvParams = params(layer);
                output.rows().div_ceil(TILE_ROWS) * u64::from(p.chains.max(1))
            }
            _ => output.rows().div_ceil(TILE_ROWS),
        };
        let busy = TILES_EACH * f64::from(multiprocessors);
        Self {
            count: count(network, layer, multiprocessors),
            busy_panels: busy / column.max(1) as f64,
        }
    }
}

/// Launches that the operator makes for all of a layer.
fn count(network: &Network, layer: &Layer, multiprocessors: u32) -> f64 {
    struct Count(u32);
    impl Queue for Count {
        fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
            self.0 += u32::from(!launch.grid.contains(&0));
            Ok(())
        }
    }
    let record = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
    let output = record(layer.output);
    let rows = output.rows() as u32;
    let slice = Slice { first: 0, count: layer.panels, row: 0, rows, algorithm: 0 };
    let call = Call {
        layer,
        inputs: layer.inputs.map(record),
        output,
        operands: [0; 2],
        out: 0,
        weights: 0,
        scratch: 0,
        slice,
        multiprocessors,
    };
    let mut launches = Count(0);
    // A queue that counts has no error to tell.
    let _ = cuda::run(&call, &mut launches);
    f64::from(launches.0.max(1))
}
