"""Real-time settings, undone on exit and on fork."""

import os
import resource
import threading

import hpt
import pytest
from test_processes import in_child


def state():
    return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority, os.sched_getaffinity(0)


def allowed(**settings):
    """Returns realtime(**settings), or skips the test if this process may not have them."""
    try:
        with hpt.realtime(**settings):
            return hpt.realtime(**settings)
    except hpt.Error as refused:
        pytest.skip(str(refused))


def test_settings_are_in_effect_and_undone():
    before = state()
    cpu = min(os.sched_getaffinity(0))
    realtime = allowed(fifo=2, cpu=cpu)
    with realtime as settings:
        assert state() == (os.SCHED_FIFO, 2, {cpu})
        assert (settings.policy, settings.priority, settings.cpus, settings.refused) == ("fifo", 2, [cpu], [])
        with allowed(rr=3):
            assert state() == (os.SCHED_RR, 3, {cpu})
        assert state() == (os.SCHED_FIFO, 2, {cpu})
    assert state() == before


def test_settings_are_undone_after_an_exception_and_a_decorated_call():
    before = state()
    with pytest.raises(KeyError), allowed(fifo=2):
        raise KeyError

    @allowed(fifo=2)
    def policy(add):
        """Documented."""
        return state()[1] + add

    assert (policy(5), policy(add=6), policy.__doc__, state()) == (7, 8, "Documented.", before)


def test_the_slack_and_the_memory_need_no_policy():
    with hpt.realtime() as settings:
        assert settings.timer_slack_ns in (None, 0, 1) and settings.policy is not None
    with allowed(mlock=True) as settings:
        assert settings.locked_bytes is None or settings.locked_bytes > 0


def test_a_forked_child_has_none_of_the_settings():
    before = state()
    cpu = min(os.sched_getaffinity(0))
    with allowed(fifo=2, cpu=cpu) as settings:
        assert in_child(lambda: state() == before)
        assert state() == (os.SCHED_FIFO, 2, {cpu}), "the parent keeps its own"

        def leaves():
            realtime.__exit__(None, None, None)
            return state() == before

        del settings
        realtime = hpt.realtime(cpu=cpu)
        realtime.__enter__()
        assert in_child(leaves)
        realtime.__exit__(None, None, None)


def test_best_effort_lists_what_was_refused():
    with hpt.realtime(cpu=100_000, best_effort=True) as settings:
        [(setting, why)] = settings.refused
    assert setting == "cpu" and "100000" in why
    assert "refused: cpu>" in repr(settings) and f"policy {settings.policy}" in repr(settings)
    with pytest.raises(hpt.Error, match="100000"), hpt.realtime(cpu=100_000):
        pass


def test_a_refused_setting_has_the_name_of_its_argument():
    def child():
        resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0)), resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
        if os.getuid() == 0:
            os.setuid(65534)
        for policy in ("fifo", "rr"):
            settings = hpt.realtime(**{policy: 2}, mlock=True, max_wakeup_latency=1e-6, best_effort=True)
            names = {setting for setting, _ in settings.__enter__().refused} - {"timer-slack"}
            assert {policy, "mlock"} <= names <= {policy, "mlock", "max_wakeup_latency"}, names
            settings.__exit__(None, None, None)

    assert in_child(child)


def test_wrong_uses_are_refused_with_a_sentence():
    for number in (0, 100, -1, 2**40):
        with pytest.raises(ValueError, match="from 1 to 99"):
            hpt.realtime(fifo=number)
    with pytest.raises(ValueError, match="leave out either fifo or rr"):
        hpt.realtime(fifo=1, rr=1)
    with pytest.raises(TypeError, match="around asyncio.run"):

        @hpt.realtime()
        async def service(): ...

    with pytest.raises(TypeError, match="around asyncio.run"):

        @hpt.realtime()
        async def samples():
            yield 1


def test_another_thread_cannot_undo_the_settings():
    outcome = []
    realtime = hpt.realtime()

    def leave():
        try:
            realtime.__exit__(None, None, None)
        except RuntimeError as refused:
            outcome.append(str(refused))

    with realtime:
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
    assert "in the thread that entered them" in outcome[0]
