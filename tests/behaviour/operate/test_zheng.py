"""zheng: three hosts that share nothing but the network; the root shard is lost, and back again."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from pykcp.testing.client import TestClient, eventually

from .installations import SHARDS, HostInstallation, host, installation, kill, variant

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
APIS = "/apis/apis.kcp.io/v1alpha1"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_shards_move_to_their_hosts_and_survive_the_root_shard(tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "passphrase"
    secret.write_text("correct horse battery\n")
    with (
        installation(tmp_path, _manifests(), "--host=control") as control,
        host(tmp_path / "alpha") as alpha,
        host(tmp_path / "beta") as beta,
    ):
        assert set(control.pids()) == {"root-kcp", "frontproxy-front-proxy"}
        assert "alpha-shard-kcp  runs on another host" in control.succeed("status")
        assert _available(control, "alpha")["status"] == "Unknown"
        assert "runs on the host alpha" in _available(control, "alpha")["message"]
        for name, other in (("alpha", alpha), ("beta", beta)):
            _move(control, name, other, secret)
        eventually(lambda: _shards(control.client()) == ["alpha", "beta", "root"], 60)
        _is_seen_from_elsewhere(control, alpha)
        for name in ("root", "alpha", "beta"):
            cluster = control.make_workspace(f"on-{name}", name)
            made = _config_map(control.client(), cluster)
            assert made.status == 201, made
        _renewal(control, alpha)
        _outage(control)


def _manifests() -> str:
    """A shard of another host has a label."""
    objects = list(yaml.safe_load_all(variant("zheng")))
    (alpha,) = (one for one in objects if one["metadata"]["name"] == "alpha")
    alpha["spec"]["labels"] = {"region": "west"}
    return yaml.safe_dump_all(objects)


def _available(control: HostInstallation, shard: str) -> Any:
    (found,) = (one for one in control.status()["objects"] if one["name"] == shard)
    return next(one for one in found["status"]["conditions"] if one["type"] == "Available")


def _is_seen_from_elsewhere(control: HostInstallation, alpha: HostInstallation) -> None:
    """The host that configures sees whether shards answer, and marks those of other hosts."""
    eventually(lambda: _available(control, "alpha")["status"] == "True", 60)
    path = f"/clusters/root{SHARDS}/alpha"
    client = control.client()
    eventually(lambda: client.get(path).json["metadata"]["labels"].get("region") == "west", 60)
    assert "status: 'True'" in control.succeed("describe", "shard", "alpha")
    assert "  - name: alpha\n  - name: beta\n" in control.succeed("describe", "rootshard", "root")
    assert "targetName: FrontProxy/frontproxy" in control.succeed("describe", "kubeconfig")
    checked = alpha.succeed("cert", "check")
    assert "alpha-server" in checked
    assert "PROBLEM" not in checked


def _renewal(control: HostInstallation, alpha: HostInstallation) -> None:
    """Certificates are issued on the control host; the other one fetches them, and reloads."""
    file = "kcp-zheng/alpha-shard-kcp/files/etc/kcp/tls/server/tls.crt"
    before, pids = (alpha.root / file).read_bytes(), alpha.pids()
    assert "nothing new" in alpha.succeed("cert", "renew")
    assert "alpha-server renewed" in control.succeed("cert", "renew")
    eventually(lambda: "alpha-shard-kcp renewed" in alpha.succeed("cert", "renew"), 60)
    eventually(lambda: (alpha.root / file).read_bytes() != before, 30)
    assert alpha.pids() == pids
    path = f"/clusters/root:on-alpha{CONFIG_MAPS}/one"
    eventually(lambda: control.client().get(path).status == 200, 30)


def _move(
    control: HostInstallation, name: str, other: HostInstallation, secret: pathlib.Path
) -> None:
    archive = control.root.parent / f"{name}.kcp-export"
    words = (f"--output={archive}", f"--passphrase-file={secret}")
    control.succeed("export", f"Shard/{name}", *words)
    assert b"PRIVATE KEY" not in archive.read_bytes()
    wrong = control.root.parent / "wrong"
    wrong.write_text("wrong horse battery\n")
    assert "passphrase is wrong" in other.fail("import", str(archive), f"--passphrase-file={wrong}")
    other.succeed("import", str(archive), f"--passphrase-file={secret}")
    other.succeed("up", "--detach")
    assert set(other.pids()) == {f"{name}-shard-kcp"}


def _shards(client: TestClient) -> list[str]:
    reply = client.get(f"/clusters/root{SHARDS}")
    return [one["metadata"]["name"] for one in reply.json["items"]] if reply.status == 200 else []


def _config_map(client: TestClient, cluster: str, name: str = "one") -> Any:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return client.post(f"/clusters/{cluster}{CONFIG_MAPS}", body)


def _outage(control: HostInstallation) -> None:
    """Without the root shard, workspaces on the others are served, also by a new proxy."""
    manifests = control.root.parent / "manifests.yaml"
    text = manifests.read_text()
    (root,) = control.pids()["root-kcp"]
    proxies = control.pids()["frontproxy-front-proxy"]
    # A root shard that cannot start: as if its host were gone.
    broken = text.replace("  cache: {}\n", "  cache: {}\n  extraArgs: [--no-such-flag]\n")
    assert broken != text
    manifests.write_text(broken)
    control.command("up", "--timeout=1s")
    kill(root) if root in control.pids()["root-kcp"] else None
    eventually(lambda: control.workload("root-kcp")["replicas"][0]["phase"] == "BackOff", 60)
    client = control.client()
    assert client.get("/clusters/root/api/v1/namespaces").status >= 500
    _others_are_served(client)
    # Upstream's proxy cannot start now: it builds its index from the root shard.
    for pid in proxies:
        kill(pid)
    eventually(lambda: control.workload("frontproxy-front-proxy")["available"], 60)
    assert control.pids()["frontproxy-front-proxy"] != proxies
    _others_are_served(control.client())
    manifests.write_text(text)
    control.succeed("up")
    eventually(lambda: _shards(control.client()) == ["alpha", "beta", "root"], 60)


def _others_are_served(client: TestClient) -> None:
    for name in ("alpha", "beta"):
        path = f"/clusters/root:on-{name}{CONFIG_MAPS}/one"
        assert client.get(path).status == 200, client.get(path)
