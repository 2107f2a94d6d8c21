"""The settings of a program: option groups, parsed and checked together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

from pykcp.programs.kit.config_file import CONFIG, read_config
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.kit.flags import FlagError, FlagSet
from pykcp.programs.kit.frozen import Frozen
from pykcp.programs.kit.options import OptionGroup


class ProgramSettings(Frozen):
    """The base of a program's settings: most fields are groups, the others have no flag."""

    COMMAND: ClassVar[str]
    """How the program is called, in messages."""
    SHORT: ClassVar[dict[str, str]] = {"v": "v"}
    """Flags of one letter."""

    @classmethod
    def flag_set(cls) -> FlagSet:
        sections = [(group.TITLE, group.flags()) for _, group in cls()._groups()]
        return FlagSet([*sections, ("Configuration", [CONFIG])], cls.SHORT)

    @classmethod
    def parse(cls, words: Sequence[str]) -> tuple[Self, list[str]]:
        """What a command line asks for, unchecked; and warnings to log. Raises FlagError."""
        flags = cls.flag_set()
        given, rest = flags.parse(words)
        if rest:
            raise FlagError(f'unknown command "{rest[0]}" for "{cls.COMMAND}"')
        if given.get(CONFIG.name):
            given = {**read_config(given[CONFIG.name], flags), **given}
        changes, problems = {}, []
        for name, group in cls()._groups():
            try:
                changes[name] = group.with_given(given)
            except FlagError as error:
                problems.append(str(error))
        if problems:
            raise FlagError("\n".join(problems))
        notes = [note for group in changes.values() for note in group.notes()]
        return cls(**changes), [*flags.warnings(given), *notes]

    def problems(self) -> list[str]:
        """Everything that is wrong with these settings, each with what to do."""
        found = (problem for _, group in self._groups() for problem in group.problems())
        return [" ".join(problem.split()) for problem in found]

    def checked(self) -> Self:
        problems = self.problems()
        if problems:
            raise SettingsError("\n".join(problems))
        return self

    def _groups(self) -> Iterator[tuple[str, OptionGroup]]:
        for name in self.FIELDS:
            value = getattr(self, name)
            if isinstance(value, OptionGroup):
                yield name, value
