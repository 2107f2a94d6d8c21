"""Reading files that hold credentials."""

from __future__ import annotations

from pathlib import Path


class CredentialError(Exception):
    """A key, certificate or token file that cannot be used; the text says which and why."""


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CredentialError(f"cannot read {path}: {error.strerror or error}") from error
