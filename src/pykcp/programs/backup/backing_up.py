"""`kcp backup`: save the stores of an installation and the files beside them, while it serves."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import pathlib
import signal
import threading
import time
from collections.abc import Callable

import msgspec

from pykcp.programs.backup.installation import StoreFile, find_files, find_stores, is_served
from pykcp.programs.backup.settings import BackupSettings
from pykcp.server.documents.version import GIT_VERSION
from pykcp.storage.backup.archive import BLOBS, SEGMENTS, Archive, opened_archive
from pykcp.storage.backup.capture import Captured, Source, opened
from pykcp.storage.backup.manifest import (
    ETCD,
    BackupError,
    FileSet,
    Manifest,
    Member,
    SavedFile,
    Segment,
)
from pykcp.storage.backup.segments import SegmentWriter

_log = logging.getLogger(__name__)
Say = Callable[[str], None]


def run(settings: BackupSettings, say: Say) -> int:
    """Make a backup, or keep adding to one until a signal; the exit code."""
    stop = threading.Event()
    if settings.backup.every:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
    back_up(settings, say)
    while settings.backup.every and not stop.wait(settings.backup.every):
        try:
            back_up(settings.replace(backup=settings.backup.replace(full=False)), say)
        except BackupError as error:  # a server that restarts, for example
            _log.error("the backup was not continued: %s", error)
    return 0


def back_up(settings: BackupSettings, say: Say) -> Manifest:
    """Add the present state to a backup. Raises StoreError and OSError."""
    root, to = settings.generic.root_directory, pathlib.Path(settings.backup.to)
    if to.absolute().is_relative_to(root.absolute()):
        raise BackupError(f"--to {to} must not be inside of the root directory {root}")
    stores = find_stores(root)
    with opened_archive(to) as archive:
        manifest = archive.manifest() or Manifest(GIT_VERSION)
        manifest = msgspec.structs.replace(manifest, program=GIT_VERSION)
        for store in stores:
            _bring_up_to_date(settings, store)
            manifest, line = _add_store(archive, manifest, store, is_full=settings.backup.full)
            say(line)
        outside = [*settings.backup.include, settings.store.encryption_provider_config]
        manifest = _add_files(archive, manifest, root, [path for path in outside if path])
        archive.commit(manifest)
    return manifest


def _bring_up_to_date(settings: BackupSettings, store: StoreFile) -> None:
    """The mirror of etcd is current while a server runs; otherwise it is updated here."""
    if store.kind != ETCD or is_served(store.path):
        return
    if not settings.store.etcd_servers:
        raise BackupError(
            f"no server runs on {store.path.parent}, which stores its data in etcd:"
            " start it, or set --etcd-servers and the other flags of etcd"
        )
    asyncio.run(_refresh(settings, store.path.parent))


async def _refresh(settings: BackupSettings, directory: pathlib.Path) -> None:
    store = settings.store.in_etcd(directory)
    await store.start()
    await store.stop()


def _add_store(
    archive: Archive, manifest: Manifest, store: StoreFile, *, is_full: bool
) -> tuple[Manifest, str]:
    member = manifest.member(store.directory) or Member(store.directory, store.kind)
    with opened(store.path) as source:
        since = 0 if is_full else _continued(member, source)
        label = (store.directory or "server").replace("/", "-")
        path = archive.workplace() / label
        path.unlink(missing_ok=True)
        writer = SegmentWriter(path)
        try:
            captured = source.capture(since, writer)
            writer.finish()
        except BaseException:
            writer.discard()
            raise
        segment = _segment(member, label, since, captured, writer, source.lineage)
    if since and not writer.rows and captured.until == since:
        path.unlink()
        return manifest, f"{member.name}: nothing new since revision {since}"
    archive.add(segment.file, path)
    saved = msgspec.structs.replace(member, segments=(*member.segments, segment))
    what = f"since {since}" if since else "in full"
    line = f"{member.name}: saved up to revision {segment.until} {what}, {segment.rows} rows, {segment.size} bytes"
    return manifest.with_member(saved), line


def _continued(member: Member, source: Source) -> int:
    """The revision that a segment can go on from; 0: everything has to be saved."""
    last = member.segments[-1] if member.segments else None
    if last is None or last.lineage != source.lineage or source.newest < last.until:
        return 0
    return last.until


def _segment(
    member: Member,
    label: str,
    since: int,
    captured: Captured,
    writer: SegmentWriter,
    lineage: str,
) -> Segment:
    return Segment(
        file=f"{SEGMENTS}/{label}/{len(member.segments):06d}-{captured.until}.gz",
        sha256=writer.sha256,
        size=writer.size,
        rows=writer.rows,
        time=captured.time,
        since=since,
        until=captured.until,
        oldest=captured.oldest,
        is_full=not since,
        lineage=lineage,
        slot=captured.slot,
    )


def _add_files(
    archive: Archive, manifest: Manifest, root: pathlib.Path, outside: list[str]
) -> Manifest:
    saved = []
    for name, path in find_files(root, outside):
        mode = path.lstat().st_mode & 0o777
        if path.is_symlink():
            saved.append(SavedFile(name, mode, link=str(path.readlink())))
            continue
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if not archive.has(f"{BLOBS}/{digest}"):
            archive.add_bytes(f"{BLOBS}/{digest}", content)
        saved.append(SavedFile(name, mode, digest))
    return manifest.with_files(FileSet(round(time.time(), 3), tuple(saved)))
