"""Workspaces on etcd, which takes only so much in one transaction."""

from __future__ import annotations

import concurrent.futures
import pathlib

import pytest

from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.client import eventually
from pykcp.testing.server import server
from pykcp.testing.workspaces import WORKSPACES, inside, make_workspace

pytestmark = pytest.mark.skipif(find_etcd() is None, reason="there is no etcd here")


def test_a_full_workspace_comes_and_goes(tmp_path: pathlib.Path) -> None:
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    try:
        with server(f"--etcd-servers={etcd.url}", directory=tmp_path) as shard:
            root = shard.client(context="base", cluster="root")
            cluster = make_workspace(root, "full")["spec"]["cluster"]
            full, path = inside(root, "full"), "/api/v1/namespaces/default/configmaps"
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                bodies = [{"metadata": {"name": f"c{i}"}} for i in range(300)]
                made = pool.map(lambda body: full.post(path, body).status, bodies)
                assert set(made) == {201}
            assert root.delete(f"{WORKSPACES}/full").status == 200
            eventually(lambda: root.get(f"{WORKSPACES}/full").status == 404)
            left = shard.client(cluster=cluster).get("/api/v1/configmaps").json["items"]
            assert left == []
    finally:
        etcd.kill()
