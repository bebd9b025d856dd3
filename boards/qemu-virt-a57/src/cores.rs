//! The other cores: how they are started, and what they do.

use crate::machine;
use board_support::report::{Failed, Report};
use core::arch::asm;
use core::fmt::Write;
use core::sync::atomic::{AtomicUsize, Ordering};
use eyelet::board;
use eyelet::device::{Cores, Device};

/// Cores of the board.
const COUNT: usize = board::CORES;

/// Bytes of stack of each. The first core has the one that ends where the memory of stacks does.
const STACK: usize = board::STACK_BYTES / COUNT;

/// What computes on all of them.
pub static CORES: Cores = Cores::new(COUNT);

unsafe extern "C" {
    /// Where the other cores start, in `start.s`.
    fn secondary();
    /// The end of the first core's stack.
    static stack_top: u8;
}

/// Starts the other cores, once, and returns when all are at work.
pub fn start(report: &mut Report) -> Result<(), Failed> {
    for other in 1..COUNT {
        let status = power_on(other, (&raw const stack_top).addr() - other * STACK);
        if status != 0 {
            return Err(report.failed(format_args!("core {other} does not start: status {status}")));
        }
    }
    // Each of these parts waits for the others, so that all are computed at the same time.
    let here = AtomicUsize::new(0);
    CORES.run(COUNT, &|_, _| {
        here.fetch_add(1, Ordering::SeqCst);
        while here.load(Ordering::SeqCst) < COUNT {
            core::hint::spin_loop();
        }
    });
    let _ = writeln!(report.console, "cores        {COUNT} at work");
    Ok(())
}

/// Starts a core with this end of its stack, by the firmware's PSCI.
fn power_on(core: usize, stack: usize) -> i32 {
    /// `CPU_ON`.
    const ON: u64 = 0xc400_0003;
    let status: u64;
    // SAFETY: the core starts in `secondary`, which does what `start.s` does for the first one, on
    // a stack of its own. Of the registers only these four may change.
    unsafe {
        asm!(
            "hvc #0",
            inlateout("x0") ON => status,
            inlateout("x1") core as u64 => _,
            inlateout("x2") secondary as *const () as u64 => _,
            inlateout("x3") stack as u64 => _,
        );
    }
    status as i32
}

/// Called by the startup of the other cores.
#[unsafe(no_mangle)]
extern "C" fn work() -> ! {
    if let Err(error) = CORES.work(|| true) {
        let _ = writeln!(machine::report().console, "error: {error}");
    }
    loop {
        core::hint::spin_loop();
    }
}
