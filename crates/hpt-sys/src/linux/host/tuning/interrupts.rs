//! Interrupts: their counts per CPU, and their affinity.

use std::collections::BTreeMap;

use super::{CpuList, Host, Known};
use crate::{host::cpu_counts::cpus_of, settings::IRQ_AFFINITY};

const INTERRUPTS: &str = "/proc/interrupts";

/// The maximum number of interrupts that are evaluated. This crate reads up to two files for each interrupt, and a
/// capture could list millions of interrupts.
const MOST_INTERRUPTS: usize = 16_384;

/// The beginnings of the names of chips whose interrupts all belong to one CPU each, or to every CPU. Linux:
/// drivers/xen/events/events_base.c, `xen_percpu_chip`; drivers/irqchip/irq-bcm2836.c, irq-riscv-intc.c,
/// irq-loongarch-cpu.c and irq-mips-cpu.c; arch/powerpc/sysdev/xive/common.c, `xive_ipi_chip`;
/// arch/arc/kernel/intc-arcv2.c.
const CHIPS_OF_EACH_CPU: [&str; 9] =
    [PER_CPU, "xen-percpu", "bcm2836-", "RISC-V INTC", "riscv-intc", "CPUINTC", "MIPS ", "XIVE-IPI", "ARCv2 core Intc"];
/// The chip of such an interrupt in a capture, which has no other names of chips.
const PER_CPU: &str = "per-cpu";
const OTHER: &str = "chip";
/// The chip of an interrupt that no user can move, in a capture.
const FIXED: &str = "fixed";
/// The interrupts of an ARM GIC that belong to each CPU. ARM GIC Architecture Specification, 2.2.1: PPIs.
const PPIS: std::ops::Range<u32> = 16..32;
/// The chip of the interrupts of each CPU on PA-RISC. Linux, arch/parisc/kernel/irq.c, `cpu_interrupt_type`.
const OF_PARISC: &str = "CPU";
/// The interrupt with which the CPUs of a POWER processor signal each other. Linux, arch/powerpc/include/asm/xics.h.
const XICS_IPI: u32 = 2;

/// Prefixes of the names of per-CPU interrupts, for captures that do not state the chip. Linux,
/// drivers/clocksource/arm_arch_timer.c, drivers/perf/arm_pmu.c, arch/arm64/kvm/arch_timer.c and vgic,
/// kernel/time/tick-sched.c.
const OF_EACH_CPU: [&str; 8] = ["arch_timer", "arm-pmu", "arm_pmu", "kvm", "vgic", "local_timer", "twd", "cpu_pmu"];

/// A device interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    pub number: u32,
    /// The name that its driver registered.
    pub name: String,
    /// Its count on each CPU.
    pub counts: BTreeMap<usize, u64>,
    /// Its affinity.
    pub goes_to: Known<CpuList>,
    /// Whether the kernel states that no user can move it: its driver spreads it over the CPUs, or each CPU has its own.
    pub is_fixed: bool,
}

/// A line of /proc/interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InterruptLine {
    number: u32,
    /// The words between the counts and the name: the chip, its line number, and the trigger type.
    chip: String,
    name: String,
    counts: BTreeMap<usize, u64>,
}

impl InterruptLine {
    /// Returns whether the interrupt belongs to each CPU, so that it cannot move.
    fn is_of_each_cpu(&self) -> bool {
        let of_controller = || {
            let mut words = self.chip.split_whitespace();
            let (chip, number) =
                (words.next().unwrap_or_default(), words.next().and_then(|number| number.parse().ok()));
            (chip.starts_with("GIC") && number.is_some_and(|number| PPIS.contains(&number)))
                || (chip == "XICS" && number == Some(XICS_IPI))
                || chip == OF_PARISC
        };
        let by_name = || self.chip == OTHER && OF_EACH_CPU.iter().any(|name| self.name.starts_with(name));
        CHIPS_OF_EACH_CPU.iter().any(|chip| self.chip.starts_with(chip)) || of_controller() || by_name()
    }
}

impl Host {
    /// Returns the device interrupts, without per-CPU interrupts.
    ///
    /// # References
    ///
    /// Linux, Documentation/core-api/irq/irq-affinity.rst; proc_interrupts(5).
    pub fn interrupts(&self) -> Known<Vec<Interrupt>> {
        self.told(INTERRUPTS).parsed(|text| {
            let of_devices = lines(&text)?.into_iter().filter(|line| !line.is_of_each_cpu());
            let interrupts = of_devices.map(|line| Interrupt {
                goes_to: self.goes_to(line.number),
                is_fixed: line.chip == FIXED || self.is_fixed(line.number),
                number: line.number,
                name: line.name,
                counts: line.counts,
            });
            Some(interrupts.collect())
        })
    }

    /// Returns whether the kernel lets no user change the affinity of an interrupt. Linux, kernel/irq/proc.c,
    /// register_irq_proc: newer kernels then make the file read-only.
    fn is_fixed(&self, number: u32) -> bool {
        self.is_read_only(&IRQ_AFFINITY.path_of(&[number]))
    }

    fn goes_to(&self, number: u32) -> Known<CpuList> {
        let [effective, allowed] =
            affinity_files(number).map(|path| self.told(&path).parsed(|text| CpuList::parse(&text)));
        match effective {
            // If the effective affinity is not set yet or this kernel does not report it, use the allowed affinity.
            Known::Is(nowhere) if nowhere.is_empty() => allowed,
            Known::Absent => allowed,
            told => told,
        }
    }

    pub(super) fn interrupt_files(&self) -> Vec<String> {
        let mut files = vec![INTERRUPTS.to_owned()];
        let numbers =
            self.interrupts().is().into_iter().flatten().map(|interrupt| interrupt.number).collect::<Vec<_>>();
        for number in numbers {
            files.extend(affinity_files(number).into_iter().filter(|file| self.told(file) != Known::Absent));
        }
        files
    }
}

/// Returns the files with the CPUs that an interrupt goes to, and with those that it may go to.
fn affinity_files(number: u32) -> [String; 2] {
    [format!("/proc/irq/{number}/effective_affinity_list"), IRQ_AFFINITY.path_of(&[number])]
}

/// Returns the part of /proc/interrupts that may leave the machine: counts, and common driver names. Names of network
/// interfaces are omitted because the owner of the machine may have chosen them.
pub(super) fn without_names(host: &Host, path: &str, content: &str) -> Option<String> {
    if path != INTERRUPTS {
        return None;
    }
    let read = lines(content).unwrap_or_default();
    let cpus: Vec<usize> = read.first().map(|line| line.counts.keys().copied().collect()).unwrap_or_default();
    let mut kept = String::new();
    for cpu in &cpus {
        kept.push_str(&format!(" CPU{cpu}"));
    }
    kept.push('\n');
    for line in read {
        kept.push_str(&format!("{}:", line.number));
        for cpu in &cpus {
            kept.push_str(&format!(" {}", line.counts.get(cpu).unwrap_or(&0)));
        }
        let chip = match line.is_of_each_cpu() {
            true => PER_CPU,
            false if host.is_fixed(line.number) => FIXED,
            false => OTHER,
        };
        kept.push_str(&format!(" {chip} {}\n", common_name(&line.name)));
    }
    Some(kept)
}

/// Prefixes of names that reveal nothing about the owner of a machine. A capture contains the prefix and the digits
/// that follow it.
const COMMON: [&str; 52] = [
    "arch_timer",
    "arm-pmu",
    "timer",
    "rtc",
    "i8042",
    "acpi",
    "ACPI",
    "ttyS",
    "ttyAMA",
    "uart-pl011",
    "virtio",
    "nvme",
    "ahci",
    "ata_piix",
    "xhci_hcd",
    "xhci-hcd",
    "ehci_hcd",
    "ohci_hcd",
    "uhci_hcd",
    "dwc2",
    "dwc_otg",
    "dwc3",
    "i915",
    "amdgpu",
    "radeon",
    "nouveau",
    "mmc",
    "sdhci",
    "vc4",
    "v3d",
    "VCHIQ",
    "bcm2835",
    "bcm2708",
    "brcm",
    "DMA",
    "dma",
    "mailbox",
    "fe00b880.mailbox",
    "eth",
    "end",
    "PCIe",
    "pcieport",
    "aerdrv",
    "snd_hda_intel",
    "i801_smbus",
    "idma64",
    "gpio",
    "hpet",
    "megasas",
    "mpt3sas",
    "mlx5_comp",
    "vgic",
];

fn common_name(name: &str) -> String {
    let longest = COMMON.iter().filter(|known| name.starts_with(**known)).max_by_key(|known| known.len());
    longest.map_or_else(
        || "device".to_owned(),
        |known| {
            let digits: String = name[known.len()..].chars().take_while(char::is_ascii_digit).take(3).collect();
            format!("{known}{digits}")
        },
    )
}

/// Returns the lines of /proc/interrupts with an interrupt number; `None` if the text is not such a table, or if it is
/// too long.
fn lines(text: &str) -> Option<Vec<InterruptLine>> {
    let mut all = text.lines();
    let cpus = cpus_of(all.next()?).filter(|cpus| !cpus.is_empty())?;
    let lines: Vec<InterruptLine> = all.filter_map(|line| numbered(line, &cpus)).take(MOST_INTERRUPTS + 1).collect();
    (lines.len() <= MOST_INTERRUPTS).then_some(lines)
}

fn numbered(line: &str, cpus: &[usize]) -> Option<InterruptLine> {
    let (number, rest) = line.split_once(':')?;
    let mut words = rest.split_whitespace().peekable();
    let mut counts = BTreeMap::new();
    for &cpu in cpus {
        counts.insert(cpu, words.next()?.parse().ok()?);
    }
    // The counts are followed by the chip, its line number, the trigger type, and the handlers, separated by commas.
    let words: Vec<&str> = words.collect();
    let last = words.len().checked_sub(1)?;
    let first = (0..last).rev().take_while(|&index| words[index].ends_with(',')).last().unwrap_or(last);
    let (number, chip) = (number.trim().parse().ok()?, words[..first].join(" "));
    Some(InterruptLine { number, chip, name: words[first..].join(" "), counts })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use proptest::prelude::{any, proptest};

    use super::{common_name, lines, without_names};
    use crate::host::{Capture, Entry, Facts, Host};

    const TEXT: &str = "           CPU0       CPU1       \n  1:          9          0   IO-APIC   1-edge      i8042\n 33:         12    3768467  PCI-MSIX-0000:00:02.0   1-edge      wlan-of-alice\n \
        17:          0          5  GICv2  30 Level     mmc0, mmc1\nNMI:          0          0   Non-maskable interrupts\nERR:          0\n";

    /// A machine without modes of files.
    fn none() -> Host {
        Host::captured(Capture::new(), Facts::live())
    }

    #[test]
    fn an_interrupt_whose_file_is_read_only_cannot_be_moved() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let write = |path: &str, content: &str, mode: u32| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent directory")).expect("ours");
            fs::write(&path, content).expect("ours");
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        };
        let table = "CPU0 CPU1\n 36: 0 9 PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0\n 37: 0 9 PCI-MSIX-0000:00:02.0 2-edge eth0\n";
        write("proc/interrupts", table, 0o444);
        write("proc/irq/36/smp_affinity_list", "1\n", 0o444);
        write("proc/irq/37/smp_affinity_list", "1\n", 0o644);
        let host = Host::below(folder.path(), Facts::live());
        let of = |host: &Host| {
            let all = host.interrupts();
            all.is().into_iter().flatten().map(|one| (one.number, one.is_fixed)).collect::<Vec<_>>()
        };
        assert_eq!(of(&host), [(36, true), (37, false)]);
        // A capture keeps the statement.
        let kept = without_names(&host, "/proc/interrupts", table).expect("this file");
        let mut capture = Capture::new();
        capture.insert("proc/interrupts", Entry::File(kept.into_bytes())).expect("a sound path");
        assert_eq!(of(&Host::captured(capture, Facts::live())), [(36, true), (37, false)]);
    }

    #[test]
    fn counts_and_names_are_read_from_numbered_lines() {
        let read = lines(TEXT).expect("a table");
        let told: Vec<_> = read.iter().map(|line| (line.number, line.name.as_str(), line.counts[&1])).collect();
        assert_eq!(told, [(1, "i8042", 0), (33, "wlan-of-alice", 3_768_467), (17, "mmc0, mmc1", 5)]);
        assert_eq!((lines(""), lines("nothing of the kind\n")), (None, None));
    }

    #[test]
    fn interrupts_of_each_cpu_are_recognized_by_their_chip() {
        let of_each_cpu =
            |rest: &str| lines(&format!("CPU0 CPU1\n 9: 1 2 {rest}\n")).expect("a table")[0].is_of_each_cpu();
        for rest in [
            "xen-percpu    -virq      timer1",
            "xen-percpu    -ipi       callfuncsingle1",
            "GICv3  27 Level     vtimer-of-a-vendor",
            "GICv2  30 Level     arch_timer",
            "GIC-0  29 Edge      twd",
            "bcm2836-timer   1 Edge      arch_timer",
            "RISC-V INTC   5 Edge      riscv-timer",
            "CPUINTC  11 Edge      timer",
            "MIPS   7  timer",
        ] {
            assert!(of_each_cpu(rest), "{rest}");
            let kept =
                without_names(&none(), "/proc/interrupts", &format!("CPU0 CPU1\n 9: 1 2 {rest}\n")).expect("this file");
            assert!(lines(&kept).expect("a table")[0].is_of_each_cpu(), "{kept}");
        }
        for rest in [
            "xen-dyn-lateeoi     -event     vif0-q0-tx",
            "GICv3  39 Level     uart-pl011",
            "IO-APIC   8-edge      rtc0",
            "SiFive PLIC  10 Edge      virtio0",
            "PCI-MSIX-0000:00:02.0   1-edge      kvm-of-alice",
        ] {
            assert!(!of_each_cpu(rest), "{rest}");
        }
    }

    #[test]
    fn a_capture_contains_counts_but_no_names_that_users_chose() {
        let kept = without_names(&none(), "/proc/interrupts", TEXT).expect("this file");
        assert!(!kept.contains("alice"), "{kept}");
        let read = lines(&kept).expect("still a table");
        assert_eq!(read.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["i8042", "device", "mmc0"]);
        assert_eq!(read[1].counts[&1], 3_768_467);
        assert_eq!(without_names(&none(), "/proc/stat", TEXT), None);
    }

    #[test]
    fn device_names_are_truncated_after_their_number() {
        assert_eq!((common_name("virtio0-input.0").as_str(), common_name("eth0-alice").as_str()), ("virtio0", "eth0"));
        assert_eq!((common_name("enp3s0").as_str(), common_name("").as_str()), ("device", "device"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in any::<String>(), line in "[0-9]{0,3}:( [0-9]{0,22}){0,5}[ a-z,]{0,12}") {
            let _ = (lines(&text), lines(&format!("CPU0 CPU1\n{line}\n")));
            let _ = without_names(&none(), "/proc/interrupts", &format!("CPU0 CPU1\n{line}\n"));
        }
    }
}
