"""Outgoing connections of a shard for tenants.

Webhooks, conversions and issuers share connections; mounts and virtual resources, whose
requests may be watches, have separate ones. Only mounts may connect to the shard itself: their
requests carry the caller's own credentials, and mounting workspaces of the same installation is
a common use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from pykcp.clients.destinations import Destinations, OwnSocket
from pykcp.clients.names import HostNames
from pykcp.clients.outbound import Outbound
from pykcp.clients.shares import Shares
from pykcp.observe.metrics import LabelledGauge, Registry
from pykcp.programs.shard.settings import ShardSettings

_HTTPS = 443
_ETCD = 2379


class Egress(NamedTuple):
    webhooks: Outbound
    """For webhooks, conversions and issuers."""
    mounts: Outbound
    virtual_resources: Outbound
    guarded: Destinations
    """What all but mounts may call."""

    def listens_on(self, address: str, port: int) -> None:
        """The shard listens: tenants must not make it call itself."""
        self.guarded.add_own([OwnSocket(address, port)])

    def named(self) -> Iterator[tuple[str, Outbound]]:
        yield "webhooks", self.webhooks
        yield "mounts", self.mounts
        yield "virtual-resources", self.virtual_resources


def make_egress(settings: ShardSettings, metrics: Registry) -> Egress:
    allow, deny = settings.egress.tenant_egress_allow, settings.egress.tenant_egress_deny
    stores = list(_sockets(settings.store.etcd_servers, _ETCD))
    urls = (
        settings.shard.shard_base_url,
        settings.shard.shard_external_url,
        settings.shard.shard_virtual_workspace_url,
    )
    guarded = Destinations(allow, deny, [*stores, *_sockets(urls, _HTTPS)])
    short = Shares(settings.egress.tenant_egress_connections)
    long = Shares(settings.egress.tenant_egress_forwards)
    names = HostNames()
    egress = Egress(
        webhooks=Outbound(guarded, names, short),
        mounts=Outbound(Destinations(allow, deny, stores), names, long),
        virtual_resources=Outbound(guarded, names, long),
        guarded=guarded,
    )
    metrics.add(*_gauges(egress, short, long))
    return egress


def _sockets(urls: tuple[str, ...], default_port: int) -> Iterator[OwnSocket]:
    for url in urls:
        parts = urlsplit(url if "//" in url else f"//{url}")
        if parts.hostname:
            yield OwnSocket(parts.hostname, parts.port or default_port)


def _gauges(egress: Egress, short: Shares, long: Shares) -> list[LabelledGauge]:
    pools = (("webhooks", short), ("forwards", long))
    outs = tuple(egress.named())
    return [
        LabelledGauge(
            "pykcp_tenant_egress_connections",
            "Outgoing requests for tenants in progress.",
            ("pool",),
            lambda: [((name,), pool.taken) for name, pool in pools],
        ),
        LabelledGauge(
            "pykcp_tenant_egress_waiting",
            "Outgoing requests for tenants waiting for a connection.",
            ("pool",),
            lambda: [((name,), pool.waiting) for name, pool in pools],
        ),
        LabelledGauge(
            "pykcp_tenant_egress_refused",
            "Outgoing requests for tenants denied since start because of their destination.",
            ("purpose",),
            lambda: [((name,), out.refused) for name, out in outs],
        ),
    ]
