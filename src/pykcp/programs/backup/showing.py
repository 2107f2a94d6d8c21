"""`kcp backup show`: what a backup has, and whether it is all there."""

from __future__ import annotations

import datetime as dt
import hashlib
import pathlib

from pykcp.programs.backup.backing_up import Say
from pykcp.storage.backup.archive import BLOBS, Archive, existing, opened_archive
from pykcp.storage.backup.manifest import BackupError, Segment
from pykcp.storage.backup.segments import read_segment


def show(source: str, say: Say) -> int:
    """The exit code: 1 if something is damaged or missing."""
    path, damaged = pathlib.Path(source), 0
    with opened_archive(path) as archive:
        manifest = existing(archive, path)
        for member in manifest.members:
            say(f"{member.name} ({member.kind})")
            for segment in member.segments:
                problem = _damage(archive, segment)
                damaged += bool(problem)
                say(f"  {_line(segment)}{f'  {problem}' if problem else ''}")
        files = manifest.file_sets[-1].files if manifest.file_sets else ()
        for file in files:
            if file.sha256 and not _is_whole(archive, file.sha256):
                damaged += 1
                say(f"  {file.path}: damaged or missing")
        say(f"{len(files)} files, written by {manifest.program}")
    say("damaged" if damaged else "complete")
    return 1 if damaged else 0


def _line(segment: Segment) -> str:
    moment = dt.datetime.fromtimestamp(segment.time, dt.UTC)
    kind = "full" if segment.is_full else f"since {segment.since}"
    return (
        f"{moment.isoformat(timespec='seconds')}  revision {segment.until}, {kind},"
        f" {segment.rows} rows, from {segment.oldest} on"
    )


def _damage(archive: Archive, segment: Segment) -> str:
    try:
        with archive.read(segment.file) as source:
            for _ in read_segment(source, segment.file, segment.sha256):
                pass
    except BackupError as error:
        return str(error)
    return ""


def _is_whole(archive: Archive, digest: str) -> bool:
    try:
        with archive.read(f"{BLOBS}/{digest}") as source:
            return hashlib.sha256(source.read()).hexdigest() == digest
    except BackupError:
        return False
