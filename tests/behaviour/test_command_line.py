"""The programs in a terminal: versions, completion, hints, and pipes whose reader goes away."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from pykcp.testing.programs import kcp
from pykcp.testing.server import environment


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
