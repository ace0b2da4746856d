//! Tests with fake registers: a script, or memory that stands for a page of device registers and advances with simulated
//! time. They are the only proof for `omap-32k`, `dmtimer` and the Cortex-A5, which no emulated board has.

use std::{
    collections::BTreeMap,
    io::Write,
    sync::atomic::{AtomicU64, Ordering},
};

use proptest::prelude::{prop_assert, proptest};

use super::{Counter, Layout, Registers, SOC_COUNTERS, SocCounter, Words};
use crate::{
    source::{
        RateKind, SelfTestError, SourceError, SourceId, SourceInfo, StatedBy, TimeSource, Widened,
        linux::devices::test_world::{Scripted, WorldClock, ticks_after},
        self_test,
    },
    testing::ManualSource,
};
use hpt_sys::{
    mmio::Window,
    units::{Frequency, Width},
};

const HERTZ: u64 = 24_000_000;

fn kind(id: &str) -> &'static SocCounter {
    SocCounter::named(id).expect("the table has it")
}

fn info(words: Words) -> SourceInfo {
    let width = if matches!(words, Words::Split { .. }) { Width::BITS_64 } else { Width::BITS_32 };
    let rate = Frequency::from_hertz(HERTZ).expect("not zero");
    let info = SourceInfo::new(SourceId::new("fake")).with_rate(RateKind::Constant).with_width(width);
    info.with_nominal(rate, StatedBy::DeviceTree)
}

/// Fake registers: a word for each offset. Any other offset is an error.
#[derive(Debug)]
struct Words32(BTreeMap<usize, u32>);

impl Registers for Words32 {
    fn read_u32(&self, offset: usize) -> u32 {
        *self.0.get(&offset).unwrap_or_else(|| panic!("{offset:#x} was read"))
    }
}

/// Opens a kind on fake registers. The registers that are not given read as zero; those that are not in the table panic.
fn opened(id: &str, given: &[(usize, u32)]) -> Result<Counter<Words32>, SourceError> {
    let mut words = BTreeMap::new();
    for layout in kind(id).layouts {
        let count = match layout.words {
            Words::Up(word) | Words::Down(word) => vec![word],
            Words::Split { low, high } => vec![low, high],
        };
        words.extend(layout.when.iter().map(|word| word.offset).chain(count).map(|offset| (offset, 0)));
    }
    words.extend(given.iter().copied());
    Counter::of(Words32(words), kind(id).layouts, info(kind(id).layouts[0].words))
}

#[test]
fn each_kind_is_read_at_its_offset_in_its_direction() {
    let reads = |id, given: &[(usize, u32)]| opened(id, given).expect("it counts through all bits").ticks();
    assert_eq!(reads("a9-global-timer", &[(0x00, 5), (0x04, 7)]), 7 << 32 | 5);
    assert_eq!(reads("imx-gpt", &[(0x00, 1 << 9 | 1), (0x24, 5)]), 5);
    assert_eq!(reads("sun4i-timer", &[(0x24, u32::MAX), (0x28, u32::MAX - 5)]), 5);
    // By the scheme bits of the revision: old and new.
    assert_eq!(reads("omap-32k", &[(0x00, 0x10), (0x10, 5), (0x30, 6)]), 5);
    assert_eq!(reads("omap-32k", &[(0x00, 0x4000_0000), (0x10, 5), (0x30, 6)]), 6);
    assert_eq!(reads("dmtimer", &[(0x00, 0x15), (0x28, 5), (0x3c, 6)]), 5);
    assert_eq!(reads("dmtimer", &[(0x00, 0x4fff_1301), (0x28, 5), (0x3c, 6)]), 6);
    // The kernel counts time with timer 2, or with timer 1.
    assert_eq!(reads("sp804", &[(0x20, u32::MAX), (0x24, u32::MAX - 5), (0x04, 9)]), 5);
    assert_eq!(reads("sp804", &[(0x00, u32::MAX), (0x04, u32::MAX - 6), (0x24, 9)]), 6);
    assert_eq!(SOC_COUNTERS.len(), 6, "a kind without an offset here is not tested");
}

#[test]
fn a_timer_that_makes_ticks_is_refused() {
    for (id, given) in [
        ("imx-gpt", &[(0x00, 1)][..]),
        ("sun4i-timer", &[(0x24, 240_000)]),
        ("dmtimer", &[(0x00, 0x15), (0x2c, 0xffff_0000)]),
        ("dmtimer", &[(0x00, 0x4fff_1301), (0x40, 0xffff_0000)]),
        ("sp804", &[(0x00, 4_000), (0x20, 4_000)]),
    ] {
        let refused = opened(id, given).expect_err(id);
        assert!(refused.to_string().contains("does not count through all of its bits"), "{id}: {refused}");
    }
}

#[test]
fn a_page_in_a_file_is_read_as_a_mapped_page() {
    let mut page = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut content = vec![0xee; 4096];
    content[0xc24..0xc28].fill(0xff);
    content[0xc28..0xc2c].copy_from_slice(&(u32::MAX - 77).to_ne_bytes());
    page.write_all(&content).expect("it can be written");
    let sun4i = kind("sun4i-timer");
    let window = Window::map(page.path(), 0, 0xc00, sun4i.layouts[0].length()).expect("a file can be mapped");
    let counter = Counter::of(window, sun4i.layouts, info(sun4i.layouts[0].words)).expect("it is full");
    assert_eq!((counter.ticks(), counter.ticks_start(), counter.ticks_end()), (77, 77, 77));
}

#[test]
fn a_torn_pair_of_the_global_timer_is_read_again() {
    let (low, high) = (0x00, 0x04);
    let global = kind("a9-global-timer");
    let reads = |script: &[(usize, u32)]| {
        let registers = Scripted::new(script);
        Counter::of(registers, global.layouts, info(global.layouts[0].words)).expect("no conditions").ticks()
    };
    assert_eq!(reads(&[(high, 6), (low, 3), (high, 7), (low, 4), (high, 7)]), 7 << 32 | 4);
    assert_eq!(reads(&[(high, 6), (low, u32::MAX), (high, 7), (low, 0), (high, 7)]), 7 << 32);
    assert_eq!(reads(&[(high, 6), (low, u32::MAX), (high, 6)]), 6 << 32 | 0xffff_ffff);
}

/// Fake registers of a running counter. Each read takes 100 ns.
#[derive(Debug)]
struct Running<'a> {
    now_ns: &'a AtomicU64,
    first_ticks: u64,
    ticks_per_ms: u64,
    words: Words,
    backward: bool,
}

impl Registers for Running<'_> {
    fn read_u32(&self, offset: usize) -> u32 {
        let passed = u64::try_from(ticks_after(self.now_ns, 100, self.ticks_per_ms)).expect("less than years");
        let ticks =
            if self.backward { self.first_ticks.wrapping_sub(passed) } else { self.first_ticks.wrapping_add(passed) };
        let value = match self.words {
            Words::Up(_) => ticks,
            Words::Down(_) => !ticks,
            Words::Split { high, .. } => {
                if offset == high {
                    ticks >> 32
                } else {
                    ticks
                }
            }
        };
        u32::try_from(value & 0xffff_ffff).expect("masked")
    }
}

const FORMS: [Words; 3] = [Words::Up(0x24), Words::Down(0x28), Words::Split { low: 0, high: 4 }];

fn running(now_ns: &AtomicU64, words: Words, first_ticks: u64, ticks_per_ms: u64) -> Counter<Running<'_>> {
    let registers = Running { now_ns, first_ticks, ticks_per_ms, words, backward: false };
    Counter::of(registers, &[Layout { when: &[], words }], info(words)).expect("no conditions")
}

#[test]
fn a_counter_passes_its_self_test_across_a_planted_wrap() {
    for words in FORMS {
        // 0.3 ms before the low word wraps.
        for first_ticks in [0, u64::from(u32::MAX) - 7_200] {
            let now_ns = AtomicU64::new(0);
            let tested = self_test(&running(&now_ns, words, first_ticks, HERTZ / 1_000), &WorldClock::of(&now_ns));
            tested.unwrap_or_else(|failure| panic!("{words:?} from {first_ticks}: {failure}"));
        }
    }
}

#[test]
fn a_counter_that_stands_still_runs_backward_or_has_another_rate_is_refused() {
    for words in FORMS {
        let now_ns = AtomicU64::new(0);
        let clock = WorldClock::of(&now_ns);
        let still = running(&now_ns, words, 7, 0);
        assert!(matches!(self_test(&still, &clock), Err(SelfTestError::StandsStill { at_ticks: 7, .. })), "{words:?}");
        let refused = still.moves(&clock).expect_err("it is not chosen from several, either");
        assert!(refused.to_string().contains("did not advance from 7 within 2 ms"), "{refused}");
        let mut backward = running(&now_ns, words, 1 << 31, HERTZ / 1_000);
        backward.moves(&clock).expect("it moves");
        backward.registers.backward = true;
        assert!(matches!(self_test(&backward, &clock), Err(SelfTestError::RunsBackwards { .. })), "{words:?}");
        let other = running(&now_ns, words, 7, HERTZ / 2_000);
        assert!(matches!(self_test(&other, &clock), Err(SelfTestError::WrongRate { .. })), "{words:?}");
    }
}

proptest! {
    #[test]
    fn readings_of_the_global_timer_are_never_torn(carry in 1..1_000_u64, before_ticks in 0..2_000_u64) {
        let now_ns = AtomicU64::new(0);
        let first_ticks = (carry << 32) - before_ticks;
        let counter = running(&now_ns, FORMS[2], first_ticks, HERTZ / 1_000);
        let ticks_now = || first_ticks + now_ns.load(Ordering::Relaxed) * (HERTZ / 1_000) / 1_000_000;
        let mut last = 0;
        for _ in 0..60 {
            let (earliest, ticks, latest) = (ticks_now(), counter.ticks(), ticks_now());
            prop_assert!((earliest..=latest).contains(&ticks) && ticks >= last, "{earliest} {ticks} {latest}");
            last = ticks;
        }
    }

    #[test]
    fn no_wrap_of_a_widened_counter_is_lost(first in 0..u32::MAX, pauses_ms in proptest::collection::vec(1..400_000_u64, 1..20)) {
        for words in [FORMS[0], FORMS[1]] {
            let (now_ns, clock) = (AtomicU64::new(0), ManualSource::new("clock"));
            let rate = Frequency::from_hertz(HERTZ).expect("not zero");
            let counter = running(&now_ns, words, first.into(), HERTZ / 1_000);
            let wide = Widened::by_at_rate(counter, &clock, rate).expect("it wraps every 179 s");
            let start = wide.ticks();
            for pause_ms in &pauses_ms {
                now_ns.fetch_add(pause_ms * 1_000_000, Ordering::Relaxed);
                clock.advance(pause_ms * 1_000_000);
            }
            let (passed_ms, shown) = (pauses_ms.iter().sum::<u64>(), wide.ticks() - start);
            prop_assert!(shown.abs_diff(passed_ms * HERTZ / 1_000) < 100, "{words:?}: {shown} in {passed_ms} ms");
        }
    }
}
