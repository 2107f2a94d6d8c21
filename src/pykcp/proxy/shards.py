"""The shards of an installation: Shard objects of `root`, remembered on disk.

A proxy that starts while the root shard is away routes to the shards that it knew last, and to
those that a file names which the operator writes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pathlib
from collections.abc import Callable, Iterable

import orjson

from pykcp.clients.credential_files import CredentialError
from pykcp.clients.interface import Change
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.feed import RemoteFeed
from pykcp.machinery.kcp.clusters import ROOT
from pykcp.machinery.kcp.hashes import shard_hash
from pykcp.machinery.resources import SHARDS
from pykcp.types import Object

_log = logging.getLogger(__name__)


class ShardDirectory:
    """`run` it: it follows the Shard objects."""

    def __init__(
        self, root: RemoteClient, file: pathlib.Path, expected: Iterable[Object] = ()
    ) -> None:
        """`root`: the shard that has `root`; `file`: in which shards are remembered; `expected`:
        shards that there should be, which count until `root` has been read.
        """
        self._file = file
        self._shards = {**_by_name(expected), **_read(file)}
        self._by_hash: dict[str, str] = {}
        self._urls: dict[str, str] = {}
        self._index()
        self.is_known = asyncio.Event()
        """At least once the shards were read, from the file or from root."""
        if self._shards:
            self.is_known.set()
        self._feed = RemoteFeed(root, ROOT)
        self._feed.on(SHARDS, self._changed)
        self.on_change: Callable[[], None] = lambda: None

    def find(self, name: str) -> Object | None:
        return self._shards.get(name)

    def all(self) -> Iterable[Object]:
        return self._shards.values()

    def names(self) -> list[str]:
        """Those that can be reached."""
        return sorted(self._urls)

    def base_url(self, name: str) -> str:
        """Where requests to a shard go; "" if it is not known."""
        return self._urls.get(name, "")

    def name_of(self, name_or_hash: str) -> str:
        """The name of a shard that an annotation names; "" if there is no such shard."""
        if name_or_hash in self._shards:
            return name_or_hash
        return self._by_hash.get(name_or_hash, "")

    def services_url(self, name: str) -> str:
        """Where requests to the virtual workspaces of a shard go."""
        found = (self._shards[name].get("spec") or {}).get("virtualWorkspaceURL") or ""
        return found.rstrip("/") or self.base_url(name)

    async def run(self) -> None:
        """Until cancelled."""

        async def note_when_known() -> None:
            await self._feed.synced()
            self._forget_others()
            self.is_known.set()

        self._feed.at_start(note_when_known)
        await self._feed.run()

    def _changed(self, change: Change) -> None:
        if change.deleted:
            self._shards.pop(change.name, None)
        else:
            shard = orjson.loads(change.value)
            old = self._shards.get(change.name)
            if old is not None and _kept(old) == _kept(shard):
                return
            self._shards[change.name] = shard
        self._index()
        self.on_change()
        self._write()

    def _forget_others(self) -> None:
        """Those that were remembered or expected, and that `root` does not have."""
        lister = self._feed.lister
        gone = [name for name in self._shards if not lister.has(ROOT, SHARDS, name)]
        for name in gone:
            del self._shards[name]
        if gone:
            self._index()
            self.on_change()
            self._write()

    def _index(self) -> None:
        self._by_hash = {shard_hash(name): name for name in self._shards}
        urls = {name: _base_url(shard) for name, shard in self._shards.items()}
        self._urls = {name: url for name, url in urls.items() if url}

    def _write(self) -> None:
        kept = [_kept(shard) for shard in self._shards.values()]
        temporary = self._file.with_suffix(".new")
        try:
            temporary.write_bytes(orjson.dumps(kept))
            os.replace(temporary, self._file)  # noqa: PTH105  # atomic
        except OSError as error:  # routing goes on; only a start without root would miss it
            _log.warning("cannot remember the shards in %s: %s", self._file, error.strerror)


def _base_url(shard: Object) -> str:
    found: str = (shard.get("spec") or {}).get("baseURL") or ""
    return found.rstrip("/")


def _kept(shard: Object) -> Object:
    """What routing needs."""
    return {"metadata": {"name": shard["metadata"]["name"]}, "spec": shard.get("spec") or {}}


def load_shards(path: str) -> list[Object]:
    """A list of Shard objects in a file. Raises CredentialError, or OSError."""
    content = pathlib.Path(path).read_bytes()
    try:
        return list(map(_kept, _by_name(orjson.loads(content)).values()))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise CredentialError(f"{path} is not a list of Shard objects") from None


def _by_name(shards: Iterable[Object]) -> dict[str, Object]:
    return {shard["metadata"]["name"]: shard for shard in shards}


def _read(file: pathlib.Path) -> dict[str, Object]:
    try:
        return _by_name(orjson.loads(file.read_bytes()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError) as error:
        _log.warning("the shards remembered in %s cannot be read: %s", file, error)
        return {}
