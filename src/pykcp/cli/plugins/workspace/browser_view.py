"""The browser's screen as lines of text: pure, from state and size."""

from __future__ import annotations

import unicodedata
from typing import Any, NamedTuple

from pykcp.cli.plugins.workspace.browser_model import Apis, Browser, BrowserWorkspace

Object = dict[str, Any]
TITLE = "kcp Workspaces"
HELP = "↑/↓: navigate  →/←/Space: expand/collapse  q: quit"
PROMPT = "Press Enter to switch to this workspace"
MORE = "  ..."
_LEAST_ROWS = 3
_BORDERS = 4
"""Rows that border and padding take."""
_FRAME = 6
"""Columns that border and padding take."""
_COLORS = {
    "title": "1;38;5;170", "border": "38;5;62", "help": "38;5;241", "detail": "38;5;248",
    "section": "38;5;245", "item": "38;5;252", "export": "38;5;39", "slice": "38;5;135",
    "binding": "38;5;82", "source": "3;38;5;248", "resource": "38;5;220", "prompt": "38;5;34",
    "home": "38;5;11", "cursor": "48;5;235", "cursor at home": "1;38;5;11;48;5;235",
}  # fmt: skip


class Piece(NamedTuple):
    """Text in one colour."""

    text: str
    color: str = ""


Line = list[Piece]


class Window(NamedTuple):
    """Which rows of a long tree fit on the screen."""

    first: int
    end: int


def screen(browser: Browser, width: int, height: int, first: int) -> tuple[list[str], Window]:
    """Lines to draw, and the rows they show; `first` is where the window was before."""
    browser.look_here()
    room = max(width - _FRAME, 20)
    around = _BORDERS + 1 + len(_foot())  # with the header
    details = _api_lines(browser.current.apis, room)
    details = _cut(details, height - around - _LEAST_ROWS - 1)
    below = [*([[Piece("─" * room, "help")]] if details else []), *details, *_foot()]
    count = max(height - _BORDERS - 1 - len(below), _LEAST_ROWS)
    rows = browser.visible()
    browser.page = count
    window = scrolled(rows.index(browser.current), len(rows), count, first)
    browser.look_at(rows[window.first : window.end])
    lines = [_header(browser.current, room), *_tree_lines(browser, rows, window, count), *below]
    return _framed(lines, room), window


def _foot() -> list[Line]:
    return [[Piece(HELP, "help")], [], [Piece(PROMPT, "prompt")]]


def _cut(lines: list[Line], room: int) -> list[Line]:
    """As many lines as fit; the last says that there are more."""
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], [Piece(MORE, "item")]] if room > 1 else []


def scrolled(cursor: int, total: int, count: int, first: int) -> Window:
    """Move the window as little as needed; a row on which `...` would hide the cursor moves it."""
    if cursor < first:
        first = cursor
    elif cursor >= first + count:
        first = cursor - count + 1
    first = max(min(first, total - count), 0)
    if first > 0 and cursor == first:
        first -= 1
    if first + count < total and cursor == first + count - 1:
        first += 1
    return Window(first, min(first + count, total))


def _tree_lines(
    browser: Browser, rows: list[BrowserWorkspace], window: Window, count: int
) -> list[Line]:
    lines = [_row(place, browser.current) for place in rows[window.first : window.end]]
    lines += [[] for _ in range(count - len(lines))]
    if window.first > 0:
        lines[0] = [Piece(MORE, "item")]
    if window.end < len(rows):
        lines[-1] = [Piece(MORE, "item")]
    return lines


def _row(place: BrowserWorkspace, current: BrowserWorkspace) -> Line:
    icon = "  "
    if place.has_children:
        icon = "▼ " if place.is_open else "▶ "
    text = "  " * place.depth + icon + place.name
    if place is current:
        return [Piece("→ " + text, "cursor at home" if place.is_home else "cursor")]
    return [Piece("  " + text, "home" if place.is_home else "item")]


def _header(place: BrowserWorkspace, room: int) -> Line:
    parts = [place.path]
    if place.type_name:
        parts.append(place.type_name)
    if place.cluster:
        parts.append(f"cluster:{place.cluster}")
    apis = place.apis or Apis()
    for word, found in (
        ("exports", apis.exports),
        ("endpointslices", apis.slices),
        ("bindings", apis.bindings),
    ):
        if found:
            parts.append(f"{word}:{len(found)}")
    details = " | ".join(parts)
    gap = max(room - text_width(TITLE) - text_width(details), 1)
    return [Piece(TITLE, "title"), Piece(" " * gap), Piece(details, "detail")]


def _api_lines(apis: Apis | None, room: int) -> list[Line]:
    if apis is None:
        return []
    left = _section("APIExports", [[Piece(_name(one), "export")] for one in apis.exports])
    right = _section("APIExportEndpointSlices", [_slice(one) for one in apis.slices])
    lines = _beside(left, right, (room - 4) // 2)
    bound = _section("APIBindings", [])
    for binding in apis.bindings:
        bound.append(_item(_binding(binding)))
        bound += [
            [Piece("    └─ "), Piece(_resource(one), "resource")]
            for one in (binding.get("status") or {}).get("boundResources") or []
        ]
    if apis.bindings:
        lines += [[Piece(f"APIBindings ({len(apis.bindings)}):", "section")], *bound]
    return lines


def _section(title: str, items: list[Line]) -> list[Line]:
    if not items:
        return []
    return [[Piece(f"{title} ({len(items)}):", "section")], *(_item(item) for item in items)]


def _item(item: Line) -> Line:
    return [Piece("  • ", "item"), *item]


def _beside(left: list[Line], right: list[Line], width: int) -> list[Line]:
    lines = []
    for index in range(max(len(left), len(right))):
        one = left[index] if index < len(left) else []
        other = right[index] if index < len(right) else []
        gap = max(width - sum(text_width(piece.text) for piece in one), 0) + 4
        lines.append([*one, Piece(" " * gap), *other])
    return lines


def _slice(endpoint_slice: Object) -> Line:
    export = (endpoint_slice.get("spec") or {}).get("export") or {}
    line = [Piece(_name(endpoint_slice), "slice"), *_reference(export)]
    endpoints = (endpoint_slice.get("status") or {}).get("endpoints") or []
    return [*line, Piece(f" ({len(endpoints)} endpoints)", "item")] if endpoints else line


def _binding(binding: Object) -> Line:
    export = ((binding.get("spec") or {}).get("reference") or {}).get("export") or {}
    return [Piece(_name(binding), "binding"), *_reference(export)]


def _reference(export: Object) -> Line:
    if not export.get("name"):
        return []
    if not export.get("path"):
        return [Piece(" → ", "item"), Piece(export["name"], "source")]
    return [
        Piece(" → ", "item"),
        Piece(export["path"], "source"),
        Piece(f":{export['name']}", "item"),
    ]


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])


def _resource(bound: Object) -> str:
    group = bound.get("group") or ""
    return f"{bound['resource']}.{group}" if group else str(bound["resource"])


def text_width(text: str) -> int:
    """Columns on a terminal: some characters take two, some none."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _framed(lines: list[Line], room: int) -> list[str]:
    side = _colored("│", "border")
    empty = f"{side}{' ' * (room + 4)}{side}"
    middle = [f"{side}  {_fitted(line, room)}  {side}" for line in lines]
    top, bottom = ("╭", "╮"), ("╰", "╯")
    frame = [_colored(f"{one}{'─' * (room + 4)}{other}", "border") for one, other in (top, bottom)]
    return [frame[0], empty, *middle, empty, frame[1]]


def _fitted(line: Line, room: int) -> str:
    """A line cut or filled to its room."""
    text = ""
    left = room
    for piece in line:
        shown = ""
        for character in piece.text:
            if _columns(character) > left:
                break
            shown += character
            left -= _columns(character)
        text += _colored(shown, piece.color)
    return text + " " * left


def _colored(text: str, color: str) -> str:
    return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if color and text else text
