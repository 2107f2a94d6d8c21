"""An installation from its objects to a workspace: its programs run as kubelets would run them."""

from __future__ import annotations

import base64
import json
import pathlib
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from tests.behaviour.operator.conftest import ETCD, OF_ROOT, ROOT
from tests.behaviour.operator.pods import running_pod
from tests.behaviour.operator.program import OperatorNamespace, OperatorProcess

from pykcp.testing.client import eventually
from pykcp.testing.multicluster.downstream import (  # fmt: skip
    PhysicalCluster,
    missing_for_real_cluster,
    real_cluster,
)
from pykcp.testing.sharded import free_ports
from pykcp.types import Object

SHARDS = "/clusters/root/apis/core.kcp.io/v1alpha1/shards"
SECRETS = "/clusters/root/api/v1/secrets"


@dataclass(frozen=True, slots=True)
class Installation:
    namespace: OperatorNamespace
    folder: pathlib.Path

    def get(self, secret: str, path: str) -> tuple[int, Object]:
        """A request with the kubeconfig in a Secret."""
        found = eventually(lambda: self.namespace.secret(secret), 30)
        config = json.loads(base64.b64decode(found["data"]["kubeconfig"]))
        base = next(one["cluster"] for one in config["clusters"] if one["name"] == "base")
        user = config["users"][0]["user"]
        authority = base64.b64decode(base["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        for name in ("client-certificate-data", "client-key-data"):
            (self.folder / name).write_bytes(base64.b64decode(user[name]))
        context.load_cert_chain(
            self.folder / "client-certificate-data", self.folder / "client-key-data"
        )
        try:
            with urllib.request.urlopen(base["server"] + path, context=context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, {}
        except OSError:
            return 0, {}


@pytest.fixture
def installation(namespace: OperatorNamespace, tmp_path: pathlib.Path) -> Iterator[Installation]:
    root, alpha, proxy = free_ports(3)
    spec = {**ROOT, "external": {"hostname": "localhost", "port": proxy}}
    del spec["etcd"]
    namespace.create("RootShard", "root", **spec, shardBaseURL=f"https://127.0.0.1:{root}")
    namespace.create("Shard", "alpha", **OF_ROOT, shardBaseURL=f"https://127.0.0.1:{alpha}")
    namespace.create("FrontProxy", "frontproxy", **OF_ROOT)
    namespace.create(
        "Kubeconfig",
        "admin",
        target={"frontProxyRef": {"name": "frontproxy"}},
        username="kcp-admin",
        groups=["system:kcp:admin"],
        validity="24h",
        secretRef={"name": "admin"},
    )
    ports = {"root-kcp": root, "alpha-shard-kcp": alpha, "frontproxy-front-proxy": proxy}
    with ExitStack() as pods:
        for name, port in ports.items():
            eventually(lambda name=name: namespace.deployment(name), 60)
            pods.enter_context(running_pod(namespace, name, tmp_path, port))
            namespace.roll_out(name)
        yield Installation(namespace, tmp_path)


def test_an_installation_serves_and_gives_rights(installation: Installation) -> None:
    """Acceptance: both shards register; a Kubeconfig without groups is given rights and loses
    them; a Shard that is deleted leaves root.
    """
    namespace = installation.namespace

    def shards() -> list[str]:
        status, found = installation.get("admin", SHARDS)
        return [one["metadata"]["name"] for one in found["items"]] if status == 200 else []

    eventually(lambda: shards() == ["alpha", "root"], 60)
    user: Object = {
        "target": {"rootShardRef": {"name": "root"}},
        "username": "user",
        "validity": "24h",
        "secretRef": {"name": "user"},
    }
    roles = {"clusterRoleBindings": {"clusterRoles": ["cluster-admin"]}}
    namespace.create("Kubeconfig", "user", **user, authorization=roles)
    namespace.create("Kubeconfig", "other", **{**user, "secretRef": {"name": "other"}})
    eventually(lambda: namespace.secret("user") and namespace.secret("other"), 30)
    eventually(lambda: installation.get("user", SECRETS)[0] == 200, 30)
    # The same user name without the group of that Kubeconfig has no rights.
    assert installation.get("other", SECRETS)[0] == 403
    status = namespace.get("Kubeconfig", "user")["status"]
    assert status["authorization"] == {
        "provisionedCluster": "root",
        "rootShard": "root",
        "target": "RootShard/root",
    }
    assert namespace.condition("Kubeconfig", "user", "Synced")["status"] == "True"
    # For something else, which does not even exist: what was given is taken back at once.
    path = f"{namespace.collection('Kubeconfig')}/user"
    absent = {"rootShardRef": None, "frontProxyRef": {"name": "absent"}}
    assert namespace.client.patch(path, {"spec": {"target": absent}}).status == 200
    eventually(lambda: installation.get("user", SECRETS)[0] == 403, 30)
    again = {"rootShardRef": {"name": "root"}, "frontProxyRef": None}
    assert namespace.client.patch(path, {"spec": {"target": again}}).status == 200
    eventually(lambda: installation.get("user", SECRETS)[0] == 200, 30)
    secret = namespace.secret("user")
    namespace.delete("Kubeconfig", "user")
    eventually(lambda: not namespace.get("Kubeconfig", "user"), 30)
    bindings = "/clusters/root/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    _, found = installation.get("admin", bindings)
    uids = [one["metadata"]["name"] for one in found["items"]]
    assert not [name for name in uids if name.startswith(secret["metadata"]["ownerReferences"][0]["uid"])]  # fmt: skip
    namespace.delete("Shard", "alpha")
    eventually(lambda: not namespace.get("Shard", "alpha"), 30)
    assert shards() == ["root"]


def test_marks_of_a_shard_are_set_and_withdrawn(installation: Installation) -> None:
    namespace = installation.namespace
    path = f"{namespace.collection('Shard')}/alpha"

    def labels() -> Object:
        _, found = installation.get("admin", f"{SHARDS}/alpha")
        return (found.get("metadata") or {}).get("labels") or {}

    def schedulable() -> str:
        return str(namespace.condition("Shard", "alpha", "Schedulable").get("status"))

    eventually(lambda: labels() == {"name": "alpha"}, 60)
    spec: Object = {"labels": {"region": "eu"}, "unschedulable": True}
    assert namespace.client.patch(path, {"spec": spec}).status == 200
    eventually(lambda: labels() == {"name": "alpha", "region": "eu"}, 30)
    eventually(lambda: schedulable() == "False", 30)
    withdrawn = {"labels": None, "unschedulable": None}
    assert namespace.client.patch(path, {"spec": withdrawn}).status == 200
    eventually(lambda: labels() == {"name": "alpha"}, 30)
    eventually(lambda: schedulable() == "True", 30)


def test_a_deletion_waits_for_the_root_shard_and_ends_without_it(
    namespace: OperatorNamespace,
) -> None:
    (port,) = free_ports(1)
    namespace.create("RootShard", "root", **ROOT, shardBaseURL=f"https://127.0.0.1:{port}")
    namespace.create("Shard", "alpha", **OF_ROOT, **ETCD)
    namespace.create(
        "Kubeconfig", "user", target={"rootShardRef": {"name": "root"}}, username="user",
        validity="24h", secretRef={"name": "user"},
        authorization={"clusterRoleBindings": {"clusterRoles": ["cluster-admin"]}},
    )  # fmt: skip
    objects = (("Shard", "alpha"), ("Kubeconfig", "user"))
    for kind, name in objects:
        eventually(lambda: _finalizers(namespace, kind, name), 60)  # noqa: B023
        namespace.delete(kind, name)
    for kind, name in objects:  # the root shard is down: there may be something to undo in it
        eventually(lambda: namespace.phase(kind, name) == "Deleting")  # noqa: B023
        assert namespace.get(kind, name)
        synced = eventually(lambda: namespace.condition(kind, name, "Synced"))  # noqa: B023
        assert synced["status"] == "False"
        assert synced["message"]
    namespace.delete("RootShard", "root")
    for kind, name in objects:
        eventually(lambda: not namespace.get(kind, name), 30)  # noqa: B023


def _finalizers(namespace: OperatorNamespace, kind: str, name: str) -> list[str]:
    return namespace.get(kind, name)["metadata"].get("finalizers") or []


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhysicalCluster]:
    if missing := missing_for_real_cluster():
        pytest.skip(f"not installed: {missing}")
    with real_cluster("real", tmp_path_factory.mktemp("real")) as found:
        yield found


@pytest.mark.slow
def test_on_a_real_kube_apiserver(kubernetes: PhysicalCluster, tmp_path: pathlib.Path) -> None:
    """Objects, validation, statuses, and garbage collection by the real controller manager."""
    with OperatorProcess(kubernetes, tmp_path, "--install-crds", "--leader-elect"):
        crds = "/apis/operator.kcp.io/v1alpha1/kubeconfigs"
        eventually(lambda: kubernetes.client.get(crds).status == 200, 60)
        namespace = OperatorNamespace(kubernetes.client, "kcp-real")
        namespace.create("RootShard", "root", **ROOT)
        namespace.create("FrontProxy", "frontproxy", **OF_ROOT)
        deployment = eventually(lambda: namespace.deployment("frontproxy-front-proxy"), 60)
        assert deployment["spec"]["replicas"] == 2
        eventually(lambda: namespace.phase("RootShard", "root") == "Provisioning")
        assert "0 of 2" in eventually(
            lambda: namespace.condition("RootShard", "root", "Available").get("message"), 30
        ) or namespace.condition("RootShard", "root", "Available")["status"] == "False"  # fmt: skip
        before = namespace.deployment("root-kcp")["metadata"]["generation"]
        namespace.create("Shard", "alpha", **OF_ROOT, **ETCD)
        eventually(lambda: namespace.deployment("alpha-shard-kcp"), 30)
        assert namespace.deployment("root-kcp")["metadata"]["generation"] == before
        named = {"metadata": {"name": "root"}, "spec": {**OF_ROOT, **ETCD}}
        obj = {"apiVersion": "operator.kcp.io/v1alpha1", "kind": "Shard", **named}
        refused = namespace.client.post(namespace.collection("Shard"), obj)
        assert (refused.status, "cannot be called" in refused.json["message"]) == (422, True)
        uid = namespace.service("root-kcp")["metadata"]["uid"]
        namespace.client.delete(f"/api/v1/namespaces/{namespace.name}/services/root-kcp")
        eventually(
            lambda: namespace.service("root-kcp").get("metadata", {"uid": uid})["uid"] != uid
        )
        namespace.delete("FrontProxy", "frontproxy")
        for find in (namespace.deployment, namespace.service):
            eventually(lambda find=find: not find("frontproxy-front-proxy"), 60)
        eventually(lambda: not namespace.secret("root-frontproxy-server"), 60)


def test_kubectl_shows_the_columns(cluster: PhysicalCluster, namespace: OperatorNamespace) -> None:
    import subprocess

    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    namespace.create("RootShard", "root", **ROOT)
    eventually(lambda: namespace.phase("RootShard", "root"), 60)
    done = subprocess.run(
        [kubectl, f"--kubeconfig={cluster.kubeconfig}", "-n", namespace.name, "get", "rootshards"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    head, row = done.stdout.splitlines()
    assert head.split() == ["NAME", "HOSTNAME", "PHASE", "AGE"]
    assert row.split()[:3] == ["root", "api.example.com", "Provisioning"]
