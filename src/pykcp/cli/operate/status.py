"""`kcp status`: what runs, where, how it fares, and until when its certificates are valid."""

from __future__ import annotations

import json
import pathlib
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pykcp.cli.operate.progress import workload_line
from pykcp.cli.operate.words import Given, HostCommand
from pykcp.cli.terminal import RED, YELLOW, paint
from pykcp.programs.kit.flags import Flag

if TYPE_CHECKING:
    from pykcp.types import Object

_SOON_DAYS = 14


def read_status(root: pathlib.Path) -> tuple[Object, bool]:
    """The status, and whether it is that of now; that of the last run if no supervisor answered.

    Where systemd runs the programs, they are asked themselves.
    """
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.host.control import NotRunning, ask
    from pykcp.programs.operator.host.layout import HostFiles, read_json

    try:
        return next(iter(ask(root, "status"))), True
    except NotRunning:
        from pykcp.programs.operator.host.systemd import live_status

        if (live := live_status(HostFiles(root))) is not None:
            return live, True
        found = read_json(HostFiles(root).status)
    if found is None:
        raise SettingsError(f"there is no installation in {root}; begin one with: kcp up")
    return found, False


def _status(given: Given) -> int:
    status, is_running = read_status(given.root)
    if given.flags["output"] == "json":
        print(json.dumps({**status, "supervised": is_running}, indent=2))
    else:
        for line in status_lines(status, is_running, time.time()):
            print(line)
    return 0 if is_running and status["available"] else 1


def status_lines(status: Object, is_running: bool, now: float) -> Iterator[str]:
    if not is_running:
        yield paint(
            "no supervisor is running: programs go on, but are not restarted (see: kcp up)", YELLOW
        )
    workloads: dict[str, list[Object]] = defaultdict(list)
    for one in status["workloads"]:
        workloads[one["owner"]].append(one)
    for obj in status["objects"]:
        found = obj["status"]
        addresses = " ".join(found.get("addresses") or ())
        yield f"{obj['kind']}/{obj['name']}  {found.get('phase', '')}  {addresses}".rstrip()
        for one in workloads.pop(f"{obj['kind']}/{obj['name']}", ()):
            yield from _workload_lines(one, is_running)
        yield from _certificate_lines(found.get("certificates") or (), now)
    for owner, those in workloads.items():
        yield f"{owner}  imported"
        for one in those:
            yield from _workload_lines(one, is_running)
    yield from (f"{name}  runs on another host" for name in status["remote"])
    yield from (paint(line, YELLOW) for line in waiting_lines(status))
    yield from (f"{paint('problem', RED)}: {text}" for text in status["problems"])


def waiting_lines(status: Object) -> list[str]:
    """What could not be done inside of the installation, and why."""
    return [f"waiting: {name}: {text}" for name, text in status.get("waiting", {}).items()]


def _certificate_lines(certificates: Sequence[Object], now: float) -> Iterator[str]:
    if not certificates:
        return
    first = min(certificates, key=lambda one: str(one["notAfter"]))
    ends = datetime.strptime(first["notAfter"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    days = (ends.timestamp() - now) / 86400
    note = ""
    if days < _SOON_DAYS:
        note = " " + (paint("EXPIRED", RED) if days < 0 else paint("expires soon", YELLOW))
    yield (
        f"    {len(certificates)} certificates, the first ends {first['notAfter']} "
        f"({first['name']}), renewal {first['renewalTime']}{note}"
    )


def _workload_lines(workload: Object, is_running: bool) -> Iterator[str]:
    from pykcp.programs.operator.drivers.process.identity import identify, memory

    yield workload_line(workload)
    for one in workload["replicas"]:
        if not one["pid"]:
            yield f"      {one['number']}: {one['phase']} {one['message']}"
            yield from (f"         {line}" for line in one["lines"])
            continue
        phase = one["phase"] if is_running else ("running" if identify(one["pid"]) else "ended")
        used = memory(one["pid"]) >> 20
        reason = one.get("restart_reason")
        last = f", the last: {reason}" if reason else ""
        yield f"      {one['number']}: {phase}  pid {one['pid']}  {used} MiB  restarts {one['restarts']}{last}"
    for condition in workload["conditions"]:
        if condition["type"] == "FieldsIgnored" and workload["ignored"] != ["resources"]:
            yield f"      {condition['message']}"


STATUS = HostCommand(
    "Show what runs, where, how it fares, and until when its certificates are valid.\n\n"
    "Usage:\n  kcp status [flags]\n\n"
    "The exit code is 0 if everything is ready.\n",
    _status,
    (Flag("output", "string", "", "Output format: json."),),
    {"o": "output"},
    most=0,
)
