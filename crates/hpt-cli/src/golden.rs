//! Compares documents with given figures to the files that hold what they printed before.
//! Used by the tests of subcommands only.

use std::path::Path;

use hpt_core::{Host, host::Capture};

use crate::{
    document_head::head_of,
    output::{Document, Format, Look, rendered},
};
use hpt_document::head::Head;

/// A captured machine, for documents to describe.
pub(crate) fn host() -> Host {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hpt-core/tests/hosts");
    let capture = Capture::open(&hosts.join("amd-epyc-zen3-kvm.capture"));
    let capture = capture.expect("the captured machine is beside hpt-core's tests");
    let facts = serde_json::from_str(capture.facts()).expect("the facts are what hpt writes");
    Host::captured(capture, facts)
}

/// The first keys of a document of that machine, with the same version in every release.
pub(crate) fn head(kind: &'static str) -> Head {
    let mut head = head_of(kind, &host());
    "0.0.0".clone_into(&mut head.hpt);
    head
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
