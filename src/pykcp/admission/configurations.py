"""The admission configurations of logical clusters: read on first use, invalidated on change.

Nothing is kept for a cluster without writes, and next to nothing for one without
configurations. Equal configurations of several clusters are compiled once: objects are cached
by their content, expressions by their text.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from pykcp.admission.subject import GROUP
from pykcp.aio.owner import spawn
from pykcp.aio.slices import Slices
from pykcp.caching import BoundedCache
from pykcp.machinery import meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry.codec import decode
from pykcp.registry.keys import resource_prefix, split_key
from pykcp.registry.lookup import Replica
from pykcp.registry.stored import Event, Query, StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest
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


def _parsed_policy(parse: Callable[[Object], AdmissionPolicy], obj: Object) -> AdmissionPolicy:
    """A policy with its text; a large one is left to worker processes."""
    from pykcp.admission.policies.policy import LARGE, head_of

    source = orjson.dumps({"metadata": {"name": obj["metadata"]["name"]}, "spec": obj["spec"]})
    if len(source) > LARGE:
        return head_of(obj, source)
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
        self._changes = 0
        self._loading: dict[tuple[str, int], asyncio.Task[AdmissionHooks]] = {}
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
                self._changes += 1
                self.known.pop(split_key(event.key).cluster)

    def _on_published(self, kind: tuple[str, str], cluster: str) -> None:
        if kind[0] == GROUP:
            self._changes += 1
            self.known.pop(cluster)

    async def _load(self, cluster: str) -> AdmissionHooks:
        """Once for all requests that wait for it, unless something changed meanwhile."""
        key = cluster, self._changes
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = spawn(self._read_hooks(cluster), "admission/hooks")
            task.add_done_callback(lambda _: self._loading.pop(key, None))
        return await asyncio.shield(task)

    async def _read_hooks(self, cluster: str) -> AdmissionHooks:
        before = self._changes
        hooks = await self._read_all(cluster) if self._has_any(cluster) else NONE
        if (
            before == self._changes
        ):  # otherwise it may be of yesterday: the next request reads again
            self.known.put(cluster, hooks)
        return hooks

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
        read, slices = await self._read(cluster, plural), Slices(cluster)
        for obj in read:
            from pykcp.admission.webhooks.webhook import parse_webhooks

            found += self._shared(plural, obj, "webhooks", parse_webhooks)
            if slices.is_over():
                await slices.next()
        return tuple(found)

    async def _policies(self, cluster: str, stem: str) -> tuple[BoundPolicy, ...]:
        """Policies that are bound; a binding to what is not there yet does nothing."""
        bound = await self._read(cluster, stem + "ybindings")
        if not bound:
            return ()
        from pykcp.admission.policies import policy as policies

        parse: Callable[[Object], AdmissionPolicy] = partial(
            _parsed_policy, policies.parse_validating
        )
        if stem.startswith("mutating"):
            parse = partial(_parsed_policy, policies.parse_mutating)
        bindings: dict[str, list[Binding]] = {}
        slices = Slices(cluster)
        for obj in bound:
            binding = self._shared(stem + "ybindings", obj, "spec", policies.parse_binding)
            bindings.setdefault(binding.policy, []).append(binding)
            if slices.is_over():
                await slices.next()
        found: list[BoundPolicy] = []
        for obj in await self._read(cluster, stem + "ies"):
            known = bindings.get(obj["metadata"]["name"])
            if known is not None:
                policy = self._shared(stem + "ies", obj, "spec", parse)
                found.append(policies.BoundPolicy(policy, tuple(known), cluster))
            if slices.is_over():
                await slices.next()
        return tuple(found)

    def _shared(
        self, kind: str, obj: Object, field: str, parse: Callable[[Object], Parsed]
    ) -> Parsed:
        """What an object of this content was parsed to before, or now."""
        text = orjson.dumps((obj["metadata"]["name"], obj.get(field)), option=orjson.OPT_SORT_KEYS)
        key = (kind, hashlib.blake2b(text, digest_size=16).digest())
        found: Parsed | None = self._parsed.get(key)
        if found is None:
            found = parse(obj)
            self._parsed.put(key, found)
        return found

    async def _read(self, cluster: str, plural: str) -> list[Object]:
        page = await self._store.list(Query(f"{resource_prefix(GROUP, plural)}{cluster}/"))
        found, slices = list[Object](), Slices(cluster)
        for value in page.values:
            found.append(decode(value))
            if slices.is_over():
                await slices.next()
        return found or sorted(self._published(cluster, plural), key=meta.name)
