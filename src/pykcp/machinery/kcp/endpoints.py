"""Endpoints of a slice: selection of the URL for a shard. Pure.

An endpoint may say for which shards it is, and then the most specific one wins. Where none
says, a shard takes the one address that begins with its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pykcp.machinery.labels import SelectorError, from_label_selector
from pykcp.machinery.status import go_quote
from pykcp.types import Object

MAX_HOPS = 4
"""A request that has been forwarded so often goes in circles."""
HOPS_HEADER = "x-kcp-virtual-resource-hops"


class NoEndpoints(Exception):
    """The slice has no endpoints yet."""


class BadEndpoints(Exception):
    """No endpoint can be chosen; the message says why."""


def read_hops(header: str | None) -> int:
    """How often a request was forwarded; what cannot be understood counts as too often."""
    if not header:
        return 0
    try:
        hops = int(header)
    except ValueError:
        return MAX_HOPS
    return hops if hops >= 0 else MAX_HOPS


def endpoints_of(endpoint_slice: Object) -> list[Object]:
    """The endpoints in the status of any kind of slice."""
    status = endpoint_slice.get("status")
    if status is None:
        raise NoEndpoints("missing status")
    if not isinstance(status, dict):
        raise BadEndpoints("status field is not an object")
    endpoints = status.get("endpoints")
    if endpoints is None:
        raise NoEndpoints("missing status.endpoints")
    if not isinstance(endpoints, list):
        raise BadEndpoints("status.endpoints field is not a list")
    for index, endpoint in enumerate(endpoints):
        if not isinstance(endpoint, dict):
            raise BadEndpoints(f"endpoint at index {index} is not an object")
        if not isinstance(endpoint.get("url"), str):
            raise BadEndpoints(f"missing url in endpoint at index {index}")
    return endpoints


def pick_url(own: str, labels: Mapping[str, str], endpoints: Sequence[Object]) -> str:
    """The address for a shard with these labels, whose own begins with `own`."""
    urls: list[str] = [endpoint["url"] for endpoint in endpoints]
    choosy = [e for e in endpoints if _is_choosy(e.get("shards"))]
    if not choosy:
        return _by_prefix(own, urls)
    found: dict[int, list[str]] = {}
    for endpoint in choosy:
        specificity = _specificity(endpoint, labels)
        if specificity is not None:
            found.setdefault(specificity, []).append(endpoint["url"])
    shown = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    everything = " ".join(urls)
    if not found:
        raise BadEndpoints(f"none of the endpoints [{everything}] select a shard labelled {shown}")
    best = found[max(found)]
    if len(best) > 1:
        raise BadEndpoints(
            f"{len(best)} endpoints select a shard labelled {shown} equally well, "
            f"out of [{everything}]"
        )
    return best[0]


def _is_choosy(shards: Any) -> bool:
    return isinstance(shards, dict) and bool(
        shards.get("matchAll") or shards.get("selector") is not None
    )


def _specificity(endpoint: Object, labels: Mapping[str, str]) -> int | None:
    """How narrowly an endpoint selects this shard; None if it does not."""
    shards, url = endpoint["shards"], go_quote(endpoint["url"])
    selector = shards.get("selector")
    if selector is None:
        return 0
    if shards.get("matchAll"):
        raise BadEndpoints(
            f"endpoint {url} sets both matchAll and selector, which are mutually exclusive"
        )
    try:
        if not from_label_selector(selector).matches(labels):
            return None
    except SelectorError as error:
        raise BadEndpoints(f"endpoint {url} has an invalid shard selector: {error}") from error
    return len(selector.get("matchLabels") or ()) + len(selector.get("matchExpressions") or ())


def _by_prefix(own: str, urls: Sequence[str]) -> str:
    matches = [url for url in urls if url.startswith(own)]
    if len(matches) == 1:
        return matches[0]
    problem = (
        f"ambiguous URLs [{' '.join(matches)}] with prefix {go_quote(own)}"
        if matches
        else f"no URLs match prefix {go_quote(own)}"
    )
    raise BadEndpoints(
        f"{problem}: no endpoint says which shards it serves, so a URL is this shard's only if it "
        f"starts with {go_quote(own)}; an endpoint serving every shard should set shards.matchAll"
    )
