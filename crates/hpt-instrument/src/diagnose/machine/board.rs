//! Rules about the power supply and the temperature of a board. They use the kernel's drivers, and do not query the
//! firmware directly.

use hpt_sys::host::{Supply, Zone};

use super::{Finding, MachineFacts, Relevance, Rule, Severity, Subject, Verdict};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "under-voltage",
        title: "Supply voltage is too low",
        about: "whether the supply voltage of a Raspberry Pi is high enough",
        why: "Below 4.63 V, the firmware lowers the processor frequency to a level that the power supply can sustain, regardless of the governor. Attached devices and SD cards may fail.",
        affects: "all programs",
        references: &["Documentation/hwmon/raspberrypi-hwmon.rst", "raspberrypi.com: vcgencmd get_throttled"],
        relevance: Relevance::all(Severity::High),
        judge: under_voltage,
    },
    Rule {
        id: "held-back",
        title: "Firmware throttles the processor",
        about: "whether the firmware of a Raspberry Pi throttles the processor",
        why: "A throttled processor runs below the frequency that the kernel requested, and the kernel is not notified. All work takes longer.",
        affects: "all programs",
        references: &["raspberrypi.com: vcgencmd get_throttled"],
        relevance: Relevance::all(Severity::High).timekeeping(Severity::Info),
        judge: held_back,
    },
    Rule {
        id: "temperature",
        title: "Temperature is close to its limit",
        about: "how close the temperatures are to the limit at which the processor is throttled",
        why: "At the limit, the frequency is lowered in steps and later raised again, so the execution time of the same work varies.",
        affects: "all programs",
        references: &["Documentation/driver-api/thermal/sysfs-api.rst"],
        relevance: Relevance::all(Severity::Low).timekeeping(Severity::Info),
        judge: temperature,
    },
];

/// The bits of get_throttled for the current state. These bits, shifted left by 16, are set if the state has occurred
/// since boot.
const TOO_LOW: u32 = 1;
const CAPPED: u32 = 1 << 1;
const THROTTLED: u32 = 1 << 2;
const SOFT_LIMIT: u32 = 1 << 3;
/// The largest distance from a limit that counts as close, in thousandths of a degree.
const NEAR: i64 = 5_000;

/// The temperature at which the firmware of a Raspberry Pi throttles the processor, regardless of the kernel's limits.
/// raspberrypi.com: frequency management and thermal control.
const OF_THE_FIRMWARE: i64 = 80_000;

const NO_FIRMWARE: &str = "no Raspberry Pi firmware reports under-voltage or throttling";

fn under_voltage(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Some(supply) = facts.supply else {
        return Verdict::not_applicable(NO_FIRMWARE);
    };
    let (now, before) = match supply {
        Supply::Flags(flags) => (flags & TOO_LOW != 0, flags >> 16 & TOO_LOW != 0),
        Supply::TooLow(now) => (now, false),
    };
    let finding = match (now, before) {
        (false, false) => return Verdict::pass("the supply voltage is high enough"),
        (true, _) => Finding::new(Severity::High, "too low now"),
        (false, true) => Finding::new(Severity::High, "too low at some time since boot, but high enough now"),
    };
    finding
        .fix("Use a power supply and a cable that are rated for the board (Pi 3: 2.5 A, Pi 4: 3 A, Pi 5: 5 A), and a powered hub for attached devices", [])
        .problem()
}

fn held_back(facts: &MachineFacts, _: &Subject) -> Verdict {
    let flags = match facts.supply {
        None => return Verdict::not_applicable(NO_FIRMWARE),
        Some(Supply::TooLow(_)) => {
            return Verdict::not_applicable("this kernel's driver reports only the voltage");
        }
        Some(Supply::Flags(flags)) => flags,
    };
    let words = |flags: u32| {
        let named = [
            (CAPPED, "frequency capped"),
            (THROTTLED, "processor throttled"),
            (SOFT_LIMIT, "soft temperature limit reached"),
        ];
        named.into_iter().filter(|(bit, _)| flags & bit != 0).map(|(_, word)| word).collect::<Vec<_>>().join(", ")
    };
    let (now, before) = (words(flags), words(flags >> 16));
    let finding = match (now.is_empty(), before.is_empty()) {
        (true, true) => return Verdict::pass("the firmware does not throttle the processor"),
        (false, _) => Finding::new(Severity::High, format!("now: {now}")),
        (true, false) => Finding::new(Severity::Low, format!("at some time since boot, but not now: {before}")),
    };
    finding
        .fix("Use a power supply that is rated for the board, and improve the cooling, for example with a heat sink, a fan or more airflow", [])
        .problem()
}

/// The lowest temperature at which a processor may be throttled or shut down, in thousandths of a degree. A lower limit,
/// which a warm room reaches, is a fault in the table of the firmware.
const LOWEST_LIMIT: i64 = 40_000;
/// Temperatures of working sensors, in thousandths of a degree.
const MEASURABLE: std::ops::Range<i64> = -40_000..150_000;

/// Returns whether a sensor and its limits may be true. A machine at its shutdown temperature would be off.
fn is_plausible(zone: &Zone) -> bool {
    let limits = [zone.slowed_from, zone.off_from];
    let has_passed_the_end = zone.off_from.is_some_and(|limit| zone.millidegrees >= limit);
    MEASURABLE.contains(&zone.millidegrees)
        && !has_passed_the_end
        && limits.into_iter().flatten().all(|limit| limit >= LOWEST_LIMIT)
}

fn temperature(facts: &MachineFacts, _: &Subject) -> Verdict {
    let limit = |zone: &Zone| {
        let by_firmware = facts.is_a_raspberry_pi.then_some(OF_THE_FIRMWARE);
        let slowed = [zone.slowed_from, by_firmware].into_iter().flatten().min();
        slowed.map(|limit| (limit, "throttled")).or(zone.off_from.map(|limit| (limit, "shut down")))
    };
    let (sound, faulty): (Vec<&Zone>, Vec<&Zone>) = facts.temperatures.iter().partition(|zone| is_plausible(zone));
    let with_a_limit = sound.into_iter().filter_map(|zone| Some((zone, limit(zone)?)));
    let nearest = with_a_limit.min_by_key(|(zone, (limit, _))| limit.saturating_sub(zone.millidegrees));
    let Some((zone, (limit, what))) = nearest else {
        return match faulty.first() {
            Some(zone) => Verdict::unknown_and_unlikely(format!(
                "{}: {} °C; the firmware states limits that no processor has, or that have been passed",
                zone.name,
                zone.millidegrees / 1000
            )),
            None => Verdict::not_applicable("the kernel reports no temperature with a limit"),
        };
    };
    let observed =
        format!("{}: {} °C; the machine is {what} at {} °C", zone.name, zone.millidegrees / 1000, limit / 1000);
    if limit.saturating_sub(zone.millidegrees) > NEAR {
        return Verdict::pass(observed);
    }
    Finding::new(Severity::Low, observed)
        .fix("Improve the cooling, for example with a heat sink, a fan or more airflow", [])
        .problem()
}
