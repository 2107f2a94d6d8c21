"""Fields that an apply wants to be otherwise than their owners do."""

from __future__ import annotations

from collections.abc import Iterable

from pykcp.machinery.patch.elements import path_text
from pykcp.machinery.patch.fieldset import Fields, Path, paths
from pykcp.machinery.patch.managed import Identity
from pykcp.machinery.status import Cause, Conflict


class ApplyConflicts(Exception):
    """Who owns what is in the way; becomes a status at the end."""

    def __init__(self, fields: Iterable[tuple[Identity, Path]]) -> None:
        super().__init__()
        self.fields = list(fields)

    @classmethod
    def of(cls, sets: dict[Identity, Fields]) -> ApplyConflicts:
        """By owner, in order of their identities."""
        order = sorted(sets, key=Identity.text)
        return cls((who, path) for who in order for path in paths(sets[who]))

    def status(self) -> Conflict:
        """409 with one cause per field."""
        causes = [
            Cause("FieldManagerConflict", f"conflict with {who.shown()}", path_text(path))
            for who, path in self.fields
        ]
        return Conflict(self._message(), causes=causes)

    def _message(self) -> str:
        if len(self.fields) == 1:
            ((who, path),) = self.fields
            return f"Apply failed with 1 conflict: conflict with {who.shown()}: {path_text(path)}"
        lines: list[str] = []
        for owner in dict.fromkeys(who for who, _ in self.fields):
            lines.append(f"conflicts with {owner.shown()}:")
            lines += [f"- {path_text(path)}" for who, path in self.fields if who == owner]
        return f"Apply failed with {len(self.fields)} conflicts: " + "\n".join(lines)
