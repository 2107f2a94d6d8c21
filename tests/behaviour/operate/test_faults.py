"""Faults of hosts: each is named, and ends when its cause does."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pykcp.auth.certificates import create_ca, issue_serving
from pykcp.programs.operator.compiled import CompiledFile
from pykcp.programs.operator.drivers.process.state import conditions
from pykcp.testing.client import eventually
from pykcp.testing.sharded import free_ports

from .conftest import MakeWorkload
from .installations import HostInstallation, installation, variant
from .test_supervisor import supervising, until

_YEAR = 366 * 86400.0


async def test_an_expired_certificate_is_named_and_the_program_goes_on(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    workload = make_workload()
    authority = create_ca("old", time.time() - _YEAR)
    pair = issue_serving(authority, ["127.0.0.1"], time.time() - _YEAR)
    folder = pathlib.Path(workload.files[0].path).parent
    files = (
        CompiledFile(f"{folder}/tls.crt", pair.certificate),
        CompiledFile(f"{folder}/tls.key", pair.key),
        CompiledFile(f"{folder}/ca.crt", authority.certificate),
    )
    async with supervising(tmp_path, replace(workload, files=files)) as supervisor:
        state = await until(
            supervisor, lambda one: any("expired" in r.message for r in one.replicas)
        )
        available = conditions(state)[0]
        assert available["status"] == "False"
        assert "certificate has expired" in available["message"]
        (before,) = state.replicas
        await supervisor.apply([workload])  # a new certificate is loaded without a restart
        state = await until(supervisor, lambda one: one.is_available)
        assert state.replicas[0].pid == before.pid


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of a megabyte."""
    where = tmp_path / "disk"
    where.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(where)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


async def test_a_full_disk_is_named_and_tried_again(
    small_disk: pathlib.Path, tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    workload = make_workload()
    moved = tuple(
        replace(one, path=str(small_disk / "files" / pathlib.Path(one.path).name))
        for one in workload.files
    )
    folder = str(pathlib.Path(workload.files[0].path).parent)
    arguments = tuple(one.replace(folder, str(small_disk / "files")) for one in workload.arguments)
    listen = replace(workload.listen, authority=str(small_disk / "files" / "ca.crt"))
    full = replace(workload, files=moved, arguments=arguments, listen=listen)
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        _fill(filler)
    async with supervising(tmp_path, full) as supervisor:
        state = await until(supervisor, lambda one: bool(one.problem))
        message = conditions(state)[0]["message"]
        assert message == f"cannot write {small_disk / 'files'}: No space left on device"
        filler.unlink()
        await until(supervisor, lambda one: one.is_available)


def _fill(path: pathlib.Path) -> None:
    with path.open("wb", buffering=0) as out:
        while True:
            out.write(b"x" * 4096)


def test_a_clock_that_went_back_is_named(tmp_path: pathlib.Path) -> None:
    kcp = HostInstallation(tmp_path / ".kcp")
    kcp.root.mkdir()
    (tmp_path / "m.yaml").write_text(variant("dekker"))
    (kcp.root / "clock.json").write_text(json.dumps({"seen": int(time.time() + 86400)}))
    text = kcp.fail("up", f"--filename={tmp_path / 'm.yaml'}")
    assert "the clock of this host is wrong" in text
    assert "clock.json" in text


def test_a_wrong_manifest_changes_nothing(tmp_path: pathlib.Path) -> None:
    kcp = HostInstallation(tmp_path / ".kcp")
    bad = variant("dekker").replace("port: 6443", "port: many")
    (tmp_path / "m.yaml").write_text(bad)
    text = kcp.fail("up", f"--filename={tmp_path / 'm.yaml'}")
    assert "RootShard/root" in text
    assert "spec.external.port" in text
    assert "no manifests" in kcp.fail("up")
    assert "there is no installation" in kcp.fail("status")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("etcd"), reason="etcd is not installed")
def test_a_lost_etcd_is_named_and_found_again(tmp_path: pathlib.Path) -> None:
    client, peer = free_ports(2)
    url = f"http://127.0.0.1:{client}"

    def start() -> subprocess.Popen[bytes]:
        words = [
            "etcd", f"--data-dir={tmp_path / 'etcd'}", f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}", f"--listen-peer-urls=http://127.0.0.1:{peer}",
            "--log-level=error",
        ]  # fmt: skip
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    etcd = start()
    text = variant("dekker").replace(
        "  cache: {}\n", f"  cache: {{}}\n  replicas: 1\n  etcd: {{endpoints: ['{url}']}}\n"
    )
    try:
        with installation(tmp_path, text) as kcp:
            etcd.send_signal(signal.SIGKILL)
            etcd.wait()
            lost = eventually(lambda: _not_available(kcp, "root-kcp"), 120)
            assert "etcd" in json.dumps(lost["conditions"])
            etcd = start()
            eventually(lambda: kcp.workload("root-kcp")["available"], 120)
    finally:
        etcd.kill()
        etcd.wait()


def _not_available(kcp: HostInstallation, name: str) -> dict[str, object] | None:
    found = kcp.workload(name)
    return None if found["available"] else found
