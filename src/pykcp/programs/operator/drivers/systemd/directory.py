"""The directory of unit files: what is in it of an installation, and what is not needed any more.

Only what is in this directory says which units there are: it belongs to who runs systemd, whereas
the root directory belongs to the user of the programs.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pykcp.auth.files import write_public
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.drivers.systemd.units import SystemdUnit, belongs_to

_INSTANCE = re.compile(r"^Wants=(kcp-\S+@\d+\.service)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class UnitChanges:
    written: tuple[SystemdUnit, ...]
    """Those that are new or have another text."""
    stale: tuple[pathlib.Path, ...]
    """Files of workloads that do not exist any more."""
    surplus: tuple[str, ...]
    """Instances that are not wanted any more; they may be running."""


class UnitDirectory:
    def __init__(self, path: pathlib.Path, root: pathlib.Path) -> None:
        self.path, self._root = path, str(root)

    def changes(self, units: Sequence[SystemdUnit]) -> UnitChanges:
        """What is to be done. Raises SettingsError."""
        known = self._own()
        wanted = {name for unit in units for name in unit.instances}
        before = {name for text in known.values() for name in _INSTANCE.findall(text)}
        names = {unit.name for unit in units}
        return UnitChanges(
            tuple(unit for unit in units if self._text(self.path / unit.name) != unit.text),
            tuple(sorted(path for path in known if path.name not in names)),
            tuple(sorted(before - wanted)),
        )

    def apply(self, changes: UnitChanges) -> None:
        """Stop what is surplus before: systemd does not disable units without a file."""
        for path in changes.stale:
            path.unlink(missing_ok=True)
        for unit in changes.written:
            write_public(self.path / unit.name, unit.text.encode())

    def _own(self) -> dict[pathlib.Path, str]:
        """The units of this installation that are there, with their texts."""
        if not self.path.is_dir():
            return {}
        found = {path: self._text(path) for path in self.path.glob("kcp-*") if path.is_file()}
        return {path: text for path, text in found.items() if self._is_own(path, text)}

    def _is_own(self, path: pathlib.Path, text: str) -> bool:
        lines = text.splitlines()
        # Units of earlier versions name the root directory only as what they may not write to.
        old = path.name.endswith("@.service") and f"ReadOnlyPaths={self._root}" in lines
        return old or belongs_to(self._root) in lines

    @staticmethod
    def _text(path: pathlib.Path) -> str:
        try:
            return path.read_text()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path} cannot be read: {error}") from error
