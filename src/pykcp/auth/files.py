"""Credential files: private, and replaced atomically."""

from __future__ import annotations

import os
from pathlib import Path

from pykcp.clients.credential_files import CredentialError as CredentialError  # noqa: PLC0414 — part of this API
from pykcp.clients.credential_files import read as read  # noqa: PLC0414 — likewise


def ensure_directory(path: Path) -> None:
    """A directory that only its owner can enter; an existing one is left as it is."""
    try:
        missing = [one for one in path.parents if not one.exists()]
        for parent in reversed(missing):
            parent.mkdir(exist_ok=True)
            _give(parent, parent.parent)
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)
            _give(path, path.parent)
    except OSError as error:
        raise CredentialError(f"cannot make {path}: {error.strerror or error}") from error


def write_private(path: Path, content: bytes) -> None:
    _write(path, content, 0o600)


def write_public(path: Path, content: bytes) -> None:
    _write(path, content, 0o644)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write beside the file and rename: a reader sees the old content or the new one."""
    ensure_directory(path.parent)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask, or a left-over file's mode
            _give(file.fileno(), path.parent)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise CredentialError(f"cannot write {path}: {error.strerror or error}") from error


def _give(what: Path | int, parent: Path) -> None:
    """What root writes into a directory of another user is for programs of that user."""
    if os.geteuid() == 0 and (owner := parent.stat()).st_uid != 0:
        os.chown(what, owner.st_uid, owner.st_gid)


def read_if_present(path: Path) -> bytes | None:
    return read(path) if path.exists() else None
