"""Workloads that this host configures and another one runs: whether they answer, as seen from here.

Nothing else is known of them. They are asked at the address that proxies and users have, and their
certificates are verified, so that it is not some other server that answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import urlsplit

from pykcp.aio.owner import spawn
from pykcp.clients.http.interface import Server
from pykcp.clients.http.trust import Trust
from pykcp.programs.operator.compiled import CompiledWorkload, Probe
from pykcp.programs.operator.configuration.status import ReplicaCounts
from pykcp.programs.operator.drivers.process.probing import probe_server
from pykcp.programs.operator.host.installation import ConfiguredHost, host_of
from pykcp.wire.tls_trust import verifying_context

LOOK_SECONDS = 10.0
_READY = Probe("/readyz", 0, LOOK_SECONDS, 1, timeout=5.0)
_NOT_ASKED = "it has not been asked yet"


async def look_elsewhere(configured: ConfiguredHost) -> dict[str, str]:
    """Why each workload of other hosts does not count as ready; "" if it is. By workload."""
    tasks = {
        one.name: spawn(_problem(configured, one), f"probe of {one.name}")
        for one in configured.remote
    }
    return {name: await task for name, task in tasks.items()}


async def _problem(configured: ConfiguredHost, workload: CompiledWorkload) -> str:
    url = urlsplit(_address(configured, workload))
    if not url.hostname or not url.port:
        return "it has no address"
    what = workload.probes.readiness or _READY
    trusted = workload.file(workload.listen.authority)
    trust = (
        Trust(partial(verifying_context, trusted.content.decode("ascii", "replace")))
        if trusted is not None
        else Trust.unverified()
    )
    server = Server("https", url.hostname, url.port, trust)
    outcome = await probe_server(server, Probe(what.path, 0, what.period, 1, _READY.timeout))
    return outcome.problem


def _address(configured: ConfiguredHost, workload: CompiledWorkload) -> str:
    """What the status of its object says; that of a proxy is what users enter."""
    configuration, owner = configured.configuration, workload.owner
    made = configuration.made.get((owner.kind, owner.name)) if configuration is not None else None
    return next(iter(made.addresses), "") if made is not None else ""


def states_elsewhere(
    configured: ConfiguredHost, found: Mapping[str, str]
) -> dict[str, ReplicaCounts]:
    """What is said of these workloads in the statuses of their objects."""
    hosts = {
        (one["kind"], one["metadata"]["name"]): host_of(one) for one in configured.manifests.objects
    }
    states = {}
    for one in configured.remote:
        problem = found.get(one.name, _NOT_ASKED)
        where = hosts.get((one.owner.kind, one.owner.name), "")
        message = f"runs on the host {where}: {problem}" if problem else ""
        states[one.name] = ReplicaCounts(1, 1, 1, message, is_unknown=bool(problem))
    return states


def ready_elsewhere(configured: ConfiguredHost, found: Mapping[str, str]) -> frozenset[str]:
    """The objects of workloads that answer: `Shard/alpha`."""
    return frozenset(
        f"{one.owner.kind}/{one.owner.name}"
        for one in configured.remote
        if found.get(one.name) == ""
    )


def owners_elsewhere(remote: Sequence[CompiledWorkload]) -> frozenset[str]:
    return frozenset(f"{one.owner.kind}/{one.owner.name}" for one in remote)
