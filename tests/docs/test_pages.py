"""Commands of the documentation are run as a reader types them; every page with commands has a test.

In a page, a block `sh` is run here, and so is `sh fails`, whose command reports an error. A block with a language and a file name (`yaml orders.yaml`) is a file that the
reader writes. `sh server` and `sh stopped` are for a terminal of the server; `console` shows output.

The tests of pages are run by scripts/test: none of them is marked slow. What no test can run is listed in `NOT_RUN`.
"""

from __future__ import annotations

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pykcp.programs.operator.host.settings import UpSettings
from pykcp.programs.sharded.settings import ShardedSettings
from pykcp.testing.server import environment, server

DOCS = pathlib.Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_END = "END-OF-FILE-OF-A-PAGE"
_SHELLS = (["sh"], ["console"], ["shell"], ["bash"])
_COMMAND = re.compile(
    r"\$ |(?:openssl|kcp|kcp-front-proxy|cache-server|virtual-workspaces|cluster-controller|syncer"
    r"|deployment-splitter|kubectl|helm|docker|pip|go|etcd|flux|argocd|curl|(?:\./)?scripts/\S+) "
)

RUN = (
    "guides/workspace-types.md",
    "operate/production.md",
    "start/install.md",
    "start/ten-minutes.md",
    "tutorials/administrator.md",
    "tutorials/provider-python.md",
    "tutorials/tenant.md",
)
"""Pages whose commands work on one server, which has the flags of the block `sh server`."""

ELSEWHERE: dict[str, str] = {
    "guides/access.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "guides/coming-from-kcp.md": "tests/behaviour/importing/test_kcp.py::test_the_page",
    "guides/console.md": "tests/docs/test_command_lines.py::test_a_certificate_for_browsers",
    "guides/custom-resources.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "guides/deleting-workspaces.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "guides/entering-workspaces.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "guides/envtest.md": "tests/docs/test_programs.py::test_kinds_of_kubernetes",
    "guides/gitops.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "guides/multicluster.md": "tests/docs/test_multicluster_tour.py::test_the_tour",
    "operate/audit.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "operate/backup.md": "tests/docs/test_programs.py::test_backups",
    "operate/cache.md": "tests/docs/test_command_lines.py::test_the_cache_server",
    "operate/fleet.md": "tests/behaviour/fleet/test_command.py::test_the_pages_for_operators",
    "operate/from-one-shard.md": "tests/behaviour/fleet/test_command.py::test_the_pages_for_operators",
    "operate/front-proxy.md": "tests/docs/test_command_lines.py::test_the_front_proxy",
    "operate/health.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "operate/limits.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "operate/monitoring.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "operate/moving.md": "tests/behaviour/moves/test_tour.py::test_every_command_works",
    "operate/operator.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "operate/placement.md": "tests/behaviour/fleet/test_command.py::test_the_pages_for_operators",
    "operate/scaling.md": "tests/docs/test_programs.py::test_more_cores",
    "operate/sign-in.md": "tests/docs/test_command_lines.py::test_an_issuer_and_pages_of_other_origins",
    "operate/tracing.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "operate/up.md": "tests/docs/test_variants.py::test_the_page_of_the_command",
    "operate/upgrade.md": "tests/docs/test_programs.py::test_backups",
    "operate/variants/comer.md": "tests/docs/test_variants.py::test_a_variant",
    "operate/variants/dekker.md": "tests/docs/test_variants.py::test_a_variant",
    "operate/variants/vespucci.md": "tests/docs/test_variants.py::test_a_variant",
    "operate/variants/zheng.md": "tests/docs/test_variants.py::test_hosts_of_zheng",
    "reference/clients.md": "tests/docs/test_command_lines.py::test_scripts_that_run_clients",
    "reference/clusters.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "reference/configuration.md": "tests/docs/test_programs.py::test_flags_in_a_file",
    "reference/plugins.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "reference/virtual-workspaces.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "troubleshooting.md": "tests/docs/test_excerpts.py::test_every_excerpt_works",
    "tutorials/provider-go.md": "tests/docs/test_pages.py::test_the_provider_in_go",
}
"""Pages with a test of their own: its file and its name."""

_NETWORK = "needs the network"
_CONTAINER = "needs a base image; deploy/check-image does it where there is one"
_CLUSTER = "needs a cluster that runs pods; tests/behaviour/deploy"
_HOST = "changes this host"
_STARTED = "test_every_command_works starts the same server"
NOT_RUN: dict[str, str] = {
    "cd pykcp": "the directory of a checkout",
    "./scripts/start": f"{_NETWORK}; all tests start what it starts",
    "export KUBECONFIG=$PWD/.kcp": _STARTED,
    "kubectl get workspacetypes": _STARTED,
    "python3 -m venv kcp && . kcp/bin/activate": _NETWORK,
    "pip install ./pykcp": _NETWORK,
    "kcp start": "in the environment that was not made",
    "docker build -t pykcp": _CONTAINER,
    "docker run -d --name kcp": f"{_CONTAINER}; test_flags_of_the_installation reads its flags",
    "docker exec kcp cat": _CONTAINER,
    "kubectl --kubeconfig=admin.kubeconfig get": _CONTAINER,
    "python3 -m venv /opt/kcp": _HOST,
    "useradd --system": _HOST,
    "mkdir -p /etc/kcp": _HOST,
    "systemctl ": f"{_HOST}; test_flags_of_the_installation reads the unit",
    "cp /var/lib/kcp/admin.kubeconfig": _HOST,
    "helm install kcp deploy/charts/kcp": _CLUSTER,
    "kubectl --namespace kcp wait": _CLUSTER,
    "kubectl apply -f admin.yaml": _CLUSTER,
    "secret": _CLUSTER,
    "export KUBECONFIG=$PWD/admin": "test_command_lines.py::test_the_kubeconfig_of_the_chart",
    "kubectl config ": "test_command_lines.py::test_the_kubeconfig_of_the_chart",
    'pip install "pykcp[otel]"': _NETWORK,
}
"""Beginnings of commands that a page shows and no test of pages runs, and why."""


def blocks(page: str) -> Iterator[tuple[list[str], str]]:
    """The words after the fence, and the text, of each block."""
    for head, text in _BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        yield head.split(), text


def has_commands(page: str) -> bool:
    """In a shell block, after a prompt, or in a block of any other form that names a program."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if any(words[:1] in _SHELLS for words, _ in blocks(page)):
        return True
    plain = [block for words, block in blocks(page) if not words]
    indented = re.findall(r"^ {4,}(\S.*)$", _BLOCK.sub("", text), re.MULTILINE)
    return any(_COMMAND.match(line) for line in [*"\n".join(plain).splitlines(), *indented])


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
    return _run(text, folder).stdout


def _run(text: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
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
    return done


_VARIES = (
    (re.compile(r"(https://[^/: ]+):\d+"), r"\1:PORT"),
    (re.compile(r"\b\d+(?:ms|s|m|h|d)(?:\d+s)?(?= |$)"), "AGE"),
    (re.compile(r"\b[0-9a-z]{16}\b"), "CLUSTER"),
)
"""What is different each time, and what is compared in its place."""


def settled(line: str) -> str:
    """A line of output without what varies. Columns are as wide as their widest cell, so spaces do not count."""
    line = " ".join(line.split())
    for pattern, name in _VARIES:
        line = pattern.sub(name, line)
    return line


def shown(page: str) -> list[str]:
    """The lines of output that a page shows."""
    texts = [text for words, text in blocks(page) if words == ["console"] and "$ " not in text]
    return [line for text in texts for line in text.splitlines() if line != "…"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")
@pytest.mark.parametrize("page", [page for page in RUN if (DOCS / page).exists()])
def test_every_command_works(page: str, tmp_path: pathlib.Path) -> None:
    """All blocks, in order, in one shell, as a reader would type them."""
    with server(*server_flags(page), directory=tmp_path):
        done = _run(script(page), tmp_path)
    for line in EXPECTED.get(page, ()):
        assert line in done.stdout
    printed = {settled(line) for line in (done.stdout + done.stderr).splitlines()}
    missing = [line for line in shown(page) if settled(line) not in printed]
    assert missing == [], done.stdout + done.stderr
    run(stopped_script(page), tmp_path)


README = "../README.md"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")
def test_the_readme(tmp_path: pathlib.Path) -> None:
    """Its commands on a server; tests/behaviour/fleet and operate start its installations."""
    with server(*server_flags(README), directory=tmp_path):
        output = run(script(README), tmp_path)
    assert "configmap/greeting created" in output
    assert "Current workspace is 'root:team'" in output
    installations = [text for words, text in blocks(README) if words == ["sh", "installation"]]
    lines = [line.split() for text in installations for line in text.splitlines()]
    assert ShardedSettings.parse(lines[0][2:])[0].checked().fleet.shards == 3
    assert UpSettings.parse(lines[1][2:])[0].up.variant == "dekker"
    assert lines[2] == ["kcp", "status"]
    (checkout,) = (text.split() for words, text in blocks(README) if words == ["sh", "checkout"])
    links = re.findall(r"\]\(([^):]+)\)", (DOCS / README).read_text(encoding="utf-8"))
    assert [path for path in (*checkout, *links) if not (DOCS.parent / path).exists()] == []


@pytest.mark.parametrize("page", ALL)
def test_commands_are_run(page: str) -> None:
    places = [table for table in (RUN, ELSEWHERE) if page in table]
    assert len(places) <= 1, f"{page} is in two tables of tests/docs/test_pages.py"
    if has_commands(page):
        assert places, f"{page} has commands: list it in tests/docs/test_pages.py"


def test_tables_name_what_there_is() -> None:
    for page in (*ELSEWHERE, *RUN):
        assert page in ALL, page
        assert has_commands(page), f"{page} has no commands"


def is_slow(place: ast.stmt | ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "slow" for node in ast.walk(place))


@pytest.mark.parametrize(
    ("page", "test"),
    [*ELSEWHERE.items(), *((page, f"{__file__}::test_every_command_works") for page in RUN)],
)
def test_tests_of_pages_are_not_slow(page: str, test: str) -> None:
    """`scripts/test` leaves slow ones out."""
    path, _, name = test.partition("::")
    text = (DOCS.parent / path).read_text(encoding="utf-8")
    assert pathlib.Path(page).stem in text, f"{path} does not name {page}"
    body = ast.parse(text).body
    (function,) = (node for node in body if isinstance(node, ast.FunctionDef) and node.name == name)
    assert not any(map(is_slow, function.decorator_list)), f"{test} is slow"
    assert not any(isinstance(node, ast.Assign) and is_slow(node) for node in body), (
        f"{path} is slow"
    )


def test_what_is_not_run_is_listed() -> None:
    """The commands of `console` blocks of pages in `RUN`, and those of the installation."""
    shown = [
        line.removeprefix("$ ")
        for page in (*RUN, "operate/tracing.md")
        for words, text in blocks(page)
        if words in (["console"], ["sh", "install"])
        for line in text.splitlines()
        if line.startswith("$ ") or words == ["sh", "install"]
    ]
    for command in shown:
        assert any(command.startswith(known) for known in NOT_RUN), command
    for known in NOT_RUN:
        assert any(command.startswith(known) for command in shown), known


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
