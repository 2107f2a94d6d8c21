"""The kubeconfigs of Clusters: inline, or in Secrets, which are followed."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from pykcp.clients.interface import Client
from pykcp.clients.kubeconfig import KubeconfigServer
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import SECRETS
from pykcp.multicluster.clusters import report
from pykcp.multicluster.clusters.connection import parse_kubeconfig
from pykcp.multicluster.clusters.health import Readiness
from pykcp.multicluster.computing import Compute
from pykcp.types import Object


class ClusterRefused(Exception):
    """A Cluster cannot be used as it is."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.verdict = Readiness("False", reason, message)


class ClusterKubeconfigs:
    def __init__(self, client: Client, compute: Compute) -> None:
        """`compute`: how long ones are read."""
        self._client, self.compute = client, compute
        self._users: dict[ObjectKey, set[ObjectKey]] = {}
        """Clusters by the Secrets that have their kubeconfigs."""

    def users_of(self, secret: ObjectKey) -> Iterable[ObjectKey]:
        """The Clusters whose kubeconfig is in a Secret."""
        return self._users.get(secret, ())

    async def read(self, spec: Object, key: ObjectKey) -> str:
        """The kubeconfig of a Cluster. Raises ClusterRefused."""
        self.forget(key)
        reference = spec.get("kubeconfigSecretRef")
        if reference is None:
            inline: str = spec.get("kubeconfig") or ""
            if not inline:
                message = "set spec.kubeconfig or spec.kubeconfigSecretRef"
                raise ClusterRefused(report.NO_KUBECONFIG, message)
            return inline
        namespace, name = reference["namespace"], reference["name"]
        self._users.setdefault(ObjectKey(key.cluster, namespace, name), set()).add(key)
        secret = await self._client.get(key.cluster, SECRETS, name, namespace)
        what = f"secret {namespace}/{name}"
        if secret is None:
            raise ClusterRefused(report.INVALID_KUBECONFIG, f"{what} does not exist")
        entry = reference.get("key") or "kubeconfig"
        content = (secret.get("data") or {}).get(entry)
        if not content:
            raise ClusterRefused(report.INVALID_KUBECONFIG, f'{what} has no key "{entry}"')
        try:
            return base64.b64decode(content).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ClusterRefused(report.INVALID_KUBECONFIG, f"{what} has no text") from None

    async def parse(self, text: str, key: ObjectKey) -> KubeconfigServer:
        """The server of a kubeconfig. Raises InvalidKubeconfig, StatusError."""
        return await parse_kubeconfig(text, self.compute, key.cluster)

    def forget(self, key: ObjectKey) -> None:
        """A Cluster uses no Secret any more."""
        for secret in [s for s, users in self._users.items() if key in users]:
            self._users[secret].discard(key)
            if not self._users[secret]:
                del self._users[secret]
