"""Command-line flags as Go programs have them: `--name value`, `--name=value`, `--switch`, `-v4`.

A flag is data: name, type, default and one sentence. All problems of a command line are
reported at once, one line each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

ACTIVE = ""
IGNORED = "ignored"
"""Accepted so that command lines written for kcp work; has no meaning in this program."""
PENDING = "pending"
"""Accepted and stored; what it configures is not implemented yet."""
REFUSED = "refused"
"""Known to kcp but not implemented, and ignoring it would be unsafe."""

IGNORED_HELP = "Accepted for compatibility; ignored."

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_INTEGER = re.compile(r"[+-]?\d+")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIMILAR = 0.75
"""How alike a mistyped flag and its suggestion must be (difflib's ratio)."""


class FlagError(Exception):
    """A command line that cannot be understood; one problem per line."""


@dataclass(frozen=True, slots=True)
class Flag:
    name: str
    kind: str
    """string, int, float, bool, duration, strings (comma separated or repeated), list (repeated,
    a value may hold commas), map (k=v,…) or pair (one k=v, whose value may hold commas)."""
    default: Any
    help: str
    is_hidden: bool = False
    effect: str = ACTIVE

    def parse(self, text: str) -> Any:
        try:
            return _PARSERS[self.kind](text)
        except ValueError:
            raise FlagError(
                f'invalid argument "{text}" for "--{self.name}" flag: expected {_WORDS[self.kind]}'
            ) from None

    def warning(self) -> str:
        """What to log when the flag is given; empty if it does what it says."""
        if self.effect == IGNORED:
            return f"--{self.name} is accepted for compatibility and ignored"
        if self.effect == PENDING:
            return f"--{self.name} is accepted but not in effect yet"
        return ""


def ignored(name: str, kind: str = "string", default: Any = "", *, hidden: bool = False) -> Flag:
    """A flag of kcp that has no meaning here."""
    return Flag(name, kind, default, IGNORED_HELP, hidden, IGNORED)


def refused(name: str, kind: str = "string", default: Any = "") -> Flag:
    """A flag of kcp that must not be ignored, because something relies on what it protects."""
    return Flag(name, kind, default, "Not supported yet.", True, REFUSED)


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


def _parse_int(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


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
    "int": _parse_int,
    "float": float,
    "bool": _parse_bool,
    "duration": parse_duration,
    "strings": lambda text: [part for part in text.split(",") if part],
    "list": lambda text: [text] if text else [],
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
    "list": "text",
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
    "list": "stringArray",
    "map": "mapStringString",
    "pair": "mapStringString",
}


class FlagSet:
    """The flags of one command, in sections."""

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
        """The values of the flags that were given, by name; and what was not a flag."""
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
        return given, rest

    def warnings(self, given: Iterable[str]) -> list[str]:
        """What to log about flags that were given and have no effect."""
        return [text for name in given if (text := self._flags[name].warning())]

    def _take(self, word: str, pending: list[str], given: dict[str, Any]) -> None:
        name, value = self._split(word)
        flag = self._flags.get(name)
        if flag is None:
            raise FlagError(f"unknown flag: {word.split('=', maxsplit=1)[0]}{self.similar(name)}")
        if flag.effect == REFUSED:
            raise FlagError(f"--{name} is not supported yet by this version")
        if value is None:
            if flag.kind == "bool":
                value = "true"
            elif pending:
                value = pending.pop(0)
            else:
                raise FlagError(f"flag needs an argument: {word}")
        parsed = flag.parse(value)
        if flag.kind in ("strings", "list") and name in given:
            given[name] = given[name] + parsed
        elif flag.kind in ("map", "pair") and name in given:
            given[name] = given[name] | parsed
        else:
            given[name] = parsed

    def _split(self, word: str) -> tuple[str, str | None]:
        """Name and value of `--name`, `--name=value`, `-n`, `-n=value` or `-nvalue`."""
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            return name.replace("_", "-"), value if has_value else None
        name = self._short.get(word[1], "")
        if not name:
            raise FlagError(f"unknown shorthand flag: '{word[1]}' in {word}")
        value = word[2:]
        return name, value.removeprefix("=") if value else None

    def similar(self, name: str) -> str:
        """A hint at the flag that a mistyped name may mean; empty if there is none."""
        from difflib import get_close_matches  # only for mistakes: not worth a start's time

        shown = [flag.name for flag in self.flags if not flag.is_hidden]
        found = get_close_matches(name, shown, 1, _SIMILAR)
        return f" (did you mean --{found[0]}?)" if found else ""

    def usage(self, width: int = 100) -> str:
        """All flags with their help text, by section; ignored flags at the end."""
        from textwrap import wrap

        lines: list[str] = []
        for title, flags in self.sections:
            shown = [f for f in flags if not f.is_hidden and f.effect != IGNORED]
            if shown:
                lines += ["", f"{title}:", *(text for f in shown for text in self._shown(f, width))]
        names = sorted(f"--{f.name}" for f in self.flags if f.effect == IGNORED and not f.is_hidden)
        if names:
            # a line breaks between flags, never inside of one
            text = ", ".join(name.replace("-", _HYPHEN) for name in names)
            listed = wrap(text, width, initial_indent="  ", subsequent_indent="  ")
            lines += ["", IGNORED_HELP, *(line.replace(_HYPHEN, "-") for line in listed)]
        return "\n".join(lines) + "\n"

    def _shown(self, flag: Flag, width: int) -> Iterable[str]:
        from textwrap import wrap

        short = next((f"-{s}, " for s, name in self._short.items() if name == flag.name), "    ")
        yield f"  {short}--{flag.name} {_SHOWN[flag.kind]}".rstrip()
        text = flag.help + _default(flag)
        yield from wrap(text, width, initial_indent=_IN, subsequent_indent=_IN)


_HYPHEN = "\u2011"
_IN = " " * 10


def _default(flag: Flag) -> str:
    text = shown_default(flag)
    return f" (default {text})" if text and flag.effect == ACTIVE and flag.default else ""


def shown_default(flag: Flag) -> str:
    """The default as one would write it on a command line; empty if there is none."""
    default = flag.default
    if default in ("", None) or default in ([], (), {}):
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if flag.kind == "duration":
        return f"{default:g}s"
    if isinstance(default, dict):
        return ",".join(f"{k}={v}" for k, v in default.items())
    return ",".join(default) if isinstance(default, (list, tuple)) else str(default)
