"""Commands of the documentation are run as a reader types them; every page with commands has a test.

In a page, a block `sh` is run here, and so is `sh fails`, whose command reports an error. A block with a language and a file name (`yaml orders.yaml`) is a file that the
reader writes. `sh server` and `sh stopped` are for a terminal of the server; `console` shows output.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pykcp.testing.server import environment, server

DOCS = pathlib.Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_END = "END-OF-FILE-OF-A-PAGE"

RUN = (
    "guides/workspace-types.md",
    "start/install.md",
    "start/ten-minutes.md",
    "tutorials/administrator.md",
    "tutorials/provider-python.md",
    "tutorials/tenant.md",
)
"""Pages whose commands work on one server, which has the flags of the block `sh server`."""

ELSEWHERE: dict[str, str] = {
    "operate/fleet.md": "tests/behaviour/fleet/test_command.py",
    "operate/from-one-shard.md": "tests/behaviour/fleet/test_command.py",
    "operate/placement.md": "tests/behaviour/fleet/test_command.py",
    "operate/up.md": "tests/behaviour/operate/test_up.py",
    "operate/variants/dekker.md": "tests/docs/test_variants.py",
    "operate/variants/vespucci.md": "tests/docs/test_variants.py",
    "operate/variants/comer.md": "tests/docs/test_variants.py",
    "operate/variants/zheng.md": "tests/docs/test_variants.py",
    "operate/moving.md": "tests/behaviour/moves/test_tour.py",
    "design/virtual-workspaces.md": "tests/unit/virtual/test_writing_one.py",
    "guides/envtest.md": "tests/behaviour/envtest/test_envtest.py",
    "guides/gitops.md": "tests/docs/test_excerpts.py",
    "guides/custom-resources.md": "tests/docs/test_excerpts.py",
    "guides/entering-workspaces.md": "tests/docs/test_excerpts.py",
    "guides/deleting-workspaces.md": "tests/docs/test_excerpts.py",
    "operate/audit.md": "tests/docs/test_excerpts.py",
    "operate/monitoring.md": "tests/docs/test_excerpts.py",
    "operate/health.md": "tests/docs/test_excerpts.py",
    "operate/limits.md": "tests/docs/test_excerpts.py",
    "reference/configuration.md": "tests/docs/test_excerpts.py",
    "reference/plugins.md": "tests/docs/test_excerpts.py",
    "reference/virtual-workspaces.md": "tests/docs/test_excerpts.py",
    "troubleshooting.md": "tests/docs/test_excerpts.py",
    "guides/multicluster.md": "tests/docs/test_multicluster_tour.py",
    "tutorials/provider-go.md": "tests/docs/test_pages.py",
    "operate/cache.md": "tests/docs/test_command_lines.py",
    "operate/front-proxy.md": "tests/docs/test_command_lines.py",
    "operate/sign-in.md": "tests/docs/test_command_lines.py",
    "reference/clients.md": "tests/docs/test_command_lines.py",
}
"""Pages with a test of their own."""


def blocks(page: str) -> Iterator[tuple[list[str], str]]:
    """The words after the fence, and the text, of each block."""
    for head, text in _BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        yield head.split(), text


def has_commands(page: str) -> bool:
    text = (DOCS / page).read_text(encoding="utf-8")
    if re.search(r"^    \$ ", text, re.MULTILINE):
        return True
    return any(
        words[:1] in (["sh"], ["console"], ["shell"], ["bash"]) or re.match(r"\$ ", block)
        for words, block in blocks(page)
    )


def script(page: str) -> str:
    """What a reader types and writes, as one script."""
    return "\n".join(_steps(page, ["sh"]))


def server_flags(page: str) -> list[str]:
    """The flags with which the page starts its server."""
    for words, text in blocks(page):
        if words == ["sh", "server"]:
            return [word for word in text.split() if word.startswith("--") and "bind" not in word]
    return []


def stopped_script(page: str) -> str:
    """What is typed when the server is stopped."""
    return "\n".join(text for words, text in blocks(page) if words == ["sh", "stopped"])


def _steps(page: str, shell: list[str]) -> Iterator[str]:
    for words, text in blocks(page):
        if words == shell:
            yield text
        elif words == [*shell, "fails"]:
            yield f"if {text.rstrip()}; then exit 1; fi"
        elif len(words) == 2 and words[0] != "sh":
            yield f"cat > {words[1]} <<'{_END}'\n{text}{_END}"


ALL = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
EXPECTED = {
    "start/ten-minutes.md": ("configmap/greeting created", "tom    9"),
    "tutorials/tenant.md": ("Current workspace is 'root:acme' (", "first   tea"),
    "tutorials/provider-python.md": ("orders   large   Ready", "orders-credentials   Opaque   1"),
    "tutorials/administrator.md": ("team-a   tenant",),
}
"""Lines that the output contains."""


def environ(home: pathlib.Path) -> dict[str, str]:
    """With the programs of this Python, and a home of its own."""
    folders = [str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
    return {**environment(), "PATH": os.pathsep.join(folders), "HOME": str(home)}


def run(text: str, folder: pathlib.Path) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=environ(folder),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")
@pytest.mark.parametrize("page", [page for page in RUN if (DOCS / page).exists()])
def test_every_command_works(page: str, tmp_path: pathlib.Path) -> None:
    """All blocks, in order, in one shell, as a reader would type them."""
    with server(*server_flags(page), directory=tmp_path):
        output = run(script(page), tmp_path)
    for line in EXPECTED.get(page, ()):
        assert line in output
    run(stopped_script(page), tmp_path)


@pytest.mark.parametrize("page", ALL)
def test_commands_are_run(page: str) -> None:
    places = [table for table in (RUN, ELSEWHERE) if page in table]
    assert len(places) <= 1, f"{page} is in two tables of tests/docs/test_pages.py"
    if has_commands(page):
        assert places, f"{page} has commands: list it in tests/docs/test_pages.py"


def test_tables_name_what_there_is() -> None:
    for page in (*ELSEWHERE, *RUN):
        assert page in ALL, page
    for place in ELSEWHERE.values():
        assert (DOCS.parent / place).exists(), place


def test_the_ten_minutes_have_their_blocks() -> None:
    assert len([words for words, _ in blocks("start/ten-minutes.md") if words[:1] == ["sh"]]) >= 8


@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go on this machine")
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")
def test_the_provider_in_go(tmp_path: pathlib.Path) -> None:
    """Builds the controller of the page: once a machine has built client-go's packages, in a second or two."""
    text = script("tutorials/provider-go.md").replace(
        "cat > controller/", "mkdir -p controller; cat > controller/"
    )
    with server(directory=tmp_path):
        output = run(f"export GOFLAGS=-buildvcs=false {go_folders()}\n{text}", tmp_path)
    assert "database.db.example.com/orders condition met" in output


def go_folders() -> str:
    """Where modules and what was built of them are kept: not in the home of the test."""
    names = ("GOPATH", "GOCACHE")
    done = subprocess.run(["go", "env", *names], capture_output=True, text=True, check=True)
    return " ".join(
        f"{name}={folder}" for name, folder in zip(names, done.stdout.split(), strict=True)
    )
