//! `--strategy`: which one, or what each of them does.

use eyelet_planner::published;
use eyelet_planner::search::Strategy;
use serde::Serialize;
use std::fmt;

/// The value of the option.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    This(&'static dyn Strategy),
    /// All of them, and no plan.
    List,
}

impl Wanted {
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "list" => Ok(Self::List),
            name => published::named(name).map(Self::This).map_err(|error| error.to_string()),
        }
    }

    /// Those that are named; `None` where the list of all is asked for.
    pub fn all(named: &[Self]) -> Option<Vec<&'static dyn Strategy>> {
        let this = |wanted: &Self| match wanted {
            Self::This(strategy) => Some(*strategy),
            Self::List => None,
        };
        named.iter().map(this).collect()
    }
}

impl Default for Wanted {
    fn default() -> Self {
        Self::This(&published::JOINT)
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::This(strategy) => strategy.fmt(f),
            Self::List => f.write_str("list"),
        }
    }
}

/// The report of `--strategy list`.
#[derive(Debug, Serialize)]
pub struct Strategies {
    strategies: Vec<Known>,
}

#[derive(Debug, Serialize)]
struct Known {
    name: &'static str,
    about: &'static str,
}

impl Strategies {
    pub fn known() -> Self {
        let known =
            |strategy: &&dyn Strategy| Known { name: strategy.name(), about: strategy.about() };
        Self { strategies: published::all().iter().map(known).collect() }
    }
}

impl fmt::Display for Strategies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = published::names().map(str::len).max().unwrap_or(0);
        self.strategies
            .iter()
            .try_for_each(|Known { name, about }| writeln!(f, "{name:longest$}  {about}"))
    }
}
