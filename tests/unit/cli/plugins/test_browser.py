"""The full-screen browser, without a screen."""

from __future__ import annotations

import re

import pytest

from pykcp.cli.plugins.workspace.browser_model import Apis, Browser, BrowserWorkspace, keys
from pykcp.cli.plugins.workspace.browser_view import screen, scrolled, text_width


class Shelf:
    """A source that knows two levels."""

    def __init__(self) -> None:
        self.looked: list[str] = []

    def children(self, place: BrowserWorkspace) -> list[BrowserWorkspace]:
        if place.depth >= 2:
            return []
        return [
            BrowserWorkspace(
                f"{place.name}{letter}", f"{place.path}:{letter}", depth=place.depth + 1
            )
            for letter in "abc"
        ]

    def peek(self, places: list[BrowserWorkspace]) -> None:
        for place in places:
            place.has_children = place.depth < 2

    def apis(self, place: BrowserWorkspace) -> Apis:
        self.looked.append(place.name)
        return Apis(bindings=[_binding()])


def _binding():
    return {
        "metadata": {"name": "tenancy"},
        "spec": {"reference": {"export": {"path": "root", "name": "tenancy.kcp.io"}}},
        "status": {"boundResources": [{"group": "tenancy.kcp.io", "resource": "workspaces"}]},
    }


@pytest.fixture
def browser() -> Browser:
    root = BrowserWorkspace("r", "root")
    return Browser(root, root, Shelf())


def _press(browser: Browser, *names: str) -> list[str]:
    for name in names:
        browser.press(name)
    return [place.name for place in browser.visible()]


def test_opening_and_closing(browser):
    assert _press(browser) == ["r"]
    assert _press(browser, "right") == ["r", "ra", "rb", "rc"]
    assert _press(browser, "down", "space") == ["r", "ra", "raa", "rab", "rac", "rb", "rc"]
    assert _press(browser, "space") == ["r", "ra", "rb", "rc"]
    assert _press(browser, "up", "left") == ["r"]


def test_a_leaf_does_not_open(browser):
    _press(browser, "right", "down", "right", "down", "right")
    assert browser.current.name == "raa"
    assert not browser.current.is_open


def test_the_cursor_stays_on_the_tree(browser):
    _press(browser, "up", "right", "end")
    assert browser.current.name == "rc"
    _press(browser, "down", "page down")
    assert browser.current.name == "rc"
    _press(browser, "home")
    assert browser.current.name == "r"


def test_enter_chooses_and_q_does_not(browser):
    _press(browser, "right", "down", "enter")
    assert browser.is_done
    assert browser.chosen is browser.current
    browser.chosen, browser.is_done = None, False
    _press(browser, "quit")
    assert browser.is_done
    assert browser.chosen is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"j", ["down"]),
        (b"\x1b[A", ["up"]),
        (b"\x1bOB\x1b[C", ["down", "right"]),
        (b"\x1b", ["quit"]),
        (b"\x03", ["quit"]),
        (b"\x1b[1;5A", []),
        (b"\x1b[<0;1;1Mq", ["quit"]),
        (b"xyz\r", ["enter"]),
        (b"\x7f", ["left"]),
        (b"\x1b[", []),
    ],
)
def test_keys(data, expected):
    assert keys(data) == expected


@pytest.mark.parametrize(
    ("cursor", "total", "count", "first", "expected"),
    [
        (0, 3, 10, 0, (0, 3)),
        (9, 20, 5, 0, (6, 11)),
        (0, 20, 5, 8, (0, 5)),
        (19, 20, 5, 0, (15, 20)),
        (8, 20, 5, 8, (7, 12)),
        (2, 20, 5, 0, (0, 5)),
    ],
)
def test_scrolling(cursor, total, count, first, expected):
    assert scrolled(cursor, total, count, first) == expected


def _plain(lines: list[str]) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]


def test_screen(browser):
    _press(browser, "right", "down")
    lines, _ = screen(browser, 60, 24, 0)
    text = _plain(lines)
    assert len(text) == 24
    assert {text_width(line) for line in text} == {60}
    assert text[2].split() == ["│", "kcp", "Workspaces", "root:a", "|", "bindings:1", "│"]
    assert "→   ▶ ra" in text[4]
    assert any("• tenancy → root:tenancy.kcp.io" in line for line in text)
    assert any("└─ workspaces.tenancy.kcp.io" in line for line in text)
    assert "Press Enter" in text[-3]


def test_a_small_screen_keeps_the_help(browser):
    _press(browser, "right")
    lines, _ = screen(browser, 30, 14, 0)
    text = _plain(lines)
    assert len(text) == 14
    assert "navigate" in text[-5]
    assert "  ..." in "".join(text)


def test_what_was_learned_is_not_asked_again(browser):
    for _ in range(2):
        screen(browser, 60, 24, 0)
    assert browser._source.looked == ["r"]
