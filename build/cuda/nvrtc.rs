//! The compiler as a library, NVRTC: it needs neither the toolkit nor a GPU.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use libloading::{Library, Symbol};

use super::compiler::{FLAGS, Module, Unit};

/// Machine code without a driver, and the list of architectures.
const OLDEST: (c_int, c_int) = (11, 2);

/// The headers of C that the kernels include, which do not come with the library; `size_t` is in
/// it.
const HEADERS: [(&CStr, &CStr); 2] = [
    (c"stddef.h", c""),
    (
        c"stdint.h",
        c"typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; \
          typedef unsigned short uint16_t; typedef int int32_t; typedef unsigned uint32_t; \
          typedef long long int64_t; typedef unsigned long long uint64_t;",
    ),
];

type Program = *mut c_void;
type SizeOf = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Copy = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;

pub struct Nvrtc {
    path: PathBuf,
    version: (c_int, c_int),
    archs: Vec<u32>,
    library: Library,
}

impl Nvrtc {
    /// The library at this path, which finds its other half (`libnvrtc-builtins.so`) next to it.
    pub fn open(path: &Path) -> Result<Self, String> {
        let path = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
        // SAFETY: NVRTC's initialisers and finalisers ask nothing of who loads it.
        let library = unsafe { Library::new(&path) }.map_err(|error| match error {
            libloading::Error::DlOpen { source } => source.to_string(),
            error => format!("{}: {error}", path.display()),
        })?;
        let mut nvrtc = Self { path, version: (0, 0), archs: Vec::new(), library };
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: the signatures are those of nvrtc.h; the pointers are to variables of these
        // types, and to as many as the library has said.
        unsafe {
            let version: Symbol<'_, unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int> =
                nvrtc.symbol("nvrtcVersion")?;
            nvrtc.check("nvrtcVersion", version(&mut major, &mut minor))?;
            if (major, minor) < OLDEST {
                let (path, (a, b)) = (nvrtc.path.display(), OLDEST);
                return Err(format!(
                    "{path}: is version {major}.{minor}, and {a}.{b} or newer is needed"
                ));
            }
            let number: Symbol<'_, unsafe extern "C" fn(*mut c_int) -> c_int> =
                nvrtc.symbol("nvrtcGetNumSupportedArchs")?;
            nvrtc.check("nvrtcGetNumSupportedArchs", number(&mut count))?;
            let mut archs = vec![0; count.max(0) as usize];
            nvrtc.check(
                "nvrtcGetSupportedArchs",
                nvrtc.symbol::<unsafe extern "C" fn(*mut c_int) -> c_int>(
                    "nvrtcGetSupportedArchs",
                )?(archs.as_mut_ptr()),
            )?;
            nvrtc.archs = archs.into_iter().filter_map(|arch| arch.try_into().ok()).collect();
        }
        nvrtc.version = (major, minor);
        Ok(nvrtc)
    }

    pub fn archs(&self) -> Vec<u32> {
        self.archs.clone()
    }

    /// Compiles the text; it makes machine code of PTX, which is there, too.
    pub fn compile(&self, unit: &Unit<'_>, arch: u32) -> Result<Module, String> {
        let c_string = |text: &str| CString::new(text).map_err(|e| e.to_string());
        let text = c_string(unit.text)?;
        let name = c_string(&unit.path.to_string_lossy())?;
        let mut options = vec![c_string(&format!("--gpu-architecture=sm_{arch}"))?];
        for flag in FLAGS {
            options.push(c_string(flag)?);
        }
        let [names, texts] =
            [HEADERS.map(|(name, _)| name.as_ptr()), HEADERS.map(|(_, text)| text.as_ptr())];
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = Unload { program: null_mut(), nvrtc: self };
        // SAFETY: the signatures are those of nvrtc.h; texts, names and options are strings that
        // end in zero and outlive the calls; there are as many as is said.
        let compiled = unsafe {
            let create: Symbol<'_, Create> = self.symbol("nvrtcCreateProgram")?;
            let created = create(
                &mut program.program,
                text.as_ptr(),
                name.as_ptr(),
                HEADERS.len() as c_int,
                texts.as_ptr(),
                names.as_ptr(),
            );
            self.check("nvrtcCreateProgram", created)?;
            let compile: Symbol<'_, Compile> = self.symbol("nvrtcCompileProgram")?;
            compile(program.program, options.len() as c_int, options.as_ptr())
        };
        let log = self.part(&program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?;
        let log = c_text(log);
        self.check("nvrtcCompileProgram", compiled).map_err(|error| format!("{error}\n{log}"))?;
        let remarks: Vec<_> = log.lines().filter(|line| !is_of_old_age(line)).collect();
        Ok(Module {
            cubin: self.part(&program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")?,
            ptx: c_text(self.part(&program, "nvrtcGetPTXSize", "nvrtcGetPTX")?),
            remarks: remarks.join("\n").trim().to_string(),
        })
    }

    /// What the library has made of a program: asks for the size, then for the bytes.
    fn part(&self, program: &Unload<'_>, size_of: &str, copy: &str) -> Result<Vec<u8>, String> {
        let mut size = 0;
        // SAFETY: the signatures are those of nvrtc.h; the program lives; the buffer has the size
        // that was asked for.
        unsafe {
            self.check(size_of, self.symbol::<SizeOf>(size_of)?(program.program, &mut size))?;
            let mut bytes = vec![0_u8; size];
            let copied = self.symbol::<Copy>(copy)?(program.program, bytes.as_mut_ptr().cast());
            self.check(copy, copied)?;
            Ok(bytes)
        }
    }

    /// # Safety
    ///
    /// `T` is the type of the function.
    unsafe fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>, String> {
        // SAFETY: as above.
        unsafe { self.library.get(name.as_bytes()) }
            .map_err(|e| format!("{}: {e}", self.path.display()))
    }

    fn check(&self, function: &str, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the signature is nvrtc.h's; the string is constant, or absent.
        let name = unsafe {
            let text = self
                .symbol::<unsafe extern "C" fn(c_int) -> *const c_char>("nvrtcGetErrorString")?(
                code,
            );
            if text.is_null() {
                "an unknown error".into()
            } else {
                CStr::from_ptr(text).to_string_lossy()
            }
        };
        Err(format!("{self}: {function}: {name} ({code})"))
    }
}

impl fmt::Display for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version;
        write!(f, "{} ({major}.{minor})", self.path.display())
    }
}

/// A program, until it is dropped.
struct Unload<'a> {
    program: Program,
    nvrtc: &'a Nvrtc,
}

impl Drop for Unload<'_> {
    fn drop(&mut self) {
        if self.program.is_null() {
            return;
        }
        // SAFETY: the signature is nvrtc.h's; the program was created and is not used again.
        unsafe {
            type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
            if let Ok(destroy) = self.nvrtc.symbol::<Destroy>("nvrtcDestroyProgram") {
                destroy(&mut self.program);
            }
        }
    }
}

/// Text without its final zero.
fn c_text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string()
}

/// That Maxwell and Volta are near their end in the toolkit is known.
fn is_of_old_age(line: &str) -> bool {
    line.contains("are deprecated and may be removed")
}
