"""Archives of workloads: encrypted, and moved to another root directory."""

from __future__ import annotations

import pathlib
import sqlite3

import pytest

from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.compiled import (
    SHARD,
    CompiledFile,
    CompiledWorkload,
    InitStep,
    Listen,
    WorkloadOwner,
)
from pykcp.programs.operator.host.archive import (
    WorkloadArchive,
    install,
    read_data,
    relocated,
    seal,
    unseal,
)
from pykcp.programs.operator.host.layout import HostFiles, read_json

PASSPHRASE = b"correct horse"


def _workload(root: str) -> CompiledWorkload:
    path = f"{root}/kcp/alpha/files/kubeconfig"
    return CompiledWorkload(
        "alpha", "kcp", SHARD, WorkloadOwner("Shard", "alpha"), "kcp",
        ("start", f"--kubeconfig={path}", f"--root-directory={root}/kcp/alpha/data"),
        Listen("127.0.0.1", 6444, authority=f"{root}/kcp/alpha/files/ca.crt"),
        files=(CompiledFile(path, f"client-key: {root}/kcp/alpha/files/tls.key".encode()),),
        environment={"WHERE": f"{root}/x"},
        data_directory=f"{root}/kcp/alpha/data",
        init=(InitStep("one", ("/bin/true",), (f"{root}/y",)),),
    )  # fmt: skip


def test_an_archive_is_read_with_its_passphrase_only() -> None:
    data, keys = {"alpha": {"store.db": b"\x00data"}}, {"alpha": "00" * 32}
    archive = WorkloadArchive("/old", (_workload("/old"),), data, keys, 1.5)
    sealed = seal(archive, PASSPHRASE)
    assert b"client-key" not in sealed
    assert unseal(sealed, PASSPHRASE) == archive
    with pytest.raises(SettingsError, match="the passphrase is wrong, or the archive is damaged"):
        unseal(sealed, b"another passphrase")
    with pytest.raises(SettingsError, match="damaged"):
        unseal(sealed[:-1] + bytes([sealed[-1] ^ 1]), PASSPHRASE)
    with pytest.raises(SettingsError, match="not an archive"):
        unseal(b"PK\x03\x04", PASSPHRASE)
    with pytest.raises(SettingsError, match="at least 8 characters"):
        seal(archive, b"short")


def test_every_path_of_a_workload_moves() -> None:
    assert relocated(_workload("/old"), "/old", "/new/place") == _workload("/new/place")


def test_data_is_installed_once(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    connection = sqlite3.connect(source / "store.db")
    connection.execute("CREATE TABLE t (x)")
    connection.execute("INSERT INTO t VALUES (42)")
    connection.commit()
    (source / "store.db.lock").write_text("")
    data = read_data(source)
    connection.close()
    assert set(data) == {"store.db"}
    files = HostFiles(tmp_path / "new")
    files.make()
    archive = WorkloadArchive("/old", (_workload("/old"),), {"alpha": data})
    assert install(archive, files) == ["alpha"]
    moved = CompiledWorkload.from_object(read_json(files.imported / "alpha.json") or {})
    assert moved == _workload(str(files.root))
    copy = sqlite3.connect(pathlib.Path(moved.data_directory) / "store.db")
    assert copy.execute("SELECT x FROM t").fetchall() == [(42,)]
    copy.close()
    with pytest.raises(SettingsError, match="contains data already"):
        install(archive, files)
