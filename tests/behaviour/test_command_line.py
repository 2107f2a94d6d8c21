"""The programs in a terminal: versions, completion, hints, and pipes whose reader goes away."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml

from pykcp.auth.certificates import create_ca, issue_client
from pykcp.testing.programs import kcp
from pykcp.testing.server import ServerProcess, environment


def test_versions() -> None:
    """For people, and for programs."""
    code, said = kcp("--version")
    assert (code, said.count("\n")) == (0, 1)
    assert said.startswith("kcp version v1.")
    assert kcp("version") == (0, said)
    code, found = kcp("version", "-o", "json")
    assert (code, json.loads(found)["gitVersion"]) == (0, said.split()[-1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("strat",), 'unknown command "strat" for "kcp"; did you mean "start"?'),
        (("statsu",), 'unknown command "statsu" for "kcp"; did you mean "status"?'),
        (("start", "--secure-prot=1"), "unknown flag: --secure-prot (did you mean --secure-port?)"),
        (("status", "--root-directry=x"), "unknown flag: --root-directry (did you mean --root-directory?)"),
    ],
)  # fmt: skip
def test_what_may_have_been_meant(words: tuple[str, ...], message: str) -> None:
    code, said = kcp(*words)
    assert code != 0
    assert f"Error: {message}\n" in said
    assert "Traceback" not in said


def test_completion_in_bash(tmp_path: pathlib.Path) -> None:
    """bash reads the script and completes by it."""
    code, script = kcp("completion", "bash")
    assert code == 0
    (tmp_path / "kcp.bash").write_text(script)
    ask = f'source {tmp_path}/kcp.bash; COMP_WORDS=(kcp start --secure-p); COMP_CWORD=2; COMP_LINE="kcp start --secure-p"; _kcp; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["--secure-port"], "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("pykcp", ("--help",)),
        ("pykcp", ("start", "options")),
        ("pykcp", ("status", "--help")),
        ("pykcp", ("doctor", "--root-directory=.")),
        ("pykcp.cli.cache_server", ("--help",)),
        ("pykcp.cli.plugins", ("kubectl-kcp", "--help")),
    ],
)
def test_a_reader_that_goes_away(
    module: str, words: tuple[str, ...], unbuffered: str, tmp_path: pathlib.Path
) -> None:
    """`| head -1`: no error, and the exit code that a shell gives for a closed pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**environment(), "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_doctor_says_in_words_what_is_wrong_with_tls(
    shard: ServerProcess, tmp_path: pathlib.Path
) -> None:
    """A foreign authority, another host, a key of another certificate, a server without TLS."""
    now = time.time()
    config = yaml.safe_load(shard.kubeconfig.read_text())
    cluster = next(one["cluster"] for one in config["clusters"] if one["name"] == "base")
    ca = create_ca("foreign", now)
    mine, other = (issue_client(ca, name, (), now) for name in ("mine", "other"))
    folder = tmp_path / "kubeconfigs"
    folder.mkdir()

    def user_of(name: str, user: dict[str, str], **changed: str) -> None:
        content = {
            "clusters": [{"name": "x", "cluster": {**cluster, **changed}}],
            "users": [{"name": "x", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "current-context": "x",
        }
        (folder / f"{name}.kubeconfig").write_text(yaml.safe_dump(content))

    foreign = base64.b64encode(ca.certificate).decode()
    user_of("foreign", {}, **{"certificate-authority-data": foreign})
    pair = {"certificate": mine.certificate, "key": other.key}
    user_of("key", {f"client-{part}-data": base64.b64encode(pem).decode() for part, pem in pair.items()})  # fmt: skip
    with plain_server() as port:
        user_of("plain", {}, server=f"https://127.0.0.1:{port}")
        code, said = kcp("doctor", f"--root-directory={tmp_path}")
    assert code == 1
    assert "_ssl.c" not in said
    problems = {line.split()[1]: line for line in said.splitlines() if "PROBLEM" in line}
    assert problems.keys() == {"foreign", "key:", "plain"}
    assert "x509: certificate signed by unknown authority" in problems["foreign"]
    assert "private key does not match public key" in problems["key:"]
    assert "first record does not look like a TLS handshake" in problems["plain"]


@contextmanager
def plain_server() -> Iterator[int]:
    """It speaks HTTP without TLS; its port."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
