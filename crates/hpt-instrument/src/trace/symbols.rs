//! The names of the kernel's functions, and what its stacks tell. Reads only /proc/kallsyms.

use std::{fs, ops::Range};

use super::events::printable;

/// Returns whether the kernel names its functions to this process, so that recording their addresses is worth the time.
pub(super) fn are_named() -> bool {
    let hides = fs::read_to_string("/proc/sys/kernel/kptr_restrict").is_ok_and(|level| level.trim() == "2");
    !hides && fs::exists("/proc/kallsyms").unwrap_or(false)
}

/// The maximum number of functions of a stack.
const FUNCTIONS: usize = 16;

/// The kernel's functions, by their addresses.
#[derive(Debug)]
pub(super) struct Symbols {
    /// The names, one after another.
    names: String,
    /// The address of each function, and where its name begins, in ascending order.
    functions: Vec<(u64, usize)>,
    /// The code by which the kernel is entered: from an interrupt or by a system call.
    entry: Range<u64>,
    /// The functions in which a thread is switched away from; see in_sched_functions in the kernel.
    scheduler: Range<u64>,
}

impl Symbols {
    /// Reads the functions. `None` if the kernel hides their addresses.
    pub(super) fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/kallsyms").ok()?)
    }

    /// Parses the list of the kernel's symbols; see the format in kernel/kallsyms.c.
    pub(super) fn parse(list: &str) -> Option<Self> {
        let (mut names, mut functions) = (String::new(), Vec::new());
        let (mut entry, mut scheduler) = (0..0, 0..0);
        for line in list.lines() {
            let Some((address, rest)) = line.split_once(' ') else { continue };
            let (Ok(address), Some((kind, name))) = (u64::from_str_radix(address, 16), rest.split_once(' ')) else {
                continue;
            };
            match name {
                "__entry_text_start" => entry.start = address,
                "__entry_text_end" => entry.end = address,
                "__sched_text_start" => scheduler.start = address,
                "__sched_text_end" => scheduler.end = address,
                _ if address != 0 && ["t", "T", "w", "W"].contains(&kind) => {
                    functions.push((address, names.len()));
                    names.extend(name.chars().map(|c| if c == '\t' { ' ' } else { c }));
                    names.push('\n');
                }
                _ => {}
            }
        }
        functions.sort_by_key(|&(address, _)| address);
        (!functions.is_empty()).then_some(Self { names, functions, entry, scheduler })
    }

    /// Returns the name of the function that contains an address.
    pub(super) fn name(&self, address: u64) -> Option<String> {
        let after = self.functions.partition_point(|&(begin, _)| begin <= address);
        let &(_, at) = self.functions.get(after.checked_sub(1)?)?;
        self.names[at..].lines().next().map(|name| printable(name.as_bytes()))
    }

    /// Returns the functions in which an interrupt found the kernel, innermost first: those that had entered the code of
    /// interrupts. Empty if the kernel did not run.
    pub(super) fn interrupted(&self, stack: &[u64]) -> Vec<String> {
        let entered = stack.iter().position(|address| self.entry.contains(address));
        self.names_of(entered.map_or(&[][..], |entered| &stack[entered + 1..]))
    }

    /// Returns the functions in which a thread waits, innermost first.
    pub(super) fn waits(&self, stack: &[u64]) -> Vec<String> {
        let is_scheduler = |address: &u64| self.scheduler.contains(address);
        let begin = stack.iter().position(is_scheduler).unwrap_or(stack.len());
        let length = stack[begin..].iter().take_while(|address| is_scheduler(address)).count();
        self.names_of(&stack[begin + length..])
    }

    /// Returns the names of functions up to the code by which the kernel was entered.
    fn names_of(&self, stack: &[u64]) -> Vec<String> {
        let inside = stack.iter().take_while(|address| !self.entry.contains(address));
        inside.take(FUNCTIONS).map_while(|&address| self.name(address)).collect()
    }
}

#[cfg(test)]
pub(super) use tests::LIST;

#[cfg(test)]
mod tests {
    use super::Symbols;

    pub(in crate::trace) const LIST: &str = "0000000000001000 T __entry_text_start\n\
        0000000000001010 T entry_SYSCALL\n\
        0000000000001020 T asm_timer\n\
        0000000000001100 T __entry_text_end\n\
        0000000000003000 t do_work\t[driver]\n\
        0000000000002000 T vfs_read\n\
        0000000000002100 d table\n\
        0000000000004000 T __sched_text_start\n\
        0000000000004000 T __schedule\n\
        0000000000004100 T schedule_timeout\n\
        0000000000004200 T __sched_text_end\n\
        0000000000005000 t trace_event\n";

    #[test]
    fn a_function_is_named_by_an_address_within_it() {
        let symbols = Symbols::parse(LIST).expect("addresses");
        for (address, name) in
            [(0x2000, Some("vfs_read")), (0x2ff0, Some("vfs_read")), (0x3010, Some("do_work [driver]"))]
        {
            assert_eq!(symbols.name(address).as_deref(), name, "{address:x}");
        }
        assert_eq!(symbols.name(0x10), None);
        // Without the right to see them, all addresses are zero.
        assert!(Symbols::parse("0000000000000000 T _text\n0000000000000000 t vfs_read\n").is_none());
        assert!(Symbols::parse("").is_none() && Symbols::parse("x\nffff T\n").is_none());
    }

    #[test]
    fn an_interrupted_stack_begins_behind_the_code_of_the_interrupt() {
        let symbols = Symbols::parse(LIST).expect("addresses");
        let stack = [0x5010, 0x1024, 0x3004, 0x2040, 0x1012, 0x9999];
        assert_eq!(symbols.interrupted(&stack), ["do_work [driver]", "vfs_read"]);
        // A program, not the kernel, was interrupted.
        assert!(symbols.interrupted(&stack[..2]).is_empty());
        // Without the entry, nothing tells which functions belong to the interrupt.
        assert!(symbols.interrupted(&[0x5010, 0x3004]).is_empty() && symbols.interrupted(&[]).is_empty());
    }

    #[test]
    fn the_stack_of_a_wait_begins_behind_the_scheduler() {
        let symbols = Symbols::parse(LIST).expect("addresses");
        let stack = [0x5010, 0x4010, 0x4110, 0x3004, 0x2040, 0x1012];
        assert_eq!(symbols.waits(&stack), ["do_work [driver]", "vfs_read"]);
        assert!(symbols.waits(&[0x5010, 0x3004]).is_empty() && symbols.waits(&[]).is_empty());
    }
}
