//! Prints SwapAdvisor's figures next to what its search finds here, as Markdown:
//! `cargo run --release --manifest-path lab/Cargo.toml --bin swapadvisor -- [SECONDS [SEED]]`.
//!
//! Each search takes at most SECONDS, or 20.

use eyelet_papers::swapadvisor::report::{Effort, markdown};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| args.next().map_or(Ok(default), |arg| arg.parse());
    let (seconds, seed) = (number(20)?, number(1)?);
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    let mut progress = |name: &str, best: f64| {
        bar.set_message(format!("{name}: {:.1} ms", 1e3 * best));
        bar.tick();
    };
    let effort = Effort { limit: Duration::from_secs(seconds), seed };
    let page = markdown(effort, &mut progress)?;
    bar.finish_and_clear();
    print!("{page}");
    Ok(())
}
