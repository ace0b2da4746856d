"""Threads, forks, subinterpreters and leaks."""

import gc
import importlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import hpt
import pytest
from conftest import PYTHON


def test_the_gil_is_released_while_waiting():
    counted, stop = 0, False

    def count():
        nonlocal counted
        while not stop:
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    # It counts only if a wait leaves it the GIL: this thread does nothing that takes 5 ms, the switch interval.
    while counted == before:
        hpt.sleep(0.002)
    stop = True
    thread.join()


@pytest.mark.parametrize("kind", [hpt.Sleeper, lambda: hpt.Pacer(0.002)])
def test_a_second_thread_is_refused_with_a_sentence(kind):
    user, outcome = kind(), []

    def use():
        # Whichever thread comes second is refused.
        while not outcome:
            try:
                user.sleep(0.002) if isinstance(user, hpt.Sleeper) else user.wait()
            except RuntimeError as refused:
                outcome.append(str(refused))

    thread = threading.Thread(target=use)
    thread.start()
    use()
    thread.join()
    assert "in use, by another thread" in outcome[0] and "create one for each thread" in outcome[0]


def test_a_monitor_reads_the_counters_while_another_thread_waits():
    sleeper, pacer = hpt.Sleeper(), hpt.Pacer(0.02)
    stop = threading.Event()

    def wait():
        while not stop.is_set():
            pacer.wait(), sleeper.sleep(0.02)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        # Nearly all of the time, one of them is in use.
        while pacer.ticks < 5:
            report = sleeper.report()
            assert report.lateness.count >= 0 and report.margin >= 0 and 0 <= report.cpu_share <= 1
            assert pacer.missed >= 0 and pacer.lateness.count >= 0
            time.sleep(0.001)
    finally:
        stop.set()
        thread.join()
    assert pacer.ticks == pacer.lateness.count == sleeper.report().lateness.count >= 5


def in_child(function):
    """Runs `function` in a forked child. Returns whether it succeeded."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if function() is not False else 1)
        except BaseException as failure:
            os.write(2, repr(failure).encode())
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_waits_with_objects_of_its_parent():
    sleeper, pacer = hpt.Sleeper(), hpt.Pacer(0.002)
    hpt.sleep(0.005), sleeper.sleep(0.005), pacer.wait()

    def child():
        start = hpt.Instant.now()
        hpt.sleep(0.005), sleeper.sleep(0.005), pacer.wait()
        return start.elapsed() >= 0.01 and pacer.ticks == 2

    assert in_child(child)
    hpt.sleep(0.005), sleeper.sleep(0.005), pacer.wait()
    assert pacer.ticks == 2


def test_signals_of_a_child_are_its_own():
    hpt.sleep(0.002)
    readable, writable = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    child = os.fork()
    if child == 0:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            os.write(writable, b"x")
            hpt.sleep(3600)
        except KeyboardInterrupt:
            os._exit(0)
        finally:
            os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    os.read(readable, 1), os.close(readable), os.close(writable)
    hpt.sleep(0.02)
    os.kill(child, signal.SIGINT)
    # The parent's own waits are not ended.
    assert hpt.sleep(0.005).late_ns >= 0
    assert os.waitpid(child, 0) == (child, 0)


def test_the_process_ends_while_a_daemon_thread_waits():
    # Python ends such a thread by unwinding its stack, through the frames of this module.
    code = """
        import threading, hpt
        def loop():
            for _ in hpt.Pacer(0.001):
                pass
        threading.Thread(target=loop, daemon=True).start()
        hpt.sleep(0.02)
    """
    for _ in range(3):
        done = subprocess.run([*PYTHON, "-c", textwrap.dedent(code)], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_subinterpreter_is_refused_with_a_sentence():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = importlib.import_module(name)
            break
        except ImportError:
            continue
    else:
        pytest.skip("this Python has no module for subinterpreters")
    readable, writable = os.pipe()
    code = f"""
        import os
        try:
            import hpt
            said = "imported"
        except ImportError as refused:
            said = str(refused)
        os.write({writable}, said.encode())
    """
    interpreter = interpreters.create()
    try:
        interpreters.run_string(interpreter, textwrap.dedent(code))
    finally:
        interpreters.destroy(interpreter)
    said = os.read(readable, 1_000).decode()
    os.close(readable), os.close(writable)
    # A Python that gives each interpreter a GIL of its own refuses the module itself.
    assert "subinterpreter" in said


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_a_frozen_clock_is_used_again():
    rounds = 200_000 if not os.environ.get("HPT_TEST_RUNNER") else 20_000

    def clocks(count):
        for _ in range(count):
            hpt.testing.FrozenClock()

    clocks(rounds // 100)
    before = resident()
    clocks(rounds)
    # Of 40 bytes for each clock, 8 MB would be left.
    assert resident() - before < rounds * 10


def test_a_clock_that_a_thread_has_entered_is_not_used_again():
    shown = []

    def enter():
        hpt.testing.FrozenClock(hpt.Instant.from_nanos(7)).__enter__()
        gc.collect()
        with hpt.testing.FrozenClock(hpt.Instant.from_nanos(9)):
            pass
        shown.append(hpt.monotonic_ns())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert shown == [7]


def test_a_million_calls_leak_nothing():
    sleeper, pacer, stopwatch = hpt.Sleeper(), hpt.Pacer(0.001), hpt.Stopwatch()

    def calls(count):
        for _ in range(count):
            hpt.monotonic_ns()
            (hpt.Instant.now() + 0.001).elapsed()
            sleeper.sleep(0.001)
            pacer.wait()
            hpt.sleep(0)
            with stopwatch:
                pass
            try:
                hpt.sleep(-1)
            except ValueError:
                pass

    rounds = 1_000_000 if sys.flags.dev_mode is False and not os.environ.get("HPT_TEST_RUNNER") else 100_000
    with hpt.testing.FrozenClock():
        calls(rounds // 80)
        gc.collect()
        before = resident()
        calls(rounds // 8)
        gc.collect()
    # Eight calls in each round; a leak of 8 bytes in each would be 8 MB.
    assert resident() - before < 2_000_000
