"""`kcp up`: from nothing to a workspace; killed, started again, stopped."""

from __future__ import annotations

import json
import pathlib
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from pykcp.programs.operator.drivers.process.identity import identify
from pykcp.testing.client import eventually
from pykcp.testing.sharded import free_ports

from .installations import SHARDS, WORKSPACES, HostInstallation, installation, kill, variant


def test_an_installation_starts_survives_its_supervisor_and_stops(tmp_path: pathlib.Path) -> None:
    (port,) = free_ports(1)
    with installation(
        tmp_path, variant("dekker"), f"--metrics-bind-address=127.0.0.1:{port}"
    ) as kcp:
        _is_monitored(port)
        shards = kcp.client().get(f"/clusters/root{SHARDS}").json["items"]
        assert [one["metadata"]["name"] for one in shards] == ["alpha", "root"]
        kcp.make_workspace("team", "alpha")
        assert "Running" in kcp.succeed("status")
        before = kcp.pids()
        _goes_on_without_its_supervisor(kcp, before)
        kcp.succeed("up", "--detach")
        assert kcp.pids() == before
        kcp.succeed("up")  # a supervisor is running: nothing changes
        assert kcp.pids() == before
        assert "no log of nothing; there are: alpha-shard-kcp-0" in kcp.fail("logs", "nothing")
        assert '"msg":"kcp is ready"' in kcp.succeed("logs", "root-kcp", "--tail=5")
        kcp.succeed("down")
        assert not any(identify(pid) for pids in before.values() for pid in pids)
        assert "no supervisor is running" in kcp.fail("status")


def _is_monitored(port: int) -> None:
    """Metrics of the supervisor, and where those of the programs are."""

    def page(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
            return str(answer.read().decode())

    metrics = page("metrics")
    assert 'kcp_up_replicas_ready{workload="alpha-shard-kcp"} 1' in metrics
    assert 'kcp_operator_shard_count{phase="Running",namespace="kcp-dekker"} 1' in metrics
    assert "kcp_operator_certificate_expiration_timestamp_seconds" in metrics
    targets = json.loads(page("targets"))
    assert {one["labels"]["component"] for one in targets} == {"rootshard", "shard", "front-proxy"}


def _goes_on_without_its_supervisor(kcp: HostInstallation, before: dict[str, list[int]]) -> None:
    kill(kcp.supervisor)
    text = eventually(lambda: kcp.command("status").stdout)
    assert "no supervisor is running" in text
    assert kcp.client().get(f"/clusters/root{WORKSPACES}/team").status == 200
    assert "start it with: kcp up" in kcp.fail("restart", "root-kcp")
    assert kcp.pids() == before


@pytest.mark.slow
def test_installations_that_start_at_the_same_moment_have_ports_of_their_own(
    tmp_path: pathlib.Path,
) -> None:
    def start(name: str) -> set[int]:
        with installation(tmp_path / name, variant("dekker")) as kcp:
            kcp.make_workspace("team")
            is_ready.wait(120)  # neither stops while the other one still chooses
            found: dict[str, int] = json.loads((kcp.root / "ports.json").read_text())
            return set(found.values())

    is_ready = threading.Barrier(2)
    with ThreadPoolExecutor() as threads:
        ours, theirs = threads.map(start, ("one", "two"))
    assert ours
    assert not ours & theirs


@pytest.mark.slow
def test_leftovers_of_a_killed_supervisor_are_stopped(tmp_path: pathlib.Path) -> None:
    with installation(tmp_path, variant("dekker")) as kcp:
        pids = [pid for pids in kcp.pids().values() for pid in pids]
        kill(kcp.supervisor)
        assert all(identify(pid) for pid in pids)
        assert kcp.succeed("down") == "stopped\n"
        assert not any(identify(pid) for pid in pids)
