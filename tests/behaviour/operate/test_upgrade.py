"""Two shards and two proxies are upgraded one process after the other while clients write."""

from __future__ import annotations

import pathlib
import time

import pytest
import yaml

from pykcp.testing.client import TestClient

from .installations import ClientThread, HostInstallation, install_version, installation, variant

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_LONGEST_SECONDS = 60.0
"""So long a client repeats a request."""


class Writer(ClientThread):
    """Creates objects, one after the other, and repeats what failed, as clients do."""

    def __init__(self, kcp: HostInstallation, cluster: str) -> None:
        super().__init__(kcp.client)
        self.path = f"/clusters/{cluster}{CONFIG_MAPS}"
        self.done: list[str] = []
        """Names that were acknowledged."""
        self.repeated = 0
        self.lost: list[str] = []

    def step(self, client: TestClient) -> TestClient:
        name = f"c{self.count}"
        (self.done if self._create(client, name) else self.lost).append(name)
        self.count += 1
        return client

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
