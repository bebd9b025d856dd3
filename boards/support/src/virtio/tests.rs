//! The driver with a device that these tests make up.

use super::*;
use core::cell::Cell;
use std::boxed::Box;
use std::string::ToString;
use std::vec::Vec;

/// What the device does when it is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Serves,
    /// With the status of an error.
    Fails,
    /// Nothing, as if the notification had been lost.
    Drops,
    /// As the device of the standard that came before.
    IsOld,
}

std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static BEHAVIOUR: Cell<Behaviour> = const { Cell::new(Behaviour::Serves) };
}

/// A microsecond later at each look.
fn now_ns() -> u64 {
    NOW.set(NOW.get() + 1000);
    NOW.get()
}

const PATIENCE: Patience = Patience { now_ns, limit_ns: 3_000_000 };

/// A device of some sectors.
#[derive(Debug)]
struct Fake {
    contents: Vec<u8>,
    registers: [u32; 0x200 / 4],
    seen: u16,
}

impl Fake {
    fn new(sectors: usize) -> Self {
        let contents = (0..sectors * SECTOR as usize).map(|at| (at / 7) as u8).collect();
        let mut registers = [0; 0x200 / 4];
        for (at, value) in
            [(MAGIC, MAGIC_WORD), (VERSION, 2), (DEVICE, BLOCK), (OFFERED, VERSION_1)]
        {
            registers[at / 4] = value;
        }
        registers[QUEUE_MOST / 4] = 1024;
        registers[CAPACITY / 4] = sectors as u32;
        Self { contents, registers, seen: 0 }
    }

    fn address(&self, at: usize) -> usize {
        self.registers[at / 4] as usize | (self.registers[at / 4 + 1] as usize) << 32
    }

    /// Works through what is offered.
    fn serve(&mut self) {
        let [table, offered, used] =
            [QUEUE_TABLE, QUEUE_OFFERED, QUEUE_USED].map(|at| self.address(at));
        let half = |at: usize| at as *mut u16;
        let word = |at: usize| at as *mut u32;
        let long = |at: usize| at as *mut u64;
        let size = Rings::SIZE;
        // SAFETY: where the driver has said that descriptors and rings lie, in the order that the
        // standard gives them, and where descriptors say that bytes go.
        unsafe {
            while half(offered + 2).read_volatile() != self.seen {
                let slot = usize::from(self.seen) % size;
                let head = half(offered + 4 + 2 * slot).read_volatile();
                let link = |index: usize| {
                    let at = table + 16 * index;
                    let [flags, next] = [12, 14].map(|by| half(at + by).read_volatile());
                    let [address, bytes] =
                        [long(at).read_volatile(), word(at + 8).read_volatile().into()];
                    (address as usize, bytes as usize, flags, usize::from(next))
                };
                let (request, _, flags, data) = link(head.into());
                assert_eq!((word(request).read_volatile(), flags), (0, 1));
                let from = long(request + 8).read_volatile() as usize * SECTOR as usize;
                let (into, bytes, flags, last) = link(data);
                assert_eq!(flags, 3);
                let (status, one, flags, _) = link(last);
                assert_eq!((one, flags), (1, 2));
                let fails = BEHAVIOUR.get() == Behaviour::Fails;
                if !fails {
                    let bytes = &self.contents[from..][..bytes];
                    (into as *mut u8).copy_from(bytes.as_ptr(), bytes.len());
                }
                (status as *mut u8).write_volatile(fails.into());
                word(used + 4 + 8 * slot).write_volatile(head.into());
                self.seen = self.seen.wrapping_add(1);
                half(used + 2).write_volatile(self.seen);
            }
        }
    }
}

// SAFETY: it writes where descriptors say, when it is notified.
unsafe impl Registers for Fake {
    fn read(&mut self, offset: usize) -> u32 {
        match (offset, BEHAVIOUR.get()) {
            (VERSION, Behaviour::IsOld) => 1,
            (OFFERED, _) if self.registers[OFFERED_SELECT / 4] != 1 => 0,
            _ => self.registers[offset / 4],
        }
    }

    fn write(&mut self, offset: usize, value: u32) {
        self.registers[offset / 4] = value;
        let works = self.registers[STATUS / 4] & DRIVER_OK != 0;
        match (offset, BEHAVIOUR.get()) {
            (STATUS, _) if value == 0 => self.seen = 0,
            (QUEUE_NOTIFY, Behaviour::Serves | Behaviour::Fails) if works => self.serve(),
            _ => {}
        }
    }
}

#[repr(align(4096))]
struct Pages([u8; 8 * 4096]);

fn disk(sectors: usize) -> Disk<Fake> {
    BEHAVIOUR.set(Behaviour::Serves);
    Disk::new(Fake::new(sectors), Box::leak(Box::default()), PATIENCE).unwrap()
}

fn contents(offset: usize, bytes: usize) -> Vec<u8> {
    (offset..offset + bytes).map(|at| (at / 7) as u8).collect()
}

#[test]
fn reads_are_done_in_any_order() {
    let mut disk = disk(100);
    assert_eq!((disk.len(), disk.alignment()), (Ok(51_200), 512));
    let mut pages = Box::new(Pages([0; 8 * 4096]));
    // More often than the rings have entries.
    for round in 0..12 {
        let base = pages.0.as_mut_ptr();
        let numbers: Vec<usize> = (0..DEPTH)
            .map(|at| {
                let into = base.wrapping_add(4096 * at);
                let into = core::ptr::slice_from_raw_parts_mut(into, 4096);
                // SAFETY: nobody looks at the bytes before the read has been waited for.
                unsafe { disk.submit(4096 * ((at + round) % 12) as u64, into) }.unwrap()
            })
            .collect();
        let one = core::ptr::slice_from_raw_parts_mut(base, 512);
        // SAFETY: likewise; there is no room for it.
        let full = unsafe { disk.submit(0, one) };
        assert_eq!(full, Err(StorageError::Io { errno: AGAIN, offset: 0 }));
        for number in numbers.iter().rev() {
            assert!(disk.arrived(*number));
            assert_eq!(disk.wait(*number, 0), Ok(()));
        }
        for at in 0..DEPTH {
            let offset = 4096 * ((at + round) % 12);
            assert_eq!(pages.0[4096 * at..][..4096], contents(offset, 4096));
        }
    }
    assert_eq!((disk.times().reads, disk.times().reads), (96, 0));
}

#[test]
fn what_cannot_be_read_is_said() {
    let mut disk = disk(10);
    let mut pages = Box::new(Pages([0; 8 * 4096]));
    let short = StorageError::Short { offset: 4096, wanted: 4096, got: 1024 };
    assert_eq!(disk.read(4096, &mut pages.0[..4096]), Err(short));
    assert!(matches!(disk.read(100, &mut pages.0[..512]), Err(StorageError::Misaligned { .. })));
    BEHAVIOUR.set(Behaviour::Fails);
    let failed = StorageError::Io { errno: IO, offset: 512 };
    assert_eq!(disk.read(512, &mut pages.0[..512]), Err(failed));
    BEHAVIOUR.set(Behaviour::Serves);
    assert_eq!(disk.read(512, &mut pages.0[..512]), Ok(()));
    assert_eq!(pages.0[..512], contents(512, 512));
}

#[test]
fn a_lost_notification_ends_in_time_and_the_device_starts_anew() {
    let mut disk = disk(100);
    let mut pages = Box::new(Pages([0; 8 * 4096]));
    BEHAVIOUR.set(Behaviour::Drops);
    let base = pages.0.as_mut_ptr();
    let numbers = [0, 1].map(|at| {
        let into = core::ptr::slice_from_raw_parts_mut(base.wrapping_add(4096 * at), 4096);
        // SAFETY: nobody looks at the bytes before the read has been waited for.
        unsafe { disk.submit(8192 * at as u64, into) }.unwrap()
    });
    assert!(!disk.arrived(numbers[0]));
    let before = NOW.get();
    let stalled = StorageError::Stalled { offset: 0, limit_ms: 3 };
    assert_eq!(disk.wait(numbers[0], 0), Err(stalled));
    assert!((2_900_000..3_100_000).contains(&(NOW.get() - before)));
    // The device has been reset, and does nothing more with the other one either.
    assert_eq!(disk.registers.read(STATUS), 0);
    BEHAVIOUR.set(Behaviour::Serves);
    disk.registers.write(QUEUE_NOTIFY, 0);
    assert_eq!(pages.0[..8192], [0; 8192]);
    let stalled = StorageError::Stalled { offset: 8192, limit_ms: 3 };
    assert_eq!(disk.wait(numbers[1], 0), Err(stalled));
    assert!(stalled.to_string().contains("not answered in 3 ms to a read at byte 8192"));
    // It has healed.
    assert_eq!(disk.read(4096, &mut pages.0[..4096]), Ok(()));
    assert_eq!(pages.0[..4096], contents(4096, 4096));
}

#[test]
fn other_devices_are_refused() {
    BEHAVIOUR.set(Behaviour::IsOld);
    let refused = Disk::new(Fake::new(8), Box::leak(Box::default()), PATIENCE).unwrap_err();
    assert_eq!(refused, DiskError::Absent { magic: MAGIC_WORD, version: 1, device: 2 });
    BEHAVIOUR.set(Behaviour::Serves);
    let mut fake = Fake::new(8);
    fake.registers[QUEUE_MOST / 4] = 16;
    let refused = Disk::new(fake, Box::leak(Box::default()), PATIENCE).unwrap_err();
    assert_eq!(refused, DiskError::Queue { most: 16, needed: 32 });
    fake = Fake::new(8);
    fake.registers[OFFERED / 4] = 0;
    let refused = Disk::new(fake, Box::leak(Box::default()), PATIENCE).unwrap_err();
    assert_eq!(refused, DiskError::Features);
}
