"""The admission configurations of logical clusters: read on first use, invalidated on change.

Nothing is kept for a cluster without writes, and next to nothing for one without
configurations. Equal configurations of several clusters are compiled once: objects are cached
by their content, expressions by their text.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from pykcp.admission.subject import GROUP
from pykcp.aio.owner import spawn
from pykcp.aio.slices import Slices, in_slices
from pykcp.caching import BoundedCache
from pykcp.machinery import meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry.codec import decode_in_steps
from pykcp.registry.keys import resource_prefix, split_key
from pykcp.registry.lookup import Replica
from pykcp.registry.stored import Event, Query, StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.steps import Steps
from pykcp.types import Object

if TYPE_CHECKING:  # what parses them compiles CEL: imported when there is something to parse
    from pykcp.admission.policies.policy import AdmissionPolicy, Binding, BoundPolicy
    from pykcp.admission.webhooks.webhook import AdmissionWebhook

_PREFIX = f"{GROUP}/"
_SOURCES = (
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicybindings",
)
_KEEP_CLUSTERS = 8192
_KEEP_PARSED = 4096

Parsed = TypeVar("Parsed")
ProviderOf = Callable[[str, str, str], str | None]
"""The logical cluster of the export that a cluster has a resource from, by group and plural."""


@dataclass(frozen=True, slots=True)
class AdmissionHooks:
    """All that one logical cluster asks of admission, each kind in order of names."""

    mutating_webhooks: tuple[AdmissionWebhook, ...] = ()
    validating_webhooks: tuple[AdmissionWebhook, ...] = ()
    mutating_policies: tuple[BoundPolicy, ...] = ()
    validating_policies: tuple[BoundPolicy, ...] = ()


NONE = AdmissionHooks()


class _Load:
    """One reading of a logical cluster's configurations, shared by the requests that wait for it."""

    __slots__ = ("has_begun", "is_outdated", "task")

    def __init__(self) -> None:
        self.has_begun = False
        self.is_outdated = False
        """Something changed since it began: later requests need another one."""
        self.task: asyncio.Task[AdmissionHooks] | None = None


def _parsed_policy(
    parse: Callable[[Object], AdmissionPolicy], obj: Object
) -> Steps[AdmissionPolicy]:
    """A policy with its text; a large one is left to worker processes."""
    from pykcp.admission.policies.policy import LARGE, head_of

    source = orjson.dumps({"metadata": {"name": obj["metadata"]["name"]}, "spec": obj["spec"]})
    if len(source) > LARGE:
        return (yield from head_of(obj, source))
    return replace(parse(obj), source=source)


class Configurations:
    def __init__(
        self,
        store: StoreReader,
        provider_of: ProviderOf | None = None,
        replica: Replica | None = None,
    ) -> None:
        """`replica`: configurations of providers on other shards."""
        self._store, self._replica = store, replica
        self._provider_of = provider_of
        self.known: BoundedCache[str, AdmissionHooks] = BoundedCache(
            "admission-hooks", _KEEP_CLUSTERS
        )
        """By logical cluster, as far as they were read; the plug-ins look here first."""
        self._parsed: BoundedCache[tuple[str, bytes], Any] = BoundedCache(
            "admission-parsed", _KEEP_PARSED
        )
        self._loads: dict[str, _Load] = {}
        """The latest of each logical cluster that is not complete."""
        store.listen(self._follow, (_PREFIX,))
        if replica is not None:
            replica.listen(self._on_published)

    def place(self, request: AdmissionRequest) -> str:
        """The logical cluster whose configurations apply to a request.

        What is bound is the provider's to judge, everything else the request's own cluster's.
        """
        cluster, resource = request.context.cluster, request.resource
        if self._provider_of is None or not resource.definition.identity:
            return cluster
        return self._provider_of(cluster, resource.group, resource.plural) or cluster

    async def applying(self, request: AdmissionRequest) -> AdmissionHooks:
        """The configurations that apply to a request."""
        cluster = self.place(request)
        found = self.known.get(cluster)
        return found if found is not None else await self._load(cluster)

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(_PREFIX):
                self._forget(split_key(event.key).cluster)

    def _on_published(self, kind: tuple[str, str], cluster: str) -> None:
        if kind[0] == GROUP:
            self._forget(cluster)

    def _forget(self, cluster: str) -> None:
        self.known.pop(cluster)
        load = self._loads.get(cluster)
        if load is not None and load.has_begun:
            load.is_outdated = True

    async def _load(self, cluster: str) -> AdmissionHooks:
        """Once for all requests that wait for it.

        A logical cluster is read once at a time, however often its configurations change: requests
        that arrive after a change share the next reading, which begins when the current one ends.
        """
        load = self._loads.get(cluster)
        if load is None or load.is_outdated:
            before = None if load is None else load.task
            load = self._loads[cluster] = _Load()
            load.task = spawn(self._run(cluster, load, before), "admission/hooks")
        assert load.task is not None
        return await asyncio.shield(load.task)

    async def _run(
        self, cluster: str, load: _Load, before: asyncio.Task[AdmissionHooks] | None
    ) -> AdmissionHooks:
        if before is not None:
            await asyncio.wait((before,))
        load.has_begun = True
        try:
            hooks = await self._read_all(cluster) if self._has_any(cluster) else NONE
            if not load.is_outdated:
                self.known.put(cluster, hooks)
            return hooks
        finally:
            if self._loads.get(cluster) is load:
                del self._loads[cluster]

    def _has_any(self, cluster: str) -> bool:
        """Most clusters have none, which is quickly seen."""
        return any(
            self._store.keys(f"{resource_prefix(GROUP, plural)}{cluster}/", limit=1)
            or next(self._published(cluster, plural), None) is not None
            for plural in _SOURCES
        )

    def _published(self, cluster: str, plural: str) -> Iterator[Object]:
        """The objects of a logical cluster on another shard."""
        kind = GroupVersionResource(GROUP, "v1", plural)
        return self._replica.all(kind, cluster) if self._replica is not None else iter(())

    async def _read_all(self, cluster: str) -> AdmissionHooks:
        hooks = AdmissionHooks(
            await self._webhooks(cluster, "mutatingwebhookconfigurations"),
            await self._webhooks(cluster, "validatingwebhookconfigurations"),
            await self._policies(cluster, "mutatingadmissionpolic"),
            await self._policies(cluster, "validatingadmissionpolic"),
        )
        return NONE if hooks == NONE else hooks

    async def _webhooks(self, cluster: str, plural: str) -> tuple[AdmissionWebhook, ...]:
        found: list[AdmissionWebhook] = []
        async for obj in self._read(cluster, plural):
            from pykcp.admission.webhooks.webhook import parse_webhooks

            found += await self._shared(cluster, plural, obj, "webhooks", parse_webhooks)
        return tuple(found)

    async def _policies(self, cluster: str, stem: str) -> tuple[BoundPolicy, ...]:
        """Policies that are bound; a binding to what is not there yet does nothing."""
        bindings: dict[str, list[Binding]] = {}
        async for obj in self._read(cluster, stem + "ybindings"):
            from pykcp.admission.policies.policy import parse_binding

            binding = await self._shared(cluster, stem + "ybindings", obj, "spec", parse_binding)
            bindings.setdefault(binding.policy, []).append(binding)
        if not bindings:
            return ()
        from pykcp.admission.policies import policy as policies

        is_mutating = stem.startswith("mutating")
        parse: Callable[[Object], Steps[AdmissionPolicy]] = partial(
            _parsed_policy, policies.parse_mutating if is_mutating else policies.parse_validating
        )
        found: list[BoundPolicy] = []
        async for obj in self._read(cluster, stem + "ies"):
            known = bindings.get(obj["metadata"]["name"])
            if known is not None:
                policy = await self._shared(cluster, stem + "ies", obj, "spec", parse)
                found.append(policies.BoundPolicy(policy, tuple(known), cluster))
        return tuple(found)

    async def _shared(
        self,
        cluster: str,
        kind: str,
        obj: Object,
        field: str,
        parse: Callable[[Object], Steps[Parsed]],
    ) -> Parsed:
        """What an object of this content was parsed to before, or now."""
        text = orjson.dumps((obj["metadata"]["name"], obj.get(field)), option=orjson.OPT_SORT_KEYS)
        key = (kind, hashlib.blake2b(text, digest_size=16).digest())
        found: Parsed | None = self._parsed.get(key)
        if found is None:
            found = await in_slices(parse(obj), cluster)
            self._parsed.put(key, found)
        return found

    async def _read(self, cluster: str, plural: str) -> AsyncIterator[Object]:
        """The objects one by one, in slices: decoded, all of them together may be large."""
        page = await self._store.list(Query(f"{resource_prefix(GROUP, plural)}{cluster}/"))
        slices = Slices(cluster)
        for value in page.values:
            yield await in_slices(decode_in_steps(value), cluster)
            if slices.is_over():
                await slices.next()
        if not page.values:
            for obj in sorted(self._published(cluster, plural), key=meta.name):
                yield obj
