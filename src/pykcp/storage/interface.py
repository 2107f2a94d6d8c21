"""The store: keys, values, revisions; nothing of HTTP or Kubernetes.

A store is a log of revisions and a table of current values. The revision is one
counter that only goes up; every committed operation has one. Reads see committed
state only and are never blocked by a writer. Events arrive in revision order,
each exactly once, on the event loop.

Values are bytes with the revision already in them: a writer hands over the bytes
before and after the place where the revision belongs (`Value`), the store fills
in the number when it is known. So what is stored is what is served.

`terms` is the text by which values are filtered without decoding them: entries
separated by TERM_SEPARATOR, with a separator at both ends, for example
`\\x1fapp=web\\x1ftier=back\\x1f` ("" when there are none). A `Condition` asks whether any of some
substrings occurs in it. `indexes` are entries of an inverted index, by which
keys are found without knowing a prefix ("all children of this owner").
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pykcp.machinery.terms import TERM_SEPARATOR as TERM_SEPARATOR  # noqa: PLC0414 — part of this API
from pykcp.machinery.terms import Condition as Condition  # noqa: PLC0414 — likewise
from pykcp.storage.group import ServerGroup
from pykcp.storage.moving import Movable
from pykcp.storage.operations import Operation
from pykcp.storage.values import Value as Value  # noqa: PLC0414 — likewise

SEALED_INDEX = "sealed"
"""Every encrypted value carries this index entry, so that a store says at once if it has any."""


class Entry(NamedTuple):
    """A current value; `revision` is that of its last change."""

    key: str
    revision: int
    value: bytes
    terms: str
    is_stale: bool = False
    """It would be stored otherwise today (another encryption key): writing it again, even
    unchanged, is worth while."""


Keys = list[str]
Revisions = list[int]


@dataclass(frozen=True, slots=True)
class Query:
    """A range of keys: those with the prefix `prefix`, after the key `after`."""

    prefix: str
    after: str = ""
    """Exclusive start, a whole key; "" for the beginning."""
    limit: int = 0
    """0: all."""
    at: int = 0
    """The revision to read at; 0: now."""
    where: tuple[Condition, ...] = ()
    residual: Callable[[str], bool] | None = None
    """A further test on the terms, for what conditions cannot say."""
    count_remaining: bool = False
    max_bytes: int = 0
    """Stop when the values are about that long together, as if at a limit; 0: however long."""


class Page(NamedTuple):
    values: list[bytes]
    revision: int
    """The revision of the whole answer: a watch from here misses nothing."""
    next_after: str
    """Where the next page starts (pass as `after`); "" at the end."""
    remaining: int | None
    """How many keys follow, if asked for and there is no filter."""


class Event:
    """One committed change, shared by all who see it."""

    __slots__ = (
        "created",
        "deleted",
        "key",
        "memo",
        "previous_terms",
        "revision",
        "terms",
        "value",
    )

    def __init__(
        self,
        revision: int,
        key: str,
        value: bytes,
        terms: str,
        previous_terms: str,
        created: bool,
        deleted: bool,
    ) -> None:
        self.revision = revision
        self.key = key
        self.value = value
        self.terms = terms
        self.previous_terms = previous_terms
        self.created = created
        self.deleted = deleted
        self.memo: dict[object, bytes] | None = None
        """Encoded forms of this event, created by the first watcher that needs one."""


class History(NamedTuple):
    """A page of the past."""

    events: Sequence[Event]
    reached: int
    """There are no others up to this revision."""


HISTORY_BYTES = 2 * 1024 * 1024
"""A page that is read from the disk ends with the value that exceeds this."""


class Size(Protocol):
    """How full a store is."""

    @property
    def used(self) -> int:
        """Bytes in use, as last measured."""

    @property
    def most_bytes(self) -> int:
        """Bytes that may be in use before writes that add to them raise StoreFull; 0: any."""


class StoreReader(Protocol):
    """What can be read of a store: values, ranges, indexes, history, and changes as they happen."""

    @property
    def group(self) -> ServerGroup | None:
        """The servers that share this store; None: there can be only this one."""

    @property
    def revision(self) -> int:
        """The newest revision whose events have been delivered to listeners."""

    def get(self, key: str) -> Entry | None: ...

    def keys(self, prefix: str, *, limit: int = 0) -> Keys:
        """The current keys below a prefix, at once; for prefixes that hold few, or with a limit."""

    def get_before(self, key: str, revision: int) -> bytes | None:
        """The value that a key had just before a revision; None if it had none or it is forgotten."""

    async def list(self, query: Query) -> Page:
        """One consistent snapshot, however long; does not hold the loop for long.

        Does not suspend at all when the answer is short.
        Raises Compacted (query.at too old) or FutureRevision (newer than the store).
        """

    async def count(self, prefix: str) -> int: ...

    def lookup(self, index: str, *, after: str = "", limit: int = 0) -> Keys:
        """Keys whose current value carries this index entry, in order."""

    def listen(
        self, callback: Callable[[Sequence[Event]], None], prefixes: Sequence[str] = ()
    ) -> Callable[[], None]:
        """Be called with every committed batch, in order; returns how to stop.

        `prefixes`: batches without any key that begins with one of these may be left out.
        """

    async def history(self, prefix: str, after: int, until: int, limit: int) -> History:
        """Events with after < revision <= until, oldest first, at most `limit` matching ones.

        Fewer if they are large (`HISTORY_BYTES`). Raises Compacted.
        """

    async def barrier(self) -> None:
        """Return when reads here see everything that any server has acknowledged until now.

        Only where several servers share a store is there anything to wait for.
        """


class Store(StoreReader, Movable, Protocol):
    @property
    def size(self) -> Size: ...

    @property
    def compacted(self) -> int:
        """Reads and watches below this revision raise Compacted."""

    async def start(self) -> None: ...

    async def drain(self) -> None:
        """Reject new writes; return when accepted ones are committed and announced to listeners."""

    async def stop(self) -> None:
        """Commit what was accepted, then close."""

    async def write(self, operations: Sequence[Operation]) -> Revisions:
        """All or nothing; returns each operation's revision (a Check gets 0).

        A transaction names each key at most once.
        Returns after the data is safe on disk and events are delivered to listeners.
        Raises Mismatch (key, revision found), Unavailable, or StoreFull.
        """

    async def compact(self, revision: int) -> None:
        """Forget superseded values older than this revision and give the disk space back."""

    def health(self) -> str | None:
        """None when well, otherwise one line saying what is wrong."""


Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]
