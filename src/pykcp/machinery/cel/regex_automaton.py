"""A regular expression as an automaton: one that finds, and one that only tests, faster."""

from __future__ import annotations

from functools import lru_cache

from pykcp.machinery.cel.regex_sets import CharSet, Ranges
from pykcp.machinery.cel.regex_syntax import RegexError, Tree

_MAX_STATES = 5_000
"""States of a DFA that are kept; then it starts over."""
_MAX_PROGRAM = 60_000
_MAX_STEPS = 50_000
"""Steps of a DFA that are kept."""
MAX_WORK = 3_000_000
"""Instructions that one search may look at: about a second."""


class TooMuchWork(Exception):
    """A search was given up."""


_CHAR, _SPLIT, _JUMP, _ASSERT, _MATCH = range(5)
Instruction = tuple[int, object, int]


class Program:
    """Instructions: a set and where to go, two ways to go (preferred first), a condition."""

    def __init__(self, tree: Tree, pattern: str) -> None:
        self.code: list[list[object]] = []
        self.pattern = pattern
        self._sets: dict[Ranges, CharSet] = {}
        self._emit(tree)
        self.code.append([_MATCH])
        self.asserts = any(i[0] == _ASSERT for i in self.code)

    def _set(self, ranges: Ranges) -> CharSet:
        if ranges not in self._sets:
            self._sets[ranges] = CharSet(ranges)
        return self._sets[ranges]

    def _add(self, *instruction: object) -> int:
        if len(self.code) > _MAX_PROGRAM:
            raise RegexError("expression too large", self.pattern)
        self.code.append(list(instruction))
        return len(self.code) - 1

    def _emit(self, tree: Tree) -> None:
        match tree[0]:
            case "set":
                self._add(_CHAR, self._set(tree[1]))
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
        return ord(char) in self.code[pc][1]  # type: ignore[operator]

    def find(self, text: str, start: int) -> tuple[int, int] | None:
        """All threads in step, the preferred ones first."""
        threads: list[tuple[int, int]] = []
        found: tuple[int, int] | None = None
        work = 0
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
            work += len(seen)
            if work > MAX_WORK:
                raise TooMuchWork
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


class DFA:
    """Sets of instructions as states, made when they are first reached."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._work = 0
        self._reset()

    def _reset(self) -> None:
        self._states: dict[frozenset[int], int] = {frozenset(): 0}
        self._sets: list[frozenset[int]] = [frozenset()]
        self._steps: dict[tuple[int, str, str], int] = {}

    def search(self, text: str) -> bool:
        state, before = 0, ""
        self._work = 0
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
        self._work += len(seen)
        if self._work > MAX_WORK:
            raise TooMuchWork
        if len(self._steps) > _MAX_STEPS:
            self._steps = {}
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
