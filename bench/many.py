"""A shard with very many workspaces, and the front-proxy before it.

    bench/run many [--count 200000] [--used 100000]

One workspace is created; the others are copies of its rows, written to the store while the shard is
stopped, since creating them would take as long as `bench/run workspaces` says. Printed are the
start of the shard, the memory of both programs before and after many of the workspaces were read
through the front-proxy, and what requests take.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import pathlib
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator

import uvloop
from http2client import Connection, Reply
from proxy import open_all, target
from target import Target, processes_memory

from pykcp.registry import codec
from pykcp.storage.operations import PutKey
from pykcp.storage.sqlite import SQLiteStore
from pykcp.storage.terms import split_indexes
from pykcp.testing.front_proxy import ProxyFiles, front_proxy
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import make_workspace
from pykcp.types import Object

_NAME = "many-zzzzzzz"
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").findall
_ROWS = (
    "SELECT c.key, c.terms, c.indexes, l.value FROM current c JOIN log l ON l.seq = c.seq"
    " WHERE c.deleted = 0 AND (instr(c.key, ?) OR instr(c.key, ?))"
)
_AT_ONCE = 200
"""Workspaces in a transaction."""
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def cluster_name(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _ALPHABET[digit] + digits
    return "2" + digits.rjust(15, "0")


def made_uid(number: int, part: int) -> str:
    """Not random: a million random ones take longer than the rows."""
    return f"{number:08x}-{part:04x}-4000-8000-{number:012x}"


class Template:
    """The rows of a workspace as texts in which its names can be replaced."""

    def __init__(self, path: pathlib.Path, workspace: Object) -> None:
        self._cluster: str = workspace["spec"]["cluster"]
        with contextlib.closing(sqlite3.connect(path)) as connection:
            found = connection.execute(_ROWS, (f"/{self._cluster}/", f"/{_NAME}")).fetchall()
        separator = "\0"
        self._rows = [
            separator.join((key, terms, indexes, value.decode("latin-1")))
            for key, terms, indexes, value in found
        ]
        self._uids = [[*dict.fromkeys(_UID(row))] for row in self._rows]
        self.size = len(self._rows)

    def copy(self, number: int) -> Iterator[PutKey]:
        cluster, name = cluster_name(number), f"many-{number:07}"
        made: dict[str, str] = {}
        for row, uids in zip(self._rows, self._uids, strict=True):
            text = row.replace(self._cluster, cluster).replace(_NAME, name)
            for uid in uids:
                text = text.replace(uid, made.setdefault(uid, made_uid(number, len(made))))
            key, terms, indexes, value = text.split("\0")
            opened = codec.reopen(value.encode("latin-1"))
            yield PutKey(key, opened, terms, tuple(split_indexes(indexes)), 0)


async def fill(path: pathlib.Path, template: Template, count: int) -> float:
    """Write the copies; the seconds that it took."""
    store, began = SQLiteStore(path), time.perf_counter()
    await store.start()
    try:
        for first in range(0, count, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, count))
            await store.write([put for number in numbers for put in template.copy(number)])
    finally:
        await store.stop()
    return time.perf_counter() - began


async def answer(connection: Connection, path: str) -> Reply:
    """Lookups that take too long are answered with 503: then the machine is too busy."""
    for _ in range(30):
        reply = await connection.request("GET", path)
        if reply.status != 503:
            break
        await asyncio.sleep(1.0)
    return reply


async def read(proxy: Target, numbers: range) -> list[float]:
    """A namespace of each workspace through the proxy, half of them by path."""
    (connection,) = await open_all(proxy, 1)
    times: list[float] = []
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            named = cluster_name(number) if number % 2 else f"root:many-{number:07}"
            began = time.perf_counter()
            reply = await answer(connection, f"/clusters/{named}/api/v1/namespaces/default")
            assert reply.status == 200, (named, reply.content())
            times.append(time.perf_counter() - began)

    await asyncio.gather(*(worker() for _ in range(16)))
    connection.close()
    return times


def show(what: str, text: str) -> None:
    print(f"{what:42} {text}", flush=True)


def milliseconds(times: list[float]) -> str:
    ordered = sorted(times)
    return (
        f"median {statistics.median(ordered) * 1e3:.1f} ms,"
        f" p99 {ordered[int(len(ordered) * 0.99)] * 1e3:.1f} ms"
    )


def measure_start(shard: ServerProcess) -> None:
    for which in ("first start afterwards", "second start"):
        began = time.perf_counter()
        shard.start()
        seconds = time.perf_counter() - began
        show(which, f"{seconds:.2f} s until ready, {processes_memory([shard.pid]):.0f} MiB")
        if which != "second start":
            shard.stop()


def measure_use(files: ProxyFiles, shard: ServerProcess, options: argparse.Namespace) -> None:
    with front_proxy(files, shard) as proxy:
        ours = target("proxy", proxy.port, proxy.pid, files)
        root = proxy.admin("root")
        began = time.perf_counter()
        page = root.get("/apis/tenancy.kcp.io/v1alpha1/workspaces", limit=500)
        seconds = time.perf_counter() - began
        assert page.status == 200, page
        show("a page of 500 workspaces", f"{seconds * 1e3:.0f} ms")
        began = time.perf_counter()
        make_workspace(root, "one-more")
        show("one more workspace", f"{(time.perf_counter() - began) * 1e3:.0f} ms")
        show("front-proxy, before", f"{ours.memory():.1f} MiB")
        step = max(1, options.count // options.used)
        numbers = range(0, step * options.used, step)
        began = time.perf_counter()
        times = uvloop.run(read(ours, numbers))
        seconds = time.perf_counter() - began
        show("first read of each", f"{len(times)} in {seconds:.0f} s, {milliseconds(times)}")
        show("front-proxy, after", f"{ours.memory():.1f} MiB")
        show("shard, after", f"{processes_memory([shard.pid]):.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--used", type=int, default=100_000, help="workspaces that are read")
    options = parser.parse_args()
    options.used = min(options.used, options.count)
    with tempfile.TemporaryDirectory(prefix="pykcp-") as temporary:
        files = ProxyFiles(pathlib.Path(temporary))
        flags = [*files.shard_flags(), "--store-size-limit=0"]
        shard = ServerProcess(files.root / "root", flags).start()
        workspace = make_workspace(shard.client(cluster="root"), _NAME)
        shard.stop()
        path = shard.root / "store.db"
        template = Template(path, workspace)
        seconds = uvloop.run(fill(path, template, options.count))
        size = path.stat().st_size
        show(
            f"{options.count} workspaces",
            f"{template.size} rows each, written in {seconds:.0f} s;"
            f" {size / 2**30:.2f} GiB, {size / options.count / 1024:.1f} KiB each",
        )
        try:
            measure_start(shard)
            measure_use(files, shard, options)
        finally:
            shard.stop()


if __name__ == "__main__":
    main()
