"""What an operator must prove, with Kubernetes: the operator is installed by its Helm chart on a
real kube-apiserver, runs with the rights that the chart gives it, and its pods run.

`tests/behaviour/operate/test_acceptance.py` proves the same with processes.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
import yaml
from tests.behaviour.deploy.helm import CHARTS, HELM, helm
from tests.behaviour.operate.installations import SHARDS, WORKSPACES, Load, bound_gears
from tests.behaviour.operator.kubelet import Kubelet, missing_for_pods, resolving
from tests.behaviour.operator.program import OperatorNamespace

from pykcp.auth.certificates import create_ca, issue_client, issue_serving
from pykcp.storage.testing import EtcdProcess
from pykcp.testing.client import APPLY, Reply, TestClient, eventually
from pykcp.testing.issuer import AUDIENCE, TestIssuer
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.multicluster.downstream import missing_for_real_cluster, real_cluster
from pykcp.types import Object

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
WAIT = 240
NAMESPACES = "/api/v1/namespaces"
SECRETS = "/clusters/root/api/v1/secrets"
IMAGE = {"repository": "example.com/pykcp", "tag": "1"}
OF_ROOT = {"rootShard": {"ref": {"name": "root"}}}
POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}


def _encryption(*keys: str) -> str:
    named = [
        {"name": key, "secret": base64.b64encode(key.encode().ljust(32, b"-")).decode()}
        for key in keys
    ]
    providers = [{"aescbc": {"keys": named}}, {"identity": {}}]
    return json.dumps(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": providers}],
        }
    )


class ClusterInstallation:
    """An installation in a namespace of a cluster, and the pods that run it."""

    def __init__(
        self, namespace: OperatorNamespace, kubelet: Kubelet, folder: pathlib.Path
    ) -> None:
        self.namespace, self.kubelet, self._folder = namespace, kubelet, folder
        self.authority = ""
        """Verifies servers in place of those of the kubeconfigs."""

    def put(self, kind: str, name: str, **spec: Any) -> None:
        """Create or replace an object of the operator."""
        path = f"{self.namespace.collection(kind)}/{name}"
        obj = {
            "apiVersion": "operator.kcp.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        self._apply(path, obj)

    def put_secret(self, name: str, **data: str) -> None:
        path = f"{NAMESPACES}/{self.namespace.name}/secrets/{name}"
        body = {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data,
        }  # fmt: skip
        self._apply(path, body)

    def _apply(self, path: str, obj: Object) -> None:
        self.namespace.client.drop()  # kube-apiserver closes connections that were idle
        query = {"fieldManager": "test", "force": "true"}
        made = self.namespace.client.patch(path, yaml.safe_dump(obj), APPLY, **query)
        assert made.status in (200, 201), made

    def kubeconfig(self, name: str, target: Object, **more: Any) -> None:
        spec = {"username": name, "validity": "24h", "secretRef": {"name": name}, **more}
        self.put("Kubeconfig", name, target=target, **spec)

    def client(self, name: str = "admin") -> TestClient:
        """With the kubeconfig in a Secret."""
        secret = eventually(lambda: self.namespace.secret(name), WAIT)
        path = self._folder / f"{name}.kubeconfig"
        path.write_bytes(base64.b64decode(secret["data"]["kubeconfig"]))
        (user,) = yaml.safe_load(path.read_text())["users"]
        files = []
        for part in ("client-certificate", "client-key"):
            file = self._folder / f"{name}.{part}"
            file.write_bytes(base64.b64decode(user["user"][f"{part}-data"]))
            files.append(str(file))
        access = replace(read_access(path, "base"), certificate=(files[0], files[1]))
        return TestClient(replace(access, ca=self.authority) if self.authority else access)

    def status(self, path: str, name: str = "admin") -> int:
        """The status of a GET; 0 while there is no connection."""
        client = self.client(name)
        try:
            return client.get(path).status
        except OSError:
            return 0
        finally:
            client.close()

    def is_available(self, workload: str) -> bool:
        found = self.namespace.deployment(workload)
        status, wanted = found.get("status") or {}, (found.get("spec") or {}).get("replicas", 1)
        is_current = status.get("observedGeneration") == found.get("metadata", {}).get("generation")
        return bool(is_current and status.get("availableReplicas", 0) == wanted)

    def pids(self, workload: str) -> list[int]:
        found = self.kubelet.of(self.namespace.name, workload)
        return [pod.process.pid for pod in found if pod.process is not None]

    def arguments(self, workload: str) -> str:
        """The command line of the process."""
        (pid,) = self.pids(workload)
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()

    def make_workspace(self, name: str, shard: str) -> str:
        spec = {
            "type": {"name": "universal", "path": "root"},
            "location": {"selector": {"matchLabels": {"name": shard}}},
        }
        body = {
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace",
            "metadata": {"name": name}, "spec": spec,
        }  # fmt: skip
        path = f"/clusters/root{WORKSPACES}"
        client = self.client()

        def create() -> bool:  # as long as a shard is being replaced, requests fail
            reply = _tried(lambda: client.post(path, body))
            return reply is not None and reply.status in (201, 409)

        def ready() -> str:
            reply = _tried(lambda: client.get(f"{path}/{name}"))
            found = reply.json if reply is not None and reply.status == 200 else {}
            is_ready = (found.get("status") or {}).get("phase") == "Ready"
            return str(found["spec"]["cluster"]) if is_ready else ""

        eventually(create, WAIT)
        cluster = str(eventually(ready, WAIT))
        client.close()
        return cluster

    def shards(self, name: str = "admin") -> list[str]:
        client = self.client(name)
        reply = _tried(lambda: client.get(f"/clusters/root{SHARDS}"))
        client.close()
        items = reply.json["items"] if reply is not None and reply.status == 200 else ()
        return [one["metadata"]["name"] for one in items]


def _tried(request: Any) -> Reply | None:
    try:
        reply: Reply = request()
    except OSError:
        return None
    return reply


class Everything(ClusterInstallation):
    """One installation with everything switched on."""

    def __init__(self, *rest: Any, issuer: TestIssuer, host: str) -> None:
        super().__init__(*rest)
        self.issuer, self.host = issuer, host
        self.foreign = create_ca("foreign", time.time(), algorithm="rsa")
        self.audits = {name: self._folder / f"{name}-audit.log" for name in ("root", "alpha")}
        oidc = {"issuerURL": issuer.url, "clientID": AUDIENCE, "caFileRef": {"name": "issuer-ca"}}
        self.auth = {"oidc": oidc, "serviceAccount": {"enabled": True}}
        self.root: Object = {
            "external": {"hostname": host, "port": 6443},
            "image": IMAGE,
            "cache": {"ref": {"name": "cache"}},
            "certificates": {},
            "clientCABundleRef": {"name": "foreign-clients"},
            "auth": self.auth,
            "audit": self._audit("root"),
        }
        self.alpha: Object = {
            **OF_ROOT,
            "image": IMAGE,
            "auth": self.auth,
            "audit": self._audit("alpha"),
            "encryption": {"configSecretRef": {"name": "encryption"}},
            "kcpVirtualWorkspace": {"name": "own"},
        }

    def _audit(self, shard: str) -> Object:
        policy = {"configMap": {"name": "audit-policy"}}
        return {"policy": policy, "log": {"path": str(self.audits[shard])}}

    def front_proxy(self, **more: Any) -> None:
        spec = {**OF_ROOT, "image": IMAGE, "replicas": 2, "auth": self.auth, **more}
        self.put("FrontProxy", "frontproxy", **spec)

    def event(self, shard: str, name: str) -> Any:
        """The event of a request that is about this name."""

        def find() -> Any:
            events = [json.loads(line) for line in self.audits[shard].read_text().splitlines()]
            return next((e for e in events if name in e["requestURI"]), None)

        return eventually(find, WAIT)

    def create(self) -> None:
        self.put_secret("issuer-ca", **{"ca.crt": self.issuer.ca})
        self.put_secret("foreign-clients", **{"tls.crt": self.foreign.certificate.decode()})
        self.put_secret("encryption", **{"encryption.yaml": _encryption("first")})
        path = f"{NAMESPACES}/{self.namespace.name}/configmaps"
        data = {"audit-policy.yaml": json.dumps(POLICY)}
        self.namespace.client.post(path, {"metadata": {"name": "audit-policy"}, "data": data})
        self.put("CacheServer", "cache", certificates={}, image=IMAGE)
        self.put("RootShard", "root", **self.root)
        self.put("Shard", "alpha", **self.alpha)
        self.front_proxy()
        own = f"own-virtual-workspace.{self.namespace.name}.svc.cluster.local"
        target = {"shardRef": {"name": "alpha"}}
        external = {"hostname": own, "port": 6443}
        self.put(
            "VirtualWorkspace", "own", target=target, external=external, image=IMAGE, replicas=1
        )
        front = {"frontProxyRef": {"name": "frontproxy"}}
        self.kubeconfig("admin", front, groups=["system:kcp:admin"])
        self.kubeconfig("root-admin", {"rootShardRef": {"name": "root"}}, groups=["system:kcp:admin"])  # fmt: skip
        self.kubeconfig("nobody", front)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    missing = missing_for_real_cluster() or missing_for_pods() or ("" if HELM else "helm")
    if missing:
        pytest.skip(f"not installed: {missing}")
    folder = tmp_path_factory.mktemp("acceptance")
    with ExitStack() as stack:
        cluster = stack.enter_context(real_cluster("real", folder))
        kubelet = stack.enter_context(Kubelet(cluster, folder / "pods"))
        stack.enter_context(resolving(kubelet.names))
        issuer = TestIssuer("RS256")
        stack.callback(issuer.close)
        at = ("--namespace=kcp-operator", "--create-namespace")
        helm("install", "kcp-operator", str(CHARTS / "kcp-operator"), *at, kubeconfig=cluster.kubeconfig)  # fmt: skip
        eventually(lambda: cluster.client.get("/apis/operator.kcp.io/v1alpha1/shards").status == 200, WAIT)  # fmt: skip
        namespace = OperatorNamespace(cluster.client, "kcp")
        made = Everything(namespace, kubelet, folder, issuer=issuer, host="api.example.com")
        kubelet.names.lead(made.host, "frontproxy-front-proxy.kcp")
        made.create()
        yield made


def test_00_the_chart_runs_the_operator_with_its_own_rights(everything: Everything) -> None:
    (pod,) = eventually(lambda: everything.kubelet.of("kcp-operator", "kcp-operator"), WAIT)
    assert pod.restarts == 0
    for workload in ("cache-cache-server", "root-kcp", "alpha-shard-kcp", "frontproxy-front-proxy"):
        eventually(lambda name=workload: everything.is_available(name), WAIT)
    for kind, name in (("CacheServer", "cache"), ("RootShard", "root"), ("Shard", "alpha")):
        eventually(lambda kind=kind, name=name: everything.namespace.phase(kind, name) == "Running", WAIT)  # fmt: skip


def test_01_the_kubeconfig_of_a_root_shard(everything: Everything) -> None:
    eventually(lambda: everything.status(SECRETS, "root-admin") == 200, WAIT)


def test_02_a_second_shard_takes_workspaces(everything: Everything) -> None:
    eventually(lambda: everything.shards() == ["alpha", "root"], WAIT)
    cluster = everything.make_workspace("second", "alpha")
    assert everything.status(f"/clusters/{cluster}{NAMESPACES}/default") == 200


def test_03_roles_of_a_kubeconfig_are_granted_moved_and_revoked(everything: Everything) -> None:
    cluster = everything.make_workspace("granted", "alpha")
    inside = f"/clusters/{cluster}/api/v1/secrets"
    front = {"frontProxyRef": {"name": "frontproxy"}}
    roles = {"clusterRoleBindings": {"clusterRoles": ["cluster-admin"]}}

    def may(path: str) -> bool:
        return everything.status(path, "nobody") == 200

    assert everything.status(SECRETS, "nobody") == 403
    everything.kubeconfig("nobody", front, authorization=roles)
    eventually(lambda: may(SECRETS), WAIT)
    everything.kubeconfig("nobody", front, authorization=roles, targetWorkspace="root:granted")
    eventually(lambda: may(inside) and not may(SECRETS), WAIT)
    everything.kubeconfig("nobody", front)
    eventually(lambda: everything.status(inside, "nobody") == 403, WAIT)


def test_04_cache_servers_inherited_overridden_and_on_etcd(
    everything: Everything, tmp_path: pathlib.Path
) -> None:
    namespace = everything.namespace.name
    for workload in ("root-kcp", "alpha-shard-kcp"):
        assert "--cache-kubeconfig=" in everything.arguments(workload)
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    try:
        store = {"endpoints": [etcd.url], "prefix": "/cache"}
        everything.put("CacheServer", "other", certificates={}, image=IMAGE, replicas=2, etcd=store)
        everything.put("Shard", "alpha", **everything.alpha, cache={"ref": {"name": "other"}})
        eventually(lambda: everything.is_available("other-cache-server"), WAIT)
        eventually(lambda: _cache_of(everything, "alpha") == "other", WAIT)
        assert _cache_of(everything, "root") == "cache"
        assert len(everything.kubelet.of(namespace, "other-cache-server")) == 2
        eventually(lambda: everything.is_available("alpha-shard-kcp"), WAIT)
    finally:
        everything.put("Shard", "alpha", **everything.alpha)
        eventually(lambda: _cache_of(everything, "alpha") == "cache", WAIT)
        eventually(lambda: everything.is_available("alpha-shard-kcp"), WAIT)
        everything.namespace.delete("CacheServer", "other")
        etcd.kill()


def _cache_of(everything: Everything, shard: str) -> str:
    """The cache server that the pods of a shard are told to use."""
    name = "root-kcp" if shard == "root" else f"{shard}-shard-kcp"
    volumes = everything.namespace.deployment(name)["spec"]["template"]["spec"]["volumes"]
    (found,) = [
        source["secret"]["name"]
        for volume in volumes
        for source in volume.get("projected", {}).get("sources", ())
        if any(item["path"] == "kubeconfig" for item in source.get("secret", {}).get("items", ()))
        and "cache-server" in volume["name"]
    ]
    return str(found).removesuffix("-kubeconfig")


def test_05_virtual_workspaces_of_their_own(everything: Everything) -> None:
    eventually(lambda: everything.is_available("own-virtual-workspace"), WAIT)
    client = everything.client()
    spec = client.get(f"/clusters/root{SHARDS}/alpha").json["spec"]
    client.close()
    own = f"own-virtual-workspace.{everything.namespace.name}.svc.cluster.local"
    assert spec["virtualWorkspaceURL"] == f"https://{own}:6443"
    prepared = everything.kubelet.folder / "prepared"
    everything.put(
        "VirtualWorkspace",
        "custom",
        target={"rootShardRef": {"name": "root"}},
        external={"hostname": "custom.example.com", "port": 6443},
        replicas=1,
        command=[sys.executable, "-c", "import signal; signal.pause()"],
        initContainers=[{"name": "prepare", "image": {"repository": "a"}, "command": ["/usr/bin/touch", str(prepared)]}],
    )  # fmt: skip
    eventually(lambda: everything.pids("custom-virtual-workspace"), WAIT)
    assert prepared.exists()
    everything.namespace.delete("VirtualWorkspace", "custom")
    eventually(lambda: not everything.pids("custom-virtual-workspace"), WAIT)


def test_06_a_deleted_shard_is_unregistered(everything: Everything) -> None:
    everything.put("Shard", "short", **OF_ROOT, image=IMAGE)
    eventually(lambda: "short" in everything.shards(), WAIT)
    (root,) = everything.pids("root-kcp")
    os.kill(root, signal.SIGSTOP)  # deletion waits for the root shard
    try:
        everything.namespace.delete("Shard", "short")
        eventually(lambda: everything.namespace.phase("Shard", "short") == "Deleting", WAIT)
    finally:
        os.kill(root, signal.SIGCONT)
    eventually(lambda: not everything.namespace.get("Shard", "short"), WAIT)
    eventually(lambda: "short" not in everything.shards(), WAIT)
    eventually(lambda: not everything.pids("short-shard-kcp"), WAIT)


@pytest.fixture
def small(everything: Everything) -> ClusterInstallation:
    """A second installation, with the cache in its root shard."""
    folder = everything.kubelet.folder / "of-small"
    folder.mkdir()
    namespace = OperatorNamespace(everything.namespace.client, "small")
    made = ClusterInstallation(namespace, everything.kubelet, folder)
    external = {"hostname": "small.example.com", "port": 6443}
    made.put("RootShard", "root", external=external, image=IMAGE, cache={}, certificates={})
    made.put("Shard", "beta", **OF_ROOT, image=IMAGE)
    root = {"rootShardRef": {"name": "root"}}
    made.kubeconfig("root-admin", root, groups=["system:kcp:admin"])
    return made


def test_04_and_06_an_embedded_cache_and_the_end_of_an_installation(
    small: ClusterInstallation,
) -> None:
    eventually(lambda: small.shards("root-admin") == ["beta", "root"], WAIT)
    assert "--cache-kubeconfig" not in small.arguments("root-kcp")
    of_root = "--cache-kubeconfig=/etc/kcp/client-kubeconfig/kubeconfig"
    assert of_root in small.arguments("beta-shard-kcp")
    (root,) = small.pids("root-kcp")
    os.kill(root, signal.SIGSTOP)  # it cannot be asked to forget the shard
    try:
        small.namespace.delete("Shard", "beta")
        eventually(lambda: small.namespace.phase("Shard", "beta") == "Deleting", WAIT)
        small.namespace.delete("RootShard", "root")
        eventually(lambda: not small.namespace.get("Shard", "beta"), WAIT)
    finally:
        os.kill(root, signal.SIGCONT)
    eventually(lambda: not small.pids("root-kcp") and not small.pids("beta-shard-kcp"), WAIT)


def test_07_clients_of_a_foreign_authority(everything: Everything, tmp_path: pathlib.Path) -> None:
    pair = issue_client(everything.foreign, "guest", ["system:kcp:admin"], time.time())
    files = tmp_path / "guest.crt", tmp_path / "guest.key"
    files[0].write_bytes(pair.certificate)
    files[1].write_bytes(pair.key)

    def is_accepted() -> bool:
        client = everything.client().with_certificate((str(files[0]), str(files[1])))
        reply = _tried(lambda: client.get(SECRETS))
        client.close()
        return reply is not None and reply.status == 200

    eventually(is_accepted, WAIT)
    without = {key: value for key, value in everything.root.items() if key != "clientCABundleRef"}
    everything.put("RootShard", "root", **without)
    eventually(lambda: not is_accepted(), WAIT)
    everything.put("RootShard", "root", **everything.root)
    eventually(is_accepted, WAIT)


def test_08_a_front_proxy_with_a_foreign_serving_certificate(everything: Everything) -> None:
    """Users verify it with another authority, and so do the shards, which schedule through it."""
    public = create_ca("public", time.time())
    pair = issue_serving(public, [everything.host], time.time())
    authority = public.certificate.decode()
    serving = {"tls.crt": pair.certificate.decode(), "tls.key": pair.key.decode()}
    everything.put_secret("public-ca", **{"tls.crt": authority})
    everything.put_secret("public", **serving)
    trusting = {"caBundleSecretRef": {"name": "public-ca"}}
    try:
        everything.put("RootShard", "root", **everything.root, **trusting)
        everything.put("Shard", "alpha", **everything.alpha, **trusting)
        everything.front_proxy(
            **trusting,
            extraVolumes=[{"name": "public", "secret": {"secretName": "public"}}],
            extraVolumeMounts=[{"name": "public", "mountPath": "/etc/public"}],
            extraArgs=[
                "--tls-cert-file=/etc/public/tls.crt",
                "--tls-private-key-file=/etc/public/tls.key",
            ],
        )
        everything.authority = authority
        eventually(lambda: everything.status(SECRETS) == 200, WAIT)
        _all_available(everything)
        everything.make_workspace("behind-a-foreign-certificate", "alpha")
    finally:
        everything.authority = ""
        everything.put("RootShard", "root", **everything.root)
        everything.put("Shard", "alpha", **everything.alpha)
        everything.front_proxy()
    eventually(lambda: _serves_its_own_certificate(everything), WAIT)
    eventually(lambda: everything.status(SECRETS) == 200, WAIT)
    _all_available(everything)


def _serves_its_own_certificate(everything: Everything) -> bool:
    """Whether all pods of the front-proxy are without the foreign certificate again."""
    found = everything.namespace.deployment("frontproxy-front-proxy")
    status = found.get("status") or {}
    is_rolled_out = status.get("replicas") == status.get("updatedReplicas") == 2
    is_applied = "/etc/public" not in str(found.get("spec"))
    return is_applied and is_rolled_out and everything.is_available("frontproxy-front-proxy")


def _all_available(everything: Everything) -> None:
    for workload in ("root-kcp", "alpha-shard-kcp", "frontproxy-front-proxy"):
        eventually(lambda name=workload: everything.is_available(name), WAIT)


def _token(everything: Everything, cluster: str) -> str:
    path = f"/clusters/{cluster}{NAMESPACES}/default/serviceaccounts/default/token"
    client = everything.client()
    made = eventually(lambda: _made(client.post(path, {"spec": {}})), WAIT)
    client.close()
    return str(made["status"]["token"])


def _made(reply: Reply) -> Any:
    return reply.json if reply.status == 201 else None


def test_09_renewal_under_load_without_restarts(everything: Everything) -> None:
    cluster = everything.make_workspace("renewed", "alpha")
    token = _token(everything, cluster)
    names = ("root-kcp", "alpha-shard-kcp", "frontproxy-front-proxy")
    before = [everything.pids(name) for name in names]
    secrets = ("root-server", "alpha-server", "root-frontproxy-server", "alpha-service-account")
    old = {name: everything.namespace.secret(name)["data"]["tls.crt"] for name in secrets}
    patch = {"metadata": {"annotations": {"operator.kcp.io/renew": "now"}}}
    path = f"/clusters/{cluster}{NAMESPACES}/default"
    with Load(everything.client, path) as load:
        for name in secrets:
            where = f"{NAMESPACES}/{everything.namespace.name}/secrets/{name}"
            assert everything.namespace.client.patch(where, patch).status == 200
        for name, text in old.items():
            eventually(lambda name=name, text=text: everything.namespace.secret(name)["data"]["tls.crt"] != text, WAIT)  # fmt: skip
        load.more(200)
    assert load.failures == []
    bearer = everything.client().with_token(token)
    assert bearer.get(path).status == 403  # known, without rights
    bearer.close()
    assert [everything.pids(name) for name in names] == before


def test_10_oidc_at_the_proxy_and_at_a_shard(everything: Everything) -> None:
    token = everything.issuer.token(sub="alice")
    for name in ("admin", "root-admin"):
        client = everything.client(name).with_token(token)
        reply = client.get(SECRETS)
        assert reply.status == 403, reply
        assert 'User "oidc:alice"' in reply.json["message"]
        assert client.with_token("nonsense").get(SECRETS).status == 401
        client.close()
    for shard in ("root", "alpha"):
        cluster = everything.make_workspace(f"accounts-{shard}", shard)
        client = everything.client().with_token(_token(everything, cluster))
        assert client.get(f"/clusters/{cluster}{NAMESPACES}/default").status == 403
        client.close()


def test_11_audit_events_name_the_workspace(everything: Everything) -> None:
    cluster = everything.make_workspace("audited", "alpha")
    everything.status(f"/clusters/{cluster}{NAMESPACES}/audited-name")
    notes = everything.event("alpha", "audited-name")["annotations"]
    assert notes["kcp.io/path"] == "root:audited"
    assert notes["kcp.io/cluster"] == notes["tenancy.kcp.io/workspace"] == cluster


def test_11_audit_events_of_virtual_workspaces_name_the_consumer(everything: Everything) -> None:
    provider = everything.make_workspace("audited-provider", "root")
    consumer = everything.make_workspace("audited-consumer", "root")
    admin = everything.client()
    path = bound_gears(admin, provider, consumer, "root:audited-provider")
    eventually(lambda: b'"gears"' in admin.get(path).body, WAIT)  # served: it is not found
    admin.close()
    notes = everything.event("root", "audited-gear")["annotations"]
    assert notes["kcp.io/path"] == "root:audited-consumer"
    assert notes["kcp.io/cluster"] == notes["tenancy.kcp.io/workspace"] == consumer


def test_12_secrets_are_encrypted_and_keys_rotate(everything: Everything) -> None:
    cluster = everything.make_workspace("sealed", "alpha")
    path, client = f"/clusters/{cluster}{NAMESPACES}/default/secrets", everything.client()

    def put(name: str) -> None:
        body = {"metadata": {"name": name}, "stringData": {"key": "plain"}}
        assert client.post(path, body).status == 201

    put("one")
    assert b"k8s:enc:aescbc:v1:first:" in _stored(everything)
    before = everything.pids("alpha-shard-kcp")
    everything.put_secret("encryption", **{"encryption.yaml": _encryption("second", "first")})

    def is_rotated() -> bool:
        put(f"more-{time.monotonic_ns()}")
        return b"k8s:enc:aescbc:v1:second:" in _stored(everything)

    eventually(is_rotated, WAIT)
    assert everything.pids("alpha-shard-kcp") == before
    assert client.get(f"{path}/one").json["data"]["key"] == base64.b64encode(b"plain").decode()
    client.close()


def _stored(everything: Everything) -> bytes:
    """Every value of the shard's store, as it is on its volume."""
    claims = everything.kubelet.folder / everything.namespace.name / "claims"
    connection = sqlite3.connect(f"file:{claims / 'alpha-shard-kcp-data' / 'store.db'}?mode=ro", uri=True)  # fmt: skip
    try:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        rows = [row for (name,) in names for row in connection.execute(f'SELECT * FROM "{name}"')]
    finally:
        connection.close()
    return b"".join(value for row in rows for value in row if isinstance(value, bytes))


def _pods(everything: Everything, workload: str) -> list[str]:
    return [pod.name for pod in everything.kubelet.of(everything.namespace.name, workload)]


def test_13_workspaces_are_served_while_the_root_shard_is_away(everything: Everything) -> None:
    cluster = everything.make_workspace("during", "alpha")
    path = f"/clusters/{cluster}{NAMESPACES}/default"
    eventually(lambda: everything.status(path) == 200, WAIT)
    (root,) = everything.pids("root-kcp")
    os.kill(root, signal.SIGSTOP)
    try:
        eventually(lambda: not everything.is_available("root-kcp"), WAIT)
        eventually(lambda: everything.status(path) == 200, WAIT)
        # New pods have never seen the root shard; upstream's do not become ready.
        pods = everything.kubelet.of(everything.namespace.name, "frontproxy-front-proxy")
        old = {pod.name for pod in pods}
        for name in old:
            everything.namespace.client.drop()
            where = f"{NAMESPACES}/{everything.namespace.name}/pods/{name}"
            assert everything.namespace.client.delete(where, gracePeriodSeconds=0).status == 200
        eventually(lambda: not old & set(_pods(everything, "frontproxy-front-proxy")), WAIT)
        eventually(lambda: everything.is_available("frontproxy-front-proxy"), WAIT)
        eventually(lambda: everything.status(path) == 200, WAIT)
        by_path = f"/clusters/root:during{NAMESPACES}/default"
        eventually(lambda: everything.status(by_path) == 200, WAIT)
    finally:
        os.kill(root, signal.SIGCONT)
    eventually(lambda: everything.is_available("root-kcp"), WAIT)


def test_14_killed_programs_are_restarted_and_lose_nothing(everything: Everything) -> None:
    cluster = everything.make_workspace("kept", "alpha")
    for name in ("root-kcp", "alpha-shard-kcp", "cache-cache-server", "own-virtual-workspace"):
        eventually(lambda name=name: everything.is_available(name), WAIT)
        (pid,) = everything.pids(name)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda name=name: not everything.is_available(name), WAIT)
        eventually(lambda name=name: everything.is_available(name), WAIT)
        assert everything.pids(name) != [pid]
    assert everything.status(f"/clusters/{cluster}{NAMESPACES}/default") == 200
    (pod,) = everything.kubelet.of("kcp-operator", "kcp-operator")
    assert pod.process is not None
    pod.process.kill()
    eventually(lambda: pod.restarts == 1, WAIT)
    everything.put("Shard", "alpha", **everything.alpha, replicas=1, extraArgs=["-v=3"])
    eventually(lambda: "-v=3" in str(everything.namespace.deployment("alpha-shard-kcp")["spec"]), WAIT)  # fmt: skip
