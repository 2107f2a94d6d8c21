"""What abusive requests of one tenant do to another tenant.

    bench/run stalls [--only REGEX] [--peer] [--json FILE]

Every row is an attack by an ordinary user, who is administrator of their own workspace only. Beside
it, from another process, another user in another workspace reads 100 times, writes 20 times a second
and watches: the delays are theirs. A row whose requests are answered otherwise than
`stalls_answers` says fails: it would test nothing. With --peer the attacks that kube-apiserver can be asked, too,
are sent to it as well; tenants are users with a namespace there. Rows whose names begin with
"front-proxy" have two shards, and everybody goes through their front-proxy.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable

from stalls_attacker import Attack
from stalls_clusters import ATTACKS as CLUSTERS
from stalls_exports import ATTACKS as EXPORTS
from stalls_fleet import ATTACKS as FLEET_ATTACKS
from stalls_fleet import ProxyPlace
from stalls_kinds import ATTACKS as KINDS
from stalls_load import ATTACKS as LOADS
from stalls_numbers import ATTACKS as NUMBERS
from stalls_places import Place
from stalls_pods import ATTACKS as PODS
from stalls_reads import ATTACKS as READS
from stalls_run import Bench, Row, as_dict
from stalls_services import ATTACKS as SERVICES
from stalls_texts import ATTACKS as TEXTS
from stalls_versions import ATTACKS as VERSIONS

ATTACKS: list[Attack] = [*TEXTS, *KINDS, *VERSIONS, *LOADS, *SERVICES, *NUMBERS, *CLUSTERS, *PODS]
ATTACKS += EXPORTS
ATTACKS += READS

FLAGS = ("--batteries-included=+kubernetes",)
"""Workspaces can have pods."""

_HEAD = (
    "| attack | server | answers | in | GET p99 / longest | write p99 / longest | watch longest"
    " | own lateness | CPU | memory | longest on the loop |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def line(row: Row) -> str:
    """A row of the table; times in milliseconds unless they say otherwise."""
    if row.problem and not row.answers:
        return f"| {row.name} | {row.server} | {row.problem} | | | | | | | | |"
    return (
        f"| {row.name} | {row.server} | {row.answers or '–'} | {row.answer_seconds:.1f} s"
        f" | {row.get_p99:.0f} / {row.get_longest:.0f}"
        f" | {row.write_p99:.0f} / {row.write_longest:.0f} | {row.watch_longest:.0f}"
        f" | {row.own_lateness:.0f} | {row.cpu:.1f} s"
        f" | {row.memory:.0f} MiB ({row.memory_growth:+.0f})"
        f"{f' + {row.workers:.0f}' if row.workers else ''}"
        f" | {f'≤ {row.loop_cpu:.0f} ms CPU' if row.loop_cpu else ''} |"
    )


def notes(row: Row) -> list[str]:
    """What else is worth knowing, below the row."""
    out = [f"  stall: {stall}" for stall in row.stalls]
    if row.problem and row.answers:
        out.append(f"  problem: {row.problem}")
    if row.failures:
        out.append(f"  innocent failures: {row.failures}")
    if not row.is_calm:
        out.append("  the server was still busy when the attacker's room had been deleted")
    if row.lost:
        out.append(f"  innocent writes that its watch did not show: {row.lost}")
    return out


def run_place(place: Place, attacks: list[Attack], show: Callable[[Row], None]) -> None:
    place.start()
    try:
        bench = Bench(place)
        for attack in (None, *attacks):
            show(bench.run(attack))
    finally:
        place.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a regular expression for the names of attacks")
    parser.add_argument("--peer", action="store_true", help="measure kube-apiserver, too")
    parser.add_argument("--peer-only", action="store_true", help="measure kube-apiserver alone")
    parser.add_argument("--peer-binary", default=shutil.which("kube-apiserver") or "")
    parser.add_argument("--json", default="", help="write the rows to this file")
    parser.add_argument("--list", action="store_true", help="list the attacks")
    parser.add_argument(
        "--priority", type=int, default=5, help="how much less nice than other programs, for root"
    )
    parser.add_argument("--quiet", action="store_true", help="no stacks of stalls")
    options = parser.parse_args()
    attacks = [a for a in ATTACKS if re.search(options.only, a.name)]
    fleet_attacks = [a for a in FLEET_ATTACKS if re.search(options.only, a.name)]
    if options.list:
        print("\n".join(a.name for a in (*attacks, *fleet_attacks)))
        return
    rows: list[Row] = []

    def show(row: Row) -> None:
        rows.append(row)
        print(line(row), flush=True)
        if not options.quiet and (found := notes(row)):
            print("\n".join(found), file=sys.stderr, flush=True)
        if options.json:
            text = json.dumps([as_dict(r) for r in rows], indent=1)
            pathlib.Path(options.json).write_text(text)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with contextlib.suppress(PermissionError):
        os.nice(-options.priority)
        with contextlib.suppress(OSError):  # nice counts within a session only, if there are groups
            pathlib.Path("/proc/self/autogroup").write_text(str(-options.priority))
    print(_HEAD)
    with tempfile.TemporaryDirectory(prefix="stalls-") as folder:
        if attacks and not options.peer_only:
            place = Place("pykcp", pathlib.Path(folder) / "ours", is_peer=False, flags=FLAGS)
            run_place(place, attacks, show)
        if fleet_attacks and not options.peer_only:
            run_place(
                ProxyPlace("front-proxy", pathlib.Path(folder) / "fleet", False),
                fleet_attacks,
                show,
            )
        if options.peer or options.peer_only:
            binary = options.peer_binary
            peer = Place("kube-apiserver", pathlib.Path(folder) / "peer", True, binary=binary)
            run_place(peer, [a for a in attacks if a.has_peer], show)
    if failed := [row.name for row in rows if row.problem]:
        sys.exit(f"{len(failed)} rows tested nothing: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
