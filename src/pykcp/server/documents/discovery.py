"""Discovery: which groups, versions and resources a logical cluster serves.

The documents depend only on the set of definitions, so clusters that serve the
same things share them; they are made on first use and kept within bounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import orjson

from pykcp.apis.catalog import ResourceDefinition
from pykcp.caching import BoundedCache
from pykcp.machinery import discovery as documents
from pykcp.machinery.protobuf.wire import ProtobufError
from pykcp.machinery.status import MethodNotAllowed, NotFound
from pykcp.registry.resource import LARGE
from pykcp.server.call import Call, Pending
from pykcp.server.large.worker_calls import compute
from pykcp.server.media import negotiation
from pykcp.server.media.answers import (
    CACHE_CONTROL,
    GZIP_HEADERS,
    PageNotFound,
    form_headers,
    in_form,
    instead_of_protobuf,
    is_plain_json,
    may_compress,
    packed,
    respond_compressed,
    send_json,
    wants_pretty,
    with_warnings,
)
from pykcp.server.resources import ServedResources
from pykcp.wire.exchange import Header
from pykcp.workers.pool import WorkerPool

_KEEP_BYTES = 32 << 20
_ENTRY = 1024
"""Octets that an entry costs however short it is."""
_REFORM = "pykcp.server.large.jobs:reform"


def _cost(made: tuple[bytes, str]) -> int:
    return _ENTRY + len(made[0])


class Discovery:
    def __init__(
        self,
        directory: ServedResources,
        address: Callable[[], str],
        *,
        aggregates: bool = True,
        plain_cluster: str = "",
        workers: WorkerPool | None = None,
    ) -> None:
        """`aggregates`: whether all of it can be had at once.

        `workers` make other forms of long documents than JSON.
        `plain_cluster`: a logical cluster that is described as by kube-apiserver.
        """
        self._directory = directory
        self._address = address
        self._aggregates = aggregates
        self._plain_cluster = plain_cluster
        self._made: BoundedCache[tuple[object, ...], tuple[bytes, str]] = BoundedCache(
            "discovery", _KEEP_BYTES, cost=_cost
        )
        self._workers = workers

    def paths(self, cluster: str) -> list[str]:
        out = ["/api", "/api/v1", "/apis", "/apis/"]
        for definition in self._definitions(cluster):
            if definition.group:
                out.append(f"/apis/{definition.group}")
                out += [f"/apis/{definition.group}/{v}" for v in definition.versions]
        return sorted(set(out))

    def legacy(self, call: Call) -> Pending:
        parts = call.info.path.strip("/").split("/")
        definitions = self._definitions(call.cluster)
        if len(parts) == 1:
            _check_method(call)
            media_type = self._aggregated_form(call)
            if media_type:
                return self._aggregated(call, definitions, media_type, legacy=True)
            address = self._address()
            return self._send(
                call,
                ("api", address),
                definitions,
                lambda _: documents.api_versions(address),
                takes_any=False,
            )
        if len(parts) == 2:
            return self._resources(call, definitions, "", parts[1])
        raise NotFound.path()

    def groups(self, call: Call) -> Pending:
        parts = call.info.path.strip("/").split("/")
        definitions = self._definitions(call.cluster)
        if len(parts) == 1:
            media_type = self._aggregated_form(call)
            if media_type:
                return self._aggregated(call, definitions, media_type, legacy=False)
            return self._send(call, ("apis",), definitions, documents.api_group_list)
        if len(parts) == 2:
            group = parts[1]
            if not any(d.group == group and d.versions for d in definitions):
                raise PageNotFound
            return self._send(
                call, ("group", group), definitions, lambda d: documents.api_group(d, group)
            )
        if not parts[2] and any(d.group == parts[1] and not d.native for d in definitions):
            raise PageNotFound  # the server of custom resources says it in its own way
        if len(parts) > 3:  # it would be a resource if no segment were empty
            raise NotFound.path() if _is_builtin(definitions, parts[1]) else PageNotFound
        return self._resources(call, definitions, parts[1], parts[2])

    def _resources(
        self, call: Call, definitions: tuple[ResourceDefinition, ...], group: str, version: str
    ) -> Pending:
        if not any(d.group == group and version in d.versions for d in definitions):
            raise NotFound.path() if _is_builtin(definitions, group) else PageNotFound
        is_plain = bool(call.cluster) and call.cluster == self._plain_cluster
        return self._send(
            call,
            ("resources", group, version, is_plain),
            definitions,
            lambda d: documents.api_resource_list(d, group, version, is_plain=is_plain),
            takes_any=bool(group) and not _is_builtin(definitions, group),
        )

    def _definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return self._directory.definitions(cluster)

    def _aggregated_form(self, call: Call) -> str:
        """The media type of the aggregated form, if that is what the client would rather have."""
        if not self._aggregates:
            return ""
        return _aggregated_form(call.exchange.request.header("accept") or "")

    def _aggregated(
        self,
        call: Call,
        definitions: tuple[ResourceDefinition, ...],
        media_type: str,
        *,
        legacy: bool,
    ) -> Pending:
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
            return self._send_form(call, media_type, False, body, etag, headers)
        elif may_compress(call, len(body)):
            call.exchange.respond(200, (*headers, *GZIP_HEADERS), self._packed(body, etag))
        else:
            call.exchange.respond(200, headers, body)
        return None

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
    ) -> Pending:
        """`takes_any`: any media type and method, as of upstream's handlers without a router."""
        if not takes_any:
            _check_method(call)
        call.negotiate(negotiation.SERVED, transforms=frozenset(), takes_any=takes_any)
        body, etag = self._make(what, definitions, make)
        if is_plain_json(call):
            send_json(call, body)
            return None
        media_type = call.accepted.media_type
        is_pretty = call.accepted.pretty or wants_pretty(call)
        return self._send_form(call, media_type, is_pretty, body, etag)

    def _send_form(
        self,
        call: Call,
        media_type: str,
        is_pretty: bool,
        body: bytes,
        etag: str,
        headers: Sequence[Header] = (),
    ) -> Pending:
        """A document in another form, which is made once. `headers`: if not those of the form."""
        key = ((media_type, is_pretty, etag), ())
        made = self._made.get(key)
        if made is None and self._workers is not None and len(body) > LARGE:
            return self._send_form_later(call, self._workers, key, body, etag, headers)
        if made is None:
            try:
                made = self._made.put(
                    key, (in_form(media_type, is_pretty, orjson.loads(body)), etag)
                )
            except ProtobufError:
                return self._send_without_protobuf(call, body, etag, headers)
        call.exchange.respond(200, headers or with_warnings(call, form_headers(call)), made[0])
        return None

    async def _send_form_later(
        self,
        call: Call,
        workers: WorkerPool,
        key: tuple[tuple[str, bool, str], tuple[()]],
        body: bytes,
        etag: str,
        headers: Sequence[Header],
    ) -> None:
        media_type, is_pretty, _ = key[0]
        made: bytes | None = await compute(
            workers, _REFORM, media_type, is_pretty, body, tenant=call.cluster
        )
        if made is None:
            pending = self._send_without_protobuf(call, body, etag, headers)
            if pending is not None:
                await pending
            return
        self._made.put(key, (made, etag))
        sent = headers or with_warnings(call, form_headers(call))
        await respond_compressed(call, 200, sent, made)

    def _send_without_protobuf(
        self, call: Call, body: bytes, etag: str, headers: Sequence[Header]
    ) -> Pending:
        call.accepted = instead_of_protobuf(call)
        media_type, is_pretty = call.accepted.media_type, call.accepted.pretty
        return self._send_form(call, media_type, is_pretty, body, etag, headers)

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
