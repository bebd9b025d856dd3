//! The time of each layer.

use super::report::Spread;
use eyelet::device::Device;
use eyelet::executor::{Feed, InferError, Model, StepTimes};
use eyelet::ops;
use eyelet::pack::{OpKind, Skeleton, Steps};
use eyelet_planner::ops::winograd;
use serde::Serialize;
use std::fmt;

/// What one layer took, over all of its steps.
#[derive(Debug, Serialize)]
pub struct LayerTimes {
    /// Filled in at the end: names are not in the arena.
    pub name: String,
    pub op: String,
    /// Height, width and channels of the output.
    pub output: [u32; 3],
    pub steps: u32,
    /// Multiply-accumulates of the algorithm that computes it.
    pub macs: u64,
    pub compute_ms: Spread,
    pub stall_ms: Spread,
}

/// Collects the times of layers.
pub struct Layers {
    /// The layer of each step.
    of_step: Vec<usize>,
    times: Vec<StepTimes>,
    layers: Vec<LayerTimes>,
    /// For each layer, nanoseconds computing and waiting, of each inference.
    samples: Vec<[Vec<u64>; 2]>,
}

impl Layers {
    pub fn new(skeleton: &Skeleton<'_>, steps: &Steps<'_>, runs: usize) -> Self {
        let describe = |layer: eyelet::pack::Layer| {
            let output = skeleton.tensors[layer.output as usize];
            let kind = OpKind::from_code(layer.kind);
            let mut op = kind.map_or_else(String::new, |kind| format!("{kind:?}"));
            if let Some(tile) = winograd::tile(&layer) {
                op = format!("F({tile},3)");
            }
            LayerTimes {
                name: String::new(),
                op,
                output: [output.dims[1], output.dims[2], output.dims[3]],
                steps: 0,
                macs: ops::work(&layer, &skeleton.layer_inputs(&layer), &output).macs,
                compute_ms: Spread::default(),
                stall_ms: Spread::default(),
            }
        };
        let mut layers: Vec<LayerTimes> = skeleton.layers.iter().map(describe).collect();
        let of_step: Vec<usize> = steps.iter().map(|step| step.layer as usize).collect();
        of_step.iter().for_each(|layer| layers[*layer].steps += 1);
        let samples =
            layers.iter().map(|_| [Vec::with_capacity(runs), Vec::with_capacity(runs)]).collect();
        let times = vec![StepTimes::default(); of_step.len()];
        Self { of_step, times, layers, samples }
    }

    /// One inference.
    pub fn infer<F: Feed>(
        &mut self,
        model: &mut Model<'_, '_, F>,
        device: &dyn Device,
        count: bool,
    ) -> Result<(), InferError> {
        model.infer_timed(device, &mut self.times)?;
        if !count {
            return Ok(());
        }
        self.samples.iter_mut().flatten().for_each(|samples| samples.push(0));
        for (layer, times) in self.of_step.iter().zip(&self.times) {
            let spent = [times.compute_ns, times.wait_ns];
            for (samples, ns) in self.samples[*layer].iter_mut().zip(spent) {
                if let Some(last) = samples.last_mut() {
                    *last += ns;
                }
            }
        }
        Ok(())
    }

    pub fn finish(self) -> Vec<LayerTimes> {
        let Self { mut layers, samples, .. } = self;
        for (layer, [mut compute, mut stall]) in layers.iter_mut().zip(samples) {
            layer.compute_ms = Spread::of(&mut compute);
            layer.stall_ms = Spread::of(&mut stall);
        }
        layers
    }
}

/// Prints the layers, a line each.
pub fn table(layers: &[LayerTimes], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let width = layers.iter().map(|layer| layer.name.chars().count()).max().unwrap_or(0);
    let total: f64 = layers.iter().map(|layer| layer.compute_ms.median).sum();
    writeln!(
        f,
        "\n{:width$}  {:10} {:>15} {:>5} {:>10} {:>6} {:>9} {:>10}",
        "layer", "by", "output", "steps", "compute ms", "share", "GFLOP/s", "waiting ms"
    )?;
    for layer in layers {
        let [height, across, channels] = layer.output;
        let ms = layer.compute_ms.median;
        writeln!(
            f,
            "{:width$}  {:10} {:>15} {:>5} {:>10.3} {:>5.1}% {:>9.1} {:>10.3}",
            layer.name,
            layer.op,
            format!("{height}x{across}x{channels}"),
            layer.steps,
            ms,
            100.0 * ms / total.max(f64::MIN_POSITIVE),
            2.0 * layer.macs as f64 / 1e6 / ms.max(f64::MIN_POSITIVE),
            layer.stall_ms.median
        )?;
    }
    Ok(())
}
