"""Option groups: a frozen value that knows its flags and what may be wrong with it.

    class GreetingOptions(OptionGroup):
        TITLE = "Greeting"
        OTHER = (ignored("greeting-colour"),)

        greeting: str = option("Text to say.", "hello")
        greeting_times: int = option("How often to say it.", 1, check=positive)

The name of a flag is that of its field, its type that of the default, and its default that of the
instance a program composes: programs that differ in a default differ in that instance only.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from pykcp.programs.kit.checks import Check
from pykcp.programs.kit.flags import ACTIVE, PENDING, Flag
from pykcp.programs.kit.frozen import Frozen

_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "duration",
    str: "string",
    tuple: "strings",
    dict: "map",
    pathlib.PosixPath: "string",
    pathlib.WindowsPath: "string",
}


class _Option(NamedTuple):
    default: Any
    help: str
    flag: str
    kind: str
    check: Check | None
    is_hidden: bool
    effect: str


def option(
    help_text: str,
    default: Any,
    *,
    flag: str = "",
    kind: str = "",
    check: Check | None = None,
    hidden: bool = False,
    effect: str = ACTIVE,
) -> Any:
    """A field of an option group that a flag sets.

    `kind` is required if it does not follow from the type of the default; see `Flag.kind`.
    """
    kind = kind or _KINDS[type(default)]
    return _Option(default, help_text, flag, kind, check, hidden, effect)


def pending(help_text: str, default: Any = "", *, flag: str = "", kind: str = "") -> Any:
    """An option that is stored for a part of the program that does not exist yet."""
    return option(f"{help_text} Not in effect yet.", default, flag=flag, kind=kind, effect=PENDING)


class OptionGroup(Frozen):
    """The base of option groups."""

    TITLE: ClassVar[str]
    """Heading of its flags in help texts."""
    OTHER: ClassVar[tuple[Flag, ...]] = ()
    """Flags that no field holds: they are ignored, or refused."""
    OPTIONS: ClassVar[dict[str, _Option]] = {}
    """By field."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.OPTIONS = dict(cls.OPTIONS)
        for name in cls.FIELDS:
            found = cls.__dict__.get(name)
            if isinstance(found, _Option):
                cls.OPTIONS[name] = found._replace(flag=found.flag or name.replace("_", "-"))
                setattr(cls, name, found.default)

    def flags(self) -> list[Flag]:
        """Its flags, with this value's fields as their defaults."""
        return [
            Flag(o.flag, o.kind, getattr(self, name), o.help, o.is_hidden, o.effect)
            for name, o in self.OPTIONS.items()
        ] + list(self.OTHER)

    def with_given(self, given: Mapping[str, Any]) -> Self:
        """This value, changed by the flags that were given. Raises FlagError."""
        changes = {
            name: _stored(given[o.flag], getattr(self, name))
            for name, o in self.OPTIONS.items()
            if o.flag in given
        }
        return self.replace(**changes) if changes else self

    def notes(self) -> Iterator[str]:
        """What to log of values that act otherwise than they say."""
        yield from ()

    def problems(self) -> Iterator[str]:
        """Everything that is wrong, one sentence each."""
        for name, o in self.OPTIONS.items():
            if o.check is not None:
                yield from o.check(o.flag, getattr(self, name))


def _stored(value: Any, default: Any) -> Any:
    if isinstance(default, tuple):
        return tuple(value)
    return pathlib.Path(value) if isinstance(default, pathlib.Path) else value


class Mapped(NamedTuple):
    """A flag that sets a field of a value which another package defines."""

    flag: str
    path: str
    """Attributes from the group to the field: `wire.max_connections`."""
    help: str
    kind: str = ""
    zero_is_default: bool = False
    """Whether 0 stands for the field's default."""


class MappedGroup(OptionGroup):
    """A group whose values belong to other packages: `TABLE` says which flag sets what."""

    TABLE: ClassVar[tuple[Mapped, ...]]

    def flags(self) -> list[Flag]:
        made = []
        for entry in self.TABLE:
            default = _at(self, entry.path)
            kind = entry.kind or _KINDS[type(default)]
            shown = 0 if entry.zero_is_default else int(default) if kind == "int" else default
            made.append(Flag(entry.flag, kind, shown, entry.help))
        return made + list(self.OTHER)

    def with_given(self, given: Mapping[str, Any]) -> Self:
        changed: Any = self
        for entry in self.TABLE:
            if entry.flag in given and (given[entry.flag] or not entry.zero_is_default):
                changed = _replaced(changed, entry.path.split("."), given[entry.flag])
        return changed  # type: ignore[no-any-return]


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _replaced(value: Any, path: list[str], new: Any) -> Any:
    """A copy of a nested frozen value with one field changed."""
    name, *rest = path
    inner = _replaced(getattr(value, name), rest, new) if rest else new
    change = {name: inner}
    if isinstance(value, Frozen):
        return value.replace(**change)
    return dataclasses.replace(value, **change)
