//! Sleeps on this machine: never early, ended by every interruption and by nothing else. Never
//! tests punctuality.

use std::{
    process::{self, Command},
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, SystemTime},
};

use hpt_core::{
    Host, Instant, Sleeper, clock,
    sleep::{Strategy, Target, Waker, WokenByWall},
    source,
};
use hpt_sys::process::CpuSet;

use crate::support::{
    alone_to_change_the_source, is_alone, times,
    unsafe_calls::{ChildEnd, in_a_child, interrupt_every},
};

const LONG: Duration = Duration::from_secs(3_600);
const STRATEGIES: [Strategy; 3] = [Strategy::Precise, Strategy::SpinOnly, Strategy::KernelOnly];

#[test]
fn no_sleep_ends_early() {
    for strategy in STRATEGIES {
        let mut sleeper = Sleeper::new().with_strategy(strategy);
        for us in [0, 1, 3, 10, 50, 100, 250, 1_000, 5_000] {
            for _ in 0..5 {
                let deadline = Instant::now() + Duration::from_micros(us);
                assert!(sleeper.sleep_until(deadline).is_in_time(), "{strategy:?}, {us} µs");
                assert!(Instant::now() >= deadline);
            }
        }
        let report = sleeper.report();
        assert_eq!((report.in_time, report.interrupted), (45, 0));
        assert!((0.0..=1.0).contains(&report.spinning_share), "{report:?}");
    }
}

#[test]
fn a_past_deadline_is_not_waited_for() {
    let mut sleeper = Sleeper::new();
    for deadline in [Instant::EPOCH, Instant::now()] {
        assert!(sleeper.sleep_until(deadline).is_in_time());
    }
    let past = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert!(sleeper.sleep_until_wall(past).woken.is_in_time());
}

#[test]
fn a_sleep_until_the_last_instant_lasts_until_an_interruption() {
    let mut sleeper = Sleeper::new();
    for _ in 0..3 {
        let waker = sleeper.waker();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(3));
            waker.wake();
        });
        let woken = sleeper.sleep(Duration::MAX);
        assert!(woken.interrupted.is_some_and(|left| left > LONG), "{woken:?}");
        other.join().expect("it only interrupts");
    }
}

#[test]
fn an_interruption_before_or_during_a_sleep_ends_one_sleep() {
    for strategy in STRATEGIES {
        let mut sleeper = Sleeper::new().with_strategy(strategy);
        let waker = sleeper.waker();
        waker.wake();
        waker.wake();
        assert!(!sleeper.sleep(LONG).is_in_time(), "{strategy:?}");
        assert!(sleeper.sleep(Duration::from_micros(100)).is_in_time(), "both were for the one before");
        waker.wake();
        sleeper.clear_interruption();
        assert!(sleeper.sleep(Duration::from_micros(100)).is_in_time(), "it was forgotten");
        waker.wake();
        assert!(!sleeper.sleep_until_wall(SystemTime::now() + LONG).woken.is_in_time());
        // A thread that is behind can be interrupted too.
        waker.wake();
        assert_eq!(sleeper.sleep_until(Instant::EPOCH).interrupted, Some(Duration::ZERO));
        waker.wake();
        let woken = sleeper.sleep_until_wall(SystemTime::UNIX_EPOCH).woken;
        assert_eq!(woken.interrupted, Some(Duration::ZERO));
        assert!(sleeper.sleep_until_wall(SystemTime::UNIX_EPOCH).woken.is_in_time());
    }
}

/// Counts to `most`, or for half a minute, but to 30 at least. Each interruption needs turns of two
/// threads, which take long on a busy machine.
fn interruptions(most: u32) -> impl Iterator<Item = u32> {
    let begun = std::time::Instant::now();
    (0..most).take_while(move |&number| number < 30 || begun.elapsed() < Duration::from_secs(30))
}

/// Interruptions at random times of sleeps that nothing else ends, blocking or spinning: each ends
/// one sleep, none is lost, and none remains.
#[test]
fn every_interruption_ends_its_sleep() {
    let mut sleeper = Sleeper::new();
    let waker = sleeper.waker();
    let (begun, begins) = mpsc::channel();
    let other = thread::spawn(move || {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for () in begins {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // From 0 to 60 µs: the sleep is about to begin, is blocked, or spins.
            let until = Instant::now() + Duration::from_nanos(random % 60_000);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            waker.wake();
        }
    });
    let mut made = 0;
    for (_, strategy) in interruptions(times(10_000, 500)).zip(STRATEGIES.into_iter().cycle()) {
        sleeper = sleeper.with_strategy(strategy);
        begun.send(()).expect("the other thread lives");
        assert!(!sleeper.sleep(LONG).is_in_time(), "{strategy:?}");
        made += 1;
    }
    drop(begun);
    other.join().expect("it only interrupts");
    assert_eq!(sleeper.report().interrupted, made);
    assert!(sleeper.sleep(Duration::from_millis(1)).is_in_time(), "one was left over");
}

static FROM_A_HANDLER: OnceLock<Waker> = OnceLock::new();
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn interrupt_the_sleep(_signal: libc::c_int) {
    // Every tenth interrupts the sleep; the others only disturb it.
    let is_tenth = HANDLED.fetch_add(1, Ordering::Relaxed) % 10 == 9;
    if let Some(waker) = FROM_A_HANDLER.get().filter(|_| is_tenth) {
        waker.wake();
    }
}

#[test]
fn signals_do_not_shorten_a_sleep_but_a_handler_may_interrupt_it() {
    let end = in_a_child(|| {
        let mut sleeper = Sleeper::new();
        let _ = FROM_A_HANDLER.set(sleeper.waker());
        interrupt_every(Duration::from_micros(500), interrupt_the_sleep);
        let mut interrupted = 0;
        while interrupted < 20 {
            let deadline = Instant::now() + Duration::from_millis(2);
            match sleeper.sleep_until(deadline).is_in_time() {
                true if Instant::now() < deadline => return 1,
                true => {}
                false => interrupted += 1,
            }
        }
        0
    });
    assert_eq!(end, ChildEnd::Exited(0));
}

/// A shell stops the whole process during sleeps, and continues it.
#[test]
fn a_sleep_continues_after_the_program_was_stopped() {
    const STOPPED: Duration = Duration::from_millis(100);
    if !is_alone("sleeps::a_sleep_continues_after_the_program_was_stopped") {
        return;
    }
    for strategy in STRATEGIES {
        let mut sleeper = Sleeper::new().with_strategy(strategy);
        let own = process::id();
        // One thread handles the signal and stops the others. On a busy machine, it may have to
        // wait for a CPU.
        let runs = format!("grep -h ^State: /proc/{own}/task/*/status | grep -qv stopped");
        let script = format!("sleep 0.03; kill -STOP {own}; while {runs}; do :; done; sleep 0.1; kill -CONT {own}");
        // Started before the shell: with one processor, the shell may have finished before this
        // thread continues.
        let (mut latest, mut longest) = (Instant::now(), Duration::ZERO);
        let mut shell = Command::new("sh").args(["-c", &script]).spawn().expect("every system has a shell");
        let mut is_over = false;
        while !is_over {
            is_over = shell.try_wait().expect("it is a child").is_some();
            let deadline = Instant::now() + Duration::from_millis(10);
            assert!(sleeper.sleep_until(deadline).is_in_time(), "a stop is no interruption: {strategy:?}");
            let now = Instant::now();
            assert!(now >= deadline, "{strategy:?}");
            longest = longest.max(now - latest);
            latest = now;
        }
        shell.wait().expect("it is over");
        assert!(longest >= STOPPED, "it was not stopped: {longest:?}");
        assert!(sleeper.sleep(Duration::from_millis(1)).is_in_time());
    }
}

#[test]
fn the_source_may_change_during_a_sleep() {
    let _alone = alone_to_change_the_source();
    let host = Host::live();
    let before = clock::source().id;
    let changes = AtomicU64::new(0);
    thread::scope(|scope| {
        let sleeping = scope.spawn(|| {
            let (mut sleeper, begun) = (Sleeper::new(), std::time::Instant::now());
            let mut sleeps = 0;
            while sleeps < 40 || changes.load(Ordering::Relaxed) < 4 {
                let deadline = Instant::now() + Duration::from_millis(1);
                assert!(sleeper.sleep_until(deadline).is_in_time() && Instant::now() >= deadline);
                assert!(begun.elapsed() < Duration::from_secs(1_800), "it hangs: the source is never changed");
                sleeps += 1;
            }
        });
        while !sleeping.is_finished() {
            for name in ["monotonic", before.as_str()] {
                let opened = source::open(&host, name).expect("it was used before");
                changes.fetch_add(u64::from(clock::use_source(opened).is_ok()), Ordering::Relaxed);
            }
        }
        sleeping.join().expect("no sleep ended early");
    });
}

/// Never early, even if signals interrupt the readings of the two clocks.
#[test]
fn a_sleep_can_wait_for_a_wall_clock_time() {
    let repetitions = times(60, 4);
    let end = in_a_child(|| {
        interrupt_every(Duration::from_micros(50), disturb);
        for strategy in STRATEGIES {
            let mut sleeper = Sleeper::new().with_strategy(strategy);
            for us in [0, 10, 150, 300, 1_000].repeat(repetitions) {
                let outer = std::time::Instant::now();
                let wall = SystemTime::now();
                let inner = std::time::Instant::now();
                let deadline = wall + Duration::from_micros(us);
                let woken = sleeper.sleep_until_wall(deadline);
                let shortest = inner.elapsed();
                let now = SystemTime::now();
                let longest = outer.elapsed();
                // The wall clock of the machine may be set during the test. It was set if it
                // advanced by less than the certainly elapsed time, or by more than the possibly
                // elapsed time.
                let shown = now.duration_since(wall).unwrap_or_default();
                let moved = shortest.saturating_sub(shown).max(shown.saturating_sub(longest));
                if moved > Duration::from_millis(50) {
                    return 2;
                }
                if !woken.woken.is_in_time() || now < deadline {
                    return 1;
                }
                if woken.clock_was_set && moved < Duration::from_micros(100) {
                    return 3;
                }
            }
        }
        0
    });
    match end {
        ChildEnd::Exited(2) => skipped!("the wall clock was set"),
        end => assert_eq!(end, ChildEnd::Exited(0), "1: early, 3: said to be set"),
    }
}

extern "C" fn disturb(_signal: libc::c_int) {
    std::hint::black_box(Instant::now());
}

/// These sleeps contribute to the wake-up statistics as well.
#[test]
fn wall_clock_sleeps_are_learned_from() {
    let mut sleeper = Sleeper::new().with_target(Target::CpuShare(0.0));
    for _ in 0..200 {
        let _ = sleeper.sleep_until_wall(SystemTime::now() + Duration::from_micros(500));
    }
    let report = sleeper.report();
    assert_eq!(report.in_time, 200);
    // 60 µs is the initial margin.
    assert_ne!(report.margin, Duration::from_micros(60), "{:?}", report.late);
}

/// Even while spinning: sleeps that would end by themselves are interrupted at some time.
#[test]
fn an_interruption_ends_the_sleep_in_progress() {
    let mut sleeper = Sleeper::new();
    let waker = sleeper.waker();
    let (begun, begins) = mpsc::channel();
    let other = thread::spawn(move || {
        for delay_ns in begins {
            let until = Instant::now() + Duration::from_nanos(delay_ns);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            waker.wake();
        }
    });
    let mut made = 0;
    for number in interruptions(times(1_000, 50)) {
        begun.send(u64::from(number) * 7_919 % 300_000).expect("the other thread lives");
        let mut sleeps = 1;
        while sleeper.sleep(Duration::from_micros(200)).is_in_time() {
            sleeps += 1;
            assert!(sleeps < 1_000_000, "one was lost");
        }
        made += 1;
    }
    drop(begun);
    other.join().expect("it only interrupts");
    assert_eq!(sleeper.report().interrupted, made);
    assert!(sleeper.sleep(Duration::from_millis(1)).is_in_time(), "one was left over");
}

fn set_the_wall_clock(to: SystemTime) {
    let since_epoch = to.duration_since(SystemTime::UNIX_EPOCH).expect("it is no old machine").as_secs();
    let status = Command::new("date").args(["-s", &format!("@{since_epoch}")]).stdout(process::Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "only root sets the clock");
}

#[test]
#[ignore = "sets the wall clock of the machine; for root of an emulated board"]
fn a_sleep_follows_the_wall_clock_when_it_is_set() {
    for strategy in STRATEGIES {
        follows_forward(strategy);
        follows_back(strategy);
        println!("followed: {strategy:?}");
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

/// Sleeps until `deadline` in a separate thread, and reports when that ended. When this returns,
/// the thread is asleep or finished.
fn sleeping_until(deadline: SystemTime, strategy: Strategy) -> thread::JoinHandle<(WokenByWall, Instant)> {
    let (begun, begins) = mpsc::channel();
    let sleeping = thread::spawn(move || {
        let mut sleeper = Sleeper::new().with_strategy(strategy);
        let own = std::fs::read_link("/proc/thread-self").expect("the kernel names the thread");
        begun.send(own).expect("the receiver waits");
        (sleeper.sleep_until_wall(deadline), Instant::now())
    });
    let own = std::path::Path::new("/proc").join(begins.recv().expect("it begins"));
    // The thread does nothing else. It sleeps in the kernel, or it polls the clock, which its CPU
    // time shows. In a guest, a pause of the host counts as CPU time too, but all of it appears in
    // one look.
    let spins = matches!(strategy, Strategy::SpinOnly);
    let (_, mut last) = state_and_ticks(&own);
    let mut advances = 0;
    while !sleeping.is_finished() {
        let (state, ticks) = state_and_ticks(&own);
        advances += u32::from(ticks > last);
        last = ticks;
        if if spins { advances >= 5 } else { state == 'S' } {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    sleeping
}

/// Returns the state of a thread, and its CPU time in hundredths of a second. proc(5),
/// /proc/pid/stat.
fn state_and_ticks(thread: &std::path::Path) -> (char, u64) {
    let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
    let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let state = fields.next().and_then(|state| state.chars().next()).unwrap_or('X');
    // The eleventh and twelfth fields after the state.
    let ticks = fields.skip(10).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    (state, ticks)
}

/// The sleep ends long before its deadline on the monotonic clock.
fn follows_forward(strategy: Strategy) {
    let start = Instant::now();
    let deadline = SystemTime::now() + HOUR;
    let sleeping = sleeping_until(deadline, strategy);
    set_the_wall_clock(deadline + Duration::from_secs(5));
    let (ended, _) = sleeping.join().expect("it only sleeps");
    assert!(ended.woken.is_in_time() && start.elapsed() < HOUR, "{strategy:?}: {ended:?}");
    assert!(SystemTime::now() >= deadline);
    assert!(ended.clock_was_set, "{strategy:?}: it was set forward");
}

/// The sleep does not end at its original time, but when the wall clock reaches the deadline.
fn follows_back(strategy: Strategy) {
    let mut ahead = Duration::from_secs(1);
    let (sleeping, deadline, start) = loop {
        let start = Instant::now();
        let deadline = SystemTime::now() + ahead;
        let sleeping = sleeping_until(deadline, strategy);
        set_the_wall_clock(deadline - HOUR);
        // The clock must be set during the sleep. On a busy machine, that needs more time.
        if Instant::now() < start + ahead && !sleeping.is_finished() {
            break (sleeping, deadline, start);
        }
        set_the_wall_clock(deadline + Duration::from_secs(5));
        let _ = sleeping.join().expect("it only sleeps");
        ahead *= 2;
    };
    // Beyond the time at which it would have ended.
    thread::sleep(ahead.saturating_sub(start.elapsed()) + Duration::from_millis(200));
    let would_have_ended = Instant::now();
    assert!(!sleeping.is_finished(), "{strategy:?}: an hour before its time");
    set_the_wall_clock(deadline + Duration::from_secs(5));
    let (ended, end) = sleeping.join().expect("it only sleeps");
    assert!(ended.woken.is_in_time() && end >= would_have_ended, "{strategy:?}: {ended:?}");
    assert!(ended.clock_was_set, "{strategy:?}: it was set back");
}

/// Three threads of the same CPU never block, so that this one has to wait for its turn again and again.
#[test]
fn a_late_wait_beside_busy_threads_says_how_long_it_waited_for_its_turn() {
    if std::fs::read_to_string("/proc/thread-self/schedstat").is_err() {
        return skipped!("this kernel does not count the time for which a thread waits for a CPU");
    }
    let pinned = CpuSet::of_this_thread().ok().and_then(|set| set.cpus().last()).map(CpuSet::only);
    let pinned = pinned.expect("a thread has a CPU");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                pinned.apply().expect("it may run there");
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let measured = scope.spawn(|| {
            pinned.apply().expect("it may run there");
            let (mut sleeper, began) = (Sleeper::new(), Instant::now());
            let mut proven = false;
            while !proven && began.elapsed() < Duration::from_secs(60) {
                let start = Instant::now();
                let woken = sleeper.sleep(Duration::from_millis(1));
                if let Some(waited) = woken.waited_for_cpu {
                    assert!(waited <= start.elapsed(), "{woken:?}");
                    proven = waited * 2 > woken.late;
                }
            }
            proven
        });
        let proven = measured.join();
        is_over.store(true, Ordering::Relaxed);
        assert!(proven.expect("no wait for a turn is longer than the wait"), "it never had to wait");
    });
}
