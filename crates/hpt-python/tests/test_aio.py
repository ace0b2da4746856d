"""Sleeps and intervals of asyncio."""

import asyncio
import os

import hpt
import pytest
from hpt import aio
from test_processes import in_child


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_a_sleep_is_never_early_and_other_tasks_run():
    async def main():
        turns = 0

        async def others():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        for seconds in (0, 1e-6, 0.0005, 0.003):
            for spin in (0, aio.SPIN):
                start, before = hpt.Instant.now(), turns
                woken = await aio.sleep(seconds, spin=spin)
                assert start.elapsed() >= seconds and woken.late_ns >= 0 and turns > before
        task.cancel()

    asyncio.run(main())


def test_an_interval_has_no_drift():
    async def main():
        interval = aio.Interval(0.001, overrun="catch_up")
        first = await interval.tick()
        number = 0
        async for tick in interval:
            number += 1
            assert tick.deadline.nanos_since(first.deadline) == number * 1_000_000
            if number == 50:
                break
        assert interval.ticks == interval.lateness.count == 51 and interval.missed == 0 and interval.period == 0.001
        interval.reset()
        assert (await interval.tick()).late_ns >= 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("wait", "error", "message"),
    [
        (lambda: aio.sleep(-1), ValueError, "^seconds must not be negative"),
        (lambda: aio.sleep(None), TypeError, "^seconds must be a number"),
        (lambda: aio.sleep_until(0.5), TypeError, "^deadline must be an Instant.*float"),
        (lambda: aio.sleep_until(None), TypeError, "^deadline must be an Instant.*NoneType"),
        (lambda: aio.sleep(0, spin=-1), ValueError, "^spin must not be negative"),
        (lambda: aio.sleep_until(hpt.Instant.now(), spin="1"), TypeError, "^spin must be a number"),
        (lambda: aio.Interval(1, spin=-1), ValueError, "^spin must not be negative"),
    ],
)
def test_a_wrong_argument_is_named(wait, error, message):
    async def main():
        await wait()

    with pytest.raises(error, match=message):
        asyncio.run(main())


def test_the_longest_sleep_can_be_awaited():
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(aio.sleep(9.22e9), 0.001)

    asyncio.run(main())


def test_cancellation_leaves_nothing():
    async def main():
        await aio.sleep(0.001)
        before = descriptors()
        interval = aio.Interval(3600)
        for wait in (lambda: aio.sleep(3600), interval.tick, lambda: aio.sleep_until(hpt.Instant.now() + 3600)):
            for _ in range(100):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(wait(), 0.0001)
        assert descriptors() == before and interval.ticks == 0
        task = asyncio.create_task(interval.tick())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one for each task"):
            await interval.tick()
        task.cancel()

    asyncio.run(main())


def test_a_frozen_clock_moves_to_the_earliest_deadline():
    async def main(clock):
        start, woken = hpt.Instant.now(), []

        async def one(seconds):
            await aio.sleep(seconds)
            woken.append((seconds, start.elapsed()))

        await asyncio.gather(one(3600), one(1), one(5))
        assert woken == [(1, 1.0), (5, 5.0), (3600, 3600.0)]
        interval = aio.Interval(60)
        assert [(await interval.tick()).late_ns for _ in range(60)] == [0] * 60
        waiting = asyncio.create_task(aio.sleep(10))
        await asyncio.sleep(0)
        clock.advance(20)
        assert (await waiting).late_ns == 10_000_000_000
        cancelled = asyncio.create_task(aio.sleep(10))
        await asyncio.sleep(0)
        cancelled.cancel()

    for _ in range(2):
        with hpt.testing.FrozenClock() as clock:
            asyncio.run(main(clock))


def test_a_child_has_timers_of_its_own():
    async def main():
        interval = aio.Interval(0.001)
        await interval.tick()
        return interval

    interval = asyncio.run(main())

    def child():
        asyncio.run(main())
        with pytest.raises(RuntimeError, match="create one in the child"):
            asyncio.run(interval.tick())

    assert in_child(child)
