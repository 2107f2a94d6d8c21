"""The other commands on a running installation: objects, certificates, upgrade, export with data."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from datetime import UTC, datetime

import pytest
import yaml

from pykcp.programs.operator.variants import variant_manifests
from pykcp.testing.client import eventually
from pykcp.testing.server import environment

from .installations import HostInstallation, host, install_version, own_addresses

pytestmark = pytest.mark.slow
NAMESPACE = "/api/v1/namespaces/default"


@pytest.fixture
def kcp(tmp_path: pathlib.Path) -> HostInstallation:
    """Not started; its manifests are in a directory of the installation."""
    made = HostInstallation(tmp_path / ".kcp")
    manifests = made.root / "manifests"
    manifests.mkdir(parents=True)
    (manifests / "dekker.yaml").write_text(own_addresses(variant_manifests("dekker")))
    return made


def test_objects_certificates_and_versions(kcp: HostInstallation, tmp_path: pathlib.Path) -> None:
    try:
        kcp.succeed("up", "--detach")
        _objects(kcp, tmp_path)
        _certificates(kcp)
        _upgrade(kcp)
        assert "certificate-authority-data" in kcp.succeed("kubeconfig", "print")
        assert "Kubeconfig objects: " in kcp.fail("kubeconfig", "print", "absent")
        assert "no problems" in kcp.succeed("doctor")
    finally:
        kcp.close()


def _objects(kcp: HostInstallation, tmp_path: pathlib.Path) -> None:
    beta = {
        "apiVersion": "operator.kcp.io/v1alpha1",
        "kind": "Shard",
        "metadata": {"name": "beta", "namespace": "kcp-dekker"},
        "spec": {"rootShard": {"ref": {"name": "root"}}},
    }
    path = tmp_path / "beta.yaml"
    path.write_text(yaml.safe_dump(beta))
    assert kcp.succeed("apply", "-f", str(path)) == "Shard/beta created\n"
    eventually(lambda: "Shard       beta                  Running" in kcp.succeed("get"), 60)
    kcp.make_workspace("there", "beta")
    path.write_text(yaml.safe_dump({**beta, "spec": {"rootShard": {}}}))
    assert "spec.rootShard.ref: Required value" in kcp.fail("apply", "-f", str(path))
    assert "phase: Running" in kcp.succeed("describe", "shard", "beta")
    assert "shard/gamma not found" in kcp.fail("get", "shard", "gamma")
    kcp.succeed("delete", "shard", "beta")
    eventually(lambda: "beta" not in kcp.succeed("get"), 60)
    eventually(lambda: "beta-shard-kcp" not in kcp.pids(), 60)


def _certificates(kcp: HostInstallation) -> None:
    before = kcp.pids()
    ends = _issued(kcp, "root-server")
    assert kcp.succeed("cert", "renew", "root-server") == "root-server renewed\n"
    assert _issued(kcp, "root-server") > ends
    assert "kcp cert rotate-ca root-ca" in kcp.fail("cert", "renew", "root-ca")
    assert "does not exist" in kcp.fail("cert", "renew", "absent")
    assert "root-client-ca is rotated" in kcp.succeed("cert", "rotate-ca", "root-client-ca")
    assert kcp.client().get("/clusters/root/api/v1/secrets").status == 200
    assert kcp.pids() == before


def _issued(kcp: HostInstallation, name: str) -> datetime:
    from pykcp.auth.certificates import load_certificates
    from pykcp.programs.operator.host.layout import HostFiles

    record = HostFiles(kcp.root).records().secret(name)
    assert record is not None
    leaf = load_certificates(record.data["tls.crt"], name)[0]
    return leaf.not_valid_after_utc.astimezone(UTC)


def _upgrade(kcp: HostInstallation) -> None:
    """Another version: programs of a virtual environment, here scripts that call these ones."""
    assert "version v9.1 is not installed" in kcp.fail("upgrade", "--to=v9.1")
    install_version(kcp, "v9.1")
    before = kcp.pids()
    kcp.succeed("upgrade", "--to=v9.1", timeout=300)
    after = kcp.pids()
    assert not {pid for pids in before.values() for pid in pids} & {
        pid for pids in after.values() for pid in pids
    }
    assert kcp.client().get("/clusters/root/api/v1/secrets").status == 200


def test_a_shard_moves_with_its_data(kcp: HostInstallation, tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "passphrase"
    secret.write_text("correct horse battery\n")
    flags = (f"--output={tmp_path / 'a.kcp-export'}", f"--passphrase-file={secret}", "--data")
    try:
        kcp.succeed("up", "--detach")
        cluster = kcp.make_workspace("moved", "alpha")
        assert "alpha-shard-kcp is running here" in kcp.fail("export", "Shard/alpha", *flags)
        path = kcp.root / "manifests" / "dekker.yaml"
        objects = list(yaml.safe_load_all(path.read_text()))
        shard = next(one for one in objects if one["kind"] == "Shard")
        shard["metadata"]["annotations"] = {"operator.kcp.io/host": "other"}
        path.write_text(yaml.safe_dump_all(objects))
        kcp.succeed("down")
        kcp.succeed("up", "--detach", "--host=here")
        assert "alpha-shard-kcp" not in kcp.pids()
        kcp.succeed("export", "Shard/alpha", *flags)
        with host(tmp_path / "other") as other:
            other.succeed("import", str(tmp_path / "a.kcp-export"), f"--passphrase-file={secret}")
            other.succeed("up", "--detach")
            target = f"/clusters/{cluster}{NAMESPACE}"
            eventually(lambda: kcp.client().get(target).status == 200, 60)
    finally:
        kcp.close()


def test_logs_are_followed(kcp: HostInstallation) -> None:
    logs = kcp.root / "logs"
    logs.mkdir()
    (logs / "one-0.log").write_text("before\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "pykcp", "logs", "one", "-f", f"--root-directory={kcp.root}"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "before\n"
        with (logs / "one-0.log").open("a") as out:
            out.write("after\n")
        assert process.stdout.readline() == "after\n"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
