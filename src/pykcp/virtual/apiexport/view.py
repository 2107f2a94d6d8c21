"""The view of one export."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.apis.catalog import ResourceDefinition
from pykcp.auth.authz.attributes import Decision
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.status import BadRequest, NotFound
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import Admission
from pykcp.server.call import Call
from pykcp.server.filters.authorization import attributes_of
from pykcp.virtual.apiexport.access import ExportViewAccess
from pykcp.virtual.apiexport.grants import Grants
from pykcp.virtual.apiexport.selectors import ClaimSelectors
from pykcp.virtual.apiexport.surface import READ_VERBS, Offer, Surface
from pykcp.virtual.framework import VirtualView, restricted
from pykcp.wire.exchange import Stream

Watches = dict[Stream, tuple[str, str]]
"""Open watches of an export, with the group and resource of each."""


class ExportView(VirtualView):
    def __init__(
        self,
        cluster: str,
        name: str,
        surface: Surface | None,
        directory: Directory,
        access: ExportViewAccess,
        grants: Grants,
        watches: Watches,
    ) -> None:
        """`surface`: None if there is no such export. `watches` outlive the view."""
        self.surface = surface
        self.companion: VirtualView | None = None
        """A view that stands on this one and goes with it."""
        self._cluster, self._name = cluster, name
        self._directory = directory
        self._access = access
        self._grants = grants
        self._definitions: tuple[ResourceDefinition, ...] | None = None
        self.watches = watches

    def exists(self) -> bool:
        return self.surface is not None and bool(self.surface.identity)

    @property
    def key(self) -> tuple[str, str]:
        """Cluster and name of the export."""
        return self._cluster, self._name

    def exported(self) -> Iterator[tuple[tuple[str, str], Resource]]:
        """The export's own resources, each in one of its versions."""
        for name, offer in self.surface.offers.items() if self.surface is not None else ():
            if offer.identity and not offer.is_claimed:
                yield name, next(iter(offer.resources.values()))

    def offer(self, group: str, plural: str) -> Offer | None:
        return self.surface.offers.get((group, plural)) if self.surface is not None else None

    def find(self, call_cluster: str, group: str, version: str, plural: str) -> Resource | None:
        offer = self.offer(group, plural)
        everywhere = offer.resources.get(version) if offer is not None else None
        if offer is None or everywhere is None:
            return None
        if call_cluster == WILDCARD or not offer.identity:
            return self._shown(offer, everywhere)
        there = self._directory.find(call_cluster, group, version, plural, offer.identity)
        return self._shown(offer, there) if there is not None else _unbound(offer, everywhere)

    def _shown(self, offer: Offer, base: Resource) -> Resource:
        is_gated = offer.is_claimed and offer.scope is not None
        return offer.shown(base, self._cluster, self._gate if is_gated else _no_gate)

    def _gate(self, base: Resource) -> Admission:
        return ClaimSelectors(self._grants, self._cluster, self._name, base.services.admission)

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        if self._definitions is None:
            offers = self.surface.offers.values() if self.surface is not None else ()
            # Versions of a kind have one definition; any of them shows all.
            firsts = [(o, next(iter(o.resources.values()))) for o in offers]
            self._definitions = tuple(self._shown(*first).definition for first in firsts)
        return self._definitions

    async def authorize(self, call: Call) -> Decision:
        return await self._access.decide(call, self._cluster, self._name)

    def peek(self, call: Call) -> Decision | None:
        is_plain = call.info.is_resource and self.exists() and not call.info.in_namespace
        if call.cluster == WILDCARD and not is_plain:
            return None
        return self._access.peek(call, self._cluster, self._name)

    async def may_use(self, call: Call) -> Decision:
        """Whether a user has permission on the export's content, for all consumers."""
        return await self._access.content(self._cluster, self._name, attributes_of(call))

    async def enter(self, call: Call) -> None:
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
        watches = self.watches
        watches[stream] = (call.info.group, call.info.resource)

        def forget() -> None:
            watches.pop(stream, None)

        stream.on_close(forget)


def _no_gate(base: Resource) -> None:
    """What is the export's own may look as it likes."""


def _unbound(offer: Offer, base: Resource) -> Resource:
    """A claimed resource that the consumer does not bind: there is nothing, and nothing can be."""
    definition = restricted(base.definition, READ_VERBS, {})
    return base.viewed(definition=definition, scope=offer.scope)
