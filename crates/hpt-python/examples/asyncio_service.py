"""Serves the newest sample to TCP clients while a task takes 500 samples a second.

    python asyncio_service.py [SECONDS [PORT]]      # then, for example: nc localhost 7007
"""

import asyncio
import contextlib
import math
import sys

import hpt
from hpt import aio


class Service:
    """The newest sample, and the clients that ask for it."""

    def __init__(self) -> None:
        self.newest = "no sample yet"
        self.interval = aio.Interval(0.002)

    async def take_samples(self) -> None:
        async for tick in self.interval:
            self.newest = f"{tick.deadline.as_nanos()} {math.sin(tick.deadline.as_nanos() / 1e9):.6f}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.newest.encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()


async def main(duration: float, port: int) -> None:
    service = Service()
    server = await asyncio.start_server(service.answer, "localhost", port)
    samples = asyncio.create_task(service.take_samples())
    print(f"port {server.sockets[0].getsockname()[1]}")
    try:
        # A sleep of a day at most: asyncio.sleep does for what need not be precise.
        await asyncio.sleep(min(duration, 86_400))
    finally:
        samples.cancel()
        server.close()
        print(f"{service.interval.missed} missed; {service.interval.lateness}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        seconds = float(sys.argv[1]) if len(sys.argv) > 1 else math.inf
        asyncio.run(main(seconds, int(sys.argv[2]) if len(sys.argv) > 2 else 7007))
