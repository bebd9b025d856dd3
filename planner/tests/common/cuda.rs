//! A GPU for tests: the first there is, which may be the fake driver's (`tools/fake-cuda.sh`).

use eyelet::device::cuda::{Context, Driver, Gpu, GpuError, Image, Kind, Memory, images};
use eyelet::executor::{header, tables_bytes};
use eyelet::pack::PAGE;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A GPU that is in use, until the value is dropped: by one at a time, because the fake driver's behaviour is the
/// process's.
pub struct OneGpu {
    pub context: Context<'static>,
    _alone: MutexGuard<'static, ()>,
}

/// The process's driver.
pub fn driver() -> &'static Driver {
    static DRIVER: std::sync::OnceLock<Driver> = std::sync::OnceLock::new();
    DRIVER.get_or_init(|| {
        Driver::load().unwrap_or_else(|error| {
            panic!("{error} (for tests: LD_LIBRARY_PATH=$(tools/fake-cuda.sh) runs the kernels on the processor)")
        })
    })
}

/// All kernels: those that were built, and on the fake driver, which has its own, anything.
pub fn kernels(context: &Context<'_>) -> &'static [Image] {
    // SAFETY: text that ends with a zero byte.
    const ANYTHING: &[Image] =
        &[unsafe { Image::new(10, Kind::Ptx, 10, b"for the fake driver\0") }];
    match images() {
        [] if is_fake(context) => ANYTHING,
        images => images,
    }
}

pub fn is_fake(context: &Context<'_>) -> bool {
    context.attributes().name().starts_with("no GPU")
}

impl OneGpu {
    pub fn open() -> Self {
        Self::configured("").unwrap()
    }

    /// With a fake driver that behaves so; none with a real one.
    pub fn configured(behaviour: &str) -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let driver = driver();
        if !configure_fake(behaviour) && !behaviour.is_empty() {
            return None;
        }
        let context = Context::open(driver, 0).unwrap_or_else(|error| panic!("{error}"));
        Some(Self { context, _alone: alone })
    }

    /// With memory for a pack.
    pub fn memory_for(&self, pack: &[u8], memory: Memory, arena: u64) -> Result<Gpu<'_>, GpuError> {
        let page = &pack[..PAGE as usize];
        let tables = tables_bytes(page, &header(page, pack.len() as u64).unwrap());
        Gpu::new(&self.context, kernels(&self.context), memory, arena, tables)
    }
}

/// Tells the fake driver how to behave, in contexts that are made from now on; `false` with a real one.
fn configure_fake(text: &str) -> bool {
    let text = CString::new(text).unwrap();
    // SAFETY: looks for a function by name, and calls it with a string, which is what it takes.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "the driver has been found before");
        let found = libc::dlsym(library, c"eyelet_fake_cuda".as_ptr());
        if found.is_null() {
            return false;
        }
        let configure =
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> i32>(found);
        assert_eq!(configure(text.as_ptr()), 0, "the fake driver does not know {text:?}");
    }
    true
}
