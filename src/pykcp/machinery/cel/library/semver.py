"""Semantic versions 2.0."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.runtime.values import UINT_MAX, EvalError
from pykcp.machinery.status import go_quote

_DIGITS = re.compile(r"[0-9]+")
_WORD = re.compile(r"[0-9A-Za-z-]+")


class Semver:
    __slots__ = ("build", "numbers", "pre")
    cel_type = "kubernetes.Semver"

    def __init__(
        self, numbers: tuple[int, int, int], pre: tuple[str, ...], build: tuple[str, ...]
    ) -> None:
        self.numbers = numbers
        self.pre = pre
        self.build = build

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.compare(other) == 0

    def __hash__(self) -> int:
        return hash((self.numbers, self.pre))

    def __str__(self) -> str:
        text = ".".join(map(str, self.numbers))
        if self.pre:
            text += "-" + ".".join(self.pre)
        return text + ("+" + ".".join(self.build) if self.build else "")

    def compare(self, other: Semver) -> int:
        if self.numbers != other.numbers:
            return 1 if self.numbers > other.numbers else -1
        if not self.pre or not other.pre:
            return bool(other.pre) - bool(self.pre)
        for a, b in zip(self.pre, other.pre, strict=False):
            if a != b:
                return 1 if _rank(a) > _rank(b) else -1
        return (len(self.pre) > len(other.pre)) - (len(self.pre) < len(other.pre))


def _rank(part: str) -> tuple[bool, int, str]:
    """Numbers come before words."""
    if _DIGITS.fullmatch(part):
        return False, int(part), ""
    return True, 0, part


def _number(text: str, name: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise EvalError(f"Invalid character(s) found in {name.lower()} number {go_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise EvalError(f"{name} number must not contain leading zeroes {go_quote(text)}")
    if len(text) > 20 or int(text) > UINT_MAX:
        raise EvalError(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return int(text)


def to_semver(text: str) -> Semver:
    if not text:
        raise EvalError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvalError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    patch, build, pre = parts[2], None, None
    if "+" in patch:
        patch, build = patch.split("+", 1)
    if "-" in patch:
        patch, pre = patch.split("-", 1)
    number = _number(patch, "Patch")
    pre_parts = tuple(_prerelease(p) for p in pre.split(".")) if pre is not None else ()
    return Semver((major, minor, number), pre_parts, _build(build))


def _prerelease(part: str) -> str:
    if not part:
        raise EvalError("Prerelease is empty")
    if _DIGITS.fullmatch(part):
        if len(part) > 1 and part[0] == "0":
            raise EvalError(
                f"Numeric PreRelease version must not contain leading zeroes {go_quote(part)}"
            )
        return part
    if not _WORD.fullmatch(part):
        raise EvalError(f"Invalid character(s) found in prerelease {go_quote(part)}")
    return part


def _build(build: str | None) -> tuple[str, ...]:
    if build is None:
        return ()
    parts = build.split(".")
    for part in parts:
        if not part:
            raise EvalError("Build meta data is empty")
        if not _WORD.fullmatch(part):
            raise EvalError(f"Invalid character(s) found in build meta data {go_quote(part)}")
    return tuple(parts)


def normalized(text: str) -> Semver:
    """Also v1.2, 1, and numbers with zeros in front."""
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[i] = stripped if stripped and stripped[0] in "0123456789" else f"0{stripped}"
    if len(parts) < 3:
        if re.search("[+-]", parts[-1]):
            raise EvalError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return to_semver(".".join(parts))


def _parse(text: str, normalize: bool = False) -> Semver:
    return normalized(text) if normalize else to_semver(text)


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _parse(text, normalize)
    except EvalError:
        return False
    return True


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "string_to_semver": _parse,
    "string_bool_to_semver": _parse,
    "is_semver_string": _is_semver,
    "is_semver_string_bool": _is_semver,
    "semver_compare_to": Semver.compare,
    "semver_is_greater_than": lambda a, b: a.compare(b) > 0,
    "semver_is_less_than": lambda a, b: a.compare(b) < 0,
    "semver_major": lambda v: v.numbers[0],
    "semver_minor": lambda v: v.numbers[1],
    "semver_patch": lambda v: v.numbers[2],
}
