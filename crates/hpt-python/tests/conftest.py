"""What the tests share: a test that hangs ends with the stacks of its threads."""

import faulthandler

import pytest

LONGEST = 120


@pytest.fixture(autouse=True)
def no_hang():
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
