"""A cluster with a running operator that the tests of this folder share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.behaviour.operator.program import OperatorNamespace, OperatorProcess

from pykcp.testing.client import eventually
from pykcp.testing.multicluster.downstream import PhysicalCluster, own_cluster

ROOT = {
    "external": {"hostname": "api.example.com", "port": 6443},
    "cache": {},
    "certificates": {},
    "etcd": {"endpoints": ["https://root-client:2379"]},
}
OF_ROOT = {"rootShard": {"ref": {"name": "root"}}}
ETCD = {"etcd": {"endpoints": ["https://alpha-client:2379"]}}


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhysicalCluster]:
    with own_cluster("host", tmp_path_factory.mktemp("host")) as found:
        yield found


@pytest.fixture(scope="package")
def operator(
    cluster: PhysicalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    flags = ("--install-crds", "--leader-elect", "--lease-duration=3s")
    with OperatorProcess(cluster, tmp_path_factory.mktemp("operator"), *flags) as process:
        crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kubeconfigs.operator.kcp.io"
        eventually(lambda: _is_established(cluster, crd), 60)
        yield process


def _is_established(cluster: PhysicalCluster, path: str) -> bool:
    found = cluster.client.get(path)
    conditions = (found.json.get("status") or {}).get("conditions") or () if found.status == 200 else ()  # fmt: skip
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


_numbers = itertools.count()


@pytest.fixture
def namespace(cluster: PhysicalCluster, operator: OperatorProcess) -> OperatorNamespace:
    return OperatorNamespace(cluster.client, f"kcp-{next(_numbers)}")
