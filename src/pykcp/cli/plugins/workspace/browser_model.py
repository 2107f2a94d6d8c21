"""The browser's state: which nodes are open, where the cursor is, what a key does.

Nothing here talks to a server or a terminal; what is not known yet is asked of a `BrowserSource`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

Object = dict[str, Any]


@dataclass(eq=False)
class BrowserWorkspace:
    """A workspace in the browser."""

    name: str
    path: str
    type_name: str = ""
    cluster: str = ""
    is_mount: bool = False
    depth: int = 0
    is_open: bool = False
    is_home: bool = False
    """Whether it is the workspace that the kubeconfig points to."""
    children: list[BrowserWorkspace] | None = None
    """None until it has been loaded."""
    has_children: bool | None = None
    apis: Apis | None = None


@dataclass(frozen=True)
class Apis:
    """What a workspace has to do with APIs."""

    exports: list[Object] = field(default_factory=list)
    slices: list[Object] = field(default_factory=list)
    bindings: list[Object] = field(default_factory=list)


class BrowserSource(Protocol):
    """Where the browser learns what it shows."""

    def children(self, place: BrowserWorkspace) -> list[BrowserWorkspace]: ...

    def peek(self, places: list[BrowserWorkspace]) -> None:
        """Find out which of these have children."""

    def apis(self, place: BrowserWorkspace) -> Apis: ...


UP, DOWN, LEFT, RIGHT = "up", "down", "left", "right"
FIRST, LAST, PAGE_UP, PAGE_DOWN = "home", "end", "page up", "page down"
ENTER, SPACE, QUIT = "enter", "space", "quit"
_KEYS = {
    b"q": QUIT, b"\x03": QUIT, b"\x1b": QUIT,
    b"\x1b[A": UP, b"\x1bOA": UP, b"k": UP,
    b"\x1b[B": DOWN, b"\x1bOB": DOWN, b"j": DOWN,
    b"\x1b[C": RIGHT, b"\x1bOC": RIGHT, b"l": RIGHT,
    b"\x1b[D": LEFT, b"\x1bOD": LEFT, b"h": LEFT, b"\x7f": LEFT, b"\x08": LEFT,
    b"\x1b[H": FIRST, b"\x1b[1~": FIRST, b"g": FIRST,
    b"\x1b[F": LAST, b"\x1b[4~": LAST, b"G": LAST,
    b"\x1b[5~": PAGE_UP, b"\x1b[6~": PAGE_DOWN,
    b" ": SPACE, b"\r": ENTER, b"\n": ENTER,
}  # fmt: skip


def keys(data: bytes) -> list[str]:
    """What a terminal sent, as names of keys; what means nothing here is left out."""
    found = []
    while data:
        length = max((len(code) for code in _KEYS if data.startswith(code)), default=0)
        is_unknown_escape = data.startswith((b"\x1b[", b"\x1bO")) and length <= 1
        if is_unknown_escape:
            data = _without_escape(data)
            continue
        if length:
            found.append(_KEYS[data[:length]])
        data = data[length or 1 :]
    return found


def _without_escape(data: bytes) -> bytes:
    """Drop one escape sequence: it ends with a letter or a tilde."""
    for index, byte in enumerate(data[2:], 3):
        if 0x40 <= byte <= 0x7E:
            return data[index:]
    return b""


class Browser:
    """A tree with a cursor."""

    def __init__(
        self, root: BrowserWorkspace, current: BrowserWorkspace, source: BrowserSource
    ) -> None:
        self.root = root
        self.current = current
        self._source = source
        self.chosen: BrowserWorkspace | None = None
        self.is_done = False
        self.page = 10
        """How many rows the screen has; the view keeps it current."""

    def visible(self) -> list[BrowserWorkspace]:
        """The rows, from top to bottom."""
        rows: list[BrowserWorkspace] = []
        waiting = [self.root]
        while waiting:
            place = waiting.pop()
            rows.append(place)
            if place.is_open:
                waiting.extend(reversed(place.children or []))
        return rows

    def press(self, key: str) -> None:
        if key == QUIT:
            self.is_done = True
        elif key == ENTER:
            self.chosen = self.current
            self.is_done = True
        elif key == RIGHT or (key == SPACE and not self.current.is_open):
            self._open()
        elif key in (LEFT, SPACE):
            self.current.is_open = False
        else:
            self._move(key)

    def _open(self) -> None:
        place = self.current
        if place.children is None and not place.is_mount:
            place.children = self._source.children(place)
            place.has_children = bool(place.children)
        place.is_open = bool(place.children)

    def _move(self, key: str) -> None:
        rows = self.visible()
        here = rows.index(self.current)
        steps = {UP: -1, DOWN: 1, PAGE_UP: -self.page, PAGE_DOWN: self.page}
        there = {FIRST: 0, LAST: len(rows) - 1}.get(key, here + steps.get(key, 0))
        self.current = rows[min(max(there, 0), len(rows) - 1)]

    def look_here(self) -> None:
        """Learn about the place under the cursor."""
        if self.current.apis is None and not self.current.is_mount:
            self.current.apis = self._source.apis(self.current)

    def look_at(self, rows: list[BrowserWorkspace]) -> None:
        """Learn which of these rows can be opened."""
        unknown = [place for place in rows if place.has_children is None and not place.is_mount]
        if unknown:
            self._source.peek(unknown)
