"""Size limit of the store: beyond it only writes that do not add data are accepted.

The size is measured now and then, when something was committed; a write costs one comparison
while there is room. Once there is none, a transaction may still

- delete, always;
- replace values by ones that are hardly larger: objects are marked as deleted and lose their
  finalizers, leases are renewed;
- create as many keys as it deletes, as when something is moved.

Replacing values takes room, too, until what they were is forgotten. So beyond a reserve nothing
but deletions is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pykcp.storage.errors import StoreFull
from pykcp.storage.interface import Entry
from pykcp.storage.operations import DeleteKey, Operation, PutKey

logger = logging.getLogger(__name__)

SLACK_BYTES = 4096
"""Growth of a transaction that counts as none: a deletion timestamp, a condition, managed fields."""
RESERVE_SHARE, RESERVE_BYTES = 0.1, 64 << 20
"""What values that replace others may take beyond the limit: this part of it, or at least so much."""
MEASURE_BYTES = 1 << 20
"""The size is measured after so many bytes were written, and at every commit if it is too large."""

Get = Callable[[str], Entry | None]


class SizeLimit:
    def __init__(self, most_bytes: int, measure: Callable[[], int]) -> None:
        """`most_bytes`: 0 is no limit; `measure`: the bytes that are in use."""
        self.most_bytes, self._measure = most_bytes, measure
        self._reserve = max(RESERVE_BYTES, int(most_bytes * RESERVE_SHARE))
        self.used = 0
        self.is_reached = False
        self._written = 0

    def note(self, size: int) -> None:
        """So many bytes were committed."""
        self._written += size
        if self._written >= MEASURE_BYTES or self.is_reached:
            self.look()

    def look(self) -> None:
        """Measure."""
        self._written = 0
        self.used = self._measure()
        was_reached, self.is_reached = self.is_reached, 0 < self.most_bytes <= self.used
        if self.is_reached and not was_reached:
            logger.error(
                "the store is full: %s; only deletions and reads are accepted", self._words()
            )
        elif was_reached and not self.is_reached:
            logger.warning("the store has space again: %d bytes in use", self.used)

    def check(self, operations: Sequence[Operation], get: Get) -> None:
        """Raise StoreFull for a transaction that would add to a store that is full."""
        puts = [operation for operation in operations if isinstance(operation, PutKey)]
        if not self.is_reached or not puts:
            return
        deletes = [operation for operation in operations if isinstance(operation, DeleteKey)]
        if self.used > self.most_bytes + self._reserve and not deletes:
            raise StoreFull(self._words())
        before = [get(put.key) for put in puts]
        created = sum(entry is None for entry in before)
        before += [get(delete.key) for delete in deletes]
        size = sum(len(put.value.head) + len(put.value.tail) for put in puts)
        growth = size - sum(len(entry.value) for entry in before if entry is not None)
        if created > len(deletes) or growth > SLACK_BYTES:
            raise StoreFull(self._words())

    def _words(self) -> str:
        return f"{self.used} of {self.most_bytes} bytes are in use (--store-size-limit)"
