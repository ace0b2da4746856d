"""Precise sleeps and intervals for asyncio.

asyncio's own timers round up to milliseconds. These use a timer of the kernel that the event loop watches, shortly
before the deadline, and keep the loop busy for the rest: ``spin`` seconds at most.
"""

from __future__ import annotations

import asyncio as _asyncio
import heapq as _heapq
import itertools as _itertools
import os as _os
import threading as _threading
from datetime import timedelta as _timedelta
from typing import List, Literal, Optional, Tuple, Union

from . import _hpt
from ._hpt import Error, Instant, Lateness, Woken

__all__ = ["Interval", "sleep", "sleep_until"]

Seconds = Union[float, _timedelta]

SPIN = 100e-6
"""The time before a deadline for which a wait keeps the loop busy by default, in seconds."""


_LAST_NS = 2**63 - 1
"""The last point in time."""


async def sleep(seconds: Seconds, *, spin: Seconds = SPIN) -> Woken:
    """Sleeps for ``seconds``, while other tasks run."""
    start_ns = _hpt.monotonic_ns()
    deadline_ns = start_ns + _hpt._nanoseconds(seconds, "seconds")
    return await sleep_until(Instant.from_nanos(min(deadline_ns, _LAST_NS)), spin=spin)


async def sleep_until(deadline: Instant, *, spin: Seconds = SPIN) -> Woken:
    """Sleeps until ``deadline``, while other tasks run. Gives the other tasks a turn even if it has passed."""
    if not isinstance(deadline, Instant):
        raise TypeError(f"deadline must be an Instant, as Instant.now() + 0.5, not {type(deadline).__name__}")
    await _approach(deadline, _hpt._nanoseconds(spin, "spin"))
    return _hpt.sleep_until(deadline)


async def _approach(deadline: Instant, spin_ns: int) -> None:
    """Waits until ``spin_ns`` nanoseconds before the deadline."""
    while _hpt._is_frozen():
        if await _follow(deadline):
            return
    early = deadline.add_nanos(-spin_ns)
    if early.elapsed_ns() >= 0:
        await _asyncio.sleep(0)
        return
    loop = _asyncio.get_running_loop()
    reached: _asyncio.Future[None] = loop.create_future()
    try:
        timer = _hpt._Timer(early)
    except OSError as refused:
        raise Error(f"{refused}: each wait takes a file descriptor; raise the limit (ulimit -n), or wait less often"
                    " at the same time") from refused
    try:
        loop.add_reader(timer.fileno(), _set, reached)
        try:
            await reached
        finally:
            loop.remove_reader(timer.fileno())
    finally:
        timer.close()


def _set(reached: _asyncio.Future[None]) -> None:
    if not reached.done():
        reached.set_result(None)


class Interval:
    """Starts periods of ``period`` seconds: ``async for tick in Interval(0.001)``.

    As hpt.Pacer, with the same ``overrun``. A tick that is cancelled loses no period. For one task at a time, in the
    process that created it.
    """

    __slots__ = ("_pacer", "_process", "_spin_ns", "_is_waiting")

    def __init__(
        self, period: Seconds, *, overrun: Literal["skip", "catch_up", "reset"] = "skip", spin: Seconds = SPIN
    ) -> None:
        self._pacer = _hpt.Pacer(period, overrun=overrun)
        self._process = _os.getpid()
        self._spin_ns = _hpt._nanoseconds(spin, "spin")
        self._is_waiting = False

    def __aiter__(self) -> Interval:
        return self

    async def __anext__(self) -> Woken:
        return await self.tick()

    async def tick(self) -> Woken:
        """Waits until the next period starts."""
        if self._is_waiting:
            raise RuntimeError("another task waits for this Interval: create one for each task")
        if self._process != _os.getpid():
            raise RuntimeError("this Interval is that of the parent process: create one in the child, after the fork")
        self._is_waiting = True
        try:
            deadline = self._pacer._plan()
            await _approach(deadline, self._spin_ns)
            return self._pacer._start(_hpt.sleep_until(deadline).gil_ns)
        finally:
            self._is_waiting = False

    def reset(self) -> None:
        """Begins a new grid: the next deadline is one period from now."""
        self._pacer.reset()

    @property
    def period(self) -> float:
        """The period in seconds."""
        return self._pacer.period

    @property
    def ticks(self) -> int:
        """The number of periods that were started."""
        return self._pacer.ticks

    @property
    def missed(self) -> int:
        """The number of periods that never started, because the work or the wake-up before them took too long."""
        return self._pacer.missed

    @property
    def lateness(self) -> Lateness:
        """How late the periods started."""
        return self._pacer.lateness


class _Waits(_threading.local):
    """The waits of this thread while it has entered a FrozenClock."""

    def __init__(self) -> None:
        self.heap: List[Tuple[int, int, _asyncio.Future[bool]]] = []
        self.numbers = _itertools.count()
        self.turns_of: Optional[_asyncio.AbstractEventLoop] = None


_waits = _Waits()
_TURNS = 16
"""The turns that the other tasks have before the frozen clock moves to the earliest deadline."""


async def _follow(deadline: Instant) -> bool:
    """Waits for a FrozenClock. Returns whether it has reached the deadline; otherwise, the thread has left it."""
    loop = _asyncio.get_running_loop()
    reached: _asyncio.Future[bool] = loop.create_future()
    _heapq.heappush(_waits.heap, (deadline.as_nanos(), next(_waits.numbers), reached))
    if _waits.turns_of is not loop:
        _waits.turns_of = loop
        loop.call_soon(_turn, loop, _TURNS)
    return await reached


def _turn(loop: _asyncio.AbstractEventLoop, left: int) -> None:
    heap = _waits.heap
    while heap and (heap[0][2].done() or heap[0][2].get_loop() is not loop):
        _heapq.heappop(heap)
    if not heap:
        _waits.turns_of = None
        return
    earliest = Instant.from_nanos(heap[0][0])
    is_frozen = _hpt._is_frozen()
    if is_frozen and left > 0 and earliest.elapsed_ns() < 0:
        loop.call_soon(_turn, loop, left - 1)
        return
    _, _, reached = _heapq.heappop(heap)
    if is_frozen:
        _hpt.sleep_until(earliest)
    reached.set_result(is_frozen)
    loop.call_soon(_turn, loop, _TURNS)
