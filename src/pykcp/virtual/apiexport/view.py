"""The view of one export."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from pykcp.aio.slices import in_slices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.auth.authz.attributes import Decision
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.resources import API_EXPORTS
from pykcp.machinery.status import BadRequest, NotFound
from pykcp.registry.keys import resource_prefix
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import Admission
from pykcp.server.call import Call
from pykcp.server.filters.authorization import attributes_of
from pykcp.steps import Steps, at_once
from pykcp.virtual.apiexport.access import ExportViewAccess
from pykcp.virtual.apiexport.grants import Grants
from pykcp.virtual.apiexport.selectors import ClaimSelectors
from pykcp.virtual.apiexport.surface import READ_VERBS, Offer, Surface, ViewKinds
from pykcp.virtual.framework import AccessUndecided, VirtualView, restricted
from pykcp.wire.exchange import Stream


class Keeper(Protocol):
    """Who keeps the views."""

    async def fill(self, view: ExportView) -> None:
        """Find out what a view shows, and follow what that depends on."""

    def watched(self, view: ExportView) -> None:
        """A watch of the view has begun."""


@dataclass(slots=True)
class _Watch:
    view: ExportView
    """The one that it belongs to by now."""
    group: str
    plural: str


class ExportView(VirtualView):
    """What it shows is found out when a user who may see it asks for it: `prepare`.

    That may take long, and the path alone must not cost anybody anything.
    """

    def __init__(
        self,
        cluster: str,
        name: str,
        kinds: ViewKinds,
        access: ExportViewAccess,
        grants: Grants,
        keeper: Keeper,
    ) -> None:
        self.surface: Surface | None = None
        """None if there is no such export, or if nobody has asked yet."""
        self.draft: Surface | None = None
        """What is being filled: it depends already on what it depends on."""
        self.is_ready = False
        self.is_outdated = False
        """What it shows has changed since."""
        self.companion: VirtualView | None = None
        """A view that stands on this one and goes with it."""
        self._cluster, self._name = cluster, name
        self._kinds, self._access, self._grants = kinds, access, grants
        self._keeper = keeper
        self._preparing: asyncio.Lock | None = None
        self._definitions: tuple[ResourceDefinition, ...] | None = None
        self.watches: dict[Stream, _Watch] = {}

    async def prepare(self) -> None:
        """Have the surface ready. Whoever comes first does it, the others wait."""
        if self.is_ready:
            return
        if self._preparing is None:
            self._preparing = asyncio.Lock()
        async with self._preparing:
            if not self.is_ready:
                await self._keeper.fill(self)

    def fill(self) -> Steps[None]:
        lookup = self._kinds.lookup
        export = yield from lookup.get_in_steps(API_EXPORTS, self._cluster, self._name)
        yield
        if export is not None:
            self.draft = Surface(export, self._cluster, self._kinds)
            yield from self.draft.fill()
        self.surface, self.is_ready = self.draft, True

    def exists(self) -> bool:
        return self.surface is not None and bool(self.surface.identity)

    @property
    def key(self) -> tuple[str, str]:
        """Cluster and name of the export."""
        return self._cluster, self._name

    def exported(self) -> Iterator[tuple[tuple[str, str], str]]:
        """The export's own resources, and below which prefix the store has their objects."""
        for name, offer in self.surface.offers.items() if self.surface is not None else ():
            if offer.identity and not offer.is_claimed:
                definition = offer.definition(self._cluster)
                yield name, resource_prefix(*definition.storage, definition.identity)

    def offer(self, group: str, plural: str) -> Offer | None:
        return self.surface.offers.get((group, plural)) if self.surface is not None else None

    def find(self, call_cluster: str, group: str, version: str, plural: str) -> Resource | None:
        offer = self.offer(group, plural)
        everywhere = offer.resources.get(version) if offer is not None else None
        if offer is None or everywhere is None:
            return None
        if call_cluster == WILDCARD or not offer.identity:
            return self._shown(offer, everywhere)
        there = self._kinds.directory.find(call_cluster, group, version, plural, offer.identity)
        return self._shown(offer, there) if there is not None else _unbound(offer, everywhere)

    def _shown(self, offer: Offer, base: Resource) -> Resource:
        is_gated = offer.is_claimed and offer.scope is not None
        return offer.shown(base, self._cluster, self._gate if is_gated else _no_gate)

    def _gate(self, base: Resource) -> Admission:
        return ClaimSelectors(self._grants, self._cluster, self._name, base.services.admission)

    def is_loaded(self, cluster: str) -> bool:
        return self._definitions is not None

    async def load(self, cluster: str) -> None:
        if self._definitions is None:
            self._definitions = await in_slices(self._define(), self._cluster)

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        if self._definitions is None:
            self._definitions = at_once(self._define())
        return self._definitions

    def _define(self) -> Steps[tuple[ResourceDefinition, ...]]:
        made = []
        for offer in self.surface.offers.values() if self.surface is not None else ():
            made.append(offer.definition(self._cluster))
            yield
        return tuple(made)

    async def authorize(self, call: Call) -> Decision:
        """Only who may use the view at all learns, and costs, more than that."""
        decision = await self._access.content(self._cluster, self._name, attributes_of(call))
        if not decision.allowed:
            return decision
        await self.prepare()
        if self.surface is None:
            raise AccessUndecided(
                f'API export not found: apiexport.apis.kcp.io "{self._name}" not found'
            )
        return await self._access.decide(call, self.key, self.surface)

    def peek(self, call: Call) -> Decision | None:
        if self.surface is None:
            return None
        is_plain = call.info.is_resource and self.exists() and not call.info.in_namespace
        if call.cluster == WILDCARD and not is_plain:
            return None
        return self._access.peek(call, self.key, self.surface)

    async def may_use(self, call: Call) -> Decision:
        """Whether a user has permission on the export's content, for all consumers."""
        return await self._access.content(self._cluster, self._name, attributes_of(call))

    async def enter(self, call: Call) -> None:
        await self.prepare()  # masters have not been asked whether they may use it
        info = call.info
        if not info.is_resource or not self.exists():
            return
        if call.cluster != WILDCARD:
            await self._access.enter_consumer(call)
        elif info.in_namespace and self._is_namespaced(call):
            if info.verb not in ("list", "watch"):
                raise NotFound.path()  # one object of all logical clusters is none
            raise BadRequest(
                "cross-cluster LIST and WATCH are required to be cross-namespace, "
                f"not scoped to namespace {info.namespace}"
            )

    def _is_namespaced(self, call: Call) -> bool:
        found = self.find(call.cluster, call.info.group, call.info.version, call.info.resource)
        return found is not None and found.namespaced

    def opened(self, call: Call, stream: Stream) -> None:
        """A watch has begun; it ends when what it shows is no longer what it was."""
        watch = self.watches[stream] = _Watch(self, call.info.group, call.info.resource)

        def closed() -> None:
            watch.view.watches.pop(stream, None)

        stream.on_close(closed)
        self._keeper.watched(self)

    def hand_over(self, to: ExportView) -> None:
        """Watches of what is still the same go on in another view; the others end."""
        for stream, watch in list(self.watches.items()):
            before, after = (view.offer(watch.group, watch.plural) for view in (self, to))
            if before is None or after is None or before.sign != after.sign:
                stream.end()
            else:
                watch.view, to.watches[stream] = to, watch
        self.watches.clear()

    def end_watches(self) -> None:
        for stream in list(self.watches):
            stream.end()


def _no_gate(base: Resource) -> None:
    """What is the export's own may look as it likes."""


def _unbound(offer: Offer, base: Resource) -> Resource:
    """A claimed resource that the consumer does not bind: there is nothing, and nothing can be."""
    definition = restricted(base.definition, READ_VERBS, {})
    return base.viewed(definition=definition, scope=offer.scope)
