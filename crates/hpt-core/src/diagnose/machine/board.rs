//! The power supply and the temperature of a board. Uses the kernel's drivers and does not query the firmware itself.

use super::{Finding, MachineFacts, Rule, Severity, Subject, Verdict};
use crate::host::{Supply, Zone};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "under-voltage",
        about: "a Raspberry Pi's supply voltage",
        why: "Below 4.63 V the firmware clocks the processor down to what it can carry, whatever the governor says; devices and cards fail.",
        bites: "everybody",
        references: &["Documentation/hwmon/raspberrypi-hwmon.rst", "raspberrypi.com: vcgencmd get_throttled"],
        judge: under_voltage,
    },
    Rule {
        id: "held-back",
        about: "whether a Raspberry Pi's firmware holds the processor's frequency back",
        why: "It is then clocked below what the kernel asked for: all work takes longer, and the kernel does not know.",
        bites: "everybody",
        references: &["raspberrypi.com: vcgencmd get_throttled"],
        judge: held_back,
    },
    Rule {
        id: "temperature",
        about: "how near the temperatures are to where the processor is slowed down",
        why: "At the limit its frequency goes down by steps and comes back: the same work takes longer or shorter from moment to moment.",
        bites: "everybody",
        references: &["Documentation/driver-api/thermal/sysfs-api.rst"],
        judge: temperature,
    },
];

/// Bits of get_throttled: now; 16 higher: since boot.
const TOO_LOW: u32 = 1;
const CAPPED: u32 = 1 << 1;
const THROTTLED: u32 = 1 << 2;
const SOFT_LIMIT: u32 = 1 << 3;
/// The distance from a limit that counts as close, in thousandths of a degree.
const NEAR: i64 = 5_000;

/// The firmware of a Raspberry Pi throttles the processor from here on, whatever the kernel's own limits are.
/// raspberrypi.com: frequency management and thermal control.
const OF_THE_FIRMWARE: i64 = 80_000;

const NO_FIRMWARE: &str = "no firmware of a Raspberry Pi tells of it";

fn under_voltage(facts: &MachineFacts, _: &Subject) -> Verdict {
    let Some(supply) = facts.supply else {
        return Verdict::not_here(NO_FIRMWARE);
    };
    let (now, before) = match supply {
        Supply::Flags(flags) => (flags & TOO_LOW != 0, flags >> 16 & TOO_LOW != 0),
        Supply::TooLow(now) => (now, false),
    };
    let finding = match (now, before) {
        (false, false) => return Verdict::fine("high enough"),
        (true, _) => Finding::new(Severity::Major, "it is too low now"),
        (false, true) => Finding::new(Severity::Major, "it was too low since boot"),
    };
    finding
        .helped("use a supply and a cable for the board's current (Pi 3: 2.5 A, Pi 4: 3 A, Pi 5: 5 A), and a powered hub for what is plugged in", [])
        .found()
}

fn held_back(facts: &MachineFacts, _: &Subject) -> Verdict {
    let flags = match facts.supply {
        None => return Verdict::not_here(NO_FIRMWARE),
        Some(Supply::TooLow(_)) => return Verdict::not_here("this kernel's driver tells of the voltage only"),
        Some(Supply::Flags(flags)) => flags,
    };
    let words = |flags: u32| {
        let named = [
            (CAPPED, "the frequency is capped"),
            (THROTTLED, "the processor is throttled"),
            (SOFT_LIMIT, "the soft limit of the temperature is reached"),
        ];
        named.into_iter().filter(|(bit, _)| flags & bit != 0).map(|(_, word)| word).collect::<Vec<_>>().join(", ")
    };
    let (now, before) = (words(flags), words(flags >> 16));
    let finding = match (now.is_empty(), before.is_empty()) {
        (true, true) => return Verdict::fine("it does not"),
        (false, _) => Finding::new(Severity::Major, format!("now: {now}")),
        (true, false) => Finding::new(Severity::Minor, format!("since boot, and not now: {before}")),
    };
    finding.helped("see to its supply and its cooling: a heat sink, a fan, air around it", []).found()
}

fn temperature(facts: &MachineFacts, _: &Subject) -> Verdict {
    let limit = |zone: &Zone| {
        let by_firmware = facts.is_a_raspberry_pi.then_some(OF_THE_FIRMWARE);
        let slowed = [zone.slowed_from, by_firmware].into_iter().flatten().min();
        slowed.map(|limit| (limit, "slowed down")).or(zone.off_from.map(|limit| (limit, "switched off")))
    };
    let with_a_limit = facts.temperatures.iter().filter_map(|zone| Some((zone, limit(zone)?)));
    let nearest = with_a_limit.min_by_key(|(zone, (limit, _))| limit.saturating_sub(zone.millidegrees));
    let Some((zone, (limit, what))) = nearest else {
        return Verdict::not_here("the kernel watches no temperature with a limit here, or does not show it");
    };
    let seen = format!("{} is at {} °C; from {} °C on it is {what}", zone.name, zone.millidegrees / 1000, limit / 1000);
    if limit.saturating_sub(zone.millidegrees) > NEAR {
        return Verdict::fine(seen);
    }
    Finding::new(Severity::Minor, seen).helped("see to its cooling: a heat sink, a fan, air around it", []).found()
}
