"""One row: an attack, the innocent tenant beside it, and what the server spent and said."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import re
import time
from dataclasses import dataclass, field
from typing import Any

from stalls_answers import problem
from stalls_attacker import Attack, AttackerProcess, Outcome
from stalls_hook import add_hook
from stalls_innocent import Delays, InnocentProcess, part
from stalls_places import Place, Room

_numbers = itertools.count(1)
_TICK, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
_LEAD_SECONDS = 0.4
_SETTLE_SECONDS = 6.0
"""After the last answer: what the attack has left for controllers to do."""
_GROWTH = 100.0
_MEMORY_SECONDS = 15.0
_BUCKET = r'pykcp_event_loop_%s_seconds_bucket\{le="([^"]+)"\} (\d+)'
_STALL = re.compile(r"event loop late by (\d+)ms.*?(\d+)ms of CPU: (.*)")


@dataclass(slots=True)
class Row:
    """What is printed."""

    name: str
    server: str
    answers: str = ""
    answer_seconds: float = 0.0
    message: str = ""
    get_p99: float = 0.0
    get_longest: float = 0.0
    write_p99: float = 0.0
    write_longest: float = 0.0
    watch_longest: float = 0.0
    own_lateness: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    memory_growth: float = 0.0
    workers: float = 0.0
    """MiB of worker processes that are still there."""
    is_calm: bool = True
    """Whether the server had nothing more to do when the attacker's room was deleted."""
    loop_cpu: float = 0.0
    """The bound, in milliseconds, of the longest stretch of CPU on the event loop."""
    stalls: list[str] = field(default_factory=list)
    problem: str = ""
    failures: dict[str, int] = field(default_factory=dict)
    lost: int = 0


@dataclass(slots=True)
class Usage:
    """CPU seconds of the server with the processes that it started, and MiB of both."""

    cpu: float = 0.0
    memory: float = 0.0
    workers: float = 0.0


def usage(place: Place) -> Usage:
    found = Usage()
    for pid in place.all_pids():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            # user, system, and both of children that have ended
            found.cpu += sum(int(number) for number in stat[11:15]) / _TICK
            resident = int(stat[21]) * _PAGE / 2**20
            if pid in place.pids:
                found.memory += resident
            else:
                found.workers += resident
    return found


def settled_usage(place: Place, before: Usage, seconds: float = 30.0) -> Usage:
    """Usage in the end: memory that was needed once is given back after a while."""
    deadline = time.monotonic() + seconds
    while (found := usage(place)).memory > before.memory + _GROWTH / 2:
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    return found


def busy_buckets(place: Place, what: str = "busy_cpu") -> dict[str, int]:
    """A histogram of the event loop: seconds of CPU between two ticks, or of lateness."""
    if place.is_peer:
        return {}
    text = place.ask("GET", "/metrics", seconds=30)[1].decode()
    found = re.findall(_BUCKET % what, text)
    return {bound: int(count) for bound, count in found}


def longest_busy(before: dict[str, int], after: dict[str, int]) -> float:
    """Milliseconds: the bucket of the longest stretch between two readings."""
    grown = {bound: count - before.get(bound, 0) for bound, count in after.items()}
    total = grown.get("+Inf", 0)
    for bound, count in grown.items():
        if count >= total:
            return float(bound) * 1000
    return 0.0


class Bench:
    """Runs rows against one server."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._log_at = 0

    def run(self, attack: Attack | None) -> Row:
        """An attack, or calibration without any."""
        row = Row(attack.name if attack else "calibration, no attack", self.place.name)
        number = next(_numbers)
        rooms = [
            self.place.make_room(f"attack-{number}-{n}", "attacker")
            for n in range(4 if attack else 0)
        ]
        attacker = AttackerProcess(attack, self.place, rooms) if attack else None
        if attacker is not None:
            row.problem = attacker.wait_until_prepared()
        names = [f"attack-{number}-{n}" for n in range(len(rooms))]
        if row.problem:
            assert attacker is not None
            attacker.kill()
        else:
            self._measure(row, attacker, names, is_hooked=bool(attack and attack.is_hooked))
        if not self.place.is_alive():
            row.problem = row.problem or "the server no longer answers"
            self.place.interrupt()
        # The next row is not to suffer from this one.
        if row.problem or not row.is_calm or row.memory_growth > _GROWTH:
            self.place.restart()
            self._log_at = 0
        return row

    def _innocent_room(self, *, is_hooked: bool) -> Room:
        if not is_hooked:
            return self.place.make_room("innocent", "innocent")
        room = self.place.make_room("hooked", "innocent")
        add_hook(self.place, room)
        return room

    def _measure(
        self, row: Row, attacker: AttackerProcess | None, names: list[str], *, is_hooked: bool
    ) -> None:
        place = self.place
        self._read_log()
        self._wait_until_calm(3.0)
        innocent = InnocentProcess(place, self._innocent_room(is_hooked=is_hooked))
        buckets = busy_buckets(place)
        before = usage(place)
        time.sleep(_LEAD_SECONDS)
        if attacker is not None:
            attacker.attack()
            _show_outcome(row, attacker.outcome(), is_judged=not place.is_peer)
            self._wait_until_calm(_SETTLE_SECONDS)
            for name in names:  # deleting what was made is part of the attack
                place.drop_room(name)
            row.is_calm = self._wait_until_calm(_SETTLE_SECONDS) and place.are_gone(names)
        else:
            time.sleep(6)
        delays = innocent.finish()
        _show_delays(row, delays)
        after = usage(place)
        row.cpu, row.workers = after.cpu - before.cpu, after.workers
        row.memory = settled_usage(place, before, _MEMORY_SECONDS).memory
        row.memory_growth = row.memory - before.memory
        row.loop_cpu = longest_busy(buckets, busy_buckets(place))
        row.stalls = self._read_log()

    def _wait_until_calm(self, seconds: float) -> bool:
        """Until the server does hardly more than for the innocent tenant."""
        deadline = time.monotonic() + seconds
        before = usage(self.place).cpu
        while time.monotonic() < deadline:
            time.sleep(0.5)
            now = usage(self.place).cpu
            if now - before < (0.4 if self.place.is_peer else 0.1):
                return True
            before = now
        return False

    def _read_log(self) -> list[str]:
        path: pathlib.Path | None = self.place.log_path
        if path is None:
            return []
        text = path.read_bytes()[self._log_at :]
        self._log_at += len(text)
        found = _STALL.findall(text.decode(errors="replace"))
        return [f"{late} ms ({cpu} ms CPU) {rest}" for late, cpu, rest in found]


def _show_outcome(row: Row, outcome: Outcome, *, is_judged: bool) -> None:
    row.answers = ", ".join(
        f"{count}x {status}" if count > 1 else status for status, count in outcome.statuses.items()
    )
    row.answer_seconds, row.message = outcome.longest, outcome.example
    row.problem = outcome.problem
    if is_judged and not row.problem:
        row.problem = problem(row.name, outcome.statuses)


def _show_delays(row: Row, delays: Delays) -> None:
    row.get_p99, row.get_longest = part(delays.gets, 0.99), part(delays.gets, 1)
    row.write_p99, row.write_longest = part(delays.writes, 0.99), part(delays.writes, 1)
    row.watch_longest = part(delays.watches, 1)
    row.own_lateness = part(delays.late, 1)
    row.failures, row.lost = delays.failures, delays.lost


def as_dict(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Row.__slots__}
