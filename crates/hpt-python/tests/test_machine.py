"""The machine's sources, marks in the kernel's trace, and the command."""

import os
import pathlib
import subprocess

import hpt
import pytest
from conftest import PYTHON


def test_sources_have_properties_or_a_reason():
    sources = {source.id: source for source in hpt.sources()}
    monotonic = sources["monotonic"]
    assert monotonic.problem is None and monotonic.frequency_hz == 1e9 and monotonic.read_path
    for source in sources.values():
        assert (source.problem is None) == (source.read_path is not None) and source.description
    assert "riscv-time" in sources


def test_the_choice_has_a_reason_for_each_source():
    choice = hpt.choose()
    assert choice.id in choice.reason
    assert dict(choice.verdicts)[choice.id].startswith("chosen")
    assert {source.id for source in hpt.sources()} >= set(dict(choice.verdicts))


def test_a_calibration_has_a_bound():
    calibration = hpt.calibrate("monotonic", 0.02)
    assert calibration.source == "monotonic" and calibration.reference == "monotonic-raw"
    assert calibration.frequency_hz > 0 and calibration.pairs > 0 and calibration.window_ns > 0
    with pytest.raises(hpt.Error, match="unknown source"):
        hpt.calibrate("monotonik")
    with pytest.raises(hpt.Error, match=r"`hpt\.sources\(\)` returns all names"):
        hpt.calibrate("x")


def test_a_mark_is_written_or_not():
    assert hpt.mark("a test of hpt") in (True, False)


def test_a_mark_is_one_line():
    text = f"a line\nand\0another of {os.getpid()}"
    if not hpt.mark(text):
        pytest.skip("the kernel's trace is not writable")
    trace = pathlib.Path("/sys/kernel/tracing/trace")
    if not os.access(trace, os.R_OK) or "hpt: a test" not in trace.read_text(errors="replace"):
        pytest.skip("the kernel's trace is not readable, or tracing is off")
    assert "hpt: " + text.replace("\n", " ").replace("\0", " ") in trace.read_text(errors="replace")


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A program in place of the command, which prints its arguments and exits with the code in the first one."""
    program = tmp_path / "hpt"
    program.write_text('#!/bin/sh\nprintf \'{"arguments": "%s"}\' "$*"; echo complaint >&2; exit "$1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return program


def test_the_command_answers_with_json(command):
    assert hpt.cli.path() == str(command)
    assert hpt.cli.run("0", "doctor") == {"arguments": "0 doctor --json"}
    assert hpt.cli.run("1", "run", "--", "true") == {"arguments": "1 run --json -- true"}
    assert hpt.cli.run("3", "doctor", json=False) == '{"arguments": "3 doctor"}'
    with pytest.raises(hpt.Error, match="exit code 2: complaint"):
        hpt.cli.run("2")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("#!/bin/sh\necho no document\n", "printed what is not JSON"),
        ("#!/bin/sh\nprintf '\\377\\376'\n", "printed what is not UTF-8"),
        ("#!/nonexistent\n", "cannot be run: "),
        ("#!/bin/sh\nkill -KILL $$\n", "was ended by SIGKILL"),
    ],
)
def test_a_failure_of_the_command_is_a_sentence(command, program, message):
    command.write_text(program)
    with pytest.raises(hpt.Error, match=message):
        hpt.cli.run("doctor")
    command.write_text("#!/nonexistent\n")
    done = subprocess.run([*PYTHON, "-m", "hpt"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("hpt: ") and "cannot be run" in done.stderr


def test_python_m_hpt_is_the_command(command):
    done = subprocess.run([*PYTHON, "-m", "hpt", "1", "a b"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, '{"arguments": "1 a b"}')


def test_a_missing_command_is_reported_with_the_fix(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(hpt.Error, match="cargo install"):
        hpt.cli.run("doctor")
    done = subprocess.run([*PYTHON, "-m", "hpt"], capture_output=True, text=True)
    assert done.returncode == 1 and "cargo install" in done.stderr
