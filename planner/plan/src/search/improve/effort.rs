//! How long a search lasts.

use std::str::FromStr;

/// How long a strategy searches for a better plan, for each budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Effort {
    /// Not at all: the constructed plan stays.
    Fast,
    /// For about a second.
    #[default]
    Default,
    /// For about a quarter of a minute.
    Best,
    /// Seconds by the clock. Plans can then differ from machine to machine.
    Seconds(f64),
}

impl FromStr for Effort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fast" => Ok(Self::Fast),
            "default" => Ok(Self::Default),
            "best" => Ok(Self::Best),
            _ => match text.parse() {
                Ok(seconds) if (0.0..=86400.0).contains(&seconds) => Ok(Self::Seconds(seconds)),
                _ => Err("it is `fast`, `default`, `best` or a number of seconds".to_owned()),
            },
        }
    }
}
