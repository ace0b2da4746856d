"""Runs each Python example of the documentation, and the programs in examples/."""

import pathlib
import re
import subprocess
import sys

import pytest
from conftest import PYTHON

PACKAGE = pathlib.Path(__file__).parent.parent
GUIDES = PACKAGE.parent.parent / "docs" / "python"


def blocks():
    pages = [PACKAGE / "README.md", *sorted(GUIDES.glob("*.md"))]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, found.start()) + 1
            # The error of a block names its line on the page.
            yield pytest.param("\n" * line + found.group(1), str(page), id=f"{page.name}:{line}")


@pytest.mark.parametrize(("code", "page"), list(blocks()))
def test_an_example_of_the_documentation_runs(code, page, monkeypatch):
    switch_interval = sys.getswitchinterval()
    try:
        exec(compile(code, page, "exec"), {"__name__": "__main__"})
    finally:
        sys.setswitchinterval(switch_interval)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["servo_loop.py", "0.2"], "pulses"),
        (["sampler.py", "0.2", "lateness.svg"], "wrote lateness.svg"),
        (["asyncio_service.py", "0.2", "0"], "missed"),
        (["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_frozen_clock.py"], "3 passed"),
        (["compare.py", "20", "0.2"], "drift 0 ns"),
    ],
    ids=lambda argument: argument[0] if isinstance(argument, list) else "",
)
def test_a_program_runs(command, expected, tmp_path):
    script = next(word for word in command if word.endswith(".py"))
    command = [str(PACKAGE / "examples" / word) if word == script else word for word in command]
    done = subprocess.run([*PYTHON, *command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and expected in done.stdout, done.stdout + done.stderr
    if script == "sampler.py":
        assert (tmp_path / "lateness.svg").read_text(encoding="utf-8").count("<circle") == 200
