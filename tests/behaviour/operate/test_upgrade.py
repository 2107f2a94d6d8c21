"""Two shards and two proxies are upgraded one process after the other while clients write."""

from __future__ import annotations

import pathlib
import threading
import time
from typing import Self

import pytest
import yaml

from pykcp.testing.client import TestClient, eventually

from .installations import HostInstallation, install_version, installation, variant

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_LONGEST_SECONDS = 60.0
"""So long a client repeats a request."""


class Writer:
    """Creates objects, one after the other, and repeats what failed, as clients do."""

    def __init__(self, kcp: HostInstallation, cluster: str) -> None:
        self._kcp, self.path = kcp, f"/clusters/{cluster}{CONFIG_MAPS}"
        self.done: list[str] = []
        """Names that were acknowledged."""
        self.repeated = 0
        self.lost: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        client, number = self._kcp.client(), 0
        while not self._stop.is_set():
            name, number = f"c{number}", number + 1
            if self._create(client, name):
                self.done.append(name)
            else:
                self.lost.append(name)
        client.close()

    def _create(self, client: TestClient, name: str) -> bool:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        deadline = time.monotonic() + _LONGEST_SECONDS
        while time.monotonic() < deadline:
            try:
                status = client.post(self.path, body).status
            except OSError:
                status = 0
                client.drop()
            if status in (201, 409):  # it was created, and the answer was lost
                return True
            self.repeated += 1
            time.sleep(0.1)
        return False

    def more(self, number: int) -> None:
        wanted = len(self.done) + number
        eventually(lambda: len(self.done) >= wanted, 120)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_upgrade_under_load_loses_nothing(tmp_path: pathlib.Path) -> None:
    objects = list(yaml.safe_load_all(variant("dekker")))
    (proxy,) = [one for one in objects if one["kind"] == "FrontProxy"]
    proxy["spec"]["replicas"] = 2
    with installation(tmp_path, yaml.safe_dump_all(objects)) as kcp:
        clusters = [kcp.make_workspace(f"on-{shard}", shard) for shard in ("root", "alpha")]
        install_version(kcp, "v9.1")
        before = {pid for pids in kcp.pids().values() for pid in pids}
        assert len(before) == 4
        with Writer(kcp, clusters[0]) as first, Writer(kcp, clusters[1]) as second:
            first.more(20)
            second.more(20)
            kcp.succeed("upgrade", "--to=v9.1", timeout=300)
            first.more(20)
            second.more(20)
        assert not before & {pid for pids in kcp.pids().values() for pid in pids}
        for writer in (first, second):
            assert writer.lost == []
            items = kcp.client().get(writer.path).json["items"]
            assert set(writer.done) <= {one["metadata"]["name"] for one in items}
