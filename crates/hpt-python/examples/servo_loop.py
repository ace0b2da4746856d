"""Moves a servo 50 times a second, with real-time settings where the system allows them.

    python servo_loop.py [SECONDS]

Ctrl-C ends it. Replace `write_pulse` by the library of your servo.
"""

import math
import sys

import hpt

PERIOD = 0.02


def write_pulse(seconds: float) -> None:
    """Sends a pulse of this width to the servo. Here, a short busy wait takes its place."""
    hpt.sleep(min(seconds, 0.002))


def main(duration: float) -> None:
    start = hpt.Instant.now()
    with hpt.realtime(fifo=50, mlock=True, best_effort=True) as settings:
        for setting, why in settings.refused:
            print(f"without {setting}: {why}")
        pacer = hpt.Pacer(PERIOD)
        try:
            for tick in pacer:
                # The planned time, not the time at which this thread ran: the curve has no jitter.
                t = tick.deadline - start
                if t >= duration:
                    break
                write_pulse(0.0015 + 0.0005 * math.sin(2 * math.pi * t))
        except KeyboardInterrupt:
            pass
    print(f"{pacer.ticks} pulses, {pacer.missed} missed; {pacer.lateness}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else math.inf)
