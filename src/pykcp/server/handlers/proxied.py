"""The subresource `proxy` of Kubernetes' pods, services and nodes.

Nothing runs here that could be reached. A request gets the answer that Kubernetes gives when it finds
no address, and where there is one, that it cannot be reached: no address that a tenant wrote is connected to.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import (
    BadRequest,
    NotFound,
    ServiceUnavailable,
    StatusError,
    go_quote,
)
from pykcp.registry.local import LocalClient
from pykcp.registry.verbs.read import find
from pykcp.server.call import Call, Handler
from pykcp.types import Object

PROXY = "proxy"
_PODS = GroupVersionResource("", "v1", "pods")
_ENDPOINTS = GroupVersionResource("", "v1", "endpoints")
_SCHEMES = ("", "http", "https")
_UNREACHABLE = "error trying to reach service: this server has no connection to pods and nodes"
_NODE_ADDRESSES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")


class _Target(NamedTuple):
    name: str
    port: str


def split_target(text: str) -> _Target | None:
    """`name`, `name:port` or `scheme:name:port`; None if it is none of them."""
    parts = text.split(":")
    if len(parts) > 3:
        return None
    scheme = parts.pop(0) if len(parts) == 3 else ""
    name, port = parts[0], parts[1] if len(parts) == 2 else ""
    return _Target(name, port) if name and scheme in _SCHEMES else None


class Proxied:
    def __init__(self, client: LocalClient) -> None:
        self._client = client

    def find(self, call: Call) -> Handler | None:
        handlers = {"pods": self._pod, "services": self._service, "nodes": self._node}
        return handlers.get(call.info.resource)

    async def _pod(self, call: Call) -> None:
        pod = _named(call, _target(call, "pod").name)
        if not is_proxyable(pod_ip(pod)):
            raise BadRequest("address not allowed")
        raise ServiceUnavailable(_UNREACHABLE)

    async def _service(self, call: Call) -> None:
        target = _target(call, "service")
        port = target.port
        if port.isascii() and port.isdigit():
            port = _port_name(_named(call, target.name), target)
        namespace = call.info.namespace
        endpoints = await self._client.get(call.cluster, _ENDPOINTS, target.name, namespace)
        if endpoints is None:
            raise NotFound.resource("", "services", target.name)
        subsets = endpoints.get("subsets") or ()
        for address in _addresses(subsets, port):
            if await self._is_pod(call, address):
                raise ServiceUnavailable(_UNREACHABLE)
        shown = call.info.name if subsets else target.name
        raise ServiceUnavailable(f"no endpoints available for service {go_quote(shown)}")

    async def _is_pod(self, call: Call, address: Object) -> bool:
        """Kubernetes connects to addresses of pods alone."""
        target = address.get("targetRef") or {}
        if target.get("kind") != "Pod" or target.get("namespace") != call.info.namespace:
            return False
        pod = await self._client.get(
            call.cluster, _PODS, target.get("name") or "", call.info.namespace
        )
        return pod is not None and pod_ip(pod) == address.get("ip")

    async def _node(self, call: Call) -> None:
        node = _named(call, _target(call, "node").name)
        addresses = (node.get("status") or {}).get("addresses") or ()
        if not any(one.get("type") in _NODE_ADDRESSES for one in addresses):
            raise StatusError(
                "no preferred addresses found; known addresses: []", reason="", details=False
            )
        raise ServiceUnavailable(_UNREACHABLE)


def pod_ip(pod: Object) -> str:
    status = pod.get("status") or {}
    addresses = status.get("podIPs") or ()
    return str((addresses[0] if addresses else {}).get("ip") or status.get("podIP") or "")


def is_proxyable(text: str) -> bool:
    """Whether it is an address that several hosts can use to reach one."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or text == "255.255.255.255"
    )


def _target(call: Call, what: str) -> _Target:
    target = split_target(call.info.name)
    if target is None:
        raise BadRequest(f"invalid {what} request {go_quote(call.info.name)}")
    return target


def _named(call: Call, name: str) -> Object:
    entry = find(call.resource, call.context, call.info.namespace, name)
    return call.resource.object_of(entry.value)


def _port_name(service: Object, target: _Target) -> str:
    for port in (service.get("spec") or {}).get("ports") or ():
        if port.get("port") == int(target.port):
            return port.get("name") or ""
    raise ServiceUnavailable(
        f"no service port {int(target.port)} found for service {go_quote(target.name)}"
    )


def _addresses(subsets: Sequence[Object], port: str) -> list[Object]:
    return [
        address
        for subset in subsets
        if any((one.get("name") or "") == port for one in subset.get("ports") or ())
        for address in subset.get("addresses") or ()
    ]
