"""Sets of characters as sorted ranges of code points: classes, negation, other cases."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import lru_cache

Ranges = tuple[tuple[int, int], ...]
MAX_RUNE = 0x10FFFF
_DIGIT: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 10), (12, 13), (32, 32))
PERL = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
POSIX: dict[str, Ranges] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": _DIGIT,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": _WORD,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_CATEGORY = re.compile("C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?")
_SCRIPTS = {
    "Latin": "LATIN ", "Greek": "GREEK ", "Cyrillic": "CYRILLIC ", "Arabic": "ARABIC ",
    "Hebrew": "HEBREW ", "Thai": "THAI ", "Devanagari": "DEVANAGARI ", "Hangul": "HANGUL ",
    "Hiragana": "HIRAGANA ", "Katakana": "KATAKANA ", "Han": "CJK UNIFIED IDEOGRAPH",
    "Armenian": "ARMENIAN ", "Georgian": "GEORGIAN ", "Bengali": "BENGALI ", "Tamil": "TAMIL ",
}  # fmt: skip


_SMALL = 2000
"""Characters in a set up to which each is looked at by itself."""


class CharSet:
    """Ranges, to be asked quickly whether they hold a character."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Ranges) -> None:
        self._starts = [low for low, _ in ranges]
        self._ends = [high for _, high in ranges]

    def __contains__(self, code: int) -> bool:
        at = bisect_right(self._starts, code) - 1
        return at >= 0 and code <= self._ends[at]


def union(*parts: Ranges) -> Ranges:
    out: list[tuple[int, int]] = []
    for low, high in sorted(r for part in parts for r in part):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


def negate(ranges: Ranges) -> Ranges:
    out: list[tuple[int, int]] = []
    start = 0
    for low, high in union(ranges):
        if low > start:
            out.append((start, low - 1))
        start = high + 1
    if start <= MAX_RUNE:
        out.append((start, MAX_RUNE))
    return tuple(out)


@lru_cache(maxsize=64)
def unicode_class(name: str) -> Ranges | None:
    if name == "Any":
        return ((0, MAX_RUNE),)
    prefix = _SCRIPTS.get(name)
    if prefix is None and not _CATEGORY.fullmatch(name):
        return None
    out: list[tuple[int, int]] = []
    for code in range(MAX_RUNE + 1):
        char = chr(code)
        if prefix is None:
            inside = unicodedata.category(char).startswith(name)
        else:
            inside = unicodedata.name(char, "").startswith(prefix)
        if inside:
            if out and out[-1][1] == code - 1:
                out[-1] = (out[-1][0], code)
            else:
                out.append((code, code))
    return tuple(out)


@lru_cache(maxsize=1)
def _other_cases() -> tuple[tuple[int, int], ...]:
    """All pairs of a letter and one of its other cases."""
    out: list[tuple[int, int]] = []
    for code in range(0x1E944):
        char = chr(code)
        others = {char.lower(), char.upper(), char.swapcase()} - {char}
        out += [(code, ord(o)) for o in others if len(o) == 1]
    return tuple(out)


@lru_cache(maxsize=512)
def fold(ranges: Ranges) -> Ranges:
    """The set with the other cases of its letters."""
    more: list[tuple[int, int]] = []
    if sum(high - low for low, high in ranges) > _SMALL:
        inside = CharSet(ranges)
        more = [(other, other) for code, other in _other_cases() if code in inside]
    else:
        for low, high in ranges:
            for code in range(low, high + 1):
                char = chr(code)
                others = {char.lower(), char.upper(), char.swapcase()} - {char}
                more += [(ord(o), ord(o)) for o in others if len(o) == 1]
    folded = union(ranges, tuple(more))
    if any(low <= 0x4B <= high or low <= 0x6B <= high for low, high in folded):
        folded = union(folded, ((0x212A, 0x212A),))  # the sign of Kelvin
    if any(low <= 0x53 <= high or low <= 0x73 <= high for low, high in folded):
        folded = union(folded, ((0x17F, 0x17F),))  # the long s
    return folded
