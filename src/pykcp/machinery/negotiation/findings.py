"""What a comparison of two schemas found, each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import orjson

from pykcp.types import JSON


class Severity(StrEnum):
    CONFLICT = "Conflict"
    """No schema serves both."""
    NARROWED = "Narrowed"
    """The common schema accepts less than the existing one."""
    WARNING = "Warning"
    """Both can be served, but differently."""


class SchemaFinding(NamedTuple):
    path: str
    severity: Severity
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


class Findings:
    """Collects findings below a path."""

    def __init__(self, path: str, found: list[SchemaFinding] | None = None) -> None:
        self.path = path
        self.found: list[SchemaFinding] = [] if found is None else found

    def at(self, name: str) -> Findings:
        return Findings(f"{self.path}.{name}", self.found)

    def below(self, section: str, key: str) -> Findings:
        return Findings(f"{self.path}.{section}[{key}]", self.found)

    def conflict(self, text: str) -> None:
        self.found.append(SchemaFinding(self.path, Severity.CONFLICT, text))

    def narrowed(self, text: str) -> None:
        self.found.append(SchemaFinding(self.path, Severity.NARROWED, text))

    def warn(self, text: str) -> None:
        self.found.append(SchemaFinding(self.path, Severity.WARNING, text))


def problems(findings: Iterable[SchemaFinding], *, may_narrow: bool) -> list[SchemaFinding]:
    """What keeps two schemas apart; a narrowed one counts unless the existing one may change."""
    return [
        finding
        for finding in findings
        if finding.severity is Severity.CONFLICT
        or (finding.severity is Severity.NARROWED and not may_narrow)
    ]


def text_of(value: JSON) -> str:
    """A value in a canonical form: equal values have equal texts, and 1 is not true."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
