"""The files of the console, prepared once, on first use.

The page contains its style sheet, and names all modules that it starts with, so that a browser
paints it after one answer and then requests these modules at once. Modules are below a folder
that is named after their content: browsers keep them without asking again.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import dirname, normpath
from typing import NamedTuple

_ASSETS = pathlib.Path(__file__).parent / "assets"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAGE, _STYLE, _MAIN = "index.html", "console.css", "main.js"
_FIRST_PAGE = "pages/overview.js"
"""Loaded on first use, as all pages; nearly everyone sees it first."""
_IMPORT = re.compile(r'^import .* from "(\.[^"]+)";$', re.MULTILINE)
_VERSIONED = re.compile(r"v/([0-9a-f]{16})/(.+)")


class StaticFile(NamedTuple):
    content_type: str
    etag: str
    content: bytes
    compressed: bytes


class FoundFile(NamedTuple):
    file: StaticFile
    is_fixed: bool
    """Whether the address always has this content."""


@dataclass(frozen=True, slots=True)
class ConsoleFiles:
    version: str
    """Of all files together."""
    style_hash: str
    """Of the style sheet in the page, for the content security policy."""
    by_name: dict[str, StaticFile]

    def find(self, name: str) -> FoundFile | None:
        """By the path below `/console/`; the page itself is "".

        A page that was opened before an update names the old version, and gets the new files.
        """
        versioned = _VERSIONED.fullmatch(name)
        version, plain = versioned.groups() if versioned else ("", name)
        file = self.by_name.get(plain)
        return None if file is None else FoundFile(file, version == self.version)


def load_files() -> ConsoleFiles:
    texts = {
        path.relative_to(_ASSETS).as_posix(): path.read_bytes()
        for path in sorted(_ASSETS.rglob("*"))
        if path.suffix in _TYPES
    }
    version = hashlib.sha256(b"\0".join(texts.values())).hexdigest()[:16]
    style = texts[_STYLE]
    files = {name: _prepare(name, text) for name, text in texts.items() if name != _PAGE}
    files[""] = _prepare(_PAGE, _page(texts, version))
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    return ConsoleFiles(version, f"sha256-{digest}", files)


def _page(texts: dict[str, bytes], version: str) -> bytes:
    names = list(_imported(texts, _MAIN, _FIRST_PAGE))
    links = "\n".join(f'<link rel="modulepreload" href="v/{version}/{name}">' for name in names)
    page = texts[_PAGE].decode()
    for mark, made in (
        ("<!-- style -->", f"<style>{texts[_STYLE].decode()}</style>"),
        ("<!-- modules -->", links),
        ('src="main.js"', f'src="v/{version}/{_MAIN}"'),
    ):
        assert page.count(mark) == 1, mark
        page = page.replace(mark, made)
    return page.encode()


def _imported(texts: dict[str, bytes], *first: str) -> Iterator[str]:
    """Modules and those that they import, each once."""
    waiting, seen = list(first), set(first)
    while waiting:
        name = waiting.pop(0)
        yield name
        for relative in _IMPORT.findall(texts[name].decode()):
            found = normpath(f"{dirname(name)}/{relative}").removeprefix("/")
            if found not in seen:
                seen.add(found)
                waiting.append(found)


def _prepare(name: str, content: bytes) -> StaticFile:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    content_type = _TYPES[pathlib.PurePosixPath(name).suffix]
    return StaticFile(content_type, etag, content, gzip.compress(content, 9, mtime=0))
