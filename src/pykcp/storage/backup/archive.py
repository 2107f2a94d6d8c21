"""Where a backup lies: a directory, or one tar file. The manifest is written last.

Only what the manifest names counts. A backup that is interrupted leaves the last manifest, and
with it the state of the last backup that was completed.
"""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Protocol

from pykcp.storage.backup.manifest import FILE, BackupError, Manifest, manifest_from
from pykcp.storage.backup.segments import create_private

UNFINISHED, SEGMENTS, BLOBS = "unfinished", "segments", "files"
"""Blobs are the contents of files, named by their checksum."""


class Archive(Protocol):
    def manifest(self) -> Manifest | None:
        """None: there is no backup here yet."""

    def has(self, name: str) -> bool: ...

    def read(self, name: str) -> IO[bytes]:
        """Raises BackupError."""

    def workplace(self) -> pathlib.Path:
        """A directory for segments that are being written."""

    def add(self, name: str, path: pathlib.Path) -> None:
        """Take a file of the workplace over under this name."""

    def add_bytes(self, name: str, data: bytes) -> None: ...

    def commit(self, manifest: Manifest) -> None:
        """Everything that was added is safe; now it counts."""

    def close(self) -> None: ...


class DirectoryArchive:
    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def manifest(self) -> Manifest | None:
        file = self._path / FILE
        if not file.exists():
            found = {one.name for one in self._path.iterdir()} if self._path.is_dir() else set()
            if found - {UNFINISHED, SEGMENTS, BLOBS}:  # those of a first backup that was killed
                raise BackupError(f"{self._path} is not empty and not a backup: it has no {FILE}")
            return None
        return manifest_from(file.read_bytes(), str(file))

    def has(self, name: str) -> bool:
        return (self._path / name).exists()

    def read(self, name: str) -> IO[bytes]:
        try:
            return (self._path / name).open("rb")
        except OSError as error:
            raise BackupError(f"{self._path / name}: {error.strerror}") from error

    def workplace(self) -> pathlib.Path:
        path = self._path / UNFINISHED
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def add(self, name: str, path: pathlib.Path) -> None:
        synced(path)
        target = self._path / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.replace(target)

    def add_bytes(self, name: str, data: bytes) -> None:
        part = self.workplace() / "part"
        part.unlink(missing_ok=True)
        with create_private(part) as out:
            out.write(data)
        self.add(name, part)

    def commit(self, manifest: Manifest) -> None:
        self.add_bytes(FILE, manifest.encoded())
        shutil.rmtree(self._path / UNFINISHED, ignore_errors=True)
        synced(self._path)

    def close(self) -> None:
        """Nothing is open."""


class TarArchive:
    """Later members are appended; of several with one name the last counts."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._members: dict[str, tarfile.TarInfo] = {}
        self._end = 0
        self._added: list[tuple[str, pathlib.Path]] = []
        self._open: tarfile.TarFile | None = None
        if path.exists():
            self._look()

    def _look(self) -> None:
        found: dict[str, tarfile.TarInfo] = {}
        try:
            self._open = tarfile.open(self._path, "r:")  # noqa: SIM115  # until `close`
            for member in self._open:
                found[member.name] = member
                size = -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
                end = member.offset_data + size
                if member.name == FILE and end <= self._path.stat().st_size:
                    # What follows without a manifest is of a backup that was not completed.
                    self._end, self._members = end, dict(found)
        except tarfile.TarError as error:
            if not self._end:
                raise BackupError(f"{self._path} is not a backup: {error}") from error

    def manifest(self) -> Manifest | None:
        if not self._path.exists():
            return None
        if not self._end:
            raise BackupError(f"{self._path} is not a backup: it has no {FILE}")
        with self.read(FILE) as source:
            return manifest_from(source.read(), f"{FILE} in {self._path}")

    def has(self, name: str) -> bool:
        return name in self._members or any(known == name for known, _ in self._added)

    def read(self, name: str) -> IO[bytes]:
        member = self._members.get(name)
        found = self._open.extractfile(member) if self._open and member else None
        if found is None:
            raise BackupError(f"{self._path} does not contain {name}")
        return found

    def workplace(self) -> pathlib.Path:
        path = self._path.with_name(f"{self._path.name}.unfinished")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def add(self, name: str, path: pathlib.Path) -> None:
        self._added.append((name, path))

    def add_bytes(self, name: str, data: bytes) -> None:
        path = self.workplace() / hashlib.sha256(name.encode()).hexdigest()
        path.unlink(missing_ok=True)
        with create_private(path) as out:
            out.write(data)
        self.add(name, path)

    def commit(self, manifest: Manifest) -> None:
        self.close()
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as out:
            out.truncate(self._end)
            out.seek(self._end)
            with tarfile.open(fileobj=out, mode="w:") as tar:
                for name, path in self._added:
                    tar.add(path, name, recursive=False)
                text = manifest.encoded()
                info = tarfile.TarInfo(FILE)
                info.size, info.mode = len(text), 0o600
                tar.addfile(info, io.BytesIO(text))
            out.flush()
            os.fsync(out.fileno())
        self._added.clear()
        shutil.rmtree(self.workplace(), ignore_errors=True)
        self._look()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def synced(path: pathlib.Path) -> None:
    """Wait until a file or a directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_file_name(path: pathlib.Path) -> bool:
    """Whether a backup is made as one file there."""
    return path.suffix == ".tar" or path.is_file()


@contextmanager
def opened_archive(path: pathlib.Path) -> Iterator[Archive]:
    archive: Archive = TarArchive(path) if is_file_name(path) else DirectoryArchive(path)
    try:
        yield archive
    finally:
        archive.close()


def existing(archive: Archive, path: pathlib.Path) -> Manifest:
    """The manifest of a backup that must be there. Raises BackupError."""
    found = archive.manifest() if path.exists() else None
    if found is None:
        raise BackupError(f"there is no backup at {path}")
    return found
