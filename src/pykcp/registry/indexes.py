"""Index entries: how objects are found without knowing where they are.

`owner:<cluster>:<uid>` finds the dependents of an object (garbage collection),
`deleting` everything that waits for its finalizers. An ordinary object has none
of them and costs nothing.
"""

from __future__ import annotations

from pykcp.types import Object

DELETING = "deleting"


def owner_entry(cluster: str, uid: str) -> str:
    return f"owner:{cluster}:{uid}"


def index_entries(cluster: str, stored: Object) -> tuple[str, ...]:
    metadata = stored["metadata"]
    owners = metadata.get("ownerReferences")
    if not owners and "deletionTimestamp" not in metadata:
        return ()
    entries = [owner_entry(cluster, o["uid"]) for o in owners or ()]
    if metadata.get("deletionTimestamp"):
        entries.append(DELETING)
    return tuple(dict.fromkeys(entries))
