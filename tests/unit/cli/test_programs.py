"""The command lines of the programs: help, version, completion, and mistakes in one line each."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence

import pytest

from pykcp.cli import cache_server, kcp, virtual_workspaces

PROGRAMS: dict[str, Callable[[Sequence[str]], int]] = {
    "kcp": kcp.main,
    "cache-server": cache_server.main,
    "virtual-workspaces": virtual_workspaces.main,
}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("kcp --version", 0, "kcp version v1."),
        ("kcp version", 0, "kcp version v1."),
        ("kcp version -o yaml", 0, "gitVersion: v1."),
        ("kcp version -o xml", 1, "Error: --output 'xml' must be json or yaml"),
        ("kcp version --nosuch", 1, "Error: unknown flag: --nosuch"),
        ("kcp --help", 0, "Usage:"),
        ("kcp", 0, "Usage:"),
        ("kcp start options", 0, "--root-directory"),
        ("kcp start --help", 0, "--root-directory"),
        ("kcp nosuch", 1, 'Error: unknown command "nosuch" for "kcp"; try kcp --help'),
        ("kcp strat", 1, 'Error: unknown command "strat" for "kcp"; did you mean "start"?'),
        ("kcp start nosuch", 1, 'Error: unknown command "nosuch" for "kcp start"'),
        ("kcp start --nosuch --v=x", 1, "Error: unknown flag: --nosuch\nError: invalid argument"),
        ("kcp start --secure-prot=1", 1, "Error: unknown flag: --secure-prot (did you mean --secure-port?)"),
        ("kcp start --secure-port=0 --bind-address=x", 1, "Error: --secure-port 0 is not a valid port"),
        ("kcp admin fsk", 2, 'Error: unknown command "fsk" for "kcp admin"; did you mean "fsck"?'),
        ("kcp admin fsck --nosuch --v=x", 2, "Error: unknown flag: --nosuch\nError: invalid argument"),
        ("kcp admin fsck --etcd-cafile=/no", 2, "Error: --etcd-cafile: no such file: /no"),
        ("kcp admin fsck --root-directory=/no/such", 2, "Error: no shard found in /no/such; set --root-directory"),
        ("kcp completion", 0, "kcp completion bash|zsh|fish"),
        ("kcp completion csh", 1, "Error: unknown shell 'csh': bash, zsh, fish are supported"),
        ("cache-server --help", 0, "--synthetic-delay duration"),
        ("cache-server help", 0, "--synthetic-delay duration"),
        ("cache-server version", 0, "cache-server version v1."),
        ("cache-server nosuch", 1, 'Error: unknown command "nosuch" for "cache-server"'),
        ("virtual-workspaces --help", 0, "--kubeconfig string"),
        ("virtual-workspaces workspaces --help", 0, "--kubeconfig string"),
        ("virtual-workspaces", 1, "Error: --kubeconfig is required for this command"),
        ("virtual-workspaces --version", 0, "virtual-workspaces version v1."),
    ],
)  # fmt: skip
def test_the_programs(words: str, code: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Help on standard output; problems on standard error, a line each, and exit code 1."""
    program, *rest = words.split()
    assert PROGRAMS[program](rest) == code
    out, err = capsys.readouterr()
    assert text in (err if code else out)
    assert (out if code else err) == ""


def test_the_version_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The same fields as /version."""
    assert kcp.main(["version", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["major"], found["minor"]) == ("1", "36")
    assert found["gitVersion"].startswith("v1.36.0+kcp-v")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_flag(
    program: str, shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script for each shell, and the shell can read it where it is installed."""
    assert PROGRAMS[program](["completion", shell]) == 0
    script = capsys.readouterr().out
    assert ("-l secure-port" if shell == "fish" else "--secure-port") in script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, text=True, check=False)
        assert done.returncode == 0


def _complete(words: str, script: str) -> list[str]:
    line = words.split(" ")
    text = f"""{script}
COMP_WORDS=({" ".join(f"'{w}'" for w in line)}); COMP_CWORD={len(line) - 1}
_kcp; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash"], input=text, text=True, capture_output=True, check=True)
    return done.stdout.split()


def test_bash_completes(capsys: pytest.CaptureFixture[str]) -> None:
    """Commands first, then what belongs to the command."""
    kcp.main(["completion", "bash"])
    script = capsys.readouterr().out
    assert _complete("kcp st", script) == ["start"]
    assert _complete("kcp start --secure-p", script) == ["--secure-port"]
    assert _complete("kcp completion ", script) == ["bash", "zsh", "fish"]
    assert _complete("kcp admin f", script) == ["fsck"]
