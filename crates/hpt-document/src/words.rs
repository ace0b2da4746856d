//! The words that string fields of documents can contain, as defined by the library hpt-core. Words that only the
//! command uses are enums in the modules of their documents, defined with `word_enum`.

/// A word of documents: one of a fixed list.
pub trait Word: Copy + Send + Sync + 'static {
    /// All words.
    const WORDS: &'static [Self];

    /// Returns the word as documents contain it.
    fn word(self) -> &'static str;
}

/// Defines an enum whose variants are words of documents.
macro_rules! word_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// All variants, in their order.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant,)+];

            /// Returns the word that documents use for this variant.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl crate::words::Word for $name {
            const WORDS: &'static [Self] = &Self::ALL;

            fn word(self) -> &'static str {
                self.name()
            }
        }
    };
}
pub(crate) use word_enum;

/// The ways to read a time source.
pub const READ_PATHS: [&str; 7] = ["register", "mmio", "port", "vdso", "syscall", "kernel", "memory"];
/// The ways to read one of the kernel's clocks.
pub const CLOCK_READ_PATHS: [&str; 3] = ["vdso", "syscall", "kernel"];
/// The scopes of a time source: one counter for the whole system, or one for each core, process or thread.
pub const SCOPES: [&str; 4] = ["system", "core", "process", "thread"];
/// The kernel's possible verdicts on a source.
pub const KERNEL_VERDICTS: [&str; 3] = ["trusted", "distrusted", "unknown"];
/// The methods of determining a frequency.
pub const CALIBRATION_METHODS: [&str; 2] = ["stated", "bracketed"];
/// The methods of sleeping.
pub const SLEEP_METHODS: [&str; 5] = ["std", "nanosleep", "fixed", "busy", "hpt"];
/// The scheduling policies.
pub const SCHEDULING_POLICIES: [&str; 8] = ["other", "batch", "idle", "fifo", "rr", "deadline", "ext", "unknown"];
/// The settings of a thread or of the system that a run can request.
pub const SETTINGS: [&str; 9] =
    ["cpu", "throttling", "governor", "turbo", "wake-latency", "memory", "stack", "timer-slack", "policy"];
/// The directions of a GPIO line.
pub const GPIO_DIRECTIONS: [&str; 2] = ["input", "output"];
/// The faults of a watched source.
pub const SOURCE_FAULTS: [&str; 5] = ["stepped", "backward", "stopped", "frequency-error", "frequency-change"];
/// The likely causes of a CPU stall, which [`StallCauseRow`](crate::stall::StallCauseRow) explains.
pub const STALL_CAUSES: [&str; 12] = [
    "preempted",
    "quota",
    "stopped",
    "page-fault",
    "migrated",
    "steal",
    "firmware",
    "interrupts",
    "interrupts-uncompared",
    "usual-activity",
    "none",
    "unknown",
];
/// The parts of a report, each with the kind of its document.
pub const REPORT_PARTS: [(&str, &str); 11] = [
    ("doctor", "doctor"),
    ("probe", "probe"),
    ("bench", "bench"),
    ("timer", "latency-timer"),
    ("timer-hpt", "latency-timer"),
    ("poll", "latency-poll"),
    ("stall", "latency-stall"),
    ("sleep", "sleep"),
    ("sleep-curve", "sleep-curve"),
    ("watch", "watch-summary"),
    ("experiment", "experiment"),
];
