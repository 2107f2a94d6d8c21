"""Small pictures: screenshots with at most 256 colours."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MOST_COLOURS = 256
_SEEN = 300
"""Squared distance of colours that one sees."""
_UNSTABLE = 0.012
"""Share of a picture that differs between two runs."""


Pixel = tuple[int, int, int]
Rows = list[list[Pixel]]


def shrunk(png: bytes) -> bytes:
    """A screenshot (8 bits, RGB or RGBA) as an indexed PNG with its most frequent colours."""
    rows = _decoded(png)
    often = Counter(pixel for row in rows for pixel in row).most_common()
    palette = {colour: index for index, (colour, _) in enumerate(often[:_MOST_COLOURS])}
    chosen = list(palette)
    for colour, _ in often[_MOST_COLOURS:]:
        palette[colour] = palette[min(chosen, key=lambda one, c=colour: _distance(one, c))]
    lines = b"".join(b"\0" + bytes(palette[pixel] for pixel in row) for row in rows)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    shades = b"".join(map(bytes, chosen))
    parts = ((b"IHDR", head), (b"PLTE", shades), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(name, content) for name, content in parts)


def is_like(old: bytes, new: bytes) -> bool:
    """Whether two shrunk pictures show the same, but for times, ports and names that are made up."""
    before, after = _decoded(old), _decoded(new)
    if (len(before), len(before[0])) != (len(after), len(after[0])):
        return False
    pairs = zip(before, after, strict=True)
    changed = sum(
        _distance(a, b) > _SEEN for one, other in pairs for a, b in zip(one, other, strict=True)
    )
    return changed < _UNSTABLE * len(before) * len(before[0])


def _distance(one: Pixel, other: Pixel) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _decoded(png: bytes) -> Rows:
    chunks = dict(_chunks(png))
    width, height, depth, form = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, form in (2, 3, 6)) == (8, True)
    step = {2: 3, 3: 1, 6: 4}[form]
    data = b"".join(content for name, content in _chunks(png) if name == b"IDAT")
    rows = list(_unfiltered(zlib.decompress(data), width, height, step))
    if form != 3:
        return [_pixels(row, step) for row in rows]
    flat = chunks[b"PLTE"]
    colours = [(flat[i], flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)]
    return [[colours[index] for index in row] for row in rows]


def _pixels(row: bytes, step: int) -> list[Pixel]:
    return list(zip(row[0::step], row[1::step], row[2::step], strict=True))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += size + 12


def _chunk(name: bytes, content: bytes) -> bytes:
    check = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)


def _unfiltered(data: bytes, width: int, height: int, step: int) -> Iterator[bytes]:
    size = width * step
    above = bytearray(size)
    for number in range(height):
        start = number * (size + 1)
        kind, line = data[start], bytearray(data[start + 1 : start + 1 + size])
        _restore(kind, line, above, step)
        yield bytes(line)
        above = line


def _restore(kind: int, line: bytearray, above: bytearray, step: int) -> None:
    """Undo the filter of one line, as the PNG specification describes it."""
    for i in range(len(line)) if kind else ():
        left = line[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        if kind == 1:
            value = left
        elif kind == 2:
            value = above[i]
        elif kind == 3:
            value = (left + above[i]) // 2
        else:
            guess = left + above[i] - corner
            distances = (abs(guess - left), abs(guess - above[i]), abs(guess - corner))
            value = (left, above[i], corner)[distances.index(min(distances))]
        line[i] = (line[i] + value) & 0xFF
