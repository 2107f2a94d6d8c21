"""Ranges of keys. Python's order of strings and SQLite's order of UTF-8 bytes are the same."""

from __future__ import annotations

TRASH = "~"
"""In front of keys of what is deleted and kept for a while; the rest says of which resource."""

MARKS = f"{TRASH}pykcp/"
"""In front of keys that are no objects: their revision is what they say."""

PART_POSITION = 2
"""The segment of a key that names its logical cluster; logical clusters move as a whole."""

FIRST_SURROGATE, LAST_SURROGATE = 0xD800, 0xDFFF


def end_of_prefix(prefix: str) -> str | None:
    """The smallest key after all keys that start with the prefix; None: there is no such key."""
    while prefix:
        following = ord(prefix[-1]) + 1
        if FIRST_SURROGATE <= following <= LAST_SURROGATE:
            following = LAST_SURROGATE + 1
        if following <= 0x10FFFF:
            return prefix[:-1] + chr(following)
        prefix = prefix[:-1]
    return None


def start_of_range(prefix: str, after: str) -> str:
    """The smallest key that starts with the prefix and comes after `after` (inclusive start)."""
    return max(prefix, after + "\0") if after else prefix


def part_of(key: str) -> str:
    """The logical cluster of a key or of a prefix; "" for a prefix that spans all of them."""
    segments = key.split("/", PART_POSITION + 1)
    return segments[PART_POSITION] if len(segments) > PART_POSITION else ""


def prefix_of_part(part: str) -> str:
    """What stands for all prefixes of a logical cluster, whatever the kind of the objects."""
    return f"//{part}/"


def resource_of(key: str) -> str:
    """The beginning of a key up to its logical cluster."""
    return key[: key.index("/", key.index("/") + 1) + 1]
