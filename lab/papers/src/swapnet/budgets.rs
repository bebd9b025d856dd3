//! Budgets of several networks (Eq. 1 of the publication): memory divided by demand and urgency.
//!
//! Network `i` needs `M_i` bytes to run without swapping, takes `latency_i`, and has the urgency
//! `u_i`. Where all need more than the memory `M`, network `i` of `n` gets
//!
//! ```text
//! A_i = M_i / ΣM · (1 − 1/n) · M  +  PS_i / ΣPS · 1/n · M        PS_i = u_i · latency_i / M_i
//! ```
//!
//! That is a fixed share `w_i` of `M`, and shares add up to 1 ([`shares`]). Eq. 3 sets a floor
//! below each budget: the two largest neighbouring layers must fit. And no network can use more
//! than its demand. So [`budgets`] scales all shares by one factor `λ` and gives network `i`
//!
//! ```text
//! min(max(λ·w_i, floor_i), M_i)
//! ```
//!
//! with the `λ` at which budgets add up to `M`. Where no limit is met, `λ = M` and that is Eq. 1.

/// What a network wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    pub name: String,
    /// Memory without swapping.
    pub bytes: u64,
    /// Latency without swapping.
    pub latency_ns: u64,
    /// `u`: 1 for a network like any other.
    pub urgency: f64,
    /// The smallest budget in which the network runs at all.
    pub floor: u64,
}

/// Why memory cannot be divided.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BudgetError {
    #[error("there are no networks to divide {memory} bytes of memory among")]
    NoNetworks { memory: u64 },
    #[error("`{network}` has {what} {value}; it must be finite and above 0")]
    Demand { network: String, what: &'static str, value: f64 },
    #[error(
        "{memory} bytes of memory are too few: the networks need at least {needed} together, most of \
         it `{largest}` with {floor}; give that much memory or take a network out"
    )]
    TooSmall { memory: u64, needed: u64, largest: String, floor: u64 },
}

/// The share of the memory that Eq. 1 gives to each network.
pub fn shares(demands: &[Demand]) -> Result<Vec<f64>, BudgetError> {
    demands.iter().try_for_each(check)?;
    let count = demands.len() as f64;
    let scores = || demands.iter().map(score);
    let all_bytes: f64 = demands.iter().map(|demand| demand.bytes as f64).sum();
    let all_scores: f64 = scores().sum();
    let share = |(demand, score): (&Demand, f64)| {
        demand.bytes as f64 / all_bytes * (1.0 - 1.0 / count) + score / all_scores / count
    };
    Ok(demands.iter().zip(scores()).map(share).collect())
}

/// `PS`: of a network with more latency a byte, more memory pays.
fn score(demand: &Demand) -> f64 {
    demand.urgency * demand.latency_ns as f64 / demand.bytes as f64
}

fn check(demand: &Demand) -> Result<(), BudgetError> {
    let values = [
        ("a demand of bytes of", demand.bytes as f64),
        ("a latency in nanoseconds of", demand.latency_ns as f64),
        ("an urgency of", demand.urgency),
    ];
    let bad = values.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0));
    bad.map_or(Ok(()), |(what, value)| {
        Err(BudgetError::Demand { network: demand.name.clone(), what, value })
    })
}

/// The budget of each network. They add up to the memory, or to all demands if that is less.
pub fn budgets(demands: &[Demand], memory: u64) -> Result<Vec<u64>, BudgetError> {
    if demands.is_empty() {
        return Err(BudgetError::NoNetworks { memory });
    }
    let shares = shares(demands)?;
    let all: u128 = demands.iter().map(|demand| u128::from(demand.bytes)).sum();
    if all <= memory.into() {
        return Ok(demands.iter().map(|demand| demand.bytes).collect());
    }
    let floors: Vec<u64> = demands.iter().map(|demand| demand.floor.min(demand.bytes)).collect();
    let needed: u128 = floors.iter().copied().map(u128::from).sum();
    if needed > memory.into() {
        let largest = (0..demands.len()).max_by_key(|network| floors[*network]).unwrap_or(0);
        return Err(BudgetError::TooSmall {
            memory,
            needed: u64::try_from(needed).unwrap_or(u64::MAX),
            largest: demands[largest].name.clone(),
            floor: floors[largest],
        });
    }
    let limits: Vec<(u64, u64)> =
        floors.iter().zip(demands).map(|(floor, demand)| (*floor, demand.bytes)).collect();
    let exact = scaled(&shares, &limits, memory as f64);
    Ok(whole(&exact, &limits, memory))
}

/// Shares scaled by one factor, so that within limits they add up to the memory.
fn scaled(shares: &[f64], limits: &[(u64, u64)], memory: f64) -> Vec<f64> {
    let within = |factor: f64| {
        let budgets = shares
            .iter()
            .zip(limits)
            .map(move |(share, (floor, most))| (share * factor).clamp(*floor as f64, *most as f64));
        budgets.collect::<Vec<f64>>()
    };
    let sum = |factor: f64| within(factor).iter().sum::<f64>();
    // The factors at which a network meets a limit. Between two of them the sum is a straight line.
    let meets =
        |(share, (floor, most)): (&f64, &(u64, u64))| [*floor as f64 / share, *most as f64 / share];
    let mut factors: Vec<f64> = shares.iter().zip(limits).flat_map(meets).collect();
    factors.push(0.0);
    factors.sort_by(f64::total_cmp);
    let above = factors.partition_point(|factor| sum(*factor) < memory);
    let Some(high) = factors.get(above).copied() else { return within(f64::MAX) };
    let low = above.checked_sub(1).map_or(0.0, |below| factors[below]);
    let (least, most) = (sum(low), sum(high));
    let part = if most > least { (memory - least) / (most - least) } else { 1.0 };
    within(low + (high - low) * part.clamp(0.0, 1.0))
}

/// Whole bytes within limits that add up to the memory: what is lost by rounding down goes to those
/// that lost most.
fn whole(exact: &[f64], limits: &[(u64, u64)], memory: u64) -> Vec<u64> {
    let mut budgets: Vec<u64> = (exact.iter().zip(limits))
        .map(|(bytes, (floor, most))| (*bytes as u64).clamp(*floor, *most))
        .collect();
    let mut order: Vec<usize> = (0..budgets.len()).collect();
    let lost = |network: usize| exact[network] - exact[network].floor();
    order.sort_by(|a, b| lost(*b).total_cmp(&lost(*a)));
    let sum = |budgets: &[u64]| budgets.iter().map(|bytes| i128::from(*bytes)).sum::<i128>();
    let mut left = i128::from(memory) - sum(&budgets);
    // Sums of floating-point numbers can be off by more than a byte a network.
    while left != 0 {
        let before = left;
        for &network in &order {
            let (floor, most) = limits[network];
            let room = match left > 0 {
                true => i128::from(most - budgets[network]),
                false => -i128::from(budgets[network] - floor),
            };
            let share = left / order.len() as i128;
            let step = if share == 0 { left.signum() } else { share };
            let change = if left > 0 { step.min(room) } else { step.max(room) };
            budgets[network] = (i128::from(budgets[network]) + change) as u64;
            left -= change;
            if left == 0 {
                break;
            }
        }
        if left == before {
            break;
        }
    }
    budgets
}
