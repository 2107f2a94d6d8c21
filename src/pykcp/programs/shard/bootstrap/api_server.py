"""How a Kubernetes cluster describes its API server: the Service `kubernetes`, its addresses, its CAs.

Kubernetes' own components and aggregated API servers find the API server, and learn whose client
certificates it trusts, by these objects.
"""

from __future__ import annotations

import ipaddress
import json
import pathlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pykcp.apis.kube.workloads.service_addresses import ServiceRanges
from pykcp.machinery.resources import CONFIG_MAPS, GroupVersionResource
from pykcp.programs.kit.groups.request_header import RequestHeaderOptions
from pykcp.programs.shard.credentials import Credentials
from pykcp.programs.shard.settings import ShardSettings
from pykcp.types import Object

_SERVICES = GroupVersionResource("", "v1", "services")
_ENDPOINTS = GroupVersionResource("", "v1", "endpoints")
_SLICES = GroupVersionResource("discovery.k8s.io", "v1", "endpointslices")
SERVICE_RANGES = GroupVersionResource("networking.k8s.io", "v1", "servicecidrs")
_ELSEWHERE = ("192.0.2.1", 9)
"""An address for documentation: nothing is sent to it, only the route to it is looked up."""


@dataclass(frozen=True, slots=True)
class OwnServer:
    address: str
    """Where other machines reach it; "" if nowhere."""
    port: int
    ranges: ServiceRanges
    client_ca: str
    """CAs (PEM) of client certificates."""
    proxies: RequestHeaderOptions


def own_server(settings: ShardSettings, credentials: Credentials) -> OwnServer:
    """As it is once it listens."""
    return OwnServer(
        reachable_address(settings.serving.bind_address),
        int(credentials.address.rpartition(":")[2]),
        settings.generic.service_ranges(),
        credentials.client_ca.decode(),
        settings.request_header,
    )


def reachable_address(bound: str) -> str:
    """The address itself, or that of this machine if it is of all interfaces or of loopback."""
    try:
        address = ipaddress.ip_address(bound)
    except ValueError:
        return ""
    if address.is_unspecified or address.is_loopback:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(_ELSEWHERE)
            except OSError:
                return ""  # a machine without a network
            address = ipaddress.ip_address(probe.getsockname()[0])
    return "" if address.is_loopback or address.is_link_local else str(address)


def own_objects(server: OwnServer) -> Iterator[tuple[GroupVersionResource, Object]]:
    """What has to be as it is here at every start."""
    yield _SERVICES, _service(server)
    yield CONFIG_MAPS, _config_map("extension-apiserver-authentication", _trusted(server))
    if server.address:
        yield _ENDPOINTS, _endpoints(server)
        yield _SLICES, _endpoint_slice(server)


def token_tracking(now: float) -> Object:
    """Since when the use of tokens in Secrets is noted; the first start says it."""
    since = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")
    return _config_map("kube-apiserver-legacy-service-account-token-tracking", {"since": since})


def service_range(ranges: ServiceRanges) -> Object:
    """The object that says where the first services get their addresses; clients look for its name."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [str(ranges.addresses)]},
    }


def range_is_ready(now: str) -> Object:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": now,
    }


def _service(server: OwnServer) -> Object:
    """It has the first address of the range."""
    address = str(server.ranges.addresses[1])
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": server.port}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {"ports": [port], "clusterIP": address, "clusterIPs": [address]},
    }


def _ports(server: OwnServer) -> list[Object]:
    return [{"name": "https", "port": server.port, "protocol": "TCP"}]


def _endpoints(server: OwnServer) -> Object:
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "subsets": [{"addresses": [{"ip": server.address}], "ports": _ports(server)}],
    }


def _endpoint_slice(server: OwnServer) -> Object:
    labels = {"kubernetes.io/service-name": "kubernetes"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "addressType": "IPv6" if ":" in server.address else "IPv4",
        "endpoints": [{"addresses": [server.address], "conditions": {"ready": True}}],
        "ports": _ports(server),
    }


def _trusted(server: OwnServer) -> dict[str, str]:
    data = {"client-ca-file": server.client_ca}
    proxies = server.proxies
    if not proxies.requestheader_client_ca_file:
        return data
    return data | {
        "requestheader-client-ca-file": pathlib.Path(
            proxies.requestheader_client_ca_file
        ).read_text(),
        "requestheader-allowed-names": _words(proxies.requestheader_allowed_names),
        "requestheader-username-headers": _words(proxies.requestheader_username_headers),
        "requestheader-uid-headers": _words(proxies.requestheader_uid_headers),
        "requestheader-group-headers": _words(proxies.requestheader_group_headers),
        "requestheader-extra-headers-prefix": _words(proxies.requestheader_extra_headers_prefix),
    }


def _words(words: tuple[str, ...]) -> str:
    return json.dumps(list(words), separators=(",", ":"))


def _config_map(name: str, data: dict[str, str]) -> Object:
    metadata = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
