//! Everything that can be wrong with a driver or a GPU, on a driver that simulates it: the fake
//! one, which is configured by its environment. A test is therefore a process of its own.

use super::testing::{STAND_IN, load};
use super::*;
use crate::device::DeviceError;
use crate::kernels::table::cuda::Function;
use crate::ops::Slice;
use crate::ops::cuda::{Call, run};
use crate::ops::testing::layer;
use crate::pack::{Activation, OpKind, Tensor};
use std::process::Command;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{env, vec};

/// A process that runs the test of this name with the fake driver.
fn on_fake(name: &str, config: &str, folder: Option<&str>) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/fake-cuda.sh");
    let made = Command::new(script).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut path = String::from_utf8(made.stdout).unwrap().trim().to_string();
    path.push_str(folder.unwrap_or_default());
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", &std::format!("device::cuda::tests::{name}"), "--nocapture"]);
    child.env("EYELET_FAKE_CUDA", config).env("LD_LIBRARY_PATH", path);
    child
}

/// Runs `test` in a process with the fake driver, set up as `config` says, or the library in
/// another folder.
#[track_caller]
fn with_driver(name: &str, config: &str, folder: Option<&str>, test: fn()) {
    const CHILD: &str = "EYELET_TEST_FAKE_CUDA";
    if env::var(CHILD).is_ok_and(|child| child == name) {
        return test();
    }
    let output = on_fake(name, config, folder).env(CHILD, name).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(output.status.success() && ran, "with {config:?}: {}\n{text}", output.status);
}

/// Launches a kernel that is right, or has one of its mistakes: what comes of it.
fn with_mistake(mistake: u32) -> Vec<f32> {
    let driver = Driver::load().unwrap();
    let context = Context::open(&driver, 0).unwrap();
    let (stream, out) = (context.stream().unwrap(), context.device_memory(64 * 4).unwrap());
    let (mut module, mut kernel) = (core::ptr::null_mut(), core::ptr::null_mut());
    let mut record = (out.address(), mistake, 0u32);
    let mut params = [(&raw mut record).cast()];
    // SAFETY: the kernel has a record like this one, and the memory that it writes, but for its
    // mistakes.
    unsafe {
        driver.module_load_data(&mut module, STAND_IN.bytes.as_ptr().cast()).unwrap();
        driver.module_get_function(&mut kernel, module, c"eyelet_mistake".as_ptr()).unwrap();
        let (stream, params) = (stream.raw(), params.as_mut_ptr());
        let null = core::ptr::null_mut();
        driver.launch_kernel(kernel, 3, 1, 1, 64, 1, 1, 64 * 4, stream, params, null).unwrap();
    }
    stream.synchronize().unwrap();
    let mut found = vec![0.0f32; 64];
    out.read(0, bytemuck::cast_slice_mut(&mut found)).unwrap();
    found
}

/// Mistakes end the process, and are named.
#[test]
fn mistakes_of_kernels() {
    const MISTAKE: &str = "EYELET_TEST_MISTAKE";
    if let Ok(mistake) = env::var(MISTAKE) {
        with_mistake(mistake.parse().unwrap());
        return;
    }
    for (mistake, parts) in [
        (1, ["not all threads reach the barrier", "thread (5, 0, 0) has ended"]),
        (2, ["thread (5, 0, 0) waits in the shuffle", "waits at the barrier at"]),
        (3, ["the mask 0xff00 lacks the calling lane", "eyelet_mistake"]),
        (4, ["threads at different barriers", "thread (7, 0, 0)"]),
        (5, ["thread (63, 0, 0)", "no memory of the device"]),
        (6, ["eyelet_mistake, block (0, 0, 0)", "no memory of the device"]),
    ] {
        let mut child = on_fake("mistakes_of_kernels", "", None);
        let output = child.env(MISTAKE, std::format!("{mistake}")).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let named = parts.iter().all(|part| text.contains(part));
        assert!(!output.status.success() && named, "{mistake}: {}\n{text}", output.status);
    }
}

/// A test whose body runs with a driver that is set up so.
macro_rules! tests {
    ($($(#[$doc:meta])* $name:ident($config:literal $(, $folder:literal)?) $body:block)*) => {
        $($(#[$doc])* #[test] fn $name() {
            with_driver(stringify!($name), $config, None$(.or(Some($folder)))?, || $body);
        })*
    };
}

#[track_caller]
fn assert_says(error: &dyn core::error::Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

/// A launch that is right: ReLU of one float, in place.
fn relu(queue: &mut Launches<'_>, at: u64) -> Result<(), DeviceError> {
    let tensor = Tensor { dims: [1; 4], pitch: 1, ..Default::default() };
    let call = Call {
        layer: &layer(OpKind::Unary, Activation::RELU, &()),
        inputs: [tensor, Tensor::default(), Tensor::default()],
        output: tensor,
        operands: [at, 0, 0],
        out: at,
        weights: 0,
        scratch: 0,
        slice: Slice { first: 0, count: 0, row: 0, rows: 1, ..Slice::default() },
        multiprocessors: 1,
    };
    run(&call, queue)
}

// Linked programs do not start without a driver's functions.
tests! {
    #[cfg(not(feature = "cuda-linked"))]
    no_library("", "/nothing") {
        match Driver::load() {
            Err(error) => {
                assert_eq!(error, OpenError::NoLibrary);
                assert_says(&error, &["libcuda.so.1"]);
            }
            // A machine with a GPU has one where the system looks.
            Ok(driver) => assert!(driver.version() >= NEEDED_VERSION),
        }
    }

    #[cfg(not(feature = "cuda-linked"))]
    a_driver_without_a_function("driver=10020", "/old") {
        let error = Driver::load().unwrap_err();
        assert!(matches!(error, OpenError::Symbol { name: "cuDeviceGetCount", .. }), "{error:?}");
        assert_says(&error, &["cuDeviceGetCount", "10.2", "update"]);
    }

    an_old_driver("driver=10010") {
        let error = Driver::load().unwrap_err();
        assert_eq!(error, OpenError::OldDriver { found: Version(10010), needed: Version(10020) });
        assert_says(&error, &["10.1", "10.2"]);
    }

    no_gpu("devices=0") {
        let error = Driver::load().unwrap_err();
        assert_eq!(error, OpenError::NoDevice { version: Version(12060) });
        assert_says(&error, &["no GPU", "12.6"]);
    }

    a_gpu_of_another_number("devices=2") {
        let driver = Driver::load().unwrap();
        Context::open(&driver, 1).unwrap();
        let error = Context::open(&driver, 2).unwrap_err();
        assert_eq!(error, OpenError::Ordinal { wanted: 2, count: 2 });
        assert_says(&error, &["number 2"]);
    }

    a_context_that_the_driver_refuses("fail=cuCtxCreate:46:1") {
        let driver = Driver::load().unwrap();
        let error = Context::open(&driver, 0).unwrap_err();
        assert_eq!(error, OpenError::Call(DeviceError { call: "cuCtxCreate_v2", code: 46 }));
        // And once more.
        Context::open(&driver, 0).unwrap();
    }

    attributes_are_the_gpus("capability=72,multiprocessors=6,integrated=1,memory=1000000,driver=11040,virtual_memory=0") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let attributes = context.attributes();
        assert_eq!((attributes.arch, attributes.multiprocessors), (Arch::from_number(72), 6));
        assert_eq!((attributes.integrated, attributes.maps_host_memory), (true, true));
        assert_eq!((attributes.total_bytes, attributes.virtual_memory), (1_000_000, false));
        assert_eq!(driver.version(), Version(11040));
    }

    out_of_memory("memory=10000000") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let first = context.device_memory(6_000_000).unwrap();
        let error = context.device_memory(5_000_000).unwrap_err();
        let exhausted = MemoryError::Exhausted { wanted: 5_000_000, free: 4_000_000, total: 10_000_000 };
        assert_eq!(error, exhausted);
        assert_says(&error, &["5000000", "4000000", "10000000"]);
        drop(first);
        context.device_memory(5_000_000).unwrap();
        assert_eq!(context.free_bytes(), Ok((10_000_000, 10_000_000)));
    }

    no_image_for_the_gpu("capability=35,driver=11040") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let images = [53, 90].map(|arch| Image { arch, ..STAND_IN });
        let error = context.load(&images).unwrap_err();
        let none = ModuleError::NoImage { device: Arch::from_number(35), version: Version(11040), refused: None };
        assert_eq!(error, none);
        assert_says(&error, &["3.5", "11.4", "built in are"]);
    }

    no_image_for_a_board("capability=53,driver=10020,integrated=1") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let error = context.load(&[Image { arch: 87, ..STAND_IN }]).unwrap_err();
        assert_says(&error, &["5.3", "Jetson Nano", "10.2", "EYELET_CUDA_ARCHS=53"]);
    }

    another_image_where_the_driver_refuses_one("fail=cuModuleLoadData:209:1") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let cubin = Image { arch: 90, kind: Kind::Cubin, ptx_version: 0, bytes: b"no machine code" };
        context.load(&[STAND_IN, cubin]).unwrap();
    }

    all_images_refused("fail=cuModuleLoadData:222:1") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let error = context.load(&[STAND_IN]).unwrap_err();
        assert!(matches!(error, ModuleError::NoImage { refused: Some(DeviceError { code: 222, .. }), .. }), "{error:?}");
        assert_says(&error, &["cuModuleLoadData", "222"]);
    }

    a_module_without_a_kernel("fail=cuModuleGetFunction:500:1") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let error = context.load(&[STAND_IN]).unwrap_err();
        assert_says(&error, &[Function::ALL[0].symbol().to_str().unwrap(), "500"]);
    }

    /// A kernel that fails takes its context with it; the process goes on with another.
    a_failed_kernel("fail=cuLaunchKernel:719:2") {
        let driver = Driver::load().unwrap();
        for round in 0..2 {
            let context = Context::open(&driver, 0).unwrap();
            let (module, stream) = (load(&context), context.stream().unwrap());
            let mut memory = context.device_memory(4).unwrap();
            // SAFETY: the memory is there until the stream is waited for.
            let mut queue = unsafe { module.launches(&stream) };
            memory.write(0, &(-2.0f32).to_le_bytes()).unwrap();
            relu(&mut queue, memory.address()).unwrap();
            stream.synchronize().unwrap();
            let mut found = [1; 4];
            memory.read(0, &mut found).unwrap();
            assert_eq!(found, (-0.0f32).to_le_bytes());
            if round == 1 {
                continue;
            }
            // The launch itself is accepted.
            relu(&mut queue, memory.address()).unwrap();
            let error = stream.synchronize().unwrap_err();
            assert_eq!(error, DeviceError { call: "cuStreamSynchronize", code: 719 });
            assert_eq!(relu(&mut queue, memory.address()).unwrap_err().code, 719);
            assert!(matches!(
                context.device_memory(4),
                Err(MemoryError::Call(DeviceError { code: 719, .. }))
            ));
        }
    }

    /// After waiting for its event, another stream's results are there, in any order of execution.
    /// Without waiting they are not.
    streams_wait_for_events("seed=7") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let (module, writes, reads) = (load(&context), context.stream().unwrap(), context.stream().unwrap());
        let host = context.host_memory(8).unwrap();
        let (from, to) = (host.memory().as_ptr().cast::<f32>(), host.memory().as_ptr().wrapping_add(4));
        let device = context.device_memory(4).unwrap();
        let (written, read) = (context.event().unwrap(), context.event().unwrap());
        let mut early = 0;
        for round in 0..200 {
            let waits = round % 2 == 0;
            // SAFETY: the stream is waited for before the host's memory is touched again; without
            // its event a copy may be of what was there before, which is what this is about, and on
            // one thread in the fake driver.
            unsafe {
                from.write(round as f32);
                writes.copy_to_device(device.address(), from.cast(), 4).unwrap();
                relu(&mut module.launches(&writes), device.address()).unwrap();
                written.record(&writes).unwrap();
                if waits {
                    reads.wait_for(&written).unwrap();
                }
                reads.copy_to_host(to, device.address(), 4).unwrap();
                read.record(&reads).unwrap();
                writes.wait_for(&read).unwrap();
                read.synchronize().unwrap();
                let found = to.cast::<f32>().read();
                if waits {
                    assert_eq!(found, round as f32);
                } else {
                    early += u32::from(found != round as f32);
                }
                writes.synchronize().unwrap();
            }
        }
        assert!(early > 0);
    }

    copies_read_the_hosts_memory_late("seed=3") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let stream = context.stream().unwrap();
        let host = context.host_memory(4096).unwrap();
        let device = context.device_memory(4).unwrap();
        let mut late = 0;
        for round in 0..100u32 {
            // SAFETY: inside both; that the first number is overwritten too early is what this is
            // about.
            unsafe {
                let at = host.memory().cast::<u32>();
                at.write(round);
                stream.copy_to_device(device.address(), at.cast().as_ptr(), 4).unwrap();
                at.write_volatile(u32::MAX);
            }
            stream.synchronize().unwrap();
            let mut found = [0; 4];
            device.read(0, &mut found).unwrap();
            late += u32::from(u32::from_le_bytes(found) == u32::MAX);
        }
        assert!(late > 0);
    }

    threads_and_warps_of_kernels("") {
        let truth: Vec<f32> = (0..64).rev().map(|thread| thread as f32).collect();
        assert_eq!(with_mistake(0), truth);
    }

    marks_in_streams("") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let stream = context.stream().unwrap();
        let device = context.device_memory(1000).unwrap();
        let (start, end) = (context.timed_event().unwrap(), context.timed_event().unwrap());
        // Without a mark there is nothing to wait for.
        assert_eq!((start.is_done(), stream.is_done()), (Ok(true), Ok(true)));
        start.record(&stream).unwrap();
        // SAFETY: inside the allocation, and waited for.
        unsafe { stream.fill(device.address(), 7, 1000) }.unwrap();
        end.record(&stream).unwrap();
        end.synchronize().unwrap();
        assert_eq!((start.is_done(), end.is_done()), (Ok(true), Ok(true)));
        assert!(end.ms_since(&start).unwrap() >= 0.0);
        let mut found = vec![0; 1000];
        device.read(0, &mut found).unwrap();
        assert_eq!(found, [7; 1000]);
    }

    other_threads_bind_the_context("") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let stream = context.stream().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(stream.synchronize().unwrap_err().code, 201);
                context.bind().unwrap();
                stream.synchronize().unwrap();
            });
        });
    }

    /// Each has its own, whichever the thread has at the moment; and the thread keeps it.
    what_is_made_of_a_context_goes_with_it("devices=2") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let free = context.free_bytes().unwrap();
        let other = Context::open(&driver, 1).unwrap();
        let others = other.stream().unwrap();
        let mut device = context.device_memory(4).unwrap();
        let host = context.host_memory(4096).unwrap();
        let (stream, event) = (context.stream().unwrap(), context.event().unwrap());
        let module = load(&context);
        others.synchronize().unwrap();
        let mark = other.event().unwrap();
        mark.record(&others).unwrap();
        drop((mark, others));
        drop(other);
        let mut found = [0; 4];
        device.write(0, &(-3.0f32).to_le_bytes()).unwrap();
        // SAFETY: the memory is the context's, and touched again when the stream was waited for.
        unsafe {
            host.memory().cast::<f32>().write(2.0);
            context.bind().unwrap();
            relu(&mut module.launches(&stream), device.address()).unwrap();
            event.record(&stream).unwrap();
            event.synchronize().unwrap();
            device.read(0, &mut found).unwrap();
            assert_eq!(found, (-0.0f32).to_le_bytes());
            stream.copy_to_device(device.address(), host.memory().as_ptr(), 4).unwrap();
        }
        stream.synchronize().unwrap();
        device.read(0, &mut found).unwrap();
        assert_eq!(f32::from_le_bytes(found), 2.0);
        // Freed by threads that have no context, too.
        std::thread::scope(|scope| {
            scope.spawn(move || drop((device, host, stream, event, module)));
        });
        assert_eq!(context.free_bytes().unwrap(), free);
    }

    what_was_written_is_there_for_all_streams("seed=5") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let stream = context.stream().unwrap();
        let host = context.host_memory(4).unwrap();
        let mut device = context.device_memory(4).unwrap();
        for round in 0..100u32 {
            device.write(0, &round.to_le_bytes()).unwrap();
            // SAFETY: inside both; the stream is waited for.
            let found = unsafe {
                stream.copy_to_host(host.memory().as_ptr(), device.address(), 4).unwrap();
                stream.synchronize().unwrap();
                host.memory().cast::<u32>().read()
            };
            assert_eq!(found, round);
        }
    }

    /// The GPU's free bytes say nothing of the host's memory.
    out_of_the_hosts_memory("fail=cuMemHostAlloc:2:1") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        let error = context.host_memory(4096).unwrap_err();
        assert_eq!(error, MemoryError::Call(DeviceError { call: "cuMemHostAlloc", code: 2 }));
        context.host_memory(4096).unwrap();
    }

    /// A chunk keeps what is in it, wherever it is mapped; addresses keep nothing.
    chunks_move_and_addresses_stay("memory=12582912") {
        let driver = Driver::load().unwrap();
        let context = Context::open(&driver, 0).unwrap();
        assert!(context.attributes().virtual_memory);
        // CUmemAllocationProp: pinned, no handles, device 0. CUmemAccessDesc: device 0, read and
        // write.
        let (prop, access) = ([1u32, 0, 1, 0, 0, 0, 0, 0], [1u32, 0, 3]);
        let (prop, access) = (prop.as_ptr().cast(), access.as_ptr().cast());
        // SAFETY: the records are those of the driver, and the addresses its own.
        unsafe {
            let mut size = 0;
            driver.mem_get_allocation_granularity(&mut size, prop, 0).unwrap();
            let mut base = 0;
            driver.mem_address_reserve(&mut base, 4 * size, 0, 0, 0).unwrap();
            let mut chunk = 0;
            driver.mem_create(&mut chunk, size, prop, 0).unwrap();
            let total = 6 * size;
            assert_eq!((size, context.free_bytes()), (2 << 20, Ok((total - size, total))));
            assert_eq!(driver.mem_create(&mut 0, total, prop, 0).unwrap_err().code, 2);
            let number = [1u8, 2, 3];
            let (from, to) = (base + size as u64, base + 3 * size as u64);
            driver.mem_map(from, size, 0, chunk, 0).unwrap();
            // Not before access is set, and not where nothing is.
            assert_eq!(driver.memcpy_htod(from, number.as_ptr().cast(), 3).unwrap_err().code, 1);
            driver.mem_set_access(from, size, access, 1).unwrap();
            driver.memcpy_htod(from, number.as_ptr().cast(), 3).unwrap();
            driver.stream_synchronize(core::ptr::null_mut()).unwrap();
            assert_eq!(driver.memcpy_htod(to, number.as_ptr().cast(), 3).unwrap_err().code, 1);
            assert_eq!(driver.mem_map(from, size, 0, chunk, 0).unwrap_err().code, 1);
            driver.mem_unmap(from, size).unwrap();
            driver.mem_map(to, size, 0, chunk, 0).unwrap();
            driver.mem_set_access(to, size, access, 1).unwrap();
            let mut found = [0u8; 4];
            driver.memcpy_dtoh(found.as_mut_ptr().cast(), to, 4).unwrap();
            assert_eq!(found, [1, 2, 3, 0xff]);
            assert!(driver.memcpy_dtoh(found.as_mut_ptr().cast(), from, 4).is_err());
            // A chunk is there as long as it has a handle or a place.
            driver.mem_release(chunk).unwrap();
            assert_eq!(context.free_bytes(), Ok((total - size, total)));
            assert_eq!(driver.mem_address_free(base, 4 * size).unwrap_err().code, 1);
            driver.mem_unmap(to, size).unwrap();
            assert_eq!(context.free_bytes(), Ok((total, total)));
            driver.mem_address_free(base, 4 * size).unwrap();
        }
    }
}
