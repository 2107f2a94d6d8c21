"""Units for systemd, checked by systemd itself where it is installed."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from pykcp.programs.operator.compiled import (
    FRONT_PROXY,
    SHARD,
    SHARD_PROBES,
    CompiledWorkload,
    InitStep,
    Listen,
    WorkloadOwner,
)
from pykcp.programs.operator.drivers.systemd.units import renewal_units, workload_units

_NEW = ("RestartSteps=", "RestartMaxDelaySec=")


def _workloads() -> list[CompiledWorkload]:
    shard = CompiledWorkload(
        "alpha-shard-kcp", "kcp", SHARD, WorkloadOwner("Shard", "alpha"), "kcp",
        ("start", "--x=100% of $HOME", "--y=a b"), Listen("127.0.0.1", 6444),
        data_directory="/srv/kcp/data", is_single=True, replicas=2,
        environment={"GREETING": "hello you"},
        resources={"limits": {"memory": "2Gi", "cpu": "1500m"}},
        init=(InitStep("prepare", ("/bin/true",), ("now",)),), probes=SHARD_PROBES,
    )  # fmt: skip
    proxy = CompiledWorkload(
        "f-front-proxy", "kcp", FRONT_PROXY, WorkloadOwner("FrontProxy", "f"), "kcp-front-proxy",
        (), Listen("0.0.0.0", 6443), replicas=2,
    )  # fmt: skip
    return [shard, proxy]


def _units() -> dict[str, str]:
    workloads = _workloads()
    commands = {one.name: [sys.executable, *one.arguments] for one in workloads}
    units = [
        *workload_units(workloads, commands, "kcp", "/srv/kcp", "root"),
        *renewal_units("kcp", [sys.executable, "-m", "pykcp", "up"], "/srv/kcp"),
    ]
    return {one.name: one.text for one in units}


def test_a_unit_has_the_words_limits_and_steps_of_its_workload() -> None:
    text = _units()["kcp-kcp-alpha-shard-kcp@.service"]
    assert f'ExecStart={sys.executable} start "--x=100%% of $$HOME" "--y=a b"\n' in text
    assert "ExecStartPre=/bin/true now\n" in text
    assert 'Environment="GREETING=hello you"\n' in text
    assert "MemoryMax=2147483648\n" in text
    assert "CPUQuota=150%\n" in text
    assert "ReadWritePaths=/srv/kcp/data\n" in text


def test_programs_that_hang_are_restarted_and_have_time_to_start() -> None:
    units = _units()
    shard = units["kcp-kcp-alpha-shard-kcp@.service"].splitlines()
    assert {"Type=notify", "NotifyAccess=main", "WatchdogSec=70", "TimeoutStartSec=310"} <= {*shard}
    custom = replace(_workloads()[0], program="/opt/own")
    (unit, _) = workload_units([custom], {custom.name: ["/opt/own"]}, "kcp", "/srv/kcp")
    assert "Type=exec" in unit.text.splitlines()
    assert "WatchdogSec" not in unit.text


def test_replicas_are_instances_that_share_a_port() -> None:
    units = _units()
    assert (
        "--permit-port-sharing=true --health-port=2443%i" in units["kcp-kcp-f-front-proxy@.service"]
    )
    wanted = [line for line in units["kcp-kcp.target"].splitlines() if line.startswith("Wants=")]
    assert wanted == [
        "Wants=kcp-kcp-alpha-shard-kcp@0.service",  # its store allows one process
        "Wants=kcp-kcp-f-front-proxy@0.service",
        "Wants=kcp-kcp-f-front-proxy@1.service",
    ]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: pathlib.Path) -> None:
    paths = []
    for name, text in _units().items():
        path = tmp_path / name.replace("@.", "@0.")
        # systemd before 254 does not know these two; it says so, and goes on without them.
        kept = [line for line in text.splitlines() if not line.startswith(_NEW)]
        path.write_text("\n".join(kept) + "\n")
        paths.append(str(path))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
