//! The counters of ARM systems on a chip that have no generic timer: one table of names, registers and properties, and
//! where the device tree has them. Nothing is read from the registers here.
//!
//! To add a counter, add a row to [`SOC_COUNTERS`] and to the tables in docs/platform.md and docs/safety.md.

use super::{Architecture, DeviceNode, Host, device_tree::is_compatible};

/// A kind of counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocCounter {
    /// The name of the source.
    pub id: &'static str,
    /// A short description.
    pub description: &'static str,
    /// The `compatible` names of its nodes.
    pub compatible: &'static [&'static str],
    /// Where the counter is. The first layout whose words have the required values applies.
    pub layouts: &'static [Layout],
    /// The frequency in hertz, if the hardware defines it. Otherwise the device tree may state it.
    pub defined_hz: Option<u32>,
    /// The kernel's name for the counter as a clocksource.
    pub clock_source: &'static str,
    /// Whether the counter is known to count while the machine is suspended.
    pub counts_in_suspend: Option<bool>,
    /// The other registers in the same page, if a read of them has an effect or may have one. Then only root may map it.
    pub other_registers: Option<&'static str>,
    /// The cause that can stop the counter, change its rate, or make a read fail.
    pub gate: Gate,
}

/// The conditions under which a counter can be read and has a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The clock is on and constant as long as the kernel runs.
    None,
    /// The rate follows the frequency of the processor.
    FollowsCpu,
    /// The kernel can turn the clock of the registers off unless it uses the counter itself. A read then raises SIGBUS.
    PowerManaged,
}

/// The registers of a counter, as offsets in bytes from the first register of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The conditions under which this layout applies.
    pub when: &'static [Word],
    /// The words of the count.
    pub words: Words,
}

/// The words of the count, and its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// 32 bits that count up.
    Up(usize),
    /// 32 bits that count down.
    Down(usize),
    /// 64 bits that count up, in two words without a latch.
    Split {
        /// The lower 32 bits.
        low: usize,
        /// The higher 32 bits.
        high: usize,
    },
}

/// A register that tells where the counter is, or that it counts through all of its bits. Reading it has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its offset.
    pub offset: usize,
    /// The bits that count.
    pub mask: u32,
    /// The value of these bits.
    pub value: u32,
    /// Whether the bits must have that value, or must not.
    pub equal: bool,
}

const fn is(offset: usize, mask: u32, value: u32) -> Word {
    Word { offset, mask, value, equal: true }
}

const fn is_not(offset: usize, mask: u32, value: u32) -> Word {
    Word { offset, mask, value, equal: false }
}

/// All kinds. The names and the registers are those of the drivers in Linux 6.1, drivers/clocksource.
pub const SOC_COUNTERS: &[SocCounter] = &[
    // arm_global_timer.c; Cortex-A9 MPCore TRM (DDI 0407), 4.3 and 1.5. The page begins with the registers of the snoop
    // control unit; the CPU interface of the interrupt controller is at 0x100, this counter at 0x200.
    SocCounter {
        id: "a9-global-timer",
        description: "global timer of a Cortex-A9 or A5",
        compatible: &["arm,cortex-a9-global-timer", "arm,cortex-a5-global-timer"],
        layouts: &[Layout { when: &[], words: Words::Split { low: 0x00, high: 0x04 } }],
        defined_hz: None,
        clock_source: "arm_global_timer",
        counts_in_suspend: None,
        other_registers: Some("the interrupt controller, of which a read takes an interrupt"),
        gate: Gate::FollowsCpu,
    },
    // timer-imx-gpt.c, `V2_TCN`; FRR in the control register: the counter does not restart at a compare value.
    SocCounter {
        id: "imx-gpt",
        description: "general-purpose timer of an i.MX",
        compatible: &[
            "fsl,imx31-gpt",
            "fsl,imx25-gpt",
            "fsl,imx50-gpt",
            "fsl,imx51-gpt",
            "fsl,imx53-gpt",
            "fsl,imx6q-gpt",
            "fsl,imx6dl-gpt",
            "fsl,imx6sl-gpt",
            "fsl,imx6sx-gpt",
        ],
        layouts: &[Layout { when: &[is(0x00, 1 << 9, 1 << 9)], words: Words::Up(0x24) }],
        defined_hz: None,
        clock_source: "mxc_timer1",
        counts_in_suspend: None,
        other_registers: None,
        gate: Gate::None,
    },
    // timer-sun4i.c: timer 1, `TIMER_INTVAL_REG(1)` and `TIMER_CNTVAL_REG(1)`. Timer 0 makes the kernel's ticks. The page
    // of an A10 begins with its clocks; the interrupt controller is at 0x400, the pins at 0x800, the timers at 0xc00.
    SocCounter {
        id: "sun4i-timer",
        description: "timer 1 of an Allwinner A10 and relatives",
        compatible: &[
            "allwinner,sun4i-a10-timer",
            "allwinner,sun8i-a23-timer",
            "allwinner,sun8i-v3s-timer",
            "allwinner,suniv-f1c100s-timer",
        ],
        layouts: &[Layout { when: &[is(0x24, u32::MAX, u32::MAX)], words: Words::Down(0x28) }],
        defined_hz: None,
        clock_source: "timer",
        counts_in_suspend: None,
        other_registers: Some("the interrupt controller, whose manual does not say what a read does"),
        gate: Gate::None,
    },
    // timer-ti-32k.c: the scheme bits of the revision. The kernel's flag CLOCK_SOURCE_SUSPEND_NONSTOP.
    SocCounter {
        id: "omap-32k",
        description: "32 768 Hz counter of a TI OMAP",
        compatible: &["ti,omap-counter32k"],
        layouts: &[
            Layout { when: &[is(0x00, 3 << 30, 0)], words: Words::Up(0x10) },
            Layout { when: &[is_not(0x00, 3 << 30, 0)], words: Words::Up(0x30) },
        ],
        defined_hz: Some(32_768),
        clock_source: "32k_counter",
        counts_in_suspend: Some(true),
        other_registers: None,
        gate: Gate::None,
    },
    // timer-ti-dm-systimer.c, `dmtimer_systimer_revision1`, and include/clocksource/timer-ti-dm.h. The register before
    // the count is the value from which it starts again; zero if it counts through all bits.
    SocCounter {
        id: "dmtimer",
        description: "dual-mode timer of a TI OMAP or AM3x",
        compatible: &[
            "ti,omap2420-timer",
            "ti,omap3430-timer",
            "ti,omap4430-timer",
            "ti,omap5430-timer",
            "ti,am335x-timer",
            "ti,am335x-timer-1ms",
            "ti,dm814-timer",
            "ti,dm816-timer",
        ],
        layouts: &[
            Layout { when: &[is(0x00, 0xffff_0000, 0), is(0x2c, u32::MAX, 0)], words: Words::Up(0x28) },
            Layout { when: &[is_not(0x00, 0xffff_0000, 0), is(0x40, u32::MAX, 0)], words: Words::Up(0x3c) },
        ],
        defined_hz: None,
        clock_source: "dmtimer",
        counts_in_suspend: None,
        other_registers: None,
        gate: Gate::PowerManaged,
    },
    // timer-sp804.c: timer 2, or timer 1 if the kernel takes its ticks from timer 2. A timer whose load register is not
    // at its highest value makes ticks.
    SocCounter {
        id: "sp804",
        description: "SP804 dual timer",
        compatible: &["arm,sp804"],
        layouts: &[
            Layout { when: &[is(0x20, u32::MAX, u32::MAX)], words: Words::Down(0x24) },
            Layout { when: &[is(0x00, u32::MAX, u32::MAX)], words: Words::Down(0x04) },
        ],
        defined_hz: None,
        clock_source: "arm,sp804",
        counts_in_suspend: None,
        other_registers: None,
        gate: Gate::None,
    },
];

impl Words {
    /// Returns the offset of the last word.
    const fn last(self) -> usize {
        match self {
            Self::Up(offset) | Self::Down(offset) => offset,
            Self::Split { low, high } => {
                if low > high {
                    low
                } else {
                    high
                }
            }
        }
    }
}

impl Layout {
    /// Returns the number of bytes from the first register of the node to the last word that is read.
    #[must_use]
    pub fn length(&self) -> usize {
        self.when.iter().map(|word| word.offset).fold(self.words.last(), usize::max) + 4
    }
}

impl SocCounter {
    /// Returns the kind with this name.
    #[must_use]
    pub fn named(id: &str) -> Option<&'static Self> {
        SOC_COUNTERS.iter().find(|kind| kind.id == id)
    }
}

/// A counter that the device tree describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocCounterNode {
    /// Its kind.
    pub kind: &'static SocCounter,
    /// Its node.
    pub node: DeviceNode,
    /// The frequency in hertz that the device tree states.
    pub stated_hz: Option<u32>,
}

impl Host {
    /// Returns the counters of a 32-bit ARM system that the device tree describes and does not disable.
    #[must_use]
    pub fn soc_counters(&self) -> Vec<SocCounterNode> {
        if self.facts().architecture != Architecture::Arm {
            return Vec::new();
        }
        let kind_of = |names: &[u8]| {
            SOC_COUNTERS.iter().find(|kind| kind.compatible.iter().any(|wanted| is_compatible(names, wanted)))
        };
        let with_rate = |(kind, node): (_, DeviceNode)| {
            let stated_hz = node.clock_frequency_hz.or_else(|| self.fixed_clock_hz(&node));
            SocCounterNode { kind, node, stated_hz }
        };
        self.device_nodes(kind_of).into_iter().map(with_rate).collect()
    }

    /// Returns the paths of the files that describe these counters.
    #[cfg(feature = "tuning")]
    pub(in crate::linux::host) fn soc_counter_files(&self) -> Vec<String> {
        let of_one = |counter: SocCounterNode| {
            let of_window = counter.node.registers.map_or_else(Vec::new, |region| self.uio_files(region));
            self.files_of_node(&counter.node.path).into_iter().chain(of_window)
        };
        self.soc_counters().into_iter().flat_map(of_one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{SOC_COUNTERS, SocCounterNode, Words};
    use crate::host::{Architecture, Capture, Entry, Facts, Host, Region};

    /// A machine with these files in its device tree.
    fn machine_of(architecture: Architecture, files: &[(&str, &[u8])]) -> Host {
        let mut capture = Capture::new();
        for (path, content) in files {
            let path = format!("proc/device-tree/{path}");
            capture.insert(&path, Entry::File(content.to_vec())).expect("a sound path");
        }
        Host::captured(capture, Facts { architecture, ..Facts::live() })
    }

    fn machine(files: &[(&str, &[u8])]) -> Host {
        machine_of(Architecture::Arm, files)
    }

    const TREE: [(&str, &[u8]); 9] = [
        ("#address-cells", &[0, 0, 0, 1]),
        ("#size-cells", &[0, 0, 0, 1]),
        ("clocks/osc/compatible", b"fixed-clock\0"),
        ("clocks/osc/phandle", &[0, 0, 0, 7]),
        ("clocks/osc/clock-frequency", &[0x01, 0x6e, 0x36, 0]),
        ("timer@1c20c00/compatible", b"allwinner,sun4i-a10-timer\0"),
        ("timer@1c20c00/reg", &[0x01, 0xc2, 0x0c, 0, 0, 0, 0, 0x90]),
        ("timer@1c20c00/clocks", &[0, 0, 0, 7, 0, 0, 0, 9]),
        ("timer@1c20c00/clock-names", b"any\0"),
    ];

    #[test]
    fn a_counter_is_found_with_its_registers_and_its_fixed_clock() {
        let found = machine(&TREE).soc_counters();
        let [SocCounterNode { kind, node, stated_hz }] = &found[..] else { panic!("{found:?}") };
        assert_eq!((kind.id, *stated_hz), ("sun4i-timer", Some(24_000_000)));
        assert_eq!(node.registers, Some(Region { address: 0x01c2_0c00, length: 0x90 }));
    }

    #[test]
    fn a_disabled_node_and_another_architecture_have_no_counter() {
        let with_status = |status: &'static [u8]| {
            let files: Vec<_> = TREE.into_iter().chain([("timer@1c20c00/status", status)]).collect();
            machine(&files).soc_counters().len()
        };
        assert_eq!((with_status(b"okay\0"), with_status(b"disabled\0"), with_status(b"")), (1, 0, 0));
        assert_eq!(machine_of(Architecture::Aarch64, &TREE).soc_counters(), []);
    }

    #[test]
    fn the_rate_of_any_other_clock_is_unknown() {
        let without = |path: &str| {
            let files: Vec<_> = TREE.into_iter().filter(|(name, _)| *name != path).collect();
            machine(&files).soc_counters()[0].stated_hz
        };
        for path in
            ["clocks/osc/compatible", "clocks/osc/phandle", "clocks/osc/clock-frequency", "timer@1c20c00/clocks"]
        {
            assert_eq!(without(path), None, "{path}");
        }
    }

    #[test]
    fn every_word_of_the_table_is_a_register_and_every_name_is_unique() {
        let mut names: Vec<_> = SOC_COUNTERS.iter().flat_map(|kind| kind.compatible).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for layout in SOC_COUNTERS.iter().flat_map(|kind| kind.layouts) {
            let words = match layout.words {
                Words::Up(word) | Words::Down(word) => vec![word],
                Words::Split { low, high } => vec![low, high],
            };
            assert!(words.into_iter().chain(layout.when.iter().map(|word| word.offset)).all(|word| word % 4 == 0));
            assert!(layout.length() <= 0x44);
        }
    }
}
