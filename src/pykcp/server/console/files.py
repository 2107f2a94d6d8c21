"""The files of the console, compressed once, on first use."""

from __future__ import annotations

import gzip
import hashlib
import pathlib
from typing import NamedTuple

_ASSETS = pathlib.Path(__file__).parent / "assets"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class StaticFile(NamedTuple):
    content_type: str
    etag: str
    content: bytes
    compressed: bytes


def load_files() -> dict[str, StaticFile]:
    """By path below `/console/`; the page itself is ""."""
    found: dict[str, StaticFile] = {}
    for path in sorted(_ASSETS.rglob("*")):
        content_type = _TYPES.get(path.suffix)
        if content_type is None:
            continue
        content = path.read_bytes()
        etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        file = StaticFile(content_type, etag, content, gzip.compress(content, 9, mtime=0))
        found[path.relative_to(_ASSETS).as_posix()] = file
    found[""] = found.pop("index.html")
    return found
