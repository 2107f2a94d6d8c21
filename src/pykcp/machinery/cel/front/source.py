"""Source text, places in it, and the layout of compile errors.

Users meet CEL errors as text in API answers, so the layout is part of the contract:

    ERROR: <input>:1:6: undeclared reference to 'x' (in container '')
     | self.x
     | .....^
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

MAX_ISSUES = 100
"""Issues beyond these are only counted."""

MAX_SNIPPET = 16384
"""Bytes of a line above which it is not shown."""

NO_PLACE = -1
"""The offset of an issue that belongs to no place in the text."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One complaint of the compiler."""

    offset: int
    message: str


class CompileError(Exception):
    """The expression was refused; `str()` is the text that users see."""

    def __init__(self, issues: Issues) -> None:
        super().__init__(issues.text())
        self.issues = issues


class Issues:
    """Collects complaints about one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = _line_starts(text)
        self._found: list[Issue] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def report(self, offset: int, message: str) -> None:
        self._count += 1
        if self._count <= MAX_ISSUES:
            self._found.append(Issue(offset, message))

    def raise_if_any(self) -> None:
        if self._count:
            raise CompileError(self)

    def text(self) -> str:
        """All issues in the order of their places."""
        lines = [self._show(issue) for issue in sorted(self._found, key=lambda i: i.offset)]
        if self._count > MAX_ISSUES:
            lines.append(f"{self._count - MAX_ISSUES} more errors were truncated")
        return "\n".join(lines)

    def _show(self, issue: Issue) -> str:
        if issue.offset == NO_PLACE:
            return f"ERROR: <input>:-1:0: {issue.message}"
        if not self._text:
            return f"ERROR: <input>:1:0: {issue.message}"
        row = bisect_right(self._starts, issue.offset) - 1
        column = issue.offset - self._starts[row]
        head = f"ERROR: <input>:{row + 1}:{column + 1}: {issue.message}"
        line = self._line(row)
        if len(line.encode(errors="replace")) > MAX_SNIPPET:
            return head
        line = line.replace("\t", " ")
        dots = "".join("\uff0e" if ord(c) > 0x7F else "." for c in line[:column])
        mark = "\uff3e" if column < len(line) and ord(line[column]) > 0x7F else "^"
        return f"{head}\n | {line}\n | {dots}{mark}"

    def _line(self, row: int) -> str:
        start = self._starts[row]
        end = self._starts[row + 1] - 1 if row + 1 < len(self._starts) else len(self._text)
        return self._text[start:end]


def _line_starts(text: str) -> list[int]:
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts
