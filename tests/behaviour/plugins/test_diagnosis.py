"""`kubectl kcp doctor` and `kubectl ws why`: what is wrong, and how to mend it."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from pykcp.cli.terminal import GREEN, ProgressLine, paint
from pykcp.testing.apis import BINDINGS, EXPORTS, RESOURCE, binding, export
from pykcp.testing.client import eventually
from pykcp.testing.server import ServerProcess

Shell = Any


def test_everything_is_in_order(shell: Shell) -> None:
    shell("ws :root")
    found = shell("kcp doctor")
    checks = {line.split()[1]: line.split()[0] for line in found.splitlines()}
    assert set(checks.values()) == {"ok"}, found
    assert {"kubeconfig", "server", "certificate", "readiness", "user", "workspace"} <= set(checks)


def test_a_binding_that_cannot_be_bound(shell: Shell, shard: ServerProcess) -> None:
    shell("ws :root")
    shell("create-workspace doctored --enter")
    client = shard.client(cluster="root:doctored")
    resource = {**RESOURCE, "schema": "v2.cowboys.wild.west"}  # which does not exist
    assert client.post(EXPORTS, export("cowboys", resources=[resource])).status == 201
    assert client.post(BINDINGS, binding("cowboys", "cowboys", "root:doctored")).status == 201
    done = eventually(lambda: wrong(shell))
    assert "wrong bindings     cowboys: " in done.out
    assert (
        "see kubectl get apibinding cowboys" in done.out or "kubectl delete apibinding" in done.out
    )


def wrong(shell: Shell) -> Any:
    """What the doctor says once it finds something."""
    done = shell.run("kcp doctor")
    return done if done.code == 1 else None


def test_a_server_that_does_not_answer(shell: Shell) -> None:
    done = shell.run("kcp doctor --server https://127.0.0.1:1")
    assert done.code == 1
    assert "wrong server" in done.out
    assert "start the server, or correct the port" in done.out


def test_a_kubeconfig_without_a_server(shell: Shell, tmp_path: pathlib.Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config"}))
    done = shell.run(f"kcp doctor --kubeconfig {empty}")
    assert done.code == 1
    assert "wrong kubeconfig" in done.out


def test_a_wrong_token(shell: Shell) -> None:
    done = shell.run("kcp doctor --token wrong")
    assert done.code == 1
    assert "Traceback" not in done.err


def test_why_it_is_allowed(shell: Shell) -> None:
    shell("ws :root")
    assert shell("ws why create cm").startswith("allowed: ")


def test_why_it_is_denied(shell: Shell) -> None:
    shell("ws :root")
    done = shell.run("ws why create configmaps -n prod --as jane")
    assert done.code == 1, done
    assert done.out.startswith(
        'denied: User "jane" may not create configmaps in the namespace "prod"'
    )
    assert "kubectl create role" in done.out
    assert "--resource=configmaps" in done.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("list deployments.apps --as jane", "deployments.apps"),
        ("get secrets/status token --as jane", "secrets"),
        ("access / --as jane", "/"),
        ("list workspaces -A --as jane", "workspaces.tenancy.kcp.io"),
    ],
)
def test_what_can_be_asked_for(shell: Shell, words: str, expected: str) -> None:
    shell("ws :root")
    done = shell.run(f"ws why {words}")
    assert done.err == ""
    assert expected in done.out


def test_why_without_words_prints_its_help(shell: Shell) -> None:
    assert "why <verb> <resource>" in shell.run("ws why").out


class Terminal:
    """A stream that says that it is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        self.text, self._is_terminal = "", is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None: ...


def test_colours_and_progress_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal: Any = Terminal(is_terminal=True)
    file: Any = Terminal(is_terminal=False)
    assert (paint("ok", GREEN, terminal), paint("ok", GREEN, file)) == ("\x1b[32mok\x1b[0m", "ok")
    for stream in (terminal, file):
        line = ProgressLine(stream)
        line.show("it is not bound", 3.2)
        line.clear()
    assert (terminal.text, file.text) == (
        "\r\x1b[Kwaiting for 3 s: it is not bound\r\x1b[K",
        "",
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("ok", GREEN, terminal) == "ok"
