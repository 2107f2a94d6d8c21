"""Flags of one command, parsed by the rules of kubectl's own flags.

`--name value`, `--name=value`, `-n value`, `-nvalue`, `-abc`; flags and arguments may be mixed;
`--` ends the flags. The first problem is reported, in the words that Go programs have for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import parse_duration, quote

Values = dict[str, Any]


class PluginFlag(NamedTuple):
    name: str
    kind: str
    """string, bool, int, duration, list (commas or repeated)."""
    help: str
    default: Any = None
    short: str = ""
    is_hidden: bool = False
    choices: str = ""
    """Completion of its value: the name of a source, see completion.py."""

    @property
    def takes_value(self) -> bool:
        return self.kind != "bool"

    def named(self) -> str:
        return f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"

    def parse(self, text: str) -> Any:
        try:
            return _PARSERS[self.kind](text)
        except ValueError as error:
            raise PluginError(
                f"invalid argument {quote(text)} for {quote(self.named())} flag: {error}"
            ) from None


def _bool(text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")


def _int(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax") from None


def _list(text: str) -> list[str]:
    return text.split(",") if text else []


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "bool": _bool,
    "int": _int,
    "duration": parse_duration,
    "list": _list,
}


def defaults(flags: Iterable[PluginFlag]) -> Values:
    return {flag.name: [] if flag.kind == "list" else flag.default for flag in flags}


class Parser:
    """Parses known flags; other words are kept in `arguments`."""

    def __init__(self, flags: Iterable[PluginFlag], values: Values) -> None:
        self._long: dict[str, PluginFlag] = {}
        self._short: dict[str, PluginFlag] = {}
        for flag in flags:
            self._long.setdefault(flag.name, flag)
            if flag.short:
                self._short.setdefault(flag.short, flag)
        self.values = values
        self.given: set[str] = set()
        self.arguments: list[str] = []

    def read(self, words: Sequence[str]) -> None:
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if len(word) < 2 or not word.startswith("-"):
                self.arguments.append(word)
            elif word == "--":
                self.arguments.extend(rest)
                return
            elif word.startswith("--"):
                self._read_long(word, rest)
            else:
                self._read_short(word[1:], rest)

    def _read_long(self, word: str, rest: list[str]) -> None:
        name, equals, value = word[2:].partition("=")
        if not name or name.startswith("-"):
            raise PluginError(f"bad flag syntax: {word}")
        flag = self._long.get(name)
        if flag is None:
            raise PluginError(f"unknown flag: --{name}")
        if not equals:
            if not flag.takes_value:
                value = "true"
            elif not rest:
                raise PluginError(f"flag needs an argument: --{name}")
            else:
                value = rest.pop(0)
        self._set(flag, value)

    def _read_short(self, letters: str, rest: list[str]) -> None:
        all_letters = letters
        while letters:
            letter, letters = letters[0], letters[1:]
            flag = self._short.get(letter)
            if flag is None:
                raise PluginError(f"unknown shorthand flag: '{letter}' in -{all_letters}")
            if letters.startswith("=") and len(letters) > 1:
                value, letters = letters[1:], ""
            elif not flag.takes_value:
                value = "true"
            elif letters:
                value, letters = letters, ""
            elif rest:
                value = rest.pop(0)
            else:
                raise PluginError(f"flag needs an argument: '{letter}' in -{all_letters}")
            self._set(flag, value)

    def _set(self, flag: PluginFlag, text: str) -> None:
        value = flag.parse(text)
        if flag.kind == "list" and flag.name in self.given:
            value = self.values[flag.name] + value
        self.values[flag.name] = value
        self.given.add(flag.name)
