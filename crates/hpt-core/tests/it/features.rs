//! Builds without some of the features of the library.

use hpt_core::{Host, SourceError, source};

/// Returns the reason why a source of this machine is not available.
fn unavailable(name: &str) -> Option<SourceError> {
    let reports = source::probe(&Host::live());
    reports.into_iter().find(|report| report.id.as_str() == name).expect("a listed source").availability.err()
}

#[test]
fn a_source_whose_feature_is_off_is_listed_with_that_reason() {
    // The device or the kernel may lack the source on this machine, which is checked first.
    let sources = ["hpet", "bcm-systimer", "perf-time", "acpi-pm", "rtc0", "ptp0"].map(unavailable);
    let not_built: Vec<_> =
        sources.into_iter().flatten().filter(|reason| matches!(reason, SourceError::NotBuilt { .. })).collect();
    if cfg!(feature = "devices") {
        assert_eq!(not_built, []);
    } else if cfg!(target_arch = "x86_64") {
        assert!(not_built.contains(&SourceError::NotBuilt { feature: "devices" }));
        assert_eq!(not_built[0].remedy().as_deref(), Some("enable the feature `devices` of hpt-core in Cargo.toml"));
    }
}
