//! Determines whether a hypervisor runs the machine, and which one: from CPUID, the firmware's tables, the device tree,
//! the kernel's own statements, and the steal time. Emulators that do not identify themselves are not covered.

use super::{Host, cpu::UNNAMED};

/// Files in which the kernel or the firmware states the hypervisor. Linux: drivers/xen/sys-hypervisor.c;
/// arch/s390/kernel/sysinfo.c; Documentation/ABI/testing/sysfs-firmware-dmi-entries.
const TYPE: &str = "/sys/hypervisor/type";
const SYSINFO: &str = "/proc/sysinfo";
const BIOS_INFORMATION: &str = "/sys/firmware/dmi/entries/0-0/raw";
const DMI: &str = "/sys/class/dmi/id";
const TREE: &str = "/proc/device-tree";
const NAMED_BY_DMI: [&str; 4] = ["product_name", "sys_vendor", "board_vendor", "bios_vendor"];
const NAMED_BY_THE_TREE: [&str; 4] = ["hypervisor/compatible", "compatible", "hmc-managed?", "ibm,partition-name"];

/// The beginnings of the names that the firmware of virtual machines reports, and the hypervisors. systemd,
/// src/basic/virt.c, lists the same names.
const FIRMWARE: [(&str, &str); 19] = [
    ("KVM", "KVM"),
    ("Google Compute Engine", "KVM"),
    ("OpenStack", "OpenStack"),
    ("KubeVirt", "KVM"),
    ("RHEV", "KVM"),
    ("oVirt", "KVM"),
    ("QEMU", "QEMU"),
    ("VMware", "VMware"),
    ("VMW", "VMware"),
    ("innotek", "VirtualBox"),
    ("VirtualBox", "VirtualBox"),
    ("Xen", "Xen"),
    ("Bochs", "Bochs"),
    ("Parallels", "Parallels"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "Hyper-V"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("Alibaba Cloud", "Alibaba Cloud"),
    ("Nutanix AHV", "KVM"),
];

/// Clocksources that the kernel registers only under a hypervisor. Linux: arch/x86/kernel/kvmclock.c,
/// drivers/clocksource/hyperv_timer.c, arch/x86/xen/time.c.
const CLOCKSOURCES: [(&str, &str); 4] = [
    ("kvm-clock", "KVM"),
    ("hyperv_clocksource_tsc_page", "Hyper-V"),
    ("hyperv_clocksource_msr", "Hyper-V"),
    ("xen", "Xen"),
];

/// The signature of Hyper-V, with which KVM and Xen answer as well, for the sake of Windows.
const IMITATED: &str = "MicrosoftHv";
/// Lines of the kernel log that name the hypervisor. Linux: arch/x86/kernel/cpu/hypervisor.c,
/// arch/x86/kernel/paravirt.c.
const LOGGED: [&str; 2] = ["Hypervisor detected: ", "Booting paravirtualized kernel on "];

impl Host {
    /// Returns the hypervisor that runs the machine: its signature (CPUID leaf `0x4000_0000`) or its name;
    /// [`Cpu::hypervisor_name`](super::Cpu::hypervisor_name) returns the name for both. The result is `unnamed` if the
    /// machine shows only that there is one. Returns `None` if nothing shows a hypervisor.
    ///
    /// # References
    ///
    /// Linux: Documentation/virt/kvm/x86/cpuid.rst; arch/s390/kernel/sysinfo.c; arch/powerpc/kernel/proc_powerpc.c.
    /// SMBIOS 3.6, 7.1.2.2. systemd, src/basic/virt.c.
    #[must_use]
    pub fn hypervisor(&self) -> Option<String> {
        let signature = self.cpu().hypervisor().filter(|signature| signature != UNNAMED);
        let (imitated, own): (Option<String>, Option<String>) = match signature {
            Some(signature) if signature == IMITATED => (Some(signature), None),
            own => (None, own),
        };
        own.or_else(|| self.hypervisor_by_kernel())
            .or_else(|| self.hypervisor_by_tree())
            .or_else(|| self.hypervisor_by_firmware())
            .or_else(|| self.hypervisor_by_log())
            .or(imitated)
            .or_else(|| self.runs_under_an_unnamed_hypervisor().then(|| UNNAMED.to_owned()))
    }

    /// Returns the hypervisor that the kernel states: by the type of hypervisor, the system information of s390, or a
    /// clocksource that only a hypervisor provides.
    fn hypervisor_by_kernel(&self) -> Option<String> {
        let by_type = self.text(TYPE).map(|kind| if kind == "xen" { "Xen".to_owned() } else { kind });
        let clocksources = self.clock_sources();
        let offered: Vec<String> = clocksources.available.into_iter().flatten().chain(clocksources.current).collect();
        let by_clocksource = || {
            let known = CLOCKSOURCES.iter().find(|(clocksource, _)| offered.iter().any(|name| name == clocksource));
            known.map(|(_, name)| (*name).to_owned())
        };
        by_type.or_else(|| self.text(SYSINFO).as_deref().and_then(by_sysinfo)).or_else(by_clocksource)
    }

    fn hypervisor_by_tree(&self) -> Option<String> {
        let names = |file: &str| self.text(&format!("{TREE}/{file}")).unwrap_or_default();
        let is_there = |file: &str| self.is_there(&format!("{TREE}/{file}"));
        let (stated, compatible) = (names("hypervisor/compatible"), names("compatible"));
        let stated = stated.split('\0').find(|name| !name.is_empty()).map(|name| match name {
            "linux,kvm" => "KVM".to_owned(),
            name if name.starts_with("xen,") => "Xen".to_owned(),
            name => name.to_owned(),
        });
        // The boards that QEMU invented: hw/arm/virt.c, hw/riscv/virt.c, hw/ppc/spapr.c.
        let of_qemu = ["linux,dummy-virt", "riscv-virtio", "qemu,pseries"];
        let by_board = || compatible.split('\0').any(|name| of_qemu.contains(&name)).then(|| "QEMU".to_owned());
        let is_a_partition = || is_there("hmc-managed?") && is_there("ibm,partition-name");
        stated.or_else(by_board).or_else(|| is_a_partition().then(|| "PowerVM (pHyp)".to_owned()))
    }

    /// Returns the hypervisor that the tables of the firmware name. A name that real hardware reports as well counts
    /// only with the product of a virtual machine.
    fn hypervisor_by_firmware(&self) -> Option<String> {
        let field = |name: &str| self.text(&format!("{DMI}/{name}")).unwrap_or_default();
        let fields = NAMED_BY_DMI.map(field);
        let [product, vendor, ..] = &fields;
        let known = || FIRMWARE.iter().find(|(beginning, _)| fields.iter().any(|field| field.starts_with(beginning)));
        let cpuid_denies = !self.facts().cpuid.is_empty() && self.cpu().hypervisor().is_none();
        match (vendor.as_str(), product.as_str()) {
            ("Microsoft Corporation", "Virtual Machine") => Some("Hyper-V".to_owned()),
            // An instance without a hypervisor is called, for example, m7g.metal.
            ("Amazon EC2", product) if product.contains(".metal") || cpuid_denies => None,
            ("Amazon EC2", _) => Some("Amazon EC2".to_owned()),
            ("Google", _) | (_, "Google Compute Engine") if cpuid_denies => None,
            _ => known().map(|(_, name)| (*name).to_owned()).or_else(|| {
                let bios = self.read(BIOS_INFORMATION).ok()?;
                let named = if vendor.is_empty() { UNNAMED } else { vendor };
                describes_a_virtual_machine(&bios).then(|| named.to_owned())
            }),
        }
    }

    fn hypervisor_by_log(&self) -> Option<String> {
        let log = self.kernel_log().ok()?;
        let named =
            log.lines.iter().find_map(|line| LOGGED.iter().find_map(|before| line.text.strip_prefix(before)))?;
        (named != "bare hardware").then(|| named.to_owned())
    }

    /// Returns whether the machine shows a hypervisor without a name: CPUID reports one, or CPU time was stolen.
    fn runs_under_an_unnamed_hypervisor(&self) -> bool {
        let cpu = self.cpu();
        // The kernel sets the flag from CPUID, which therefore takes precedence.
        let by_flag = || cpu.leaf(1).is_none() && self.facts().architecture.is_x86() && cpu.has_flag("hypervisor");
        cpu.hypervisor().is_some() || by_flag() || self.stolen().is().is_some_and(|stolen| stolen.stolen > 0)
    }

    /// Returns the paths of the files that this module reads.
    pub(super) fn hypervisor_files(&self) -> Vec<String> {
        let of_dmi = NAMED_BY_DMI.map(|name| format!("{DMI}/{name}"));
        let of_tree = NAMED_BY_THE_TREE.map(|name| format!("{TREE}/{name}"));
        [TYPE, SYSINFO, BIOS_INFORMATION].map(str::to_owned).into_iter().chain(of_dmi).chain(of_tree).collect()
    }
}

/// Returns the part of a file that may leave the machine; `None` if this function does not filter the file. The names
/// of guests and partitions are omitted.
pub(super) fn without_names(path: &str, content: &str) -> Option<String> {
    if path == SYSINFO {
        let is_kept = |line: &&str| {
            let (key, _) = line.split_once(':').unwrap_or((line, ""));
            let is_of_a_guest = key.starts_with("VM") && key.ends_with("Control Program");
            ["Manufacturer", "Type", "LPAR Number"].contains(&key) || is_of_a_guest
        };
        return Some(content.lines().filter(is_kept).map(|line| format!("{line}\n")).collect());
    }
    (path == format!("{TREE}/ibm,partition-name")).then(String::new)
}

/// Returns the hypervisor of a machine with the system information of s390. The innermost hypervisor is `VM00`; without
/// one, the machine is a logical partition.
fn by_sysinfo(sysinfo: &str) -> Option<String> {
    let value = |wanted: &str| {
        let line = sysinfo.lines().find(|line| line.split_once(':').is_some_and(|(key, _)| key.trim() == wanted));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    };
    let program = value("VM00 Control Program").map(|program| match program {
        program if program.starts_with("KVM") => "KVM".to_owned(),
        program if program.starts_with("z/VM") => "z/VM".to_owned(),
        program => program.to_owned(),
    });
    program.or_else(|| value("LPAR Number").map(|_| "PR/SM".to_owned()))
}

/// Returns whether an SMBIOS structure of type 0 describes a virtual machine: bit 4 of the second extension byte.
fn describes_a_virtual_machine(structure: &[u8]) -> bool {
    const LENGTH: usize = 1;
    const SECOND_EXTENSION: usize = 0x13;
    let length = structure.get(LENGTH).copied().map_or(0, usize::from);
    structure.first() == Some(&0)
        && length > SECOND_EXTENSION
        && structure.get(SECOND_EXTENSION).is_some_and(|byte| byte & 1 << 4 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::{
        collection::vec,
        prelude::{any, proptest},
    };

    use super::{by_sysinfo, describes_a_virtual_machine, without_names};
    use crate::host::{Architecture, CpuidLeaf, Facts, Host};

    type Files<'a> = &'a [(&'a str, &'a [u8])];

    fn of(cpuid: Vec<CpuidLeaf>, files: Files<'_>) -> Option<String> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("ours");
            fs::write(path, content).expect("ours");
        }
        let architecture = if cpuid.is_empty() { Architecture::Aarch64 } else { Architecture::X86_64 };
        Host::below(folder.path(), Facts { architecture, cpuid, ..Facts::live() }).hypervisor()
    }

    fn leaf(leaf: u32, registers: [u32; 4]) -> CpuidLeaf {
        CpuidLeaf { leaf, subleaf: 0, registers }
    }

    const PRODUCT: &str = "sys/class/dmi/id/product_name";
    const VENDOR: &str = "sys/class/dmi/id/sys_vendor";

    #[test]
    fn each_statement_of_a_hypervisor_is_found() {
        let clocks = "sys/devices/system/clocksource/clocksource0/available_clocksource";
        let virtual_bios = [&[0, 0x18][..], &[0; 17], &[0x10], &[0; 4]].concat();
        let real_bios = [&[0, 0x18][..], &[0; 17], &[0x0c], &[0; 4]].concat();
        let cases: [(Files<'_>, Option<&str>); 29] = [
            (&[], None),
            (&[("sys/hypervisor/type", b"xen\n")], Some("Xen")),
            (&[(clocks, b"hyperv_clocksource_tsc_page acpi_pm \n")], Some("Hyper-V")),
            (&[(clocks, b"xen tsc hpet \n")], Some("Xen")),
            (&[(clocks, b"arch_sys_counter \n")], None),
            (
                &[("proc/sysinfo", b"Manufacturer: IBM\nLPAR Number: 1\nVM00 Control Program: z/VM    7.3.0\n")],
                Some("z/VM"),
            ),
            (
                &[("proc/sysinfo", b"LPAR Number: 1\nVM00 Control Program: KVM/Linux\nVM01 Control Program: z/VM 7\n")],
                Some("KVM"),
            ),
            (&[("proc/sysinfo", b"Manufacturer: IBM\nLPAR Number: 12\n")], Some("PR/SM")),
            (&[("proc/sysinfo", b"Manufacturer: IBM\n")], None),
            (&[("proc/device-tree/hypervisor/compatible", b"linux,kvm\0")], Some("KVM")),
            (&[("proc/device-tree/hypervisor/compatible", b"xen,xen-4.17\0xen,xen\0")], Some("Xen")),
            (&[("proc/device-tree/compatible", b"riscv-virtio\0")], Some("QEMU")),
            (&[("proc/device-tree/compatible", b"starfive,visionfive-2\0starfive,jh7110\0")], None),
            (
                &[("proc/device-tree/hmc-managed?", b"\0\0\0\x01"), ("proc/device-tree/ibm,partition-name", b"")],
                Some("PowerVM (pHyp)"),
            ),
            (&[("proc/device-tree/ibm,partition-name", b"x\0")], None),
            (&[(VENDOR, b"Microsoft Corporation\n"), (PRODUCT, b"Virtual Machine\n")], Some("Hyper-V")),
            (&[(VENDOR, b"Microsoft Corporation\n"), (PRODUCT, b"Surface Pro 9\n")], None),
            (&[(VENDOR, b"Amazon EC2\n"), (PRODUCT, b"m7g.large\n")], Some("Amazon EC2")),
            (&[(VENDOR, b"Amazon EC2\n"), (PRODUCT, b"m7g.metal\n")], None),
            (&[(VENDOR, b"Amazon EC2\n"), (PRODUCT, b"c7gd.metal-48xl\n")], None),
            (&[(VENDOR, b"Google\n"), (PRODUCT, b"Google Compute Engine\n")], Some("KVM")),
            (&[(VENDOR, b"Google\n"), (PRODUCT, b"Kevin\n")], None),
            (&[(VENDOR, b"Oracle Corporation\n"), (PRODUCT, b"VirtualBox\n")], Some("VirtualBox")),
            (
                &[(VENDOR, b"Apple Inc.\n"), (PRODUCT, b"Apple Virtualization Generic Platform\n")],
                Some("Apple Virtualization"),
            ),
            (&[(VENDOR, b"Hetzner\n"), ("sys/firmware/dmi/entries/0-0/raw", &virtual_bios)], Some("Hetzner")),
            (&[(VENDOR, b"Dell Inc.\n"), ("sys/firmware/dmi/entries/0-0/raw", &real_bios)], None),
            (&[("dev/kmsg", b"6,1,2,-;Booting paravirtualized kernel on bare hardware\n")], None),
            (&[("dev/kmsg", b"6,1,2,-;Hypervisor detected: Microsoft Hyper-V\n")], Some("Microsoft Hyper-V")),
            (&[("proc/stat", b"cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")], Some("unnamed")),
        ];
        for (files, expected) in cases {
            assert_eq!(of(Vec::new(), files).as_deref(), expected, "{files:?}");
        }
    }

    #[test]
    fn a_processor_that_denies_a_hypervisor_is_not_overruled_by_a_vendor_of_both() {
        let metal = || vec![leaf(0, [22, 0, 0, 0]), leaf(1, [0; 4])];
        assert_eq!(of(metal(), &[(VENDOR, b"Amazon EC2\n"), (PRODUCT, b"i3.metal\n")]), None);
        assert_eq!(of(metal(), &[(VENDOR, b"Google\n"), (PRODUCT, b"Google Compute Engine\n")]), None);
        assert_eq!(of(metal(), &[(VENDOR, b"QEMU\n")]).as_deref(), Some("QEMU"), "it hides from CPUID");
        let virtual_one =
            vec![leaf(1, [0, 0, 1 << 31, 0]), leaf(0x4000_0000, [0x4000_0001, 0x4b4d_564b, 0x564b_4d56, 0x4d])];
        assert_eq!(of(virtual_one, &[(VENDOR, b"Amazon EC2\n")]).as_deref(), Some("KVMKVMKVM"));
        let silent = || vec![leaf(1, [0, 0, 1 << 31, 0]), leaf(0x4000_0000, [0; 4])];
        assert_eq!(of(silent(), &[]).as_deref(), Some("unnamed"));
        assert_eq!(of(silent(), &[(PRODUCT, b"BHYVE\n")]).as_deref(), Some("bhyve"));
    }

    #[test]
    fn a_capture_names_no_guest() {
        let text = "Manufacturer: IBM\nSequence Code: 00000000000A1B2C\nLPAR Number: 7\nLPAR Name: BANK1\nVM00 Name: ALICE\nVM00 Control Program: z/VM 7\n";
        let kept = without_names("/proc/sysinfo", text).expect("filtered");
        assert_eq!(kept, "Manufacturer: IBM\nLPAR Number: 7\nVM00 Control Program: z/VM 7\n");
        assert_eq!(by_sysinfo(&kept), by_sysinfo(text));
        assert_eq!(without_names("/proc/device-tree/ibm,partition-name", "bank\0").as_deref(), Some(""));
        assert_eq!(without_names("/proc/stat", text), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(structure in vec(any::<u8>(), 0..64), text in any::<String>()) {
            let _ = (describes_a_virtual_machine(&structure), by_sysinfo(&text), without_names("/proc/sysinfo", &text));
        }
    }
}
