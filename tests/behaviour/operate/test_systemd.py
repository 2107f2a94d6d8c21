"""`kcp up --systemd` as root, with programs that run as another user."""

from __future__ import annotations

import os
import pathlib
import pwd
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from typing import Any

import pytest
import yaml

from pykcp.testing.client import TestClient, eventually

from .installations import SHARDS, HostInstallation, variant
from .systemd import USER, UnitRunner, shared_python, unit_runner

ALPHA = "kcp-kcp-dekker-alpha-shard-kcp"
INSTANCES = (f"{ALPHA}@0.service", "kcp-kcp-dekker-root-kcp@0.service",
             "kcp-kcp-dekker-frontproxy-front-proxy@0.service",
             "kcp-kcp-dekker-views-virtual-workspace@0.service")  # fmt: skip
CONFIGURE = "kcp-kcp-dekker-configure.service"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user")


@pytest.fixture
def systemd() -> Iterator[UnitRunner]:
    found = shared_python()
    if found is None:
        pytest.skip("no interpreter that every user may run")
    with unit_runner(*found) as made:
        yield made


def _objects() -> dict[str, Any]:
    """dekker, with a label of a shard and a user who is given a role."""
    objects = {o["kind"]: o for o in yaml.safe_load_all(variant("dekker"))}
    objects["Shard"]["spec"]["labels"] = {"region": "west"}
    auditor = yaml.safe_load(yaml.safe_dump(objects["Kubeconfig"]))
    auditor["metadata"]["name"] = auditor["spec"]["secretRef"]["name"] = "auditor"
    auditor["spec"] |= {
        "username": "auditor",
        "groups": [],
        "authorization": {"clusterRoleBindings": {"clusterRoles": ["cluster-admin"]}},
    }
    views = {
        **objects["Shard"],
        "kind": "VirtualWorkspace",
        "metadata": {**objects["Shard"]["metadata"]},
    }
    views["metadata"]["name"] = "views"
    external = {"hostname": "127.0.0.1", "port": random.randrange(18000, 20000)}
    views["spec"] = {
        "target": {"rootShardRef": {"name": "root"}},
        "external": external,
        "replicas": 1,
    }
    return {**objects, "auditor": auditor, "views": views}


def _write(systemd: UnitRunner, objects: dict[str, Any]) -> pathlib.Path:
    path = systemd.folder / "manifests.yaml"
    path.write_text(yaml.safe_dump_all(list(objects.values())))
    return path


def _up(systemd: UnitRunner, *flags: str) -> str:
    return systemd.succeed(
        "up", f"--filename={systemd.folder / 'manifests.yaml'}",
        f"--root-directory={systemd.root}", f"--systemd={systemd.units}",
        f"--systemd-user={USER}", f"--first-port={systemd.port}", *flags,
    )  # fmt: skip


def _client(
    systemd: UnitRunner, name: str = "kcp-admin-frontproxy"
) -> AbstractContextManager[TestClient]:
    return closing(HostInstallation(systemd.root).client(name))


def _owners(root: pathlib.Path) -> set[str]:
    paths = [root, *root.rglob("*")]
    return {pwd.getpwuid(path.lstat().st_uid).pw_name for path in paths}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_systemd_runs_an_installation_as_another_user(systemd: UnitRunner) -> None:
    objects = _objects()
    _write(systemd, objects)
    shown = _up(systemd)
    assert f"systemctl restart {INSTANCES[0]}" in shown
    assert "waiting: Kubeconfig/auditor: " in shown
    assert _owners(systemd.root) == {USER}
    for instance in INSTANCES:
        systemd.start(instance)
    _is_tended(systemd)
    _is_renewed(systemd)
    _loses_a_shard(systemd, objects)


def _is_tended(systemd: UnitRunner) -> None:
    """By the service of the timer: labels, roles, and a status."""
    done = systemd.run(systemd.command(CONFIGURE))
    assert done.returncode == 0, done.stdout + done.stderr
    assert _owners(systemd.root) == {USER}
    shown = systemd.succeed("status", f"--root-directory={systemd.root}")
    assert "no supervisor" not in shown
    with _client(systemd) as administrator, _client(systemd, "auditor") as auditor:
        found = administrator.get(f"/clusters/root{SHARDS}/alpha").json
        assert found["metadata"]["labels"]["region"] == "west"
        assert auditor.get("/clusters/root/api/v1/secrets").status == 200


def _is_renewed(systemd: UnitRunner) -> None:
    """Whoever asks for it, the programs can read what is new."""
    served = systemd.root / "kcp-dekker/alpha-shard-kcp/files/etc/kcp/tls/server/tls.crt"
    before = served.read_bytes()
    words = ("cert", f"--root-directory={systemd.root}", "renew", "alpha-server")
    assert "alpha-server renewed" in systemd.succeed(*words)
    assert _owners(systemd.root) == {USER}
    _up(systemd, "--systemd-wait")
    assert served.read_bytes() != before
    assert _owners(systemd.root) == {USER}


def _loses_a_shard(systemd: UnitRunner, objects: dict[str, Any]) -> None:
    """It is unregistered, its unit is stopped and removed, its keys are gone; its data stays."""
    del objects["Shard"]
    _write(systemd, objects)
    _up(systemd, "--systemd-wait")
    assert f"disable --now {INSTANCES[0]}\n" in systemd.told()
    assert "daemon-reload" in systemd.told()
    systemd.stop(INSTANCES[0])
    assert not (systemd.units / f"{ALPHA}@.service").exists()
    assert ALPHA not in (systemd.units / "kcp-kcp-dekker.target").read_text()
    _is_not_started_twice(systemd)
    kept = systemd.root / "kcp-dekker/alpha-shard-kcp"
    assert [one.name for one in kept.iterdir()] == ["data"]
    with _client(systemd) as client:
        path = f"/clusters/root{SHARDS}"
        eventually(lambda: [_name(one) for one in client.get(path).json["items"]] == ["root"], 30)


def _is_not_started_twice(systemd: UnitRunner) -> None:
    for command in ("up", "down"):
        done = systemd.kcp(command, f"--root-directory={systemd.root}")
        assert done.returncode == 1, done.stdout
        assert "systemd runs " in done.stderr


def _name(obj: Any) -> Any:
    return obj["metadata"]["name"]


def test_a_status_is_asked_of_the_programs_themselves(systemd: UnitRunner) -> None:
    _write(systemd, _objects())
    _up(systemd)
    done = systemd.kcp("status", f"--root-directory={systemd.root}")
    assert done.returncode == 1
    assert "root-kcp                     not ready" in done.stdout
    assert "waiting: Kubeconfig/auditor: " in done.stdout


def test_users_and_directories_that_cannot_be_used_are_named(systemd: UnitRunner) -> None:
    path = _write(systemd, _objects())
    words = ["up", f"--filename={path}", f"--systemd={systemd.units}"]

    def refused(*more: str) -> str:
        done = systemd.kcp(*words, *more)
        assert done.returncode == 1, done.stdout
        return done.stderr

    root = f"--root-directory={systemd.root}"
    assert "user no-such-user does not exist" in refused(root, "--systemd-user=no-such-user")
    systemd.root.mkdir()
    os.chown(systemd.root, 1, 1)
    assert "belongs to another user" in refused(root, f"--systemd-user={USER}")
    other = f"--root-directory={systemd.folder / 'other'}"
    path.chmod(0o600)
    assert "Permission denied" in refused(other, f"--systemd-user={USER}")


def test_what_root_wrote_before_becomes_the_users(systemd: UnitRunner) -> None:
    _write(systemd, _objects())
    words = [f"--root-directory={systemd.root}", f"--systemd={systemd.units}"]
    systemd.succeed("up", f"--filename={systemd.folder / 'manifests.yaml'}", *words)
    assert _owners(systemd.root) == {"root"}
    target = systemd.folder / "elsewhere"
    target.write_text("of root")
    (systemd.root / "link").symlink_to(target)
    _up(systemd)
    assert _owners(systemd.root) == {USER}
    assert target.stat().st_uid == 0  # links are not followed
