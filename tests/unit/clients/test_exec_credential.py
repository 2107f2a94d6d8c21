"""Programs that hand out credentials."""

from __future__ import annotations

import json
import pathlib

import pytest

from pykcp.clients.credential_files import CredentialError
from pykcp.clients.exec_credential import credentials

VERSION = "client.authentication.k8s.io/v1"


@pytest.fixture
def command(tmp_path: pathlib.Path):
    def make(answer, exit_code: int = 0, **more):
        program = tmp_path / "login"
        text = answer if isinstance(answer, str) else json.dumps(answer)
        program.write_text(
            f'#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n'
            f'echo "$GREETING $1" > {tmp_path}/seen\n'
            f"cat <<'EOF'\n{text}\nEOF\nexit {exit_code}\n",
            encoding="utf-8",
        )
        program.chmod(0o755)
        return {
            "apiVersion": VERSION,
            "command": str(program),
            "interactiveMode": "Never",
            **more,
        }

    return make


def _answer(**status):
    return {"apiVersion": VERSION, "kind": "ExecCredential", "status": status}


def test_a_token(command, tmp_path):
    given = command(
        _answer(token="abc"),
        args=["me"],
        env=[{"name": "GREETING", "value": "hello"}],
        provideClusterInfo=True,
    )
    assert credentials(given, "https://h", {"tls-server-name": "n"}) == {"token": "abc"}
    assert (tmp_path / "seen").read_text(encoding="utf-8") == "hello me\n"
    told = json.loads((tmp_path / "info").read_text(encoding="utf-8"))
    assert told == {
        "kind": "ExecCredential",
        "apiVersion": VERSION,
        "spec": {
            "interactive": False,
            "cluster": {"server": "https://h", "tls-server-name": "n", "config": None},
        },
    }


def test_a_certificate(command):
    given = command(_answer(clientCertificateData="c", clientKeyData="k"))
    assert credentials(given, "https://h", {}) == {"certificate": "c", "key": "k"}


@pytest.mark.parametrize(
    ("answer", "exit_code", "complaint"),
    [
        (_answer(token="x"), 3, "failed with exit code 3"),
        ("no json", 0, "decoding stdout: "),
        ({**_answer(token="x"), "apiVersion": "v2"}, 0, "plugin returned version v2"),
        ({"apiVersion": VERSION}, 0, "exec plugin didn't return a status field"),
        (_answer(expirationTimestamp="x"), 0, "didn't return a token or cert/key pair"),
        (_answer(clientKeyData="k"), 0, "returned only certificate or key, not both"),
    ],
)
def test_answers_that_help_nobody(command, answer, exit_code, complaint):
    with pytest.raises(CredentialError) as caught:
        credentials(command(answer, exit_code), "https://h", {})
    assert str(caught.value).startswith("getting credentials: ")
    assert complaint in str(caught.value)


def test_a_program_that_is_not_installed(command):
    given = {**command(""), "command": "no-such-login", "installHint": "get it"}
    with pytest.raises(CredentialError) as caught:
        credentials(given, "https://h", {})
    assert "exec: executable no-such-login not found" in str(caught.value)
    assert str(caught.value).endswith("\n\nget it")


def test_a_program_that_wants_a_terminal(command):
    given = {**command(_answer(token="x")), "interactiveMode": "Always"}
    with pytest.raises(CredentialError, match="standard input is not a terminal"):
        credentials(given, "https://h", {})
