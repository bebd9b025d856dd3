//! Costs from measured runs: what `eyelet run --json` prints.

use super::{Cost, Swappable};
use eyelet::tasks::LONGEST_NS;
use serde::Deserialize;

/// The part of a run's report that counts.
#[derive(Deserialize)]
struct Run {
    latency_ms: Spread,
    arena_bytes: u64,
    resident_bytes: u64,
    bytes_read_per_inference: u64,
}

#[derive(Deserialize)]
struct Spread {
    max: f64,
}

/// Costs of a network that was run. The longest run counts. Steps are not reported, so that a job is one step.
pub fn measured(json: &str) -> Result<Cost, String> {
    let run: Run = serde_json::from_str(json)
        .map_err(|error| format!("it is no report of `eyelet run --json`: {error}"))?;
    let ns = run.latency_ms.max * 1e6;
    let longest_ms = LONGEST_NS as f64 / 1e6;
    if ns > LONGEST_NS as f64 {
        let ms = run.latency_ms.max;
        return Err(format!(
            "its longest latency of {ms} ms is too long: the longest time is {longest_ms} ms"
        ));
    }
    if ns.is_nan() || ns < 1.0 {
        return Err(format!("its longest latency is {} ms: measure again", run.latency_ms.max));
    }
    let streams = run.bytes_read_per_inference > 0;
    let resident = run.resident_bytes.min(run.arena_bytes);
    // What is no resident is room, apart from tables, which nobody reports.
    let (weights, room) = match streams {
        true => (0, run.arena_bytes - resident),
        false => (resident, 0),
    };
    Ok(Cost {
        compute_ns: ns as u64,
        step_ns: ns as u64,
        bytes: run.arena_bytes,
        weights: Swappable::of(weights),
        room: Swappable::of(room),
        streams,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_run_counts() {
        let json = r#"{"latency_ms": {"min": 1.0, "median": 2.0, "max": 3.5}, "arena_bytes": 1000,
            "resident_bytes": 600, "bytes_read_per_inference": 0, "runs": 7}"#;
        let cost = measured(json).unwrap();
        assert_eq!((cost.compute_ns, cost.bytes, cost.weights.bytes), (3_500_000, 1000, 600));
        assert!(!cost.streams);
        assert!(measured("{}").unwrap_err().contains("no report"));
        assert!(measured(&json.replace("3.5", "-1")).unwrap_err().contains("measure again"));
        let wrong = measured(&json.replace("3.5", "1e10")).unwrap_err();
        assert!(wrong.contains("too long: the longest time is 1000000000 ms"), "{wrong}");
    }
}
