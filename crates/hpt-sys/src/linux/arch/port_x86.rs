//! The IN instruction, which reads one 32-bit register at a time. Does not decide which port is read; `source` does.

use core::{arch::asm, cell::RefCell, marker::PhantomData};
use std::io;

use crate::port::InputPort;

/// The number of ports that a 32-bit register occupies.
const PORTS: u16 = 4;

thread_local! {
    /// The ports that this thread has opened. A port that was opened twice is listed twice.
    static OPENED: RefCell<Vec<u16>> = const { RefCell::new(Vec::new()) };
}

/// Proof that this thread may read the four ports that begin with this one. Threads and processes that this thread
/// starts afterwards may read them too. Other threads may not, and would be killed by SIGSEGV.
#[derive(Debug)]
pub struct OpenPort {
    port: u16,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl OpenPort {
    /// Requests permission from the kernel for the register that starts at this port. When the last `OpenPort` for a
    /// port is dropped, the permission is released.
    ///
    /// # Errors
    ///
    /// Returns the error from ioperm(2), or [`io::ErrorKind::InvalidInput`] for a port whose register would extend
    /// beyond the last port.
    pub fn open(port: u16) -> io::Result<Self> {
        if port > u16::MAX - (PORTS - 1) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        allow(port, true)?;
        OPENED.with_borrow_mut(|opened| opened.push(port));
        Ok(Self { port, bound_to_its_thread: PhantomData })
    }
}

impl InputPort for OpenPort {
    #[inline(always)]
    fn read_u32(&self) -> u32 {
        let value: u32;
        // SAFETY: the instruction touches no memory and no flags. The kernel has given this thread access to these four
        // ports, and revokes the access only at this thread's request. Without access, IN raises SIGSEGV, which is not
        // undefined behavior. Intel SDM vol. 2A (325383-085), IN; ioperm(2). The option nomem is not used, because a
        // device's register changes by itself and reads of it must stay in order.
        unsafe {
            asm!("in eax, dx", in("dx") self.port, out("eax") value, options(nostack, preserves_flags));
        }
        value
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        // The permissions of a thread that is ending no longer matter.
        let others = OPENED.try_with(|opened| {
            let mut opened = opened.borrow_mut();
            if let Some(own) = opened.iter().position(|&port| port == self.port) {
                opened.swap_remove(own);
            }
            opened.iter().any(|&port| port.abs_diff(self.port) < PORTS)
        });
        if others == Ok(false) {
            // Releasing a permission never fails.
            let _ = allow(self.port, false);
        }
    }
}

fn allow(port: u16, allowed: bool) -> io::Result<()> {
    // SAFETY: the system call takes three numbers and changes only the ports that this thread may access with IN and
    // OUT. ioperm(2).
    let answer = unsafe {
        libc::syscall(
            libc::SYS_ioperm,
            libc::c_ulong::from(port),
            libc::c_ulong::from(PORTS),
            libc::c_long::from(allowed),
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::{InputPort, OpenPort};

    #[test]
    fn a_register_beyond_the_last_port_is_refused() {
        assert!(OpenPort::open(0xfffd).is_err());
    }

    #[test]
    fn a_port_is_opened_or_refused_with_an_error() {
        // Port 0x80 takes diagnostic codes. Reading it and the following three ports has no effect.
        match OpenPort::open(0x80) {
            Ok(port) => {
                let second = OpenPort::open(0x80).expect("a second permission");
                drop(second);
                // The permission of the first `OpenPort` still exists.
                port.read_u32();
            }
            Err(error) => skipped!("no port may be opened: {error}"),
        }
    }
}
