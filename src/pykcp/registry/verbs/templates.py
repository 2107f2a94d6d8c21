"""Objects that are made over and over, alike but for a few words.

The first passes decoding, admission and validation as any object does. What came of it, with
gaps where its words were, is the mould for those after it. That is only right where nothing
can make a difference for later ones: in logical clusters that are made by the same write,
which have no rules, quotas or claims of their own yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykcp.machinery.terms import TERM_SEPARATOR
from pykcp.registry.codec import HEAD, decode, fill
from pykcp.storage.interface import PutKey, Value
from pykcp.types import Object

_GAP = "\x00"
_BREAK = "\x01"
_TIME = re.compile(r'"\d{4}-\d\d-\d\dT[^"]*"')


class Template:
    """Empty at first; `take` makes it of a finished object."""

    __slots__ = ("_order", "_pieces")

    def __init__(self) -> None:
        self._pieces: tuple[str, ...] = ()
        self._order: tuple[int, ...] = ()

    def cast(self, words: Sequence[str]) -> tuple[Value, str, tuple[str, ...]] | None:
        """Value, terms and index entries with these words; None if the mould is empty.

        None as well if a word needs escapes: people choose their names, and with them paths.
        """
        pieces = self._pieces
        if not pieces or not _are_plain(words):
            return None
        out = [pieces[0]]
        for at, piece in zip(self._order, pieces[1:], strict=True):
            out.append(words[at])
            out.append(piece)
        tail, terms, *indexes = "".join(out).split(_BREAK)
        return Value(HEAD, tail.encode()), terms, tuple(indexes)

    def take(self, put: PutKey, words: Sequence[str]) -> None:
        """Of an object with these words, which are whole strings in it.

        It stays empty if something would be left of them, or another time than theirs.
        """
        if not _are_plain(words):
            return
        tail, terms = put.value.tail.decode(), put.terms
        for at, word in enumerate(words):
            gap = f"{_GAP}{at}{_GAP}"
            tail = tail.replace(f'"{word}"', f'"{gap}"')
            terms = terms.replace(f"={word}{TERM_SEPARATOR}", f"={gap}{TERM_SEPARATOR}")
        text = _BREAK.join((tail, terms, *put.indexes))
        if _TIME.search(text) or any(word in text for word in words):
            return
        parts = text.split(_GAP)
        self._pieces, self._order = tuple(parts[::2]), tuple(map(int, parts[1::2]))


def _are_plain(words: Sequence[str]) -> bool:
    """Whether they stand in JSON as they are, and hold nothing that means something here."""
    text = "".join(words)
    return text.isprintable() and '"' not in text and "\\" not in text


class TemplateCopy(NamedTuple):
    """An object to be made in a mould, or to make one."""

    mould: Template
    namespace: str
    name: str
    make: Callable[[], Object]
    words: tuple[str, ...] = ()
    """In what it differs from others, besides its cluster, uid and times."""


def uid_and_time(put: PutKey) -> tuple[str, str]:
    """Of a new object."""
    metadata = decode(fill(put.value, 0))["metadata"]
    return metadata["uid"], metadata["creationTimestamp"]
