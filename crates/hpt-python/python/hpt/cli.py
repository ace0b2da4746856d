"""Runs the command ``hpt``, which measures latency and finds its causes, if it is installed."""

from __future__ import annotations

import json as _json
import shutil as _shutil
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
    it fails; an answer of "no" (exit code 1) or "unknown" (3) is none. ``timeout`` is in seconds.
    """
    command = [path(), *arguments]
    if json:
        # What follows `--` is a program that hpt runs.
        command.insert(command.index("--") if "--" in command else len(command), "--json")
    done = _subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode not in (0, 1, 3) or not done.stdout.strip():
        raise Error(f"`{' '.join(command)}` failed with exit code {done.returncode}: {done.stderr.strip()}")
    return _json.loads(done.stdout) if json else done.stdout
