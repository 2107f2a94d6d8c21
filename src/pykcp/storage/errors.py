"""Errors of the store layer; `registry` translates them into API statuses."""

from __future__ import annotations


class StoreError(Exception):
    """Something the store could not do."""

    is_told = False
    """Whether the message may be sent to clients: it names no file and no address."""


class RevisionMismatch(StoreError):
    """A compare failed: the key is at another revision than expected (0: absent)."""

    def __init__(self, key: str, found: int) -> None:
        super().__init__(f"{key} is at revision {found}")
        self.key = key
        self.found = found


class Compacted(StoreError):
    """The revision asked for has been forgotten."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is older than {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StoreError):
    """The revision asked for does not exist yet."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is newer than {current}")
        self.revision = revision
        self.current = current


class StoreUnavailable(StoreError):
    """The store cannot answer now; the caller may try again later."""


class StoreFull(StoreError):
    """No room on the disk (or etcd's quota is used up)."""


class Corrupt(StoreError):
    """The file is damaged; the message names it and says what to do."""


class InUse(StoreError):
    """Another process has the store open; the message names the file and the process."""


class TooLarge(StoreError):
    """The store does not take values or transactions of this size."""


class ClockSkew(StoreError):
    """A revision of another shard is too far ahead of the clock here."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"revision {revision} is too far in the future: compare the clocks")
        self.revision = revision


class MovedAway(StoreError):
    """The keys of this logical cluster are stored by another shard now."""

    def __init__(self, part: str, shard: str) -> None:
        super().__init__(f"logical cluster {part} is on shard {shard}")
        self.part, self.shard = part, shard
