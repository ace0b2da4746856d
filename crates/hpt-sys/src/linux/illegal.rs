//! Explains a refused read of the cycle counter, with a message from a handler for SIGILL. Does not rescue the process:
//! SIGILL ends it, as it would without the handler.

use std::{
    io, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// The text that the handler writes.
static WORDS: OnceLock<&'static str> = OnceLock::new();
/// Whether a thread has begun to end the process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Installs a handler that writes `words` to standard error before the process ends, if a read of the cycle counter
/// raises SIGILL. SIGILL for any other reason ends the process without the message. If the program already handles or
/// ignores SIGILL, this function changes nothing.
///
/// If this function is called more than once, the text of the first call is used.
pub fn explain_refused_cycles(words: &'static str) -> io::Result<()> {
    // SAFETY: sigaction consists of integers and pointers, for which zero is a valid value.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    // SAFETY: without a new action the call only fills the structure, which is live. sigaction(2).
    let answer = unsafe { libc::sigaction(libc::SIGILL, ptr::null(), &raw mut action) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    if action.sa_sigaction != libc::SIG_DFL {
        return Ok(());
    }
    let _ = WORDS.set(words);
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_illegal_instruction;
    action.sa_sigaction = handler as usize;
    // The handler runs on the alternate signal stack if the thread has one, like the standard library's own handlers.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the structure is live, its mask is empty, and the handler calls only async-signal-safe functions.
    // sigaction(2), signal-safety(7).
    let answer = unsafe { libc::sigaction(libc::SIGILL, &raw const action, ptr::null_mut()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes the message and ends the process. Calls only async-signal-safe functions: atomic loads, write(2), signal(2),
/// raise(3) and pause(2).
extern "C" fn on_illegal_instruction(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // The first thread ends the process. Another thread that is refused at the same time must not end it before the
    // text is written.
    if IS_ENDING.swap(true, Ordering::Relaxed) {
        loop {
            // SAFETY: the call waits for a signal and accesses no memory of the program. pause(2).
            let _ = unsafe { libc::pause() };
        }
    }
    // SAFETY: a handler that was installed with SA_SIGINFO receives a siginfo_t that lives until it returns.
    // sigaction(2).
    let info = unsafe { &*info };
    // Positive codes come from the kernel. A signal from a process (kill, tgkill, sigqueue) has no positive code and no
    // address.
    if info.si_code > 0 {
        // SAFETY: for SIGILL from the kernel the field is the address of the instruction. sigaction(2).
        let address = unsafe { info.si_addr() };
        if let (true, Some(words)) = (is_cycle_read(address.cast()), WORDS.get()) {
            // SAFETY: `words` is live for the whole process, and the length is that of `words`. write(2).
            let _ = unsafe { libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len()) };
        }
    }
    super::process::reset_action(signal);
    // SAFETY: the call takes a number. The signal is blocked in this handler, and its default action ends the process
    // as soon as the handler returns. raise(3).
    let _ = unsafe { libc::raise(signal) };
}

/// Returns whether the instruction at this address, which the processor has just refused to execute, reads the cycle
/// counter.
fn is_cycle_read(address: *const u8) -> bool {
    if address.addr() % 4 == 0 {
        // SAFETY: the processor has fetched an instruction from there, and four aligned bytes are in one page. Linux maps
        // code as readable unless a program requests otherwise, which hpt does not do.
        return reads_cycles(unsafe { address.cast::<u32>().read_unaligned() });
    }
    // Only a T32 instruction has such an address. It may be the last two bytes of a page. Arm ARM (DDI 0406C.d), A6.1:
    // an instruction has four bytes if the upper five bits of its first half are 0b11101, 0b11110 or 0b11111.
    // SAFETY: the processor has fetched an instruction from there, which has at least two bytes. For the mapping, see
    // above.
    let first = unsafe { address.cast::<u16>().read_unaligned() };
    if first >> 11 < 0b11101 {
        return false;
    }
    let rest = address.wrapping_add(2).cast::<u16>();
    // SAFETY: the processor has fetched all four bytes of this instruction: if it could not, it would have raised SIGSEGV
    // instead. For the mapping, see above.
    let second = unsafe { rest.read_unaligned() };
    reads_cycles(u32::from(second) << 16 | u32::from(first))
}

/// Returns whether `word` encodes `mrs Xt, PMCCNTR_EL0`. Arm ARM (DDI 0487), C6.2, MRS: 1101 0101 0011, op0 to op2, Xt.
#[cfg(target_arch = "aarch64")]
const fn reads_cycles(word: u32) -> bool {
    word & !0x1f == 0xd53b_9d00
}

/// Returns whether `word` encodes the A32 instruction `mrc p15, 0, Rt, c9, c13, 0` or, for the ARM1176, `mrc p15, 0,
/// Rt, c15, c12, 1`. Also recognizes the former in T32, where the two halves of the instruction are swapped in the
/// word. Arm ARM for ARMv7-A (DDI 0406C.d), A8.8.108, MRC.
#[cfg(target_arch = "arm")]
const fn reads_cycles(word: u32) -> bool {
    const ANY_REGISTER: u32 = !0xf000;
    const V7: u32 = 0xee19_0f1d;
    const ARM1176: u32 = 0xee1f_0f3c;
    let a32 = word & ANY_REGISTER;
    let t32 = word.rotate_left(16) & ANY_REGISTER;
    a32 == V7 || a32 == ARM1176 || t32 == V7
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::Command};

    use super::{explain_refused_cycles, reads_cycles};
    use crate::testing::own_program;
    use crate::{
        arch::{CyclesToken, event::counter},
        process,
    };

    const WORDS: &str = "these are the last words\n";

    #[test]
    fn only_reads_of_the_cycle_counter_are_recognized() {
        #[cfg(target_arch = "aarch64")]
        let (reads, others) = (
            // mrs x0 and x30, pmccntr_el0.
            [0xd53b_9d00, 0xd53b_9d1e],
            // udf #0; msr pmccntr_el0, x0; mrs x0, pmcr_el0; mrs x0, cntvct_el0.
            [0, 0xd51b_9d00, 0xd53b_9c00, 0xd53b_e040],
        );
        #[cfg(target_arch = "arm")]
        let (reads, others) = (
            // mrc p15, 0, r0, c9, c13, 0, with r12, in T32, and the instruction for the ARM1176.
            [0xee19_0f1d, 0xee19_cf1d, 0x0f1d_ee19, 0xee1f_0f3c],
            // udf #0; mcr p15, 0, r0, c9, c13, 0; mrc p15, 0, r0, c9, c12, 0; mrrc for the generic timer.
            [0xe7f0_00f0, 0xee09_0f1d, 0xee19_0f1c, 0xec51_0f1e],
        );
        assert!(reads.into_iter().all(reads_cycles));
        assert!(!others.into_iter().any(reads_cycles));
    }

    /// Runs one test of this program that ends the process, and returns the signal and the last output.
    fn ends(test: &str) -> (Option<i32>, String) {
        let (runner, program) = own_program();
        let mut words = runner.into_iter().map(Into::into).chain([program.into_os_string()]);
        let mut command = Command::new(words.next().expect("a program"));
        let name = format!("linux::illegal::tests::{test}");
        let output = command.args(words).args(["--exact", &name, "--ignored", "--nocapture"]).output();
        let output = output.expect("this program can be started");
        (output.status.signal(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    #[test]
    fn a_refused_read_is_explained_and_ends_the_process_with_sigill() {
        if CyclesToken::detect(process::platform().as_deref(), true).is_ok() {
            return skipped!("the cycle counter is open on this machine");
        }
        let (signal, said) = ends("by_a_refused_read");
        assert_eq!(signal, Some(libc::SIGILL), "{said}");
        assert!(said.contains(WORDS), "{said}");
    }

    #[test]
    #[ignore = "a part of another test: it ends the process"]
    fn by_a_refused_read() {
        explain_refused_cycles(WORDS).expect("every process may have a handler");
        // A perf event uses the same register, but the register was not opened to programs.
        let _ = counter(32);
    }

    #[test]
    fn another_sigill_ends_the_process_silently() {
        for test in ["by_a_sent_signal", "by_another_instruction"] {
            let (signal, said) = ends(test);
            assert_eq!(signal, Some(libc::SIGILL), "{test}: {said}");
            assert!(!said.contains(WORDS), "{test}: {said}");
        }
    }

    #[test]
    #[ignore = "a part of another test: it ends the process"]
    fn by_a_sent_signal() {
        explain_refused_cycles(WORDS).expect("every process may have a handler");
        // SAFETY: takes a number. raise(3).
        let _ = unsafe { libc::raise(libc::SIGILL) };
    }

    #[test]
    #[ignore = "a part of another test: it ends the process"]
    fn by_another_instruction() {
        explain_refused_cycles(WORDS).expect("every process may have a handler");
        // SAFETY: UDF raises SIGILL, touches nothing else, and does not return because SIGILL ends the process. Arm ARM
        // (DDI 0487), C6.2, UDF; F5.1, UDF.
        unsafe {
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(".inst 0x00000000");
            #[cfg(target_arch = "arm")]
            core::arch::asm!(".inst 0xe7f000f0");
        }
    }
}
