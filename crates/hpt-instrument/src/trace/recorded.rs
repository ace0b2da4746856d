//! Tests with ring buffers that several kernels have recorded (tests/rings).

use std::{fs, path::PathBuf};

use super::{
    attribute::divide,
    events::{Decoder, Event, What},
    format::{EventFormat, Layout},
    part::{CauseKind, Explained, LateSample},
    ring,
    rules::TraceEvidence,
    threads::Threads,
    window::EventWindow,
};

const KERNELS: [&str; 5] =
    ["debian-12-amd64", "debian-12-arm64", "debian-12-armhf", "debian-12-armel", "linux-6.18-x86_64"];
/// The number of damaged pages that each test run parses. HPT_MUTATIONS sets another number.
const MUTATIONS: usize = 10_000;

fn folder(kernel: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/rings").join(kernel)
}

fn decoder(kernel: &str) -> Decoder {
    let text = |name: &str| fs::read_to_string(folder(kernel).join(name)).expect("recorded");
    let mut decoder = Decoder::new(Layout::parse(&text("header_page"), false).expect("a layout"));
    for event in text("formats").split("event: ").skip(1) {
        let (path, format) = event.split_once('\n').expect("a name and a format");
        assert!(decoder.add(path, &EventFormat::parse(format).expect("a format")), "{kernel}: {path}");
    }
    decoder
}

fn pages(kernel: &str, name: &str) -> Vec<Vec<u8>> {
    let raw = fs::read(folder(kernel).join(format!("{name}.raw"))).unwrap_or_default();
    raw.chunks(4_096).map(<[u8]>::to_vec).collect()
}

/// Returns the events of a recording.
fn recording(kernel: &str, name: &str) -> (Decoder, EventWindow, Vec<Event>) {
    let (mut decoder, mut window) = (decoder(kernel), EventWindow::new(100_000));
    pages(kernel, name).iter().for_each(|page| window.add_page(page, &mut decoder));
    let events = window.around(-2, 0, u64::MAX).0.copied().collect();
    (decoder, window, events)
}

fn injected(kernel: &str, name: &str) -> Vec<(u64, u64)> {
    let text = fs::read_to_string(folder(kernel).join(format!("{name}.injected"))).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(begin, end)| (begin.parse().expect("a time"), end.parse().expect("a time"))).collect()
}

fn explain(sample: LateSample, decoder: &Decoder, window: &EventWindow) -> Explained {
    let events = window.around(sample.thread, sample.deadline_ns, sample.end_ns());
    let explained = divide(sample, events, TraceEvidence::QUIET, (decoder, &mut Threads::new(false)));
    check(&explained);
    explained
}

/// Checks what holds for every explanation.
fn check(explained: &Explained) {
    let sum: u64 = explained.parts.iter().map(|part| part.duration_ns).sum();
    assert_eq!(sum, explained.sample.latency_ns, "the parts add up: {explained:?}");
    assert!(explained.parts.is_sorted_by_key(|part| std::cmp::Reverse(part.duration_ns)), "{explained:?}");
    assert!(explained.parts.len() <= 80 && explained.timeline.len() <= 400);
    let mut now = 0;
    for piece in &explained.timeline {
        assert!(piece.at_ns >= now && piece.part < explained.parts.len(), "{explained:?}");
        now = piece.at_ns + piece.duration_ns;
    }
    assert!(now <= explained.sample.latency_ns);
}

/// Returns the threads that are woken while `wakes` holds, each with the time at which it is switched to.
fn delayed(events: &[Event], wakes: impl Fn(&Event) -> bool) -> Vec<(i32, u64, u64)> {
    let woken = events.iter().enumerate().filter(|(_, event)| wakes(event));
    let delayed = woken.filter_map(|(index, event)| {
        let What::Woken { thread, .. } = event.what else { return None };
        let is_switch = |later: &&Event| matches!(later.what, What::Switch { next, .. } if next == thread);
        let switch = events[index..].iter().find(is_switch)?;
        (thread != event.running).then_some((thread, event.time, switch.time))
    });
    delayed.collect()
}

#[test]
fn every_kernels_events_are_decoded() {
    for kernel in KERNELS {
        let (decoder, window, events) = recording(kernel, "hog");
        let has = |wanted: fn(&What) -> bool| events.iter().any(|event| wanted(&event.what));
        assert!(
            has(|what| matches!(what, What::Switch { .. })) && has(|what| matches!(what, What::Woken { .. })),
            "{kernel}"
        );
        assert!(has(|what| matches!(what, What::TimerBegins)), "{kernel}");
        assert!(has(|what| matches!(what, What::HardBegins(_) | What::VectorBegins(_))), "{kernel}");
        assert_eq!(window.lost, 0, "{kernel}");
        let times: Vec<_> = events.iter().map(|event| event.time).collect();
        assert!(times.is_sorted() && decoder.layout().page_size == 4_096, "{kernel}");
    }
}

#[test]
fn a_hog_is_named_with_its_number_and_priority() {
    for kernel in KERNELS {
        let (decoder, window, events) = recording(kernel, "hog");
        let is_hog = |pid| decoder.thread(pid).is_some_and(|facts| facts.name.starts_with(b"hog\0"));
        let mut count = 0;
        for (thread, woken, switched) in delayed(&events, |event| is_hog(event.running)) {
            if switched - woken < 1_000_000 {
                continue;
            }
            let sample = LateSample::new((thread, None), woken - 1_000, switched - woken + 2_000);
            let explained = explain(sample, &decoder, &window);
            let first = &explained.parts[0];
            assert_eq!(
                (first.kind, first.name.as_deref(), first.priority),
                (CauseKind::Thread, Some("hog"), Some(90)),
                "{kernel}: {explained:?}"
            );
            assert!(first.pid.is_some_and(is_hog) && explained.is_complete, "{kernel}: {explained:?}");
            count += 1;
        }
        println!("{kernel}: {count} delayed threads");
        // While the 32-bit kernels recorded, the hog delayed no thread that ran in these pages.
        assert!(count > 0 || kernel.starts_with("debian-12-arm") && !kernel.ends_with("64"), "{kernel}");
    }
}

#[test]
fn a_flood_of_interrupts_is_named_with_its_handler() {
    for kernel in ["debian-12-amd64", "debian-12-arm64"] {
        let (decoder, window, events) = recording(kernel, "irq_flood");
        let mut count = 0;
        for (begin, end) in injected(kernel, "irq_flood") {
            let inside = events.iter().filter(|event| (begin..end).contains(&event.time));
            let Some(running) = inside.map(|event| event.running).next() else { continue };
            let sample = LateSample::new((running, None), begin, end - begin);
            let explained = explain(sample, &decoder, &window);
            let flood: Vec<_> =
                explained.parts.iter().filter(|part| part.name.as_deref() == Some("irq_flood")).collect();
            let [flood] = flood.as_slice() else { panic!("{kernel}: {explained:?}") };
            assert!(flood.irq.is_some() && flood.count > 10 && flood.duration_ns > 300_000, "{kernel}: {explained:?}");
            count += 1;
        }
        println!("{kernel}: {count} floods");
        assert!(count > 0, "{kernel}");
    }
}

#[test]
fn lost_events_are_reported_and_never_guessed_over() {
    for kernel in KERNELS {
        let (decoder, window, events) = recording(kernel, "overrun");
        let Some(lost) = events.iter().position(|event| event.what == What::Lost) else { continue };
        println!("{kernel}: {} lost events", window.lost);
        assert!(window.lost > 0, "{kernel}");
        let at = events[lost].time;
        let sample = LateSample::new((events[lost + 1].running, None), at - 1_000, 2_000);
        let explained = explain(sample, &decoder, &window);
        assert!(!explained.is_complete, "{kernel}: {explained:?}");
        // A sample that ends within a gap is next to lost events, too.
        let gaps = events.windows(2).filter(|pair| pair.iter().all(|event| event.what == What::Lost));
        for gap in gaps {
            let (begin, length) = (gap[0].time - 1_000, (gap[1].time - gap[0].time) / 2 + 1_000);
            let thread = events[lost + 1].running;
            let explained = explain(LateSample::new((thread, None), begin, length), &decoder, &window);
            assert!(!explained.is_complete, "{kernel}: {explained:?}");
        }
    }
}

/// A generator of numbers without a period that matters here (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % limit.max(1)
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("an index")
    }
}

#[test]
fn the_parts_of_any_sample_add_up() {
    for kernel in KERNELS {
        for name in ["hog", "irqs_off", "irq_flood", "overrun"] {
            let (decoder, window, events) = recording(kernel, name);
            let (Some(first), Some(last)) = (events.first(), events.last()) else { continue };
            let mut numbers = Numbers(1);
            for _ in 0..500 {
                let begin = first.time - 1_000 + numbers.below(last.time - first.time + 2_000);
                let bits = numbers.below(32);
                let length = numbers.below(1 << bits);
                let thread = events[numbers.index(events.len())].running;
                explain(LateSample::new((thread, None), begin, length), &decoder, &window);
            }
        }
    }
}

#[test]
fn every_truncation_of_a_page_is_parsed() {
    for kernel in KERNELS {
        let mut decoder = decoder(kernel);
        for page in pages(kernel, "hog").iter().take(2) {
            let mut whole = Vec::new();
            ring::parse(page, decoder.layout(), |time, content| whole.extend(decoder.decode(time, content)));
            for length in 0..page.len() {
                let mut window = EventWindow::new(1_000);
                window.add_page(&page[..length], &mut decoder);
                let found: Vec<_> =
                    window.around(-2, 0, u64::MAX).0.filter(|event| event.what != What::Lost).copied().collect();
                assert_eq!(found, whole[..found.len()], "{kernel}: the events of {length} bytes are the first ones");
            }
        }
    }
}

#[test]
fn damaged_pages_cause_neither_a_panic_nor_unlimited_memory() {
    let count = std::env::var("HPT_MUTATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(MUTATIONS);
    let mut numbers = Numbers(29);
    for kernel in KERNELS {
        let recorded: Vec<_> =
            ["hog", "irqs_off", "irq_flood", "overrun"].iter().flat_map(|name| pages(kernel, name)).collect();
        let (mut decoder, mut window) = (decoder(kernel), EventWindow::new(5_000));
        for _ in 0..count / KERNELS.len() {
            let mut page = recorded[numbers.index(recorded.len())].clone();
            for _ in 0..=numbers.below(8) {
                // Most of the faults are in the header or in the first entries, because parsing ends at a fault.
                let limit = if numbers.below(2) == 0 { 64 } else { page.len() };
                let at = numbers.index(limit);
                page[at] = u8::try_from(numbers.below(256)).expect("a byte");
            }
            window.add_page(&page, &mut decoder);
            let begin = numbers.below(u64::MAX);
            let thread = i32::try_from(numbers.below(1_000)).expect("a small number");
            if numbers.below(16) == 0 {
                explain(LateSample::new((thread, None), begin, numbers.below(u64::MAX)), &decoder, &window);
            }
        }
        assert!(window.around(-2, 0, u64::MAX).0.count() <= 5_000);
    }
    println!("{count} damaged pages");
}
