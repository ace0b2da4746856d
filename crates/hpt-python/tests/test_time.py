"""Reads of the clock, points in time, the stopwatch and the arguments."""

import copy
import importlib.metadata
import math
import pickle
import time
from datetime import timedelta

import hpt
import pytest


def test_the_clock_is_that_of_time_monotonic():
    # hpt follows it with an error of less than 100 us; both brackets leave ten times that.
    before = time.monotonic_ns()
    now = hpt.monotonic_ns()
    after = time.monotonic_ns()
    assert before - 1_000_000 <= now <= after + 1_000_000


def test_the_clock_never_goes_back():
    reads = [hpt.monotonic_ns() for _ in range(10_000)]
    assert reads == sorted(reads)


def test_an_instant_is_exact():
    instant = hpt.Instant.from_nanos(2**60 + 1)
    assert instant.as_nanos() == 2**60 + 1
    assert instant.add_nanos(-1).as_nanos() == 2**60
    assert (instant + 0.001).nanos_since(instant) == 1_000_000
    assert (instant - timedelta(milliseconds=1)).nanos_since(instant) == -1_000_000
    assert (instant + 1) - instant == 1.0
    assert instant < instant + 1e-9 and instant == hpt.Instant.from_nanos(2**60 + 1)
    assert len({instant, hpt.Instant.from_nanos(2**60 + 1)}) == 1
    assert eval(repr(instant), {"Instant": hpt.Instant}) == instant


def test_an_instant_has_a_range():
    with pytest.raises(OverflowError, match="292 years"):
        hpt.Instant.from_nanos(2**63 - 1) + 1
    with pytest.raises(OverflowError):
        hpt.Instant.from_nanos(2**63)


def test_elapsed_is_negative_before_an_instant():
    later = hpt.Instant.now() + 3600
    assert later.elapsed() < 0 < hpt.Instant.from_nanos(0).elapsed_ns()


@pytest.mark.parametrize("wait", [hpt.sleep, hpt.Sleeper().sleep, hpt.Pacer, hpt.Instant.now().__add__])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (math.nan, ValueError, "NaN"),
        (-1, ValueError, "must not be negative"),
        (-1e-9, ValueError, "must not be negative"),
        (math.inf, ValueError, "292 years"),
        (1e10, ValueError, "292 years"),
        (10**400, ValueError, "292 years"),
        (timedelta(seconds=-1), ValueError, "must not be negative"),
        (timedelta.max, ValueError, "292 years"),
        ("1", TypeError, "a number of seconds or a timedelta, not str"),
        (None, TypeError, "not NoneType"),
    ],
)
def test_a_wrong_length_of_time_is_refused_with_a_sentence(wait, value, error, message):
    with pytest.raises(error, match=message):
        wait(value)


class Raises:
    def __init__(self, error):
        self.error = error

    def __float__(self):
        raise self.error


class RaisesAsInt(Raises, int):
    def __new__(cls, error):
        return int.__new__(cls)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError, OverflowError, ValueError])
def test_what_a_conversion_raises_is_raised(error):
    with pytest.raises(error):
        hpt.sleep(Raises(error))
    if error is not OverflowError:
        with pytest.raises(error):
            hpt.sleep(RaisesAsInt(error))
    with pytest.raises(TypeError, match="seconds must be a number of seconds or a timedelta, not Raises"):
        hpt.sleep(Raises(TypeError))


def test_a_period_is_longer_than_zero():
    with pytest.raises(ValueError, match="at least a nanosecond"):
        hpt.Pacer(0)


def test_a_stopwatch_measures_its_block():
    with hpt.Stopwatch() as stopwatch:
        time.sleep(0.002)
    measured = stopwatch.elapsed_ns
    assert measured >= 2_000_000 and stopwatch.elapsed == measured / 1e9
    assert stopwatch.elapsed_ns == measured, "it has ended"
    stopwatch.start()
    assert stopwatch.stop() >= 0


def test_a_stopwatch_ends_with_an_exception():
    stopwatch = hpt.Stopwatch()
    with pytest.raises(RuntimeError, match=r"call start\(\)"):
        stopwatch.elapsed
    with pytest.raises(KeyError), stopwatch:
        raise KeyError
    assert stopwatch.elapsed_ns == stopwatch.elapsed_ns


def test_values_can_be_copied_and_pickled():
    instant = hpt.Instant.from_nanos(2**60 + 1)
    with hpt.testing.FrozenClock(instant.add_nanos(5)):
        woken = hpt.sleep_until(instant)
    copies = [copy.copy, copy.deepcopy]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copies.append(lambda value, protocol=protocol: pickle.loads(pickle.dumps(value, protocol)))
    for copied in copies:
        assert copied(instant) == instant and repr(copied(woken)) == repr(woken)


def test_the_version_is_that_of_the_package():
    assert hpt.__version__ == importlib.metadata.version("hpt")


def test_the_stubs_refuse_what_raises(tmp_path):
    mypy = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text(
        "import hpt\nnow = hpt.Instant.now()\nnow + 1\nnow - now\nhpt.Instant()\n1 + now\n1 - now\n",
        encoding="utf-8",
    )
    printed, _, _ = mypy.run(["--strict", "--cache-dir", str(tmp_path), str(program)])
    lines = {int(line.split(":")[1]) for line in printed.splitlines() if ": error:" in line}
    assert lines == {5, 6, 7}, printed


def test_values_are_immutable():
    with pytest.raises(AttributeError):
        hpt.Instant.now().x = 1
