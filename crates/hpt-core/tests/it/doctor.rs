//! What is said to be in the way on captured and derived machines: every rule where it fires and where it is silent, and a page of the docs about each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
    time::Duration,
};

use hpt_core::{
    Host,
    diagnose::{Examined, Finding, Hole, Holes, MachineFacts, Rule, Severity, THEMES, Verdict, examine, prove},
    host::{Capture, Entry, Facts, ReadRefused, Situation},
};
use proptest::{
    collection::vec,
    prelude::{ProptestConfig, any, proptest},
    sample::Index,
};

use crate::hosts::{all, capture_of, content, files, host, machine_of, write};

/// Without a CPU, and with one that no derived machine keeps free, and one that most do.
const SUBJECTS: [Option<usize>; 3] = [None, Some(1), Some(3)];

fn rules() -> impl Iterator<Item = &'static Rule> {
    THEMES.iter().flat_map(|theme| theme.rules)
}

fn examined(host: &Host, cpu: Option<usize>) -> Vec<Examined> {
    examine(&MachineFacts::of(host), cpu)
}

fn finding(verdict: &Verdict) -> Option<&Finding> {
    match verdict {
        Verdict::Found(finding) => Some(finding),
        Verdict::Fine(_) | Verdict::NotHere(_) | Verdict::Untold { .. } => None,
    }
}

/// What is found on a machine: rule, severity, whether it was seen.
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
fn every_rule_fires_on_one_machine_and_finds_another_as_it_should_be() {
    let (mut fires, mut fine) = (BTreeSet::new(), BTreeSet::new());
    for name in all() {
        for cpu in SUBJECTS {
            for examined in examined(&host(&name), cpu) {
                match examined.verdict {
                    Verdict::Found(_) => fires.insert(examined.rule.id),
                    Verdict::Fine(_) => fine.insert(examined.rule.id),
                    Verdict::NotHere(_) | Verdict::Untold { .. } => false,
                };
            }
        }
    }
    for rule in rules() {
        assert!(fires.contains(rule.id), "no machine has what {} is about", rule.id);
        assert!(fine.contains(rule.id), "no machine is as it should be for {}", rule.id);
    }
}

#[test]
fn nothing_is_in_the_way_on_machines_that_were_made_so() {
    for name in ["derived-pc-tuned", "derived-raspberry-pi-4-tuned"] {
        for cpu in [None, Some(3)] {
            for examined in examined(&host(name), cpu) {
                let silent = matches!(examined.verdict, Verdict::Fine(_) | Verdict::NotHere(_));
                assert!(silent, "{} on {name}: {:?}", examined.rule.id, examined.verdict);
            }
        }
    }
}

#[test]
fn a_cpu_that_nobody_keeps_free_is_told_apart_from_one_that_is() {
    let on_one = found(&host("derived-pc-tuned"), Some(1));
    for id in ["isolated-cpus", "tick", "rcu-callbacks", "interrupts", "irqbalance", "kernel-threads"] {
        assert!(on_one.contains_key(id), "{id}: {on_one:?}");
    }
    assert_eq!(on_one.get("isolated-cpus"), Some(&(Severity::Major, true)));
}

#[test]
fn what_only_root_is_told_is_likely_and_not_seen() {
    let pi = MachineFacts::of(&host("derived-raspberry-pi-4-untuned"));
    assert_eq!(
        found(&host("derived-raspberry-pi-4-untuned"), None).get("fair-server"),
        Some(&(Severity::Major, false))
    );
    let root = pi.root_would_be_told();
    assert!(root.iter().any(|what| what.contains("fair_server")) && root.len() == 2, "{root:?}");
    assert!(MachineFacts::of(&host("derived-pc-tuned")).root_would_be_told().is_empty());
}

#[test]
fn a_virtual_machine_has_no_governor_and_none_is_missed() {
    let name = "amd-epyc-zen4-kvm-as-root";
    for examined in examined(&host(name), None) {
        if ["governor", "frequency-limit", "turbo", "slowed-down"].contains(&examined.rule.id) {
            assert!(matches!(examined.verdict, Verdict::NotHere(_)), "{:?}", examined.verdict);
        }
    }
    let found = found(&host(name), None);
    assert_eq!(found.get("virtual-machine"), Some(&(Severity::ToKnow, true)));
    // Its kernel is one of those that no period throttles.
    assert!(!found.contains_key("throttling") && found.contains_key("fair-server"), "{found:?}");
}

/// The facts of a captured machine, in this situation.
fn facts_in(situation: Option<Situation>, name: &str) -> Facts {
    let mut facts = host(name).facts().clone();
    facts.situation = situation;
    facts
}

#[test]
fn without_proc_and_sys_nothing_is_claimed_of_what_is_there() {
    for name in all() {
        let nothing = Host::captured(Capture::new(), facts_in(None, &name));
        for cpu in SUBJECTS {
            for (id, (_, certain)) in found(&nothing, cpu) {
                // uname and CPUID tell of these.
                assert!(!certain || ["preemption", "virtual-machine"].contains(&id), "{id} on {name} without files");
            }
        }
    }
}

/// The programs that remedies name, and the package of Debian, and so of Raspberry Pi OS, that has each.
const PROGRAMS: [(&str, &str); 22] = [
    ("apt-cache", "apt"),
    ("apt-get", "apt"),
    ("cat", "coreutils"),
    ("echo", "coreutils"),
    ("groupadd", "passwd"),
    ("hpt", "hpt itself"),
    ("kernel-install", "systemd"),
    ("mount", "mount"),
    ("pgrep", "procps"),
    ("prlimit", "util-linux"),
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
fn every_remedy_is_one_of_debians_programs() {
    assert_eq!(programs("pgrep x | xargs -I PID sudo taskset -p PID"), ["pgrep", "xargs", "sudo", "taskset"]);
    let mut named = BTreeSet::new();
    for (rule, name, finding) in everywhere() {
        assert!(!finding.remedies.is_empty(), "{} on {name} says nothing that helps", rule.id);
        for command in finding.remedies.iter().flat_map(|remedy| &remedy.commands) {
            for program in programs(command) {
                assert!(PROGRAMS.iter().any(|(known, _)| *known == program), "{}: {command}", rule.id);
                named.insert(program);
            }
        }
    }
    for (program, _) in PROGRAMS {
        assert!(named.contains(program), "no remedy needs {program}");
    }
}

#[test]
fn programs_that_are_installed_here_are_of_the_packages_named() {
    if !Path::new("/var/lib/dpkg/info").is_dir() {
        return skipped!("this is no Debian");
    }
    let mut checked = 0;
    for (program, package) in PROGRAMS {
        let places = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].map(|folder| format!("{folder}/{program}"));
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
    // Those that no Debian is without.
    assert!(checked >= 8, "{checked} of {} programs were found", PROGRAMS.len());
}

/// The long options in a command, with the program that each is given to. What a shell has in quotes is not looked at.
fn options(command: &str) -> Vec<(String, String)> {
    let mut options = Vec::new();
    for part in command.split(['|', '\'']) {
        let mut program = None;
        for word in part.split_whitespace() {
            match &program {
                // What it starts has options of its own.
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
fn every_option_of_a_remedy_is_known_to_its_program_where_that_is_installed() {
    let of = |program: &str, name: &str| (program.to_owned(), name.to_owned());
    let piped = options("pgrep --parent 2 | xargs -I PID sudo taskset --pid --cpu-list 0-2 PID");
    assert_eq!(piped, [of("pgrep", "--parent"), of("taskset", "--pid"), of("taskset", "--cpu-list")]);
    let mut wanted = BTreeSet::new();
    for (_, _, finding) in everywhere() {
        wanted.extend(finding.remedies.iter().flat_map(|remedy| &remedy.commands).flat_map(|command| options(command)));
    }
    assert!(wanted.contains(&of("prlimit", "--rttime")), "{wanted:?}");
    let mut checked = 0;
    for (program, option) in wanted {
        // hpt's own are checked where the command is; apt-cache tells of its options in its manual alone.
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

/// The texts and commands of what one rule found.
fn remedies(examined: &[Examined], rule: &str) -> String {
    let examined = examined.iter().find(|examined| examined.rule.id == rule).expect("there is such a rule");
    let finding = finding(&examined.verdict).unwrap_or_else(|| panic!("{rule}: {:?}", examined.verdict));
    let remedies = finding.remedies.iter();
    remedies.map(|remedy| format!("{}\n{}\n", remedy.text, remedy.commands.join("\n"))).collect()
}

#[test]
fn remedies_keep_free_what_is_kept_free_already() {
    // CPU 3 is kept free there, with words of isolcpus that are not lost.
    let for_one = examined(&host("derived-pc-tuned"), Some(1));
    for (rule, expected) in [
        ("isolated-cpus", "isolcpus=managed_irq,domain,1,3 in the place of isolcpus=managed_irq,domain,3"),
        ("isolated-cpus", "AllowedCPUs=0,2"),
        ("tick", "nohz_full=1,3 in the place of nohz_full=3"),
        ("rcu-callbacks", "rcu_nocbs=1,3 in the place of rcu_nocbs=3"),
        ("interrupts", "irqaffinity=0,2 in the place of irqaffinity=0-2"),
        ("interrupts", "echo 0,2 | sudo tee /proc/irq/"),
        ("new-interrupts", "irqaffinity=0,2 in the place of irqaffinity=0-2"),
        ("irqbalance", "IRQBALANCE_BANNED_CPULIST=1,3"),
        ("kernel-threads", "nohz_full=1,3"),
        ("kernel-threads", "--cpu-list 0,2 2\n"),
        ("kernel-threads", "echo 5 | sudo tee /sys/devices/virtual/workqueue/cpumask"),
    ] {
        let said = remedies(&for_one, rule);
        assert!(said.contains(expected), "{rule}: {expected} is not in\n{said}");
    }
}

#[test]
fn no_remedy_keeps_all_cpus_free() {
    let mut spoilt = capture_of("derived-pc-tuned");
    rewrite(&mut spoilt, "proc/cmdline", "isolcpus=1-3 nohz_full=1-3 rcu_nocbs=1-3\n");
    for list in ["isolated", "nohz_full"] {
        rewrite(&mut spoilt, &format!("sys/devices/system/cpu/{list}"), "1-3\n");
    }
    let for_the_last = examined(&machine_of(spoilt), Some(0));
    for rule in ["isolated-cpus", "tick", "rcu-callbacks"] {
        let said = remedies(&for_the_last, rule);
        assert!(said.contains("take another CPU, one of 1-3") && !said.contains("=0-3"), "{rule}: {said}");
    }
}

#[test]
fn who_wants_the_second_cpu_of_a_core_is_not_told_to_take_it_offline() {
    let untuned = host("derived-pc-untuned");
    let said = |cpu| remedies(&examined(&untuned, Some(cpu)), "smt-sibling");
    let all_second_ones = "smt/control";
    // Cores have 0 and 2, 1 and 3.
    assert!(said(1).contains("cpu3/online") && said(1).contains(all_second_ones), "{}", said(1));
    assert!(said(3).contains("cpu1/online") && !said(3).contains(all_second_ones), "{}", said(3));
    assert!(said(0).contains("cpu2/online") && said(0).contains(all_second_ones), "{}", said(0));
    // Nobody takes the first one offline.
    assert!(said(2).contains("take another CPU") && !said(2).contains("online\n"), "{}", said(2));
}

#[test]
fn a_limit_is_lifted_to_what_the_fastest_cpu_can() {
    let mut mixed = capture_of("derived-pc-untuned");
    for (cpu, highest, allowed) in [(0, "1800000", "1400000"), (1, "1800000", "1400000"), (2, "2400000", "2000000")] {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
        rewrite(&mut mixed, &format!("{folder}/cpuinfo_max_freq"), highest);
        rewrite(&mut mixed, &format!("{folder}/scaling_max_freq"), allowed);
    }
    let mixed = machine_of(mixed);
    let lifted = |cpu, to: &str| remedies(&examined(&mixed, cpu), "frequency-limit").contains(&format!("echo {to} | "));
    assert!(lifted(None, "3600000") && lifted(Some(0), "1800000") && lifted(Some(2), "2400000"));
}

#[test]
fn who_rents_hardware_as_well_is_no_hypervisor_where_the_processor_knows_of_none() {
    let mut machine = capture_of("derived-pc-untuned");
    for (name, expected) in [("Amazon EC2", false), ("Google", false), ("QEMU", true)] {
        rewrite(&mut machine, "sys/class/dmi/id/sys_vendor", name);
        let found = found(&machine_of(machine.clone()), None);
        assert_eq!(found.contains_key("virtual-machine"), expected, "{name}");
    }
    // ARM has no CPUID, that would tell the two apart.
    rewrite(&mut machine, "sys/class/dmi/id/sys_vendor", "Amazon EC2");
    let mut facts = host("derived-pc-untuned").facts().clone();
    facts.cpuid.clear();
    assert!(found(&Host::captured(machine, facts), None).contains_key("virtual-machine"));
}

/// Writes a file that a capture has already.
fn rewrite(capture: &mut Capture, path: &str, text: &str) {
    let _ = content(capture, path);
    write(capture, path, text);
}

#[test]
fn where_one_cpu_runs_nobody_is_told_to_keep_it_free() {
    for name in ["derived-pc-untuned", "derived-raspberry-pi-4-untuned"] {
        let mut alone = capture_of(name);
        rewrite(&mut alone, "sys/devices/system/cpu/online", "0\n");
        let alone = machine_of(alone);
        for cpu in [None, Some(0)] {
            let examined = examined(&alone, cpu);
            for one in &examined {
                let Some(finding) = finding(&one.verdict) else { continue };
                let commands = finding.remedies.iter().flat_map(|remedy| remedy.commands.iter().chain([&remedy.text]));
                for said in commands {
                    let words = ["isolcpus=", "nohz_full=", "rcu_nocbs=", "irqaffinity=", "smp_affinity", "cpumask"];
                    let nonsense = words.into_iter().find(|word| said.contains(word));
                    assert_eq!(nonsense, None, "{} on {name}: {said}", one.rule.id);
                }
            }
            assert!(remedies(&examined, "isolated-cpus").contains("hpt run --fifo"), "{name}");
            for one in &examined {
                let others = ["tick", "rcu-callbacks", "interrupts", "new-interrupts", "irqbalance", "kernel-threads"];
                let is_of_others = others.contains(&one.rule.id);
                assert!(!is_of_others || finding(&one.verdict).is_none(), "{} on {name}", one.rule.id);
            }
        }
    }
}

#[test]
fn a_kernel_with_real_time_groups_throttles_also_after_6_12() {
    // The one tells of such groups, the other of none.
    let (with, without) =
        (found(&host("amd-epyc-zen5-kvm-limited"), None), found(&host("amd-epyc-zen4-kvm-as-root"), None));
    assert_eq!(with.get("throttling"), Some(&(Severity::Major, true)));
    assert!(!without.contains_key("throttling"));
    assert_eq!(with.get("right-to-realtime"), Some(&(Severity::Major, true)), "and may leave a group nothing");
}

/// What a rule says of CPU 3 of a machine whose kernel was started with these parameters, has no nohz_full, and shows threads of these names, or none at all.
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
    assert_eq!(said, verdict(&captured_again(&machine)), "a capture says the same");
    said
}

#[test]
fn where_memory_is_freed_is_told_by_the_threads_that_do_it() {
    let callbacks = |command_line, threads| with_threads("rcu-callbacks", command_line, threads);
    let on_itself = |verdict: Verdict, remedy: &str, certain: bool| {
        let finding = finding(&verdict).unwrap_or_else(|| panic!("{verdict:?}"));
        let helps: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.text.as_str()).collect();
        assert!(helps.iter().all(|text| text.contains(remedy)) && !helps.is_empty(), "{helps:?}");
        assert_eq!((finding.severity, finding.certain), (Severity::Minor, certain), "{}", finding.seen);
    };
    let (none, all) = (Some(&["kthreadd"][..]), Some(&["rcuog/0", "rcuop/2", "rcuop/3"][..]));
    // Asked for, and heeded, or not.
    assert!(matches!(callbacks("rcu_nocbs=3", all), Verdict::Fine(_)));
    on_itself(callbacks("rcu_nocbs=3", none), "CONFIG_RCU_NOCB_CPU", true);
    on_itself(callbacks("rcu_nocbs=3", Some(&["rcuog/3", "rcuop/2"])), "CONFIG_RCU_NOCB_CPU", true);
    // All have a thread as soon as one is asked for.
    on_itself(callbacks("rcu_nocbs=2", all), "rcu_nocbs=2-3", true);
    on_itself(callbacks("quiet", none), "rcu_nocbs=3", true);
    // A kernel may be built to do it for all.
    assert!(matches!(callbacks("quiet", all), Verdict::Fine(_)));
    // Where no thread is to be seen.
    assert!(matches!(callbacks("rcu_nocbs=3", None), Verdict::Untold { why, .. } if why.contains("threads")));
    on_itself(callbacks("quiet", None), "rcu_nocbs=3", false);
    on_itself(callbacks("rcu_nocbs=2", None), "rcu_nocbs=2-3", true);
}

#[test]
fn rcu_nocbs_is_ignored_where_no_thread_heeds_it() {
    let ignored = |command_line, threads| with_threads("parameters-ignored", command_line, threads);
    let seen = |verdict: Verdict| finding(&verdict).unwrap_or_else(|| panic!("{verdict:?}")).seen.clone();
    let (none, all) = (Some(&["kthreadd"][..]), Some(&["rcuop/2", "rcuop/3"][..]));
    assert!(matches!(ignored("rcu_nocbs=3", all), Verdict::Fine(_)));
    assert_eq!(seen(ignored("rcu_nocbs=3", none)), "rcu_nocbs=3 is set, and is not in force");
    assert_eq!(seen(ignored("rcu_nocbs=1,3", all)), "rcu_nocbs=1,3 is set, and CPU 1 is left out");
    assert_eq!(seen(ignored("rcu_nocbs=x-", none)), "rcu_nocbs=x- is set, and is not understood");
    assert!(matches!(ignored("rcu_nocbs=3", None), Verdict::Untold { why, .. } if why.contains("threads")));
    assert!(matches!(ignored("rcu_nocbs", none), Verdict::NotHere(_)), "it lists no CPU");
}

#[test]
fn nobody_keeping_wall_time_is_wrong_time() {
    assert_eq!(found(&host("qemu-raspi3b-as-root"), None).get("wall-time"), Some(&(Severity::Major, true)));
}

/// What a rule says of a machine whose control groups are of this version, and tell of no real-time threads.
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
fn without_a_file_only_groups_of_version_1_tell_that_there_is_no_real_time_group() {
    assert!(matches!(throttling_by_groups_of(true), Verdict::NotHere(why) if !why.contains("unless")));
    assert!(
        matches!(throttling_by_groups_of(false), Verdict::Untold { why, is_unlikely: true, .. } if why.contains("CONFIG_RT_GROUP_SCHED"))
    );
}

#[test]
fn holes_that_throttling_makes_as_well_prove_no_fair_server() {
    let ms = Duration::from_millis;
    let hole = |began| Hole { began: ms(began), length: ms(50), waited: Some(ms(50)) };
    let holes = Holes { holes: [100, 1_100, 2_100].map(hole).to_vec(), window: ms(3_200) };
    let proven = |name: &str, rule: &str| {
        let facts = MachineFacts::of(&host(name));
        let mut examined = examine(&facts, None);
        prove(&mut examined, &facts, 0, &holes);
        let one = examined.iter().find(|one| one.rule.id == rule).expect("there is such a rule");
        let finding = finding(&one.verdict).unwrap_or_else(|| panic!("{rule}: {:?}", one.verdict)).clone();
        assert!(finding.seen.contains("measured: a thread that never waits stood still"), "{}", finding.seen);
        (finding.certain, finding.seen.contains("cannot be told"))
    };
    // The one throttles, the other does not.
    let (both, alone) = ("amd-epyc-zen5-kvm-limited", "amd-epyc-zen4-kvm-as-root");
    assert_eq!(proven(both, "throttling"), (true, false));
    assert_eq!(proven(both, "fair-server"), (false, true));
    assert_eq!(proven(alone, "fair-server"), (true, false));
}

#[test]
fn whether_a_daemon_runs_is_not_claimed_where_processes_are_hidden() {
    let name = "qemu-raspi3b-as-root";
    let said = |daemons: serde_json::Value| {
        let mut facts = serde_json::to_value(host(name).facts()).expect("facts are numbers and names");
        facts["situation"]["time_daemons"] = daemons;
        let facts = serde_json::from_value(facts).expect("and are read again");
        let examined = examined(&Host::captured(capture_of(name), facts), None);
        let one = examined.iter().find(|one| one.rule.id == "wall-time").expect("there is such a rule");
        (finding(&one.verdict).expect("nobody keeps time there").seen.clone(), remedies(&examined, "wall-time"))
    };
    let (seen, helps) = said(serde_json::json!([]));
    assert!(seen.contains("no daemon that hpt knows runs here") && helps.contains("install chrony"), "{seen}");
    let (seen, helps) = said(serde_json::Value::Null);
    assert!(seen.contains("not to be seen") && !helps.is_empty() && !helps.contains("install"), "{seen}\n{helps}");
}

#[test]
fn what_turns_the_fair_server_off_has_its_files_mounted_before() {
    let examined = examined(&host("derived-raspberry-pi-5"), None);
    let one = examined.iter().find(|one| one.rule.id == "fair-server").expect("there is such a rule");
    let with_commands =
        finding(&one.verdict).expect("it has one").remedies.iter().filter(|help| !help.commands.is_empty());
    let firsts: Vec<&str> = with_commands.map(|help| help.commands[0].as_str()).collect();
    assert_eq!(firsts, ["sudo mount -t debugfs none /sys/kernel/debug"; 2]);
}

#[test]
fn a_boot_parameter_is_written_where_this_machine_has_it() {
    let at_boot = |name: &str| remedies(&examined(&host(name), Some(1)), "isolated-cpus");
    let with_grub = at_boot("derived-pc-untuned");
    assert!(with_grub.contains("/etc/default/grub") && with_grub.contains("sudo update-grub"), "{with_grub}");
    let by_firmware = at_boot("derived-raspberry-pi-4-tuned");
    assert!(by_firmware.contains("/boot/firmware/cmdline.txt") && !by_firmware.contains("grub"), "{by_firmware}");
    let before_12 = at_boot("derived-raspberry-pi-4-untuned");
    assert!(before_12.contains("of /boot/cmdline.txt") && !before_12.contains("grub"), "{before_12}");
    let systemd = at_boot("derived-kvm-nothing-stolen");
    assert!(systemd.contains("/etc/kernel/cmdline") && !systemd.contains("grub"), "{systemd}");
    assert!(systemd.contains("sudo kernel-install add 6.18.44-fc-v595 /boot/vmlinuz-6.18.44-fc-v595"), "{systemd}");
    // Nobody saw who starts these.
    for name in ["amd-epyc-zen4-kvm-as-root", "qemu-raspi3b-as-root"] {
        let in_words = at_boot(name);
        assert!(
            !in_words.contains("sudo update-grub") && !in_words.contains("sudo kernel-install"),
            "{name}: {in_words}"
        );
    }
}

#[test]
fn how_deep_a_host_sleeps_is_not_claimed_to_be_fine() {
    for name in all() {
        let examined = examined(&host(&name), None);
        let verdict = |id| &examined.iter().find(|one| one.rule.id == id).expect("there is such a rule").verdict;
        // An emulated machine's CPUs are no host's.
        let is_virtual = finding(verdict("virtual-machine")).is_some_and(|finding| finding.seen.contains("runs under"));
        let idle = verdict("idle-states");
        assert!(!is_virtual || !matches!(idle, Verdict::Fine(_)), "{name}: {idle:?}");
    }
}

#[test]
fn the_thread_that_starts_kernel_threads_and_workers_of_no_cpu_are_among_those_that_come() {
    let name = "derived-pc-untuned";
    let examined = examined(&host(name), Some(1));
    let one = examined.iter().find(|one| one.rule.id == "kernel-threads").expect("there is such a rule");
    let seen = &finding(&one.verdict).expect("they may run there").seen;
    assert!(seen.contains("(kthreadd, ") && seen.contains("1 of kworker/u*"), "{seen}");
    let said = remedies(&examined, "kernel-threads");
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
fn a_capture_of_any_machine_says_the_same_as_the_machine() {
    for name in all() {
        let again = captured_again(&host(&name));
        for cpu in SUBJECTS {
            let (original, again) = (examined(&host(&name), cpu), examined(&again, cpu));
            for (original, again) in original.iter().zip(&again) {
                assert_eq!(original.verdict, again.verdict, "{} on {name}", original.rule.id);
            }
        }
        assert_eq!(
            MachineFacts::of(&host(&name)).root_would_be_told(),
            MachineFacts::of(&again).root_would_be_told(),
            "{name}"
        );
    }
}

#[test]
fn a_capture_of_this_machine_says_the_same_as_the_machine() {
    let looks = (0..5).map(|_| {
        let mut live = found(&Host::live(), None);
        let mut again = found(&captured_again(&Host::live()), None);
        // These go on while the machine is looked at, and may pass a limit in between.
        for id in ["stolen-time", "temperature", "slowed-down"] {
            live.remove(id);
            again.remove(id);
        }
        (live, again)
    });
    // Somebody may change the machine in between, once.
    let looks: Vec<_> =
        looks.scan(false, |same, look| (!std::mem::replace(same, look.0 == look.1)).then_some(look)).collect();
    let (live, again) = looks.last().expect("at least one");
    assert_eq!(live, again);
}

/// Where somebody's secrets may be, and what must not come out of it.
#[test]
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
    // What is wanted of these files is there all the same.
    let of = |path: &str| String::from_utf8_lossy(content(&captured, path)).into_owned();
    assert!(of("proc/cmdline").contains("isolcpus=3") && of("proc/interrupts").contains("mmc0"));
    assert_eq!(of("proc/swaps").lines().count(), 2);
}

#[test]
fn what_is_not_a_file_in_place_of_files_is_no_trouble() {
    for name in ["derived-pc-untuned", "derived-raspberry-pi-4-untuned"] {
        let mut spoilt = capture_of(name);
        for (index, path) in files(&spoilt).into_iter().enumerate() {
            spoilt.remove(&path).expect("it is one of them");
            let (path, entry) = match index % 6 {
                0 => (format!("{path}/in a folder"), Entry::File(Vec::new())),
                1 => (path.clone(), Entry::Unreadable(ReadRefused::NotRegular)),
                2 => (path.clone(), Entry::Link(path.clone())),
                3 => (path.clone(), Entry::Link("/dev/zero".to_owned())),
                4 => (path.clone(), Entry::Unreadable(ReadRefused::Errno(5))),
                _ => (path.clone(), Entry::Absent),
            };
            spoilt.insert(&path, entry).expect("a sound path");
        }
        let spoilt = machine_of(spoilt);
        for cpu in SUBJECTS {
            assert_eq!(examined(&spoilt, cpu).len(), rules().count());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any bytes in any files of a captured machine, and files cut off anywhere: an answer of every rule, never a panic.
    #[test]
    fn a_captured_machine_of_any_bytes_is_judged(
        pi in any::<bool>(),
        changes in vec((any::<Index>(), vec(any::<u8>(), 0..40), any::<bool>()), 1..12),
        cpu in proptest::option::of(0_usize..10_000),
    ) {
        let mut spoilt = capture_of(if pi { "derived-raspberry-pi-4-untuned" } else { "derived-pc-untuned" });
        let files = files(&spoilt);
        for (file, bytes, cut) in changes {
            let file = file.get::<String>(&files);
            let content = content(&spoilt, file);
            let changed = if cut { content[..content.len().min(bytes.len())].to_vec() } else { bytes };
            write(&mut spoilt, file, changed);
        }
        let spoilt = machine_of(spoilt);
        assert_eq!(examined(&spoilt, cpu).len(), rules().count());
        let _ = captured_again(&spoilt);
    }

    /// Numbers of any size, where a number is expected.
    #[test]
    fn numbers_of_any_size_are_judged(pi in any::<bool>(), number in any::<i128>(), list in "[0-9]{1,25}(-[0-9]{1,25})?") {
        let mut spoilt = capture_of(if pi { "derived-raspberry-pi-4-untuned" } else { "derived-pc-untuned" });
        for file in files(&spoilt) {
            let content = String::from_utf8(content(&spoilt, &file).to_vec()).unwrap_or_default();
            if content.trim().parse::<i64>().is_ok() {
                write(&mut spoilt, &file, if content.len().is_multiple_of(2) { number.to_string() } else { list.clone() });
            }
        }
        let spoilt = machine_of(spoilt);
        for cpu in SUBJECTS {
            assert_eq!(examined(&spoilt, cpu).len(), rules().count());
        }
    }
}

/// The places of numbers and words in a document; of a list, in its first entry.
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
fn facts_of_any_numbers_and_words_are_judged() {
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
                let mut spoilt = facts.clone();
                *spoilt.pointer_mut(&place).expect("it is one of its places") = other.clone();
                let Ok(spoilt) = serde_json::from_value(spoilt) else { continue };
                let machine = Host::captured(capture_of(name), spoilt);
                assert_eq!(examined(&machine, Some(3)).len(), rules().count(), "{place} of {name}: {other}");
                judged += 1;
            }
        }
    }
    assert!(judged > 100, "{judged}");
}

/// The page's part that says what every rule is about, with what helps on one of the machines on which it fires.
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
                    (finding.remedies.len(), name.starts_with("derived-raspberry"), name.clone())
                })
                .expect("every rule fires somewhere");
            let _ =
                write!(page, "\n### {}\n\nLooks at {}. {} Bites {}.\n\n", rule.id, rule.about, rule.why, rule.bites);
            let certain = if example.certain { "" } else { ", likely" };
            let _ =
                writeln!(page, "- For example (`{machine}`, {}{certain}): {}", example.severity.name(), example.seen);
            for remedy in &example.remedies {
                let commands: Vec<String> = remedy.commands.iter().map(|command| format!("`{command}`")).collect();
                let separator = if commands.is_empty() { "" } else { ": " };
                let _ = writeln!(page, "- Helps: {}{separator}{}", remedy.text, commands.join(", "));
            }
            let _ = writeln!(page, "- See {}", rule.references.join("; "));
        }
    }
    page.push_str(
        "\n## Programs that remedies name\n\n| program | package of Debian and Raspberry Pi OS |\n| --- | --- |\n",
    );
    for (program, package) in PROGRAMS {
        let _ = writeln!(page, "| `{program}` | {package} |");
    }
    page
}

#[test]
fn the_page_in_the_docs_has_every_rule() {
    const BEGIN: &str = "<!-- rules:begin, by UPDATE_DOCS=1 cargo test -p hpt-core the_page_in_the_docs -->\n";
    const END: &str = "<!-- rules:end -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let text = fs::read_to_string(&path).expect("docs/doctor.md is there");
    let (before, rest) = text.split_once(BEGIN).expect("the page has a place for the rules");
    let (now, after) = rest.split_once(END).expect("which ends");
    let expected = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).expect("the checkout is ours");
    } else {
        assert!(now == expected, "docs/doctor.md is not what the code says; UPDATE_DOCS=1 makes it so");
    }
}
