"""Checks of numbers that several kinds have: not negative, or a percentage. The texts are Kubernetes'."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pykcp.machinery.status import FieldError, invalid
from pykcp.types import Object

_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def negative_errors(spec: Object, path: str, *names: str) -> Iterator[FieldError]:
    """Fields of a spec that are there and below zero."""
    for name in names:
        value = spec.get(name)
        if value is not None and value < 0:
            yield invalid(f"{path}.{name}", value, "must be greater than or equal to 0")


def share_errors(value: Any, path: str, *, is_bounded: bool = True) -> Iterator[FieldError]:
    """A number of pods or a percentage of them, of at most all of them if it is bounded."""
    if isinstance(value, int):
        if value < 0:
            yield invalid(path, value, "must be greater than or equal to 0")
    elif not re.fullmatch(r"[0-9]+%", str(value)):
        yield invalid(path, value, _PERCENT)
    elif is_bounded and int(str(value)[:-1]) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def is_none_of(value: Any) -> bool:
    """Whether a number or a percentage is zero."""
    return value in (0, "0%")
