//! Configuration files for the fixes that helped: sysctl.d, a systemd unit, a profile for tuned, and boot parameters.
//! Installs none of them.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use hpt_document::doctor_try::{DoctorTryDocument, TriedFix, TriedSetting};
use hpt_instrument::diagnose::boot_parameter;

use crate::{
    exit::Failure,
    output::{
        files::{Unfinished, WriteError, create_folders},
        short_time,
    },
};

/// The names of the files in the directory. Each can be installed under its name.
const SYSCTL: &str = "90-hpt.conf";
const UNIT: &str = "hpt-settings.service";
const LATENCY_UNIT: &str = "hpt-cpu-dma-latency.service";
const PROFILE: &str = "tuned.conf";
const BOOT: &str = "kernel-command-line.txt";
const ALL: [&str; 5] = [SYSCTL, UNIT, LATENCY_UNIT, PROFILE, BOOT];

/// The directory of the settings that sysctl changes.
const PROC_SYS: &str = "/proc/sys/";

/// Creates the directory if it is missing, and refuses to replace files. Called before anything is changed.
pub(super) fn prepare(folder: &Path, force: bool) -> Result<(), Failure> {
    let failed = |cause| Failure::Write(WriteError { path: folder.to_owned(), cause });
    // Only the directory itself is created. A missing parent is more likely a mistake.
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::metadata(parent).map_err(failed)?;
    }
    create_folders(folder).map_err(failed)?;
    for path in ALL.map(|name| folder.join(name)) {
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(_) if force => {}
            Ok(_) => return Err(Failure::ThereAlready(path)),
            Err(cause) => return Err(Failure::Write(WriteError { path, cause })),
        }
    }
    // A file that cannot be created is reported before the experiment.
    Unfinished::next_to(&folder.join(PROFILE)).map(drop).map_err(failed)
}

/// Writes the files for the fixes that are worth keeping. Returns their paths.
pub(super) fn write(folder: &Path, data: &DoctorTryDocument, force: bool) -> Result<Vec<PathBuf>, WriteError> {
    let kept: Vec<&TriedFix> = data.results.iter().filter(|row| row.keep).collect();
    let texts = [
        (SYSCTL, sysctl(data, &kept)),
        (UNIT, unit(data, &kept)),
        (LATENCY_UNIT, latency_unit(data, &kept)),
        (PROFILE, profile(data, &kept)),
        (BOOT, boot(data, &kept)),
    ];
    let mut written = Vec::new();
    for (name, text) in texts {
        let Some(text) = text else { continue };
        let path = folder.join(name);
        let put = |path: &Path| -> io::Result<()> {
            let mut file = Unfinished::next_to(path)?;
            file.fill(text.as_bytes())?;
            file.put(force)
        };
        put(&path).map_err(|cause| WriteError { path: path.clone(), cause })?;
        written.push(path);
    }
    Ok(written)
}

/// Returns the first lines of a file: its origin, and how to install it.
fn head(data: &DoctorTryDocument, install: &[&str]) -> String {
    let mut text = format!(
        "# Written by hpt doctor --try: settings that helped in a measurement on this machine.\n# Measurement: {} of {}\n",
        data.figure, data.measurement
    );
    if let (Some(before), Some(after)) = (data.baseline_ns, data.result_ns) {
        text.push_str(&format!(
            "# With all fixes that helped: {} {} -> {}\n",
            data.figure,
            short(before),
            short(after)
        ));
    }
    text.push_str("# Install:\n");
    install.iter().for_each(|line| text.push_str(&format!("#   {line}\n")));
    text
}

fn short(ns: f64) -> String {
    short_time(ns)
}

/// Returns the measured effect of a fix as a comment.
fn effect(data: &DoctorTryDocument, row: &TriedFix) -> String {
    let times = row.off_ns.zip(row.on_ns);
    let times = times.map(|(off, on)| format!(": {} {} -> {}", data.figure, short(off), short(on)));
    let on_top = match row.on_top_of.as_slice() {
        [] => String::new(),
        others => format!(" (on top of {})", others.join(", ")),
    };
    format!("# {}{}{on_top}\n", row.text, times.unwrap_or_default())
}

/// The fixes, each with those of its settings that `accept` accepts.
fn chosen<'a>(
    kept: &[&'a TriedFix],
    accept: impl Fn(&TriedSetting) -> bool,
) -> Vec<(&'a TriedFix, Vec<&'a TriedSetting>)> {
    let of = |row: &&'a TriedFix| (*row, row.settings.iter().filter(|one| accept(one)).collect::<Vec<_>>());
    kept.iter().map(of).filter(|(_, settings)| !settings.is_empty()).collect()
}

/// Returns whether a setting survives as a path: interrupts and the socket of irqbalance have other names after a boot.
fn is_file_in_sys(setting: &TriedSetting) -> bool {
    setting.path.starts_with("/sys/") && is_plain(&setting.path) && is_plain(&setting.value)
}

/// Returns whether a text needs no quotes in a unit, in a profile or in a shell.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-,".contains(&byte))
}

fn sysctl_name(setting: &TriedSetting) -> Option<String> {
    setting.path.strip_prefix(PROC_SYS).filter(|_| is_plain(&setting.value)).map(|name| name.replace('/', "."))
}

fn sysctl(data: &DoctorTryDocument, kept: &[&TriedFix]) -> Option<String> {
    let chosen = chosen(kept, |setting| sysctl_name(setting).is_some());
    if chosen.is_empty() {
        return None;
    }
    let install = format!("sudo install -m 0644 {SYSCTL} /etc/sysctl.d/ && sudo sysctl --system");
    let mut text = head(data, &[&install]);
    for (row, settings) in chosen {
        text.push_str(&effect(data, row));
        for setting in settings {
            text.push_str(&format!("{} = {}\n", sysctl_name(setting).unwrap_or_default(), setting.value));
        }
    }
    Some(text)
}

/// Returns the unit that writes to the files in /sys, and moves interrupts.
fn unit(data: &DoctorTryDocument, kept: &[&TriedFix]) -> Option<String> {
    let chosen = chosen(kept, |setting| is_file_in_sys(setting) || is_interrupt(setting));
    if chosen.is_empty() {
        return None;
    }
    let install = format!("sudo install -m 0644 {UNIT} /etc/systemd/system/");
    let enable = format!("sudo systemctl enable --now {UNIT}");
    let mut text = head(data, &[&install, &enable]);
    text.push_str("\n[Unit]\nDescription=Settings that hpt doctor --try found to help\nAfter=multi-user.target\n\n");
    text.push_str("[Service]\nType=oneshot\nRemainAfterExit=yes\n");
    for (row, settings) in chosen {
        text.push_str(&effect(data, row));
        if settings.iter().any(|setting| is_interrupt(setting)) {
            text.push_str("# The numbers of interrupts may differ after a boot. irqbalance may move them back.\n");
        }
        for TriedSetting { path, value, .. } in settings {
            // A missing file is no failure of the other lines.
            text.push_str(&format!("ExecStart=-/bin/sh -c 'echo {value} >{path}'\n"));
        }
    }
    text.push_str("\n[Install]\nWantedBy=multi-user.target\n");
    Some(text)
}

fn is_interrupt(setting: &TriedSetting) -> bool {
    setting.path.starts_with("/proc/irq/") && is_plain(&setting.path) && is_plain(&setting.value)
}

fn is_latency(row: &TriedFix) -> bool {
    row.fix == "dma-latency"
}

/// Returns the unit that keeps /dev/cpu_dma_latency open.
fn latency_unit(data: &DoctorTryDocument, kept: &[&TriedFix]) -> Option<String> {
    let row = kept.iter().find(|row| is_latency(row))?;
    let install = format!("sudo install -m 0644 {LATENCY_UNIT} /etc/systemd/system/");
    let enable = format!("sudo systemctl enable --now {LATENCY_UNIT}");
    let mut text = head(data, &[&install, &enable]);
    text.push_str(&effect(data, row));
    text.push_str(
        "# The limit lasts as long as a process keeps the file open.\n\n\
         [Unit]\nDescription=No deep idle states, as hpt doctor --try found to help\n\n\
         [Service]\nExecStart=/bin/sh -c 'exec 3>/dev/cpu_dma_latency; echo 0x00000000 >&3; exec sleep infinity'\n\n\
         [Install]\nWantedBy=multi-user.target\n",
    );
    Some(text)
}

/// Returns a profile for tuned.
fn profile(data: &DoctorTryDocument, kept: &[&TriedFix]) -> Option<String> {
    let of_sysctl = chosen(kept, |setting| sysctl_name(setting).is_some());
    let of_sysfs = chosen(kept, is_file_in_sys);
    let latency = kept.iter().find(|row| is_latency(row));
    if of_sysctl.is_empty() && of_sysfs.is_empty() && latency.is_none() {
        return None;
    }
    let install = format!("sudo install -D -m 0644 {PROFILE} /etc/tuned/hpt/{PROFILE}");
    let mut text = head(data, &[&install, "sudo tuned-adm profile hpt", "(since tuned 2.24: /etc/tuned/profiles/hpt)"]);
    text.push_str("\n[main]\nsummary=Settings that hpt doctor --try found to help\n");
    if let Some(row) = latency {
        text.push_str(&format!("\n{}[cpu]\nforce_latency=0\n", effect(data, row)));
    }
    if !of_sysctl.is_empty() {
        text.push_str("\n[sysctl]\n");
        for (row, settings) in of_sysctl {
            text.push_str(&effect(data, row));
            for setting in settings {
                text.push_str(&format!("{}={}\n", sysctl_name(setting).unwrap_or_default(), setting.value));
            }
        }
    }
    if !of_sysfs.is_empty() {
        text.push_str("\n[sysfs]\n");
        for (row, settings) in of_sysfs {
            text.push_str(&effect(data, row));
            for setting in settings {
                text.push_str(&format!("{}={}\n", setting.path, setting.value));
            }
        }
    }
    Some(text)
}

/// Returns boot parameters with the effect of the fixes.
fn boot(data: &DoctorTryDocument, kept: &[&TriedFix]) -> Option<String> {
    let mut text = head(data, &["add the last line to the kernel command line, and reboot (hpt doctor -v says where)"]);
    let mut parameters = Vec::new();
    for row in kept {
        // With a fix of interrupts, another setting is the list of irqbalance.
        let moved = row.settings.iter().find(|setting| is_interrupt(setting));
        if let Some(parameter) = boot_parameter(&row.fix, moved.map_or("", |setting| &setting.value)) {
            text.push_str(&effect(data, row));
            parameters.push(parameter);
        }
    }
    (!parameters.is_empty()).then(|| format!("{text}{}\n", parameters.join(" ")))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    use hpt_document::doctor_try::{TriedFix, TriedSetting, TryVerdict};

    use super::{ALL, prepare, write};
    use crate::cmd::doctor::trial::terminal::tests::example;

    fn written(folder: &Path) -> Vec<(String, String)> {
        let mut data = example();
        let set = |path: &str, value: &str| TriedSetting {
            path: path.to_owned(),
            original_value: None,
            value: value.to_owned(),
        };
        let like = data.results[0].clone();
        let more = [
            ("interrupts", "interrupts moved off CPU 3", vec![set("/proc/irq/24/smp_affinity_list", "0-2")]),
            (
                "huge-pages",
                "transparent huge pages madvise",
                vec![set("/sys/kernel/mm/transparent_hugepage/enabled", "madvise")],
            ),
            ("dma-latency", "cpu_dma_latency 0", Vec::new()),
        ];
        data.results.retain(|row| row.verdict == TryVerdict::Helpful);
        data.results.extend(more.map(|(fix, text, settings)| TriedFix {
            fix: fix.to_owned(),
            text: text.to_owned(),
            settings,
            ..like.clone()
        }));
        let paths = write(folder, &data, false).expect("a directory of its own");
        let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
        paths.iter().map(|path| (name(path), fs::read_to_string(path).expect("written"))).collect()
    }

    #[test]
    fn each_file_states_the_measured_effect() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        prepare(folder.path(), false).expect("an empty directory");
        let files = written(folder.path());
        assert_eq!(files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ALL);
        let all: String = files.iter().map(|(name, text)| format!("== {name}\n{text}")).collect();
        insta::with_settings!({ snapshot_path => "../../../../tests/it/snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!("doctor-try-files", all);
        });
        for name in ALL {
            let mode = fs::metadata(folder.path().join(name)).expect("written").permissions().mode();
            assert_eq!(mode & 0o7777, 0o644, "{name}");
        }
    }

    #[test]
    fn an_existing_file_or_link_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, folder.path().join(ALL[0])).expect("ours");
        assert!(prepare(folder.path(), false).is_err());
        prepare(folder.path(), true).expect("with --force");
        let mut data = example();
        data.results.truncate(2);
        assert!(write(folder.path(), &data, false).is_err(), "the name is taken");
        write(folder.path(), &data, true).expect("the link itself is replaced");
        assert!(!target.exists(), "nothing was written through the link");
    }

    #[test]
    fn a_value_that_needs_quotes_is_not_written() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (path, value) in [
            ("/sys/kernel/mm/ksm/run", "0' >/tmp/x; '"),
            ("/sys/kernel/mm/$(reboot)", "0"),
            ("/proc/irq/24/smp_affinity_list", "0;reboot"),
            ("/proc/sys/kernel/timer_migration", "0\n1"),
        ] {
            let mut data = example();
            data.results.truncate(1);
            let setting = TriedSetting { path: path.to_owned(), original_value: None, value: value.to_owned() };
            data.results[0].settings = vec![setting];
            assert!(write(folder.path(), &data, false).expect("nothing to write").is_empty(), "{path}: {value}");
        }
    }

    #[test]
    fn without_a_helpful_fix_there_is_no_file() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut data = example();
        data.results.iter_mut().for_each(|row| row.keep = false);
        assert!(write(folder.path(), &data, false).expect("nothing to write").is_empty());
    }
}
