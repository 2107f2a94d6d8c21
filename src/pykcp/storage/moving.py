"""What a store does to move a logical cluster to another shard or to take one over.

A *part* of a store is everything that belongs to one logical cluster, whatever its kind.

At the origin a part is exported while it is written to, then held: writes to it wait until it is
released, or fail with MovedAway once another shard has it.

At the destination rows are staged where no read and no listener sees them. `adopt` turns all of
them into rows of the log and the table at once, with the revisions that they had. The revisions
are older than those that this store has given out meanwhile, so the history of the part is
complete only since `base`, and that of all parts together only since it was adopted
(`complete_since`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pykcp.storage.operations import DeleteKey, PutKey

EXPORT_ROWS, EXPORT_BYTES = 1000, 2 << 20


class ExportedRow(NamedTuple):
    """A value as it was at a revision."""

    key: str
    revision: int
    value: bytes
    terms: str


class ExportPage(NamedTuple):
    rows: list[ExportedRow]
    next_after: str
    """Where the next page starts; "" at the end."""


class IncomingRow(NamedTuple):
    """A change of another store, with the revision that it had there."""

    operation: PutKey | DeleteKey
    revision: int


class Adoption(NamedTuple):
    """A part that was taken over."""

    base: int
    """Watches and lists of the part from this revision on miss nothing."""
    revision: int
    """The same for those that span all parts."""


class Movable(Protocol):
    async def use_slot(self, slot: int) -> None:
        """Number revisions by the hybrid clock with this slot from now on."""

    async def advance(self, revision: int) -> None:
        """All later writes get newer revisions; reads and watches know this one.

        Returns when all writes with older ones are committed. Raises ClockSkew.
        """

    def complete_since(self, prefix: str) -> int:
        """The revision since which the history below a prefix is complete."""

    async def export(self, part: str, *, after: str = "", at: int = 0) -> ExportPage:
        """A page of the rows of a part as they were at a revision (0: now), in the order of keys.

        Raises Compacted.
        """

    async def hold(self, part: str) -> int:
        """Let writes to a part wait; the revision up to which all others are committed."""

    def release(self, part: str) -> None:
        """Let them go on, also after `refuse`."""

    def refuse(self, part: str, shard: str) -> None:
        """Let them fail with MovedAway, those that wait and all later ones."""

    async def evict(self, operations: Sequence[DeleteKey]) -> None:
        """Delete keys of a part that is held or refused."""

    async def stage(self, part: str, rows: Sequence[IncomingRow], note: str) -> None:
        """Store rows of a part that is not adopted yet, and with them how far it is."""

    def staged(self, part: str) -> str | None:
        """How far a part is that is being staged, as `stage` stored it last."""

    async def discard(self, part: str) -> None:
        """Forget what is staged of a part."""

    async def adopt(self, part: str, base: int) -> Adoption:
        """Make everything that is staged of a part current. Repeatable.

        Rows keep their revisions, unless one of this store has the same number, or the store
        cannot choose them.
        """

    async def announce(self, part: str) -> None:
        """Tell listeners about everything in a part that was adopted."""

    async def tidy(self, part: str) -> None:
        """Remove what is left of the staging of an adopted part; nobody waits for it."""
