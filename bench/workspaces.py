"""What workspaces cost: made, kept, found again after a restart, deleted.

    bench/run workspaces [--count 10000] [--shape flat|tree] [--peer KUBECONFIG --peer-pids 1,2]

Creates universal workspaces under an organization, flat or as a tree, and waits until every one
is Ready; then measures memory while idle, a restart, lists and first writes in them, and the
deletion of all of them. With
`--peer` a kcp that runs already makes and deletes `--peer-count` of them in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pathlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from http2client import Connection
from target import Target
from target import load as load_target

from pykcp.testing.server import ServerProcess
from pykcp.testing.server import server as run_server

_WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
_AT_A_TIME = 48
_FANOUT = 20


def _body(name: str, kind: str) -> bytes:
    return json.dumps(
        {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": name},
            "spec": {"type": {"name": kind, "path": "root"}},
        }
    ).encode()


class Bench:
    def __init__(self, target: Target, connection: Connection) -> None:
        self.target, self._connection = target, connection

    async def send(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        while True:
            reply = await self._connection.request(method, path, body)
            if reply.status != 429:
                return reply.status, reply.content()
            await asyncio.sleep(0.05)

    async def create(self, parent: str, name: str, kind: str = "universal") -> None:
        path = f"/clusters/{parent}{_WORKSPACES}"
        status, body = await self.send("POST", path, _body(name, kind))
        if status != 201:
            raise SystemExit(f"create {parent}:{name}: {status} {body[:300]!r}")

    async def wait_ready(self, parent: str, names: set[str]) -> None:
        """Until all of these are Ready, by a watch."""
        waiting = set(names)
        done = asyncio.get_running_loop().create_future()
        rest = bytearray()

        def read(data: bytes) -> None:
            rest.extend(data)
            while (end := rest.find(b"\n")) >= 0:
                event = json.loads(rest[:end])
                del rest[: end + 1]
                found = event["object"]
                if (found.get("status") or {}).get("phase") == "Ready":
                    waiting.discard(found["metadata"]["name"])
                    if not waiting and not done.done():
                        done.set_result(None)

        path = f"/clusters/{parent}{_WORKSPACES}?watch=true&timeoutSeconds=3600"
        connection = await self.target.connect()
        watch = connection.request("GET", path, b"", on_data=read)
        try:
            await done
        finally:
            watch.cancel()
            connection.close()

    async def delete(self, parent: str, name: str) -> None:
        status, body = await self.send("DELETE", f"/clusters/{parent}{_WORKSPACES}/{name}")
        if status not in (200, 404):
            raise SystemExit(f"delete {parent}:{name}: {status} {body[:300]!r}")

    async def wait_gone(self, parent: str, name: str) -> None:
        while True:
            status, _ = await self.send("GET", f"/clusters/{parent}{_WORKSPACES}/{name}")
            if status == 404:
                return
            await asyncio.sleep(0.05)


@asynccontextmanager
async def bench_of(target: Target) -> AsyncIterator[Bench]:
    connection = await target.connect()
    yield Bench(target, connection)
    connection.close()


async def _flat(bench: Bench, org: str, count: int) -> None:
    names = [f"w{i}" for i in range(count)]
    await asyncio.gather(bench.wait_ready(org, set(names)), create_all(bench, org, names))


async def create_all(bench: Bench, parent: str, names: list[str]) -> None:
    limit = asyncio.Semaphore(_AT_A_TIME)

    async def one(name: str) -> None:
        async with limit:
            await bench.create(parent, name)

    await asyncio.gather(*(one(name) for name in names))


async def _tree(bench: Bench, org: str, count: int) -> None:
    """Each workspace has `_FANOUT` children, level by level."""
    level, left = [org], count
    while left:
        below: list[str] = []
        jobs = []
        for parent in level:
            size = min(_FANOUT, left)
            left -= size
            if not size:
                break
            names = [f"w{i}" for i in range(size)]
            below += [f"{parent}:{name}" for name in names]
            jobs.append((parent, names))
        limit = asyncio.Semaphore(8)

        async def grow(parent: str, names: list[str], limit: asyncio.Semaphore = limit) -> None:
            async with limit:
                await asyncio.gather(
                    bench.wait_ready(parent, set(names)), create_all(bench, parent, names)
                )

        await asyncio.gather(*(grow(*job) for job in jobs))
        level = below


async def _single(bench: Bench, org: str, count: int = 20) -> float:
    """Seconds from a create to Ready, the median of some."""
    took = []
    for i in range(count):
        began = time.perf_counter()
        name = f"single{i}"
        waiting = asyncio.ensure_future(bench.wait_ready(org, {name}))
        await bench.create(org, name)
        await waiting
        took.append(time.perf_counter() - began)
    for i in range(count):
        await bench.delete(org, f"single{i}")
    return sorted(took)[count // 2]


async def measure(
    target: Target,
    count: int,
    shape: str,
    say: Callable[[str], None],
    settle: float = 3.0,
) -> None:
    grow = _flat if shape == "flat" else _tree
    async with bench_of(target) as bench:
        await bench.create("root", "bench", "organization")
        await bench.wait_ready("root", {"bench"})
        say(f"create to Ready, alone: {await _single(bench, 'root:bench') * 1000:.1f} ms (median)")
        await asyncio.sleep(settle)
        cpu, memory, began = target.cpu(), target.memory(), time.perf_counter()
        await grow(bench, "root:bench", count)
        took = time.perf_counter() - began
        spent = target.cpu() - cpu
        say(
            f"{count} workspaces ({shape}) in {took:.1f} s: {count / took:.0f}/s, "
            f"{spent / count * 1000:.2f} ms CPU each"
        )
        await asyncio.sleep(settle)
        after = target.memory()
        cpu = target.cpu()
        say(
            f"memory {memory:.0f} -> {after:.0f} MiB, "
            f"{(after - memory) * 1024 / count:.1f} KiB each"
        )
        await asyncio.sleep(2)
        say(f"idle CPU over 2 s: {target.cpu() - cpu:.3f} s")


async def measure_use(target: Target, count: int, say: Callable[[str], None]) -> None:
    """All of them listed in pages; some of them entered by path and written to."""
    async with bench_of(target) as bench:
        pages, listed, more, began = 0, 0, "", time.perf_counter()
        cpu = target.cpu()
        while pages == 0 or more:
            query = f"?limit=500{'&continue=' + more if more else ''}"
            status, body = await bench.send("GET", f"/clusters/root:bench{_WORKSPACES}{query}")
            assert status == 200, body[:300]
            page = json.loads(body)
            pages, listed = pages + 1, listed + len(page["items"])
            more = page["metadata"].get("continue", "")
        took = time.perf_counter() - began
        say(
            f"{listed} listed in {pages} pages in {took:.1f} s, "
            f"{(target.cpu() - cpu) / pages * 1000:.1f} ms CPU a page"
        )
        await _enter(bench, count, say)


async def _enter(bench: Bench, count: int, say: Callable[[str], None]) -> None:
    target, visits = bench.target, min(1000, count)
    body = json.dumps({"metadata": {"name": "visited"}, "data": {"a": "b"}}).encode()
    cpu, delays = target.cpu(), []
    for i in range(visits):
        path = f"/clusters/root:bench:w{i * (count // visits)}/api/v1/namespaces/default/configmaps"
        began = time.perf_counter()
        status, answer = await bench.send("POST", path, body)
        assert status == 201, answer[:300]
        delays.append(time.perf_counter() - began)
    delays.sort()
    say(
        f"first write in {visits} of them: {delays[visits // 2] * 1000:.1f} ms at the median, "
        f"{delays[int(visits * 0.99)] * 1000:.1f} ms p99, "
        f"{(target.cpu() - cpu) / visits * 1000:.2f} ms CPU"
    )


async def measure_deletion(target: Target, count: int, say: Callable[[str], None]) -> None:
    async with bench_of(target) as bench:
        cpu, began = target.cpu(), time.perf_counter()
        await bench.delete("root", "bench")
        await bench.wait_gone("root", "bench")
        took = time.perf_counter() - began
        say(
            f"deleted in {took:.1f} s: {count / took:.0f}/s, "
            f"{(target.cpu() - cpu) / count * 1000:.2f} ms CPU each"
        )
        await asyncio.sleep(3)
        say(f"memory afterwards {target.memory():.0f} MiB")


def _restart(server: ServerProcess, say: Callable[[str], None]) -> None:
    began = time.perf_counter()
    server.stop()
    server.start()
    say(f"restart to ready in {time.perf_counter() - began:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--shape", choices=("flat", "tree"), default="flat")
    parser.add_argument("--peer", default="", help="kubeconfig of a kcp to measure beside")
    parser.add_argument("--peer-pids", default="")
    parser.add_argument("--peer-count", type=int, default=60)
    options = parser.parse_args()

    if options.peer:
        peer = load_target(options.peer, "base", "root", options.peer_pids)
        asyncio.run(measure(peer, options.peer_count, options.shape, lambda s: print("peer:", s)))
        asyncio.run(measure_deletion(peer, options.peer_count, lambda s: print("peer:", s)))
    with run_server() as server:
        target = load_target(str(server.kubeconfig), "base", "root", str(server.pid))
        print(f"memory at first {target.memory():.0f} MiB")
        asyncio.run(measure(target, options.count, options.shape, print))
        _restart(server, print)
        target = load_target(str(server.kubeconfig), "base", "root", str(server.pid))
        print(f"memory after the restart {target.memory():.0f} MiB")
        if options.shape == "flat":
            asyncio.run(measure_use(target, options.count, print))
        asyncio.run(measure_deletion(target, options.count, print))
        size = sum(f.stat().st_size for f in pathlib.Path(server.root).glob("store.db*"))
        print(f"store {size / 2**20:.1f} MiB on disk")


if __name__ == "__main__":
    main()
