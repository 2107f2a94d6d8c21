"""Installs the syncer in a cluster of the mode Pull whose kubeconfig is known.

The control plane connects to the cluster for that only; afterwards the syncer reports by itself.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from pykcp.clients.interface import Client
from pykcp.machinery import meta
from pykcp.machinery.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LOGICAL_CLUSTERS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    GroupVersionResource,
)
from pykcp.machinery.status import AlreadyExists, NotFound
from pykcp.multicluster.clusters.connection import ClusterClient
from pykcp.multicluster.clusters.manifest import (
    ACCOUNT_NAMESPACE,
    PulledCluster,
    account_objects,
    kubeconfig,
    syncer_objects,
)
from pykcp.types import Object

_KINDS = {
    "Namespace": NAMESPACES,
    "ServiceAccount": SERVICE_ACCOUNTS,
    "Secret": SECRETS,
    "ClusterRole": CLUSTER_ROLES,
    "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
    "Deployment": GroupVersionResource("apps", "v1", "deployments"),
}


class NotInstallable(Exception):
    """Something is missing; the text says what."""


class SyncerInstaller:
    def __init__(self, client: Client, image: str) -> None:
        self._client, self._image = client, image

    async def install(
        self, cluster: PulledCluster, resources: Sequence[str], downstream: ClusterClient
    ) -> None:
        """Bring the manifest to the cluster. Raises NotInstallable, StatusError."""
        if not self._image:
            raise NotInstallable("no image of the syncer is set (--syncer-image)")
        found = await self._client.get(cluster.workspace, LOGICAL_CLUSTERS, "cluster") or {}
        url = (found.get("status") or {}).get("URL")
        if not url:
            raise NotInstallable("the address of the workspace is not known")
        for obj in account_objects(cluster):
            await self._ensure(cluster.workspace, obj)
        token, authority = await self._token(cluster)
        text = kubeconfig(cluster, url, authority, token)
        for obj in syncer_objects(cluster, resources, self._image, text):
            await downstream.apply("", _KINDS[obj["kind"]], obj, force=True)

    async def uninstall(self, cluster: PulledCluster, downstream: ClusterClient) -> None:
        """Remove it again."""
        await downstream.delete("", NAMESPACES, cluster.namespace)
        for kind in (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES):
            await downstream.delete("", kind, cluster.namespace)

    async def _ensure(self, workspace: str, obj: Object) -> None:
        kind = _KINDS[obj["kind"]]
        try:
            await self._client.create(workspace, kind, obj)
        except AlreadyExists:
            if obj["kind"] != "ClusterRole":
                return

            def allow(live: Object) -> None:
                live["rules"] = obj["rules"]

            try:
                await self._client.change(workspace, kind, meta.name(obj), allow)
            except NotFound:
                return

    async def _token(self, cluster: PulledCluster) -> tuple[str, str]:
        found = await self._client.get(
            cluster.workspace, SECRETS, cluster.account, ACCOUNT_NAMESPACE
        )
        data = (found or {}).get("data") or {}
        if not data.get("token"):
            raise NotInstallable("the token of the account is not made yet")
        token, authority = (
            base64.b64decode(data.get(key) or "").decode() for key in ("token", "ca.crt")
        )
        return token, authority
