"""ResourceQuota: limits the number of objects of each kind in a namespace.

A quota's `status.used` is the count. A create that a quota counts writes the quota's new status
and the object in one transaction, conditional on the quota being unchanged: a concurrent create,
in this process or in another one on the same store, makes the transaction fail, and it is
retried with the new count. So the limit is never exceeded and a failed create is not counted.
Creates in one namespace are serialized, because most attempts would otherwise conflict.

A quota in the namespace `admin` with kcp's annotation counts its whole logical cluster, including
cluster-scoped objects.

Counts (`count/<resource>.<group>`) take effect immediately: those that are missing in the status
of a quota are computed when needed. What pods, services and claims use beyond their number
(`requests.cpu`, `services.nodeports`, …) is limited as soon as the status names it, as in
Kubernetes. A quota of a whole logical cluster only counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pykcp.admission.plugins.quota_measure import Amounts, Limited, Measured, measured_write
from pykcp.aio.slices import Slices
from pykcp.caching import BoundedCache
from pykcp.machinery import quantity
from pykcp.machinery.quantity import Quantity, QuantityError
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Forbidden, qualified
from pykcp.registry import codec
from pykcp.registry.keys import object_key, range_prefix, resource_prefix, split_key
from pykcp.registry.stored import Entry, Event, Query, StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest, Counts
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.registry.verbs.reservations import counted
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.apis.kube.workloads.quota_usage import QuotaMeter

RESOURCE_QUOTAS = GroupVersionResource("", "v1", "resourcequotas")
PREFIX = resource_prefix(RESOURCE_QUOTAS.group, RESOURCE_QUOTAS.resource)
COUNT = "count/"
UNCOUNTED = frozenset((("", "events"), ("events.k8s.io", "events")))
WIDE_NAMESPACE = "admin"
WIDE_ANNOTATION = "experimental.quota.kcp.io/cluster-scoped"
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_REMEMBER = 8192

Keys = tuple[str, ...]


def count_name(group: str, plural: str) -> str:
    """The name under which a quota counts objects: `count/roles.rbac.authorization.k8s.io`."""
    return COUNT + qualified(group, plural)


OLD_NAMES = frozenset(
    (
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    )
)
"""Core kinds that quotas may also count by their bare name, as in Kubernetes (kcp does not)."""
METERED = frozenset(
    (
        ("", "persistentvolumeclaims"),
        ("", "pods"),
        ("", "services"),
        ("resource.k8s.io", "resourceclaims"),
    )
)
"""Kinds of which quotas limit more than the number (group and plural)."""


def names_of(group: str, plural: str) -> tuple[str, ...]:
    """All names under which a quota counts objects of a kind."""
    counted = count_name(group, plural)
    return (counted, plural) if not group and plural in OLD_NAMES else (counted,)


def amount(text: str) -> Quantity:
    """An amount that a quota names; invalid values count as zero."""
    try:
        return quantity.parse(text)
    except QuantityError:
        return _ZERO


def meter_of(group: str, plural: str) -> QuotaMeter | None:
    """How the kind uses quotas if they limit more of it than the number."""
    if (group, plural) not in METERED:
        return None
    from pykcp.apis.kube.workloads.quota_usage import METERS

    return METERS[group, plural]


def is_scoped(quota: Object) -> bool:
    """Scopes select pods and claims; objects that are only counted are in none of them."""
    spec = quota.get("spec") or {}
    return bool(spec.get("scopes") or spec.get("scopeSelector"))


def is_wide(quota: Object) -> bool:
    """Whether it counts all of its logical cluster, rather than its namespace."""
    metadata = quota["metadata"]
    asked = (metadata.get("annotations") or {}).get(WIDE_ANNOTATION)
    return metadata.get("namespace") == WIDE_NAMESPACE and asked in _TRUE


class _Turn:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class Quotas:
    """The quotas of each namespace, and a lock for counting there.

    Lookups are cached within bounds, also for namespaces without a quota, and invalidated by
    events; a lock exists while it is held or waited for.
    """

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self._known: BoundedCache[str, tuple[Keys, Keys]] = BoundedCache("quotas", _REMEMBER)
        """By `<cluster>/<namespace>`: its quotas, and those of them that count more than it."""
        self._changes = 0
        self._turns: dict[str, _Turn] = {}
        store.listen(self._follow, (PREFIX,))

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if not event.key.startswith(PREFIX):
                continue
            place = event.key[len(PREFIX) :].rpartition("/")[0]
            if event.created or event.deleted or self._is_news(place, event):
                self._changes += 1
                self._known.pop(place)

    def _is_news(self, place: str, event: Event) -> bool:
        """Whether a quota counts its whole cluster from now on, or no longer."""
        known = self._known.get(place)
        if known is None or not place.endswith(f"/{WIDE_NAMESPACE}"):
            return False
        return is_wide(codec.decode(event.value)) != (event.key in known[1])

    def known(self, cluster: str, namespace: str) -> Keys | None:
        """Keys of the quotas that count in a namespace ("" for what is in none); None if that
        must be looked up."""
        wide = self._known.get(f"{cluster}/{WIDE_NAMESPACE}")
        own = self._known.get(f"{cluster}/{namespace}") if namespace else _NO_QUOTAS
        if wide is None or own is None:
            return None
        return _joined(own[0], wide[1])

    async def keys(self, cluster: str, namespace: str) -> Keys:
        """The same, looked up if need be."""
        wide = await self._read(cluster, WIDE_NAMESPACE)
        own = await self._read(cluster, namespace) if namespace else _NO_QUOTAS
        return _joined(own[0], wide[1])

    async def own(self, cluster: str, namespace: str) -> tuple[str, ...]:
        """The names of the quotas of a namespace, whatever they count."""
        keys = (await self._read(cluster, namespace))[0]
        return tuple(split_key(key).name for key in keys)

    def places(self, cluster: str, namespace: str) -> Iterator[str]:
        """Where (`<cluster>/<namespace>`) there are, or may be, quotas that count in a namespace."""
        for where in dict.fromkeys((namespace, WIDE_NAMESPACE)):
            known = self._peek(f"{cluster}/{where}") if where else _NO_QUOTAS
            counts = _ALL if known is None else known[0] if where == namespace else known[1]
            if counts:
                yield f"{cluster}/{where}"

    def _peek(self, place: str) -> tuple[Keys, Keys] | None:
        """What is known of a place; most have no quotas, which is seen at once."""
        found = self._known.get(place)
        if found is None and not self._store.keys(f"{PREFIX}{place}/"):
            found = _NO_QUOTAS  # an event invalidates the entry when one is created
            self._known.put(place, found)
        return found

    async def _read(self, cluster: str, namespace: str) -> tuple[Keys, Keys]:
        place = f"{cluster}/{namespace}"
        found = self._peek(place)
        if found is not None:
            return found
        before = self._changes
        page = await self._store.list(Query(range_prefix(PREFIX, cluster, namespace)))
        quotas = [codec.decode(value) for value in page.values]
        keys = {
            object_key(PREFIX, cluster, namespace, quota["metadata"]["name"]): quota
            for quota in quotas
        }
        found = (tuple(keys), tuple(key for key, quota in keys.items() if is_wide(quota)))
        # Not if one came or went meanwhile, or if one is seen whose event is still to come.
        if self._changes == before and page.revision <= self._store.revision:
            self._known.put(place, found)
        return found

    @asynccontextmanager
    async def turn(self, cluster: str, namespace: str) -> AsyncIterator[None]:
        """One at a time counts in a namespace."""
        place = f"{cluster}/{namespace}"
        turn = self._turns.get(place)
        if turn is None:
            turn = self._turns[place] = _Turn()
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[place]


class _Charge:
    """What a write adds to the count of one quota."""

    __slots__ = ("cluster", "entry", "more", "quota")

    def __init__(self, entry: Entry, cluster: str) -> None:
        self.entry, self.cluster = entry, cluster
        self.quota = codec.decode(entry.value)
        self.more: dict[str, Quantity] = {}
        """What is used after the write, by name."""


class ResourceQuota:
    name = "KCPKubeResourceQuota"
    operations = ("CREATE", "UPDATE")

    def __init__(self, store: StoreReader, quotas: Quotas) -> None:
        self._store, self._quotas = store, quotas

    def wants(self, request: AdmissionRequest) -> bool:
        resource = request.resource
        if request.operation != "CREATE" and (resource.group, resource.plural) not in METERED:
            return False
        if resource.definition.ephemeral or request.context.is_new:
            return False
        if request.subresource and request.operation == "CREATE":
            return False  # a token, a binding: nothing that is stored
        if self._quotas.known(request.context.cluster, request.namespace) == ():
            return False
        return (resource.group, resource.plural) not in UNCOUNTED

    async def validate(self, request: AdmissionRequest) -> None:
        if not await self._quotas.keys(request.context.cluster, request.namespace):
            return
        if request.operation == "UPDATE" and not _may_use_more(request):
            return
        if request.context.dry_run:
            await self._charge((request,))  # judged only: a dry run writes nothing
        else:
            request.reserve(self._reserve)

    @asynccontextmanager
    async def _reserve(self, requests: Sequence[AdmissionRequest]) -> AsyncIterator[Counts]:
        places = {await self._place(request) for request in requests}
        async with AsyncExitStack() as turns:
            for cluster, namespace in sorted(places):  # all in one order, so that none blocks
                await turns.enter_async_context(self._quotas.turn(cluster, namespace))
            yield await self._charge(requests)

    async def _place(self, request: AdmissionRequest) -> tuple[str, str]:
        """Cluster and namespace in which creates take turns to be counted."""
        cluster, namespace = request.context.cluster, request.namespace
        wide = f"{PREFIX}{cluster}/{WIDE_NAMESPACE}/"
        if any(key.startswith(wide) for key in await self._quotas.keys(cluster, namespace)):
            return cluster, WIDE_NAMESPACE  # all of the cluster counts at one place
        return cluster, namespace

    async def _charge(self, requests: Sequence[AdmissionRequest]) -> Counts:
        """What makes every quota count these writes; Forbidden if one of them has no room."""
        charges: dict[str, _Charge] = {}
        slices = Slices()
        for request in requests:
            found = await self._charges(request, charges, slices)
            meter, limits = _meter(request), [_limited(request, charge.quota) for charge in found]
            measured = await measured_write(request, meter, [one for one in limits if one.names])
            for charge, limited in zip(found, limits, strict=True):
                if slices.is_over():
                    await slices.next()
                await self._count(request, measured, limited, charge)
        return [
            counted(charge.entry, _with_used(charge.quota, charge.more), charge.cluster)
            for charge in charges.values()
            if charge.more
        ]

    async def _charges(
        self, request: AdmissionRequest, charges: dict[str, _Charge], slices: Slices
    ) -> list[_Charge]:
        """Those of the quotas that count in the namespace of a write."""
        found: list[_Charge] = []
        for key in await self._quotas.keys(request.context.cluster, request.namespace):
            if slices.is_over():
                await slices.next()
            charge = charges.get(key)
            if charge is None:
                entry = self._store.get(key)
                if entry is None:
                    continue  # deleted a moment ago
                charge = charges[key] = _Charge(entry, request.context.cluster)
            found.append(charge)
        return found

    async def _count(
        self,
        request: AdmissionRequest,
        measured: Measured | None,
        limited: Limited,
        charge: _Charge,
    ) -> None:
        """Count one more object; Forbidden if that is more than the quota allows."""
        quota = charge.quota
        requested = _requested(request, measured, limited)
        if not requested:
            return
        used = await self._usage(request, quota, requested)
        used |= {name: charge.more[name] for name in requested if name in charge.more}
        hard = _limits(quota, requested)
        after = {name: used[name] + requested[name] for name in requested}
        exceeded = sorted(name for name in requested if after[name] > hard[name])
        if exceeded and request.subresource != "status":
            raise _exceeded(request, quota, exceeded, (requested, used, hard))
        charge.more |= after

    async def _usage(
        self, request: AdmissionRequest, quota: Object, names: Amounts
    ) -> dict[str, Quantity]:
        """What the quota has counted; what it has not yet is counted now."""
        used = _used(quota)
        known = {name: amount(used[name]) for name in names if name in used}
        if len(known) == len(names):
            return known
        cluster = request.context.cluster
        namespace = "" if is_wide(quota) else request.namespace
        number = await self._store.count(range_prefix(request.resource.prefix, cluster, namespace))
        return {name: known.get(name, Quantity(number, 0)) for name in names}


def _meter(request: AdmissionRequest) -> QuotaMeter | None:
    """None also for kinds that only have the name of one of Kubernetes'."""
    resource = request.resource
    is_kubernetes = resource.definition.is_kubernetes
    return meter_of(resource.group, resource.plural) if is_kubernetes else None


def _may_use_more(request: AdmissionRequest) -> bool:
    meter = _meter(request)
    if meter is None or request.kind is not None:
        return False
    if isinstance(request, LargeRequest):
        return True  # it is looked at where it is measured
    new, old = request.obj, request.old
    if new is None or old is None:
        return False
    return meter.charges(request.subresource, new, old)


def _limited(request: AdmissionRequest, quota: Object) -> Limited:
    """What a quota limits of the kind that is written, beside its number."""
    meter = None if is_wide(quota) else _meter(request)
    hard = () if meter is None else _status(quota, "hard")
    return Limited(quota, sorted(n for n in hard if meter is not None and meter.measures(n)))


def _requested(
    request: AdmissionRequest, measured: Measured | None, limited: Limited
) -> dict[str, Quantity]:
    """What a write uses more of what a quota limits."""
    quota, kind = limited.quota, (request.resource.group, request.resource.plural)
    hard = (quota.get("spec") or {}).get("hard") or {}
    found: dict[str, Quantity] = {}
    if measured is not None and limited.names:
        found = _metered(request, measured, limited)
    if request.operation == "CREATE" and not is_scoped(quota):
        found |= {name: _ONE for name in names_of(*kind) if name in hard}
    return found


def _metered(
    request: AdmissionRequest, measured: Measured, limited: Limited
) -> dict[str, Quantity]:
    share, (quota, names) = measured.share(limited), limited
    name = quota["metadata"]["name"]
    if not share.is_in_scopes:
        return {}
    if share.missing:
        raise _refused(request, f"failed quota: {name}: {share.missing}")
    if any(one not in _used(quota) for one in names):
        text = f"status unknown for quota: {name}, resources: {','.join(names)}"
        raise _refused(request, text)
    return dict(share.used or {})


def _limits(quota: Object, names: Iterable[str]) -> dict[str, Quantity]:
    """Counts are limited at once, all else as soon as it is known what is used of it."""
    status, spec = _status(quota, "hard"), (quota.get("spec") or {}).get("hard") or {}
    return {name: amount(spec[name] if name in spec else status[name]) for name in names}


_ZERO, _ONE = Quantity(0, 0), Quantity(1, 0)
_NO_QUOTAS: tuple[Keys, Keys] = ((), ())
_ALL: Keys = ("*",)
"""It is not known which."""


def _joined(own: Keys, wide: Keys) -> Keys:
    """Each once: a quota that counts its cluster counts its own namespace as part of it."""
    return own if not wide else (*own, *(key for key in wide if key not in own))


def _used(quota: Object) -> dict[str, Any]:
    return _status(quota, "used")


def _status(quota: Object, name: str) -> dict[str, Any]:
    status: Object = quota.get("status") or {}
    return status.get(name) or {}


def _with_used(quota: Object, used: Amounts) -> Object:
    status = dict(quota.get("status") or {})
    status["used"] = {**_used(quota), **{name: str(value) for name, value in used.items()}}
    return {**quota, "status": status}


def _exceeded(
    request: AdmissionRequest, quota: Object, names: Sequence[str], amounts: Sequence[Amounts]
) -> Forbidden:
    requested, used, limited = (",".join(f"{name}={of[name]}" for name in names) for of in amounts)
    return _refused(
        request,
        f"exceeded quota: {quota['metadata']['name']}, requested: {requested}, "
        f"used: {used}, limited: {limited}",
    )


def _refused(request: AdmissionRequest, why: str) -> Forbidden:
    resource = request.resource
    return Forbidden.resource(resource.group, resource.plural, request.name, why)
