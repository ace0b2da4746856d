//! Facts about the processor from /proc/cpuinfo, the device tree and CPUID. This module only parses: `Host` opens the
//! files, and `sys::arch` executes CPUID.

use std::collections::BTreeSet;

use crate::units::Frequency;

/// The result of a CPUID query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuidLeaf {
    /// The value of EAX in the query.
    pub leaf: u32,
    /// The value of ECX in the query.
    pub subleaf: u32,
    /// The values of EAX, EBX, ECX and EDX in the result.
    pub registers: [u32; 4],
}

/// The CPUID leaves that concern time: features, crystal, base frequency, hypervisor, and advanced power management.
/// Intel SDM vol. 2A, CPUID; AMD APM vol. 3, appendix E; Linux, arch/x86/kernel/cpu/vmware.c and arch/x86/kernel/kvm.c.
const LEAVES: [u32; 9] =
    [0, 1, CRYSTAL, BASE_FREQUENCY, HYPERVISOR, HYPERVISOR_TIMING, EXTENDED, EXTENDED_FEATURES, POWER_MANAGEMENT];
const CRYSTAL: u32 = 0x15;
const BASE_FREQUENCY: u32 = 0x16;
const HYPERVISOR: u32 = 0x4000_0000;
const HYPERVISOR_TIMING: u32 = 0x4000_0010;
const EXTENDED: u32 = 0x8000_0000;
const EXTENDED_FEATURES: u32 = 0x8000_0001;
const POWER_MANAGEMENT: u32 = 0x8000_0007;
/// Leaf 1, ECX bit 31: a hypervisor is present.
const ECX_HYPERVISOR: u32 = 1 << 31;
/// Leaf `0x8000_0007`, EDX bit 8: the TSC's rate does not change with the power state.
const EDX_INVARIANT_TSC: u32 = 1 << 8;

/// Queries the CPUID leaves that concern time, if they are within the ranges that the processor reports.
pub(super) fn leaves(cpuid: impl Fn(u32, u32) -> Option<[u32; 4]>) -> Vec<CpuidLeaf> {
    let ask = |leaf| cpuid(leaf, 0).map(|registers| CpuidLeaf { leaf, subleaf: 0, registers });
    let hypervisor = ask(1).is_some_and(|leaf| leaf.registers[2] & ECX_HYPERVISOR != 0);
    let highest = |base: u32| ask(base).map_or(0, |leaf| leaf.registers[0]);
    LEAVES
        .into_iter()
        .filter(|&leaf| match leaf & 0xf000_0000 {
            HYPERVISOR => hypervisor && (leaf == HYPERVISOR || leaf <= highest(HYPERVISOR)),
            base => leaf <= highest(base),
        })
        .filter_map(ask)
        .collect()
}

/// The origin of a nominal TSC frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TscStatement {
    /// CPUID leaf 0x15: the crystal frequency, and the ratio of the TSC frequency to it.
    Crystal,
    /// CPUID leaf 0x16: the base frequency in MHz, which equals the TSC frequency on processors that do not report
    /// their crystal frequency.
    BaseFrequency,
    /// The hypervisor's timing leaf `0x4000_0010`, in kHz.
    Hypervisor,
    /// `BogoMIPS` in /proc/cpuinfo: twice the TSC frequency that the kernel determined at boot, in MHz, truncated to
    /// two decimals.
    BogoMips,
}

/// A nominal TSC frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TscFrequency {
    /// The frequency.
    pub frequency: Frequency,
    /// Its origin.
    pub stated_by: TscStatement,
}

/// The processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    name: Option<String>,
    board: Option<String>,
    signature: String,
    flags: BTreeSet<String>,
    bogomips_hundredths: Option<u64>,
    leaves: Vec<CpuidLeaf>,
}

impl Cpu {
    pub(super) fn parse(cpuinfo: &str, board: Option<&str>, leaves: &[CpuidLeaf]) -> Self {
        let value = |wanted: &str| {
            cpuinfo.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == wanted && !value.trim().is_empty()).then(|| value.trim())
            })
        };
        let part = || {
            let (implementer, part) = (value("CPU implementer")?, value("CPU part")?);
            Some(format!("ARM implementer {implementer} part {part}"))
        };
        let identity = ["vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU revision"];
        Self {
            name: value("model name").map(str::to_owned).or_else(part),
            board: board.or_else(|| value("Model")).map(str::to_owned),
            signature: identity.into_iter().filter_map(value).collect::<Vec<_>>().join("/"),
            flags: value("flags")
                .or_else(|| value("Features"))
                .map(|flags| flags.split_whitespace().map(str::to_owned).collect())
                .unwrap_or_default(),
            bogomips_hundredths: value("bogomips").or_else(|| value("BogoMIPS")).and_then(hundredths),
            leaves: leaves.to_vec(),
        }
    }

    /// Returns the name of the processor, as reported by the kernel.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the name of the board from the device tree or, without one, from /proc/cpuinfo.
    #[must_use]
    pub fn board(&self) -> Option<&str> {
        self.board.as_deref()
    }

    /// Returns the vendor, family, model and stepping as one string. It is identical for processors of the same kind.
    #[must_use]
    pub fn signature(&self) -> &str {
        &self.signature
    }

    /// Returns whether /proc/cpuinfo lists any flags. If it lists none, the absence of a flag has no meaning.
    #[must_use]
    pub fn lists_flags(&self) -> bool {
        !self.flags.is_empty()
    }

    /// Returns whether /proc/cpuinfo lists `flag`.
    #[must_use]
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    /// Returns the hypervisor's signature (CPUID leaf `0x4000_0000`); `None` on bare hardware.
    /// [`hypervisor_name`](Self::hypervisor_name) returns the corresponding name.
    #[must_use]
    pub fn hypervisor(&self) -> Option<String> {
        let [_, ebx, ecx, edx] = self.leaf(HYPERVISOR)?;
        let name: Vec<u8> =
            [ebx, ecx, edx].into_iter().flat_map(u32::to_le_bytes).filter(u8::is_ascii_graphic).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        Some(if name.is_empty() { "unnamed".to_owned() } else { name })
    }

    /// Returns the common name of the hypervisor with this signature, which [`hypervisor`](Self::hypervisor) returns.
    /// An unknown signature is returned unchanged.
    #[must_use]
    pub fn hypervisor_name(signature: &str) -> &str {
        match signature {
            "KVMKVMKVM" | "LinuxKVMHv" => "KVM",
            "TCGTCGTCGTCG" => "QEMU (TCG)",
            "VMwareVMware" => "VMware",
            "MicrosoftHv" => "Hyper-V",
            "XenVMMXenVMM" => "Xen",
            "VBoxVBoxVBox" => "VirtualBox",
            "ACRNACRNACRN" => "ACRN",
            "bhyvebhyve" => "bhyve",
            other => other,
        }
    }

    /// Returns whether the TSC has a constant rate according to CPUID; `None` if the leaf is missing.
    #[must_use]
    pub fn invariant_tsc(&self) -> Option<bool> {
        self.leaf(POWER_MANAGEMENT).map(|[_, _, _, edx]| edx & EDX_INVARIANT_TSC != 0)
    }

    /// Returns whether the TSC has a constant rate and does not stop in idle states. The source is the list of flags in
    /// /proc/cpuinfo or, if it lists none, CPUID. Returns `None` if neither is available.
    #[must_use]
    pub fn tsc_runs_at_one_rate(&self) -> Option<bool> {
        if self.lists_flags() {
            Some(self.has_flag("constant_tsc") && self.has_flag("nonstop_tsc"))
        } else {
            self.invariant_tsc()
        }
    }

    /// Returns the nominal TSC frequency from the best available origin. This frequency is not measured.
    #[must_use]
    pub fn tsc_frequency(&self) -> Option<TscFrequency> {
        let stated =
            |frequency: Option<Frequency>, stated_by| frequency.map(|frequency| TscFrequency { frequency, stated_by });
        stated(self.crystal_frequency(), TscStatement::Crystal)
            .or_else(|| stated(self.hypervisor_frequency(), TscStatement::Hypervisor))
            .or_else(|| stated(self.base_frequency(), TscStatement::BaseFrequency))
            .or_else(|| stated(self.bogomips_frequency(), TscStatement::BogoMips))
    }

    /// Returns the registers `[eax, ebx, ecx, edx]` of a leaf; `None` if the leaf was not queried.
    #[must_use]
    pub fn leaf(&self, leaf: u32) -> Option<[u32; 4]> {
        self.leaves.iter().find(|answer| answer.leaf == leaf && answer.subleaf == 0).map(|answer| answer.registers)
    }

    /// Returns the TSC frequency from leaf 0x15, which is ECX · EBX / EAX in Hz; `None` if a value is missing.
    fn crystal_frequency(&self) -> Option<Frequency> {
        let [denominator, numerator, crystal_hz, _] = self.leaf(CRYSTAL)?;
        let microhertz = u128::from(crystal_hz) * 1_000_000 * u128::from(numerator);
        let microhertz = microhertz.checked_div(u128::from(denominator))?;
        u64::try_from(microhertz).ok().and_then(Frequency::from_microhertz)
    }

    /// Returns the base frequency from leaf 0x16, which is in bits 15 to 0 of EAX, in MHz. It equals the TSC frequency
    /// only if leaf 0x15 states a ratio without a crystal frequency.
    fn base_frequency(&self) -> Option<Frequency> {
        let [denominator, numerator, _, _] = self.leaf(CRYSTAL)?;
        let [base_mhz, ..] = self.leaf(BASE_FREQUENCY)?;
        if denominator == 0 || numerator == 0 {
            return None;
        }
        Frequency::from_hertz(u64::from(base_mhz & 0xffff) * 1_000_000)
    }

    /// Returns the TSC frequency from the hypervisor's timing leaf, which is in EAX, in kHz; `None` unless the
    /// hypervisor is known to define the leaf this way.
    fn hypervisor_frequency(&self) -> Option<Frequency> {
        let known = ["VMwareVMware", "KVMKVMKVM", "ACRNACRNACRN"];
        let name = self.hypervisor()?;
        let [khz, ..] = self.leaf(HYPERVISOR_TIMING)?;
        known.contains(&name.as_str()).then(|| Frequency::from_hertz(u64::from(khz) * 1000)).flatten()
    }

    /// Returns half of `BogoMIPS`, in MHz. If the kernel's delay loop reads a counter, this is the rate of the counter.
    pub(super) fn delay_loop_frequency(&self) -> Option<Frequency> {
        Frequency::from_hertz(self.bogomips_hundredths?.checked_mul(5_000)?)
    }

    /// Returns the TSC frequency from `BogoMIPS`. If the TSC is constant, the kernel derives `loops_per_jiffy` from the
    /// TSC frequency (arch/x86/kernel/tsc.c, `tsc_init`).
    pub(super) fn bogomips_frequency(&self) -> Option<Frequency> {
        self.has_flag("constant_tsc").then(|| self.delay_loop_frequency()).flatten()
    }
}

/// Parses a number with two decimals as hundredths: `4500.00` becomes 450000.
fn hundredths(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.')?;
    if decimals.len() != 2 {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(decimals.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{Cpu, CpuidLeaf, TscStatement, leaves};
    use crate::units::Frequency;

    fn with(answers: &[(u32, [u32; 4])]) -> Cpu {
        let leaves: Vec<_> =
            answers.iter().map(|&(leaf, registers)| CpuidLeaf { leaf, subleaf: 0, registers }).collect();
        Cpu::parse("flags\t\t: fpu tsc constant_tsc\nbogomips\t: 4500.00\n", None, &leaves)
    }

    #[test]
    fn a_stated_crystal_frequency_takes_precedence() {
        // A Skylake-SP: 25 MHz crystal, ratio 168/2.
        let stated = with(&[(0x15, [2, 168, 25_000_000, 0])]).tsc_frequency().expect("stated");
        assert_eq!((stated.frequency.hertz(), stated.stated_by), (2_100_000_000, TscStatement::Crystal));
    }

    #[test]
    fn without_a_crystal_frequency_the_base_frequency_is_used() {
        let stated = with(&[(0x15, [2, 168, 0, 0]), (0x16, [2100, 3700, 100, 0])]).tsc_frequency().expect("stated");
        assert_eq!((stated.frequency.hertz(), stated.stated_by), (2_100_000_000, TscStatement::BaseFrequency));
    }

    #[test]
    fn only_hypervisors_that_define_the_timing_leaf_are_trusted() {
        let vmware = (0x4000_0000, [0x4000_0010, 0x6177_4d56, 0x4d56_6572, 0x6572_6177]);
        let other = (0x4000_0000, [0x4000_0010, 0x7263_694d, 0x666f_736f, 0x7648_2074]);
        let khz = (0x4000_0010, [2_596_000, 0, 0, 0]);
        let stated = with(&[vmware, khz]).tsc_frequency().expect("stated");
        assert_eq!((stated.frequency.hertz(), stated.stated_by), (2_596_000_000, TscStatement::Hypervisor));
        assert_eq!(with(&[other, khz]).tsc_frequency().expect("stated").stated_by, TscStatement::BogoMips);
    }

    #[test]
    fn bogomips_is_twice_the_rate_of_a_constant_tsc_only() {
        assert_eq!(with(&[]).tsc_frequency().map(|stated| stated.frequency), Frequency::from_hertz(2_250_000_000));
        let without_flag = Cpu::parse("flags : fpu tsc\nbogomips : 4500.00\n", None, &[]);
        assert_eq!(without_flag.tsc_frequency(), None);
    }

    #[test]
    fn a_ratio_of_zero_states_nothing() {
        let cpu = Cpu::parse("", None, &[CpuidLeaf { leaf: 0x15, subleaf: 0, registers: [0; 4] }]);
        assert_eq!(cpu.tsc_frequency(), None);
    }

    #[test]
    fn leaves_beyond_the_announced_range_are_not_queried() {
        let asked = leaves(|leaf, _| match leaf {
            0 => Some([1, 0, 0, 0]),
            1 => Some([0; 4]),
            0x8000_0000 => Some([0x8000_0001, 0, 0, 0]),
            0x8000_0001 => Some([0; 4]),
            _ => panic!("leaf {leaf:#x} is beyond what was announced"),
        });
        assert_eq!(asked.len(), 4);
    }

    #[test]
    fn an_arm_processor_is_named_after_its_part_number_and_board() {
        let cpu = Cpu::parse(
            "CPU implementer\t: 0x41\nCPU part\t: 0xd03\nFeatures\t: fp asimd\n",
            Some("Raspberry Pi 3 Model B"),
            &[],
        );
        assert_eq!(cpu.name(), Some("ARM implementer 0x41 part 0xd03"));
        assert_eq!(cpu.board(), Some("Raspberry Pi 3 Model B"));
        assert!(cpu.has_flag("asimd") && cpu.lists_flags());
    }

    proptest! {
        #[test]
        fn any_cpuinfo_is_parsed_without_a_panic(cpuinfo in any::<String>(), registers in any::<[[u32; 4]; 9]>()) {
            let leaves: Vec<_> = super::LEAVES.into_iter().zip(registers).map(|(leaf, registers)| CpuidLeaf { leaf, subleaf: 0, registers }).collect();
            let cpu = Cpu::parse(&cpuinfo, None, &leaves);
            let _ = (cpu.tsc_frequency(), cpu.hypervisor(), cpu.invariant_tsc());
        }

        #[test]
        fn any_bogomips_is_parsed_without_a_panic(text in "[0-9.]{0,24}") {
            let cpu = Cpu::parse(&format!("flags : constant_tsc\nbogomips : {text}"), None, &[]);
            let _ = cpu.tsc_frequency();
        }
    }
}
