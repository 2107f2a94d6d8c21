"""Regular expressions in time linear in the text, with RE2's syntax and results.

A pattern is compiled to a small automaton. Where Python's own engine provably cannot
run away (no nested repetition that could split a text in many ways, and a text short
enough for the number of repetitions), that is used, since it is faster; everything else
runs on the automaton: a lazily built DFA to test, a list of threads to find.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pykcp.machinery.cel.regex_automaton import DFA, Program, TooMuchWork
from pykcp.machinery.cel.regex_sets import Ranges, union
from pykcp.machinery.cel.regex_syntax import RegexError, Tree, parse
from pykcp.machinery.cel.values import CostExceeded

__all__ = ["Regex", "RegexError", "compiled"]

_BACKTRACKING_STEPS = 200_000
"""Steps that a backtracking match may take at worst: a millisecond or two."""
_MAX_RANGES = 5_000
"""Ranges of characters in a pattern up to which Python's engine is given it."""
_UNBOUNDED = 4
"""A repetition that may take this much more than it must counts as unbounded."""


@lru_cache(maxsize=512)
def compiled(pattern: str) -> Regex:
    return Regex(pattern)


class Regex:
    def __init__(self, pattern: str) -> None:
        tree = parse(pattern)
        self._program = Program(tree, pattern)
        self._python: re.Pattern[str] | None = None
        self._limit = 0
        degree = _degree(tree) if _weight(tree) <= _MAX_RANGES else None
        if degree is not None:
            self._python = re.compile(_to_python(tree))
            degree += not _is_anchored(tree)
            self._limit = int(_BACKTRACKING_STEPS ** (1 / degree)) if degree else 1 << 30
        self._dfa = DFA(self._program)

    def search(self, text: str) -> bool:
        """Whether it matches anywhere; what takes too long to tell counts as no match."""
        try:
            return self.test(text)
        except CostExceeded:
            return False

    def test(self, text: str) -> bool:
        """Whether it matches anywhere; raises CostExceeded when that takes too long to tell."""
        if self._python is not None and len(text) <= self._limit:
            return self._python.search(text) is not None
        try:
            return self._dfa.search(text)
        except TooMuchWork:
            raise CostExceeded from None

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """The leftmost match, and of those the one that is preferred."""
        if self._python is not None and len(text) <= self._limit:
            found = self._python.search(text, start)
            return found.span() if found is not None else None
        try:
            return self._program.find(text, start)
        except TooMuchWork:
            raise CostExceeded from None

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        out: list[str] = []
        at, previous = 0, -1
        while at <= len(text) and (limit < 0 or len(out) < limit):
            span = self.find(text, at)
            if span is None:
                break
            begin, end = span
            if begin == end and begin == previous:
                at = end + 1
                continue
            out.append(text[begin:end])
            at = end if end > at else (at + 1 if begin == end == at else end)
            previous = end
        return out


# --- what Python's engine may be trusted with


def _degree(tree: Tree) -> int | None:
    """The exponent of the time that backtracking takes at worst; None: no bound."""
    match tree[0]:
        case "cat" | "alt":
            degrees = [_degree(t) for t in tree[1]]
            return None if None in degrees else sum(d for d in degrees if d is not None)
        case "rep":
            inner = _degree(tree[1])
            _, body, least, most, _ = tree
            if inner is None:
                return None
            if most is not None and most - least < _UNBOUNDED:
                return inner
            if _may_be_empty(body):
                return None
            if (inner or _has_choice(body)) and not _is_separated(body):
                return None
            return inner + 1
        case _:
            return 0


def _weight(tree: Tree) -> int:
    """How many ranges of characters a pattern speaks of."""
    match tree[0]:
        case "set":
            return len(tree[1])
        case "cat" | "alt":
            return sum(_weight(t) for t in tree[1])
        case "rep":
            return _weight(tree[1])
        case _:
            return 1


def _has_choice(tree: Tree) -> bool:
    """Whether one text can be matched in more than one way or length."""
    match tree[0]:
        case "alt":
            return True
        case "cat":
            return any(_has_choice(t) for t in tree[1])
        case "rep":
            return bool(tree[2] != tree[3]) or _has_choice(tree[1])
        case _:
            return False


def _flat(tree: Tree) -> list[Tree]:
    if tree[0] == "cat":
        return [part for t in tree[1] for part in _flat(t)]
    return [tree]


def _is_separated(body: Tree) -> bool:
    """Whether each turn of a loop starts or ends with a character found nowhere else in it."""
    parts = _flat(body)
    for edge, rest in ((parts[0], parts[1:]), (parts[-1], parts[:-1])):
        if edge[0] == "set" and not _overlap(edge[1], _all_chars(rest)):
            return True
    return False


def _all_chars(trees: list[Tree]) -> Ranges:
    out: list[Ranges] = []
    for tree in trees:
        match tree[0]:
            case "set":
                out.append(tree[1])
            case "cat" | "alt":
                out.append(_all_chars(list(tree[1])))
            case "rep":
                out.append(_all_chars([tree[1]]))
    return union(*out)


def _overlap(a: Ranges, b: Ranges) -> bool:
    return any(x[0] <= y[1] and y[0] <= x[1] for x in a for y in b)


def _may_be_empty(tree: Tree) -> bool:
    match tree[0]:
        case "set":
            return False
        case "cat":
            return all(_may_be_empty(t) for t in tree[1])
        case "alt":
            return any(_may_be_empty(t) for t in tree[1])
        case "rep":
            return tree[2] == 0 or _may_be_empty(tree[1])
        case _:
            return True


def _is_anchored(tree: Tree) -> bool:
    parts = _flat(tree)
    return bool(parts) and parts[0] == ("assert", "bot")


_PYTHON_ASSERT = {
    "bot": r"\A",
    "eot": r"\Z",
    "bol": r"(?m:^)",
    "eol": r"(?=\n|\Z)",
    "word": r"(?a:\b)",
    "not_word": r"(?!(?a:\b))",
}


def _to_python(tree: Tree) -> str:
    match tree[0]:
        case "set":
            return _python_set(tree[1])
        case "cat":
            return "".join(_to_python(t) for t in tree[1])
        case "alt":
            return "(?:" + "|".join(_to_python(t) for t in tree[1]) + ")"
        case "rep":
            _, body, least, most, greedy = tree
            count = f"{{{least},{'' if most is None else most}}}"
            return f"(?:{_to_python(body)}){count}{'' if greedy else '?'}"
        case _:
            return _PYTHON_ASSERT[tree[1]]


def _python_set(ranges: Ranges) -> str:
    if not ranges:
        return "(?!)"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    body = "".join(
        f"\\U{low:08x}" if low == high else f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges
    )
    return f"[{body}]"
