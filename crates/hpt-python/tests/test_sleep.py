"""Sleeps, periodic loops and their statistics."""

import time

import hpt
import pytest


def test_a_sleep_is_never_early():
    sleeper = hpt.Sleeper()
    for sleep in (hpt.sleep, sleeper.sleep):
        for seconds in (0, 1e-6, 0.0005, 0.002, 0.02):
            start = hpt.monotonic_ns()
            woken = sleep(seconds)
            assert hpt.monotonic_ns() - start >= seconds * 1e9
            assert woken.late_ns >= woken.gil_ns >= 0 and woken.late == woken.late_ns / 1e9 and woken.missed == 0
    assert sleeper.report().lateness.count == 5


def test_a_deadline_that_has_passed_returns_at_once():
    past = hpt.Instant.now() - 3600
    assert hpt.sleep_until(past).late >= 3600
    assert hpt.Sleeper().until(past).deadline == past


def test_targets_are_checked_and_judged():
    sleeper = hpt.Sleeper(p99=1.0)
    for _ in range(1_100):
        sleeper.sleep(1e-6)
    report = sleeper.report()
    assert report.target_is_met is True and 0 <= report.cpu_share <= 1 and report.margin >= 0
    assert hpt.Sleeper(p99=1e-5, cpu_share=0.1).report().target_is_met is None
    with pytest.raises(ValueError, match="from 0 to 1, not 2"):
        hpt.Sleeper(cpu_share=2)
    with pytest.raises(ValueError, match="leave one out"):
        hpt.Sleeper(p999=1e-5, cpu_share=0.1)


def test_the_distribution_has_exact_ends():
    with hpt.testing.FrozenClock() as clock:
        sleeper = hpt.Sleeper()
        assert sleeper.report().lateness.max is None and sleeper.report().lateness.quantile(0.5) is None
        for late_us in range(1, 101):
            deadline = hpt.Instant.now()
            clock.advance(late_us * 1e-6)
            assert sleeper.until(deadline).late_ns == late_us * 1_000
        late = sleeper.report().lateness
    assert (late.count, late.min, late.max) == (100, 1e-6, 1e-4)
    assert late.mean == pytest.approx(50.5e-6) and late.quantile(0.5) == pytest.approx(50e-6, rel=0.02)
    assert late.quantile(1) == late.max and late.count_above(98.5e-6) == 2
    assert sum(count for _, count in late.classes()) == 100
    with pytest.raises(ValueError, match="from 0 to 1, not 99"):
        late.quantile(99)


def test_a_loop_has_no_drift():
    pacer = hpt.Pacer(0.0005, overrun="catch_up")
    first = pacer.wait()
    last = first
    for number, tick in enumerate(pacer, start=1):
        assert tick.deadline.nanos_since(first.deadline) == number * 500_000
        last = tick
        if number == 200:
            break
    assert last.missed == pacer.missed == 0 and pacer.ticks == pacer.lateness.count == 201
    assert pacer.period == 0.0005


@pytest.mark.parametrize(("overrun", "late_ms", "missed"), [("skip", 0.5, 3), ("catch_up", 3.5, 0), ("reset", 0, 4)])
def test_missed_periods_follow_the_overrun(overrun, late_ms, missed):
    with hpt.testing.FrozenClock() as clock:
        pacer = hpt.Pacer(0.001, overrun=overrun)
        clock.advance(0.0045)
        tick = pacer.wait()
        assert (tick.late_ns, tick.missed, pacer.missed) == (late_ms * 1_000_000, missed, missed)
        pacer.reset()
        assert pacer.wait().late_ns == 0


def test_an_unknown_overrun_is_refused():
    with pytest.raises(ValueError, match='"skip", "catch_up" or "reset", not "drop"'):
        hpt.Pacer(0.001, overrun="drop")


def test_a_frozen_clock_replaces_the_time_of_its_thread():
    clock = hpt.testing.FrozenClock(hpt.Instant.from_nanos(7))
    with clock, hpt.Stopwatch() as stopwatch:
        assert hpt.monotonic_ns() == 7 and clock.now().as_nanos() == 7
        real = time.monotonic()
        assert hpt.sleep(3600).late_ns == 0
        assert time.monotonic() - real < 3600
    assert stopwatch.elapsed == 3600.0
    assert hpt.monotonic_ns() > 1_000_000_000
    with pytest.raises(RuntimeError, match="in reverse order"):
        clock.__exit__(None, None, None)
