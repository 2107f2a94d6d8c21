"""Several servers on one etcd behind one address: each reaches the pods of a cluster that pulls."""

from __future__ import annotations

import itertools
import pathlib
from contextlib import ExitStack
from functools import partial

import pytest

from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.kubeconfig import Access
from pykcp.testing.multicluster.downstream import own_cluster
from pykcp.testing.multicluster.faults import TcpFaults
from pykcp.testing.multicluster.syncers import (
    SyncerProcess,
    config_map,
    running,
    serve_workloads,
)
from pykcp.testing.multicluster.workspaces import CLUSTERS, bind_workload, cluster_object, is_ready
from pykcp.testing.server import ServerProcess

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "m", "image": "i"}]},
}
TOKEN = "of-the-syncer"


class Balancer(TcpFaults):
    """One address of several servers, which get connections in turn."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = itertools.cycle(ports)
        super().__init__(ports[0])

    @property
    def _target(self) -> int:
        return next(self._ports)

    @_target.setter
    def _target(self, _: int) -> None:
        """The ports are given by themselves."""


def has_pod(client: TestClient) -> bool:
    return client.get("/api/v1/namespaces/default/pods/web").status == 200


@pytest.mark.slow
@pytest.mark.skipif(
    find_etcd() is None, reason="needs etcd: put it on PATH or name it in PYKCP_ETCD"
)
def test_every_server_of_a_shard_reaches_the_pods(tmp_path: pathlib.Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(f'{TOKEN},syncer,1,"system:masters"\n')
    with ExitStack() as stack:
        etcd = EtcdProcess(tmp_path / "etcd")
        etcd.start()
        stack.callback(etcd.kill)
        flags = [f"--etcd-servers={etcd.url}", f"--token-auth-file={tokens}"]
        servers = [ServerProcess(tmp_path / f"server{n}", flags).start() for n in range(2)]
        for one in servers:
            stack.callback(one.stop)
        workspace = make_cluster(servers[0], "tenant")
        bind_workload(workspace)
        assert workspace.post(CLUSTERS, cluster_object("east", mode="None")).status == 201
        physical = stack.enter_context(own_cluster("east", tmp_path))
        balancer = stack.enter_context(Balancer([one.port for one in servers]))
        authorities = "".join(one.client().access.ca for one in servers)
        access = Access("127.0.0.1", balancer.port, workspace.prefix, authorities, TOKEN)
        syncer = SyncerProcess(tmp_path, "east", access, physical.kubeconfig_text(), ["configmaps"])
        with running(syncer):
            eventually(lambda: is_ready(workspace, "east"), 60)
            serve_workloads(workspace, "pods")
            made = workspace.post(
                "/api/v1/namespaces/default/configmaps", config_map("here", "east")
            )
            assert made.status == 201, made
            place = eventually(lambda: _place(physical.client), 30)
            assert physical.client.post(f"/api/v1/namespaces/{place}/pods", POD).status == 201
            for one in (*servers, *servers):
                eventually(partial(has_pod, one.client(cluster="tenant")), 30)


def _place(client: TestClient) -> str:
    """The namespace of the copy."""
    items = client.get("/api/v1/configmaps").json["items"]
    found = (one["metadata"] for one in items if one["metadata"]["name"] == "here")
    return str(next((one["namespace"] for one in found), ""))
