"""A root shard and virtual workspaces on another host: their certificates are renewed there, too."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import pytest
import yaml

from pykcp.testing.client import eventually

from .installations import HostInstallation, host, variant

HOST = "operator.kcp.io/host"


def _manifests() -> str:
    """dekker, with the root shard and virtual workspaces of the other shard on a host `far`."""
    objects = list(yaml.safe_load_all(variant("dekker")))
    (root,) = (one for one in objects if one["kind"] == "RootShard")
    address, port = root["spec"]["external"]["hostname"], random.randrange(10000, 18000)
    root["spec"]["shardBaseURL"] = f"https://{address}:{port}"
    root["metadata"]["annotations"] = {HOST: "far"}
    external = {"hostname": address, "port": port + 1}
    spec = {"target": {"shardRef": {"name": "alpha"}}, "external": external, "replicas": 1}
    metadata = {**root["metadata"], "name": "views"}
    views = {**root, "kind": "VirtualWorkspace", "metadata": metadata, "spec": spec}
    return yaml.safe_dump_all([*objects, views])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_certificates_of_a_root_shard_elsewhere_are_renewed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "manifests.yaml").write_text(_manifests())
    (tmp_path / "passphrase").write_text("correct horse battery\n")
    with host(tmp_path / "control") as control, host(tmp_path / "far") as far:
        # Nothing is registered before the root shard runs.
        words = (f"--filename={tmp_path / 'manifests.yaml'}", "--host=control", "--detach")
        control.command("up", *words, "--timeout=5s")
        archive, secret = tmp_path / "archive", f"--passphrase-file={tmp_path / 'passphrase'}"
        names = ("RootShard/root", "VirtualWorkspace/views")
        control.succeed("export", *names, f"--output={archive}", secret)
        far.succeed("import", str(archive), secret)
        far.succeed("up", "--detach")
        control.succeed("up")
        assert set(far.pids()) == {"root-kcp", "views-virtual-workspace"}
        eventually(lambda: _phases(control) == {"Running", "Ready"}, 60)
        _are_renewed(control, far)


def _phases(kcp: HostInstallation) -> set[Any]:
    return {one["status"]["phase"] for one in kcp.status()["objects"]}


def _are_renewed(control: HostInstallation, far: HostInstallation) -> None:
    checked = far.succeed("cert", "check")
    assert "PROBLEM" not in checked
    served = {
        "root-server": "root-kcp/files/etc/kcp/tls/server/tls.crt",
        "views-server": "views-virtual-workspace/files/etc/kcp/tls/server/tls.crt",
    }
    paths = {name: far.root / "kcp-dekker" / path for name, path in served.items()}
    assert all(name in checked for name in paths)
    assert "certificate  views-server: ok" in far.command("doctor").stdout
    before, pids = {name: path.read_bytes() for name, path in paths.items()}, far.pids()
    control.succeed("cert", "renew", *paths)

    def are_fetched() -> bool:
        far.command("cert", "renew")
        return all(path.read_bytes() != before[name] for name, path in paths.items())

    eventually(are_fetched, 60)
    assert far.pids() == pids
