"""What an operator must prove, with processes: one installation with everything switched on."""

from __future__ import annotations

import base64
import json
import pathlib
import sqlite3
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from pykcp.auth.certificates import KeyPair, create_ca, issue_client
from pykcp.programs.operator.access.shards import UNSCHEDULABLE
from pykcp.programs.operator.host.layout import HostFiles
from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.issuer import AUDIENCE, TestIssuer

from .installations import (
    SHARDS,
    HostInstallation,
    Load,
    bound_gears,
    installation,
    kill,
    pause,
    resume,
    variant,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
NAMESPACE = "kcp-dekker"
NAMESPACES = "/api/v1/namespaces"


def _object(kind: str, name: str, spec: Any, version: str = "operator.kcp.io/v1alpha1") -> Any:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **spec}


def _secret(name: str, **data: str) -> Any:
    return _object("Secret", name, {"stringData": data}, "v1")


def _kubeconfig(name: str, target: Any, **more: Any) -> Any:
    spec = {
        "username": name,
        "validity": "24h",
        "secretRef": {"name": name},
        "target": target,
        **more,
    }
    return _object("Kubeconfig", name, {"spec": spec})


def _encryption(*keys: str) -> str:
    named = [
        {"name": key, "secret": base64.b64encode(key.encode().ljust(32, b"-")).decode()}
        for key in keys
    ]
    resources = [
        {"resources": ["secrets"], "providers": [{"aescbc": {"keys": named}}, {"identity": {}}]}
    ]
    return json.dumps(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": resources,
        }
    )


POLICY = json.dumps(
    {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
)


class Everything:
    """The manifests, which tests change, and the installation."""

    def __init__(self, directory: pathlib.Path, issuer: TestIssuer) -> None:
        self.directory, self.issuer = directory, issuer
        self.foreign = create_ca("foreign", time.time(), algorithm="rsa")
        self.objects = list(yaml.safe_load_all(variant("dekker")))
        self.kcp = HostInstallation(directory / ".kcp")
        oidc = {
            "issuerURL": issuer.url,
            "clientID": AUDIENCE,
            "caFileRef": {"name": "issuer-ca"},
        }
        for kind in ("RootShard", "Shard", "FrontProxy"):
            self.spec(kind)["auth"]["oidc"] = oidc
        audit = {"policy": {"configMap": {"name": "audit-policy"}}}
        for kind in ("RootShard", "Shard"):
            path = str(directory / f"{kind}-audit.log")
            self.spec(kind)["audit"] = {**audit, "log": {"path": path}}
        self.spec("RootShard")["cache"] = {"ref": {"name": "cache"}}
        self.spec("RootShard")["clientCABundleRef"] = {"name": "foreign-clients"}
        self.spec("Shard")["encryption"] = {"configSecretRef": {"name": "encryption"}}
        self._add()

    def _add(self) -> None:
        front = {"frontProxyRef": {"name": "frontproxy"}}
        prepared = self.directory / "prepared"
        host = self.spec("RootShard")["external"]["hostname"]
        self.objects += [
            _object("CacheServer", "cache", {"spec": {"certificates": {}, "replicas": 1}}),
            _secret("issuer-ca", **{"ca.crt": self.issuer.ca}),
            _secret("foreign-clients", **{"tls.crt": self.foreign.certificate.decode()}),
            _secret("encryption", **{"encryption.yaml": _encryption("first")}),
            _object("ConfigMap", "audit-policy", {"data": {"audit-policy.yaml": POLICY}}, "v1"),
            _kubeconfig(
                "root-admin", {"rootShardRef": {"name": "root"}}, groups=["system:kcp:admin"]
            ),
            _kubeconfig("nobody", front),
            _object(
                "VirtualWorkspace",
                "own",
                {
                    "spec": {
                        "target": {"shardRef": {"name": "alpha"}},
                        "external": {"hostname": host, "port": 7444},
                        "replicas": 1,
                    }
                },
            ),
            _object(
                "VirtualWorkspace",
                "custom",
                {
                    "spec": {
                        "target": {"rootShardRef": {"name": "root"}},
                        "external": {"hostname": host, "port": 7445},
                        "replicas": 1,
                        "command": [sys.executable, "-c", "import signal; signal.pause()"],
                        "initContainers": [
                            {"name": "prepare", "command": ["/usr/bin/touch", str(prepared)]}
                        ],
                    }
                },
            ),
        ]
        self.spec("Shard")["kcpVirtualWorkspace"] = {"name": "own"}

    def spec(self, kind: str, name: str = "") -> Any:
        for one in self.objects:
            if one["kind"] == kind and name in ("", one["metadata"]["name"]):
                return one["spec"]
        raise KeyError(kind)

    def data(self, name: str) -> Any:
        return next(o for o in self.objects if o["metadata"]["name"] == name)["stringData"]

    def write(self) -> str:
        text = yaml.safe_dump_all(self.objects)
        (self.directory / "manifests.yaml").write_text(text)
        return text

    def apply(self) -> None:
        self.write()
        self.kcp.succeed("up", timeout=200)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    issuer = TestIssuer("RS256")
    made = Everything(tmp_path_factory.mktemp("all"), issuer)
    try:
        with installation(made.directory, made.write()) as kcp:
            made.kcp = kcp
            yield made
    finally:
        issuer.close()


def test_01_the_kubeconfig_of_a_root_shard(everything: Everything) -> None:
    reply = everything.kcp.client("root-admin").get("/clusters/root/api/v1/secrets")
    assert reply.status == 200, reply


def test_02_a_second_shard_takes_workspaces(everything: Everything) -> None:
    kcp = everything.kcp
    cluster = kcp.make_workspace("second", "alpha")
    shards = {
        one["metadata"]["name"]: one["spec"]
        for one in kcp.client().get(f"/clusters/root{SHARDS}").json["items"]
    }
    assert set(shards) == {"root", "alpha"}
    assert kcp.client().get(f"/clusters/{cluster}{NAMESPACES}/default").status == 200


def test_03_roles_of_a_kubeconfig_are_granted_moved_and_revoked(everything: Everything) -> None:
    kcp = everything.kcp
    assert kcp.client().get("/clusters/root/api/v1/secrets").status == 200
    cluster = kcp.make_workspace("granted", "alpha")

    def may_read(path: str) -> bool:
        client = kcp.client("nobody")
        status = client.get(f"/clusters/{path}/api/v1/secrets").status
        client.close()
        assert status in (200, 403), status
        return status == 200

    assert not may_read("root")
    assert not may_read("root:granted")
    spec = everything.spec("Kubeconfig", "nobody")
    spec["authorization"] = {"clusterRoleBindings": {"clusterRoles": ["cluster-admin"]}}
    everything.apply()
    eventually(lambda: may_read("root"), 60)
    spec["targetWorkspace"] = "root:granted"
    everything.apply()
    eventually(lambda: may_read(cluster) and not may_read("root"), 60)
    del spec["authorization"]
    everything.apply()
    eventually(lambda: not may_read(cluster), 60)


def test_04_a_cache_server_of_its_own_is_inherited(everything: Everything) -> None:
    pids = everything.kcp.pids()
    assert len(pids["cache-cache-server"]) == 1
    for workload in ("root-kcp", "alpha-shard-kcp"):
        words = pathlib.Path(f"/proc/{pids[workload][0]}/cmdline").read_text()
        assert "--cache-kubeconfig=" in words
        assert "cache" in words


@pytest.mark.skipif(find_etcd() is None, reason="needs etcd")
def test_04_a_shard_with_another_cache_server_on_etcd(
    everything: Everything, tmp_path: pathlib.Path
) -> None:
    """Two replicas share the port and the etcd; the root shard keeps its own cache server."""
    kcp, etcd = everything.kcp, EtcdProcess(tmp_path / "etcd")
    etcd.start()
    store = {"endpoints": [etcd.url], "prefix": "/cache"}
    spec = {"certificates": {}, "replicas": 2, "etcd": store}
    everything.objects.append(_object("CacheServer", "other", {"spec": spec}))
    everything.spec("Shard")["cache"] = {"ref": {"name": "other"}}
    try:
        everything.apply()
        assert len(kcp.pids()["other-cache-server"]) == 2
        assert kcp.workload("other-cache-server")["ready"] == 2
        assert _cache_port(everything, "alpha") == kcp.workload("other-cache-server")["address"]
        assert _cache_port(everything, "root") == kcp.workload("cache-cache-server")["address"]
        kill(kcp.pids()["other-cache-server"][0])
        eventually(lambda: kcp.workload("alpha-shard-kcp")["available"], 60)
        eventually(lambda: kcp.workload("other-cache-server")["ready"] == 2, 60)
    finally:
        everything.objects.pop()
        del everything.spec("Shard")["cache"]
        everything.apply()
        etcd.kill()
    assert _cache_port(everything, "alpha") == kcp.workload("cache-cache-server")["address"]


def _cache_port(everything: Everything, shard: str) -> str:
    """The cache server that the process of a shard was told to use."""
    name = "root-kcp" if shard == "root" else f"{shard}-shard-kcp"
    (pid,) = everything.kcp.pids()[name]
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    (path,) = [w.partition("=")[2] for w in words if w.startswith("--cache-kubeconfig=")]
    config = yaml.safe_load(pathlib.Path(path).read_text())
    return str(config["clusters"][0]["cluster"]["server"]).removeprefix("https://")


def test_05_virtual_workspaces_of_their_own(everything: Everything) -> None:
    kcp = everything.kcp
    host = everything.spec("RootShard")["external"]["hostname"]
    assert len(kcp.pids()["own-virtual-workspace"]) == 1
    shards = kcp.client().get(f"/clusters/root{SHARDS}/alpha").json["spec"]
    assert shards["virtualWorkspaceURL"] == f"https://{host}:7444"
    own = kcp.client()
    own = TestClient(replace(own.access, port=7444))
    assert eventually(lambda: own.get("/readyz").status == 200, 30)
    own.close()
    assert (everything.directory / "prepared").exists()
    assert kcp.workload("custom-virtual-workspace")["available"]


def test_06_a_deleted_shard_is_unregistered(everything: Everything) -> None:
    kcp = everything.kcp
    host = everything.spec("RootShard")["external"]["hostname"]
    spec: Any = {"rootShard": {"ref": {"name": "root"}}, "shardBaseURL": f"https://{host}:6555"}
    spec["unschedulable"] = True
    everything.objects.append(_object("Shard", "short", {"spec": spec}))
    everything.apply()
    eventually(lambda: "short" in _registered(kcp), 60)
    eventually(lambda: UNSCHEDULABLE in _annotations(kcp, "short"), 60)
    (root,) = kcp.pids()["root-kcp"]
    everything.objects.pop()
    everything.write()
    pause(root)  # deletion waits for the root shard
    try:
        kcp.command("up", "--timeout=1s")
        eventually(lambda: "Shard/short" in kcp.status()["waiting"], 60)
        phases = {one["name"]: one["status"]["phase"] for one in kcp.status()["objects"]}
        assert phases["short"] == "Deleting"
    finally:
        resume(root)
    eventually(lambda: "short" not in _registered(kcp), 60)
    eventually(lambda: "short-shard-kcp" not in kcp.pids(), 60)
    assert "short" not in {one["name"] for one in kcp.status()["objects"]}


def test_06_a_deletion_ends_when_the_root_shard_is_gone_too(tmp_path: pathlib.Path) -> None:
    objects = list(yaml.safe_load_all(variant("dekker")))
    cache = _object("CacheServer", "kept", {"spec": {"certificates": {}, "replicas": 1}})
    with installation(tmp_path, yaml.safe_dump_all([*objects, cache])) as kcp:
        assert "alpha" in _registered(kcp)
        pause(kcp.pids()["root-kcp"][0])  # it cannot be asked to forget the shard
        (tmp_path / "manifests.yaml").write_text(yaml.safe_dump_all([cache]))
        kcp.succeed("up", timeout=200)
        eventually(lambda: [one["name"] for one in kcp.status()["objects"]] == ["kept"], 60)
        eventually(lambda: list(kcp.pids()) == ["kept-cache-server"], 60)


def _annotations(kcp: HostInstallation, shard: str) -> Any:
    found = kcp.client().get(f"/clusters/root{SHARDS}/{shard}").json
    return found["metadata"].get("annotations") or {}


def _registered(kcp: HostInstallation) -> list[str]:
    items = kcp.client().get(f"/clusters/root{SHARDS}").json["items"]
    return [one["metadata"]["name"] for one in items]


def _foreign(everything: Everything) -> TestClient:
    pair: KeyPair = issue_client(everything.foreign, "guest", ["system:kcp:admin"], time.time())
    files = everything.directory / "guest.crt", everything.directory / "guest.key"
    files[0].write_bytes(pair.certificate)
    files[1].write_bytes(pair.key)
    return everything.kcp.client().with_certificate((str(files[0]), str(files[1])))


def test_07_clients_of_a_foreign_authority(everything: Everything) -> None:
    guest = _foreign(everything)
    assert guest.get("/clusters/root/api/v1/secrets").status == 200
    guest.close()
    bundle = everything.spec("RootShard").pop("clientCABundleRef")
    try:
        everything.apply()
        eventually(lambda: _is_refused(_foreign(everything)), 60)
    finally:
        everything.spec("RootShard")["clientCABundleRef"] = bundle
        everything.apply()
    eventually(lambda: not _is_refused(_foreign(everything)), 60)


def _is_refused(client: TestClient) -> bool:
    try:
        return client.get("/clusters/root/api/v1/secrets").status == 401
    except OSError:  # the handshake is refused
        return True
    finally:
        client.close()


def test_09_renewal_under_load(everything: Everything) -> None:
    kcp = everything.kcp
    cluster = kcp.make_workspace("renewed", "alpha")
    token = _service_account_token(kcp, cluster)
    before = kcp.pids()
    with Load(kcp.client, f"/clusters/{cluster}{NAMESPACES}/default") as load:
        assert "root-server renewed" in kcp.succeed("cert", "renew")
        load.more(200)
    assert load.failures == []
    assert kcp.pids() == before  # nothing was restarted
    assert kcp.succeed("cert", "check")
    bearer = kcp.client().with_token(token)
    assert bearer.get(f"/clusters/{cluster}{NAMESPACES}/default").status == 403  # known, no rights
    bearer.close()


def test_09_authorities_are_replaced_under_load(everything: Everything) -> None:
    kcp = everything.kcp
    cluster = kcp.make_workspace("rotated", "alpha")
    token = _service_account_token(kcp, cluster)
    before, old = kcp.pids(), _authority(kcp, "root-client-ca")
    with Load(kcp.client, f"/clusters/{cluster}{NAMESPACES}/default") as load:
        kcp.succeed("cert", "rotate-ca")
        eventually(lambda: _authority(kcp, "root-client-ca") != old, 120)
        load.more(200)
        kcp.make_workspace("afterwards", "alpha")
    assert load.failures == []
    assert kcp.pids() == before
    assert kcp.succeed("cert", "check")
    bearer = kcp.client().with_token(token)
    assert bearer.get(f"/clusters/{cluster}{NAMESPACES}/default").status == 403
    bearer.close()


def _authority(kcp: HostInstallation, name: str) -> bytes:
    record = HostFiles(kcp.root).records().secret(name)
    assert record is not None
    return record.data["tls.crt"]


def _service_account_token(kcp: HostInstallation, cluster: str) -> str:
    path = f"/clusters/{cluster}{NAMESPACES}/default/serviceaccounts/default/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = eventually(lambda: _made(kcp.client().post(path, body)), 30)
    return str(made["status"]["token"])


def _made(reply: Any) -> Any:
    return reply.json if reply.status == 201 else None


def test_10_oidc_at_the_proxy_and_at_a_shard(everything: Everything) -> None:
    kcp = everything.kcp
    token = everything.issuer.token(sub="alice")
    at_proxy = kcp.client().with_token(token)
    at_shard = kcp.client("root-admin").with_token(token)
    for client in (at_proxy, at_shard):
        reply = client.get("/clusters/root/api/v1/secrets")
        assert reply.status == 403, reply
        assert 'User "oidc:alice"' in reply.json["message"]
        assert client.with_token("nonsense").get("/clusters/root/api/v1/secrets").status == 401
        client.close()
    for shard in ("root", "alpha"):
        cluster = kcp.make_workspace(f"accounts-{shard}", shard)
        account = kcp.client().with_token(_service_account_token(kcp, cluster))
        assert account.get(f"/clusters/{cluster}{NAMESPACES}/default").status == 403
        account.close()


def test_11_audit_events_name_the_workspace(everything: Everything) -> None:
    kcp = everything.kcp
    cluster = kcp.make_workspace("audited", "alpha")
    path = f"/clusters/{cluster}{NAMESPACES}/audited-name"
    eventually(lambda: kcp.client().get(path).status == 404, 30)
    log = everything.directory / "Shard-audit.log"

    def event() -> Any:
        events = [json.loads(line) for line in log.read_text().splitlines()]
        return next((e for e in events if "audited-name" in e["requestURI"]), None)

    notes = eventually(event, 30)["annotations"]
    assert notes["kcp.io/path"] == "root:audited"
    assert notes["kcp.io/cluster"] == notes["tenancy.kcp.io/workspace"] == cluster


def test_11_audit_events_of_virtual_workspaces_name_the_consumer(everything: Everything) -> None:
    kcp = everything.kcp
    provider = kcp.make_workspace("audited-provider", "root")
    consumer = kcp.make_workspace("audited-consumer", "root")
    admin = kcp.client()
    path = bound_gears(admin, provider, consumer, "root:audited-provider")
    eventually(lambda: b'"gears"' in admin.get(path).body, 60)  # served: the object is not found
    log = everything.directory / "RootShard-audit.log"

    def event() -> Any:
        events = [json.loads(line) for line in log.read_text().splitlines()]
        return next((e for e in events if "audited-gear" in e["requestURI"]), None)

    notes = eventually(event, 30)["annotations"]
    assert notes["kcp.io/path"] == "root:audited-consumer"
    assert notes["kcp.io/cluster"] == notes["tenancy.kcp.io/workspace"] == consumer
    admin.close()


def test_12_secrets_are_encrypted_and_keys_rotate(everything: Everything) -> None:
    kcp = everything.kcp
    cluster = kcp.make_workspace("sealed", "alpha")
    _put_secret(kcp, cluster, "one")
    assert b"k8s:enc:aescbc:v1:first:" in _stored(everything)
    before = kcp.pids()["alpha-shard-kcp"]
    everything.data("encryption")["encryption.yaml"] = _encryption("second", "first")
    everything.apply()
    assert kcp.pids()["alpha-shard-kcp"] == before  # the configuration is reloaded

    def is_rotated() -> bool:
        _put_secret(kcp, cluster, f"more-{time.monotonic_ns()}")
        return b"k8s:enc:aescbc:v1:second:" in _stored(everything)

    eventually(is_rotated, 90)
    path = f"/clusters/{cluster}{NAMESPACES}/default/secrets/one"
    assert kcp.client().get(path).json["data"]["key"] == base64.b64encode(b"plain").decode()


def _put_secret(kcp: HostInstallation, cluster: str, name: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": {"key": "plain"},
    }
    made = kcp.client().post(f"/clusters/{cluster}{NAMESPACES}/default/secrets", body)
    assert made.status == 201, made


def _stored(everything: Everything) -> bytes:
    """Every value of the store, as it is on disk."""
    path = everything.kcp.root / NAMESPACE / "alpha-shard-kcp" / "data" / "store.db"
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        found = b""
        for (table,) in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                found += b"".join(value for value in row if isinstance(value, bytes))
    finally:
        connection.close()
    return found


def test_14_killed_processes_are_restarted_and_lose_nothing(everything: Everything) -> None:
    kcp = everything.kcp
    cluster = kcp.make_workspace("kept", "alpha")
    for name, pids in kcp.pids().items():
        (pid,) = pids
        kill(pid)
        eventually(lambda name=name: not kcp.is_available(name), 30)
        eventually(lambda name=name: kcp.is_available(name), 60)
        assert kcp.pids()[name] != [pid]
    assert kcp.client().get(f"/clusters/{cluster}{NAMESPACES}/default").status == 200
    problems = [line for line in kcp.fail("doctor").splitlines() if "PROBLEM" in line]
    assert [line.split(": ")[0].split()[-1] for line in problems] == ["custom-virtual-workspace"]
