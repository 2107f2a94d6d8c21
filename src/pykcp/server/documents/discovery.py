"""Discovery: which groups, versions and resources a logical cluster serves.

The documents depend only on the set of definitions, so clusters that serve the
same things share them; they are made on first use and kept within bounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import orjson

from pykcp.apis.catalog import ResourceDefinition
from pykcp.caching import BoundedCache
from pykcp.machinery import discovery as documents
from pykcp.machinery.status import MethodNotAllowed, NotFound
from pykcp.server.call import Call
from pykcp.server.media import negotiation
from pykcp.server.media.answers import (
    CACHE_CONTROL,
    GZIP_HEADERS,
    PageNotFound,
    in_form,
    may_compress,
    packed,
    send_json,
)
from pykcp.server.resources import ServedResources

_KEEP = 256


class Discovery:
    def __init__(
        self,
        directory: ServedResources,
        address: Callable[[], str],
        *,
        aggregates: bool = True,
        plain_cluster: str = "",
    ) -> None:
        """`aggregates`: whether all of it can be had at once.

        `plain_cluster`: a logical cluster that is described as by kube-apiserver.
        """
        self._directory = directory
        self._address = address
        self._aggregates = aggregates
        self._plain_cluster = plain_cluster
        self._made: BoundedCache[tuple[object, ...], tuple[bytes, str]] = BoundedCache(
            "discovery", _KEEP
        )

    def paths(self, cluster: str) -> list[str]:
        out = ["/api", "/api/v1", "/apis", "/apis/"]
        for definition in self._definitions(cluster):
            if definition.group:
                out.append(f"/apis/{definition.group}")
                out += [f"/apis/{definition.group}/{v}" for v in definition.versions]
        return sorted(set(out))

    def legacy(self, call: Call) -> None:
        parts = call.info.path.strip("/").split("/")
        definitions = self._definitions(call.cluster)
        if len(parts) == 1:
            _check_method(call)
            if self._aggregated(call, definitions, legacy=True):
                return
            address = self._address()
            self._send(
                call,
                ("api", address),
                definitions,
                lambda _: documents.api_versions(address),
                takes_any=False,
            )
        elif len(parts) == 2:
            self._resources(call, definitions, "", parts[1])
        else:
            raise NotFound.path()

    def groups(self, call: Call) -> None:
        parts = call.info.path.strip("/").split("/")
        definitions = self._definitions(call.cluster)
        if len(parts) == 1:
            if not self._aggregated(call, definitions, legacy=False):
                self._send(call, ("apis",), definitions, documents.api_group_list)
        elif len(parts) == 2:
            group = parts[1]
            if not any(d.group == group and d.versions for d in definitions):
                raise PageNotFound
            self._send(call, ("group", group), definitions, lambda d: documents.api_group(d, group))
        elif not parts[2] and any(d.group == parts[1] and not d.native for d in definitions):
            raise PageNotFound  # the server of custom resources says it in its own way
        elif len(parts) > 3:  # it would be a resource if no segment were empty
            raise NotFound.path() if _is_builtin(definitions, parts[1]) else PageNotFound
        else:
            self._resources(call, definitions, parts[1], parts[2])

    def _resources(
        self, call: Call, definitions: tuple[ResourceDefinition, ...], group: str, version: str
    ) -> None:
        if not any(d.group == group and version in d.versions for d in definitions):
            raise NotFound.path() if _is_builtin(definitions, group) else PageNotFound
        is_plain = bool(call.cluster) and call.cluster == self._plain_cluster
        self._send(
            call,
            ("resources", group, version, is_plain),
            definitions,
            lambda d: documents.api_resource_list(d, group, version, is_plain=is_plain),
            takes_any=bool(group) and not _is_builtin(definitions, group),
        )

    def _definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return self._directory.definitions(cluster)

    def _aggregated(
        self, call: Call, definitions: tuple[ResourceDefinition, ...], *, legacy: bool
    ) -> bool:
        """Answer with the aggregated form, if that is what the client would rather have."""
        media_type = _aggregated_form(call.exchange.request.header("accept") or "")
        if not media_type or not self._aggregates:
            return False
        body, etag = self._make(
            ("aggregated", legacy),
            definitions,
            lambda d: documents.aggregated([r for r in d if (r.group == "") == legacy]),
        )
        content_type = f"{media_type};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        headers = (
            CACHE_CONTROL,
            ("content-type", content_type),
            ("etag", etag),
            ("vary", "Accept"),
        )
        if call.exchange.request.header("if-none-match") == etag:
            call.exchange.respond(304, headers)
        elif media_type != negotiation.JSON:
            call.exchange.respond(200, headers, in_form(media_type, False, orjson.loads(body)))
        elif may_compress(call, len(body)):
            call.exchange.respond(200, (*headers, *GZIP_HEADERS), self._packed(body, etag))
        else:
            call.exchange.respond(200, headers, body)
        return True

    def _packed(self, body: bytes, etag: str) -> bytes:
        key = (("compressed", etag), ())
        made = self._made.get(key)
        if made is None:
            made = packed(body), etag
            self._made.put(key, made)
        return made[0]

    def _send(
        self,
        call: Call,
        what: tuple[object, ...],
        definitions: tuple[ResourceDefinition, ...],
        make: Callable[[tuple[ResourceDefinition, ...]], object],
        *,
        takes_any: bool = True,
    ) -> None:
        """`takes_any`: any media type and method, as of upstream's handlers without a router."""
        if not takes_any:
            _check_method(call)
        call.negotiate(negotiation.SERVED, transforms=frozenset(), takes_any=takes_any)
        body, _ = self._make(what, definitions, make)
        send_json(call, body)

    def _make(
        self,
        what: tuple[object, ...],
        definitions: tuple[ResourceDefinition, ...],
        make: Callable[[tuple[ResourceDefinition, ...]], object],
    ) -> tuple[bytes, str]:
        key = (what, definitions)
        made = self._made.get(key)
        if made is None:
            body = orjson.dumps(make(definitions)) + b"\n"
            made = body, f'"{hashlib.sha512(body).hexdigest().upper()}"'
            self._made.put(key, made)
        return made


def _is_builtin(definitions: tuple[ResourceDefinition, ...], group: str) -> bool:
    return any(d.group == group and d.native for d in definitions)


def _check_method(call: Call) -> None:
    if call.info.method != "GET":
        raise MethodNotAllowed("the server does not allow this method on the requested resource")


def _aggregated_form(accept: str) -> str:
    """The media type of the aggregated form that a client asks for; empty if it does not.

    As upstream does, clauses that ask for anything else are passed over.
    """
    for clause in negotiation.parse_accept(accept):
        if _AGGREGATED.items() <= dict(clause.params).items():
            found = negotiation.matching(clause.media_type)
            if found:
                return found[0]
    return ""


_AGGREGATED = {"as": "APIGroupDiscoveryList", "g": "apidiscovery.k8s.io", "v": "v2"}
