"""The chart `kcp` on a real kube-apiserver: installed by Helm, and its pods serve workspaces."""

from __future__ import annotations

import base64
import pathlib
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from tests.behaviour.deploy.helm import CHARTS, HELM, helm
from tests.behaviour.deploy.test_charts import free_crd
from tests.behaviour.operator.certificates import CertManager
from tests.behaviour.operator.kubelet import Kubelet, missing_for_pods, resolving

from pykcp.programs.operator.pki.issue import SigningAuthority, issue
from pykcp.programs.operator.pki.requests import CLIENT_AUTH, CertificateRequest
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.kubeconfig import Access
from pykcp.testing.multicluster.downstream import (
    PhysicalCluster,
    missing_for_real_cluster,
    real_cluster,
)
from pykcp.testing.workspaces import make_workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
WAIT = 300
HOST = "api.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def kubernetes(tmp_path: pathlib.Path) -> Iterator[tuple[PhysicalCluster, Kubelet]]:
    missing = missing_for_real_cluster() or missing_for_pods() or ("" if HELM else "helm")
    if missing:
        pytest.skip(f"not installed: {missing}")
    with ExitStack() as stack:
        cluster = stack.enter_context(real_cluster("real", tmp_path))
        for kind in ("Certificate", "Issuer"):
            assert cluster.client.post(CRDS, free_crd("cert-manager.io", kind)).status == 201
        for plural in ("certificates", "issuers"):
            path = f"/apis/cert-manager.io/v1/{plural}"
            eventually(lambda path=path: cluster.client.get(path).status == 200, WAIT)
        kubelet = stack.enter_context(Kubelet(cluster, tmp_path / "pods"))
        stack.enter_context(resolving(kubelet.names))
        stack.enter_context(CertManager(cluster.client, "kcp"))
        yield cluster, kubelet


def test_kcp_serves_workspaces(
    kubernetes: tuple[PhysicalCluster, Kubelet], tmp_path: pathlib.Path
) -> None:
    """etcd, the server and the front-proxy; then an upgrade with two servers."""
    cluster, kubelet = kubernetes
    chart = ("kcp", str(CHARTS / "kcp"), "--namespace=kcp")
    values = (f"--set=externalHostname={HOST}", "--set=externalPort=8443", "--set=etcd.replicas=1")
    helm("install", *chart, "--create-namespace", *values, kubeconfig=cluster.kubeconfig)
    kubelet.names.lead(HOST, "kcp-front-proxy.kcp")

    def is_available(name: str, wanted: int) -> bool:
        path = f"/apis/apps/v1/namespaces/kcp/deployments/{name}"
        status = cluster.client.get(path).json.get("status") or {}
        return bool(status.get("availableReplicas") == status.get("updatedReplicas") == wanted)

    for name in ("kcp", "kcp-front-proxy"):
        eventually(lambda name=name: is_available(name, 1), WAIT)
    admin = _administrator(cluster, tmp_path)
    make_workspace(admin, "team")
    team = admin.in_cluster("root:team")
    maps = "/api/v1/namespaces/default/configmaps"
    assert team.post(maps, {"metadata": {"name": "kept"}}).status == 201
    more = ("--set=kcp.replicas=2", "--set=kcpFrontProxy.replicas=2")
    helm("upgrade", *chart, *values, *more, kubeconfig=cluster.kubeconfig)
    for name in ("kcp", "kcp-front-proxy"):
        eventually(lambda name=name: is_available(name, 2), WAIT)
    team.drop()
    assert team.get(f"{maps}/kept").status == 200
    admin.close()
    helm("uninstall", "kcp", "--namespace=kcp", kubeconfig=cluster.kubeconfig)
    eventually(lambda: not kubelet.of("kcp", "kcp") and not kubelet.of("kcp", "kcp-etcd"), WAIT)


def _administrator(cluster: PhysicalCluster, folder: pathlib.Path) -> TestClient:
    """A certificate that the front-proxy accepts, as the page of the chart describes it."""

    def secret(name: str) -> dict[str, bytes]:
        found = cluster.client.get(f"/api/v1/namespaces/kcp/secrets/{name}").json["data"]
        return {key: base64.b64decode(value) for key, value in found.items()}

    authority = secret("kcp-front-proxy-client-ca")
    request = CertificateRequest(
        "admin",
        common_name="admin",
        organizations=("system:kcp:admin",),
        usages=(CLIENT_AUTH,),
    )
    signer = SigningAuthority(authority["tls.crt"], authority["tls.key"], authority["ca.crt"])
    made = issue(request, signer, time.time())
    files = folder / "admin.crt", folder / "admin.key"
    files[0].write_bytes(made.certificate)
    files[1].write_bytes(made.key)
    access = Access(HOST, 8443, "", secret("kcp-front-proxy-server")["ca.crt"].decode(), "")
    return TestClient(replace(access, certificate=(str(files[0]), str(files[1]))), cluster="root")
