"""The directory in which a program keeps its state."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any, Self

from pykcp.programs.kit.checks import directory
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.kit.flags import FlagError
from pykcp.programs.kit.options import OptionGroup, option


class RootDirectoryOptions(OptionGroup):
    TITLE = "Generic"

    root_directory: pathlib.Path = option(
        "Directory of the program's state, keys and certificates.",
        pathlib.Path(".kcp"),
        check=directory,
    )

    def with_given(self, given: Mapping[str, Any]) -> Self:
        if given.get("root-directory") == "":  # pathlib would take it for the working directory
            raise FlagError("--root-directory must not be empty")
        return super().with_given(given)

    def make_root(self) -> pathlib.Path:
        """The directory, made if it does not exist. Raises SettingsError."""
        try:
            self.root_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            what = f"cannot make {self.root_directory}: {error.strerror}"
            raise SettingsError(f"--root-directory: {what}") from error
        return self.root_directory
