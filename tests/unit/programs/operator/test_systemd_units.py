"""What units may contain, and which of a directory belong to an installation."""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pykcp.auth.files import ensure_directory, write_private
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.compiled import (
    SHARD,
    CompiledWorkload,
    InitStep,
    Listen,
    WorkloadOwner,
)
from pykcp.programs.operator.drivers.systemd.directory import UnitDirectory
from pykcp.programs.operator.drivers.systemd.units import (
    SystemdUnit,
    instance_data,
    renewal_units,
    workload_units,
)

_ROOT = "/srv/kcp"
_SHARD = CompiledWorkload(
    "alpha-shard-kcp", "kcp", SHARD, WorkloadOwner("Shard", "alpha"), "kcp",
    ("start", "--root-directory=/srv/kcp/data"), Listen("127.0.0.1", 6444),
    data_directory="/srv/kcp/data", is_single=True,
)  # fmt: skip


def _units(*workloads: CompiledWorkload) -> Sequence[SystemdUnit]:
    commands = {one.name: ["/opt/kcp", *one.arguments] for one in workloads}
    return list(workload_units(workloads, commands, "kcp", _ROOT, "kcp"))


def test_a_manifest_cannot_add_settings_to_a_unit() -> None:
    shard = replace(_SHARD, environment={"A": "b\nUser=root"}, arguments=("--x=1\nUser=root",))
    (unit, _) = _units(shard)
    assert [line for line in unit.text.splitlines() if line.startswith("User=")] == ["User=kcp"]


@pytest.mark.parametrize("prefix", "-@:+!|")
def test_a_manifest_cannot_choose_as_whom_systemd_runs_a_step(prefix: str) -> None:
    shard = replace(_SHARD, init=(InitStep("prepare", (f"{prefix}/bin/sh",)),))
    with pytest.raises(SettingsError, match="a unit cannot run it"):
        _units(shard)


def test_instances_on_etcd_have_a_data_directory_each() -> None:
    shared = replace(_SHARD, is_single=False, replicas=2)
    (unit, _) = _units(shared)
    assert "--root-directory=/srv/kcp/data-%i" in unit.text
    assert "ReadWritePaths=/srv/kcp/data-%i\n" in unit.text
    assert instance_data(shared, 1) == "/srv/kcp/data-1"
    assert instance_data(_SHARD, 0) == "/srv/kcp/data"


def test_units_of_removed_workloads_are_found_and_no_others(tmp_path: pathlib.Path) -> None:
    directory = UnitDirectory(tmp_path, pathlib.Path(_ROOT))
    beta = replace(_SHARD, name="beta-shard-kcp")
    timer = list(renewal_units("kcp", ["/opt/kcp"], _ROOT))
    directory.apply(directory.changes([*_units(_SHARD, beta), *timer]))
    old = tmp_path / "kcp-kcp-old-shard-kcp@.service"  # of a version that left no mark
    old.write_text(f"[Service]\nReadOnlyPaths={_ROOT}\n")
    other = tmp_path / "kcp-kcp-other@.service"
    other.write_text(f"[Service]\nReadOnlyPaths={_ROOT}-of-another\n")
    changes = directory.changes([*_units(_SHARD), *timer])
    assert [path.name for path in changes.stale] == ["kcp-kcp-beta-shard-kcp@.service", old.name]
    assert changes.surplus == ("kcp-kcp-beta-shard-kcp@0.service",)
    assert [unit.name for unit in changes.written] == ["kcp-kcp.target"]
    directory.apply(changes)
    assert other.exists()
    left = directory.changes([*_units(_SHARD), *timer])
    assert (left.written, left.stale, left.surplus) == ((), (), ())


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone writes for other users")
def test_what_root_writes_for_another_user_is_theirs(tmp_path: pathlib.Path) -> None:
    os.chown(tmp_path, 12345, 12346)
    ensure_directory(tmp_path / "a" / "b")
    write_private(tmp_path / "a" / "b" / "key", b"secret")
    for path in ("a", "a/b", "a/b/key"):
        found = (tmp_path / path).stat()
        assert (found.st_uid, found.st_gid) == (12345, 12346)
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o700
