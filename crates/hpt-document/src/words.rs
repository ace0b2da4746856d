//! The words that string fields of documents may contain, if the library hpt-core defines these words. Words that only
//! the command uses are enums in the modules of their documents, defined with `word_enum`.

/// Defines an enum whose variants are words of documents.
macro_rules! word_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Returns the word that documents use for this variant.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}
pub(crate) use word_enum;

/// How a time source is read.
pub const READ_PATHS: [&str; 7] = ["register", "mmio", "port", "vdso", "syscall", "kernel", "memory"];
/// How one of the kernel's clocks is read.
pub const CLOCK_READ_PATHS: [&str; 3] = ["vdso", "syscall", "kernel"];
/// The scope of a time source's count.
pub const SCOPES: [&str; 4] = ["system", "core", "process", "thread"];
/// Whether the kernel trusts a source.
pub const KERNEL_VERDICTS: [&str; 3] = ["trusted", "distrusted", "unknown"];
/// How a frequency was determined.
pub const CALIBRATION_METHODS: [&str; 2] = ["stated", "bracketed"];
/// Ways to sleep.
pub const SLEEP_METHODS: [&str; 5] = ["std", "nanosleep", "fixed", "busy", "hpt"];
/// Scheduling policies.
pub const SCHEDULING_POLICIES: [&str; 8] = ["other", "batch", "idle", "fifo", "rr", "deadline", "ext", "unknown"];
/// Settings of a thread or of the system that a run may request.
pub const SETTINGS: [&str; 9] =
    ["cpu", "throttling", "governor", "turbo", "wake-latency", "memory", "stack", "timer-slack", "policy"];
/// Directions of a GPIO line.
pub const GPIO_DIRECTIONS: [&str; 2] = ["input", "output"];
/// Faults of a watched source.
pub const SOURCE_FAULTS: [&str; 5] = ["stepped", "backward", "stopped", "frequency-error", "frequency-change"];
/// The likely causes of a CPU stall; [`StallCauseRow`](crate::stall::StallCauseRow) explains them.
pub const STALL_CAUSES: [&str; 10] = [
    "preempted",
    "stopped",
    "page-fault",
    "migrated",
    "steal",
    "firmware",
    "interrupts",
    "usual-activity",
    "none",
    "unknown",
];
/// The parts of a report, each with the kind of its document.
pub const REPORT_PARTS: [(&str, &str); 10] = [
    ("doctor", "doctor"),
    ("probe", "probe"),
    ("bench", "bench"),
    ("timer", "latency-timer"),
    ("timer-hpt", "latency-timer"),
    ("poll", "latency-poll"),
    ("stall", "latency-stall"),
    ("sleep", "sleep"),
    ("watch", "watch-summary"),
    ("experiment", "experiment"),
];
