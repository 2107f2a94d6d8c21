"""Templates: objects that every new logical cluster gets, equal except for a few words.

The first copy is created like any object: decoded, defaulted, admitted and validated. Its
stored form, with placeholders for these words, is the template of later copies, which skip
those steps. This is correct only if no policy, quota or claim could decide differently for a
later copy: in logical clusters that the same transaction creates, which have none of their own
yet. `transaction` rejects templates for other logical clusters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykcp.machinery.terms import TERM_SEPARATOR
from pykcp.registry.codec import HEAD, decode, fill
from pykcp.storage.interface import Value
from pykcp.storage.operations import PutKey
from pykcp.types import Object

_GAP = "\x00"
_BREAK = "\x01"
_TIME = re.compile(r'"\d{4}-\d\d-\d\dT[^"]*"')


class ObjectTemplate:
    """Empty at first; `learn` makes it of a finished object."""

    __slots__ = ("_order", "_pieces")

    def __init__(self) -> None:
        self._pieces: tuple[str, ...] = ()
        self._order: tuple[int, ...] = ()

    def instantiate(self, words: Sequence[str]) -> tuple[Value, str, tuple[str, ...]] | None:
        """Value, terms and index entries with these words; None if the template is empty.

        None as well if a word needs escapes: users choose names, and with them paths.
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

    def learn(self, put: PutKey, words: Sequence[str]) -> None:
        """Of an object with these words, which are whole strings in it.

        It stays empty if one of the words also occurs within another string, or if the object
        has a time that is not one of the words: copies would get these wrong.
        """
        if put.value.head != HEAD or not _are_plain(words):
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
    """An object to be made from a template, or to make the template of."""

    template: ObjectTemplate
    namespace: str
    name: str
    make: Callable[[], Object]
    """The whole object, for the first copy."""
    words: tuple[str, ...] = ()
    """In what it differs from other copies, besides its cluster, uid and times."""


def uid_and_time(put: PutKey) -> tuple[str, str]:
    """Of a new object."""
    metadata = decode(fill(put.value, 0))["metadata"]
    return metadata["uid"], metadata["creationTimestamp"]
