"""Asks the rules of a kind about an object, as the registry does: the quick way and the long."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pykcp.apis.kube import validation
from pykcp.machinery.status import FieldError
from pykcp.types import Object

FACTS = validation.Facts(
    username="alice",
    uid="1",
    groups=("system:authenticated",),
    now=1700000000.0,
    new_uid=lambda: "new-uid",
)
_TAIL = re.compile(r" \((e\.g\.|regex).*$")
_SYSTEM = {"uid": "u", "creationTimestamp": "2024-01-01T00:00:00Z"}


@dataclass
class Outcome:
    """What came of a request: the object as it would be stored, or why it would not be."""

    obj: Object
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def shown(errors: list[FieldError]) -> list[str]:
    """Errors as `path: text`; the name rules that end in a regular expression are cut there."""
    return [f"{error.path}: {_TAIL.sub('', error.body())}" for error in errors]


def merged(base: Any, patch: Any) -> Any:
    """A merge patch, without touching what was given."""
    if not isinstance(patch, dict):
        return patch
    kept = {**base} if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), value)
    return kept


def copied(value: Any) -> Any:
    """A copy without nulls: a decoded object has none."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items() if item is not None}
    return [copied(item) for item in value] if isinstance(value, list) else value


def create(group: str, resource: str, base: Object, patch: Object) -> Outcome:
    rules = validation.strategy_for(group, resource)
    obj = copied(merged(base, patch))
    obj["metadata"].update(_SYSTEM)
    rules.default(obj)
    other, long_way = copied(obj), replace(rules, body=None)
    errors, warnings = validation.before_create(rules, obj, FACTS)
    assert validation.before_create(long_way, other, FACTS) == (errors, warnings)
    assert other == obj
    return Outcome(obj, shown(errors), warnings)


def update(
    group: str, resource: str, stored: Object, patch: Object, subresource: str = ""
) -> Outcome:
    rules = validation.strategy_for(group, resource)
    old = copied(stored)
    old["metadata"]["resourceVersion"] = "7"
    new = copied(merged(old, patch))
    before = copied(old)
    rules.default(new)
    chosen = rules.subresources[subresource] if subresource else rules
    other, long_way = copied(new), replace(chosen, body=None)
    errors, warnings = validation.before_update(chosen, new, old, FACTS)
    assert validation.before_update(long_way, other, old, FACTS) == (errors, warnings)
    assert other == new
    assert old == before, "the old object is only read"
    return Outcome(new, shown(errors), warnings)


@pytest.fixture
def created() -> Callable[..., Outcome]:
    """created(group, resource, base, patch)"""
    return create


@pytest.fixture
def updated() -> Callable[..., Outcome]:
    """updated(group, resource, stored, patch, subresource="")"""
    return update
