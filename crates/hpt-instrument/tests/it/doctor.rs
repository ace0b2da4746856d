//! The problems found on captured and derived machines: each rule on a machine where it fires and
//! on one where it does not, and its section of docs/doctor.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
    time::Duration,
};

use hpt_core::Host;
use hpt_instrument::diagnose::{
    Examined, Finding, Gap, Gaps, Goal, MachineFacts, Rule, Severity, THEMES, Verdict, examine, prove,
};
use hpt_sys::{
    host::{Capture, Entry, Facts, ReadRefused, Situation},
    testing::hosts::{all, capture_of, content, files, host, machine_of, write},
};
use proptest::{
    collection::vec,
    prelude::{ProptestConfig, any, proptest},
    sample::Index,
};

/// No CPU, one that no derived machine isolates, and one that most of them isolate.
const SUBJECTS: [Option<usize>; 3] = [None, Some(1), Some(3)];

fn rules() -> impl Iterator<Item = &'static Rule> {
    THEMES.iter().flat_map(|theme| theme.rules)
}

/// The verdicts for real-time threads, for which most rules matter.
fn examined(host: &Host, cpu: Option<usize>) -> Vec<Examined> {
    examine(&MachineFacts::new(host), cpu, Goal::Realtime)
}

fn finding(verdict: &Verdict) -> Option<&Finding> {
    match verdict {
        Verdict::Problem(finding) => Some(finding),
        Verdict::Pass(_) | Verdict::NotApplicable(_) | Verdict::Unknown { .. } => None,
    }
}

/// The findings on a machine: rule, severity, and whether it was observed.
fn found(host: &Host, cpu: Option<usize>) -> BTreeMap<&'static str, (Severity, bool)> {
    let examined = examined(host, cpu);
    let found = examined.iter().filter_map(|examined| Some((examined.rule.id, finding(&examined.verdict)?)));
    found.map(|(id, finding)| (id, (finding.severity, finding.certain))).collect()
}

/// Every finding on every machine, with its rule and the machine's name.
fn everywhere() -> Vec<(&'static Rule, String, Finding)> {
    let mut found = Vec::new();
    for name in all() {
        for cpu in SUBJECTS {
            let here = examined(&host(&name), cpu).into_iter();
            found.extend(
                here.filter_map(|examined| Some((examined.rule, name.clone(), finding(&examined.verdict)?.clone()))),
            );
        }
    }
    found
}

#[test]
fn every_rule_fires_on_one_machine_and_passes_on_another() {
    let (mut fires, mut passes) = (BTreeSet::new(), BTreeSet::new());
    for name in all() {
        for cpu in SUBJECTS {
            for examined in examined(&host(&name), cpu) {
                match examined.verdict {
                    Verdict::Problem(_) => fires.insert(examined.rule.id),
                    Verdict::Pass(_) => passes.insert(examined.rule.id),
                    Verdict::NotApplicable(_) | Verdict::Unknown { .. } => false,
                };
            }
        }
    }
    for rule in rules() {
        assert!(fires.contains(rule.id), "{} fires on no machine", rule.id);
        assert!(passes.contains(rule.id), "{} passes on no machine", rule.id);
    }
}

#[test]
fn every_observed_finding_has_the_values_that_led_to_it() {
    for name in all() {
        for cpu in SUBJECTS {
            for examined in examined(&host(&name), cpu) {
                let is_observed = finding(&examined.verdict).is_some_and(|finding| finding.certain);
                let has_values = examined.evidence.iter().any(|one| !one.value.is_empty());
                // A vDSO, a device tree property and an emulator have no value in a file.
                let has_a_file = !["clock-by-system-call", "counter-in-suspend", "timer-erratum", "virtual-machine"]
                    .contains(&examined.rule.id);
                assert!(!is_observed || has_values || !has_a_file, "{} on {name} {cpu:?}", examined.rule.id);
                assert!(examined.evidence.iter().all(|one| one.value.chars().count() <= 200), "{name}");
            }
        }
    }
}

#[test]
fn tuned_machines_have_no_problems() {
    for name in ["derived-pc-tuned", "derived-raspberry-pi-4-tuned"] {
        for cpu in [None, Some(3)] {
            for examined in examined(&host(name), cpu) {
                let is_silent = matches!(examined.verdict, Verdict::Pass(_) | Verdict::NotApplicable(_));
                assert!(is_silent, "{} on {name}: {:?}", examined.rule.id, examined.verdict);
            }
        }
    }
}

/// The rules that may report a problem of high severity without a goal, on each machine that has such problems. A rule
/// that is not listed here would raise an alarm that most users cannot act on.
const HIGH: [(&str, &[&str]); 8] = [
    ("amd-epyc-zen4-kvm-as-root", &["wall-time", "stolen-time"]),
    ("amd-epyc-zen5-kvm-limited", &["wall-time", "cpu-quota", "stolen-time"]),
    ("derived-kvm-nothing-stolen", &["wall-time"]),
    (
        "derived-pc-untuned",
        &["clock-source", "wall-time", "clock-rate", "time-daemons", "realtime-budget", "cpu-quota"],
    ),
    ("derived-raspberry-pi-4-untuned", &["under-voltage", "held-back"]),
    ("derived-stated-crystal-hpet-in-use", &["clock-source"]),
    // Without a network, its time daemon has no server.
    ("qemu-debian-13", &["wall-time"]),
    ("qemu-raspi3b-as-root", &["wall-time"]),
];

/// The rules that report a finding of this severity for a goal.
fn with_severity(name: &str, goal: Goal, severity: Severity) -> Vec<&'static str> {
    let examined = examine(&MachineFacts::new(&host(name)), None, goal);
    let is_severe = |examined: &&Examined| finding(&examined.verdict).is_some_and(|it| it.severity == severity);
    examined.iter().filter(is_severe).map(|examined| examined.rule.id).collect()
}

#[test]
fn only_the_listed_rules_have_high_severity_without_a_goal() {
    let found: Vec<_> = all()
        .into_iter()
        .map(|name| (with_severity(&name, Goal::General, Severity::High), name))
        .filter(|(rules, _)| !rules.is_empty())
        .map(|(rules, name)| (name, rules))
        .collect();
    let allowed: Vec<_> = HIGH.into_iter().map(|(name, rules)| (name.to_owned(), rules.to_vec())).collect();
    assert_eq!(found, allowed);
}

/// Systems with the default settings of a distribution, with the rules that have high severity for a real-time thread,
/// and for no other goal. A maintainer accepts them as settings that a general system does not have: `preemption` says
/// what the package's own kernel configuration says, `throttling` and `fair-server` protect ordinary threads,
/// `right-to-realtime` is for an administrator to grant, and no system isolates a CPU unasked.
const STOCK: [(&str, &[&str]); 4] = [
    ("derived-debian-13-stock", &["fair-server", "right-to-realtime", "isolated-cpus"]),
    // Built for the mode `voluntary`, in which the kernel yields only at explicit points. A kernel before the fair server
    // throttles real-time threads.
    ("derived-fedora-40-stock", &["preemption", "throttling", "right-to-realtime", "isolated-cpus"]),
    ("derived-raspberry-pi-os-stock", &["fair-server", "right-to-realtime", "isolated-cpus"]),
    ("derived-ubuntu-24.04-stock", &["preemption", "throttling", "right-to-realtime", "isolated-cpus"]),
];

#[test]
fn a_stock_system_has_no_problem_and_its_default_settings_count_only_for_a_goal() {
    for (name, defaults) in STOCK {
        let of = |goal, severity| with_severity(name, goal, severity);
        for goal in [Goal::General, Goal::Timekeeping] {
            assert!(of(goal, Severity::High).is_empty() && of(goal, Severity::Low).is_empty(), "{name} {goal:?}");
        }
        assert_eq!(of(Goal::Realtime, Severity::High), defaults, "{name}");
        let (high, low) = (of(Goal::Realtime, Severity::High), of(Goal::Realtime, Severity::Low));
        let is_listed = |id: &&str| high.contains(id) || low.contains(id);
        assert!(["preemption", "right-to-lock-memory", "governor", "swap"].iter().all(is_listed), "{name}");
        let of_benchmarks = of(Goal::Benchmarks, Severity::Low);
        assert!(of_benchmarks.contains(&"governor") && !of_benchmarks.contains(&"preemption"), "{of_benchmarks:?}");
        assert!(of(Goal::Benchmarks, Severity::High).is_empty());
        let notes = of(Goal::General, Severity::Info);
        assert!(defaults.iter().chain(&["preemption", "governor"]).all(|id| notes.contains(id)), "{notes:?}");
    }
}

#[test]
fn the_fixes_of_a_stock_system_are_those_of_its_distribution() {
    let fixes = |name, rule| fixes_of(&examined(&host(name), None), rule);
    let of = |name| fixes(name, "preemption");
    assert!(of("derived-debian-13-stock").contains("apt-get install linux-image-rt-amd64"));
    let ubuntu = of("derived-ubuntu-24.04-stock");
    assert!(ubuntu.contains("pro enable realtime-kernel") && ubuntu.contains("update-grub"), "{ubuntu}");
    let fedora = of("derived-fedora-40-stock");
    assert!(fedora.contains("grubby --update-kernel=ALL --args=preempt=full") && !fedora.contains("apt"), "{fedora}");
    let pi = fixes("derived-raspberry-pi-os-stock", "isolated-cpus");
    assert!(pi.contains("/boot/firmware/cmdline.txt") && !pi.contains("grub"), "{pi}");
}

#[test]
fn a_definite_verdict_rests_on_a_value_that_was_read() {
    let mut without: std::collections::BTreeSet<String> = std::collections::BTreeSet::new();
    for name in all() {
        for cpu in SUBJECTS {
            for examined in examine(&MachineFacts::new(&host(&name)), cpu, Goal::General) {
                let is_definite = match &examined.verdict {
                    Verdict::Problem(finding) => finding.certain,
                    Verdict::Pass(_) => true,
                    _ => false,
                };
                if is_definite && examined.evidence.is_empty() {
                    without.insert(format!("{} {name}", examined.rule.id));
                }
            }
        }
    }
    let rules: std::collections::BTreeSet<&str> = without.iter().filter_map(|one| one.split(' ').next()).collect();
    assert!(without.is_empty(), "{rules:?} {without:?}");
}

#[test]
fn the_goal_changes_only_severities() {
    for name in all() {
        for cpu in SUBJECTS {
            let facts = MachineFacts::new(&host(&name));
            let with = |goal| {
                let mut examined = examine(&facts, cpu, goal);
                for examined in &mut examined {
                    if let Verdict::Problem(finding) = &mut examined.verdict {
                        assert!(finding.severity <= examined.rule.relevance.severity(goal), "{}", examined.rule.id);
                        finding.severity = Severity::Info;
                    }
                }
                examined.into_iter().map(|examined| examined.verdict).collect::<Vec<_>>()
            };
            assert!(Goal::ALL.iter().all(|&goal| with(goal) == with(Goal::General)), "{name} {cpu:?}");
        }
    }
}

#[test]
fn a_cpu_that_is_not_isolated_is_distinguished_from_one_that_is() {
    let on_one = found(&host("derived-pc-tuned"), Some(1));
    for id in ["isolated-cpus", "tick", "rcu-callbacks", "interrupts", "irqbalance", "kernel-threads"] {
        assert!(on_one.contains_key(id), "{id}: {on_one:?}");
    }
    assert_eq!(on_one.get("isolated-cpus"), Some(&(Severity::High, true)));
}

#[test]
fn a_problem_in_files_that_only_root_can_read_is_likely_and_not_observed() {
    let pi = MachineFacts::new(&host("derived-raspberry-pi-4-untuned"));
    assert_eq!(found(&host("derived-raspberry-pi-4-untuned"), None).get("fair-server"), Some(&(Severity::High, false)));
    let root = pi.needs_root();
    assert!(root.iter().any(|what| what.contains("fair_server")) && root.len() == 2, "{root:?}");
    assert!(MachineFacts::new(&host("derived-pc-tuned")).needs_root().is_empty());
}

#[test]
fn a_missing_governor_is_not_a_problem_in_a_virtual_machine() {
    let name = "amd-epyc-zen4-kvm-as-root";
    for examined in examined(&host(name), None) {
        if ["governor", "frequency-limit", "turbo", "slowed-down"].contains(&examined.rule.id) {
            assert!(matches!(examined.verdict, Verdict::NotApplicable(_)), "{:?}", examined.verdict);
        }
    }
    let found = found(&host(name), None);
    assert_eq!(found.get("virtual-machine"), Some(&(Severity::Low, true)));
    // Its kernel has no real-time throttling.
    assert!(!found.contains_key("throttling") && found.contains_key("fair-server"), "{found:?}");
}

/// The facts of a captured machine, in this situation.
fn facts_in(situation: Option<Situation>, name: &str) -> Facts {
    let mut facts = host(name).facts().clone();
    facts.situation = situation;
    facts
}

#[test]
fn without_proc_and_sys_no_finding_is_certain() {
    for name in all() {
        let nothing = Host::captured(Capture::new(), facts_in(None, &name));
        for cpu in SUBJECTS {
            for (id, (_, certain)) in found(&nothing, cpu) {
                // uname and CPUID report these.
                assert!(!certain || ["preemption", "virtual-machine"].contains(&id), "{id} on {name} without files");
            }
        }
    }
}

/// The programs that fixes name, with their packages in Debian, and therefore in Raspberry Pi OS; `grubby` is of Fedora, `pro` of Ubuntu.
const PROGRAMS: [(&str, &str); 26] = [
    ("adjtimex", "adjtimex"),
    ("apt-cache", "apt"),
    ("apt-get", "apt"),
    ("cat", "coreutils"),
    ("echo", "coreutils"),
    ("grep", "grep"),
    ("groupadd", "passwd"),
    ("grubby", "grubby"),
    ("hpt", "hpt itself"),
    ("kernel-install", "systemd"),
    ("mount", "mount"),
    ("pgrep", "procps"),
    ("prlimit", "util-linux"),
    ("pro", "ubuntu-pro-client"),
    ("setcap", "libcap2-bin"),
    ("sh", "dash"),
    ("sudo", "sudo"),
    ("swapoff", "mount"),
    ("sysctl", "procps"),
    ("systemctl", "systemd"),
    ("taskset", "util-linux"),
    ("tee", "coreutils"),
    ("timedatectl", "systemd"),
    ("update-grub", "grub2-common"),
    ("usermod", "passwd"),
    ("xargs", "findutils"),
];

/// The programs that a command starts.
fn programs(command: &str) -> Vec<String> {
    let mut programs = Vec::new();
    for part in command.split('|') {
        let words: Vec<&str> = part.split_whitespace().collect();
        let mut rest = words.as_slice();
        while let [first, others @ ..] = rest {
            programs.push((*first).to_owned());
            rest = match *first {
                "sudo" => others,
                "xargs" => others.get(2..).unwrap_or_default(),
                _ => &[],
            };
        }
    }
    programs
}

#[test]
fn every_program_in_a_fix_is_in_debian() {
    assert_eq!(programs("pgrep x | xargs -I PID sudo taskset -p PID"), ["pgrep", "xargs", "sudo", "taskset"]);
    let mut named = BTreeSet::new();
    for (rule, name, finding) in everywhere() {
        assert!(!finding.fixes.is_empty(), "{} on {name} has no fix", rule.id);
        for command in finding.fixes.iter().flat_map(|fix| &fix.commands) {
            for program in programs(command) {
                assert!(PROGRAMS.iter().any(|(known, _)| *known == program), "{}: {command}", rule.id);
                named.insert(program);
            }
        }
    }
    for (program, _) in PROGRAMS {
        assert!(named.contains(program), "no fix needs {program}");
    }
}

#[test]
fn programs_that_are_installed_here_are_of_the_packages_named() {
    if !Path::new("/var/lib/dpkg/info").is_dir() {
        return skipped!("this is not Debian");
    }
    let mut checked = 0;
    for (program, package) in PROGRAMS {
        let places = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].map(|directory| format!("{directory}/{program}"));
        let owners = Command::new("dpkg-query").arg("--search").args(&places).output();
        let owners = owners.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        if owners.is_empty() {
            continue;
        }
        checked += 1;
        let owned = owners
            .lines()
            .any(|line| line.split(':').next().is_some_and(|names| names.split(", ").any(|name| name == package)));
        assert!(owned, "{program} is not of {package}: {owners}");
    }
    // Some are installed on every Debian.
    assert!(checked >= 8, "{checked} of {} programs were found", PROGRAMS.len());
}

/// The long options in a command, each with its program. Quoted shell code is ignored.
fn options(command: &str) -> Vec<(String, String)> {
    let mut options = Vec::new();
    for part in command.split(['|', '\'']) {
        let mut program = None;
        for word in part.split_whitespace() {
            match &program {
                // The program that it starts has its own options.
                None if ["sudo", "xargs"].contains(&word) => {}
                None if word.starts_with('-') || word.bytes().all(|byte| byte.is_ascii_uppercase()) => {}
                None => program = Some(word),
                Some(program) if word.starts_with("--") => {
                    let name = word.split('=').next().unwrap_or(word);
                    options.push(((*program).to_owned(), name.to_owned()));
                }
                Some(_) => {}
            }
        }
    }
    options
}

#[test]
fn installed_programs_support_every_option_of_a_fix() {
    let of = |program: &str, name: &str| (program.to_owned(), name.to_owned());
    let piped = options("pgrep --parent 2 | xargs -I PID sudo taskset --pid --cpu-list 0-2 PID");
    assert_eq!(piped, [of("pgrep", "--parent"), of("taskset", "--pid"), of("taskset", "--cpu-list")]);
    let mut wanted = BTreeSet::new();
    for (_, _, finding) in everywhere() {
        wanted.extend(finding.fixes.iter().flat_map(|fix| &fix.commands).flat_map(|command| options(command)));
    }
    assert!(wanted.contains(&of("prlimit", "--rttime")), "{wanted:?}");
    let mut checked = 0;
    for (program, option) in wanted {
        // The options of hpt are tested with the command; apt-cache lists its options only in its manual.
        if ["hpt", "apt-cache"].contains(&program.as_str()) {
            continue;
        }
        let Ok(help) = Command::new(&program).arg("--help").output() else { continue };
        let text = [help.stdout, help.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        // A smaller program of the same name, as busybox has, is not Debian's.
        if !text.contains("--help") || text.contains("BusyBox") {
            continue;
        }
        checked += 1;
        assert!(text.contains(&option), "{program} does not know {option}:\n{text}");
    }
    println!("{checked} options are known to the programs that are installed here");
}

fn fixes_of(examined: &[Examined], rule: &str) -> String {
    let examined = examined.iter().find(|examined| examined.rule.id == rule).expect("there is such a rule");
    let finding = finding(&examined.verdict).unwrap_or_else(|| panic!("{rule}: {:?}", examined.verdict));
    finding.fixes.iter().map(|fix| format!("{}\n{}\n", fix.text, fix.commands.join("\n"))).collect()
}

#[test]
fn fixes_keep_isolated_cpus_isolated() {
    // CPU 3 is isolated there, with words of isolcpus that must be kept.
    let for_one = examined(&host("derived-pc-tuned"), Some(1));
    for (rule, expected) in [
        ("isolated-cpus", "isolcpus=managed_irq,domain,1,3 instead of isolcpus=managed_irq,domain,3"),
        ("isolated-cpus", "AllowedCPUs=0,2"),
        ("tick", "nohz_full=1,3 instead of nohz_full=3"),
        ("rcu-callbacks", "rcu_nocbs=1,3 instead of rcu_nocbs=3"),
        ("interrupts", "irqaffinity=0,2 instead of irqaffinity=0-2"),
        ("interrupts", "echo 0,2 | sudo tee /proc/irq/"),
        ("new-interrupts", "irqaffinity=0,2 instead of irqaffinity=0-2"),
        ("irqbalance", "IRQBALANCE_BANNED_CPULIST=1,3"),
        ("kernel-threads", "nohz_full=1,3"),
        ("kernel-threads", "--cpu-list 0,2 2\n"),
        ("kernel-threads", "echo 5 | sudo tee /sys/devices/virtual/workqueue/cpumask"),
    ] {
        let said = fixes_of(&for_one, rule);
        assert!(said.contains(expected), "{rule}: {expected} is not in\n{said}");
    }
}

#[test]
fn no_fix_isolates_all_cpus() {
    let mut spoiled = capture_of("derived-pc-tuned");
    rewrite(&mut spoiled, "proc/cmdline", "isolcpus=1-3 nohz_full=1-3 rcu_nocbs=1-3\n");
    for list in ["isolated", "nohz_full"] {
        rewrite(&mut spoiled, &format!("sys/devices/system/cpu/{list}"), "1-3\n");
    }
    let for_the_last = examined(&machine_of(spoiled), Some(0));
    for rule in ["isolated-cpus", "tick", "rcu-callbacks"] {
        let said = fixes_of(&for_the_last, rule);
        assert!(said.contains("Choose another CPU, one of 1-3") && !said.contains("=0-3"), "{rule}: {said}");
    }
}

#[test]
fn no_fix_takes_the_named_second_cpu_of_a_core_offline() {
    let untuned = host("derived-pc-untuned");
    let said = |cpu| fixes_of(&examined(&untuned, Some(cpu)), "smt-sibling");
    let all_second_ones = "smt/control";
    // Cores have 0 and 2, 1 and 3.
    assert!(said(1).contains("cpu3/online") && said(1).contains(all_second_ones), "{}", said(1));
    assert!(said(3).contains("cpu1/online") && !said(3).contains(all_second_ones), "{}", said(3));
    assert!(said(0).contains("cpu2/online") && said(0).contains(all_second_ones), "{}", said(0));
    // CPU 0 cannot be taken offline.
    assert!(said(2).contains("Choose another CPU") && !said(2).contains("online\n"), "{}", said(2));
}

#[test]
fn a_frequency_limit_is_raised_to_the_maximum_of_the_fastest_cpu() {
    let mut mixed = capture_of("derived-pc-untuned");
    for (cpu, highest, allowed) in [(0, "1800000", "1400000"), (1, "1800000", "1400000"), (2, "2400000", "2000000")] {
        let directory = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
        rewrite(&mut mixed, &format!("{directory}/cpuinfo_max_freq"), highest);
        rewrite(&mut mixed, &format!("{directory}/scaling_max_freq"), allowed);
    }
    let mixed = machine_of(mixed);
    let lifted = |cpu, to: &str| fixes_of(&examined(&mixed, cpu), "frequency-limit").contains(&format!("echo {to} | "));
    assert!(lifted(None, "3600000") && lifted(Some(0), "1800000") && lifted(Some(2), "2400000"));
}

#[test]
fn a_vendor_that_also_rents_hardware_is_not_a_hypervisor_if_the_processor_reports_none() {
    let mut machine = capture_of("derived-pc-untuned");
    for (name, expected) in [("Amazon EC2", false), ("Google", false), ("QEMU", true)] {
        rewrite(&mut machine, "sys/class/dmi/id/sys_vendor", name);
        let found = found(&machine_of(machine.clone()), None);
        assert_eq!(found.contains_key("virtual-machine"), expected, "{name}");
    }
    // ARM has no CPUID to distinguish the two.
    rewrite(&mut machine, "sys/class/dmi/id/sys_vendor", "Amazon EC2");
    let mut facts = host("derived-pc-untuned").facts().clone();
    facts.cpuid.clear();
    assert!(found(&Host::captured(machine, facts), None).contains_key("virtual-machine"));
}

/// Replaces a file of a capture.
fn rewrite(capture: &mut Capture, path: &str, text: &str) {
    let _ = content(capture, path);
    write(capture, path, text);
}

#[test]
fn no_fix_isolates_the_only_cpu() {
    for name in ["derived-pc-untuned", "derived-raspberry-pi-4-untuned"] {
        let mut alone = capture_of(name);
        rewrite(&mut alone, "sys/devices/system/cpu/online", "0\n");
        let alone = machine_of(alone);
        for cpu in [None, Some(0)] {
            let examined = examined(&alone, cpu);
            for one in &examined {
                let Some(finding) = finding(&one.verdict) else { continue };
                let commands = finding.fixes.iter().flat_map(|fix| fix.commands.iter().chain([&fix.text]));
                for said in commands {
                    let words = ["isolcpus=", "nohz_full=", "rcu_nocbs=", "irqaffinity=", "smp_affinity", "cpumask"];
                    let nonsense = words.into_iter().find(|word| said.contains(word));
                    assert_eq!(nonsense, None, "{} on {name}: {said}", one.rule.id);
                }
            }
            assert!(fixes_of(&examined, "isolated-cpus").contains("hpt run --fifo"), "{name}");
            for one in &examined {
                let others = ["tick", "rcu-callbacks", "interrupts", "new-interrupts", "irqbalance", "kernel-threads"];
                let is_of_others = others.contains(&one.rule.id);
                assert!(!is_of_others || finding(&one.verdict).is_none(), "{} on {name}", one.rule.id);
            }
        }
    }
}

#[test]
fn a_kernel_with_real_time_groups_throttles_even_after_6_12() {
    // One has such groups, the other does not.
    let (with, without) =
        (found(&host("amd-epyc-zen5-kvm-limited"), None), found(&host("amd-epyc-zen4-kvm-as-root"), None));
    assert_eq!(with.get("throttling"), Some(&(Severity::High, true)));
    assert!(!without.contains_key("throttling"));
    assert_eq!(with.get("right-to-realtime"), Some(&(Severity::High, true)), "a group may get no real-time time");
}

/// The verdict of a rule on CPU 3 of a machine whose kernel was booted with these parameters, has
/// no nohz_full, and shows threads with these names, or none at all.
fn with_threads(rule: &str, command_line: &str, threads: Option<&[&str]>) -> Verdict {
    let name = "derived-pc-untuned";
    let mut capture = capture_of(name);
    rewrite(&mut capture, "proc/cmdline", command_line);
    let mut facts = serde_json::to_value(host(name).facts()).expect("facts are numbers and names");
    let thread = |name: &&str| serde_json::json!({ "name": name, "cpus": "0-2", "policy": 0, "priority": 0 });
    facts["situation"]["kernel_threads"] = threads.map(|names| names.iter().map(thread).collect::<Vec<_>>()).into();
    let machine = Host::captured(capture, serde_json::from_value(facts).expect("and are read again"));
    let verdict = |host: &Host| {
        let examined = examined(host, Some(3));
        examined.into_iter().find(|one| one.rule.id == rule).expect("there is such a rule").verdict
    };
    let said = verdict(&machine);
    assert_eq!(said, verdict(&captured_again(&machine)), "a capture has the same verdict");
    said
}

#[test]
fn the_cpus_that_run_rcu_callbacks_follow_from_the_threads_that_run_them() {
    let callbacks = |command_line, threads| with_threads("rcu-callbacks", command_line, threads);
    let on_itself = |verdict: Verdict, expected: &str, certain: bool| {
        let finding = finding(&verdict).unwrap_or_else(|| panic!("{verdict:?}"));
        let fixes: Vec<&str> = finding.fixes.iter().map(|fix| fix.text.as_str()).collect();
        assert!(fixes.iter().all(|text| text.contains(expected)) && !fixes.is_empty(), "{fixes:?}");
        assert_eq!((finding.severity, finding.certain), (Severity::Low, certain), "{}", finding.observed);
    };
    let (none, all) = (Some(&["kthreadd"][..]), Some(&["rcuog/0", "rcuop/2", "rcuop/3"][..]));
    // Requested, and supported or not.
    assert!(matches!(callbacks("rcu_nocbs=3", all), Verdict::Pass(_)));
    on_itself(callbacks("rcu_nocbs=3", none), "CONFIG_RCU_NOCB_CPU", true);
    on_itself(callbacks("rcu_nocbs=3", Some(&["rcuog/3", "rcuop/2"])), "CONFIG_RCU_NOCB_CPU", true);
    // All have a thread as soon as one CPU is listed.
    on_itself(callbacks("rcu_nocbs=2", all), "rcu_nocbs=2-3", true);
    on_itself(callbacks("quiet", none), "rcu_nocbs=3", true);
    // A kernel may be built to offload all CPUs.
    assert!(matches!(callbacks("quiet", all), Verdict::Pass(_)));
    // No thread is visible.
    assert!(matches!(callbacks("rcu_nocbs=3", None), Verdict::Unknown { why, .. } if why.contains("threads")));
    on_itself(callbacks("quiet", None), "rcu_nocbs=3", false);
    on_itself(callbacks("rcu_nocbs=2", None), "rcu_nocbs=2-3", true);
}

#[test]
fn rcu_nocbs_is_ignored_if_no_thread_runs_the_callbacks() {
    let ignored = |command_line, threads| with_threads("parameters-ignored", command_line, threads);
    let observed = |verdict: Verdict| finding(&verdict).unwrap_or_else(|| panic!("{verdict:?}")).observed.clone();
    let (none, all) = (Some(&["kthreadd"][..]), Some(&["rcuop/2", "rcuop/3"][..]));
    assert!(matches!(ignored("rcu_nocbs=3", all), Verdict::Pass(_)));
    assert_eq!(observed(ignored("rcu_nocbs=3", none)), "rcu_nocbs=3 is set, but not in effect");
    assert_eq!(observed(ignored("rcu_nocbs=1,3", all)), "rcu_nocbs=1,3 is set, but not in effect on CPU 1");
    assert_eq!(observed(ignored("rcu_nocbs=x-", none)), "rcu_nocbs=x- is set, but is not valid");
    assert!(matches!(ignored("rcu_nocbs=3", None), Verdict::Unknown { why, .. } if why.contains("threads")));
    assert!(matches!(ignored("rcu_nocbs", none), Verdict::NotApplicable(_)), "it lists no CPU");
}

#[test]
fn an_unsynchronized_clock_counts_as_wrong_time() {
    assert!(with_severity("qemu-raspi3b-as-root", Goal::Timekeeping, Severity::High).contains(&"wall-time"));
}

/// The verdict of `throttling` on a machine whose control groups have this version, and no setting
/// for real-time threads.
fn throttling_by_groups_of(version_1: bool) -> Verdict {
    let name = "amd-epyc-zen5-kvm-limited";
    let mut facts = serde_json::to_value(host(name).facts()).expect("facts are numbers and names");
    let groups = &mut facts["situation"]["control_groups"];
    groups["realtime_us"] = serde_json::Value::Null;
    groups["are_of_version_1"] = version_1.into();
    let facts = serde_json::from_value(facts).expect("and are read again");
    let examined = examined(&Host::captured(capture_of(name), facts), None);
    examined.into_iter().find(|one| one.rule.id == "throttling").expect("there is such a rule").verdict
}

#[test]
fn without_a_file_only_groups_of_version_1_prove_that_there_is_no_real_time_group() {
    assert!(matches!(throttling_by_groups_of(true), Verdict::NotApplicable(why) if !why.contains("unless")));
    assert!(
        matches!(throttling_by_groups_of(false), Verdict::Unknown { why, is_unlikely: true, .. } if why.contains("CONFIG_RT_GROUP_SCHED"))
    );
}

#[test]
fn gaps_that_throttling_may_cause_prove_no_fair_server() {
    let ms = Duration::from_millis;
    let gap = |began| Gap { began: ms(began), length: ms(50), waited: Some(ms(50)) };
    let gaps = Gaps { gaps: [100, 1_100, 2_100].map(gap).to_vec(), window: ms(3_200) };
    let proven = |name: &str, rule: &str| {
        let facts = MachineFacts::new(&host(name));
        let mut examined = examine(&facts, None, Goal::Realtime);
        prove(&mut examined, &facts, 0, &gaps);
        let one = examined.iter().find(|one| one.rule.id == rule).expect("there is such a rule");
        let finding = finding(&one.verdict).unwrap_or_else(|| panic!("{rule}: {:?}", one.verdict)).clone();
        assert!(finding.observed.contains("measured: the kernel paused a busy-polling thread"), "{}", finding.observed);
        (finding.certain, finding.observed.contains("is unknown"))
    };
    // One throttles, the other does not.
    let (both, alone) = ("amd-epyc-zen5-kvm-limited", "amd-epyc-zen4-kvm-as-root");
    assert_eq!(proven(both, "throttling"), (true, false));
    assert_eq!(proven(both, "fair-server"), (false, true));
    assert_eq!(proven(alone, "fair-server"), (true, false));
}

#[test]
fn no_claim_about_time_daemons_is_made_if_processes_are_hidden() {
    let name = "qemu-raspi3b-as-root";
    let said = |daemons: serde_json::Value| {
        let mut facts = serde_json::to_value(host(name).facts()).expect("facts are numbers and names");
        facts["situation"]["time_daemons"] = daemons;
        let facts = serde_json::from_value(facts).expect("and are read again");
        let examined = examined(&Host::captured(capture_of(name), facts), None);
        let one = examined.iter().find(|one| one.rule.id == "wall-time").expect("there is such a rule");
        (
            finding(&one.verdict).expect("the clock is not synchronized there").observed.clone(),
            fixes_of(&examined, "wall-time"),
        )
    };
    let (observed, fixes) = said(serde_json::json!([]));
    assert!(
        observed.contains("no known time daemon is running") && fixes.contains("Install a time daemon"),
        "{observed}"
    );
    let (observed, fixes) = said(serde_json::Value::Null);
    assert!(observed.contains("is not visible here"), "{observed}");
    assert!(!fixes.is_empty() && !fixes.to_lowercase().contains("install"), "{fixes}");
}

#[test]
fn fixes_mount_debugfs_before_they_disable_the_fair_server() {
    let examined = examined(&host("derived-raspberry-pi-5"), None);
    let one = examined.iter().find(|one| one.rule.id == "fair-server").expect("there is such a rule");
    let with_commands = finding(&one.verdict).expect("it has one").fixes.iter().filter(|fix| !fix.commands.is_empty());
    let firsts: Vec<&str> = with_commands.map(|fix| fix.commands[0].as_str()).collect();
    assert_eq!(firsts, ["sudo mount -t debugfs none /sys/kernel/debug"; 2]);
}

#[test]
fn fixes_name_the_file_that_has_the_boot_parameters_of_this_machine() {
    let at_boot = |name: &str| fixes_of(&examined(&host(name), Some(1)), "isolated-cpus");
    let with_grub = at_boot("derived-pc-untuned");
    assert!(with_grub.contains("/etc/default/grub") && with_grub.contains("sudo update-grub"), "{with_grub}");
    let by_firmware = at_boot("derived-raspberry-pi-4-tuned");
    assert!(by_firmware.contains("/boot/firmware/cmdline.txt") && !by_firmware.contains("grub"), "{by_firmware}");
    let before_12 = at_boot("derived-raspberry-pi-4-untuned");
    assert!(before_12.contains("of /boot/cmdline.txt") && !before_12.contains("grub"), "{before_12}");
    let systemd = at_boot("derived-kvm-nothing-stolen");
    assert!(systemd.contains("/etc/kernel/cmdline") && !systemd.contains("grub"), "{systemd}");
    assert!(systemd.contains("sudo kernel-install add 6.18.44-fc-v595 /boot/vmlinuz-6.18.44-fc-v595"), "{systemd}");
    // The boot loader of these is not known.
    for name in ["amd-epyc-zen4-kvm-as-root", "qemu-raspi3b-as-root"] {
        let in_words = at_boot(name);
        assert!(
            !in_words.contains("sudo update-grub") && !in_words.contains("sudo kernel-install"),
            "{name}: {in_words}"
        );
    }
}

#[test]
fn the_idle_states_of_a_host_never_pass() {
    for name in all() {
        let examined = examined(&host(&name), None);
        let verdict = |id| &examined.iter().find(|one| one.rule.id == id).expect("there is such a rule").verdict;
        // The CPUs of an emulated machine are not those of a host.
        let is_virtual =
            finding(verdict("virtual-machine")).is_some_and(|finding| finding.observed.contains("runs under"));
        let idle = verdict("idle-states");
        assert!(!is_virtual || !matches!(idle, Verdict::Pass(_)), "{name}: {idle:?}");
    }
}

#[test]
fn kthreadd_and_unbound_workers_are_among_the_kernel_threads() {
    let name = "derived-pc-untuned";
    let examined = examined(&host(name), Some(1));
    let one = examined.iter().find(|one| one.rule.id == "kernel-threads").expect("there is such a rule");
    let observed = &finding(&one.verdict).expect("they may run there").observed;
    assert!(observed.contains("(kthreadd, ") && observed.contains("1 named kworker/u*"), "{observed}");
    let said = fixes_of(&examined, "kernel-threads");
    assert!(said.contains("taskset --pid --cpu-list 0,2 2\n") && said.contains("workqueue/cpumask"), "{said}");
}

/// Captures a machine, writes the capture and reads it again.
fn captured_again(original: &Host) -> Host {
    let text = capture_with_facts(original).to_string();
    machine_of(Capture::parse(text.as_bytes()).unwrap_or_else(|fault| panic!("{fault}\n{text}")))
}

fn capture_with_facts(machine: &Host) -> Capture {
    let mut capture = machine.capture().capture;
    capture.set_facts(serde_json::to_string(&machine.facts_to_capture()).expect("facts are numbers and names"));
    capture
}

#[test]
fn a_capture_of_any_machine_has_the_verdicts_of_the_machine() {
    for name in all() {
        let again = captured_again(&host(&name));
        for cpu in SUBJECTS {
            let (original, again) = (examined(&host(&name), cpu), examined(&again, cpu));
            for (original, again) in original.iter().zip(&again) {
                assert_eq!(original.verdict, again.verdict, "{} on {name}", original.rule.id);
            }
        }
        assert_eq!(MachineFacts::new(&host(&name)).needs_root(), MachineFacts::new(&again).needs_root(), "{name}");
    }
}

#[test]
fn a_capture_of_this_machine_has_the_verdicts_of_the_machine() {
    let looks = (0..5).map(|_| {
        let mut live = found(&Host::live(), None);
        let mut again = found(&captured_again(&Host::live()), None);
        // These change all the time, and may pass a limit between the two.
        for id in ["stolen-time", "temperature", "slowed-down"] {
            live.remove(id);
            again.remove(id);
        }
        (live, again)
    });
    // Another process may change the machine once in between.
    let looks: Vec<_> =
        looks.scan(false, |same, look| (!std::mem::replace(same, look.0 == look.1)).then_some(look)).collect();
    let (live, again) = looks.last().expect("at least one");
    assert_eq!(live, again);
}

/// Secrets may be in these files, and must not be in a capture.
#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn nothing_private_is_in_a_capture() {
    const SECRETS: [&str; 9] = [
        "10000000deadbeef",
        "alices-laptop",
        "alice",
        "hunter2",
        "enx001122334455",
        "/home/",
        "cafe-wlan",
        "wg-secret",
        "0f9c1f39",
    ];
    let mut planted = Capture::new();
    let mut plant = |path: &str, content: &str| write(&mut planted, path, content);
    plant("proc/cpuinfo", "model name : x\nflags : tsc\nSerial\t\t: 10000000deadbeef\nModel : Raspberry Pi 4\n");
    plant(
        "proc/cmdline",
        "root=/dev/alice isolcpus=3 password=hunter2 smsc95xx.macaddr=enx001122334455 -- init=/home/alice/init\n",
    );
    plant(
        "proc/interrupts",
        " CPU0 CPU1\n 33: 1 2 PCI-MSI 1-edge enx001122334455\n 34: 1 2 GIC 3 Level mmc0, alice\n 35: 1 2 GIC 3 Level wlan-cafe-wlan\n",
    );
    plant("proc/swaps", "Filename Type Size Used Priority alice\n/home/alice/swap file 1 2 3\n");
    plant("proc/thread-self/status", "Name:\talice\nUid:\t1000 hunter2\nCapEff:\t0000000000000000\n");
    plant("proc/thread-self/cgroup", "0::/user.slice/user-alice.slice/hunter2.scope\n");
    plant("sys/fs/cgroup/user.slice/user-alice.slice/cpu.max", "50000 100000\n");
    plant("boot/firmware/cmdline.txt", "password=hunter2\n");
    plant("etc/default/grub", "GRUB_CMDLINE_LINUX=password=hunter2\n");
    plant("proc/thread-self/limits", "Limit alice\nMax locked memory 1 1 bytes\nMax realtime priority 0 0\n");
    plant("proc/stat", "cpu  1 2 3 4 5 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nalice 5\n");
    plant("proc/sys/kernel/hostname", "alices-laptop\n");
    plant("proc/sys/kernel/random/boot_id", "0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10\n");
    plant(
        "proc/2/stat",
        "2 (wg-secret-alice) S 0 0 0 0 -1 2129984 0 0 0 0 0 2 0 0 20 0 1 0 25 0 0 1 0 0 0 0 0 0 0 2147483647 0 1 0 0 0 0 0\n",
    );
    plant("proc/2/comm", "wg-secret-alice\n");
    plant("proc/2/status", "Name:\twg-secret-alice\nCpus_allowed_list:\t0-1\n");
    plant("proc/77/cmdline", "vi\0/home/alice/hunter2\0");
    plant("proc/77/comm", "alice\n");
    plant("proc/device-tree/serial-number", "10000000deadbeef\0");
    plant("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0");
    plant(
        "dev/kmsg",
        "5,0,0,-;Linux version 6.1 (alice@alices-laptop)\n6,7,1,-;Kernel command line: tsc=reliable password=hunter2\n6,8,2,-;usb: SerialNumber: 10000000deadbeef\n12,9,3,-;alice: tsc of alices-laptop\n14,10,4,-;clocksource hunter2\n",
    );
    plant("sys/class/dmi/id/sys_vendor", "LENOVO\n");
    plant("sys/class/dmi/id/product_serial", "10000000deadbeef\n");
    plant("sys/class/net/enx001122334455/address", "00:11:22:33:44:55\n");
    plant("etc/hostname", "alices-laptop\n");
    let thread = serde_json::json!({ "name": "wg-secret-alice", "cpus": "0-1", "policy": 0, "priority": 0 });
    let situation: Situation = serde_json::from_value(
        serde_json::json!({ "kernel_threads": [thread], "control_groups": { "cpus": "alices-laptop" } }),
    )
    .expect("a situation");
    let facts = facts_in(Some(situation), "qemu-raspi4b");
    let captured = capture_with_facts(&Host::captured(planted, facts));
    assert!(files(&captured).len() >= 10, "{captured:?}");
    let contents =
        files(&captured).into_iter().map(|path| String::from_utf8_lossy(content(&captured, &path)).into_owned());
    for said in contents.chain([captured.to_string(), captured.facts().to_owned()]) {
        for secret in SECRETS {
            assert!(!said.contains(secret), "{secret} in\n{said}");
        }
    }
    // The required parts of these files are still there.
    let of = |path: &str| String::from_utf8_lossy(content(&captured, path)).into_owned();
    assert!(of("proc/cmdline").contains("isolcpus=3") && of("proc/interrupts").contains("mmc0"));
    assert_eq!(of("proc/swaps").lines().count(), 2);
}

#[test]
fn entries_that_are_not_files_are_examined_without_a_panic() {
    for name in ["derived-pc-untuned", "derived-raspberry-pi-4-untuned"] {
        let mut spoiled = capture_of(name);
        for (index, path) in files(&spoiled).into_iter().enumerate() {
            spoiled.remove(&path).expect("it is one of them");
            let (path, entry) = match index % 6 {
                0 => (format!("{path}/in a directory"), Entry::File(Vec::new())),
                1 => (path.clone(), Entry::Unreadable(ReadRefused::NotRegular)),
                2 => (path.clone(), Entry::Link(path.clone())),
                3 => (path.clone(), Entry::Link("/dev/zero".to_owned())),
                4 => (path.clone(), Entry::Unreadable(ReadRefused::Errno(5))),
                _ => (path.clone(), Entry::Absent),
            };
            spoiled.insert(&path, entry).expect("a sound path");
        }
        let spoiled = machine_of(spoiled);
        for cpu in SUBJECTS {
            assert_eq!(examined(&spoiled, cpu).len(), rules().count());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any bytes in any files of a captured machine, and files truncated anywhere: every rule has a
    /// verdict, without a panic.
    #[test]
    fn a_captured_machine_of_any_bytes_is_examined_without_a_panic(
        pi in any::<bool>(),
        changes in vec((any::<Index>(), vec(any::<u8>(), 0..40), any::<bool>()), 1..12),
        cpu in proptest::option::of(0_usize..10_000),
    ) {
        let mut spoiled = capture_of(if pi { "derived-raspberry-pi-4-untuned" } else { "derived-pc-untuned" });
        let files = files(&spoiled);
        for (file, bytes, cut) in changes {
            let file = file.get::<String>(&files);
            let content = content(&spoiled, file);
            let changed = if cut { content[..content.len().min(bytes.len())].to_vec() } else { bytes };
            write(&mut spoiled, file, changed);
        }
        let spoiled = machine_of(spoiled);
        assert_eq!(examined(&spoiled, cpu).len(), rules().count());
        let _ = captured_again(&spoiled);
    }

    #[test]
    fn numbers_of_any_size_are_examined_without_a_panic(pi in any::<bool>(), number in any::<i128>(), list in "[0-9]{1,25}(-[0-9]{1,25})?") {
        let mut spoiled = capture_of(if pi { "derived-raspberry-pi-4-untuned" } else { "derived-pc-untuned" });
        for file in files(&spoiled) {
            let content = String::from_utf8(content(&spoiled, &file).to_vec()).unwrap_or_default();
            if content.trim().parse::<i64>().is_ok() {
                write(&mut spoiled, &file, if content.len() % 2 == 0 { number.to_string() } else { list.clone() });
            }
        }
        let spoiled = machine_of(spoiled);
        for cpu in SUBJECTS {
            assert_eq!(examined(&spoiled, cpu).len(), rules().count());
        }
    }
}

/// The paths of numbers and words in a document; of a list, only those in its first entry.
fn places(value: &serde_json::Value, place: &str) -> Vec<String> {
    match value {
        serde_json::Value::Object(entries) => {
            entries.iter().flat_map(|(name, value)| places(value, &format!("{place}/{name}"))).collect()
        }
        serde_json::Value::Array(values) => {
            values.first().map_or_else(Vec::new, |first| places(first, &format!("{place}/0")))
        }
        serde_json::Value::Number(_) | serde_json::Value::String(_) => vec![place.to_owned()],
        serde_json::Value::Null | serde_json::Value::Bool(_) => Vec::new(),
    }
}

#[test]
fn facts_of_any_numbers_and_words_are_examined_without_a_panic() {
    let others = [
        serde_json::json!(i64::MIN),
        serde_json::json!(i64::MAX),
        serde_json::json!(u64::MAX),
        serde_json::json!(u32::MAX),
        serde_json::json!(0),
        serde_json::json!("0-8191"),
        serde_json::json!("\u{1b}[31m\n"),
    ];
    let mut judged = 0;
    for name in ["derived-pc-untuned", "amd-epyc-zen5-kvm-limited"] {
        let facts = serde_json::to_value(host(name).facts()).expect("facts are numbers and names");
        for place in places(&facts, "") {
            for other in &others {
                let mut spoiled = facts.clone();
                *spoiled.pointer_mut(&place).expect("it is one of its places") = other.clone();
                let Ok(spoiled) = serde_json::from_value(spoiled) else { continue };
                let machine = Host::captured(capture_of(name), spoiled);
                assert_eq!(examined(&machine, Some(3)).len(), rules().count(), "{place} of {name}: {other}");
                judged += 1;
            }
        }
    }
    assert!(judged > 100, "{judged}");
}

/// The severities of a rule's findings for each goal, for example `high for realtime; otherwise a note`.
fn severities(rule: &Rule) -> String {
    let named = |severity| {
        let goals: Vec<_> = Goal::ALL.into_iter().filter(|&goal| rule.relevance.severity(goal) == severity).collect();
        let names: Vec<_> = goals.iter().map(|goal| format!("`{}`", goal.name())).collect();
        let joined = match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
            _ => names.concat(),
        };
        (goals.len(), joined)
    };
    let problems = [Severity::High, Severity::Low].map(|severity| (severity, named(severity)));
    let (notes, note_goals) = named(Severity::Info);
    let mut parts: Vec<String> = problems
        .iter()
        .filter(|(_, (count, _))| *count > 0)
        .map(|(severity, (count, goals))| {
            let goals = if *count == Goal::ALL.len() { "all goals" } else { goals };
            format!("{} for {goals}", severity.name())
        })
        .collect();
    match notes {
        0 => {}
        4 => parts.push("always a note".to_owned()),
        1 => parts.push(format!("a note for {note_goals}")),
        _ => parts.push("otherwise a note".to_owned()),
    }
    parts.join("; ")
}

/// The generated part of docs/doctor.md: every rule, with its fixes on one of the machines on which it fires.
fn page() -> String {
    let found = everywhere();
    let mut page = String::new();
    for theme in THEMES {
        let _ = write!(page, "\n## {}\n", theme.title);
        for rule in theme.rules {
            let (_, machine, example) = found
                .iter()
                .filter(|(of, ..)| of.id == rule.id)
                .max_by_key(|(_, name, finding)| {
                    let is_usual = name == "derived-pc-untuned";
                    (finding.fixes.len(), name.starts_with("derived-raspberry"), is_usual, name.clone())
                })
                .expect("every rule fires somewhere");
            let _ = write!(page, "\n### {} (`{}`)\n\n", rule.title, rule.id);
            let _ = write!(page, "Checks {}. {} Affects: {}.\n\n", rule.about, rule.why, rule.affects);
            let _ = writeln!(page, "- Severity: {}", severities(rule));
            let certain = if example.certain { "" } else { ", likely" };
            let _ = writeln!(page, "- Example (`{machine}`{certain}): {}", example.observed);
            for fix in &example.fixes {
                let commands: Vec<String> = fix.commands.iter().map(|command| format!("`{command}`")).collect();
                let separator = if commands.is_empty() { "" } else { ": " };
                let _ = writeln!(page, "- Fix: {}{separator}{}", fix.text, commands.join(", "));
            }
            let _ = writeln!(page, "- See: {}", rule.references.join("; "));
        }
    }
    page.push_str("\n## Programs in the fixes\n\n| program | package of Debian and Raspberry Pi OS |\n| --- | --- |\n");
    for (program, package) in PROGRAMS {
        let _ = writeln!(page, "| `{program}` | {package} |");
    }
    page
}

#[test]
fn the_page_in_the_docs_has_every_rule() {
    const BEGIN: &str =
        "<!-- rules:begin, by UPDATE_DOCS=1 cargo test -p hpt-instrument --all-features the_page_in_the_docs -->\n";
    const END: &str = "<!-- rules:end -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let text = fs::read_to_string(&path).expect("docs/doctor.md is there");
    let (before, rest) = text.split_once(BEGIN).expect("the page has a section for the rules");
    let (now, after) = rest.split_once(END).expect("which ends");
    let expected = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).expect("the checkout is ours");
    } else {
        assert!(now == expected, "docs/doctor.md is out of date; run this test with UPDATE_DOCS=1");
    }
}
