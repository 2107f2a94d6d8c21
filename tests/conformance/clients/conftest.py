"""One server and, for every test, the seam as the local and as the remote client offer it."""

from __future__ import annotations

import asyncio
import pathlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from pykcp.aio.owner import TaskOwner
from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.clients.remote.client import RemoteClient, identities_of_root
from pykcp.clients.remote.connect import connect
from pykcp.clients.remote.feed import RemoteFeed
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import GroupVersionResource
from pykcp.programs.shard.process import running_shard
from pykcp.registry.indexes.entries import OF_KIND, index_entries
from pykcp.registry.local import LocalClient
from pykcp.registry.local_lister import LocalLister
from pykcp.registry.log_feed import LogFeed
from pykcp.testing.programs import shard_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykcp.programs.shard.wiring import Shard
    from pykcp.types import Object

NAMESPACE = "default"
MANAGER = "conformance"


@dataclass
class Seam:
    """What a controller is given."""

    name: str
    cluster: str
    client: Client
    feed: Callable[[], Followed]
    shard: Shard
    prefix: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:8]}")
    """Begins the names of this test's objects: the server is shared."""

    def named(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def config_map(self, name: str, **more: object) -> Object:
        metadata = {"name": self.named(name), "namespace": NAMESPACE}
        labels = more.pop("labels", None)
        if labels is not None:
            metadata["labels"] = {"test": self.prefix, **labels}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


class Followed:
    """A feed that runs, what it has told, and its lister."""

    def __init__(self, feed: Feed, lister: Lister, start: Callable[[TaskOwner], None]) -> None:
        self.feed, self.lister, self._start = feed, lister, start
        self.changes: list[Change] = []
        self._news = asyncio.Event()

    def follow(self, *kinds: GroupVersionResource) -> None:
        for kind in kinds:
            self.feed.on(kind, self._heard, from_the_start=True)

    def _heard(self, change: Change) -> None:
        self.changes.append(change)
        self._news.set()

    async def until(self, check: Callable[[list[Change]], bool]) -> None:
        """Wait until what has been told satisfies the check."""
        async with asyncio.timeout(30):
            while not check(self.changes):
                self._news.clear()
                await self._news.wait()

    def of(self, key: ObjectKey) -> list[Change]:
        return [change for change in self.changes if change.key == key]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Followed]:
        async with TaskOwner("conformance") as owner:
            self._start(owner)
            try:
                yield self
            finally:
                if isinstance(self.feed, LogFeed):
                    self.feed.stop()


def entries_of(kind: GroupVersionResource) -> Callable[[str, Object], Iterable[str]]:
    """The index entries that a shard computes, for the informers of a remote client."""
    own = OF_KIND.get(f"{kind.resource}.{kind.group}")

    def entries(cluster: str, obj: Object) -> Iterable[str]:
        yield from index_entries(cluster, obj)
        if own is not None:
            yield from own(cluster, obj)

    return entries


@pytest_asyncio.fixture(scope="session", loop_scope="session", name="shard")
async def shard_fixture(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shard]:
    root = tmp_path_factory.mktemp("conformance") / ".kcp"
    async with running_shard(shard_settings(root)) as shard:
        yield shard


def remote_client(
    kubeconfig: pathlib.Path, identities: Mapping[tuple[str, str], str] | None = None
) -> RemoteClient:
    return connect(str(kubeconfig), MANAGER, "shard-base", identities or {})


@pytest_asyncio.fixture(loop_scope="session", params=["local", "remote"])
async def seam(request: pytest.FixtureRequest, shard: Shard) -> AsyncIterator[Seam]:
    if request.param == "local":
        yield _local(shard)
        return
    kubeconfig = shard.base.settings.generic.root_directory / "admin.kubeconfig"
    bare = remote_client(kubeconfig)
    client = remote_client(kubeconfig, await identities_of_root(bare))
    bare.http.close()

    def feed() -> Followed:
        made = RemoteFeed(client, entries=entries_of)
        return Followed(made, made.lister, lambda owner: owner.start_restartable("feed", made.run))

    yield Seam("remote", "root", client, feed, shard)
    client.http.close()


def _local(shard: Shard) -> Seam:
    def feed() -> Followed:
        made = LogFeed(shard.stores.store)

        def start(owner: TaskOwner) -> None:
            made.start()
            owner.start_restartable("feed", made.run)

        return Followed(made, LocalLister(shard.stores.store, shard.catalog.directory), start)

    return Seam("local", "root", LocalClient(shard.catalog.directory, MANAGER), feed, shard)
