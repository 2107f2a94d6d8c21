"""Clusters of the mode Pull whose kubeconfig is known: their syncer is installed from here."""

from __future__ import annotations

import logging

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.status import StatusError
from pykcp.multicluster.clusters import report
from pykcp.multicluster.clusters.connection import (
    InvalidKubeconfig,
    Resolve,
    open_client,
)
from pykcp.multicluster.clusters.installing import NotInstallable, SyncerInstaller
from pykcp.multicluster.clusters.kubeconfigs import ClusterKubeconfigs, ClusterRefused
from pykcp.multicluster.clusters.manifest import PulledCluster, UnlistableTypes
from pykcp.multicluster.clusters.report import Mark
from pykcp.multicluster.clusters.sessions import fingerprint
from pykcp.multicluster.clusters.settings import ClusterSettings
from pykcp.types import Object

_log = logging.getLogger(__name__)

_INSTALL_AGAIN = 5.0
"""Seconds until a syncer that could not be installed is tried again."""


class PulledClusters:
    def __init__(
        self,
        client: Client,
        kubeconfigs: ClusterKubeconfigs,
        settings: ClusterSettings,
        resolve: Resolve,
    ) -> None:
        self._kubeconfigs, self._settings, self._resolve = kubeconfigs, settings, resolve
        self._installer = SyncerInstaller(client, settings.syncer_image)
        self._installed: dict[ObjectKey, str] = {}

    async def install(self, cluster: Object, key: ObjectKey) -> tuple[Mark | None, float | None]:
        """Install the syncer where the kubeconfig is known; otherwise users apply its manifest."""
        spec = cluster.get("spec") or {}
        if not (spec.get("kubeconfig") or spec.get("kubeconfigSecretRef")):
            return None, None
        wanted = tuple(spec.get("syncResources") or self._settings.resources)
        try:
            kubeconfig = await self._kubeconfigs.read(spec, key)
            print_of = fingerprint(meta.uid(cluster), kubeconfig, wanted)
            if self._installed.get(key) == print_of:
                return report.true(report.SYNCER_READY), None
            client = await open_client(
                await self._kubeconfigs.parse(kubeconfig, key), key.cluster, self._resolve
            )
            try:
                pulled = PulledCluster(key.cluster, key.name, meta.uid(cluster))
                await self._installer.install(pulled, wanted, client)
            finally:
                client.close()
        except (ClusterRefused, InvalidKubeconfig) as error:
            return report.false(report.SYNCER_READY, report.INVALID_KUBECONFIG, str(error)), None
        except (NotInstallable, UnlistableTypes, StatusError, SendFailed) as error:
            reason = report.ERROR_INSTALLING
            return report.false(report.SYNCER_READY, reason, str(error)), _INSTALL_AGAIN
        self._installed[key] = print_of
        return report.true(report.SYNCER_READY), None

    async def uninstall(self, cluster: Object, key: ObjectKey) -> None:
        """Remove the syncer that was installed, if the cluster can be reached."""
        if self._installed.pop(key, None) is None:
            return
        try:
            text = await self._kubeconfigs.read(cluster.get("spec") or {}, key)
            endpoint = await self._kubeconfigs.parse(text, key)
            client = await open_client(endpoint, key.cluster, self._resolve)
        except (ClusterRefused, InvalidKubeconfig, SendFailed) as error:
            _log.warning("the syncer of cluster %s is left in it: %s", key.name, error)
            return
        try:
            pulled = PulledCluster(key.cluster, key.name, meta.uid(cluster))
            await self._installer.uninstall(pulled, client)
        except StatusError as error:
            _log.warning("the syncer of cluster %s is left in it: %s", key.name, error)
        finally:
            client.close()
