"""Tests a program that runs for a day, without waiting: pytest test_frozen_clock.py."""

import asyncio

import hpt
from hpt import aio
from hpt.testing import FrozenClock


def log_once_a_minute(log, until):
    """The program under test."""
    for tick in hpt.Pacer(60):
        if tick.deadline > until:
            return
        log.append(tick)


def test_a_day_has_1440_lines():
    with FrozenClock() as clock:
        log = []
        log_once_a_minute(log, clock.now() + 86_400)
    assert len(log) == 1_440 and all(tick.late_ns == 0 for tick in log)


def test_slow_work_misses_periods():
    with FrozenClock() as clock:
        pacer = hpt.Pacer(60)
        clock.advance(200)  # the work took more than three minutes
        tick = pacer.wait()
    assert (tick.missed, tick.late) == (2, 20.0)


def test_tasks_wake_in_the_order_of_their_deadlines():
    async def main():
        order = []

        async def wake(name, seconds):
            await aio.sleep(seconds)
            order.append(name)

        await asyncio.gather(wake("evening", 72_000), wake("noon", 43_200))
        return order

    with FrozenClock():
        assert asyncio.run(main()) == ["noon", "evening"]
