"""The variants vespucci and comer; caches and shards on etcd with several replicas."""

from __future__ import annotations

import copy
import pathlib
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from pykcp.auth.certificates import create_ca, issue_serving
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.sharded import free_ports

from .installations import SHARDS, HostInstallation, installation, kill, variant

pytestmark = pytest.mark.slow


def _registered(kcp: HostInstallation, name: str = "kcp-admin-frontproxy") -> dict[str, Any]:
    items = kcp.client(name).get(f"/clusters/root{SHARDS}").json["items"]
    return {one["metadata"]["name"]: one["spec"] for one in items}


def _spec(objects: list[Any], kind: str) -> Any:
    return next(one for one in objects if one["kind"] == kind)["spec"]


def test_vespucci_with_a_certificate_of_a_foreign_authority(tmp_path: pathlib.Path) -> None:
    """Users verify the front-proxy with another authority, and so do the shards."""
    objects = list(yaml.safe_load_all(variant("vespucci")))
    host = _spec(objects, "RootShard")["external"]["hostname"]
    public = create_ca("public", time.time())
    pair = issue_serving(public, [host], time.time())
    (tmp_path / "public.crt").write_bytes(pair.certificate)
    (tmp_path / "public.key").write_bytes(pair.key)
    bundle = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "public-ca"},
        "stringData": {"tls.crt": public.certificate.decode()},
    }
    for kind in ("RootShard", "Shard", "FrontProxy"):
        _spec(objects, kind)["caBundleSecretRef"] = {"name": "public-ca"}
    _spec(objects, "FrontProxy")["extraArgs"] = [
        f"--tls-cert-file={tmp_path / 'public.crt'}",
        f"--tls-private-key-file={tmp_path / 'public.key'}",
    ]
    with installation(tmp_path, yaml.safe_dump_all([*objects, bundle])) as kcp:
        shards = _registered(kcp)
        assert set(shards) == {"root", "alpha"}
        assert shards["alpha"]["baseURL"] == _spec(objects, "Shard")["shardBaseURL"]
        for name in ("root", "alpha"):
            kcp.make_workspace(f"on-{name}", name)
        only = replace(kcp.client().access, ca=public.certificate.decode())
        client = TestClient(only)
        assert client.get(f"/clusters/root{SHARDS}").status == 200
        client.close()
        assert "no problems" in kcp.succeed("doctor")


@pytest.mark.parametrize("workspace", ["root", "root:inner"])
def test_roles_are_granted_behind_a_foreign_certificate(
    tmp_path: pathlib.Path, workspace: str
) -> None:
    """The certificate is for a name, which the operator need not use to reach the proxy."""
    objects = list(yaml.safe_load_all(variant("dekker")))
    public = create_ca("public", time.time())
    pair = issue_serving(public, ["localhost"], time.time())
    (tmp_path / "public.crt").write_bytes(pair.certificate)
    (tmp_path / "public.key").write_bytes(pair.key)
    stored = {
        "metadata": {"name": "public-ca"},
        "stringData": {"tls.crt": public.certificate.decode()},
    }
    bundle = {"apiVersion": "v1", "kind": "Secret", **stored}
    for kind in ("RootShard", "Shard", "FrontProxy"):
        _spec(objects, kind)["caBundleSecretRef"] = {"name": "public-ca"}
    external = {"hostname": "localhost", "port": random.randrange(18000, 20000)}
    _spec(objects, "RootShard")["external"] = external
    proxy, user = _spec(objects, "FrontProxy"), copy.deepcopy(objects[-1])
    # Nor does it need a proxy for what is in root: this one drops the group of administrators.
    proxy["auth"]["dropGroups"] = ["system:kcp:admin"] if workspace == "root" else []
    proxy["extraArgs"] = [
        f"--tls-cert-file={tmp_path / 'public.crt'}",
        f"--tls-private-key-file={tmp_path / 'public.key'}",
    ]
    user["metadata"]["name"] = user["spec"]["secretRef"]["name"] = "user"
    roles = {"clusterRoleBindings": {"clusterRoles": ["cluster-admin"]}}
    user["spec"] |= {"username": "user", "groups": [], "targetWorkspace": "root"}
    user["spec"]["authorization"] = roles
    with installation(tmp_path, yaml.safe_dump_all([*objects, user, bundle])) as kcp:
        assert kcp.client("user").get("/clusters/root/api/v1/secrets").status == 200
        if workspace == "root":
            return
        kcp.make_workspace("inner", "alpha")
        user["spec"]["targetWorkspace"] = workspace
        (tmp_path / "manifests.yaml").write_text(yaml.safe_dump_all([*objects, user, bundle]))
        kcp.succeed("up")
        path = f"/clusters/{workspace}/api/v1/secrets"
        eventually(lambda: kcp.client("user").get(path).status == 200, 60)


def test_comer_has_a_door_for_administrators(tmp_path: pathlib.Path) -> None:
    text = variant("comer")
    with installation(tmp_path, text) as kcp:
        assert set(kcp.pids()) >= {"frontproxy-front-proxy", "frontproxy-internal-front-proxy"}
        for name in ("kcp-admin-frontproxy", "kcp-admin-frontproxy-internal"):
            shards = _registered(kcp, name)
            assert set(shards) == {"root", "alpha"}
        assert shards["root"]["externalURL"].endswith(":6443")
        kcp.make_workspace("team", "alpha")
        # Shards use the private address: workspaces are scheduled without the outer front-proxy.
        objects = [
            one
            for one in yaml.safe_load_all(text)
            if one["metadata"]["name"] not in ("frontproxy", "kcp-admin-frontproxy")
        ]
        (tmp_path / "manifests.yaml").write_text(yaml.safe_dump_all(objects))
        kcp.succeed("up")
        assert "frontproxy-front-proxy" not in kcp.pids()
        body = {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": "inside"},
            "spec": {"location": {"selector": {"matchLabels": {"name": "alpha"}}}},
        }
        path = "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces"
        client = kcp.client("kcp-admin-frontproxy-internal")
        assert client.post(path, body).status == 201
        ready = eventually(
            lambda: client.get(f"{path}/inside").json.get("status", {}).get("phase") == "Ready", 60
        )
        assert ready


@pytest.fixture
def etcd(tmp_path: pathlib.Path) -> Iterator[str]:
    if not shutil.which("etcd"):
        pytest.skip("etcd is not installed")
    client, peer = free_ports(2)
    url = f"http://127.0.0.1:{client}"
    words = [
        "etcd", f"--data-dir={tmp_path / 'etcd'}", f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}", f"--listen-peer-urls=http://127.0.0.1:{peer}",
        "--log-level=error",
    ]  # fmt: skip
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield url
    process.terminate()
    process.wait()


def test_replicas_on_etcd_share_a_port(tmp_path: pathlib.Path, etcd: str) -> None:
    objects = list(yaml.safe_load_all(variant("dekker")))
    cache = {
        "apiVersion": "operator.kcp.io/v1alpha1",
        "kind": "CacheServer",
        "metadata": {"name": "cache", "namespace": "kcp-dekker"},
        "spec": {
            "certificates": {},
            "replicas": 2,
            "etcd": {"endpoints": [etcd], "prefix": "/cache"},
        },
    }
    root = _spec(objects, "RootShard")
    root |= {
        "cache": {"ref": {"name": "cache"}},
        "replicas": 2,
        "etcd": {"endpoints": [etcd], "prefix": "/root"},
    }
    _spec(objects, "FrontProxy")["replicas"] = 2
    with installation(tmp_path, yaml.safe_dump_all([*objects, cache])) as kcp:
        pids = kcp.pids()
        assert {name: len(those) for name, those in pids.items()} == {
            "cache-cache-server": 2,
            "root-kcp": 2,
            "alpha-shard-kcp": 1,
            "frontproxy-front-proxy": 2,
        }
        kcp.make_workspace("team", "alpha")
        for name in ("cache-cache-server", "root-kcp", "frontproxy-front-proxy"):
            kill(pids[name][0])
        kcp.make_workspace("other", "root")  # the remaining replicas serve
        eventually(lambda: kcp.status()["available"], 90)
        kcp.succeed("restart", "root-kcp", timeout=200)
        assert not set(kcp.pids()["root-kcp"]) & set(pids["root-kcp"])
        kcp.make_workspace("third", "root")
