"""Files of a workload on disk: all files of one directory change at the same moment.

    tls/server/..3f2a9c/tls.crt     the contents
    tls/server/..data -> ..3f2a9c   switched with one rename
    tls/server/tls.crt -> ..data/tls.crt

A program therefore never reads a certificate with the key of another one. Kubernetes lays out
its volumes in the same way.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pykcp.auth.files import ensure_directory
from pykcp.clients.credential_files import CredentialError
from pykcp.programs.operator.compiled import CompiledFile

_LINK = "..data"


def materialize(files: Iterable[CompiledFile]) -> list[str]:
    """Write files; the directories that changed. Raises CredentialError."""
    directories: dict[pathlib.Path, dict[str, CompiledFile]] = defaultdict(dict)
    for file in files:
        path = pathlib.Path(file.path)
        directories[path.parent][path.name] = file
    changed = []
    for directory, content in directories.items():
        try:
            if _write_directory(directory, content):
                changed.append(str(directory))
        except OSError as error:
            what = error.strerror or str(error)
            raise CredentialError(f"cannot write {directory}: {what}") from error
    return changed


def remove_files(files: Sequence[CompiledFile]) -> None:
    """Remove files that were written, and the directories that are empty then."""
    for directory in {pathlib.Path(file.path).parent for file in files}:
        if not directory.is_dir():
            continue
        for path in directory.iterdir():
            if path.is_symlink():
                path.unlink()
            elif path.is_dir() and path.name.startswith(".."):
                shutil.rmtree(path)
    for directory in {pathlib.Path(file.path).parent for file in files}:
        for one in (directory, *directory.parents):
            try:
                one.rmdir()
            except OSError:  # not empty, or gone
                break


def _write_directory(directory: pathlib.Path, files: Mapping[str, CompiledFile]) -> bool:
    ensure_directory(directory)
    target = f"..{_digest(files)}"
    link = directory / _LINK
    old = str(link.readlink()) if link.is_symlink() else ""
    if old == target and all(_is_complete(directory, name) for name in files):
        return False
    _write_contents(directory / target, files)
    _switch(link, target)
    for name in files:
        if not _is_complete(directory, name):
            _switch(directory / name, f"{_LINK}/{name}")
    for path in directory.iterdir():
        if path.is_symlink() and path.name != _LINK and path.name not in files:
            path.unlink()
        elif path.is_dir() and path.name.startswith("..") and path.name not in (target, _LINK):
            shutil.rmtree(path)
    return True


def _digest(files: Mapping[str, CompiledFile]) -> str:
    """Keyed by nothing secret but long: a name does not disclose a private key."""
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        digest.update(f"{name}\0{file.mode}\0{len(file.content)}\0".encode() + file.content)
    return digest.hexdigest()[:20]


def _is_complete(directory: pathlib.Path, name: str) -> bool:
    path = directory / name
    return path.is_symlink() and str(path.readlink()) == f"{_LINK}/{name}" and path.exists()


def _write_contents(target: pathlib.Path, files: Mapping[str, CompiledFile]) -> None:
    if target.exists():  # left over from a write that was interrupted
        shutil.rmtree(target)
    target.mkdir(mode=0o700)
    for name, file in files.items():
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(target / name, flags, file.mode), "wb") as out:
            os.fchmod(out.fileno(), file.mode)
            out.write(file.content)
            out.flush()
            os.fsync(out.fileno())


def _switch(link: pathlib.Path, target: str) -> None:
    """Make a link point to another place, in one step; a file that is there is replaced."""
    beside = link.with_name(f".{link.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    beside.replace(link)
