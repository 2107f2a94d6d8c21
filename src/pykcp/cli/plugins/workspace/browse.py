"""`kubectl ws -i`: browse the tree in full-screen mode and enter the selected workspace."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.concurrently import for_each
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.workspace.browser_model import Apis, Browser, BrowserWorkspace, keys
from pykcp.cli.plugins.workspace.browser_view import screen
from pykcp.cli.plugins.workspace.paths import cluster_of_url, topmost
from pykcp.cli.plugins.workspace.resources import (
    Collection,
    apis,
    is_mount,
    is_terminating,
    type_name,
    url,
    workspaces,
)
from pykcp.cli.plugins.workspace.use import go
from pykcp.machinery.kcp import clusters

Object = dict[str, Any]
_ENTER_SCREEN = "\x1b[?1049h\x1b[?25l"
_LEAVE_SCREEN = "\x1b[?25h\x1b[?1049l"


def browse(session: Session, current: str, *, is_full: bool) -> None:
    source = ServerSource(session.client, is_full=is_full)
    root = source.root(topmost(current))
    home = source.open_towards(root, current)
    home.is_home = home.path == current
    browser = Browser(root, home, source)
    with _terminal() as descriptor:
        _run(browser, descriptor)
    if browser.chosen is not None:
        go(session, f":{browser.chosen.path}")


class ServerSource:
    """What the server says about workspaces."""

    def __init__(self, client: RestClient, *, is_full: bool) -> None:
        self._client = client
        self._is_full = is_full

    def root(self, path: str) -> BrowserWorkspace:
        return BrowserWorkspace(path, path, cluster=path)

    def open_towards(self, root: BrowserWorkspace, path: str) -> BrowserWorkspace:
        """Open the places on the way to a path; the last one that was found."""
        place = root
        place.children = self._children(root)
        while place.path != path:
            place.is_open = True
            nearer = [one for one in place.children or [] if clusters.has_prefix(path, one.path)]
            if not nearer:
                break
            place = nearer[0]
            place.children = self._children(place)
        place.has_children = bool(place.children)
        place.is_open = bool(place.children)
        return place

    def children(self, place: BrowserWorkspace) -> list[BrowserWorkspace]:
        try:
            return self._children(place)
        except PluginError:
            return []  # one that may not be looked into is shown without children

    def _children(self, place: BrowserWorkspace) -> list[BrowserWorkspace]:
        try:
            found = workspaces(self._client, place.path).list()
        except ServerError as error:
            if error.is_not_found:
                return []
            raise
        made = [self._place(one, place) for one in found if not is_terminating(one)]
        place.has_children = bool(made)
        return [one for one in made if one is not None]

    def _place(self, workspace: Object, parent: BrowserWorkspace) -> BrowserWorkspace | None:
        name = workspace["metadata"]["name"]
        label = clusters.join(parent.name, name) if self._is_full else name
        there = cluster_of_url(url(workspace))
        mounted = is_mount(workspace)
        if there is None and not mounted:
            return None
        path = clusters.join(parent.path, name) if mounted or there is None else there.path
        return BrowserWorkspace(
            f"{label} [m]" if mounted else label,
            path,
            type_name(workspace),
            str((workspace.get("spec") or {}).get("cluster") or ""),
            is_mount=mounted,
            depth=parent.depth + 1,
        )

    def peek(self, places: list[BrowserWorkspace]) -> None:
        for_each(self._client, places, self._peek)

    def _peek(self, client: RestClient, place: BrowserWorkspace) -> None:
        try:
            place.has_children = bool(workspaces(client, place.path).list("?limit=1"))
        except PluginError:
            place.has_children = False

    def apis(self, place: BrowserWorkspace) -> Apis:
        return Apis(
            self._listed(apis(self._client, place.path, "apiexports")),
            self._listed(apis(self._client, place.path, "apiexportendpointslices", "v1alpha1")),
            self._listed(apis(self._client, place.path, "apibindings")),
        )

    def _listed(self, collection: Collection) -> list[Object]:
        try:
            return collection.list()
        except PluginError:
            return []  # what may not be seen is not shown


@contextmanager
def _terminal() -> Iterator[int]:
    """The terminal in a mode in which every key is seen at once; as it was, afterwards."""
    descriptor = _open_terminal()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor, termios.TCSANOW)
        os.write(descriptor, _ENTER_SCREEN.encode())
        yield descriptor
    finally:
        os.write(descriptor, _LEAVE_SCREEN.encode())
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _open_terminal() -> int:
    if sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        return sys.stdin.fileno()
    try:
        return os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise PluginError(f"could not open a new TTY: open /dev/tty: {reason}") from None


def _run(browser: Browser, descriptor: int) -> None:
    with _resize_events() as resized:
        first, is_open = 0, True
        while is_open and not browser.is_done:
            size = os.get_terminal_size(descriptor)
            lines, window = screen(browser, size.columns, size.lines, first)
            first = window.first
            _draw(descriptor, lines[: size.lines])
            ready, _, _ = select.select([descriptor, resized], [], [])
            if resized in ready:
                os.read(resized, 64)
            if descriptor in ready:
                is_open = _read_keys(browser, descriptor)


def _read_keys(browser: Browser, descriptor: int) -> bool:
    """Press what was typed; False if the terminal is gone."""
    data = os.read(descriptor, 256)
    for key in keys(data):
        if not browser.is_done:
            browser.press(key)
    return bool(data)


def _draw(descriptor: int, lines: list[str]) -> None:
    text = "\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J"
    data = text.encode()
    while data:
        data = data[os.write(descriptor, data) :]


@contextmanager
def _resize_events() -> Iterator[int]:
    """A descriptor that can be read when the terminal has got another size."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before_fd = signal.set_wakeup_fd(writer)
    before = signal.signal(signal.SIGWINCH, lambda *_: None)
    try:
        yield reader
    finally:
        signal.signal(signal.SIGWINCH, before)
        signal.set_wakeup_fd(before_fd)
        os.close(reader)
        os.close(writer)
