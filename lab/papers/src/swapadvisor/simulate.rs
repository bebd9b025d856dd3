//! The time of an iteration: three streams, for operators and for transfers into and out of memory (section 4.1).

use super::graph::Graph;
use super::swap::{Event, SwapPlan};

/// The connection to the host's memory, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Of a transfer alone.
    pub one_way: f64,
    /// Of two transfers in opposite directions together.
    pub both_ways: f64,
}

/// One of the streams.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// What runs or comes next.
    next: usize,
    /// Seconds or bytes that are left of it, if it runs.
    left: Option<f64>,
}

/// The seconds of an iteration; `None` if something waits in a circle.
pub fn seconds(graph: &Graph, schedule: &[usize], plan: &SwapPlan, link: Link) -> Option<f64> {
    let lengths = [schedule.len(), plan.ins.len(), plan.outs.len()];
    let mut streams = [Stream::default(); 3];
    let mut now = 0.0;
    loop {
        let next = streams.map(|stream| stream.next);
        let ended = |event: &Event| match *event {
            Event::Start => true,
            Event::Computed(at) => at < next[0],
            Event::In(at) => at < next[1],
            Event::Out(at) => at < next[2],
        };
        for (kind, stream) in streams.iter_mut().enumerate() {
            if stream.left.is_some() || stream.next == lengths[kind] {
                continue;
            }
            let at = stream.next;
            let bytes = |tensor: usize| graph.tensors[tensor].bytes as f64;
            let (waits, work) = match kind {
                0 => (&plan.waits[at], graph.operators[schedule[at]].seconds),
                1 => (&plan.ins[at].waits, bytes(plan.ins[at].tensor)),
                _ => (&plan.outs[at].waits, bytes(plan.outs[at].tensor)),
            };
            if waits.iter().all(ended) {
                stream.left = Some(work);
            }
        }
        let rate = match (streams[1].left, streams[2].left) {
            (Some(_), Some(_)) => link.both_ways / 2.0,
            _ => link.one_way,
        };
        let rates = [1.0, rate, rate];
        let ends = |(stream, rate): (&Stream, f64)| stream.left.map(|left| left / rate);
        let step = streams.iter().zip(rates).filter_map(ends).fold(f64::INFINITY, f64::min);
        if step.is_infinite() {
            let done = streams.iter().zip(lengths).all(|(stream, length)| stream.next == length);
            return done.then_some(now);
        }
        now += step;
        for (stream, rate) in streams.iter_mut().zip(rates) {
            let Some(left) = stream.left else { continue };
            // What ends at the same moment but for rounding has ended.
            if left / rate - step <= 1e-12 * now {
                *stream = Stream { next: stream.next + 1, left: None };
            } else {
                stream.left = Some(left - step * rate);
            }
        }
    }
}
