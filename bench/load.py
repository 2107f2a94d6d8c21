"""Load for any Kubernetes-style server: throughput, delays, and what the server spends.

    bench/run load --kubeconfig .kcp/admin.kubeconfig --context shard-base --cluster root --pids 123 \
        get create update patch delete list watch

The same work can be given to a peer in the same run with --peer and --peer-pids; the table
then ends with the ratio of CPU per operation, which moves less with the machine's noise
than a time does.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import target as targets
from http2client import Connection, Reply
from target import Target

_FILLER = "x" * 1200
Operation = Callable[[Connection, int, int], Awaitable[Reply]]


@dataclass(slots=True)
class Row:
    """What one workload gave."""

    work: str
    clients: int
    rate: float
    p50: float
    p99: float
    cpu: float
    """Microseconds of the server's CPU per operation."""
    memory: float
    failed: int

    def text(self) -> str:
        return (
            f"{self.work:<9} {self.clients:>5} {self.rate:>9.0f}/s {self.p50:>9.2f} {self.p99:>9.2f} "
            f"{self.cpu:>10.0f} {self.memory:>8.0f} {self.failed:>6}"
        )


HEAD = f"{'work':<9} {'conc.':>5} {'rate':>11} {'p50 ms':>9} {'p99 ms':>9} {'µs CPU/op':>10} {'MiB':>8} {'failed':>6}"


def config_map(name: str, namespace: str, number: int) -> bytes:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"app": "load", "tier": f"t{number % 7}"},
            },
            "data": {"v": str(number), "filler": _FILLER},
        }
    ).encode()


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))] * 1000 if values else 0.0


class Load:
    """The workloads on one server."""

    def __init__(
        self, server: Target, seconds: float, clients: tuple[int, ...], listed: int
    ) -> None:
        self._server = server
        self._seconds = seconds
        self._clients = clients
        self._listed = listed
        self._run = f"bench{int(time.time() * 1000) % 10**8}"
        self._one: Connection | None = None

    async def connection(self) -> Connection:
        if self._one is None:
            self._one = await self._server.connect()
        return self._one

    def _path(self, namespace: str) -> str:
        return f"{self._server.prefix}/api/v1/namespaces/{namespace}/configmaps"

    async def _namespace(self, name: str) -> None:
        connection = await self.connection()
        body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        reply = await connection.request(
            "POST", f"{self._server.prefix}/api/v1/namespaces", body.encode()
        )
        if reply.status not in (201, 409):
            raise RuntimeError(f"namespace: {reply.status} {reply.content()[:300]!r}")

    async def _fill(self, namespace: str, count: int) -> None:
        connection, path = await self.connection(), self._path(namespace)
        numbers = iter(range(count))

        async def worker() -> None:
            for i in numbers:
                reply = await connection.request(
                    "POST", path, config_map(f"c{i:05d}", namespace, i)
                )
                if reply.status not in (201, 409):
                    raise RuntimeError(f"fill: {reply.status} {reply.content()[:300]!r}")

        await asyncio.gather(*(worker() for _ in range(32)))

    async def _loop(self, work: str, clients: int, operation: Operation) -> Row:
        connection = await self.connection()
        delays: list[float] = []
        failed = 0
        before, began = self._server.cpu(), time.perf_counter()
        end = began + self._seconds

        async def worker(number: int) -> None:
            nonlocal failed
            for i in itertools.count():
                start = time.perf_counter()
                if start >= end:
                    return
                reply = await operation(connection, number, i)
                delays.append(time.perf_counter() - start)
                failed += reply.status >= 300

        await asyncio.gather(*(worker(n) for n in range(clients)))
        elapsed = time.perf_counter() - began
        done = len(delays) - failed
        return Row(
            work,
            clients,
            done / elapsed,
            _quantile(delays, 0.5),
            _quantile(delays, 0.99),
            (self._server.cpu() - before) / max(done, 1) * 1e6,
            self._server.memory(),
            failed,
        )

    async def crud(self, work: str) -> list[Row]:
        await self._namespace(self._run)
        await self._fill(self._run, 500)
        return [await self._loop(work, n, self._operation(work, n)) for n in self._clients]

    def _operation(self, work: str, clients: int) -> Operation:
        path, namespace = self._path(self._run), self._run

        def name_of(k: int, i: int) -> str:
            return f"c{(k * 7 + i * clients) % 500:05d}"

        async def get(c: Connection, k: int, i: int) -> Reply:
            return await c.request("GET", f"{path}/c{(k * 31 + i) % 500:05d}")

        async def create(c: Connection, k: int, i: int) -> Reply:
            return await c.request("POST", path, config_map(f"n{clients}-{k}-{i}", namespace, i))

        async def update(c: Connection, k: int, i: int) -> Reply:
            name = name_of(k, i)
            return await c.request("PUT", f"{path}/{name}", config_map(name, namespace, i + 1))

        async def patch(c: Connection, k: int, i: int) -> Reply:
            body = json.dumps({"data": {"v": f"p{k}-{i}"}}).encode()
            return await c.request(
                "PATCH", f"{path}/{name_of(k, i)}", body, "application/merge-patch+json"
            )

        async def delete(c: Connection, k: int, i: int) -> Reply:
            name = f"d{clients}-{k}-{i}"
            await c.request("POST", path, config_map(name, namespace, i))
            return await c.request("DELETE", f"{path}/{name}")

        return {"get": get, "create": create, "update": update, "patch": patch, "delete": delete}[
            work
        ]

    async def lists(self) -> list[Row]:
        await self._namespace("benchlist")
        await self._fill("benchlist", self._listed)
        path = self._path("benchlist")
        rows = []
        for work, query in (
            ("list", ""),
            ("page500", "?limit=500"),
            ("by label", "?labelSelector=tier%3Dt3"),
        ):
            rows.append(
                await self._loop(work, 1, lambda c, _k, _i, q=query: c.request("GET", path + q))
            )
        return rows

    async def watch(self, watchers: int, rate: int) -> list[Row]:
        """Open watches over a connection per hundred, write at a rate, measure the deliveries."""
        await self._namespace(self._run)
        path = self._path(self._run)
        writer = await self.connection()
        first = json.loads((await writer.request("GET", f"{path}?limit=1")).content())
        version = first["metadata"]["resourceVersion"]
        delays: list[float] = []
        delivered = 0

        def watcher(number: int) -> Callable[[bytes], None]:
            def on_data(data: bytes) -> None:
                nonlocal delivered
                at = data.find(b'"t":"')
                if at < 0:
                    return
                delivered += 1
                if number % 10 == 0:
                    delays.append(time.time() - float(data[at + 5 : data.index(b'"', at + 5)]))

            return on_data

        connections = [await self._server.connect() for _ in range((watchers + 99) // 100)]
        opened = [
            connections[n % len(connections)].request(
                "GET", f"{path}?watch=true&resourceVersion={version}", on_data=watcher(n)
            )
            for n in range(watchers)
        ]
        await asyncio.gather(*opened)
        before, began = self._server.cpu(), time.perf_counter()
        count = int(self._seconds * rate)
        pending = []
        for i in range(count):
            body = json.dumps(
                {
                    "metadata": {"name": f"w{i}"},
                    "data": {"t": f"{time.time():.6f}", "filler": _FILLER},
                }
            )
            pending.append(writer.request("POST", path, body.encode()))
            await asyncio.sleep(max(0.0, began + (i + 1) / rate - time.perf_counter()))
        await asyncio.gather(*pending)
        wanted = count * watchers
        deadline = time.perf_counter() + 30
        while delivered < wanted and time.perf_counter() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        elapsed = time.perf_counter() - began
        row = Row(
            f"watch@{rate}",
            watchers,
            delivered / elapsed,
            _quantile(delays, 0.5),
            _quantile(delays, 0.99),
            (self._server.cpu() - before) / max(delivered, 1) * 1e6,
            self._server.memory(),
            wanted - delivered,
        )
        for connection in connections:
            connection.close()
        return [row]


async def measure(server: Target, options: argparse.Namespace) -> list[Row]:
    load = Load(server, options.seconds, options.clients, options.list)
    rows: list[Row] = []
    for work in options.work:
        if work == "list":
            rows += await load.lists()
        elif work == "watch":
            for rate in options.rate:
                rows += await load.watch(options.watchers, rate)
        else:
            rows += await load.crud(work)
    return rows


def show(title: str, rows: list[Row]) -> None:
    print(f"\n{title}\n{HEAD}")
    for row in rows:
        print(row.text())


def show_ratios(ours: list[Row], peers: list[Row]) -> None:
    print(
        f"\n{'work':<9} {'conc.':>5} {'CPU ratio':>10} {'rate ratio':>11} {'p99 ratio':>10}   (ours / peer)"
    )
    for one, other in zip(ours, peers, strict=True):
        print(
            f"{one.work:<9} {one.clients:>5} {one.cpu / max(other.cpu, 1e-9):>10.2f} "
            f"{one.rate / max(other.rate, 1e-9):>11.1f} {one.p99 / max(other.p99, 1e-9):>10.2f}"
        )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--context", default="")
    parser.add_argument("--cluster", default="", help="logical cluster, for kcp-like servers")
    parser.add_argument("--pids", default="", help="the server's processes, for CPU and memory")
    parser.add_argument(
        "--peer", default="", help="kubeconfig of a peer to measure in the same run"
    )
    parser.add_argument("--peer-context", default="")
    parser.add_argument("--peer-cluster", default="")
    parser.add_argument("--peer-pids", default="")
    parser.add_argument("--seconds", type=float, default=5.0, help="per workload")
    parser.add_argument("--clients", type=_numbers, default=(1, 16, 64))
    parser.add_argument("--list", type=int, default=10_000, help="objects in the listed namespace")
    parser.add_argument("--watchers", type=int, default=1000)
    parser.add_argument("--rate", type=_numbers, default=(20, 100), help="watch: events per second")
    parser.add_argument(
        "work", nargs="+", choices=("get", "create", "update", "patch", "delete", "list", "watch")
    )
    options = parser.parse_args()
    ours = targets.load(options.kubeconfig, options.context, options.cluster, options.pids, "ours")
    rows = _run(ours, options)
    show(options.kubeconfig, rows)
    if options.peer:
        peer = targets.load(
            options.peer, options.peer_context, options.peer_cluster, options.peer_pids, "peer"
        )
        peer_rows = _run(peer, options)
        show(options.peer, peer_rows)
        show_ratios(rows, peer_rows)


def _run(server: Target, options: argparse.Namespace) -> list[Row]:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure(server, options))


if __name__ == "__main__":
    main()
