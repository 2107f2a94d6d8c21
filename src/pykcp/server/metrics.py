"""Metrics of requests, with kube-apiserver's names and labels where it has them."""

from __future__ import annotations

import time

from pykcp.observe.metrics import Counter, Histogram, Registry
from pykcp.observe.slow_requests import THRESHOLD, SlowRequests
from pykcp.server.call import Call

_SERIES = 4096
"""Tenants define resources with any names; beyond this number of series they share one label."""
_OF_TENANTS = frozenset(("group", "version", "resource", "subresource"))
_BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RequestMetrics:
    """Requests by verb, resource and code. Clusters and names are never labels."""

    def __init__(self, registry: Registry) -> None:
        self._total = Counter(
            "apiserver_request_total",
            "Requests by verb, resource and HTTP code.",
            ("verb", "group", "version", "resource", "subresource", "code"),
            limit=_SERIES,
            open_labels=_OF_TENANTS,
        )
        self._lists = Counter(
            "apiserver_cache_list_total",
            "Lists served from the local store, which are all lists.",
            ("group", "index", "resource"),
            limit=_SERIES,
            open_labels=_OF_TENANTS,
        )
        self._duration = Histogram(
            "apiserver_request_duration_seconds",
            "Response latency by verb, without watches.",
            ("verb",),
            _BOUNDS,
        )
        registry.add(self._total, self._lists, self._duration)
        self.slow = SlowRequests()

    def observe(self, call: Call, code: int = 0) -> None:
        info = call.info
        if not info.is_resource:
            self._total.add(("other", "", "", "", "", str(code or 200)))
            return
        verb = info.verb
        known = call.resource is not None
        self._total.add(
            (
                verb if known else "other",
                info.group if known else "",
                info.version if known else "",
                info.resource if known else "",
                info.subresource if known and code != 404 else "",
                str(code) if code else "2xx",
            )
        )
        if verb == "list" and known and not code:
            self._lists.add((info.group, "", info.resource))
        if verb != "watch":
            seconds = time.perf_counter() - call.started
            self._duration.observe((verb if known else "other",), seconds)
            if seconds > THRESHOLD:
                self.slow.note(
                    seconds, info.method, info.path, call.user.name, call.cluster, code or 200
                )
