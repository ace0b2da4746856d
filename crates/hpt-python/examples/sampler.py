"""Reads a sensor 1000 times a second, and plots how late each sample was.

    python sampler.py [SECONDS [FILE.svg]]

The plot needs no other package. Replace `read_sensor` by your own.
"""

import sys

import hpt

PERIOD = 0.001


def read_sensor() -> float:
    """Returns the value of the sensor. Here, a counter of the CPU takes its place."""
    return hpt.monotonic_ns() % 1000 / 1000


def sample(count: int) -> "tuple[list[tuple[int, int, float]], hpt.Pacer]":
    """Returns the samples: the planned time in nanoseconds, the lateness in nanoseconds, and the value."""
    pacer = hpt.Pacer(PERIOD, p99=20e-6)
    samples = []
    for tick in pacer:
        samples.append((tick.deadline.as_nanos(), tick.late_ns, read_sensor()))
        if len(samples) == count:
            return samples, pacer
    raise AssertionError("a pacer never ends")


def plot(samples: "list[tuple[int, int, float]]") -> str:
    """Returns an SVG: time to the right, lateness upward, on a scale from 0 to the largest."""
    width, height, margin = 800, 300, 40
    first, last = samples[0][0], samples[-1][0]
    largest = max(late for _, late, _ in samples)
    dots = "".join(
        f'<circle cx="{margin + (at - first) / max(last - first, 1) * width:.1f}" '
        f'cy="{margin + height - late / max(largest, 1) * height:.1f}" r="1.5"/>'
        for at, late, _ in samples
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 2 * margin}" height="{height + 2 * margin}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="{margin}" y="20">lateness of {len(samples)} samples, 0 to {largest / 1000:.1f} µs, '
        f"over {(last - first) / 1e9:.1f} s</text>"
        f'<path d="M{margin} {margin} v{height} h{width}" fill="none" stroke="gray"/>'
        f'<g fill="steelblue">{dots}</g></svg>'
    )


def main(duration: float, file: str) -> None:
    samples, pacer = sample(max(1, round(duration / PERIOD)))
    late = pacer.lateness
    print(f"{late}; {pacer.missed} missed")
    for limit, count in late.classes()[-5:]:
        print(f"  up to {limit * 1e6:8.1f} µs: {count}")
    with open(file, "w", encoding="utf-8") as out:
        out.write(plot(samples))
    print(f"wrote {file}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0, sys.argv[2] if len(sys.argv) > 2 else "lateness.svg")
