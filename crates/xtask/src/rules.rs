//! The rules about modules, as data: the only place where the layers are written down.
//! Does not check them: `layers`, `cycles` and `unsafe_code` do.

/// What holds in one package.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The package.
    pub package: &'static str,
    /// The modules directly below the root of the library, or of the program of a package without
    /// a library. The lowest layer comes first. A module names modules of lower layers only: none
    /// of its own layer, none above. Empty where a package has no declared layers.
    pub layers: &'static [&'static [&'static str]],
    /// The module with stand-ins for tests. It may name every module; only code for tests names it,
    /// in whichever crate.
    pub test_support: Option<&'static str>,
    /// Modules whose children each implement a trait, and that trait. None of these children names
    /// another.
    pub implementations: &'static [(&'static str, &'static str)],
    /// Modules whose children do not name each other, nor functions of their parent.
    pub separate_children: &'static [&'static str],
    /// Modules that turn data into output.
    pub output: &'static [Output],
    /// Modules whose own file and whose children's files import each other. See
    /// [`cycles`](crate::cycles).
    pub circular_parents: &'static [&'static str],
    /// Import cycles between its files are listed and are no failure.
    pub cycles_are_allowed: bool,
}

/// A module that turns data into output: it names data types of the library and a few modules, but
/// for its tests.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The module.
    pub module: &'static str,
    /// The modules of its own package that it may name, beside itself.
    pub may_name: &'static [&'static str],
}

/// The library of which output modules name data types only, and its types that are no data,
/// because a counter or a machine can be read through them.
pub const LIBRARY: &str = "hpt_core";
/// See [`LIBRARY`].
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

/// Where unsafe code may stand. Directories end in a slash.
pub const UNSAFE_PLACES: &[&str] = &[
    "crates/hpt-core/src/sys/",
    "crates/hpt-core/tests/it/support/unsafe_calls.rs",
    "crates/hpt-cli/tests/it/support/unsafe_calls.rs",
    "crates/hpt-preload/",
    "benches/src/bare.rs",
    "benches/src/bare/",
];

/// Files that do not even permit unsafe code to themselves: they begin with
/// `#![forbid(unsafe_code)]`. Directories end in a slash.
pub const UNSAFE_FORBIDDEN: &[&str] = &["crates/hpt-cli/src/main.rs", "crates/xtask/src/main.rs", "examples/"];

/// A package without rules of its own.
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

/// The rules of every package that has any beside the general ones.
pub const RULES: &[Rules] = &[
    Rules {
        package: "hpt-core",
        layers: &[
            &["stats", "sys", "units"],
            &["host", "scale"],
            &["gpio", "source", "state"],
            &["calibrate", "knobs"],
            &["clock", "realtime", "stopwatch"],
            &["sleep"],
            &["pace"],
            &["measure"],
            &["diagnose"],
        ],
        test_support: Some("testing"),
        implementations: &[("source", "Backend")],
        // Host holds what captured machines say of themselves, and its children read that from a
        // Host.
        circular_parents: &["host"],
        ..NONE
    },
    Rules {
        package: "hpt-document",
        layers: &[
            &["words"],
            &["constraints", "head", "read_cost"],
            &["away", "gpio_line", "thread"],
            &["latency"],
            &[
                "bench",
                "calibrate",
                "capture",
                "clocksource",
                "clocksource_cost",
                "doctor",
                "experiment",
                "gpio_latency",
                "pairs",
                "probe",
                "report",
                "report_compare",
                "restore",
                "sleep",
                "stall",
                "wake_latency",
                "watch",
            ],
            &["document", "schema"],
        ],
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
            &["tokens"],
            &["facts"],
            &["figures", "tree"],
            &["program", "unsafe_code"],
            &["cycles", "layers"],
        ],
        ..NONE
    },
    Rules {
        package: "hpt-cli",
        layers: &[
            &["cycle_counters", "document_head", "output", "shell_completion", "source_granularity"],
            &["arguments", "exit", "read_cost", "source_rate"],
            &["consent", "signals"],
            &["context"],
            &["kernel_clocksources", "sampling", "stopwatch"],
            &["experiments"],
            &["cmd"],
            &["cli"],
        ],
        test_support: Some("golden"),
        separate_children: &["cmd"],
        output: &[Output { module: "output", may_name: &[] }],
        ..NONE
    },
];

/// The rules of a package; those that have no table have the general ones only.
#[must_use]
pub fn of<'a>(rules: &'a [Rules], package: &str) -> Option<&'a Rules> {
    rules.iter().find(|rules| rules.package == package)
}
