"""Precise time, sleeps and periodic loops on Linux.

All times are those of CLOCK_MONOTONIC, as in time.monotonic_ns(). A number of seconds may also be a timedelta; names
that end in ``_ns`` are exact nanoseconds. Waiting releases the GIL, and Ctrl-C ends it within a millisecond.
"""

from __future__ import annotations

import inspect as _inspect
import os as _os
from functools import wraps as _wraps
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any, Callable as _Callable, TypeVar as _TypeVar, cast as _cast

try:
    from . import _hpt
except ImportError as _refused:
    if "subinterpreters" not in str(_refused):
        raise
    raise ImportError(
        "hpt cannot be imported in a subinterpreter beside another interpreter: use threads or processes"
    ) from _refused
from ._hpt import (
    Calibration,
    Choice,
    Error,
    Instant,
    Lateness,
    Pacer,
    Settings,
    Sleeper,
    SleeperReport,
    Source,
    Stopwatch,
    Woken,
    __version__,
    calibrate,
    choose,
    mark,
    monotonic_ns,
    sleep,
    sleep_until,
    sources,
)

__all__ = [
    "Calibration",
    "Choice",
    "Error",
    "Instant",
    "Lateness",
    "Pacer",
    "Settings",
    "Sleeper",
    "SleeperReport",
    "Source",
    "Stopwatch",
    "Woken",
    "__version__",
    "calibrate",
    "choose",
    "mark",
    "monotonic_ns",
    "realtime",
    "sleep",
    "sleep_until",
    "sources",
]

_Function = _TypeVar("_Function", bound=_Callable[..., _Any])


class realtime(_hpt._Realtime):
    """Real-time settings of this thread, in a ``with`` block or for the calls of a decorated function.

    fifo, rr: the real-time policy SCHED_FIFO or SCHED_RR, with this priority from 1 to 99. cpu: the only CPU that the
    thread uses. mlock: keeps the memory of the process resident. max_wakeup_latency: limits how long an idle CPU may
    take to wake up, in seconds, for the whole machine. best_effort: skips what is refused; ``refused`` of the settings
    lists it. In addition, the thread has no timer slack.

    The ``with`` block returns the settings in effect. Leaving it restores the previous ones, and a forked child does so
    at once. Threads and programs that the thread starts in the block inherit the policy and the CPU.
    """

    __slots__ = ()

    def __call__(self, function: _Function) -> _Function:
        """Returns the function with these settings for each of its calls."""
        shares_its_thread = (_inspect.iscoroutinefunction, _inspect.isgeneratorfunction, _inspect.isasyncgenfunction)
        if any(is_one(function) for is_one in shares_its_thread):
            raise TypeError(
                "realtime cannot decorate a coroutine or a generator, which shares its thread while it waits: "
                "use `with realtime(...)` around asyncio.run() or around the loop"
            )

        @_wraps(function)
        def with_settings(*arguments: _Any, **keywords: _Any) -> _Any:
            with self:
                return function(*arguments, **keywords)

        return _cast(_Function, with_settings)


if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_hpt._after_fork_in_child)


def __getattr__(name: str) -> _Any:
    """Imports hpt.aio, hpt.cli and hpt.testing when they are used."""
    if name in ("aio", "cli", "testing"):
        from importlib import import_module

        return import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if _TYPE_CHECKING:
    from . import aio as aio, cli as cli, testing as testing
