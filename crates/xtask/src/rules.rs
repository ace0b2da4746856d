//! The rules about modules, as data. The layers are defined only here.
//! Does not check the rules: `layers`, `cycles` and `unsafe_code` do.

/// The rules of one package.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The package.
    pub package: &'static str,
    /// The modules directly below the root of the library, or of the program if the package has no
    /// library. The lowest layer comes first. A module may name only modules of lower layers. Empty
    /// if a package has no declared layers.
    pub layers: &'static [&'static [&'static str]],
    /// The module with test doubles. It may name every module. Only test code may name it, in every
    /// crate.
    pub test_support: Option<&'static str>,
    /// Modules whose children each implement a trait, and that trait. These children must not name
    /// each other.
    pub implementations: &'static [(&'static str, &'static str)],
    /// Modules whose children must not name each other, nor functions of their parent.
    pub separate_children: &'static [&'static str],
    /// Modules that turn data into output.
    pub output: &'static [Output],
    /// Modules whose own file and whose children's files import each other. See
    /// [`cycles`](crate::cycles).
    pub circular_parents: &'static [&'static str],
    /// Whether import cycles between its files are allowed.
    pub cycles_are_allowed: bool,
}

/// A module that turns data into output. Except in its tests, it may name only data types of the
/// library and a few modules.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The module.
    pub module: &'static str,
    /// The other modules of its own package that it may name.
    pub may_name: &'static [&'static str],
}

/// The library of which output modules may name only data types.
pub const LIBRARY: &str = "hpt_core";
/// Types of [`LIBRARY`] that are not data, because they give access to a counter or a machine.
pub const NOT_DATA: &[&str] = &[
    "Backend",
    "Clock",
    "Host",
    "Instruments",
    "Opened",
    "Pinned",
    "PosixClock",
    "Stopwatch",
    "Store",
    "ThreadCpuClock",
    "TimeSource",
    "Tsc",
];

/// The places where unsafe code is allowed. Directories end in a slash.
pub const UNSAFE_PLACES: &[&str] = &[
    "crates/hpt-core/src/sys/",
    "crates/hpt-core/tests/it/support/unsafe_calls.rs",
    "crates/hpt-cli/tests/it/support/unsafe_calls.rs",
    "crates/hpt-preload/",
    "benches/src/bare.rs",
    "benches/src/bare/",
];

/// Files that must contain `#![forbid(unsafe_code)]`. Directories end in a slash.
pub const UNSAFE_FORBIDDEN: &[&str] = &[
    "crates/hpt-cli/src/main.rs",
    "crates/hpt-async/examples/",
    "crates/hpt-async/src/lib.rs",
    "crates/hpt-criterion/benches/",
    "crates/hpt-criterion/src/lib.rs",
    "crates/hpt-tracing/examples/",
    "crates/hpt-tracing/src/lib.rs",
    "crates/xtask/src/main.rs",
    "examples/",
];

/// The rules of a package without specific rules.
pub const NONE: Rules = Rules {
    package: "",
    layers: &[],
    test_support: None,
    implementations: &[],
    separate_children: &[],
    output: &[],
    circular_parents: &[],
    cycles_are_allowed: false,
};

/// The rules of every package that has rules in addition to the general ones.
pub const RULES: &[Rules] = &[
    Rules {
        package: "hpt-core",
        layers: &[
            &["cast", "settings"],
            &["os_error", "stats", "sys", "units"],
            &["host", "scale", "slack"],
            &["gpio", "source", "state"],
            &["calibrate", "knobs"],
            &["clock", "realtime", "stopwatch"],
            &["sleep"],
            &["pace", "trace"],
            &["measure"],
            &["diagnose"],
        ],
        test_support: Some("testing"),
        implementations: &[("source", "Backend")],
        // Host contains the files of a captured machine, and its children read them from a Host.
        circular_parents: &["host"],
        ..NONE
    },
    Rules {
        package: "hpt-document",
        layers: &[
            &["words"],
            &["constraints", "explain", "head", "not_run", "read_cost", "warm_up"],
            &["conditions"],
            &["cpu_absence", "gpio_line", "limit", "thread"],
            &["latency", "load"],
            &[
                "bench",
                "calibrate",
                "capture",
                "check",
                "clocksource",
                "clocksource_cost",
                "doctor",
                "edges",
                "experiment",
                "gpio_latency",
                "pairs",
                "probe",
                "read",
                "report",
                "restore",
                "sleep",
                "stall",
                "wake_latency",
                "watch",
            ],
            &["doctor_try", "compare", "sleep_curve"],
            &["document", "schema"],
        ],
        ..NONE
    },
    Rules {
        package: "hpt-async",
        layers: &[&["finish", "timerfd"], &["margin"], &["timers"], &["alarm"], &["sleeper"], &["delay", "interval"]],
        ..NONE
    },
    Rules {
        package: "hpt-criterion",
        layers: &[&["format", "laps"], &["time"], &["counting"], &["cycles", "instructions"]],
        ..NONE
    },
    Rules {
        package: "hpt-tracing",
        layers: &[&["durations", "time"], &["recorder"], &["snapshot"], &["layer"], &["openmetrics"]],
        ..NONE
    },
    Rules {
        package: "hpt-preload",
        layers: &[&["errno", "next", "own_code"], &["timespec"], &["process"], &["answer"], &["entry"]],
        ..NONE
    },
    Rules {
        package: "hpt-benches",
        layers: &[
            &["bare", "handover", "tails"],
            &["brackets", "contender", "slewing", "startup"],
            &["ours", "rivals", "rounds"],
            &["pairs"],
            &["report"],
            &["programs"],
        ],
        ..NONE
    },
    Rules {
        package: "xtask",
        layers: &[
            &["judge", "rules", "unsafe_words", "violation", "written"],
            &["tokens", "words"],
            &["facts"],
            &["tree"],
            &["program", "unsafe_code"],
            &["cycles", "layers"],
        ],
        ..NONE
    },
    Rules {
        package: "hpt-cli",
        layers: &[
            &["pause"],
            &["cycle_counters", "document_head", "output", "shell_completion", "source_granularity", "statistics"],
            &["arguments", "exit", "read_cost", "source_rate"],
            &["consent", "signals"],
            &["context"],
            &["kernel_clocksources", "kernel_reads", "sampling", "stopwatch"],
            &["experiments"],
            &["cmd"],
            &["cli"],
            &["usage_error"],
        ],
        test_support: Some("golden"),
        separate_children: &["cmd"],
        output: &[Output { module: "output", may_name: &["pause"] }],
        ..NONE
    },
];

/// Returns the rules of a package, or `None` if only the general rules apply.
#[must_use]
pub fn of<'a>(rules: &'a [Rules], package: &str) -> Option<&'a Rules> {
    rules.iter().find(|rules| rules.package == package)
}
