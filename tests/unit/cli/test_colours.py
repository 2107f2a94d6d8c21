"""Colours on a terminal: what is well, what waits, what is wrong. Never in files."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from pykcp.cli.operate import doctor
from pykcp.cli.operate.doctor import DOCTOR, DoctorFinding
from pykcp.cli.operate.progress import workload_line
from pykcp.cli.operate.status import status_lines
from pykcp.cli.operate.words import Given
from pykcp.cli.plugins.workspace.tree import WorkspaceNode, _painted, drawn
from pykcp.types import Object

RED, GREEN, YELLOW = ("\x1b[31m", "\x1b[32m", "\x1b[33m")
END = "\x1b[0m"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("pykcp.cli.terminal.is_terminal", lambda _: True)


def workload(*, phase: str = "Ready") -> Object:
    is_ready = phase == "Ready"
    return {
        "name": "root-kcp",
        "ready": int(is_ready),
        "desired": 1,
        "available": is_ready,
        "address": "127.0.0.1:6444",
        "replicas": [{"phase": phase}],
        "conditions": [],
    }


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("phase", "shown"),
    [
        ("Ready", f"{GREEN}ready     {END} 1/1"),
        ("Starting", f"{YELLOW}starting  {END} 0/1"),
        ("BackOff", f"{RED}failing   {END} 0/1"),
    ],
)
def test_workloads(phase: str, shown: str) -> None:
    assert shown in workload_line(workload(phase=phase))


def status(ends: str) -> Object:
    certificate = {"name": "serving", "notAfter": ends, "renewalTime": "2026-01-01T00:00:00Z"}
    shard = {"kind": "RootShard", "name": "root", "status": {"certificates": [certificate]}}
    return {
        "objects": [shard],
        "workloads": [],
        "remote": [],
        "waiting": {"root": "roles"},
        "problems": ["a mistake"],
    }


@pytest.mark.usefixtures("terminal")
def test_status() -> None:
    lines = [*status_lines(status("2020-01-01T00:00:00Z"), False, 1_700_000_000.0)]
    assert lines[0].startswith(f"{YELLOW}no supervisor is running")
    assert lines[2].endswith(f" {RED}EXPIRED{END}")
    assert lines[3:] == [f"{YELLOW}waiting: root: roles{END}", f"{RED}problem{END}: a mistake"]
    soon = [*status_lines(status("2023-11-20T00:00:00Z"), True, 1_700_000_000.0)]
    assert soon[1].endswith(f" {YELLOW}expires soon{END}")


def test_files_have_none() -> None:
    lines = [*status_lines(status("2020-01-01T00:00:00Z"), False, 1_700_000_000.0)]
    assert lines[2].endswith(" EXPIRED")
    assert not any("\x1b" in line for line in (*lines, workload_line(workload())))


@pytest.mark.usefixtures("terminal")
def test_doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def found(_: pathlib.Path) -> Iterator[DoctorFinding]:
        yield DoctorFinding("disk", "/data")
        yield DoctorFinding("DNS", "kcp.example", "cannot be resolved")

    monkeypatch.setattr(doctor, "findings", found)
    values: dict[str, Any] = {"root-directory": "."}
    assert DOCTOR.run(Given(values, [])) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"disk         /data: {GREEN}ok{END}",
        f"DNS          kcp.example: {RED}PROBLEM{END}: cannot be resolved",
        "1 problems",
    ]


@pytest.mark.usefixtures("terminal")
def test_tree() -> None:
    """A workspace that is not ready stands out, with its columns; its branch does not."""
    below = [
        WorkspaceNode("new", "root:new", "Initializing", [WorkspaceNode("a", "a", "Ready")]),
        WorkspaceNode("lost", "root:lost", "Unavailable"),
        WorkspaceNode("mount [m]"),
    ]
    tree = WorkspaceNode("root", "root", children=below)
    assert [*_painted([*drawn([tree])], tree)] == [
        ".",
        "└── root",
        f"    ├── {YELLOW}new{END}",
        "    │   └── a",
        f"    ├── {RED}lost{END}",
        "    └── mount [m]",
    ]
