//! A file that is cut short while it is mapped: reading what is no longer there raises SIGBUS, of which the command makes
//! an error that names the file.
//!
//! Models and packs are mapped, so that their weights take no memory of their own. Whoever truncates one meanwhile takes
//! pages away that this process holds. There is nothing to go on with then: the handler finds the file among the process's
//! maps, says what happened, and ends the process.

use std::mem::MaybeUninit;

/// The exit code of an error.
const FAILURE: i32 = 1;

/// Has SIGBUS end the command with an error.
pub fn install() {
    // SAFETY: an action of zeros is a valid one, and the handler does only what a signal handler may.
    #[allow(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = on_bus_error as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND;
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

/// Reports and ends the process. It allocates nothing and takes no lock: the thread may hold any.
extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid description of the signal.
    #[allow(unsafe_code)]
    let address = unsafe { (*info).si_addr() } as u64;
    print(b"eyelet: error: ");
    let mut file = Name::default();
    find(address, &mut file);
    match file.bytes() {
        [] => print(b"a file in use"),
        name => name.iter().for_each(|&byte| {
            print(&[if byte.is_ascii_control() { b'?' } else { byte }]);
        }),
    }
    print(
        b" was truncated, or its storage failed, while it was read: copy or export it again, and do not write it meanwhile\n",
    );
    // SAFETY: it only ends the process; nothing of it runs any more.
    #[allow(unsafe_code)]
    unsafe {
        libc::_exit(FAILURE)
    }
}

fn print(bytes: &[u8]) {
    // SAFETY: the bytes are readable. Nobody hears of it if that fails.
    #[allow(unsafe_code)]
    unsafe {
        libc::write(2, bytes.as_ptr().cast(), bytes.len());
    }
}

/// The name of a file, cut off if it is longer.
struct Name {
    text: [u8; 1024],
    length: usize,
}

impl Default for Name {
    fn default() -> Self {
        Self { text: [0; 1024], length: 0 }
    }
}

impl Name {
    fn bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.text.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }
}

/// Finds the file that is mapped at an address.
fn find(address: u64, name: &mut Name) {
    // SAFETY: the path ends with a zero.
    #[allow(unsafe_code)]
    let file = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let mut lines = Lines::new(address);
    let mut buffer = [0u8; 1024];
    if file < 0 {
        return;
    }
    loop {
        // SAFETY: the buffer is as long as is said.
        #[allow(unsafe_code)]
        let read = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Some(read) = usize::try_from(read).ok().filter(|read| *read > 0) else { break };
        if buffer[..read].iter().any(|&byte| lines.take(byte, name)) {
            break;
        }
    }
}

/// Reads `start-end rights offset device inode   path`, byte by byte.
struct Lines {
    address: u64,
    /// The two ends of a map, of which the second is being read after the dash.
    ends: [u64; 2],
    end: usize,
    /// Spaces so far, runs of them counted once.
    field: usize,
    in_space: bool,
}

/// The field of the path.
const PATH: usize = 5;

impl Lines {
    fn new(address: u64) -> Self {
        Self { address, ends: [0; 2], end: 0, field: 0, in_space: false }
    }

    /// Takes a byte; whether the line of the address has ended.
    fn take(&mut self, byte: u8, name: &mut Name) -> bool {
        let here = (self.ends[0]..self.ends[1]).contains(&self.address);
        match (byte, self.field) {
            (b'\n', _) if here => return true,
            (b'\n', _) => *self = Self::new(self.address),
            (b' ', 0..PATH) => {
                self.field += usize::from(!self.in_space);
                self.in_space = true;
            }
            (b'-', 0) => self.end = 1,
            (_, 0) => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                self.ends[self.end] = self.ends[self.end] << 4 | u64::from(digit);
            }
            (b' ', PATH) if self.in_space => {}
            (_, PATH) if here => {
                self.in_space = false;
                name.push(byte);
            }
            _ => self.in_space = false,
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_at(address: u64) -> String {
        let maps = "55d0-55e0 r--p 00000000 fe:00 42      /bin/of this\n\
                    7f00-7f80 rw-p 00000000 00:00 0 \n\
                    7f80-8000 r--s 00000000 fe:00 99                        /tmp/a model.onnx (deleted)\n";
        let (mut lines, mut name) = (Lines::new(address), Name::default());
        let _ = maps.bytes().any(|byte| lines.take(byte, &mut name));
        String::from_utf8(name.bytes().to_vec()).unwrap()
    }

    #[test]
    fn the_file_of_an_address_is_found() {
        assert_eq!(name_at(0x55d8), "/bin/of this");
        assert_eq!(name_at(0x7f00), "");
        assert_eq!(name_at(0x7f80), "/tmp/a model.onnx (deleted)");
        assert_eq!(name_at(0x9000), "");
    }
}
