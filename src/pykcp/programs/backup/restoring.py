"""`kcp restore`: an installation, or one of its stores, as a backup has it.

Everything is made in a directory beside the root directory and checked there. Then it takes the
place of the root directory, which is kept under another name.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import pathlib
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from pykcp.programs.backup.backing_up import Say
from pykcp.programs.backup.installation import MIRROR_FILE, is_served
from pykcp.programs.backup.reindexing import reindexing
from pykcp.programs.backup.settings import RestoreSettings
from pykcp.programs.kit.groups.store import FILE as STORE_FILE
from pykcp.programs.shard.consistency import Problem, Report, check
from pykcp.programs.shard.ownership import mark_restored, own_shards
from pykcp.programs.shard.stages.stores import start_store
from pykcp.storage.backup.archive import BLOBS, Archive, existing, opened_archive
from pykcp.storage.backup.manifest import BackupError, Manifest, Member, Point, SavedFile, point_of
from pykcp.storage.backup.rebuild import Rebuilt, rebuild
from pykcp.storage.backup.segments import Line, read_segment
from pykcp.storage.interface import Store

OUTSIDE = "outside"
"""Where files go that were not below the root directory."""
_IN_PROGRESS = ("unbound", "stale-lock")
"""Findings of the check that are normal for a moment on a server that runs."""


def run(settings: RestoreSettings, say: Say) -> int:
    """The exit code: 0, or 1 if the restored state has problems and was not put in place."""
    options = settings.restore
    root = settings.generic.root_directory.absolute() / options.member
    _check_target(settings, root)
    beside = root.with_name(f"{root.name}.restoring")
    shutil.rmtree(beside, ignore_errors=True)
    path = pathlib.Path(options.source)
    with opened_archive(path) as archive:
        manifest = existing(archive, path)
        points = _points(settings, manifest)
        moment = max(point.time for point in points.values())
        files = _below(manifest.files_at(moment), options.member)
        _restore_files(archive, files, beside, say)
        for directory, point in points.items():
            say(_restore_store(settings, archive, beside, directory, point))
    checked = [asyncio.run(_checked(settings.store.make(beside / name))) for name in points]
    problems = [_serious_problems(one.report, say) for one in checked]
    for name in points:
        mark_restored(beside / name, together=[shard for one in checked for shard in one.shards])
    say(
        "a shard of several asks the other shards which logical clusters they have before it serves"
    )
    if any(problems) and not options.accept_problems:
        say(f"not put in place: see {beside}, or repeat with --accept-problems")
        return 1
    _put_in_place(beside, root, say)
    return 0


def _check_target(settings: RestoreSettings, root: pathlib.Path) -> None:
    if not root.exists() or not any(root.iterdir()):
        return
    if not settings.restore.replace_existing:
        raise BackupError(
            f"{root} is not empty: choose another --root-directory, or set --replace to have it"
            " moved aside"
        )
    for place in [root, *(one for one in root.iterdir() if one.is_dir())]:
        for name in (STORE_FILE, MIRROR_FILE):
            if is_served(place / name):
                raise BackupError(f"a server runs on {place}: stop it first")


def _points(settings: RestoreSettings, manifest: Manifest) -> dict[str, Point]:
    """What to restore, by directory."""
    options, members = settings.restore, list(manifest.members)
    if options.member:
        members = [one for one in members if one.directory == options.member]
        if not members:
            known = ", ".join(one.directory or '""' for one in manifest.members)
            raise BackupError(f"--member: the backup has no {options.member}; it has {known}")
    if len(members) > 1 and (options.to_revision or settings.store.etcd_servers):
        raise BackupError(
            "the backup has several stores: name one with --member,"
            " since --to-revision and --etcd-servers are for one store"
        )
    revision, moment = options.to_revision, options.moment()
    if options.member:
        return {"": _point(members[0], revision, moment)}
    return {one.directory: _point(one, revision, moment) for one in members}


def _point(member: Member, revision: int, moment: float | None) -> Point:
    return point_of(member, revision=revision, time=moment)


def _below(files: Sequence[SavedFile], member: str) -> list[SavedFile]:
    """The files of a member, relative to its directory; all files without one."""
    if not member:
        return list(files)
    head = f"{member}/"
    found = [file for file in files if file.path.startswith(head)]
    return [msgspec.structs.replace(one, path=one.path.removeprefix(head)) for one in found]


def _restore_files(
    archive: Archive, files: Sequence[SavedFile], target: pathlib.Path, say: Say
) -> None:
    target.mkdir(mode=0o700, parents=True)
    moved = []
    for file in files:
        name = file.path
        if name.startswith("/"):
            name = f"{OUTSIDE}{name}"
            moved.append(file.path)
        _restore_file(archive, file, target / name)
    for path in moved:
        say(f"{path} is in {OUTSIDE}{path} of the root directory: put it where its flag expects it")


def _restore_file(archive: Archive, file: SavedFile, path: pathlib.Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.link:
        path.symlink_to(file.link)
        return
    with archive.read(f"{BLOBS}/{file.sha256}") as source:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
        with os.fdopen(descriptor, "wb") as out:
            shutil.copyfileobj(source, out)


def _restore_store(
    settings: RestoreSettings, archive: Archive, root: pathlib.Path, directory: str, point: Point
) -> str:
    path = root / directory / STORE_FILE
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = rebuild(
        path,
        _segments(archive, point),
        point.revision,
        point.segments[-1].slot,
        point.time,
        reindexing(settings.store.encryption_provider_config),
    )
    if settings.store.etcd_servers:
        from pykcp.storage.backup.into_etcd import move_into_etcd
        from pykcp.storage.etcd import EtcdStore

        store = settings.store.in_etcd(path.parent)
        assert isinstance(store, EtcdStore)
        made = asyncio.run(move_into_etcd(store, path, made))
    return _told(directory, point, made)


def _segments(archive: Archive, point: Point) -> Iterator[Iterator[Line]]:
    for segment in point.segments:
        with archive.read(segment.file) as source:
            yield read_segment(source, segment.file, segment.sha256)


def _told(directory: str, point: Point, made: Rebuilt) -> str:
    when = dt.datetime.fromtimestamp(point.time, dt.UTC).isoformat(timespec="seconds")
    return (
        f"{directory or 'the server'}: {made.objects} objects as of revision {point.revision}"
        f" ({when}); the restored store continues at revision {made.revision}"
    )


def _serious_problems(report: Report, say: Say) -> list[Problem]:
    for line in str(report).splitlines():
        say(f"fsck: {line}")
    serious = [problem for problem in report.problems if problem.kind not in _IN_PROGRESS]
    if report.problems and not serious:
        say("controllers were at work on this when it was saved, and go on when the server starts")
    return serious


class _Checked(NamedTuple):
    report: Report
    shards: list[str]
    """The shard whose store it is, if it is one of several."""


async def _checked(store: Store) -> _Checked:
    started = await start_store(store)
    try:
        return _Checked(await check(started), own_shards(started))
    finally:
        await started.stop()


def _put_in_place(made: pathlib.Path, root: pathlib.Path, say: Say) -> None:
    aside = root.with_name(f"{root.name}.before-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
    has_old = root.exists() and any(root.iterdir())
    if has_old:
        root.rename(aside)
    elif root.exists():
        root.rmdir()
    made.rename(root)
    say(f"restored to {root}")
    if has_old:
        say(f"what was there before is in {aside}; to go back, stop the server and run:")
        say(f"  mv {root} {root}.restored && mv {aside} {root}")
    else:
        say(f"to go back, stop the server and remove {root}")
