"""What one write uses of the quotas of its namespace, measured once for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from pykcp.machinery.quantity import Quantity
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.apis.kube.workloads.quota_usage import QuotaMeter

Amounts = Mapping[str, Quantity]
Found = TypeVar("Found")

LARGEST = 128 << 10
"""Octets of an object whose use of quotas is measured, which takes some ten milliseconds for a pod
that consists of small containers. Those of clusters have a tenth of it at most."""


def is_too_large(request: AdmissionRequest) -> bool:
    return isinstance(request, LargeRequest) and request.is_longer_than(LARGEST)


def was_too_large(request: AdmissionRequest) -> bool:
    """Whether the object that is updated was stored before a quota would have refused it."""
    return isinstance(request, LargeRequest) and request.was_longer_than(LARGEST)


def measured_write(request: AdmissionRequest, meter: QuotaMeter | None) -> MeasuredWrite | None:
    """None if there is nothing to measure, or too much."""
    return None if meter is None or is_too_large(request) else MeasuredWrite(request, meter)


class MeasuredWrite:
    """A namespace may have any number of quotas, and an object many containers."""

    def __init__(self, request: AdmissionRequest, meter: QuotaMeter) -> None:
        self._meter = meter
        self._new, self._old = request.obj or {}, request.old
        self._now = time.time()
        self._found: dict[object, Any] = {}

    def usage(self, quota: Object, names: Sequence[str]) -> dict[str, Quantity]:
        """What it uses more than before, of what a quota limits; nothing outside of its scopes."""
        used = self._growth() if self._is_old_in_scopes(quota) else self._usage()
        return {name: used[name] for name in names if name in used and used[name].sign > 0}

    def is_in_scopes(self, quota: Object) -> bool:
        return self._selects(quota, self._new, "new")

    def missing(self, names: Sequence[str]) -> str:
        """What containers of a pod have to name and do not, as a text; "" if nothing."""
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
