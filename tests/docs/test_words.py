"""Pages and help texts use plain terms: these words have always hidden who does what."""

from __future__ import annotations

import pathlib
import re

import pytest

from pykcp.cli.plugins.programs import _create, _kcp, _ws
from pykcp.cli.plugins.shell.command import Command
from pykcp.cli.plugins.shell.help import help_text

ROOT = pathlib.Path(__file__).parents[2]
TEXTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src/pykcp/apis").rglob("*.kinds")),
]
RIDDLES = re.compile(
    r"\b(whoever|whomever|those who|nobody|somebody|anybody|everybody|ours|elsewhere)\b",
    re.IGNORECASE,
)


def riddles(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if RIDDLES.search(line)]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_descriptions(path: pathlib.Path) -> None:
    assert riddles(path.read_text()) == []


def _all(command: Command) -> list[Command]:
    return [command, *(one for child in command.children for one in _all(child))]


@pytest.mark.parametrize("root", [_ws(), _create(), _kcp()], ids=lambda root: root.name)
def test_help_of_plugins(root: Command) -> None:
    assert [line for command in _all(root) for line in riddles(help_text(command))] == []


def test_a_riddle_is_found() -> None:
    assert riddles("A path.\nNobody is told what whoever may not see.\nPlain.") == [
        "Nobody is told what whoever may not see."
    ]
