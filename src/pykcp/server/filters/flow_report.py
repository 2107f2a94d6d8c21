"""`/debug/flow`: the most expensive and the waiting callers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from pykcp.server.filters.flow_cost import Accounts, CostAccount
from pykcp.server.filters.flow_meter import CostMeter
from pykcp.server.filters.flow_metrics import PriorityLevel
from pykcp.server.filters.flow_room import WaitingRoom

_TOP = 20
_LONGEST_NAME = 80
_HEADING = "        ms    debt ms  seats  waiting  rejected  watches  name"

Counts = Callable[[str], tuple[int, int, int]]
"""Seats, waiting requests and watches of one by name."""


def report(
    meter: CostMeter,
    levels: Sequence[PriorityLevel],
    rooms: Sequence[WaitingRoom],
    watches: tuple[Mapping[str, int], Mapping[str, int]],
) -> str:
    now = time.perf_counter()
    watches_of_users, watches_of_clusters = watches
    users = "several callers use" if meter.is_contended() else "at most one caller uses"
    requests = sum(room.requests for room in rooms)
    octets = sum(room.octets for room in rooms)
    lines = [
        f"background: {len(meter.background)} requests held, {users} the loop",
        f"waiting in all: {requests} requests, {octets} bytes",
    ]
    lines += [
        f"{level.name}: {level.queue.running} of {level.queue.limits.seats} seats taken, "
        f"{level.queue.queued} requests waiting"
        for level in levels
    ]
    queues = [level.queue for level in levels]

    def of_user(name: str) -> tuple[int, int, int]:
        seats = sum(queue.seats_of_user(name) for queue in queues)
        waiting = sum(room.of_user(name) for room in rooms)
        return seats, waiting, watches_of_users.get(name, 0)

    def of_cluster(name: str) -> tuple[int, int, int]:
        seats = sum(queue.seats_of_cluster(name) for queue in queues)
        waiting = sum(room.of_cluster(name) for room in rooms)
        return seats, waiting, watches_of_clusters.get(name, 0)

    lines += _table("callers", meter.users, now, of_user)
    lines += _table("logical clusters", meter.clusters, now, of_cluster)
    return "\n".join(lines) + "\n"


def _table(title: str, accounts: Accounts, now: float, counts: Counts) -> list[str]:
    lines = [
        "",
        f"{title} by time on the event loop in the last minute, {_TOP} of {len(accounts.by_name)}",
        _HEADING,
    ]
    return lines + [_line(one, now, *counts(one.name)) for one in accounts.top(_TOP)]


def _line(account: CostAccount, now: float, seats: int, waiting: int, watches: int) -> str:
    name = "".join(c if c.isprintable() else "?" for c in account.name[:_LONGEST_NAME])
    return (
        f"{account.last_minute * 1000:10.1f} {account.debt(now) * 1000:10.1f} {seats:6} "
        f"{waiting:8} {account.rejected:9} {watches:8}  {name}"
    )
