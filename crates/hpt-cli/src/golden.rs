//! Compares documents with given figures to the files that hold what they printed before.
//! Used by the tests of subcommands only.

use std::path::Path;

use hpt_core::{Host, host::Capture};

use crate::{
    document_head::head_of,
    output::{Document, Format, Look, rendered},
};
use hpt_document::head::Head;
use serde_json::Value;

/// A captured machine, for documents to describe.
pub(crate) fn host() -> Host {
    captured("amd-epyc-zen3-kvm")
}

/// The captured machine of that name.
pub(crate) fn captured(name: &str) -> Host {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hpt-core/tests/hosts");
    let capture = Capture::open(&hosts.join(format!("{name}.capture")));
    let capture = capture.expect("the captured machine is beside hpt-core's tests");
    let facts = serde_json::from_str(capture.facts()).expect("the facts are what hpt writes");
    Host::captured(capture, facts)
}

/// The first keys of a document of that machine, with the same version in every release.
pub(crate) fn head(kind: &str) -> Head {
    let mut head = head_of(kind, &host());
    "0.0.0".clone_into(&mut head.hpt);
    head
}

/// What the documents of all kinds need at least.
const NOTHING: &str = r#"{
    "notes": [], "sources": [], "rules": [], "results": [], "calibrations": [], "away": [], "causes": [],
    "counters": [], "longest": [], "newest": [], "cores": [], "events": [], "offline": [], "shared_faults": [],
    "root_would_be_told": [], "interrupted": false, "measured_now": true, "misbehaved": false, "major": 0,
    "minor": 0, "to_know": 0, "interval_ns": 0, "timeout_ns": 0, "lost": 0, "strange": 0, "dropped": 0,
    "elsewhen": 0, "look_ns": 0, "read_ns": 0.0, "elapsed_s": 0.0, "watched_s": 0.0, "intervals": 0, "rounds": 0,
    "began": "", "source": "", "reference": "", "listen": "poll", "figure": "whole", "by": "kernel", "stopwatch": "",
    "stopwatch_frequency_hz": 1.0, "stopwatch_frequency_from": "measured", "choice": { "reason": "" },
    "out": { "chip": "", "label": "", "line": 0 }, "in": { "chip": "", "label": "", "line": 0 },
    "thread": { "cpus": [], "governors": [], "refused": [] }, "synchronisation": { "readable": false },
    "limits": { "rate_ppm": 0.0, "statements_may_be_wrong": false, "step_ns": 0, "core_offset_ns": 0 }
}"#;

/// A document of this kind in which nothing was found, or what there is of it where it goes without much.
pub(crate) fn empty(kind: &str) -> hpt_document::Document {
    let mut document: Value = serde_json::from_str(NOTHING).expect("it is JSON");
    let head = serde_json::to_value(head(kind)).expect("names have a JSON form");
    let keys = document.as_object_mut().expect("it is one");
    keys.extend(head.as_object().expect("it is one").clone());
    hpt_document::Document::read(&document).expect("all that every document needs is there")
}

/// Compares every format with its snapshot.
pub(crate) fn assert(name: &str, document: &Document) {
    let text = |format| rendered(document, format, Look { width: 80, colour: false });
    insta::with_settings!({ snapshot_path => "../tests/it/snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(format!("{name}-human"), text(Format::Human));
        insta::assert_snapshot!(format!("{name}-json"), text(Format::Json));
        insta::assert_snapshot!(format!("{name}-csv"), text(Format::Csv));
        let metrics = text(Format::Openmetrics);
        if !metrics.is_empty() {
            insta::assert_snapshot!(format!("{name}-openmetrics"), metrics);
        }
    });
}
