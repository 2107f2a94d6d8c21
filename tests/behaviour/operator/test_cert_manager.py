"""Certificates of cert-manager, whose kinds are served here and whose work a stand-in does."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest
from cryptography import x509
from tests.behaviour.deploy.test_charts import free_crd
from tests.behaviour.operator.certificates import CertManager
from tests.behaviour.operator.conftest import ETCD, OF_ROOT, ROOT
from tests.behaviour.operator.program import OperatorNamespace, OperatorProcess

from pykcp.auth.certificates import create_ca
from pykcp.testing.client import eventually
from pykcp.testing.multicluster.downstream import PhysicalCluster, own_cluster
from pykcp.types import Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ISSUERS = "/apis/cert-manager.io/v1/namespaces/{}/issuers"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhysicalCluster]:
    """With an operator that asks cert-manager for everything, which is not there at first."""
    folder = tmp_path_factory.mktemp("issuing")
    flags = ("--install-crds", "--issue-with=cert-manager")
    with own_cluster("issuing", folder) as found, OperatorProcess(found, folder, *flags):
        path = "/apis/operator.kcp.io/v1alpha1/kubeconfigs"
        eventually(lambda: found.client.get(path).status == 200, 60)
        yield found


def _leaf(namespace: OperatorNamespace, name: str) -> x509.Certificate:
    secret = eventually(lambda: namespace.secret(name), 60)
    return x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))


def _installation(namespace: OperatorNamespace, certificates: Object) -> None:
    namespace.create("RootShard", "root", **{**ROOT, "certificates": certificates})
    namespace.create("Shard", "alpha", **OF_ROOT, **ETCD)
    namespace.create("FrontProxy", "frontproxy", **OF_ROOT)
    namespace.create(
        "Kubeconfig", "admin", target={"frontProxyRef": {"name": "frontproxy"}},
        username="kcp-admin", validity="24h", secretRef={"name": "admin-kubeconfig"},
    )  # fmt: skip


def _comes_up(namespace: OperatorNamespace, top: str) -> None:
    for name in ("root-kcp", "root-proxy", "alpha-shard-kcp", "frontproxy-front-proxy"):
        eventually(lambda name=name: namespace.deployment(name), 60)
    eventually(lambda: namespace.phase("Kubeconfig", "admin") == "Ready", 60)
    for name, issuer in (
        ("root-server", "root-server-ca"),
        ("alpha-server", "root-server-ca"),
        ("kubeconfig-cert-admin", "root-client-ca"),
        ("root-server-ca", top),
    ):
        _leaf(namespace, name).verify_directly_issued_by(_leaf(namespace, issuer))


def _with_kinds(cluster: PhysicalCluster) -> None:
    for kind in ("Certificate", "Issuer"):
        made = cluster.client.post(CRDS, free_crd("cert-manager.io", kind))
        assert made.status in (201, 409), made
    path = "/apis/cert-manager.io/v1/issuers"
    eventually(lambda: cluster.client.get(path).status == 200)


def test_cert_manager_may_come_later_and_needs_no_issuer_of_the_user(
    cluster: PhysicalCluster,
) -> None:
    namespace = OperatorNamespace(cluster.client, "later")
    _installation(namespace, {})
    eventually(
        lambda: namespace.condition("RootShard", "root", "Available").get("reason") == "IssuerMissing",
        60,
    )  # fmt: skip
    message = namespace.condition("RootShard", "root", "Available")["message"]
    assert "needs cert-manager, which is not installed" in message
    _with_kinds(cluster)
    with CertManager(cluster.client, "later"):
        _comes_up(namespace, "root-ca")
    issuer = cluster.client.get(f"{ISSUERS.format('later')}/root-ca").json
    assert issuer["spec"] == {"ca": {"secretName": "root-ca"}}
    assert issuer["metadata"]["ownerReferences"][0]["kind"] == "RootShard"


def test_a_given_authority_signs_by_way_of_cert_manager(cluster: PhysicalCluster) -> None:
    _with_kinds(cluster)
    namespace = OperatorNamespace(cluster.client, "given")
    company = create_ca("company", time.time())
    data = {"tls.crt": company.certificate, "tls.key": company.key, "ca.crt": company.certificate}
    secret = {
        "metadata": {"name": "company"},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
    made = cluster.client.post("/api/v1/namespaces/given/secrets", secret)
    assert made.status == 201, made
    _installation(namespace, {"caSecretRef": {"name": "company"}})
    with CertManager(cluster.client, "given"):
        _comes_up(namespace, "company")


def test_an_issuer_of_the_user_signs_the_root(cluster: PhysicalCluster) -> None:
    _with_kinds(cluster)
    namespace = OperatorNamespace(cluster.client, "issuer")
    issuer = {
        "apiVersion": "cert-manager.io/v1", "kind": "Issuer",
        "metadata": {"name": "selfsigned"}, "spec": {"selfSigned": {}},
    }  # fmt: skip
    made = cluster.client.post(ISSUERS.format("issuer"), issuer)
    assert made.status == 201, made
    _installation(namespace, {"issuerRef": {"name": "selfsigned"}})
    with CertManager(cluster.client, "issuer"):
        _comes_up(namespace, "root-ca")
