"""`Range`: which part of a document a client asks for (RFC 9110, section 14). Pure."""

from __future__ import annotations

import re

_SPEC = re.compile(r"([0-9]{0,18})\s*-\s*([0-9]{0,18})")


class BadRange(ValueError):
    """Answered with 416; the message is Go's."""


class OutOfRange(BadRange):
    """The document is shorter."""


def part_of(header: str, size: int) -> range | None:
    """The octets that are asked for; None if it is the whole document.

    Several ranges at once are answered with the whole, as a server may.
    """
    unit, _, text = header.partition("=")
    if not header or not size:
        return None
    if unit != "bytes":
        raise BadRange("invalid range")
    specs = [spec.strip() for spec in text.split(",", 8)]
    parts = [_part(spec, size) for spec in specs if spec]
    fitting = [part for part in parts if part is not None]
    if parts and not fitting:
        raise OutOfRange("invalid range: failed to overlap")
    return fitting[0] if len(fitting) == 1 else None


def _part(spec: str, size: int) -> range | None:
    """The octets of `first-last`, `first-` or `-length`; None if the document is shorter."""
    found = _SPEC.fullmatch(spec)
    if found is None or found.groups() == ("", ""):
        raise BadRange("invalid range")
    first, last = found.groups()
    if not first:
        return range(max(0, size - int(last)), size)
    if int(first) >= size:
        return None
    if last and int(first) > int(last):
        raise BadRange("invalid range")
    return range(int(first), min(int(last) + 1, size) if last else size)
