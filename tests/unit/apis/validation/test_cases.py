"""Cases in text files: what is sent, and what the server must say.

    base <resource> <a valid object>
    create <resource> <label> <merge patch of the base>
    update <resource> <label> <patch before creation> -> <merge patch of what is stored>
    status <resource> <label> …                         (likewise any other subresource)
      <path>: <error>
      warning: <text>
      = <what is stored, without metadata, status and empty fields; when it is not what was sent>

A case without errors is accepted.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pykcp.types import Object

FOLDER = Path(__file__).parent / "cases"


@dataclass
class Case:
    verb: str
    resource: str
    label: str
    base: Object
    first: Object
    then: Object | None
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    stored: Object | None = None

    @property
    def group_resource(self) -> tuple[str, str]:
        resource, _, group = self.resource.partition(".")
        return group, resource

    def expect(self, line: str) -> None:
        if line.startswith("warning: "):
            self.warnings.append(line.removeprefix("warning: "))
        elif line.startswith("= "):
            self.stored = json.loads(line.removeprefix("= "))
        else:
            self.errors.append(line)


def cases() -> Iterator[Any]:
    for file in sorted(FOLDER.glob("*.txt")):
        for case in parse(file.read_text()):
            identity = f"{file.stem}-{case.verb}-{case.resource}-{case.label}"
            yield pytest.param(case, id=identity)


def parse(text: str) -> list[Case]:
    bases: dict[str, Object] = {}
    found: list[Case] = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("  "):
            found[-1].expect(line[2:])
            continue
        verb, resource, rest = line.split(" ", 2)
        if verb == "base":
            bases[resource] = json.loads(rest)
            continue
        label, patches = rest.split(" ", 1)
        first, arrow, then = patches.partition(" -> ")
        after = json.loads(then) if arrow else None
        found.append(Case(verb, resource, label, bases[resource], json.loads(first), after))
    return found


def without_empties(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: without_empties(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, [], None, "")}
    return [without_empties(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", list(cases()))
def test_case(case: Case, created: Callable[..., Any], updated: Callable[..., Any]) -> None:
    group, resource = case.group_resource
    outcome = created(group, resource, case.base, case.first)
    if case.then is not None:
        assert outcome.errors == []
        subresource = "" if case.verb == "update" else case.verb
        outcome = updated(group, resource, outcome.obj, case.then, subresource)
    assert sorted(outcome.errors) == sorted(case.errors)
    assert outcome.warnings == case.warnings
    if case.stored is not None:
        body = {k: v for k, v in outcome.obj.items() if k not in {"metadata", "status"}}
        assert without_empties(body) == case.stored
