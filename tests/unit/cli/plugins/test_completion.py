"""What a shell is offered."""

from __future__ import annotations

import subprocess

import pytest

from pykcp.cli.plugins.kcp import kcp_command
from pykcp.cli.plugins.shell.completion import NO_FILES, candidates
from pykcp.cli.plugins.shell.completion_scripts import script
from pykcp.cli.plugins.shell.program import run, with_standard_commands

ROOT = with_standard_commands(kcp_command("v1"), "kubectl-kcp")


def _texts(*words: str) -> list[str]:
    return [candidate.text for candidate in candidates(ROOT, words).candidates]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["cl"], ["claims"]),
        (["claims", ""], ["accept", "get", "reject"]),
        (["claims", "get", "api"], ["apibinding"]),
        (["quickstart", "--scenario", ""], ["api-provider", "workspaces"]),
        (["quickstart", "--scenario=w"], ["--scenario=workspaces"]),
        (["crd", "snapshot", "-o", "j"], ["json"]),
        (["crd", "snapshot", "--pre"], ["--prefix"]),
        (["completion", "z"], ["zsh"]),
        (["nosuch", "x"], []),
    ],
)
def test_candidates(words, expected):
    assert _texts(*words) == expected


def test_names_of_contexts_come_from_the_kubeconfig(tmp_path, monkeypatch):
    file = tmp_path / "config"
    file.write_text(
        "contexts:\n- name: one\n  context: {}\n- name: other\n  context: {}\n", encoding="utf-8"
    )
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert _texts("ws", "--context", "") == ["one", "other"]


def test_a_server_that_cannot_be_asked_offers_nothing(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    assert _texts("claims", "accept", "") == []


def test_answer_ends_with_a_directive(capsys):
    assert run(ROOT, ["__complete", "cla"], program="kubectl-kcp") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("claims\t")
    assert lines[-1] == f":{NO_FILES}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_scripts_name_the_program(shell):
    text = script(shell, "kubectl-ws")
    assert "kubectl-ws" in text
    assert "@" not in text.replace("[@]", "").replace("(@", "").replace("@(", "").replace("@w", "")


def test_bash_understands_its_script(tmp_path):
    file = tmp_path / "complete.bash"
    file.write_text(script("bash", "kubectl-ws"), encoding="utf-8")
    program = tmp_path / "kubectl-ws"
    program.write_text('#!/bin/sh\nprintf "team-a\\nteam-b\\nother\\n:6\\n"\n', encoding="utf-8")
    program.chmod(0o755)
    done = subprocess.run(
        [
            "bash",
            "-c",
            (
                f"source {file}; COMP_WORDS=({program} te); COMP_CWORD=1; "
                '__kubectl_ws_complete; echo "${COMPREPLY[@]}"'
            ),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "team-a team-b\n"
