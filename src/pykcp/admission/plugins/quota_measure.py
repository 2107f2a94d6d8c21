"""What one write uses of the quotas of its namespace, measured once for all of them.

A pod of megabytes takes seconds to measure: a worker process does it for large writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import orjson

from pykcp.machinery.quantity import Quantity
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.apis.kube.workloads.quota_usage import QuotaMeter

Amounts = Mapping[str, Quantity]
Found = TypeVar("Found")
_MEASURE = f"{__name__}:measured_texts"
USED_BY = f"{__name__}:used_by"
"""For worker processes."""


class Limited(NamedTuple):
    """What a quota limits of a kind."""

    quota: Object
    names: Sequence[str]


class QuotaShare(NamedTuple):
    """What a write uses of one quota."""

    is_in_scopes: bool
    missing: str = ""
    """What containers of a pod have to name and do not, as a text; "" if nothing."""
    used: Amounts | None = None
    """What it uses more than before, of what the quota limits."""


class Measured(Protocol):
    def share(self, limited: Limited) -> QuotaShare: ...


async def measured_write(
    request: AdmissionRequest, meter: QuotaMeter | None, limits: Sequence[Limited]
) -> Measured | None:
    """What a write uses of these quotas; None if it uses nothing that is measured."""
    if meter is None or not limits:
        return None
    large = request.resource.services.large
    if not isinstance(request, LargeRequest) or large is None:
        return MeasuredWrite(meter, request.obj or {}, request.old)
    shares: list[QuotaShare] | None = await large.compute(
        request.context.cluster,
        _MEASURE,
        (request.resource.group, request.resource.plural, request.subresource),
        request.text(),
        request.old_text(),
        [(orjson.dumps(limits_of(limited.quota)), limited.names) for limited in limits],
    )
    return None if shares is None else _Shares(limits, shares)


def limits_of(quota: Object) -> Object:
    """What says which objects a quota counts."""
    spec = quota.get("spec") or {}
    return {"spec": {name: spec[name] for name in ("scopes", "scopeSelector") if name in spec}}


class _Shares:
    """What a worker has found."""

    def __init__(self, limits: Sequence[Limited], shares: Sequence[QuotaShare]) -> None:
        names = (limited.quota["metadata"]["name"] for limited in limits)
        self._shares: dict[str, QuotaShare] = dict(zip(names, shares, strict=True))

    def share(self, limited: Limited) -> QuotaShare:
        return self._shares[limited.quota["metadata"]["name"]]


class MeasuredWrite:
    """A namespace may have any number of quotas, and an object many containers."""

    def __init__(self, meter: QuotaMeter, new: Object, old: Object | None) -> None:
        self._meter = meter
        self._new, self._old = new, old
        self._now = time.time()
        self._found: dict[object, Any] = {}

    def share(self, limited: Limited) -> QuotaShare:
        quota, names = limited
        if not self._selects(quota, self._new, "new"):
            return QuotaShare(is_in_scopes=False)
        if missing := self._missing(names):
            return QuotaShare(True, missing)
        used = self._growth() if self._is_old_in_scopes(quota) else self._usage()
        return QuotaShare(True, "", {n: used[n] for n in names if n in used and used[n].sign > 0})

    def _missing(self, names: Sequence[str]) -> str:
        return self._once(("missing", *names), lambda: self._meter.missing(names, self._new))

    def _is_old_in_scopes(self, quota: Object) -> bool:
        return self._old is not None and self._selects(quota, self._old, "old")

    def _selects(self, quota: Object, obj: Object, which: str) -> bool:
        from pykcp.apis.kube.workloads.quota_usage import selectors

        return all(
            self._once((which, orjson.dumps(one)), partial(self._meter.is_selected, one, obj))
            for one in selectors(quota)
        )

    def _usage(self) -> Amounts:
        return self._once("usage", lambda: self._meter.usage(self._new, self._now))

    def _growth(self) -> Amounts:
        from pykcp.apis.kube.workloads.quota_usage import growth

        old = self._old
        assert old is not None
        return self._once("growth", lambda: growth(self._meter, self._new, old, self._now))

    def _once(self, name: object, find: Callable[[], Found]) -> Found:
        if name not in self._found:
            self._found[name] = find()
        found: Found = self._found[name]
        return found


def measured_texts(
    kind: tuple[str, str, str],
    new_text: bytes,
    old_text: bytes | None,
    limits: Sequence[tuple[bytes, Sequence[str]]],
) -> list[QuotaShare] | None:
    """In a worker: what an object uses of each quota; None if it cannot use more than before.

    `kind`: group, plural and subresource.
    """
    from pykcp.apis.kube.workloads.quota_usage import METERS

    group, plural, subresource = kind
    meter, new = METERS[group, plural], orjson.loads(new_text)
    old = None if old_text is None else orjson.loads(old_text)
    if old is not None and not meter.charges(subresource, new, old):
        return None
    write = MeasuredWrite(meter, new, old)
    return [write.share(Limited(orjson.loads(quota), names)) for quota, names in limits]


def used_by(kind: tuple[str, str], text: bytes, quota: bytes, now: float) -> Mapping[str, Quantity]:
    """What a stored object uses of a quota. `kind`: group and plural; `quota`: see `limits_of`."""
    from pykcp.apis.kube.workloads.quota_usage import METERS, is_in_scopes

    meter, obj = METERS[kind], orjson.loads(text)
    return meter.usage(obj, now) if is_in_scopes(meter, orjson.loads(quota), obj) else {}
