"""Rights of a Kubeconfig end with it, also if what it was for is gone before."""

from __future__ import annotations

import pathlib
from typing import Any

import yaml
from tests.behaviour.operate.installations import HostInstallation

from pykcp.programs.operator.names import API_VERSION
from pykcp.testing.client import eventually
from pykcp.testing.sharded import free_ports
from pykcp.types import Object

BINDINGS = "/clusters/root/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def _object(kind: str, name: str, **spec: Any) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _kubeconfig(name: str, target: Object, **more: Any) -> Object:
    spec = {"username": name, "validity": "24h", "secretRef": {"name": name}, "target": target}
    return _object("Kubeconfig", name, **{**spec, **more})


def _write(path: pathlib.Path, *objects: Object) -> None:
    path.write_text(yaml.safe_dump_all(objects))


def test_a_front_proxy_and_its_kubeconfig_are_removed_together(tmp_path: pathlib.Path) -> None:
    """The user's certificate lasts: its rights must not."""
    root, proxy, first = free_ports(3)
    external = {"hostname": "127.0.0.1", "port": proxy}
    always = (
        _object(
            "RootShard", "root", external=external, cache={}, certificates={},
            shardBaseURL=f"https://127.0.0.1:{root}",
        ),
        _kubeconfig("admin", {"rootShardRef": {"name": "root"}}, groups=["system:kcp:admin"]),
    )  # fmt: skip
    roles = {"clusterRoleBindings": {"clusterRoles": ["cluster-admin"]}}
    removed = (
        _object("FrontProxy", "frontproxy", rootShard={"ref": {"name": "root"}}),
        _kubeconfig("user", {"frontProxyRef": {"name": "frontproxy"}}, authorization=roles),
    )
    manifests, installation = tmp_path / "objects.yaml", HostInstallation(tmp_path / "root")
    _write(manifests, *always, *removed)
    installation.succeed("up", f"--filename={manifests}", f"--first-port={first}", "--detach")
    try:
        client = installation.client("admin")

        def subjects() -> list[str]:
            found = client.get(BINDINGS).json["items"]
            return [s["name"] for one in found for s in one.get("subjects") or ()]

        assert "kubeconfig:user" in subjects()
        _write(manifests, *always)
        installation.succeed("up", f"--filename={manifests}", "--detach")
        eventually(lambda: "kubeconfig:user" not in subjects(), 60)
        client.close()
    finally:
        installation.succeed("down")
