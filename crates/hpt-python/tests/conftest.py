"""What the tests share: a test that hangs ends with the stacks of its threads."""

import faulthandler
import os
import shlex
import shutil
import sys

import pytest

# Under an emulator, the programs of the tests need it too.
RUNNER = shlex.split(os.environ.get("HPT_TEST_RUNNER", ""))
if RUNNER:
    # Some tests run programs without a PATH.
    RUNNER[0] = shutil.which(RUNNER[0])
PYTHON = [*RUNNER, sys.executable]
LONGEST = 1_200 if RUNNER else 120


@pytest.fixture(autouse=True)
def no_hang():
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
