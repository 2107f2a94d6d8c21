"""The sessions of Clusters that the control plane connects to, one for each Cluster object."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.multicluster.clusters import report
from pykcp.multicluster.clusters.connection import (
    InvalidKubeconfig,
    Resolve,
    open_client,
)
from pykcp.multicluster.clusters.health import ClusterHealth
from pykcp.multicluster.clusters.kubeconfigs import ClusterKubeconfigs, ClusterRefused
from pykcp.multicluster.clusters.session import ClusterSession, RegisteredCluster
from pykcp.multicluster.clusters.settings import ClusterSettings
from pykcp.multicluster.importing.importer import ImportTarget, TypeImporter
from pykcp.types import Object


class ClusterSessions:
    def __init__(
        self,
        client: Client,
        kubeconfigs: ClusterKubeconfigs,
        settings: ClusterSettings,
        resolve: Resolve,
        changed: Callable[[ObjectKey], None],
    ) -> None:
        """`changed`: called when there is something new to report about a Cluster."""
        self._client, self._kubeconfigs, self._settings = client, kubeconfigs, settings
        self._resolve, self._changed = resolve, changed
        self._sessions: dict[ObjectKey, tuple[str, ClusterSession]] = {}

    def get(self, key: ObjectKey) -> ClusterSession | None:
        """The session that a Cluster has, whether or not it fits the object."""
        found = self._sessions.get(key)
        return found[1] if found is not None else None

    async def fitting(self, cluster: Object, key: ObjectKey) -> ClusterSession:
        """The session that fits the object. Raises ClusterRefused."""
        spec = cluster.get("spec") or {}
        kubeconfig = await self._kubeconfigs.read(spec, key)
        wanted = tuple(spec.get("syncResources") or self._settings.resources)
        strategy = spec.get("schemaUpdateStrategy") or ""
        uid = meta.uid(cluster)
        print_of = fingerprint(uid, kubeconfig, wanted, strategy)
        known = self._sessions.get(key)
        if known is not None and known[0] == print_of:
            return known[1]
        await self.end(key)
        try:
            endpoint = await self._kubeconfigs.parse(kubeconfig, key)
            client = await open_client(endpoint, key.cluster, self._resolve)
        except InvalidKubeconfig as error:
            raise ClusterRefused(report.INVALID_KUBECONFIG, str(error)) from None
        except SendFailed as error:
            raise ClusterRefused(report.ERROR_CLIENT, str(error)) from None
        # A new kubeconfig may be the remedy of an outage: then readiness need not be waited for.
        before = report.verdict_of(cluster)
        is_new = known is not None or before is None
        health = ClusterHealth(
            self._settings, time.monotonic(), None if is_new else before, probes=True
        )
        target = ImportTarget(key.cluster, key.name, uid, wanted, strategy)
        changed = partial(self._changed, key)
        importer = TypeImporter(
            self._client,
            client,
            target,
            changed,
            prefix=client.prefix,
            compute=self._kubeconfigs.compute,
        )
        session = ClusterSession(
            RegisteredCluster(key, uid), client, importer, health, self._settings, changed
        )
        self._sessions[key] = (print_of, session)
        session.start()
        return session

    async def end(self, key: ObjectKey) -> None:
        known = self._sessions.pop(key, None)
        if known is not None:
            await known[1].stop()

    async def end_all(self) -> None:
        for key in list(self._sessions):
            await self.end(key)


def fingerprint(*parts: object) -> str:
    """Changes with anything that a session, or an installation, depends on."""
    return sha256(repr(parts).encode()).hexdigest()
