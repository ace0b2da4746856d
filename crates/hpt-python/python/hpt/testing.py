"""A clock that a test moves, in place of the system's clock."""

from ._hpt import FrozenClock

__all__ = ["FrozenClock"]
