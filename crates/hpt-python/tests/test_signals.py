"""Signals end waits of the main thread, whenever they arrive."""

import asyncio
import os
import random
import resource
import signal
import threading
import time

import hpt
import pytest
from test_processes import in_child


class Rung(Exception):
    pass


@pytest.fixture
def alarm():
    """Raises Rung when SIGALRM arrives."""

    def ring(*_):
        raise Rung

    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


WAITS = [
    lambda: hpt.sleep(3600),
    lambda: hpt.Sleeper().sleep(3600),
    lambda: hpt.Sleeper().until(hpt.Instant.now() + 3600),
    lambda: hpt.Pacer(3600).wait(),
    lambda: next(iter(hpt.Pacer(3600))),
    lambda: hpt.calibrate("monotonic", 3600),
]


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(wait):
    timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        wait()
    timer.join()


def test_no_signal_is_lost_whenever_it_arrives(alarm):
    # Before, during and after the system calls of a wait: a lost one would hang until the deadline.
    random.seed(1)
    sleeper = hpt.Sleeper()
    for _ in range(1_000):
        with pytest.raises(Rung):
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 150e-6))
            sleeper.sleep(3600)


def test_a_signal_that_another_thread_receives_ends_the_wait(alarm):
    def send():
        time.sleep(0.02)
        signal.pthread_kill(threading.get_ident(), signal.SIGALRM)

    thread = threading.Thread(target=send)
    with pytest.raises(Rung):
        thread.start()
        hpt.sleep(3600)
    thread.join()


def test_a_handler_that_returns_does_not_end_the_wait():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(hpt.sleep(0.002)))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        start = hpt.Instant.now()
        hpt.sleep(0.05)
        assert start.elapsed() >= 0.05 and rung
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_wakeup_descriptor_is_restored_and_served():
    async def main():
        loop = asyncio.get_running_loop()
        received = loop.create_future()
        loop.add_signal_handler(signal.SIGUSR1, received.set_result, "SIGUSR1")
        timer = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        # A blocking wait in a loop: the signal arrives at the descriptor of the wait.
        hpt.sleep(0.05)
        timer.join()
        assert await received == "SIGUSR1"

    asyncio.run(main())
    assert signal.set_wakeup_fd(-1) == -1


def test_the_wakeup_descriptor_of_a_handler_stays():
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    os.set_blocking(readable, False)
    rung = []

    def handle(*_):
        if not rung:
            signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        rung.append(None)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        while len(rung) < 3:
            hpt.sleep(0.1)
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert signal.set_wakeup_fd(-1) == writable
        # Those that arrived during the wait were passed on.
        assert os.read(readable, 1) == bytes([signal.SIGALRM])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.set_wakeup_fd(-1)
        os.close(readable), os.close(writable)


def ends_with_an_alarm(wait):
    """Returns whether an alarm ends the wait."""
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        wait()
    except Rung:
        return True
    return False


def close_all():
    os.closerange(3, 1_000)


def test_a_wait_does_without_descriptors_that_the_program_closed(alarm):
    def child():
        for _ in range(2):
            hpt.sleep(0.005)
            close_all()
            assert ends_with_an_alarm(lambda: hpt.sleep(3600))
        assert signal.set_wakeup_fd(-1) == -1

    assert in_child(child)


def test_a_wait_leaves_descriptors_of_the_program_alone(alarm):
    def child():
        # In a thread as well, whose descriptors are closed when it ends.
        waited, closed = threading.Event(), threading.Event()
        thread = threading.Thread(target=lambda: (hpt.sleep(0.005), waited.set(), closed.wait()))
        thread.start()
        hpt.sleep(0.005)
        waited.wait()
        close_all()
        pipes = [os.pipe() for _ in range(8)]
        for readable, writable in pipes:
            os.set_blocking(writable, False)
            os.write(writable, b"mine")
        closed.set()
        thread.join()
        assert ends_with_an_alarm(lambda: hpt.sleep(3600))
        hpt.sleep(0.005)
        assert [os.read(readable, 100) for readable, _ in pipes] == [b"mine"] * 8

    assert in_child(child)


def test_a_handler_may_close_the_descriptor_of_the_wait():
    def child():
        rung = []

        def handle(*_):
            rung.append(None)
            if len(rung) == 1:
                close_all()
            elif len(rung) == 3:
                raise Rung
            signal.setitimer(signal.ITIMER_REAL, 0.5)

        signal.signal(signal.SIGALRM, handle)
        start, used = time.monotonic(), time.thread_time()
        assert ends_with_an_alarm(lambda: hpt.sleep(3600))
        # It blocks, and does not ask for the state of a closed descriptor again and again.
        return time.thread_time() - used < (time.monotonic() - start) / 2

    assert in_child(child)


def test_a_wait_works_while_no_descriptor_is_free(alarm):
    def child():
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        start = hpt.Instant.now()
        hpt.sleep(0.005), hpt.Sleeper().sleep(0.005), hpt.Pacer(0.005).wait()
        assert start.elapsed() >= 0.015
        return ends_with_an_alarm(lambda: hpt.sleep(3600))

    assert in_child(child)


def test_a_handler_reads_the_counters_of_the_wait_that_it_interrupted():
    sleeper, pacer, read, refused = hpt.Sleeper(), hpt.Pacer(0.1), [], []

    def handle(*_):
        read.append((pacer.ticks, pacer.missed, pacer.lateness.count, sleeper.report().lateness.count))
        for wait in (pacer.wait, pacer.reset, lambda: sleeper.sleep(0)):
            try:
                wait()
            except RuntimeError as refusal:
                refused.append(str(refusal))

    sleeper.sleep(0.001)
    before = signal.signal(signal.SIGALRM, handle)
    try:
        for wait in (pacer.wait, lambda: sleeper.sleep(0.1)):
            read.clear(), refused.clear()
            # Until one arrives in the wait.
            while not refused:
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                wait()
            assert read and "the code that this signal handler interrupted" in refused[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_sleeper_works_after_a_wait_was_ended(alarm):
    sleeper, pacer = hpt.Sleeper(), hpt.Pacer(3600)
    for wait in (lambda: sleeper.sleep(3600), pacer.wait):
        with pytest.raises(Rung):
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            wait()
    assert sleeper.sleep(0.001).late_ns >= 0
    with hpt.testing.FrozenClock():
        assert pacer.wait().missed == 0 and pacer.ticks == 1


def test_waits_of_other_threads_reach_their_deadline():
    ended = []
    start = hpt.Instant.now()
    thread = threading.Thread(target=lambda: ended.append(hpt.sleep(0.1)))
    thread.start()
    signal.raise_signal(signal.SIGCHLD)
    thread.join()
    assert ended and start.elapsed() >= 0.1
