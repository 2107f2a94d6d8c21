"""Conflicts of an apply with the owners of fields."""

from __future__ import annotations

from itertools import islice

from pykcp.machinery.patch.elements import path_text
from pykcp.machinery.patch.fieldset import Fields, count, paths
from pykcp.machinery.patch.managed import Identity
from pykcp.machinery.status import MAX_FIELD_ERRORS, Cause, Conflict


class ApplyConflicts(Exception):
    """Conflicting fields by manager; becomes a status at the end."""

    def __init__(self, sets: dict[Identity, Fields]) -> None:
        super().__init__()
        self.sets = {who: sets[who] for who in sorted(sets, key=Identity.text) if sets[who]}
        """By owner, in order of their identities."""

    def status(self) -> Conflict:
        """409 with one cause per field, up to a number; all are counted."""
        total = sum(map(count, self.sets.values()))
        causes: list[Cause] = []
        lines: list[str] = []
        for who, fields in self.sets.items():
            room = MAX_FIELD_ERRORS - len(causes)
            if not room:
                break
            lines.append(f"conflicts with {who.shown()}:")
            for path in islice(paths(fields), room):
                text = path_text(path)
                lines.append(f"- {text}")
                causes.append(Cause("FieldManagerConflict", f"conflict with {who.shown()}", text))
        if total == 1:
            (only,) = causes
            message = f"Apply failed with 1 conflict: {only.message}: {only.field}"
        else:
            if total > len(causes):
                lines.append("- ...")
            message = f"Apply failed with {total} conflicts: " + "\n".join(lines)
        return Conflict(message, causes=causes)
