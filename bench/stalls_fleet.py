"""Attacks on a front-proxy and on what it joins from several shards."""

from __future__ import annotations

import itertools
import pathlib
import ssl
from dataclasses import dataclass
from typing import Any

from http2client import Connection
from stalls_answers import FRONT_PROXY
from stalls_attacker import Attack, Script
from stalls_load import ATTACKS as LOADS
from stalls_load import many
from stalls_places import Place, Room
from stalls_services import readable_watches

from pykcp.testing.client import TestClient
from pykcp.testing.sharded import HOST, Fleet

_NUMBERS = itertools.count()
_CONFIGMAPS = "/api/v1/configmaps"


@dataclass(slots=True)
class ProxyPlace(Place):
    """Two shards with a cache server behind a front-proxy."""

    _fleet: Fleet | None = None

    @property
    def fleet(self) -> Fleet:
        assert self._fleet is not None
        return self._fleet

    def _start_ours(self) -> None:
        tokens = f"--token-auth-file={self.folder / 'tokens.csv'}"
        self._fleet = Fleet(self.folder / "fleet", 2, proxy_flags=(tokens,))
        self._fleet.start()
        self.host, self.port = HOST, self._fleet["front-proxy"].member.port
        self.pids = tuple(process.pid for process in self._fleet.processes.values())

    def stop(self) -> None:
        if self._fleet is not None:
            self._fleet.stop()
            self._fleet = None

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        seconds: float = 20.0,
        content_type: str = "application/json",
    ) -> tuple[int, bytes]:
        client = self.fleet.client()
        try:
            reply = client.request(method, path, body, content_type=content_type)
        except OSError:
            return 0, b""
        finally:
            client.drop()
        return reply.status, reply.body

    def root_client(self) -> TestClient:
        return self.fleet.client(cluster="root")

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.fleet.files.authority("serving"))

    @property
    def log_path(self) -> pathlib.Path:
        return self.fleet["front-proxy"].log_path


ATTACKS: list[Attack] = []


def _add(name: str, script: Script) -> None:
    ATTACKS.append(Attack(FRONT_PROXY + name, script, has_peer=False))


async def _merged_readable(connection: Connection, room: Room) -> int:
    path = f"/services/merged/readable/clusters/*{_CONFIGMAPS}"
    return (await connection.request("GET", path)).status


async def _merged_tree(connection: Connection, room: Room) -> int:
    path = f"/services/merged/tree{room.prefix}"
    return (await connection.request("GET", path)).status


async def _unknown_workspace(connection: Connection, room: Room) -> int:
    path = f"{room.prefix}:none-{next(_NUMBERS)}{_CONFIGMAPS}"
    return (await connection.request("GET", path)).status


async def _long_path(connection: Connection, room: Room) -> int:
    path = f"/clusters/root{':a' * 2_000}{next(_NUMBERS)}{_CONFIGMAPS}"
    return (await connection.request("GET", path)).status


_add("merged lists of 10,000 in a loop, 64 streams", many(_merged_readable, objects=10_000))
_add("merged watches, 500 of them", readable_watches("/services/merged", 500))
_add("merged trees in a loop, 64 streams", many(_merged_tree))
_add("workspaces that do not exist, 256 streams", many(_unknown_workspace, streams=32))
_add("paths of 2,000 segments, 64 streams", many(_long_path))
for _attack in LOADS:
    if _attack.name.startswith("flood: ") or _attack.name in (
        "GET flood, 256 streams",
        "create flood, 256 streams",
        "lists of 10,000 in a loop, 64 streams",
        "100 slow readers of a list of 17 MB",
        "800 lists of 17 MB with closed windows",
        "updates of 1 MB, 64 at a time",
    ):
        _add(_attack.name, _attack.script)
