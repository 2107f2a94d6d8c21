"""Whether a namespace of the cluster has anything in it that would be deleted with it.

The deletion of a namespace deletes objects of every type: also copies of types that are synchronized
no longer, and what others put there. So every type of the cluster is asked, and whatever cannot be
read counts as something: only a complete look without an object is proof.
"""

from __future__ import annotations

import logging
import re

from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import StatusError
from pykcp.multicluster.syncer.servers import DownstreamClient
from pykcp.multicluster.syncer.types import Discovering

_log = logging.getLogger(__name__)

_NOTES = frozenset((("", "events"), ("events.k8s.io", "events")))
"""What is only said about other objects."""
_EVERY_NAMESPACE_HAS = re.compile(
    r"""
    configmaps/(kube-root-ca\.crt | openshift-service-ca\.crt | istio-ca-root-cert)
    | serviceaccounts/(default | builder | deployer)
    | secrets/(default | builder | deployer)-(token | dockercfg)-[a-z0-9]{5}
    | rolebindings/system:(image-pullers | image-builders | deployers)
    """,
    re.VERBOSE,
).fullmatch
"""Made by controllers of clusters in every namespace, as plural/name."""
_PAGE = 10


class NamespaceContents:
    """Looks into namespaces; the types of the cluster are read once."""

    def __init__(self, client: DownstreamClient) -> None:
        self._client = client
        self._types: list[GroupVersionResource] | None = None

    async def is_empty(self, namespace: str) -> bool:
        """Whether it is known that nothing is in it."""
        try:
            if self._types is None:
                self._types = await deletable_types(self._client)
            for kind in self._types:
                if await self._has(kind, namespace):
                    return False
        except StatusError as error:
            _log.info(
                "namespace %s of the cluster is kept, its content is not known: %s",
                namespace,
                error,
            )
            return False
        return True

    async def _has(self, kind: GroupVersionResource, namespace: str) -> bool:
        async for page in self._client.metadata("", kind, namespace, size=_PAGE):
            if any(not is_in_every_namespace(kind.resource, one.name) for one in page):
                _log.debug("namespace %s of the cluster is kept: it has %s", namespace, kind)
                return True
        return False


def is_in_every_namespace(resource: str, name: str) -> bool:
    return _EVERY_NAMESPACE_HAS(f"{resource}/{name}") is not None


async def deletable_types(client: Discovering) -> list[GroupVersionResource]:
    """The types whose objects go with their namespace, each in one version.

    Raises StatusError if a part of discovery cannot be read.
    """
    found: dict[tuple[str, str], GroupVersionResource] = {}
    versions = [("", "v1", "/api/v1")]
    for group in (await client.send("GET", "/apis")).get("groups") or ():
        preferred = (group.get("preferredVersion") or {}).get("version")
        names = [one["version"] for one in group.get("versions") or ()]
        names.sort(key=lambda name: name != preferred)  # the others may have more types
        versions += [(group["name"], name, f"/apis/{group['name']}/{name}") for name in names]
    for group_name, version, path in versions:
        document = await client.send("GET", path)
        for entry in document.get("resources") or ():
            name = entry["name"]
            verbs = set(entry.get("verbs") or ())
            # What cannot be deleted, as reports of metrics, is not deleted with a namespace either.
            if not entry.get("namespaced") or "/" in name or not {"list", "delete"} <= verbs:
                continue
            if (group_name, name) not in _NOTES:
                kind = GroupVersionResource(group_name, version, name)
                found.setdefault((group_name, name), kind)
    return list(found.values())
