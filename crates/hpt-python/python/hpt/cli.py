"""Runs the command ``hpt``, which measures latency and finds its causes, if it is installed."""

from __future__ import annotations

import json as _json
import shutil as _shutil
import signal as _signal
import subprocess as _subprocess
from typing import Any, Literal, overload

from ._hpt import Error

__all__ = ["path", "run"]


def path() -> str:
    """Returns the path of the command. Raises hpt.Error if it is not installed."""
    found = _shutil.which("hpt")
    if found is None:
        raise Error(
            "the command hpt is not on the PATH: install the Debian package hpt, or build it in a checkout with "
            "`cargo install --profile dist --path crates/hpt-cli`"
        )
    return found


@overload
def run(*arguments: str, json: Literal[True] = ..., timeout: float | None = ...) -> Any: ...
@overload
def run(*arguments: str, json: Literal[False], timeout: float | None = ...) -> str: ...
def run(*arguments: str, json: bool = True, timeout: float | None = None) -> Any:
    """Runs ``hpt ARGUMENTS --json``, and returns its document: ``run("doctor")["findings"]``.

    With ``json=False``, returns the text that the command prints. Raises hpt.Error with the message of the command if
    it fails; an answer of "no" (exit code 1) or "unknown" (3) is none. ``timeout`` is in seconds; after it, the command
    is killed, and subprocess.TimeoutExpired is raised.
    """
    command = [path(), *arguments]
    if json:
        # What follows `--` is a program that hpt runs.
        command.insert(command.index("--") if "--" in command else len(command), "--json")
    line = f"`{' '.join(command)}`"
    try:
        done = _subprocess.run(command, capture_output=True, timeout=timeout, check=False)
    except OSError as refused:
        raise Error(f"{line} cannot be run: {refused}") from refused
    complaint = done.stderr.decode(errors="replace").strip()
    if done.returncode < 0:
        raise Error(f"{line} was ended by {_name(-done.returncode)}: {complaint}")
    if done.returncode not in (0, 1, 3) or not done.stdout.strip():
        raise Error(f"{line} failed with exit code {done.returncode}: {complaint}")
    try:
        printed = done.stdout.decode()
        return _json.loads(printed) if json else printed
    except UnicodeDecodeError as refused:
        raise Error(f"{line} printed what is not UTF-8: {refused}") from refused
    except _json.JSONDecodeError as refused:
        raise Error(f"{line} printed what is not JSON: {refused}; is it the command of hpt?") from refused


def _name(number: int) -> str:
    try:
        return _signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
