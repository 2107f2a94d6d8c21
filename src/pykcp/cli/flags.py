"""Command-line flags as Go programs have them: `--name value`, `--name=value`, `--switch`.

A flag is data: name, type, default and one sentence. All problems of a command
line are reported at once, one line each.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class FlagError(Exception):
    """A command line that cannot be understood; one problem per line."""


def refuse(problems: Iterable[str]) -> int:
    """Say what is wrong with a command line; the exit code of a program that cannot start."""
    for line in problems:
        print(f"Error: {line}", file=sys.stderr)
    return 1


@dataclass(frozen=True, slots=True)
class Flag:
    name: str
    kind: str
    """string, int, float, bool, duration, strings (comma separated or repeated), map (k=v,…)
    or pair (one k=v, whose value may hold commas; repeatable)."""
    default: Any
    help: str
    is_hidden: bool = False
    is_ignored: bool = False
    """Accepted so that command lines written for kcp work, without effect here."""
    is_refused: bool = False
    """Known to kcp but not supported here yet; ignoring it would mislead."""

    def parse(self, text: str) -> Any:
        try:
            return _PARSERS[self.kind](text)
        except ValueError:
            raise FlagError(
                f'invalid argument "{text}" for "--{self.name}" flag: expected {_WORDS[self.kind]}'
            ) from None


def parse_duration(text: str) -> float:
    """Go's duration syntax: 1h30m, 500ms, 0."""
    if text == "0":
        return 0.0
    sign = -1.0 if text.startswith("-") else 1.0
    body = text[1:] if text[:1] in ("+", "-") else text
    parts = _DURATION.findall(body)
    if not parts or "".join(n + u for n, u in parts) != body:
        raise ValueError(text)
    return sign * sum(float(n) * _UNITS[u] for n, u in parts)


def _parse_bool(text: str) -> bool:
    if text.lower() in ("true", "1", "t"):
        return True
    if text.lower() in ("false", "0", "f"):
        return False
    raise ValueError(text)


def _parse_map(text: str) -> dict[str, str]:
    pairs = [item.partition("=") for item in text.split(",") if item]
    if any(not eq for _, eq, _ in pairs):
        raise ValueError(text)
    return {k.strip(): v.strip() for k, _, v in pairs}


def _parse_pair(text: str) -> dict[str, str]:
    key, eq, value = text.partition("=")
    if not eq:
        raise ValueError(text)
    return {key.strip(): value.strip()}


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "int": int,
    "float": float,
    "bool": _parse_bool,
    "duration": parse_duration,
    "strings": lambda text: [part for part in text.split(",") if part],
    "map": _parse_map,
    "pair": _parse_pair,
}
_WORDS = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "duration": "a duration such as 30s, 5m or 1h",
    "strings": "a comma-separated list",
    "map": "key=value pairs separated by commas",
    "pair": "key=value",
}
_SHOWN = {
    "string": "string",
    "int": "int",
    "float": "float",
    "bool": "",
    "duration": "duration",
    "strings": "strings",
    "map": "mapStringString",
    "pair": "mapStringString",
}


class FlagSet:
    """The flags of one command."""

    def __init__(
        self, sections: Sequence[tuple[str, Sequence[Flag]]], short: dict[str, str] | None = None
    ) -> None:
        self.sections = tuple((title, tuple(flags)) for title, flags in sections)
        self._flags = {flag.name: flag for _, flags in self.sections for flag in flags}
        self._short = short or {}

    @property
    def flags(self) -> Iterable[Flag]:
        return self._flags.values()

    def parse(self, arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """Values by flag name (defaults filled in), and what was not a flag."""
        given: dict[str, Any] = {}
        rest: list[str] = []
        problems: list[str] = []
        pending = list(arguments)
        while pending:
            word = pending.pop(0)
            if word == "--":
                rest += pending
                break
            if not word.startswith("-") or word == "-":
                rest.append(word)
                continue
            try:
                self._take(word, pending, given)
            except FlagError as error:
                problems.append(str(error))
        if problems:
            raise FlagError("\n".join(problems))
        return {f.name: given.get(f.name, f.default) for f in self.flags} | {"": set(given)}, rest

    def _take(self, word: str, pending: list[str], given: dict[str, Any]) -> None:
        name, has_value, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            name = self._short.get(name, name)
        name = name.replace("_", "-")
        flag = self._flags.get(name)
        if flag is None:
            raise FlagError(f"unknown flag: {word.split('=', maxsplit=1)[0]}")
        if flag.is_refused:
            raise FlagError(f"--{name} is not supported yet by this version")
        if not has_value:
            if flag.kind == "bool":
                value = "true"
            elif pending:
                value = pending.pop(0)
            else:
                raise FlagError(f"flag needs an argument: {word}")
        parsed = flag.parse(value)
        if flag.kind == "strings" and name in given:
            given[name] = given[name] + parsed
        elif flag.kind in ("map", "pair") and name in given:
            given[name] = given[name] | parsed
        else:
            given[name] = parsed

    def usage(self) -> str:
        """All flags with their meaning, by section."""
        lines: list[str] = []
        for title, flags in self.sections:
            shown = [f for f in flags if not f.is_hidden]
            if not shown:
                continue
            lines += ["", f"{title} flags:", ""]
            width = max(len(_head(f)) for f in shown)
            for flag in shown:
                lines.append(f"    {_head(flag):<{width}}  {flag.help}{_default(flag)}")
        return "\n".join(lines) + "\n"


def _head(flag: Flag) -> str:
    return f"--{flag.name} {_SHOWN[flag.kind]}".rstrip()


def _default(flag: Flag) -> str:
    if flag.is_ignored:
        return " (accepted for compatibility; no effect)"
    if flag.default in ("", None, 0, False, [], {}):
        return ""
    shown = flag.default
    if isinstance(shown, list):
        shown = ",".join(shown)
    if isinstance(shown, bool):
        shown = "true"
    if flag.kind == "duration":
        shown = f"{shown:g}s"
    return f" (default {shown})"
