"""Workloads for another host: one encrypted file with their descriptions, files and data.

The content is compressed JSON, encrypted with AES-256-GCM; the key is derived from a passphrase
with scrypt. It contains private keys.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import sqlite3
import tempfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from pykcp.auth.files import ensure_directory, write_private
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.compiled import CompiledFile, CompiledWorkload
from pykcp.programs.operator.host.layout import HostFiles, write_json
from pykcp.types import Object

_MAGIC = b"KCP-EXPORT-1\n"
_SALT, _NONCE = 16, 12
_LEFT_OUT = ("-wal", "-shm", ".lock")
_SHORTEST = 8


@dataclass(frozen=True, slots=True)
class WorkloadArchive:
    root: str
    """The root directory of the host that it is from."""
    workloads: tuple[CompiledWorkload, ...]
    data: dict[str, dict[str, bytes]]
    """Files of data directories, by workload."""
    keys: dict[str, str] = field(default_factory=dict)
    """By workload: what later changes of it are encrypted with (`deliveries.py`)."""
    made: float = 0.0
    """When."""
    servers: dict[str, str] = field(default_factory=dict)
    """URLs of the root shard, by workload: where those changes are fetched."""


def seal(archive: WorkloadArchive, passphrase: bytes) -> bytes:
    content: Object = {
        "root": archive.root,
        "workloads": [one.to_object() for one in archive.workloads],
        "data": {
            name: {path: base64.b64encode(body).decode() for path, body in files.items()}
            for name, files in archive.data.items()
        },
        "keys": archive.keys,
        "made": archive.made,
        "servers": archive.servers,
    }
    salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
    text = zlib.compress(json.dumps(content).encode())
    sealed: bytes = _cipher(passphrase, salt).encrypt(nonce, text, _MAGIC)
    return _MAGIC + salt + nonce + sealed


def unseal(sealed: bytes, passphrase: bytes) -> WorkloadArchive:
    """Raises SettingsError for another file, or another passphrase."""
    from cryptography.exceptions import InvalidTag

    if not sealed.startswith(_MAGIC):
        raise SettingsError("this is not an archive of `kcp export`")
    rest = sealed[len(_MAGIC) :]
    salt, nonce, text = rest[:_SALT], rest[_SALT : _SALT + _NONCE], rest[_SALT + _NONCE :]
    try:
        plain = _cipher(passphrase, salt).decrypt(nonce, text, _MAGIC)
    except (InvalidTag, ValueError):
        raise SettingsError("the passphrase is wrong, or the archive is damaged") from None
    content = json.loads(zlib.decompress(plain))
    data = {
        name: {path: base64.b64decode(body) for path, body in files.items()}
        for name, files in content["data"].items()
    }
    workloads = tuple(CompiledWorkload.from_object(one) for one in content["workloads"])
    keys, made = content.get("keys") or {}, float(content.get("made") or 0)
    servers = content.get("servers") or {}
    return WorkloadArchive(content["root"], workloads, data, keys, made, servers)


def _cipher(passphrase: bytes, salt: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    if len(passphrase) < _SHORTEST:
        raise SettingsError(f"the passphrase must have at least {_SHORTEST} characters")
    return AESGCM(Scrypt(salt, length=32, n=2**15, r=8, p=1).derive(passphrase))


# -- to another place --------------------------------------------------------------------------


def relocated(workload: CompiledWorkload, old: str, new: str) -> CompiledWorkload:
    """A workload whose files are below another root directory."""

    def text(value: str) -> str:
        return value.replace(f"{old}/", f"{new}/")

    def moved(files: Iterable[CompiledFile]) -> tuple[CompiledFile, ...]:
        before, after = f"{old}/".encode(), f"{new}/".encode()
        return tuple(
            replace(one, path=text(one.path), content=one.content.replace(before, after))
            for one in files
        )

    return replace(
        workload,
        arguments=tuple(text(one) for one in workload.arguments),
        files=moved(workload.files),
        environment={key: text(value) for key, value in workload.environment.items()},
        data_directory=text(workload.data_directory),
        directories=tuple(text(one) for one in workload.directories),
        listen=replace(workload.listen, authority=text(workload.listen.authority)),
        init=tuple(
            replace(
                step,
                command=tuple(text(one) for one in step.command),
                arguments=tuple(text(one) for one in step.arguments),
                files=moved(step.files),
            )
            for step in workload.init
        ),
    )


def install(archive: WorkloadArchive, files: HostFiles) -> list[str]:
    """Write what an archive contains; `kcp up` runs it. The names of the workloads."""
    for workload in archive.workloads:
        moved = relocated(workload, archive.root, str(files.root))
        data = archive.data.get(workload.name, {})
        directory = pathlib.Path(moved.data_directory) if moved.data_directory else None
        if data and directory is not None:
            if directory.exists() and any(directory.iterdir()):
                raise SettingsError(f"{directory} contains data already; it is not replaced")
            ensure_directory(directory)
            for name, body in data.items():
                write_private(directory / name, body)
        write_json(files.imported / f"{workload.name}.json", moved.to_object())
    return [one.name for one in archive.workloads]


def read_data(directory: pathlib.Path) -> dict[str, bytes]:
    """The files of a store that no process uses; databases as one consistent file."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if not path.is_file() or path.name.endswith(_LEFT_OUT):
            continue
        name = str(path.relative_to(directory))
        found[name] = _database(path) if path.suffix == ".db" else path.read_bytes()
    return found


def _database(path: pathlib.Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy.db"
        source, target = sqlite3.connect(path), sqlite3.connect(copy)
        try:
            source.backup(target)
        finally:
            target.close()
            source.close()
        return copy.read_bytes()
