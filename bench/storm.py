"""A storm of abusive requests by four tenants, beside one tenant who must not notice.

    bench/run storm [--seconds 300] [--seed N] [--only REGEX]

Four tenants send attacks of `bench/run stalls` in random order. A fifth reads, writes and watches
from a process of its own. Reported are its delays, and whether everything that it was told of holds:
every acknowledged write is read back in the end, and was shown by its watch, in order.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import re
import tempfile
import threading
import time
from collections import Counter

from stalls import ATTACKS
from stalls_attacker import Attack, Made, attack_until
from stalls_innocent import Delays, InnocentProcess, part
from stalls_places import Place, Room
from stalls_run import busy_buckets, longest_busy, settled_usage, usage

TENANTS = 4
_MOMENT = 0.5
"""Seconds between slow requests that do not belong together."""
_MOMENTS = 12
_SAMPLE_SECONDS = 0.5
_RISE_SECONDS = 3.0
"""Over which growth of memory is compared."""


def _tenant(
    pipe: multiprocessing.connection.Connection,
    place: Place,
    rooms: list[Room],
    attacks: list[Attack],
    seed: int,
    seconds: float,
) -> None:
    logging.disable()
    os.nice(8)  # elsewhere they would have processors of their own
    chosen = random.Random(seed)
    until = time.monotonic() + seconds
    pipe.send(asyncio.run(attack_until(place, rooms, lambda: chosen.choice(attacks), until)))


def start_tenants(
    place: Place, attacks: list[Attack], seed: int, seconds: float
) -> list[tuple[multiprocessing.connection.Connection, multiprocessing.process.BaseProcess]]:
    """Processes that attack until the time is over; each sends what it has made."""
    context = multiprocessing.get_context("fork")
    started = []
    for n in range(TENANTS):
        rooms = [place.make_room(f"storm-{n}-{m}", f"storm{n}") for m in range(2)]
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_tenant, args=(theirs, place, rooms, attacks, seed + n, seconds)
        )
        process.start()
        started.append((ours, process))
    return started


def _tail(before: dict[str, int], after: dict[str, int]) -> str:
    """How many values were above some bounds, in milliseconds."""
    grown = {bound: count - before.get(bound, 0) for bound, count in after.items()}
    total = grown.get("+Inf", 0)
    shown = ("0.025", "0.05", "0.1", "0.25", "0.5")
    above = ", ".join(f"{total - grown[b]} > {float(b) * 1000:.0f} ms" for b in shown if b in grown)
    return f"{total} ticks: {above}"


def _worst_moments(delays: Delays, made: list[Made]) -> list[str]:
    """The moments at which requests took too long, and which attacks were under way then."""
    moments: list[list[tuple[float, str, float]]] = []
    for request in sorted(delays.slow):
        if not moments or request[0] - moments[-1][-1][0] > _MOMENT:
            moments.append([])
        moments[-1].append(request)
    first = min((each.began for each in made), default=0.0)
    found = []
    moments.sort(key=lambda requests: -max(took for _, _, took in requests))
    for requests in moments[:_MOMENTS]:
        longest = max(requests, key=lambda request: request[2])
        since, until = min(at - took for at, _, took in requests), requests[-1][0]
        then = [each.name for each in made if each.began < until and each.ended > since]
        found.append(
            f"at {since - first:.1f} s for {until - since:.1f} s: {len(requests)} requests, "
            f"{longest[1]} {longest[2] * 1000:.0f} ms, during {'; '.join(then)}"
        )
    return found


class MemoryCurve:
    """The server's memory over time, sampled by a thread."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._samples: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            self._samples.append((time.monotonic(), usage(self._place).memory))

    def highest(self) -> float:
        return max((memory for _, memory in self._samples), default=0.0)

    def rises(self, made: list[Made]) -> list[str]:
        """The steepest rises, and which attacks were under way then."""
        step = int(_RISE_SECONDS / _SAMPLE_SECONDS)
        pairs = list(zip(self._samples[::step], self._samples[step::step], strict=False))
        pairs.sort(key=lambda pair: pair[0][1] - pair[1][1])
        first = min((each.began for each in made), default=0.0)
        found = []
        for (since, low), (until, high) in pairs[:_MOMENTS]:
            then = [each.name for each in made if each.began < until and each.ended > since]
            found.append(
                f"at {since - first:.1f} s from {low:.0f} to {high:.0f} MiB, during {'; '.join(then)}"
            )
        return found


def report(place: Place, delays: Delays, made: list[Made], longest: float) -> None:
    print(f"attacks: {len(made)}")
    for name, count in sorted(Counter(each.name for each in made).items()):
        print(f"  {count:4} {name}")
    print("worst moments:")
    for moment in _worst_moments(delays, made):
        print(f"  {moment}")
    for what, values in (
        ("GET", delays.gets),
        ("write", delays.writes),
        ("watch", delays.watches),
        ("own lateness", delays.late),
    ):
        shown = ", ".join(
            f"{label} {part(values, share):.0f} ms"
            for label, share in (("p50", 0.5), ("p99", 0.99), ("longest", 1))
        )
        print(f"{what}: {len(values)}, {shown}")
    print(f"longest on the event loop: ≤ {longest:.0f} ms of CPU")
    print(f"acknowledged writes that the watch did not show: {delays.lost}")
    print(f"acknowledged creates that were not read back: {delays.not_read_back} of {delays.kept}")
    print(f"failures: {delays.failures or 'none'}")
    for line in place.stall_lines():
        print(line[:600])
    for error in place.tracebacks():
        print(f"the server's log has a traceback: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="a regular expression for the names of attacks")
    parser.add_argument("--priority", type=int, default=5)
    parser.add_argument("--json", default="", help="write the figures to this file")
    options = parser.parse_args()
    attacks = [a for a in ATTACKS if re.search(options.only, a.name) and not a.is_hooked]
    with contextlib.suppress(PermissionError, OSError):
        os.nice(-options.priority)
        pathlib.Path("/proc/self/autogroup").write_text(str(-options.priority))
    print(f"seed {options.seed}, {len(attacks)} attacks to choose from")
    with tempfile.TemporaryDirectory(prefix="stalls-") as folder:
        place = Place("pykcp", pathlib.Path(folder) / "ours", is_peer=False)
        place.start()
        try:
            room = place.make_room("innocent", "innocent")
            before, buckets = usage(place), busy_buckets(place)
            lateness = busy_buckets(place, "lateness")
            innocent = InnocentProcess(place, room, keeps=True)
            curve = MemoryCurve(place)
            made: list[Made] = []
            for pipe, process in start_tenants(place, attacks, options.seed, options.seconds):
                if pipe.poll(options.seconds + 60):
                    made += pipe.recv()
                process.kill()
            delays = innocent.finish()
            curve.finish()
            at_once, after = usage(place), settled_usage(place, before)
            longest = longest_busy(buckets, busy_buckets(place))
            report(place, delays, made, longest)
            print(f"CPU between ticks of the loop: {_tail(buckets, busy_buckets(place))}")
            late = busy_buckets(place, "lateness")
            print(f"lateness of the loop, busy machine included: {_tail(lateness, late)}")
            print("steepest rises of memory:")
            for rise in curve.rises(made):
                print(f"  {rise}")
            print(
                f"memory {before.memory:.0f} -> {at_once.memory:.0f} MiB at once"
                f" (highest {curve.highest():.0f})"
                f" -> {after.memory:.0f} MiB, workers {after.workers:.0f}"
            )
            print(f"CPU {after.cpu - before.cpu:.0f} s")
            if options.json:
                figures = {
                    "attacks": len(made),
                    "get_p99": part(delays.gets, 0.99),
                    "get_longest": part(delays.gets, 1),
                    "write_p99": part(delays.writes, 0.99),
                    "loop_cpu": longest,
                    "lost": delays.lost,
                    "kept": delays.kept,
                    "not_read_back": delays.not_read_back,
                    "memory_growth": after.memory - before.memory,
                }
                pathlib.Path(options.json).write_text(json.dumps(figures))
        finally:
            place.stop()


if __name__ == "__main__":
    main()
