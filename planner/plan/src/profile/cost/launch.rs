//! A GPU's part of a step's cost: the number of launches, and the multiprocessors that the step keeps busy.
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

use super::class::Class;
use eyelet::device::DeviceError;
use eyelet::device::accelerator::{Launch, Queue};
use eyelet::ops::cuda::{self, Call};
use eyelet::ops::{Slice, winograd};
use eyelet::pack::{ConvParams, INPUTS, Layer, WinogradParams, params};
use eyelet_model::network::Network;

/// Rows of a tile.
const TILE_ROWS: u64 = 64;

/// Tiles that keep a multiprocessor busy.
const TILES_EACH: f64 = 2.0;

/// How a GPU launches a layer's steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Launches {
    /// Launches of each step.
    pub count: f64,
    /// Panels that keep all multiprocessors busy. A step with fewer takes as long. A layer without panels counts channels
    /// in groups of a panel's width.
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
    let slice = Slice { first: 0, count: layer.panels, row: 0, rows, ..Slice::default() };
    let call = Call {
        layer,
        inputs: layer.inputs.map(record),
        output,
        operands: [0; INPUTS],
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

#[cfg(test)]
mod tests {
    use crate::board::Board;
    use crate::profile::cost::testing::{conv, network, step_ns, whole};
    use crate::profile::{Costs, Profile};
    use eyelet::kernels::Isa;
    use eyelet::pack::{ConvParams, Encoding, OpKind, Step, params, params_words};
    use eyelet_model::network::Network;

    /// A GPU with this number of multiprocessors, whose memory and launches cost nothing.
    fn gpu(multiprocessors: u32) -> Profile {
        let mut profile = Board::load("gpu-host").unwrap().gpu.unwrap().profile;
        profile.multiprocessors = multiprocessors;
        profile.compute.memory_gbs = f64::INFINITY;
        profile.compute.fully_connected_gbs = f64::INFINITY;
        profile.compute.step_overhead_ns = 0;
        profile
    }

    /// The network with its layer in panels of a GPU.
    fn on_gpu(mut network: Network) -> Network {
        let cols = network.tensors[1].cols();
        let from = network.tensors[0].cols();
        network.isa = Isa::Cuda;
        let layer = &mut network.layers[0];
        (layer.panels, layer.panel_bytes) = (cols.div_ceil(32), 128 * (from + 1));
        network
    }

    #[test]
    fn few_tiles_take_as_long_as_many() {
        // 200 rows are four tiles of each of the 8 panels.
        let network = on_gpu(network(OpKind::Conv, conv([3, 3]), [200, 256], [200, 256]));
        let whole = whole(&network);
        let ns = |multiprocessors: u32, step: &Step| {
            step_ns(&gpu(multiprocessors), &network, step, 1) as f64
        };
        let busy = 9.0 * 200.0 * 256.0 * 256.0 * 2.0 / gpu(1).compute.conv_kxk_gflops;
        assert!((ns(1, &whole) - busy).abs() <= 1.0);
        assert!((ns(16, &whole) - busy).abs() <= 1.0, "32 tiles are enough for 16");
        assert!((ns(64, &whole) - 4.0 * busy).abs() <= 1.0, "and a quarter of those for 64");
        // Below full occupancy a part takes as long as the whole; above, in proportion.
        assert_eq!(ns(64, &Step { count: 3, ..whole }), ns(64, &whole));
        assert!((2.0 * ns(8, &Step { count: 4, ..whole }) - busy).abs() <= 2.0);
        // Chains are tiles, too.
        let mut chained = network.clone();
        let mut p: ConvParams = params(&network.layers[0]);
        p.chains = 4;
        chained.layers[0].params = params_words(&p);
        let found = step_ns(&gpu(64), &chained, &whole, 1) as f64;
        assert!((found - busy).abs() <= 1.0, "{found} instead of {busy}");
    }

    #[test]
    fn a_gpu_hides_the_shorter_one_and_reads_weights_as_they_are() {
        let mut profile = gpu(1);
        profile.compute.memory_gbs = 10.0;
        let mut network = on_gpu(network(OpKind::Conv, conv([1, 1]), [1, 4096], [1, 1024]));
        let whole = whole(&network);
        let bytes = 32.0 * 128.0 * 4097.0;
        let found = step_ns(&profile, &network, &whole, 1) as f64;
        assert!((found - bytes / 10.0).abs() <= 1.0, "{found}");
        profile.compute.step_overhead_ns = 5000;
        let launched = step_ns(&profile, &network, &whole, 1) as f64;
        assert!(launched >= found + 5000.0, "{launched}");
        // Half the bytes take half the time, however slowly anyone would widen them.
        profile.compute.step_overhead_ns = 0;
        profile.compute.widen_gbs = 1e-3;
        network.layers[0].encoding = Encoding::F16 as u32;
        network.layers[0].panel_bytes /= 2;
        let half = step_ns(&profile, &network, &whole, 1) as f64;
        assert!((half - bytes / 20.0).abs() <= 1.0, "{half}");
        assert_eq!(Costs::new(&network, &profile, 1).on_load(0).count(), 0);
    }
}
