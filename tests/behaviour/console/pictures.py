"""Small pictures: screenshots with at most 256 colours."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MOST_COLOURS = 256


def shrunk(png: bytes) -> bytes:
    """A screenshot (8 bits, RGB or RGBA) as an indexed PNG."""
    chunks = dict(_chunks(png))
    width, height, depth, form = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, form in (2, 6)) == (8, True)
    step = 3 if form == 2 else 4
    data = b"".join(content for name, content in _chunks(png) if name == b"IDAT")
    rows = list(_unfiltered(zlib.decompress(data), width, height, step))
    for bits in range(8, 1, -1):
        mask = 0xFF & ~((1 << (8 - bits)) - 1)
        coarse = [_pixels(row, step, mask) for row in rows]
        colours = Counter(pixel for row in coarse for pixel in row)
        if len(colours) <= _MOST_COLOURS:
            break
    palette = {colour: index for index, (colour, _) in enumerate(colours.most_common())}
    lines = b"".join(b"\0" + bytes(palette[pixel] for pixel in row) for row in coarse)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    shades = b"".join(
        bytes(min(255, value + (255 - mask) // 2) if value else 0 for value in colour)
        for colour in palette
    )
    parts = ((b"IHDR", head), (b"PLTE", shades), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(name, content) for name, content in parts)


def _pixels(row: bytes, step: int, mask: int) -> list[tuple[int, int, int]]:
    reds, greens, blues = row[0::step], row[1::step], row[2::step]
    return [(r & mask, g & mask, b & mask) for r, g, b in zip(reds, greens, blues, strict=True)]


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
