//! Many short tasks, panics, and what is refused.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

fn each_part_once(device: &dyn Device, parts: usize) {
    let counts: Vec<AtomicU32> = (0..parts).map(|_| AtomicU32::new(0)).collect();
    device.run(parts, &|part, _| {
        counts[part].fetch_add(1, Ordering::Relaxed);
    });
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{parts} parts");
}

#[test]
fn every_part_runs_once() {
    let pool = Pool::new();
    for threads in [1, 2, 3, 4, 8, MAX_THREADS] {
        pool.scope(threads, None, |workers| {
            assert_eq!(workers.threads(), threads);
            for parts in (0..40).chain([4095, 4096, 10_000]) {
                each_part_once(workers, parts);
            }
        })
        .unwrap();
    }
}

#[test]
fn the_first_part_is_the_callers() {
    Pool::new()
        .scope(3, None, |workers| {
            for parts in (2..12).cycle().take(2000) {
                workers.run(parts, &|part, thread| assert!(part > 0 || thread == 0));
            }
        })
        .unwrap();
}

#[test]
fn a_hundred_thousand_empty_runs() {
    Pool::new()
        .scope(2, None, |workers| {
            let mut sum = 0u64;
            for round in 0..100_000u64 {
                let cells = [const { AtomicU64::new(0) }; 2];
                workers.run(2, &|part, _| cells[part].store(round + 1, Ordering::Relaxed));
                sum += cells.iter().map(|cell| cell.load(Ordering::Relaxed)).sum::<u64>();
            }
            assert_eq!(sum, 100_000 * 100_001);
        })
        .unwrap();
}

#[test]
fn more_threads_than_cores() {
    Pool::new()
        .scope(MAX_THREADS, None, |workers| {
            (0..2000).for_each(|_| each_part_once(workers, MAX_THREADS));
        })
        .unwrap();
}

#[test]
fn tasks_write_through_exclusive_shares() {
    let mut data = std::vec![0.0f32; 300 * 16];
    let mut scratch = std::vec![0u8; 4 * 64];
    Pool::new()
        .scope(4, None, |workers| {
            for _ in 0..200 {
                let out = crate::matrix::MatMut::new(&mut data, 300, 16, 16).unwrap();
                let split = super::super::Split::Rows(3);
                super::super::divide(workers, out, split, &mut scratch, 64, |mut share| {
                    for row in 0..share.out.rows() {
                        share.out.row_mut(row).iter_mut().for_each(|x| *x += 1.0);
                    }
                });
            }
        })
        .unwrap();
    assert!(data.iter().all(|x| *x == 200.0));
}

#[test]
fn sleeping_workers_wake_up() {
    Pool::new()
        .scope(3, None, |workers| {
            for _ in 0..10 {
                std::thread::sleep(std::time::Duration::from_millis(2));
                let (there, all) = (Counter::new(), 3);
                // Each part waits for the others: three threads are needed.
                workers.run(3, &|_, _| {
                    there.add(1);
                    assert!(there.wait_until(all, 0, || false));
                });
            }
        })
        .unwrap();
}

#[test]
fn nested_and_concurrent_runs_are_done_alone() {
    Pool::new()
        .scope(2, None, |workers| {
            workers.run(4, &|_, _| each_part_once(workers, 9));
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| (0..500).for_each(|_| each_part_once(workers, 5)));
                }
            });
        })
        .unwrap();
}

#[test]
fn a_panic_on_the_callers_thread_leaves_the_pool_usable() {
    let caller = std::thread::current().id();
    Pool::new()
        .scope(3, None, |workers| {
            for _ in 0..50 {
                let result = catch_unwind(AssertUnwindSafe(|| {
                    // Only the caller's panic unwinds; its part comes last or never.
                    workers.run(64, &|_, _| {
                        if std::thread::current().id() == caller {
                            panic!("on purpose");
                        }
                    });
                }));
                let _ = result;
                each_part_once(workers, 7);
            }
        })
        .unwrap();
}

#[test]
fn a_static_pool_gives_out_its_device() {
    static POOL: Pool = Pool::new();
    for _ in 0..3 {
        let workers = POOL.start(2, None).unwrap();
        assert_eq!(POOL.start(2, None).unwrap_err(), ThreadError::Busy);
        each_part_once(&workers, 5);
    }
}

#[test]
fn impossible_requests_are_refused() {
    let pool = Pool::new();
    let refused =
        |threads, cores: Option<&[usize]>| pool.scope(threads, cores, |_| ()).unwrap_err();
    let limit = MAX_THREADS;
    assert_eq!(refused(0, None), ThreadError::Count { wanted: 0, limit });
    assert_eq!(refused(17, None), ThreadError::Count { wanted: 17, limit });
    assert_eq!(refused(3, Some(&[0, 1])), ThreadError::Cores { wanted: 3, listed: 2 });
    for core in [1_000_000, usize::MAX] {
        let error = refused(2, Some(&[0, core]));
        assert!(matches!(error, ThreadError::Pin { errno: libc::EINVAL, .. }), "{error}");
    }
    // And the pool is as before.
    pool.scope(2, None, |workers| each_part_once(workers, 3)).unwrap();
}

#[test]
fn threads_run_on_their_cores() {
    let core = std::thread::spawn(|| {
        (0..libc::CPU_SETSIZE as usize).find(|core| threads::pin_current(*core).is_ok())
    });
    let core = core.join().unwrap().unwrap();
    Pool::new()
        .scope(2, Some(&[core, core]), |workers| {
            let caller = std::thread::current().id();
            let there = Counter::new();
            workers.run(2, &|_, _| {
                there.add(1);
                assert!(there.wait_until(2, 0, || false));
                if std::thread::current().id() != caller {
                    assert_eq!(available_cores(), 1);
                }
            });
        })
        .unwrap();
    assert_eq!(distinct(&[3, 1, 3, 3, 2]), 3);
}

#[test]
fn a_panic_on_a_worker_ends_the_process() {
    const VARIABLE: &str = "EYELET_TEST_PANIC";
    if std::env::var_os(VARIABLE).is_some() {
        let caller = std::thread::current().id();
        let _ = Pool::new().scope(2, None, |workers| {
            // The caller waits in its part until the worker is in the other.
            let there = Counter::new();
            workers.run(2, &|_, _| {
                there.add(1);
                there.wait_until(2, 0, || false);
                assert!(std::thread::current().id() == caller, "on purpose");
            });
        });
        return;
    }
    let name = "device::workers::tests::a_panic_on_a_worker_ends_the_process";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(VARIABLE, "1")
        .output();
    // Under emulation the program cannot start itself: an error, or exit status 127.
    if let Ok(output) = child
        && output.status.code() != Some(127)
    {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    }
}
