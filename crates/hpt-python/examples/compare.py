"""Compares hpt with time.sleep and with a busy wait, on this machine, in one run.

    python compare.py [SLEEPS [PACER_SECONDS]]

Prints how late sleeps of 1 ms end, the CPU time that they take, the drift of a Pacer beside a thread that counts, the
lateness of asyncio's sleeps, how soon Ctrl-C ends a wait, and the cost of reading the clock. The methods alternate, so
that all meet the same load.
"""

import asyncio
import signal
import statistics
import sys
import threading
import time
from timeit import Timer

import hpt
from hpt import aio

LENGTH_NS = 1_000_000


def busy(until_ns: int) -> None:
    while time.monotonic_ns() < until_ns:
        pass


def sleeps(count: int) -> None:
    sleeper = hpt.Sleeper()
    methods = {
        "hpt.Sleeper": lambda _: sleeper.sleep(0.001),
        "hpt.sleep": lambda _: hpt.sleep(0.001),
        "time.sleep": lambda _: time.sleep(0.001),
        "busy wait": busy,
    }
    late_us = {name: [] for name in methods}
    cpu_ns = dict.fromkeys(methods, 0)
    for number in range(count + 100):
        for name, method in methods.items():
            before_ns = time.thread_time_ns()
            until_ns = time.monotonic_ns() + LENGTH_NS
            method(until_ns)
            late_ns = time.monotonic_ns() - until_ns
            if number >= 100:  # what was learned, and caches
                late_us[name].append(late_ns / 1000)
                cpu_ns[name] += time.thread_time_ns() - before_ns
    print(f"{count} sleeps of 1 ms       p50 late     p99 late   CPU time of the sleeps")
    for name, late in late_us.items():
        quantiles = statistics.quantiles(late, n=100)
        share = cpu_ns[name] / (count * LENGTH_NS)
        print(f"  {name:<18} {quantiles[49]:10.1f} us {quantiles[98]:9.1f} us {share:10.1%}")
    ratio = statistics.median(late_us["hpt.Sleeper"]) / statistics.median(late_us["time.sleep"])
    print(f"  p50 of hpt.Sleeper / time.sleep: {ratio:.3f}; CPU of hpt.Sleeper / busy wait: "
          f"{cpu_ns['hpt.Sleeper'] / cpu_ns['busy wait']:.3f}")


def pace(seconds: float) -> None:
    counted, stop = 0, False

    def count() -> None:
        nonlocal counted
        while not stop:
            counted += 1

    pacer = hpt.Pacer(0.001, overrun="catch_up")
    thread = threading.Thread(target=count)
    thread.start()
    first, tick = pacer.wait(), None
    for number, tick in enumerate(pacer, start=1):
        if number >= seconds * 1000:
            break
    stop = True
    thread.join()
    drift_ns = tick.deadline.nanos_since(first.deadline) - number * LENGTH_NS
    print(f"Pacer(0.001) for {seconds:g} s beside a thread that counted to {counted}: drift {drift_ns} ns, "
          f"{pacer.missed} missed, {pacer.lateness}")


async def tasks(count: int) -> None:
    methods = {"hpt.aio.sleep": aio.sleep, "asyncio.sleep": asyncio.sleep}
    late_us, cpu_ns = {name: [] for name in methods}, dict.fromkeys(methods, 0)
    for _ in range(count):
        for name, sleep in methods.items():
            before_ns, until_ns = time.thread_time_ns(), time.monotonic_ns() + LENGTH_NS
            await sleep(0.001)
            late_us[name].append((time.monotonic_ns() - until_ns) / 1000)
            cpu_ns[name] += time.thread_time_ns() - before_ns
    for name, late in late_us.items():
        quantiles = statistics.quantiles(late, n=100)
        share = cpu_ns[name] / (count * LENGTH_NS)
        print(f"  {name:<18} {quantiles[49]:10.1f} us {quantiles[98]:9.1f} us {share:10.1%}")


def interrupts(count: int) -> None:
    """Sends Ctrl-C to the main thread during a wait, and prints when Python code runs again."""
    sent, main_thread, after_us = [], threading.get_ident(), []

    def send() -> None:
        time.sleep(0.005)
        sent.append(time.monotonic_ns())
        signal.pthread_kill(main_thread, signal.SIGINT)

    for _ in range(count):
        thread = threading.Thread(target=send)
        try:
            thread.start()
            hpt.sleep(3600)
        except KeyboardInterrupt:
            after_us.append((time.monotonic_ns() - sent[-1]) / 1000)
        thread.join()
    print(f"Ctrl-C in a wait, {count} times: p50 {statistics.median(after_us):.1f} us, max {max(after_us):.1f} us")


def reads() -> None:
    calls, rounds = 100_000, 21
    timers = {"hpt.monotonic_ns": Timer("f()", globals={"f": hpt.monotonic_ns}),
              "time.monotonic_ns": Timer("f()", globals={"f": time.monotonic_ns})}
    costs = {name: [] for name in timers}
    for _ in range(rounds):
        for name, timer in timers.items():
            costs[name].append(timer.timeit(calls) / calls * 1e9)
    medians = ", ".join(f"{name} {statistics.median(cost):.1f} ns" for name, cost in costs.items())
    print(f"one call, with the loop around it: {medians}")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"Python {sys.version.split()[0]}, {hpt.choose().reason}")
    sleeps(count)
    asyncio.run(tasks(count))
    interrupts(max(1, count // 5))
    pace(float(sys.argv[2]) if len(sys.argv) > 2 else 60)
    reads()
