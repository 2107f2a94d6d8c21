"""Connections to clusters, as their kubeconfigs describe them.

A kubeconfig comes from a tenant: it may name no program and no file, certificates are always
verified, and in a shard the address must be one that tenants may reach. No text here contains any
part of a kubeconfig but names and addresses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
import orjson

from pykcp.aio.slices import Slices
from pykcp.clients.credential_files import CredentialError
from pykcp.clients.errors import SendFailed
from pykcp.clients.http.client import HttpClient
from pykcp.clients.kubeconfig import KubeconfigServer, parse_endpoint
from pykcp.clients.remote.client import AnswerLimits, RemoteClient
from pykcp.clients.remote.connect import http_of, token_of
from pykcp.machinery import meta
from pykcp.machinery.resources import NAMESPACES, GroupVersionResource
from pykcp.machinery.status import ServiceUnavailable
from pykcp.multicluster.computing import Compute, compute_here
from pykcp.multicluster.names import FIELD_MANAGER
from pykcp.types import Object
from pykcp.wire.settings import ClientSettings

_CLUSTERS = "/clusters/"
_IDENTITY = ("kube-system", "default")
"""Namespaces by whose UID a cluster is known: the first that it has."""
_SECONDS = 30.0
_LIMITS = AnswerLimits(answer=8 << 20, listing=64 << 20, line=2 << 20, page=100)
"""Of servers that tenants chose. Objects have at most one and a half MiB in Kubernetes, and the
OpenAPI documents of single versions less than that."""
TENANT_SETTINGS = ClientSettings(
    first_window=64 << 10, connection_window=256 << 10, max_connections=32, max_header_fields=128
)
_SMALL, _MOST_OBJECT = 128 << 10, 2 << 20
"""Bytes of JSON that are decoded at once, and of one object."""
_SHORT = 4096
"""Characters of a kubeconfig that a thread reads as quickly as a worker process."""
_PARSE = "pykcp.clients.kubeconfig:parse_endpoint"

Resolve: TypeAlias = Callable[[str, str, int], Awaitable[tuple[str, ...]]]
"""The addresses of a host and port that a logical cluster may connect to. Raises SendFailed."""


class InvalidKubeconfig(Exception):
    """A kubeconfig that cannot be used; the text says why."""


class ClusterClient(RemoteClient):
    """The verbs of a cluster, with "" as the logical cluster.

    A kubeconfig may name a logical cluster of a kcp server; "" then stands for that one.
    """

    def __init__(
        self, http: HttpClient, prefix: str, token: Callable[[], str] = str, tenant: str = ""
    ) -> None:
        self._tenant = tenant
        super().__init__(http, FIELD_MANAGER, token=token, timeout=_SECONDS, limits=_LIMITS)
        self.prefix = prefix
        self.identity = ""
        """UID of the cluster; with it, nothing is written to another one. "": not known yet."""
        self._identified = -1
        """Connections that had been opened when the identity was read last."""

    async def read_identity(self) -> str:
        """The UID by which the cluster is known. Raises StatusError."""
        opened = self.http.opened
        for name in _IDENTITY:
            found = await self.get("", NAMESPACES, name)
            if found is not None:
                self._identified = max(opened, 1)
                return meta.uid(found)
        return ""

    @property
    def is_identified(self) -> bool:
        """Whether the identity was read on the connections that there are now."""
        return self._identified == self.http.opened

    async def _body(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        form: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        if method != "GET":
            await self.check_identity()
        return await super()._body(method, target, body, form, accept)

    async def check_identity(self) -> None:
        """Before something is written. Raises ServiceUnavailable if it is another cluster."""
        if not self.identity or self.is_identified:
            return
        found = await self.read_identity()
        if found != self.identity:
            self._identified = -1
            raise ServiceUnavailable(
                f"the kubeconfig leads to the cluster {found}, not to {self.identity}"
            )

    def collection(self, cluster: str, kind: GroupVersionResource, namespace: str = "") -> str:
        return self._below(cluster, super().collection(cluster, kind, namespace))

    def object(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        namespace: str = "",
        subresource: str = "",
    ) -> str:
        return self._below(cluster, super().object(cluster, kind, name, namespace, subresource))

    async def send(self, method: str, target: str, body: Object | None = None) -> Object:
        return await super().send(method, f"{self.prefix}{target}", body)

    async def document(self, target: str) -> bytes:
        return await super().document(f"{self.prefix}{target}")

    async def decode(self, body: bytes) -> Object:
        """Raises ServiceUnavailable for what is no JSON object, or too large for one."""
        try:
            found = await self._decode_large(body) if len(body) > _SMALL else orjson.loads(body)
        except (orjson.JSONDecodeError, msgspec.MsgspecError):
            found = None
        if not isinstance(found, dict):
            raise ServiceUnavailable("the answer is not a JSON object")
        return found

    async def _decode_large(self, body: bytes) -> Object:
        """A list object by object; anything else is small."""
        page = _decode_page(body)
        if not page.items:
            if len(body) > _MOST_OBJECT:
                raise ServiceUnavailable(f"the answer is longer than {_MOST_OBJECT} bytes")
            found: Object = orjson.loads(body)
            return found
        slices, items = Slices(self._tenant), []
        for item in page.items:
            items.append(orjson.loads(item))
            if slices.is_over():
                await slices.next()
        metadata = orjson.loads(page.metadata)
        return {
            "kind": page.kind,
            "apiVersion": page.api_version,
            "metadata": metadata,
            "items": items,
        }

    def _below(self, cluster: str, path: str) -> str:
        return path if cluster else f"{self.prefix}{path}"

    async def read(self, target: str, seconds: float) -> tuple[int, bytes]:
        """Status and body of a path of the server itself. Raises ServiceUnavailable."""
        try:
            async with asyncio.timeout(seconds):
                response = await self.http.request("GET", target, self.headers("*/*"))
                return response.status, await response.read(1 << 16)
        except TimeoutError:
            raise ServiceUnavailable(f"no answer within {seconds:g} s") from None
        except SendFailed as error:
            raise ServiceUnavailable(str(error)) from error

    def close(self) -> None:
        self.http.close()


class _Page(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    items: list[msgspec.Raw] = []


_decode_page = msgspec.json.Decoder(_Page).decode


async def parse_kubeconfig(
    text: str, compute: Compute = compute_here, tenant: str = ""
) -> KubeconfigServer:
    """The server of a tenant's kubeconfig. Raises InvalidKubeconfig, StatusError."""
    try:
        found: KubeconfigServer
        if len(text) > _SHORT and compute is not compute_here:
            found = await compute(_PARSE, text, tenant=tenant)
        else:
            found = await asyncio.to_thread(parse_endpoint, text)
    except CredentialError as error:
        raise InvalidKubeconfig(str(error)) from None
    refused = {
        "http": urlsplit(found.url).scheme != "https",
        "insecure-skip-tls-verify": found.skip_verify,
        "username and password": bool(found.username or found.password),
        "proxy-url": bool(found.proxy),
    }
    for name, is_used in refused.items():
        if is_used:
            raise InvalidKubeconfig(f"kubeconfig: {name} cannot be used here")
    return found


async def resolve_any(_cluster: str, _host: str, _port: int) -> tuple[str, ...]:
    """Every address is allowed, for programs that act for their own users only."""
    return ()


async def open_client(
    endpoint: KubeconfigServer, tenant: str, resolve: Resolve = resolve_any
) -> ClusterClient:
    """A client for a cluster of the logical cluster `tenant`; connections open on first use.

    Raises InvalidKubeconfig, SendFailed.
    """
    parts = urlsplit(endpoint.url)
    addresses = await resolve(tenant, parts.hostname or "", parts.port or 443)
    try:
        http = http_of(endpoint, addresses=addresses, settings=TENANT_SETTINGS, tenant=tenant)
    except (CredentialError, ValueError) as error:
        raise InvalidKubeconfig(f"kubeconfig: {error}") from None
    logical = parts.path.partition(_CLUSTERS)[2].strip("/")
    prefix = f"{_CLUSTERS}{logical}" if logical else ""
    return ClusterClient(http, prefix, token_of(endpoint), tenant)
