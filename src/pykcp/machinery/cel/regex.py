"""Regular expressions in time linear in the text, with RE2's syntax and results.

A pattern is compiled to a small automaton. Where Python's own engine provably cannot
run away (no nested repetition that could split a text in many ways, and a text short
enough for the number of repetitions), that is used, since it is faster; everything else
runs on the automaton: a lazily built DFA to test, a list of threads to find.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pykcp.machinery.cel.regex_syntax import Ranges, RegexError, Tree, parse, union

__all__ = ["Regex", "RegexError", "compiled"]

_BACKTRACKING_STEPS = 200_000
"""Steps that a backtracking match may take at worst: a millisecond or two."""
_MAX_STATES = 5_000
"""States of a DFA that are kept; then it starts over."""
_MAX_PROGRAM = 60_000
_UNBOUNDED = 4
"""A repetition that may take this much more than it must counts as unbounded."""


@lru_cache(maxsize=512)
def compiled(pattern: str) -> Regex:
    return Regex(pattern)


class Regex:
    def __init__(self, pattern: str) -> None:
        tree = parse(pattern)
        self._program = _Program(tree, pattern)
        self._python: re.Pattern[str] | None = None
        self._limit = 0
        degree = _degree(tree)
        if degree is not None:
            self._python = re.compile(_to_python(tree))
            degree += not _is_anchored(tree)
            self._limit = int(_BACKTRACKING_STEPS ** (1 / degree)) if degree else 1 << 30
        self._dfa = _DFA(self._program)

    def search(self, text: str) -> bool:
        """Whether it matches anywhere."""
        if self._python is not None and len(text) <= self._limit:
            return self._python.search(text) is not None
        return self._dfa.search(text)

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """The leftmost match, and of those the one that is preferred."""
        if self._python is not None and len(text) <= self._limit:
            found = self._python.search(text, start)
            return found.span() if found is not None else None
        return self._program.find(text, start)

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


# --- the automaton

_CHAR, _SPLIT, _JUMP, _ASSERT, _MATCH = range(5)
Instruction = tuple[int, object, int]


class _Program:
    """Instructions: a set and where to go, two ways to go (preferred first), a condition."""

    def __init__(self, tree: Tree, pattern: str) -> None:
        self.code: list[list[object]] = []
        self.pattern = pattern
        self._emit(tree)
        self.code.append([_MATCH])
        self.asserts = any(i[0] == _ASSERT for i in self.code)

    def _add(self, *instruction: object) -> int:
        if len(self.code) > _MAX_PROGRAM:
            raise RegexError("expression too large", self.pattern)
        self.code.append(list(instruction))
        return len(self.code) - 1

    def _emit(self, tree: Tree) -> None:
        match tree[0]:
            case "set":
                self._add(_CHAR, tree[1])
            case "cat":
                for part in tree[1]:
                    self._emit(part)
            case "alt":
                self._emit_alternatives(tree[1])
            case "rep":
                self._emit_repetition(*tree[1:])
            case _:
                self._add(_ASSERT, tree[1])

    def _emit_alternatives(self, branches: tuple[Tree, ...]) -> None:
        jumps: list[int] = []
        for branch in branches[:-1]:
            split = self._add(_SPLIT, len(self.code) + 1, 0)
            self._emit(branch)
            jumps.append(self._add(_JUMP, 0))
            self.code[split][2] = len(self.code)
        self._emit(branches[-1])
        for jump in jumps:
            self.code[jump][1] = len(self.code)

    def _emit_repetition(self, body: Tree, least: int, most: int | None, greedy: bool) -> None:
        if most is None:
            for _ in range(least - 1):
                self._emit(body)
            self._emit_unbounded(body, greedy, optional=least == 0)
            return
        for _ in range(least):
            self._emit(body)
        splits: list[int] = []
        for _ in range(most - least):
            splits.append(self._add(_SPLIT, 0, 0))
            self._emit(body)
        for split in splits:
            self._aim(split, split + 1, len(self.code), greedy)

    def _emit_unbounded(self, body: Tree, greedy: bool, *, optional: bool) -> None:
        """One turn or more; none is an alternative to that, which keeps empty turns in order."""
        skip = self._add(_SPLIT, 0, 0) if optional else -1
        start = len(self.code)
        self._emit(body)
        again = self._add(_SPLIT, 0, 0)
        self._aim(again, start, len(self.code), greedy)
        if optional:
            self._aim(skip, start, len(self.code), greedy)

    def _aim(self, split: int, into: int, past: int, greedy: bool) -> None:
        self.code[split][1:] = [into, past] if greedy else [past, into]

    def closure(self, start: int, seen: set[int], holds: frozenset[str]) -> list[int]:
        """The instructions that read a character or match, reached from `start` in order."""
        out: list[int] = []
        stack = [start]
        while stack:
            pc = stack.pop()
            if pc in seen:
                continue
            seen.add(pc)
            instruction = self.code[pc]
            match instruction[0]:
                case 1:
                    stack.append(instruction[2])  # type: ignore[arg-type]
                    stack.append(instruction[1])  # type: ignore[arg-type]
                case 2:
                    stack.append(instruction[1])  # type: ignore[arg-type]
                case 3:
                    if instruction[1] in holds:
                        stack.append(pc + 1)
                case _:
                    out.append(pc)
        return out

    def reads(self, pc: int, char: str) -> bool:
        ranges = self.code[pc][1]
        code = ord(char)
        return any(low <= code <= high for low, high in ranges)  # type: ignore[attr-defined]

    def find(self, text: str, start: int) -> tuple[int, int] | None:
        """All threads in step, the preferred ones first."""
        threads: list[tuple[int, int]] = []
        found: tuple[int, int] | None = None
        for at in range(start, len(text) + 1):
            if found is None:
                threads.append((0, at))
            elif not threads:
                break
            holds = _context(text, at)
            seen: set[int] = set()
            following: list[tuple[int, int]] = []
            for pc, begin in threads:
                done = False
                for reached in self.closure(pc, seen, holds):
                    if self.code[reached][0] == _MATCH:
                        found, done = (begin, at), True
                        break
                    if at < len(text) and self.reads(reached, text[at]):
                        following.append((reached + 1, begin))
                if done:
                    break
            threads = following
        return found


def _is_word(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())


@lru_cache(maxsize=64)
def _holds(before: str, after: str) -> frozenset[str]:
    """Which conditions hold between two kinds of neighbours: "", "w", "n" or "x"."""
    out = {"word" if (before == "w") != (after == "w") else "not_word"}
    if before == "":
        out |= {"bot", "bol"}
    if before == "n":
        out.add("bol")
    if after == "":
        out |= {"eot", "eol"}
    if after == "n":
        out.add("eol")
    return frozenset(out)


def _kind(char: str) -> str:
    if not char:
        return ""
    if char == "\n":
        return "n"
    return "w" if _is_word(char) else "x"


def _context(text: str, at: int) -> frozenset[str]:
    return _holds(_kind(text[at - 1 : at]) if at else "", _kind(text[at : at + 1]))


class _DFA:
    """Sets of instructions as states, made when they are first reached."""

    def __init__(self, program: _Program) -> None:
        self._program = program
        self._reset()

    def _reset(self) -> None:
        self._states: dict[frozenset[int], int] = {frozenset(): 0}
        self._sets: list[frozenset[int]] = [frozenset()]
        self._steps: dict[tuple[int, str, str], int] = {}

    def search(self, text: str) -> bool:
        state, before = 0, ""
        asserts = self._program.asserts
        steps = self._steps
        for char in text:
            key = (state, before, char)
            following = steps.get(key)
            if following is None:
                following = self._step(key)
                steps = self._steps
            if following < 0:
                return True
            state = following
            if asserts:
                before = _kind(char)
        return self._step((state, before, "")) < 0

    def _step(self, key: tuple[int, str, str]) -> int:
        """The next state, or -1 when the pattern has matched here."""
        state, before, char = key
        program = self._program
        holds = _holds(before, _kind(char))
        seen: set[int] = set()
        following: set[int] = set()
        result = None
        for pc in (*self._sets[state], 0):
            for reached in program.closure(pc, seen, holds):
                if program.code[reached][0] == _MATCH:
                    result = -1
                elif char and program.reads(reached, char):
                    following.add(reached + 1)
        steps = self._steps
        if result is None:
            result = self._state(frozenset(following))
        if char and steps is self._steps:  # or the key speaks of states that are gone
            steps[key] = result
        return result

    def _state(self, pcs: frozenset[int]) -> int:
        known = self._states.get(pcs)
        if known is not None:
            return known
        if len(self._states) > _MAX_STATES:
            self._reset()
            if pcs in self._states:
                return 0
        self._states[pcs] = len(self._sets)
        self._sets.append(pcs)
        return len(self._sets) - 1
