"""Detection of writes that change nothing except the timestamps of managed fields.

Defaulting, normalising and resetting happen after managers were stamped, so that an apply
can turn out to have changed nothing at all. Its new time is then taken back, and the write
is no write: no new revision, no event.
"""

from __future__ import annotations

from pykcp.machinery.patch.shapes import same
from pykcp.types import Object


def without_idle_times(old: Object, new: Object) -> Object:
    """The new object, with the old times if times are all that is new about it."""
    before = old["metadata"].get("managedFields") or []
    after = new["metadata"].get("managedFields") or []
    if len(before) != len(after) or before == after:
        return new
    if not all(_timeless(b) == _timeless(a) for b, a in zip(before, after, strict=True)):
        return new
    kept = {**new, "metadata": {**new["metadata"], "managedFields": before}}
    return kept if same(old, kept) else new


def _timeless(entry: Object) -> Object:
    return {key: value for key, value in entry.items() if key != "time"}
