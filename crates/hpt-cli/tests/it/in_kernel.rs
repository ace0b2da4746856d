//! Readings in the kernel (`--in-kernel`), with files that imitate those of the kernel module hpt_cycles.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{
    code, json, run, runner, stderr, stdout, tells_its_boot, unsafe_calls::ask_to_end, wait_while_running, words,
};

/// Returns the command hpt in a mount namespace in which `folder` is debugfs.
fn with_debugfs(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg(r#"mount --bind "$1" /sys/kernel/debug || exit 99; shift; exec "$@""#).arg("sh").arg(folder);
    command.args(words()).args(arguments);
    command
}

/// Creates the files of the module: a thousand readings, of which the first two lie further apart.
fn files_of_the_module() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let content = |first: &str, others: &str| format!("{first}\n{}", format!("{others}\n").repeat(998));
    let module = folder.path().join("hpt_cycles");
    fs::create_dir(&module).expect("a new folder");
    fs::write(module.join("clock_ns"), content("485", "288")).expect("a new file");
    fs::write(module.join("cycles"), content("26", "6")).expect("a new file");
    folder
}

/// Returns whether a namespace with a debugfs of our own is possible here.
fn can_imitate(folder: &Path) -> bool {
    runner().is_empty() && with_debugfs(folder, &["--version"]).output().is_ok_and(|output| output.status.success())
}

fn row<'a>(document: &'a Value, id: &str, pauses_ns: u64) -> &'a Value {
    let rows = document["results"].as_array().expect("a list");
    let mut of_both = rows.iter().filter(|row| row["id"] == id && row["pauses_ns"][0] == pauses_ns);
    of_both.next().unwrap_or_else(|| panic!("no row {id} after {pauses_ns} ns: {document:#}"))
}

#[test]
fn the_kernels_pairs_are_printed_beside_those_of_the_program() {
    let folder = files_of_the_module();
    if !can_imitate(folder.path()) {
        return skipped!("no mount namespace with a different /sys for this user");
    }
    let arguments = ["latency", "pairs", "--in-kernel", "--interval", "0s,1ms", "--count", "5", "--cpu", "any"];
    let hpt = |more: &[&str]| {
        let output = with_debugfs(folder.path(), &[&arguments, more].concat()).output().expect("unshare is there");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        output
    };
    let document = json(&hpt(&["--json"]));
    for (id, first, all) in [("realtime-in-kernel", 485.0, 288.0), ("arm-cycles-in-kernel", 26.0, 6.0)] {
        let (chain, pairs) = (row(&document, id, 0), row(&document, id, 1_000_000));
        assert_eq!((chain["samples"].as_u64(), pairs["samples"].as_u64()), (Some(999), Some(5)), "{id}");
        assert_eq!(pairs["mean_ticks"].as_f64(), Some(first), "{id}");
        assert!(chain["mean_ticks"].as_f64().is_some_and(|mean| mean > all && mean < all + 1.0), "{id}: {chain}");
    }
    assert_eq!(row(&document, "realtime-in-kernel", 0)["p50_ns"].as_f64(), Some(288.0));
    assert_eq!(row(&document, "realtime", 1_000_000)["samples"].as_u64(), Some(5));
    let (text, csv) = (stdout(&hpt(&[])), stdout(&hpt(&["--format", "csv"])));
    for id in ["realtime", "realtime-in-kernel", "arm-cycles-in-kernel"] {
        assert!(text.contains(id) && csv.contains(id), "{id}: {text}\n{csv}");
    }
}

#[test]
fn readings_that_the_kernel_does_not_make_are_an_error_with_a_fix() {
    let arguments = ["latency", "pairs", "--in-kernel", "--interval", "0s", "--count", "5"];
    if Path::new("/sys/module/hpt_cycles").exists() {
        return skipped!("hpt_cycles is loaded here");
    }
    let output = run(&arguments);
    assert_eq!((code(&output), stdout(&output)), (3, String::new()));
    let said = stderr(&output);
    assert!(said.contains("hpt_cycles") && said.contains("is not loaded; load it"), "{said}");

    let folder = files_of_the_module();
    if !can_imitate(folder.path()) {
        return skipped!("no mount namespace with a different /sys for this user");
    }
    fs::write(folder.path().join("hpt_cycles/cycles"), "a reading\n").expect("our file");
    let output = with_debugfs(folder.path(), &arguments).output().expect("unshare is there");
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("load the version of hpt_cycles that belongs to"), "{}", stderr(&output));
}

#[test]
fn the_experiment_compares_the_kernels_pairs_with_the_published_ones() {
    let folder = files_of_the_module();
    if !can_imitate(folder.path()) {
        return skipped!("no mount namespace with a different /sys for this user");
    }
    if !tells_its_boot() {
        return;
    }
    let kept = tempfile::tempdir().expect("a temporary folder");
    let store = kept.path().to_str().expect("UTF-8");
    let arguments = ["experiment", "pairs", "--state-dir", store, "--format", "json"];
    let mut command = with_debugfs(folder.path(), &arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("unshare is there");
    let first = kept.path().join("experiment-pairs-back-to-back-1000");
    wait_while_running(&mut child, "the first part is kept", || first.exists());
    ask_to_end(child.id());
    let output = child.wait_with_output().expect("a child");
    let document = json(&output);
    let rows = document["results"].as_array().expect("a list");
    let named =
        |what: &str| rows.iter().find(|row| row["quantity"] == what).unwrap_or_else(|| panic!("{what}: {rows:#?}"));
    let clock = named("back to back, system clock");
    assert!(clock["measured"].as_f64().is_some_and(|mean| mean > 288.0 && mean < 289.0), "{clock}");
    assert!(clock["method"].as_str().is_some_and(|how| how.contains("in the kernel")), "{clock}");
    assert_eq!((clock["published"].as_f64(), clock["samples"].as_u64()), (Some(288.0), Some(999)));
    let program = named("back to back, system clock: in a program");
    assert!(program["method"].as_str().is_some_and(|how| how.starts_with("monotonic")), "{program}");
}
