//! What SwapNet's tables are made of: numbers in their units, and rows of members.

use super::methods::Subject;
use super::scenarios::{MIB, Member, NX, Scenario, subject};

/// Why there is no report: a published scenario that does not work out.
pub type Error = Box<dyn std::error::Error>;

pub const ROW: &str = "cannot fail: it writes to a string";

pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

pub fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

/// Change from one number to another in per cent.
pub fn percent(from: f64, to: f64) -> f64 {
    100.0 * (to / from - 1.0)
}

/// The least and the most of some numbers.
pub fn range(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| {
        [low.min(value), high.max(value)]
    })
}

/// The members of a scenario with some budgets.
pub fn each<T>(
    scenario: &Scenario,
    budgets: &[u64],
    mut of: impl FnMut(&Member, &Subject<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let members = scenario.members.iter().zip(budgets);
    let of_one = |(member, budget): (&Member, &u64)| {
        let layers = (member.layers)(member.side);
        of(member, &subject(member, &layers, &NX, *budget))
    };
    members.map(of_one).collect()
}
