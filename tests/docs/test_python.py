"""The examples of guides/python.md, run from the text of the page."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
from tests.docs.test_pages import blocks, environ

from pykcp.client.sync import connect
from pykcp.testing.apis import EXPORTS, RESOURCE, make
from pykcp.testing.exports import schema
from pykcp.testing.server import ServerProcess, server

PAGE = "guides/python.md"
_SCHEMA = schema("widgets", "example.org", "v1")
_RESOURCE = {
    **RESOURCE,
    "group": "example.org",
    "name": "widgets",
    "schema": "v1.widgets.example.org",
}
_EXPORT = make(EXPORTS, "widgets", {"resources": [_RESOURCE]})


@pytest.fixture(scope="module")
def process() -> Iterator[ServerProcess]:
    with server() as process:
        yield process


def example(text: str) -> str:
    """The one example of the page that contains a text."""
    (found,) = (block for words, block in blocks(PAGE) if words == ["python"] and text in block)
    return found


def started(code: str, process: ServerProcess, folder: pathlib.Path) -> subprocess.Popen[str]:
    (folder / "example.py").write_text(code)
    variables = {**environ(folder), "KUBECONFIG": str(process.kubeconfig)}
    return subprocess.Popen(
        [sys.executable, "-u", "example.py"],
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output(code: str, process: ServerProcess, folder: pathlib.Path) -> str:
    program = started(code, process, folder)
    text, _ = program.communicate(timeout=120)
    assert program.returncode == 0, text
    return text


def test_workspaces(process: ServerProcess, tmp_path: pathlib.Path) -> None:
    assert output(example("root.create"), process, tmp_path) == "['root:team:dev']\n"


def test_objects(process: ServerProcess, tmp_path: pathlib.Path) -> None:
    assert output(example("maps.apply"), process, tmp_path) == "{'grass': 'green'}\n"


def test_an_informer(process: ServerProcess, tmp_path: pathlib.Path) -> None:
    """The example is the inner part of a program, which is ended after the first event."""
    body = textwrap.indent(example("workspace.informer"), " " * 8) + " " * 16 + "break\n"
    code = (
        "import asyncio\nfrom pykcp.client import connect\n\n"
        "async def main():\n"
        "    async with connect() as kcp:\n"
        "        workspace = kcp.workspace('root')\n"
        f"{body}\nasyncio.run(main())\n"
    )
    with connect(str(process.kubeconfig)) as kcp:
        kcp.workspace("root").apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colours"}}
        )
    text = output(code, process, tmp_path)
    assert "'name': 'colours'" in text
    assert text.splitlines()[-1].startswith("ADDED ")


def test_a_provider(process: ServerProcess, tmp_path: pathlib.Path) -> None:
    with connect(str(process.kubeconfig)) as kcp:
        provider = kcp.workspace("root").create("provider")
        provider.apply(_SCHEMA)
        provider.apply(_EXPORT)
        code = f"import asyncio\n{example('provider.reconciler')}\n\nasyncio.run(main())\n"
        program = started(code, process, tmp_path)
        try:
            consumer = kcp.workspace("root").create("consumer")
            consumer.bind("widgets", "root:provider", accept_claims=True)
            widget = {
                "apiVersion": "example.org/v1",
                "kind": "Widget",
                "metadata": {"name": "one", "namespace": "default"},
            }
            consumer.apply(widget)
            widgets = consumer.objects("widgets")
            widgets.wait("one", lambda found: found.get("status") == {"phase": "Ready"}, timeout=60)
        finally:
            program.terminate()
            program.communicate(timeout=60)


def test_a_test_with_pytest(process: ServerProcess, tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_config.py").write_text(example("def test_config"))
    flags = [f"--kcp-kubeconfig={process.kubeconfig}", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *flags, "test_config.py"],
        cwd=tmp_path,
        env=environ(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
