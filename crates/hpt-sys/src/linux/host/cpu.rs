//! Facts about the processor from /proc/cpuinfo, the device tree and CPUID. This module only parses: `Host` opens the
//! files, and `arch` executes CPUID.

use std::collections::{BTreeMap, BTreeSet};

use super::CpuList;
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
/// The name of a hypervisor that states none.
pub(super) const UNNAMED: &str = "unnamed";
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
    /// Adds to the name that other processors have none, if /proc/cpuinfo does not describe the processors that are
    /// online: some kernels number the processors there in another way.
    pub(super) fn described_for(mut self, cpuinfo: &str, online: &CpuList) -> Self {
        let number = |line: &str| line.strip_prefix("processor\t: ")?.trim().parse().ok();
        let listed: Vec<usize> = cpuinfo.lines().filter_map(number).collect();
        // On other architectures, the kernel numbers the processors as everywhere else.
        let is_described = !cpuinfo.contains("CPU implementer")
            || listed.is_empty()
            || listed.into_iter().any(|cpu| online.contains(cpu));
        if let (Some(name), false) = (&mut self.name, is_described) {
            name.push_str(" + unnamed");
        }
        self
    }

    pub(super) fn parse(cpuinfo: &str, board: Option<&str>, leaves: &[CpuidLeaf]) -> Self {
        let value = |wanted: &str| {
            cpuinfo.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == wanted && !value.trim().is_empty()).then(|| value.trim())
            })
        };
        let identity = ["vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU revision"];
        Self {
            name: names(cpuinfo),
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

    /// Returns the name of the processor, as reported by the kernel or, on ARM, by the processor's part number. If the
    /// machine has several kinds of processors, the names are separated by ` + `.
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
        Some(if name.is_empty() { UNNAMED.to_owned() } else { name })
    }

    /// Returns the common name of the hypervisor with this signature, which [`hypervisor`](Self::hypervisor) returns.
    /// An unknown signature, or a name, is returned unchanged.
    #[must_use]
    pub fn hypervisor_name(signature: &str) -> &str {
        match signature {
            UNNAMED => "an unnamed hypervisor",
            "KVMKVMKVM" | "LinuxKVMHv" => "KVM",
            "TCGTCGTCGTCG" => "QEMU (TCG)",
            "VMwareVMware" => "VMware",
            "MicrosoftHv" => "Hyper-V",
            "XenVMMXenVMM" => "Xen",
            "VBoxVBoxVBox" => "VirtualBox",
            "ACRNACRNACRN" => "ACRN",
            "bhyvebhyve" => "bhyve",
            "lrpepyhvr" | "prlhyperv" => "Parallels",
            "QNXQVMBSQG" => "QNX",
            "SRESRESRESRE" => "LMHS",
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
        // Linux asks in the same order: `x86_platform.calibrate_tsc`, which hypervisors replace, then CPUID.
        stated(self.hypervisor_frequency(), TscStatement::Hypervisor)
            .or_else(|| stated(self.crystal_frequency(), TscStatement::Crystal))
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

/// Returns the kinds of processors that /proc/cpuinfo names, in its order, joined by ` + `.
fn names(cpuinfo: &str) -> Option<String> {
    let blocks: Vec<BTreeMap<&str, &str>> = cpuinfo.split("\n\n").map(fields).collect();
    let mut names: Vec<String> = Vec::new();
    for name in
        blocks.iter().filter_map(|block| arm_name(block).or_else(|| riscv_name(block)).or_else(|| stated_name(block)))
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(" + "))
}

/// Returns the fields of one processor. The first of several fields with the same name applies.
fn fields(block: &str) -> BTreeMap<&str, &str> {
    let fields = block.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key.trim(), value.trim()));
    let mut first = BTreeMap::new();
    for (key, value) in fields.filter(|(_, value)| !value.is_empty()) {
        first.entry(key).or_insert(value);
    }
    first
}

/// The fields in which the kernel names a processor: x86; LoongArch; MIPS and Alpha; SuperH; m68k; POWER and SPARC. Linux, the
/// `show_cpuinfo` of each architecture.
const NAMES: [&str; 6] = ["model name", "Model Name", "cpu model", "cpu type", "CPU", "cpu"];

fn stated_name(block: &BTreeMap<&str, &str>) -> Option<String> {
    let of_s390 = || {
        let (_, machine) = block.iter().find(|(key, _)| key.starts_with("processor "))?.1.rsplit_once("machine = ")?;
        Some(format!("IBM machine {machine}"))
    };
    NAMES.iter().find_map(|key| block.get(key)).map(|name| (*name).to_owned()).or_else(of_s390)
}

/// Returns the name of the microarchitecture, or the numbers of a processor without one. Linux,
/// arch/riscv/kernel/cpu.c.
fn riscv_name(block: &BTreeMap<&str, &str>) -> Option<String> {
    let numbers = || Some(format!("RISC-V vendor {} architecture {}", block.get("mvendorid")?, block.get("marchid")?));
    block.get("uarch").map(|&name| name.to_owned()).or_else(numbers)
}

/// Returns the name of an ARM processor. The processor's own numbers take precedence over the `model name` of the
/// kernel, which is often only the name of the architecture, and over `Processor`, which always is.
fn arm_name(block: &BTreeMap<&str, &str>) -> Option<String> {
    let (implementer, part) = (block.get("CPU implementer")?, block.get("CPU part")?);
    let numbers = || format!("ARM implementer {implementer} part {part}");
    let generic = |name: &str| name.contains("Processor rev ");
    let stated = || block.get("model name").filter(|name| !generic(name)).map(|&name| name.to_owned());
    let known = arm_part(hexadecimal(implementer)?, hexadecimal(part)?).map(str::to_owned);
    Some(known.or_else(stated).unwrap_or_else(numbers))
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Returns the name of an ARM processor by its implementer and part number. Linux, arch/arm64/include/asm/cputype.h and
/// arch/arm/include/asm/cputype.h; the technical reference manuals, MIDR_EL1.
fn arm_part(implementer: u32, part: u32) -> Option<&'static str> {
    const ARM: u32 = 0x41;
    let known = PARTS.iter().find(|(of, number, _)| (*of, *number) == (implementer, part));
    let cortex = || CORTEX.iter().find(|(number, _)| implementer == ARM && *number == part).map(|(_, name)| *name);
    known.map(|(_, _, name)| *name).or_else(cortex)
}

/// The processors of ARM itself.
const CORTEX: [(u32, &str); 46] = [
    (0xb76, "ARM1176"),
    (0xc05, "Cortex-A5"),
    (0xc07, "Cortex-A7"),
    (0xc08, "Cortex-A8"),
    (0xc09, "Cortex-A9"),
    (0xc0d, "Cortex-A17"),
    (0xc0e, "Cortex-A17"),
    (0xc0f, "Cortex-A15"),
    (0xd01, "Cortex-A32"),
    (0xd02, "Cortex-A34"),
    (0xd03, "Cortex-A53"),
    (0xd04, "Cortex-A35"),
    (0xd05, "Cortex-A55"),
    (0xd06, "Cortex-A65"),
    (0xd07, "Cortex-A57"),
    (0xd08, "Cortex-A72"),
    (0xd09, "Cortex-A73"),
    (0xd0a, "Cortex-A75"),
    (0xd0b, "Cortex-A76"),
    (0xd0c, "Neoverse-N1"),
    (0xd0d, "Cortex-A77"),
    (0xd0e, "Cortex-A76AE"),
    (0xd40, "Neoverse-V1"),
    (0xd41, "Cortex-A78"),
    (0xd42, "Cortex-A78AE"),
    (0xd43, "Cortex-A65AE"),
    (0xd44, "Cortex-X1"),
    (0xd46, "Cortex-A510"),
    (0xd47, "Cortex-A710"),
    (0xd48, "Cortex-X2"),
    (0xd49, "Neoverse-N2"),
    (0xd4a, "Neoverse-E1"),
    (0xd4b, "Cortex-A78C"),
    (0xd4c, "Cortex-X1C"),
    (0xd4d, "Cortex-A715"),
    (0xd4e, "Cortex-X3"),
    (0xd4f, "Neoverse-V2"),
    (0xd80, "Cortex-A520"),
    (0xd81, "Cortex-A720"),
    (0xd82, "Cortex-X4"),
    (0xd83, "Neoverse-V3AE"),
    (0xd84, "Neoverse-V3"),
    (0xd85, "Cortex-X925"),
    (0xd87, "Cortex-A725"),
    (0xd89, "Cortex-A720AE"),
    (0xd8e, "Neoverse-N3"),
];

/// The processors of other implementers.
const PARTS: [(u32, u32, &str); 22] = [
    (0x42, 0x516, "Broadcom ThunderX2"),
    (0x43, 0x0a1, "Cavium ThunderX"),
    (0x43, 0x0af, "Cavium ThunderX2"),
    (0x46, 0x001, "Fujitsu A64FX"),
    (0x48, 0xd01, "HiSilicon TSV110"),
    (0x48, 0xd40, "Cortex-A76 (HiSilicon)"),
    (0x4e, 0x003, "NVIDIA Denver 2"),
    (0x4e, 0x004, "NVIDIA Carmel"),
    (0x51, 0x06f, "Qualcomm Krait"),
    (0x51, 0x201, "Qualcomm Kryo"),
    (0x51, 0x205, "Qualcomm Kryo"),
    (0x51, 0x211, "Qualcomm Kryo"),
    (0x51, 0x800, "Qualcomm Kryo 2xx Gold"),
    (0x51, 0x801, "Qualcomm Kryo 2xx Silver"),
    (0x51, 0x802, "Qualcomm Kryo 3xx Gold"),
    (0x51, 0x803, "Qualcomm Kryo 3xx Silver"),
    (0x51, 0x804, "Qualcomm Kryo 4xx Gold"),
    (0x51, 0x805, "Qualcomm Kryo 4xx Silver"),
    (0x61, 0x022, "Apple M1 Icestorm"),
    (0x61, 0x023, "Apple M1 Firestorm"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1a"),
];

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

    use super::{Cpu, CpuList, CpuidLeaf, TscStatement, leaves};
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
        // The crystal's leaf may be a copy of the host's, from which the guest's TSC differs.
        for crystal in [(0x15, [2, 168, 25_000_000, 0]), (0x15, [1, 2, 24_000_000, 0]), (0x15, [2, 168, 0, 0])] {
            let stated = with(&[vmware, khz, crystal]).tsc_frequency().expect("stated");
            assert_eq!((stated.frequency.hertz(), stated.stated_by), (2_596_000_000, TscStatement::Hypervisor));
        }
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
        assert_eq!(cpu.name(), Some("Cortex-A53"));
        assert_eq!(cpu.board(), Some("Raspberry Pi 3 Model B"));
        assert!(cpu.has_flag("asimd") && cpu.lists_flags());
    }

    #[test]
    fn processors_that_cpuinfo_does_not_describe_are_not_claimed_to_be_of_the_same_kind() {
        let cpuinfo = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n";
        let name = |online| {
            let online = CpuList::parse(online).expect("a list");
            Cpu::parse(cpuinfo, None, &[]).described_for(cpuinfo, &online).name().map(str::to_owned)
        };
        assert_eq!((name("0-3").as_deref(), name("0").as_deref()), (Some("Cortex-A53"), Some("Cortex-A53")));
        assert_eq!(name("4-6,8").as_deref(), Some("Cortex-A53 + unnamed"));
    }

    #[test]
    fn processors_are_named_on_every_architecture() {
        for (cpuinfo, name) in [
            ("model name\t: Intel(R) N100\n\nmodel name\t: Intel(R) N100\n", Some("Intel(R) N100")),
            (
                "cpu\t\t: POWER10, altivec supported\nrevision\t: 2.0 (pvr 0080 0200)\n",
                Some("POWER10, altivec supported"),
            ),
            ("cpu\t\t: Niagara4\ntype\t\t: sun4v\n", Some("Niagara4")),
            (
                "vendor_id       : IBM/S390\nprocessor 0: version = FF,  identification = 012345,  machine = 8561\n",
                Some("IBM machine 8561"),
            ),
            ("processor\t: 0\nuarch\t\t: thead,c910\nmvendorid\t: 0x5b7\n", Some("thead,c910")),
            ("processor\t: 0\nmvendorid\t: 0x489\nmarchid\t\t: 0x7\n", Some("RISC-V vendor 0x489 architecture 0x7")),
            ("system type\t: generic\n\nprocessor\t: 0\nModel Name\t: Loongson-3C6000\n", Some("Loongson-3C6000")),
            ("system type\t: MT7621\nprocessor\t: 0\ncpu model\t: MIPS 1004Kc V2.15\n", Some("MIPS 1004Kc V2.15")),
            (
                "model name\t: ARMv7 Processor rev 5 (v7l)\nCPU implementer\t: 0x41\nCPU part\t: 0xc07\n",
                Some("Cortex-A7"),
            ),
            ("model name\t: Ampere-X\nCPU implementer\t: 0xc0\nCPU part\t: 0xfff\n", Some("Ampere-X")),
            (
                "model name\t: ARMv8 Processor rev 1 (v8l)\nCPU implementer\t: 0xc0\nCPU part\t: 0xfff\n",
                Some("ARM implementer 0xc0 part 0xfff"),
            ),
            (
                "CPU implementer\t: 0x41\nCPU part\t: 0xd05\n\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n",
                Some("Cortex-A55 + Cortex-A76"),
            ),
            (
                "CPU implementer\t: 0x61\nCPU part\t: 0x022\n\nCPU implementer\t: 0x61\nCPU part\t: 0x023\n",
                Some("Apple M1 Icestorm + Apple M1 Firestorm"),
            ),
            ("processor\t: 0\nflags\t: fpu\n", None),
            ("", None),
        ] {
            assert_eq!(Cpu::parse(cpuinfo, None, &[]).name(), name, "{cpuinfo}");
        }
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
