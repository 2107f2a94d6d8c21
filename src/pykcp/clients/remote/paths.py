"""Paths of objects and collections in any logical cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

from pykcp.machinery.resources import GroupVersionResource

_CLUSTERS = "/clusters/"


def collection_path(cluster: str, kind: GroupVersionResource, namespace: str = "") -> str:
    """Where the objects of a kind are; with the cluster "", those of the server itself."""
    group, version, resource = kind
    root = f"{_CLUSTERS}{quote(cluster, safe=':*')}" if cluster else ""
    api = f"/apis/{group}/{version}" if group else f"/api/{version}"
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{api}{inside}/{quote(resource, safe=':')}"


def object_path(
    cluster: str, kind: GroupVersionResource, name: str, namespace: str = "", subresource: str = ""
) -> str:
    suffix = f"/{subresource}" if subresource else ""
    # Names of RBAC objects may hold colons, which need no escape.
    return f"{collection_path(cluster, kind, namespace)}/{quote(name, safe=':')}{suffix}"


def with_query(path: str, query: Mapping[str, str | int | None]) -> str:
    """The path with those parameters that have a value."""
    given = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def server_root(url: str) -> str:
    """The address of a server, without the logical cluster that a kubeconfig may name."""
    return url.partition(_CLUSTERS)[0].rstrip("/")


def path_before_clusters(url: str) -> str:
    """The path of the virtual workspace that an address leads to; empty if it leads to none."""
    return urlsplit(server_root(url)).path.rstrip("/")


def cluster_of(url: str) -> str:
    """The logical cluster that an address names; empty if it names none."""
    return url.partition(_CLUSTERS)[2].partition("?")[0].strip("/")
