"""Connections to the clusters of a workspace, for requests about their pods.

They are made when the first request asks for them. Clusters without a kubeconfig are reached
through the connections that their syncers open.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from hashlib import sha256
from urllib.parse import quote

import orjson

from pykcp.aio.slices import Slices
from pykcp.caching import BoundedCache
from pykcp.clients.direct import OneServer
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Forwarder
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.trust import Trust
from pykcp.clients.interface import Client
from pykcp.machinery.kcp.clusters import ROOT
from pykcp.machinery.labels import parse
from pykcp.machinery.meta import annotations as annotations_of
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import API_BINDINGS, NAMESPACES, SECRETS
from pykcp.machinery.status import ServiceUnavailable, StatusError
from pykcp.multicluster.clusters.connection import (
    ClusterClient,
    InvalidKubeconfig,
    Resolve,
    open_client,
    parse_kubeconfig,
    resolve_any,
)
from pykcp.multicluster.elsewhere import ClustersElsewhere, NoOtherShards
from pykcp.multicluster.names import (
    CLUSTER_LABEL,
    CLUSTERS,
    DOWNSTREAM_CLUSTER,
    NAMESPACE_LOCATOR,
    Locator,
    home_shard,
    parse_locator,
    short_hash,
)
from pykcp.multicluster.syncer.settings import Registration
from pykcp.multicluster.through.pods import own_version, shown_pod
from pykcp.multicluster.through.watching import PODS, PodFollower, Tell
from pykcp.types import Object
from pykcp.wire.exchange import Header

_CONNECTIONS = 64
"""Clusters whose connections are kept; idle ones close by themselves."""


class ReachedCluster:
    """One cluster of a workspace."""

    def __init__(self, registration: Registration, client: ClusterClient, workspace: str) -> None:
        """`workspace`: whose pods are asked for, that of the registration or one it serves."""
        self._registration, self._client, self._workspace = registration, client, workspace
        self.name = registration.label_in(workspace)
        self.key = short_hash(registration.uid, 6)
        self.forwarder = Forwarder(OneServer(client.http), Trust.of_files(""))

    async def pods(self, namespace: str, labels: str, fields: str) -> tuple[list[Object], str]:
        rest = self._selector(labels)
        found: list[Object] = []
        versions: list[str] = []
        places = await self._places(namespace) if rest is not None else {}
        for place, origin in places.items():
            listed, version = await self._client.list_with_version(
                "", PODS, place, labels=rest or "", fields=fields
            )
            slices = Slices(self._workspace)
            for pod in listed:
                found.append(self._shown(pod, origin))
                if slices.is_over():
                    await slices.next()
            if not version.isdecimal():
                raise ServiceUnavailable(f"the cluster has the resource version {version[:20]!r}")
            versions.append(version)
        # From the oldest of them on nothing is missed.
        return found, min(versions, key=int, default="0")

    def _selector(self, labels: str) -> str | None:
        """What the cluster is asked for: the label of the cluster is added here, so that it cannot
        select by it. None if no pod of this cluster matches.
        """
        own = {CLUSTER_LABEL: self.name}
        requirements = parse(labels).requirements
        if not all(one.matches(own) for one in requirements if one.key == CLUSTER_LABEL):
            return None
        return ",".join(str(one) for one in requirements if one.key != CLUSTER_LABEL)

    async def follow(
        self, namespace: str, labels: str, fields: str, version: str, tell: Tell
    ) -> None:
        rest = self._selector(labels)
        if rest is None:
            await asyncio.Event().wait()
            return
        follower = PodFollower(self._client, rest, fields, self._shown, tell)
        if namespace:
            await follower.run_in(self._place(namespace), namespace, version)
        else:
            await follower.run_everywhere(self._mine(), self._origin, version)

    def _mine(self) -> str:
        return f"{DOWNSTREAM_CLUSTER}={self._registration.downstream_label}"

    def _origin(self, found: Object) -> str | None:
        """The namespace of the workspace that one of the cluster stands for."""
        locator = parse_locator(annotations_of(found).get(NAMESPACE_LOCATOR, ""))
        if locator is None or locator != self._locator(locator.namespace):
            return None
        return locator.namespace

    async def _places(self, namespace: str) -> dict[str, str]:
        """Namespaces of the cluster, and those of the workspace that they are for."""
        if namespace:
            return {self._place(namespace): namespace}
        listed = await self._client.list("", NAMESPACES, labels=self._mine())
        pairs = ((one["metadata"]["name"], self._origin(one)) for one in listed)
        return {place: origin for place, origin in pairs if origin is not None}

    async def pod(self, namespace: str, name: str) -> Object | None:
        found = await self._client.get("", PODS, name, self._place(namespace))
        return None if found is None else self._shown(found, namespace)

    async def delete(self, namespace: str, name: str, options: bytes) -> Object:
        path = f"/api/v1/namespaces/{self._place(namespace)}/pods/{quote(name, safe='')}"
        body: Object = orjson.loads(options) if options else {}
        conditions = body.get("preconditions") or {}
        if conditions.get("resourceVersion"):
            conditions["resourceVersion"] = own_version(conditions["resourceVersion"], self.key)
        answer = await self._client.send("DELETE", path, body)
        return self._shown(answer, namespace) if answer.get("kind") == "Pod" else answer

    def url(self, namespace: str, name: str, subresource: str, query: str) -> str:
        place, server = self._place(namespace), self._client.http.server
        host = f"[{server.host}]" if ":" in server.host else server.host
        path = f"/api/v1/namespaces/{place}/pods/{quote(name, safe='')}/{subresource}"
        asked = f"?{query}" if query else ""
        return f"{server.scheme}://{host}:{server.port}{self._client.prefix}{path}{asked}"

    def headers(self) -> list[Header]:
        server = self._client.http.server
        own = [one for one in self._client.headers() if one[0] == "authorization"]
        return [*own, ("host", f"{server.host}:{server.port}")]

    def _place(self, namespace: str) -> str:
        return self._locator(namespace).downstream_namespace()

    def _locator(self, namespace: str) -> Locator:
        registration = self._registration
        return Locator(registration.installation, registration.uid, self._workspace, namespace)

    def _shown(self, pod: Object, namespace: str) -> Object:
        return shown_pod(pod, self._workspace, namespace, self)


class WorkspaceClusters:
    """The clusters of all workspaces of a shard."""

    def __init__(
        self,
        client: Client,
        has_clusters: Callable[[str], bool],
        resolve: Resolve = resolve_any,
        tunnel: Callable[[str], HttpClient | None] = lambda _: None,
        elsewhere: ClustersElsewhere | None = None,
    ) -> None:
        """`has_clusters`: whether a logical cluster of this shard has Cluster objects; `tunnel`:
        connections that the syncer of a Cluster opened, by the UID of the Cluster; `elsewhere`:
        Clusters of other shards.
        """
        self._client, self._has_clusters, self._resolve = client, has_clusters, resolve
        self._tunnel, self._elsewhere = tunnel, elsewhere or NoOtherShards()
        self._clients: BoundedCache[tuple[str, str], ClusterClient] = BoundedCache(
            "multicluster_pods", _CONNECTIONS
        )

    async def reach(self, cluster: str) -> Sequence[ReachedCluster]:
        """The clusters of a workspace, and of those whose APIs it binds."""
        near, far = list[Object](), list[Object]()
        for provider in sorted({cluster, *await self._bound(cluster)}):
            if self._has_clusters(provider):
                near += await self._client.list(provider, CLUSTERS)
            else:
                far += self._elsewhere.all(provider)
        found = await asyncio.gather(*(self._connect(one, cluster) for one in near))
        found += [self._through_its_shard(one, cluster) for one in far]
        return [one for one in found if one is not None]

    async def find(self, key: ObjectKey, uid: str) -> ClusterClient | None:
        """A client for one cluster of this shard; None if there is no way to it."""
        cluster = await self._client.get(key.cluster, CLUSTERS, key.name)
        if cluster is None or cluster["metadata"]["uid"] != uid:
            return None
        return await self._client_of(cluster)

    async def _bound(self, cluster: str) -> set[str]:
        """Workspaces whose APIs a workspace binds; those of root are bound by all."""
        found = {
            (binding.get("status") or {}).get("apiExportClusterName") or ""
            for binding in await self._client.list(cluster, API_BINDINGS)
        }
        return found - {"", ROOT}

    async def _connect(self, cluster: Object, workspace: str) -> ReachedCluster | None:
        client = await self._client_of(cluster)
        if client is None:
            return None
        return ReachedCluster(Registration.of(cluster), client, workspace)

    def _through_its_shard(self, cluster: Object, workspace: str) -> ReachedCluster | None:
        """Credentials stay where the Cluster is: its shard passes requests on."""
        registration = Registration.of(cluster)
        key = (registration.uid, home_shard(cluster))
        client = self._clients.get(key)
        if client is None:
            try:
                client = self._clients.put(key, self._elsewhere.open(cluster))
            except StatusError:
                return None  # its shard is not known here yet
        return ReachedCluster(registration, client, workspace)

    async def _client_of(self, cluster: Object) -> ClusterClient | None:
        registration = Registration.of(cluster)
        text = await self._kubeconfig(registration.workspace, cluster.get("spec") or {})
        if not text:
            http = self._tunnel(registration.uid)
            return None if http is None else ClusterClient(http, "")
        key = (registration.uid, sha256(text.encode()).hexdigest())
        client = self._clients.get(key)
        if client is None:
            try:
                endpoint = await parse_kubeconfig(text)
                client = await open_client(endpoint, registration.workspace, self._resolve)
            except (InvalidKubeconfig, SendFailed):
                return None  # a condition of the Cluster says why
            client = self._clients.put(key, client)
        client.identity = (cluster.get("status") or {}).get("uid") or ""
        return client

    async def _kubeconfig(self, workspace: str, spec: Object) -> str:
        reference = spec.get("kubeconfigSecretRef")
        if not reference:
            return spec.get("kubeconfig") or ""
        try:
            secret = await self._client.get(
                workspace, SECRETS, reference["name"], reference["namespace"]
            )
        except StatusError:
            return ""
        data = (secret or {}).get("data") or {}
        try:
            return base64.b64decode(data.get(reference.get("key") or "kubeconfig", "")).decode()
        except (binascii.Error, UnicodeDecodeError):
            return ""
