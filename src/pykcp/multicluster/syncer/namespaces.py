"""Namespaces of workspaces in the cluster: made on demand, and removed when they are empty.

The name of such a namespace is a hash of its locator, which it carries as an annotation. One that
carries another locator, or none, belongs to somebody else and is never used.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import orjson

from pykcp.clients.interface import Change, Client
from pykcp.machinery.meta import annotations as annotations_of
from pykcp.machinery.meta import is_deleting, uid
from pykcp.machinery.resources import NAMESPACES
from pykcp.machinery.status import NotFound
from pykcp.multicluster.names import DOWNSTREAM_CLUSTER, NAMESPACE_LOCATOR, Locator
from pykcp.multicluster.syncer.settings import Registration
from pykcp.types import Object

_log = logging.getLogger(__name__)


class NamespaceCollision(Exception):
    """The namespace exists and belongs to somebody else."""


class NamespaceTerminating(Exception):
    """The namespace is being deleted; it is made again when it is gone."""


class _Known(NamedTuple):
    uid: str
    locator: str
    is_terminating: bool


class DownstreamNamespaces:
    """An `ObjectHolder` of the informer of namespaces with the label of the registration."""

    def __init__(
        self, client: Client, registration: Registration, lost: Callable[[str], None]
    ) -> None:
        """`lost`: called with the name of a namespace that went or lost its marks."""
        self._client, self._registration, self._lost = client, registration, lost
        self._known: dict[str, _Known] = {}
        self._unseen: set[str] | None = None
        self._making: dict[str, asyncio.Lock] = {}
        self._empty_since: dict[str, float] = {}

    def known(self) -> dict[str, str]:
        """Names and locators."""
        return {name: found.locator for name, found in self._known.items()}

    async def ensure(self, locator: Locator) -> None:
        """Return when the namespace exists and is ours to use."""
        name = locator.downstream_namespace()
        if self._is_usable(name, locator):
            return
        async with self._making.setdefault(name, asyncio.Lock()):
            if not self._is_usable(name, locator):
                await self._make(name, locator)
        self._making.pop(name, None)

    def _is_usable(self, name: str, locator: Locator) -> bool:
        found = self._known.get(name)
        return found is not None and not found.is_terminating and found.locator == locator.to_json()

    async def _make(self, name: str, locator: Locator) -> None:
        live = await self._client.get("", NAMESPACES, name)
        if live is not None:
            if annotations_of(live).get(NAMESPACE_LOCATOR) != locator.to_json():
                raise NamespaceCollision(
                    f'namespace "{name}" of the cluster does not belong to this registration'
                )
            if is_deleting(live):
                raise NamespaceTerminating(name)
        marks: Object = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {DOWNSTREAM_CLUSTER: self._registration.downstream_label},
                "annotations": {NAMESPACE_LOCATOR: locator.to_json()},
            },
        }
        self._note(await self._client.apply("", NAMESPACES, marks, force=True))

    # --- removing

    async def remove_empty(
        self,
        unused: set[str],
        grace: float,
        is_empty: Callable[[str], Awaitable[bool]],
        is_unused: Callable[[str], bool],
    ) -> None:
        """Delete namespaces of this registration that had no copies for a while.

        `unused`: the names of those that no object is assigned to; `is_empty`: looks into one,
        which takes a while: `is_unused` says afterwards whether that is still so.
        """
        now = time.monotonic()
        for name in list(self._known):
            if name not in unused:
                self._empty_since.pop(name, None)
                continue
            is_due = now - self._empty_since.setdefault(name, now) >= grace
            if not is_due or not self._may_go(name) or not await is_empty(name):
                continue
            if is_unused(name) and self._may_go(name):
                await self._remove(name)

    def _may_go(self, name: str) -> bool:
        known = self._known.get(name)
        return known is not None and not known.is_terminating and self._is_own(known.locator)

    async def _remove(self, name: str) -> None:
        known = self._known[name]
        _log.info("deleting namespace %s of the cluster: nothing is assigned to it", name)
        await self._client.delete("", NAMESPACES, name, uid=known.uid)
        self._empty_since.pop(name, None)

    def _is_own(self, locator: str) -> bool:
        registration = self._registration
        try:
            found = orjson.loads(locator)
        except orjson.JSONDecodeError:
            return False
        return bool(
            found.get("clusterUID") == registration.uid
            and found.get("installation") == registration.installation
        )

    # --- told by the informer

    def put(self, value: bytes) -> Change | None:
        self._note(orjson.loads(value))
        return None

    def _note(self, live: Object) -> None:
        name = live["metadata"]["name"]
        if self._unseen is not None:
            self._unseen.discard(name)
        locator = annotations_of(live).get(NAMESPACE_LOCATOR, "")
        before = self._known.get(name)
        self._known[name] = _Known(uid(live), locator, is_deleting(live))
        if before is not None and before != self._known[name]:
            self._lost(name)

    def remove(self, value: bytes) -> Change | None:
        self._forget(orjson.loads(value)["metadata"]["name"])
        return None

    def _forget(self, name: str) -> None:
        if self._known.pop(name, None) is not None:
            self._lost(name)

    def begin_replacing(self) -> None:
        self._unseen = set(self._known)

    def end_replacing(self) -> Iterable[Change]:
        for name in self._unseen or ():
            self._forget(name)
        self._unseen = None
        return ()

    def contents(self) -> Iterable[Change]:
        return ()

    async def settle(self) -> None:
        """Nothing to wait for."""


def is_namespace_missing(error: NotFound) -> bool:
    """Whether a write failed because its namespace is gone."""
    return error.kind == "namespaces" or "namespaces" in error.message
