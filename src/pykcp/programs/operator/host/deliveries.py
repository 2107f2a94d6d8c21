"""Changes of workloads that run on other hosts: renewed certificates above all.

The host that configures an installation encrypts each workload that was exported, with a key that
only the archive of `kcp export` contains, and puts it into a Secret of `root`. The host that
imported the workload fetches it from the root shard, with the workload's own certificate.
A description that is older than the last one is refused, so that nobody can bring back old keys.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import pathlib
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pykcp.clients.credential_files import CredentialError
from pykcp.clients.kubeconfig import KubeconfigServer, load_endpoint
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.connect import client_of
from pykcp.machinery.kcp.clusters import ROOT
from pykcp.machinery.resources import NAMESPACES, SECRETS
from pykcp.machinery.status import StatusError
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.access.connections import root_client
from pykcp.programs.operator.compiled import ROOT_SHARD, CompiledWorkload
from pykcp.programs.operator.configuration.virtual_workspaces import target_of
from pykcp.programs.operator.configuration.world import NotConfigurable, World, shard_url
from pykcp.programs.operator.host.archive import WorkloadArchive, install, seal, unseal
from pykcp.programs.operator.host.layout import HostFiles, read_json, write_json
from pykcp.programs.operator.names import MANAGER
from pykcp.types import Object

_log = logging.getLogger(__name__)
NAMESPACE = "kcp-deliveries"
FETCH_SECONDS = 60.0
_SECONDS = 15.0
_KUBECONFIGS = ("--root-shard-kubeconfig-file=", "--root-kubeconfig=")
"""Arguments of shards and proxies: how they reach the root shard."""
FAILURES = (StatusError, SettingsError, CredentialError, NotConfigurable)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one host keeps about a workload: the key, and what was sent or received last."""

    workload: str
    key: str
    revision: str = ""
    made: float = 0.0
    server: str = ""
    """The URL of the root shard, on the host that receives."""

    @property
    def secret(self) -> str:
        return f"delivery-{self.workload}"


class DeliveryFiles:
    """`exported/` on the host that configures, `deliveries/` on the other one."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def all(self) -> Iterator[Delivery]:
        for path in sorted(self._directory.glob("*.json")):
            if found := read_json(path):
                yield Delivery(**found)

    def get(self, workload: str) -> Delivery | None:
        found = read_json(self._directory / f"{workload}.json")
        return Delivery(**found) if found else None

    def save(self, delivery: Delivery) -> None:
        names = Delivery.__dataclass_fields__
        value: Object = {name: getattr(delivery, name) for name in names}
        write_json(self._directory / f"{delivery.workload}.json", value)


def exported(files: HostFiles) -> DeliveryFiles:
    return DeliveryFiles(files.root / "exported")


def received(files: HostFiles) -> DeliveryFiles:
    return DeliveryFiles(files.root / "deliveries")


def delivery_keys(files: HostFiles, workloads: list[CompiledWorkload]) -> dict[str, str]:
    """A key for each workload that is exported; it stays the same from one export to the next."""
    kept, keys = exported(files), {}
    for one in workloads:
        known = kept.get(one.name) or Delivery(one.name, secrets.token_hex(32))
        kept.save(Delivery(known.workload, known.key, one.revision, time.time()))
        keys[one.name] = known.key
    return keys


def root_servers(workloads: list[CompiledWorkload], world: World | None) -> dict[str, str]:
    """Where each workload finds the root shard, if it belongs to one."""
    if world is None:
        return {}
    roots = {one.name: _root_of(world, one) for one in workloads}
    return {
        name: shard_url(world, root, ROOT_SHARD) for name, root in roots.items() if root is not None
    }


def accept_keys(archive: WorkloadArchive, files: HostFiles) -> None:
    """Keep the keys of an imported archive."""
    for workload in archive.workloads:
        if key := archive.keys.get(workload.name):
            server = archive.servers.get(workload.name, "")
            received(files).save(
                Delivery(workload.name, key, workload.revision, archive.made, server)
            )


# -- the host that configures ----------------------------------------------------------------------


async def deliver(files: HostFiles, remote: list[CompiledWorkload], world: World) -> bool:
    """Send what has changed since it was exported or sent; whether nothing is left to send."""
    is_done = True
    for workload in remote:
        known = exported(files).get(workload.name)
        if known is None or known.revision == workload.revision:
            continue
        client: RemoteClient | None = None
        try:
            root = _root_of(world, workload)
            if root is not None:
                client = root_client(world, root)
                await _send(client, files, workload, known)
        except FAILURES as error:
            _log.info("%s cannot be delivered: %s", workload.name, error)
            is_done = False
        finally:
            if client is not None:
                client.http.close()
    return is_done


def _root_of(world: World, workload: CompiledWorkload) -> Object | None:
    """The RootShard of a workload; None for one that has none: a cache server."""
    obj = world.get(workload.owner.kind, workload.owner.name)
    if obj is None or obj["kind"] == "CacheServer":
        return None
    if obj["kind"] == "RootShard":
        return obj
    try:
        if obj["kind"] == "VirtualWorkspace":
            return target_of(world, obj)[1]
        return world.root_of(obj)
    except NotConfigurable:  # what it refers to is gone
        return None


async def _send(
    client: RemoteClient, files: HostFiles, workload: CompiledWorkload, known: Delivery
) -> None:
    made = time.time()
    archive = WorkloadArchive(str(files.root), (workload,), {}, {}, made)
    sealed = await asyncio.to_thread(seal, archive, known.key.encode())
    await client.apply(ROOT, NAMESPACES, _object("v1", "Namespace", NAMESPACE), force=True)
    secret = _object("v1", "Secret", known.secret)
    secret["metadata"]["namespace"] = NAMESPACE
    secret["data"] = {"archive": base64.b64encode(sealed).decode()}
    await client.apply(ROOT, SECRETS, secret, force=True)
    exported(files).save(Delivery(known.workload, known.key, workload.revision, made))
    _log.info("%s was changed: its host fetches it", workload.name)


def _object(version: str, kind: str, name: str) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


# -- the host that runs the workload ---------------------------------------------------------------


async def fetch(files: HostFiles, imported: list[CompiledWorkload]) -> list[str]:
    """Take over what was sent for imported workloads; the names of those that have changed."""
    changed = []
    for workload in imported:
        known = received(files).get(workload.name)
        if known is None:
            continue
        try:
            endpoint = _endpoint(workload, known)
            if endpoint is not None and await _receive(files, known, endpoint):
                changed.append(workload.name)
        except FAILURES as error:
            _log.info("%s: nothing could be fetched from the root shard: %s", workload.name, error)
    return changed


def _endpoint(workload: CompiledWorkload, known: Delivery) -> KubeconfigServer | None:
    """The root shard, with the certificate that the workload itself has."""
    for word in workload.arguments:
        for flag in _KUBECONFIGS:
            if word.startswith(flag):
                return load_endpoint(word.removeprefix(flag))
    pair = {
        one.source.key: one.content
        for one in workload.files
        if one.source is not None and one.source.name == f"{workload.owner.name}-client"
    }
    authority = workload.file(workload.listen.authority)
    if not known.server or authority is None or not pair.keys() >= {"tls.crt", "tls.key"}:
        return None
    return KubeconfigServer(
        known.server,
        authority=authority.content,
        certificate=pair["tls.crt"],
        key=pair["tls.key"],
    )


async def _receive(files: HostFiles, known: Delivery, endpoint: KubeconfigServer) -> bool:
    client = client_of(endpoint, MANAGER, timeout=_SECONDS)
    try:
        secret = await client.get(ROOT, SECRETS, known.secret, NAMESPACE)
    finally:
        client.http.close()
    sealed = base64.b64decode(((secret or {}).get("data") or {}).get("archive") or "")
    if not sealed:
        return False
    archive = await asyncio.to_thread(unseal, sealed, known.key.encode())
    (workload,) = archive.workloads
    if archive.made <= known.made or workload.name != known.workload:
        return False
    install(archive, files)
    received(files).save(replace(known, revision=workload.revision, made=archive.made))
    _log.info("%s was changed by the host that configures it", workload.name)
    return True
