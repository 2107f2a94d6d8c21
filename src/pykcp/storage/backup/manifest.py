"""The table of contents of a backup, `backup.json`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pykcp.storage.errors import StoreError

FORMAT = 1
"""Of the manifest and of segments; a higher one is refused."""
FILE = "backup.json"
SQLITE, ETCD = "sqlite", "etcd"


class BackupError(StoreError):
    """A backup that cannot be made, read or restored; the message is for the user."""


class Segment(msgspec.Struct, frozen=True):
    """A part of a store's log."""

    file: str
    sha256: str
    size: int
    rows: int
    time: float
    """When it was complete, in seconds of Unix time: what was acknowledged before is in it."""
    since: int
    """It holds what was written after this revision (0: all) …"""
    until: int
    """… up to this one."""
    oldest: int
    """The store can be rebuilt as it was at any revision from here to `until`."""
    is_full: bool = False
    lineage: str = ""
    """Changes when a store was rebuilt from a backup: its log does not continue this one."""
    slot: int = 0
    """How the store numbers its revisions; see `storage.numbering`."""


class SavedFile(msgspec.Struct, frozen=True):
    """A file beside the stores: keys, certificates, kubeconfigs, manifests."""

    path: str
    """Relative to the root directory; absolute if it lies outside of it."""
    mode: int
    sha256: str = ""
    """The name of its content in the backup; "" for a link."""
    link: str = ""


class FileSet(msgspec.Struct, frozen=True):
    """All files as they were at one time."""

    time: float
    files: tuple[SavedFile, ...]


class Member(msgspec.Struct, frozen=True):
    """One store of an installation."""

    directory: str
    """Relative to the root directory; "" for itself."""
    kind: str
    segments: tuple[Segment, ...] = ()

    @property
    def name(self) -> str:
        return self.directory or "the server"


class Manifest(msgspec.Struct, frozen=True):
    program: str
    """The version of the program that wrote it."""
    members: tuple[Member, ...] = ()
    file_sets: tuple[FileSet, ...] = ()
    format: int = FORMAT

    def member(self, directory: str) -> Member | None:
        return next((one for one in self.members if one.directory == directory), None)

    def with_member(self, member: Member) -> Manifest:
        others = [one for one in self.members if one.directory != member.directory]
        ordered = sorted([*others, member], key=lambda one: one.directory)
        return msgspec.structs.replace(self, members=tuple(ordered))

    def with_files(self, file_set: FileSet) -> Manifest:
        """The same files as before are not listed again."""
        if self.file_sets and self.file_sets[-1].files == file_set.files:
            return self
        return msgspec.structs.replace(self, file_sets=(*self.file_sets, file_set))

    def files_at(self, moment: float) -> tuple[SavedFile, ...]:
        """The files as they were last saved before a moment, or the first ones."""
        before = [one for one in self.file_sets if one.time <= moment] or self.file_sets[:1]
        return before[-1].files if before else ()

    def encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)


class _Version(msgspec.Struct):
    format: int = 0


def manifest_from(text: bytes, where: str) -> Manifest:
    """Raises BackupError."""
    try:
        version = msgspec.json.decode(text, type=_Version).format
        if version > FORMAT:
            raise BackupError(
                f"{where} has backup format {version}, this program knows {FORMAT}:"
                " use the program that wrote it, or a newer one"
            )
        return msgspec.json.decode(text, type=Manifest)
    except msgspec.MsgspecError as error:
        raise BackupError(f"{where} is not the manifest of a backup: {error}") from error


class Point(msgspec.Struct, frozen=True):
    """A state of one store that a backup can bring back."""

    revision: int
    time: float
    """When the state was current, or the segment with it was complete."""
    segments: tuple[Segment, ...]
    """From a full one on; rows of the last one after `revision` do not count."""


def point_of(member: Member, *, revision: int = 0, time: float | None = None) -> Point:
    """The newest point, that of a revision, or the last one before a time. Raises BackupError."""
    segments = member.segments
    if not segments:
        raise BackupError(f"the backup has nothing of {member.name}")
    last = len(segments) - 1
    if revision:
        last = _holding(segments, revision, member.name)
    elif time is not None:
        before = [number for number, one in enumerate(segments) if one.time <= time]
        if not before:
            raise BackupError(f"the backup of {member.name} has nothing from before that time")
        last = before[-1]
    chain = tuple(_chain(segments, last))
    return Point(revision or segments[last].until, segments[last].time, chain)


def _holding(segments: Sequence[Segment], revision: int, name: str) -> int:
    for number in reversed(range(len(segments))):
        one = segments[number]
        if one.oldest <= revision <= one.until:
            return number
    ranges = ", ".join(f"{one.oldest} to {one.until}" for one in segments)
    raise BackupError(
        f"the backup of {name} cannot be restored to revision {revision}; it has {ranges}"
    )


def _chain(segments: Sequence[Segment], last: int) -> Iterator[Segment]:
    first = last
    while not segments[first].is_full:
        if first == 0:
            raise BackupError("the backup does not begin with a full segment")
        first -= 1
    yield from segments[first : last + 1]
